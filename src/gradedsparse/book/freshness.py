"""When an executed copy is up to date: a record of checksums of everything that it depends on."""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Iterable, Mapping
from pathlib import Path

from gradedsparse.book.layout import Layout
from gradedsparse.book.notebooks import Chapter, read
from gradedsparse.book.parameters import Setting
from gradedsparse.errors import GradedSparseError


def digest(content: object) -> str:
    """The SHA-256 of a value that JSON can hold."""
    text = json.dumps(content, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def file_digest(path: Path) -> str:
    """The SHA-256 of a file, or an empty string where there is none."""
    if not path.is_file():
        return ""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def tree_digest(root: Path, files: Iterable[Path]) -> str:
    """The SHA-256 of the names, relative to `root`, and contents of `files`."""
    return digest({path.relative_to(root).as_posix(): file_digest(path) for path in sorted(files)})


def source_digest(layout: Layout) -> str:
    """The SHA-256 of the whole package: the library, and the machinery that writes the panels."""
    package = layout.root / "src" / "gradedsparse"
    return tree_digest(layout.root, package.rglob("*.py"))


def environment_digest(layout: Layout) -> str:
    """The SHA-256 of the lock file and the Python version."""
    return digest([file_digest(layout.root / "requirements.lock"), platform.python_version()])


def record(
    layout: Layout,
    chapter: Chapter,
    settings: Mapping[str, Setting],
    profile: str,
    data: Mapping[str, str],
) -> dict[str, str]:
    """The checksums that the executed copy of a chapter depends on, by what they are of.

    `data` holds the checksum of each data set by name. Two equal records mean the same page.
    """
    cells = [[cell.cell_type, cell.source, cell.metadata] for cell in chapter.notebook.cells]
    return {
        "notebook": digest([cells, chapter.data]),
        "parameters": digest([[name, s.value, s.set_by] for name, s in settings.items()]),
        "profile": profile,
        "code": source_digest(layout),
        "data": digest(dict(data)),
        "published figures": file_digest(layout.root / "data" / "published.yaml"),
        "environment": environment_digest(layout),
    }


def stale_because(executed: Path, wanted: Mapping[str, str]) -> list[str]:
    """What has changed since `executed` was made, by the names of `record`; empty: up to date.

    An executed copy that is missing, damaged or without a record is stale as a whole.
    """
    if not executed.is_file():
        return ["never executed"]
    try:
        notebook = read(executed)
    except GradedSparseError:
        return ["damaged copy"]
    found = notebook.metadata.get("gradedsparse", {}).get("made_from", {})
    return [f"{name} changed" for name in wanted if found.get(name) != wanted[name]]
