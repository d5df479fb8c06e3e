"""What an executed page says about how it was made."""

from __future__ import annotations

import platform
import shlex
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from nbformat import NotebookNode, from_dict

from gradedsparse.book.notebooks import insert_after_title, title_index
from gradedsparse.book.parameters import Choices, Parameter, Setting, Value, show
from gradedsparse.book.profiles import Profile

LIBRARIES = ("numpy", "scipy", "numba", "POT")
QUICK_NOTE = """```{admonition} Quick profile
:class: warning
This page was made with the *quick* profile: small samples, for tests and a first look. Its
numbers are rougher than those the text speaks of; `make book` makes the page in full.
```"""


@dataclass(frozen=True)
class Provenance:
    """One run of a chapter: its settings, its data sets by checksum, and how to repeat it."""

    chapter: str
    settings: Mapping[str, Setting]
    profile: Profile
    data: Mapping[str, str]
    command: str
    code_version: str
    wall_time: float


def code_version(root: Path) -> str:
    """The version of the package and, where git knows it, of the checkout."""
    try:
        version = metadata.version("gradedsparse")
    except metadata.PackageNotFoundError:
        version = "not installed"
    command = ["git", "-C", str(root), "describe", "--always", "--dirty"]
    try:
        described = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return f"gradedsparse {version}"
    return f"gradedsparse {version}, git {described.strip()}"


def add(notebook: NotebookNode, provenance: Provenance) -> None:
    """Replaces the parameter cells by one panel after the title, in place.

    A page of the quick profile also says so right under its title.
    """
    tags = {"parameters", "injected-parameters"}
    notebook.cells = [cell for cell in notebook.cells if not tags.intersection(cell.metadata.get("tags", []))]
    title = title_index(notebook, provenance.chapter)
    notebook.cells.insert(title + 1, _panel_cell(notebook, panel(provenance)))
    if provenance.profile.name == "quick":
        cell = notebook.cells[title]
        cell.source = insert_after_title(cell.source, QUICK_NOTE)


def panel(provenance: Provenance) -> str:
    """The panel in MyST: parameters with who set them, then everything else that was fixed."""
    parts = [":::::{dropdown} How this page was made"]
    if provenance.settings:
        parts.append(_parameter_table(provenance.settings))
    parts += [_facts_table(provenance), _commands(provenance), ":::::"]
    return "\n\n".join(parts)


def _panel_cell(notebook: NotebookNode, text: str) -> NotebookNode:
    cell = {"cell_type": "markdown", "metadata": {"tags": ["provenance"]}, "source": text}
    if (notebook.nbformat, notebook.nbformat_minor) >= (4, 5):
        cell["id"] = "provenance"
    return from_dict(cell)


def _parameter_table(settings: Mapping[str, Setting]) -> str:
    header = ["parameter", "value", "default", "set by", "meaning"]
    rows = [
        [
            f"`{name}`",
            f"`{show(setting.value)}`",
            f"`{show(setting.parameter.default)}`",
            setting.set_by,
            setting.parameter.help,
        ]
        for name, setting in settings.items()
    ]
    return _list_table([header, *rows], ":header-rows: 1")


def _facts_table(provenance: Provenance) -> str:
    seed = provenance.settings.get("seed")
    facts = [["seed", f"`{seed.value}`"]] if seed else []
    profile = provenance.profile
    facts += [
        ["profile", f"{profile.name}. {profile.description}".strip()],
        ["code", provenance.code_version],
    ]
    facts += [["data set", f"`{name}`, SHA-256 `{checksum[:12]}`"] for name, checksum in provenance.data.items()]
    versions = [f"Python {platform.python_version()}"]
    versions += [f"{name} {metadata.version(name)}" for name in LIBRARIES]
    facts += [
        ["versions", ", ".join(versions)],
        ["wall time", f"{provenance.wall_time:.1f} s"],
    ]
    return _list_table(facts, ":stub-columns: 1")


def _commands(provenance: Provenance) -> str:
    lines = [f"To make this page again:\n\n```console\n$ {provenance.command}\n```"]
    change = another_run(provenance.chapter, provenance.settings)
    if change:
        lines.append(f"To see it with another value, for instance:\n\n```console\n$ {change}\n```")
    return "\n\n".join(lines)


def another_run(chapter: str, settings: Mapping[str, Setting]) -> str | None:
    """A command that reruns the chapter with one parameter changed, or None if it has none."""
    for name, setting in settings.items():
        if name != "seed" and (value := _another_value(setting)) is not None:
            return rerun_command(chapter, {name: value})
    if "seed" in settings:
        return rerun_command(chapter, {"seed": settings["seed"].value + 1})
    return None


def rerun_command(chapter: str, overrides: Mapping[str, Value], profile: str = "default") -> str:
    """The command that reruns `chapter` with these values."""
    words = [f"-p {name} {shlex.quote(show(value))}" for name, value in overrides.items()]
    if profile != "default":
        words.insert(0, f"--profile {profile}")
    number = chapter.split("_")[0]
    return f'make rerun CHAPTER={number} ARGS="{" ".join(words)}"'


def _another_value(setting: Setting) -> Value | None:
    others = (v for v in _candidates(setting.parameter, setting.value) if v != setting.value)
    return next(others, None)


def _candidates(parameter: Parameter, value: Value) -> list[Value]:
    if isinstance(parameter.allowed, Choices):
        return list(parameter.allowed.values)
    if parameter.kind == "int":
        return [v for v in (value // 2, value * 2, value + 1) if v in parameter.allowed]
    if parameter.kind == "float":
        return [v for v in (value / 2, value * 2) if v in parameter.allowed]
    return [not value] if parameter.kind == "bool" else []


def _list_table(rows: list[list[str]], option: str) -> str:
    lines = [":::{list-table}", option, ""]
    for row in rows:
        lines += [f"{'* -' if column == 0 else '  -'} {cell}" for column, cell in enumerate(row)]
    return "\n".join([*lines, ":::"])
