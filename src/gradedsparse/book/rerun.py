"""Reruns: a chapter executed with other parameters, rendered beside the default page.

A rerun defines no labels, so that every cross reference leads to the default page.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping
from pathlib import Path

from nbformat import NotebookNode

from gradedsparse.book.freshness import digest
from gradedsparse.book.layout import Layout
from gradedsparse.book.notebooks import heading_line, insert_after_title, title_index
from gradedsparse.book.parameters import Value, show

TARGET = re.compile(r"^[ \t]*\([^()\s][^()]*\)=[ \t]*\n?", re.M)
OPTION = re.compile(r"^([ \t]*(?:>[ \t]*)*):(?:label|name):.*\n?", re.M)
BLOCK_OPTIONS = re.compile(
    r"^(?P<open>[ \t]*(?:`{3,}|:{3,}|~{3,})\{[^}]+\}[^\n]*\n[ \t]*---[ \t]*\n)"
    r"(?P<options>.*?)(?P<close>^[ \t]*---[ \t]*$)",
    re.M | re.S,
)
BLOCK_OPTION = re.compile(r"^[ \t]*(?:label|name):.*\n?", re.M)
DOLLAR_LABEL = re.compile(r"(\$\$)[ \t]*\([^()\s]+\)[ \t]*$", re.M)
TEX_LABEL = re.compile(r"\\label\{[^}]*\}")


def rerun_name(chapter: str, overrides: Mapping[str, Value], profile: str = "default") -> str:
    """The file name, without suffix, of a rerun: `04_certificate--n-2000--delta-0.01`.

    A value that a file name cannot hold as it is gets a short checksum, so that names differ.
    """
    parts = [chapter] if profile == "default" else [chapter, f"profile-{profile}"]
    return "--".join([*parts, *(f"{name}-{_slug(value)}" for name, value in overrides.items())])


def existing_reruns(layout: Layout) -> list[Path]:
    """The executed reruns, by name."""
    return sorted(path for path in layout.reruns.glob("*.ipynb") if not path.name.startswith("."))


def clear_reruns(layout: Layout) -> int:
    """Removes every rerun and returns how many there were."""
    reruns = existing_reruns(layout)
    for path in reruns:
        path.unlink()
    return len(reruns)


def rerun_copy(notebook: NotebookNode, chapter: str, overrides: Mapping[str, Value], profile: str) -> NotebookNode:
    """A copy of a source notebook with no labels and with the changed values in its title."""
    changed = copy.deepcopy(notebook)
    for cell in changed.cells:
        if cell.cell_type == "markdown":
            cell.source = without_labels(cell.source)
        _drop_figure_names(cell)
    cell = changed.cells[title_index(changed, chapter)]
    values = [f"{name} = {show(value)}" for name, value in overrides.items()]
    if profile != "default":
        values.insert(0, f"profile {profile}")
    origin = f"*A rerun of {{doc}}`/book/chapters/{chapter}`; its cross references lead there.*"
    titled = _with_title_suffix(cell.source, f" ({', '.join(values)})")
    cell.source = insert_after_title(titled, origin)
    changed.metadata.setdefault("gradedsparse", {})["rerun"] = {
        "chapter": chapter,
        "profile": profile,
        "overrides": dict(overrides),
    }
    return changed


def without_labels(text: str) -> str:
    """MyST text without the labels that it defines: targets, `:label:`, `:name:`, equations."""
    text = TARGET.sub("", text)
    text = OPTION.sub("", text)
    text = BLOCK_OPTIONS.sub(
        lambda match: match["open"] + BLOCK_OPTION.sub("", match["options"]) + match["close"], text
    )
    text = DOLLAR_LABEL.sub(r"\1", text)
    return TEX_LABEL.sub("", text)


def _with_title_suffix(source: str, suffix: str) -> str:
    lines = source.splitlines()
    lines[heading_line(source)] = lines[heading_line(source)].rstrip() + suffix
    return "\n".join(lines)


def _drop_figure_names(cell: NotebookNode) -> None:
    for options in cell.metadata.get("mystnb", {}).values():
        if isinstance(options, dict):
            options.pop("name", None)


def _slug(value: Value) -> str:
    text = show(value)
    plain = re.sub(r"[^A-Za-z0-9._+-]+", "_", text)
    return plain if plain == text else f"{plain}-{digest(text)[:8]}"
