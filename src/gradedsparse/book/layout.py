"""Where the parts of a book lie, and which chapters its table of contents names."""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import yaml

from gradedsparse.errors import GradedSparseError

CHAPTERS = PurePosixPath("book/chapters")
RERUNS = PurePosixPath("book/reruns")


@dataclass(frozen=True)
class Layout:
    """The folders and files of the book whose root folder is `root`."""

    root: Path

    @property
    def toc(self) -> Path:
        """The tracked table of contents."""
        return self.root / "_toc.yml"

    @property
    def profiles(self) -> Path:
        """The folder of the profiles, one YAML file each."""
        return self.root / "book" / "profiles"

    @property
    def reruns(self) -> Path:
        """The folder of the reruns, one executed notebook each."""
        return self.root / RERUNS

    @property
    def build(self) -> Path:
        """The folder of everything that can be made again, except executed notebooks."""
        return self.root / "_build"

    @property
    def html(self) -> Path:
        """The published site."""
        return self.build / "html"

    def source(self, chapter: str) -> Path:
        """The notebook without outputs of a chapter."""
        return self.root / "notebooks" / f"{chapter}.ipynb"

    def executed(self, chapter: str) -> Path:
        """The executed copy of a chapter."""
        return self.root / CHAPTERS / f"{chapter}.ipynb"


def find_root(start: Path | None = None) -> Path:
    """The root folder of the book around `start` (by default the working directory).

    Takes the nearest folder upwards that holds both `_toc.yml` and `notebooks/`; failing that,
    the checkout that this package is installed from. Raises GradedSparseError if there is none.
    """
    start = (start or Path.cwd()).resolve()
    package_checkout = Path(__file__).resolve().parents[3]
    for folder in (start, *start.parents, package_checkout):
        if (folder / "_toc.yml").is_file() and (folder / "notebooks").is_dir():
            return folder
    raise GradedSparseError(
        f"{start} is not inside a checkout of the book: no folder above it holds _toc.yml and notebooks/"
    )


def toc_files(toc: dict) -> list[str]:
    """Every page that a parsed table of contents names, in order, root first."""
    files = []

    def visit(node: object) -> None:
        if isinstance(node, dict):
            if "file" in node:
                files.append(node["file"])
            for value in node.values():
                visit(value)
        elif isinstance(node, list):
            for item in node:
                visit(item)

    visit({key: value for key, value in toc.items() if key != "root"})
    return [toc["root"], *files]


def read_toc(layout: Layout) -> dict:
    """The parsed `_toc.yml`; raises GradedSparseError if it is missing or has no root."""
    try:
        toc = yaml.safe_load(layout.toc.read_text(encoding="utf-8"))
    except (OSError, yaml.YAMLError) as error:
        raise GradedSparseError(f"_toc.yml cannot be read: {error}") from error
    if not isinstance(toc, dict) or "root" not in toc:
        raise GradedSparseError("_toc.yml names no root page")
    return toc


def chapter_names(layout: Layout) -> list[str]:
    """The chapters that `_toc.yml` names, in its order.

    Raises GradedSparseError if the notebook of one of them is missing.
    """
    pages = [PurePosixPath(file) for file in toc_files(read_toc(layout))]
    names = [page.name.removesuffix(".ipynb") for page in pages if page.parent == CHAPTERS]
    for name in names:
        if not layout.source(name).is_file():
            raise GradedSparseError(f"chapter {name} is in _toc.yml, but notebooks/{name}.ipynb does not exist")
    return names


def nearest(name: str, valid: list[str]) -> str | None:
    """The valid name most like `name`, among equals one of its length; None where there is no valid name at all."""

    def likeness(other: str) -> tuple[float, int]:
        return difflib.SequenceMatcher(None, name, other).ratio(), -abs(len(name) - len(other))

    return max(valid, key=likeness, default=None)


def find_chapter(wanted: str, names: list[str]) -> str:
    """The one chapter that `wanted` means: its number (`4`, `04`), its name or a prefix of it.

    Raises GradedSparseError, with the nearest name, if no chapter or more than one fits.
    """
    fitting = [name for name in names if name == wanted]
    if not fitting and wanted.isdigit():
        fitting = [name for name in names if _number(name) == int(wanted)]
    if not fitting:
        fitting = [name for name in names if name.startswith(wanted)] if wanted else []
    if len(fitting) == 1:
        return fitting[0]
    if fitting:
        raise GradedSparseError(f"chapter {wanted} could be any of {', '.join(fitting)}")
    numbered = [name for name in names if _number(name) is not None]
    if wanted.isdigit() and numbered:
        closest = min(numbered, key=lambda name: abs(_number(name) - int(wanted)))
    else:
        closest = nearest(wanted, names)
    raise GradedSparseError(f"there is no chapter {wanted!r}; the nearest is {closest} (chapters: {', '.join(names)})")


def _number(name: str) -> int | None:
    match = re.match(r"\d+", name)
    return int(match[0]) if match else None
