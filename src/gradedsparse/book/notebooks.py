"""Reading and writing notebooks, and the rules that a chapter's source notebook keeps."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from gradedsparse.book.layout import Layout
from gradedsparse.book.parameters import Parameter, declared
from gradedsparse.errors import GradedSparseError


@dataclass(frozen=True)
class Chapter:
    """A chapter as its source notebook states it."""

    name: str
    notebook: NotebookNode
    parameters: dict[str, Parameter]
    data: list[str]


def load_chapter(layout: Layout, name: str) -> Chapter:
    """The chapter `name` from its source notebook.

    Raises GradedSparseError if the notebook cannot be read, has no title cell, not exactly one
    cell tagged `parameters`, a bad declaration in it, or a bad list of data sets.
    """
    notebook = read(layout.source(name))
    cells = tagged(notebook, "parameters")
    if len(cells) != 1:
        raise GradedSparseError(f"{name}: needs exactly one code cell tagged `parameters`, but has {len(cells)}")
    title_index(notebook, name)
    data = notebook.metadata.get("gradedsparse", {}).get("data", [])
    if not isinstance(data, list) or not all(isinstance(item, str) for item in data):
        raise GradedSparseError(f"{name}: metadata gradedsparse.data must be a list of names")
    return Chapter(name, notebook, declared(cells[0].source, name), data)


def read(path: Path) -> NotebookNode:
    """The notebook at `path`, in format 4; raises GradedSparseError if it cannot be read."""
    try:
        return nbformat.read(path, as_version=4)
    except (OSError, ValueError, nbformat.ValidationError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise GradedSparseError(f"{path.name} cannot be read as a notebook: {reason}") from error


def write(notebook: NotebookNode, path: Path) -> None:
    """Writes the notebook so that `path` holds either its old or its whole new content."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.partial")
    nbformat.write(notebook, partial)
    os.replace(partial, path)


def tagged(notebook: NotebookNode, tag: str) -> list[NotebookNode]:
    """The code cells of `notebook` that carry `tag`."""
    return [cell for cell in notebook.cells if cell.cell_type == "code" and tag in cell.metadata.get("tags", [])]


def title_index(notebook: NotebookNode, name: str) -> int:
    """The position of the title cell: the first Markdown cell, which must hold a `# ` heading.

    Raises GradedSparseError if there is none.
    """
    for index, cell in enumerate(notebook.cells):
        if cell.cell_type == "markdown":
            if heading_line(cell.source) is not None:
                return index
            break
    raise GradedSparseError(f"{name}: the first Markdown cell must hold the title, `# Title`")


def heading_line(source: str) -> int | None:
    """The number of the first line that is a top-level heading, from 0, or None."""
    for number, line in enumerate(source.splitlines()):
        if line.startswith("# "):
            return number
    return None


def insert_after_title(source: str, block: str) -> str:
    """The text of a title cell with `block` right under its heading."""
    lines = source.splitlines()
    position = heading_line(source) + 1
    return "\n".join([*lines[:position], "", block, "", *lines[position:]])


def leftovers(notebook: NotebookNode) -> list[str]:
    """What a source notebook must not carry: outputs and execution counts, one line each."""
    found = []
    for index, cell in enumerate(notebook.cells):
        if cell.cell_type != "code":
            continue
        if cell.outputs:
            found.append(f"cell {index} has outputs")
        if cell.execution_count is not None:
            found.append(f"cell {index} has an execution count")
    return found


def strip(notebook: NotebookNode) -> None:
    """Removes outputs and execution counts in place."""
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs = []
            cell.execution_count = None
