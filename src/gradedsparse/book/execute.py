"""Executing one chapter with papermill."""

from __future__ import annotations

import re
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path

from nbformat import NotebookNode

from gradedsparse.book import notebooks, provenance
from gradedsparse.book.layout import Layout
from gradedsparse.book.provenance import Provenance

ANSI = re.compile(r"\x1b\[[0-9;]*m")
CELL_LINE = re.compile(r"Cell In\[\d+\], line (\d+)")


class BuildError(Exception):
    """The input was in order, but a chapter or the site could not be made; says why."""


@dataclass(frozen=True)
class Job:
    """One notebook to execute: what from, where to, and what its panel says."""

    source: NotebookNode
    target: Path
    provenance: Provenance
    made_from: dict[str, str]


def run(layout: Layout, job: Job) -> float:
    """Executes a job and returns its wall time in seconds.

    The target is replaced only when every cell has run. Raises BuildError, with the failing
    line and the chapter's own error, and then leaves the target as it was.
    """
    running = layout.build / "running" / job.target.name
    running.parent.mkdir(parents=True, exist_ok=True)
    unexecuted = running.with_suffix(".source.ipynb")
    notebooks.write(job.source, unexecuted)
    start = time.perf_counter()
    _papermill(layout, job, unexecuted, running)
    wall_time = time.perf_counter() - start
    notebook = notebooks.read(running)
    _finish(notebook, job, wall_time)
    notebooks.write(notebook, job.target)
    running.unlink()
    unexecuted.unlink()
    return wall_time


def _papermill(layout: Layout, job: Job, source: Path, target: Path) -> None:
    from jupyter_client.kernelspec import NoSuchKernel
    from nbclient.exceptions import DeadKernelError
    from papermill import execute_notebook
    from papermill.exceptions import PapermillExecutionError

    chapter = job.provenance.chapter
    try:
        execute_notebook(
            source,
            target,
            parameters={name: s.value for name, s in job.provenance.settings.items()},
            kernel_name="python3",
            language="python",
            cwd=layout.root,
            extra_arguments=["--IPKernelApp.log_level=CRITICAL"],
            progress_bar={"desc": chapter} if sys.stderr.isatty() else False,
        )
    except PapermillExecutionError as error:
        raise BuildError(_failure(chapter, error, target.relative_to(layout.root))) from error
    except NoSuchKernel as error:
        raise BuildError("there is no Jupyter kernel python3; see `make doctor`") from error
    except DeadKernelError as error:
        raise BuildError(f"chapter {chapter} failed: its kernel died, most often for want of memory") from error


def _failure(chapter: str, error: Exception, partial: Path) -> str:
    lines = error.source.splitlines()
    match = CELL_LINE.search(ANSI.sub("", "\n".join(error.traceback)))
    number = int(match[1]) if match and int(match[1]) <= len(lines) else 1
    return (
        f"chapter {chapter} failed at line {number} of the cell that begins with `{lines[0]}`:\n"
        f"    {lines[number - 1].strip()}\n"
        f"{error.ename}: {ANSI.sub('', error.evalue)}\n"
        f"(as far as it ran: {partial}; executed copies and site are as they were)"
    )


def _finish(notebook: NotebookNode, job: Job, wall_time: float) -> None:
    provenance.add(notebook, replace(job.provenance, wall_time=wall_time))
    notebook.metadata.pop("papermill", None)
    for cell in notebook.cells:
        cell.metadata.pop("papermill", None)
        cell.metadata.pop("execution", None)
    notebook.metadata.setdefault("gradedsparse", {})["made_from"] = job.made_from
