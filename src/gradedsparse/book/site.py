"""The site: staging the pages, rendering them with Jupyter Book, publishing the result.

A site is published only as a whole and only without a warning; until then the last one stays.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path, PurePosixPath

import yaml

from gradedsparse.book import freshness
from gradedsparse.book.execute import BuildError
from gradedsparse.book.layout import CHAPTERS, RERUNS, Layout, read_toc, toc_files
from gradedsparse.book.rerun import existing_reruns
from gradedsparse.errors import GradedSparseError

ANSI = re.compile(r"\x1b\[[0-9;]*m")
COMPLAINT = re.compile(r"\b(WARNING|ERROR|CRITICAL|Error)\b")
JUPYTER_BOOK = [sys.executable, "-P", "-c", "from jupyter_book.cli.main import main; main()"]
MADE_FROM = ".made-from"
NOT_STAGED = {"profiles", CHAPTERS.name, RERUNS.name}


def make_site(layout: Layout, say: Callable[[str], None] = print) -> Path:
    """Renders and publishes the site unless nothing has changed; returns its first page.

    Raises BuildError, with the warnings, if the site cannot be made without one; the site that
    was published before then stays as it was.
    """
    _mend_interrupted_publishing(layout)
    staged = stage(layout)
    environment = freshness.environment_digest(layout)
    made_from = _made_from(layout, staged, environment)
    marker = layout.html / MADE_FROM
    if marker.is_file() and marker.read_text(encoding="utf-8") == made_from:
        say("site: up to date")
    else:
        say("site: rendering")
        rendered = _render(layout, environment)
        (rendered / MADE_FROM).write_text(made_from, encoding="utf-8")
        _publish(layout, rendered)
    return layout.html / "index.html"


def stage(layout: Layout) -> Path:
    """Brings `_build/source` up to date with the pages to render and returns it.

    A file whose content is unchanged is left alone, so that Sphinx reads only what changed.
    """
    staged = layout.build / "source"
    wanted = _pages(layout)
    contents = {PurePosixPath("_toc.yml"): _toc_with_reruns(layout).encode()}
    for path in [p for p in staged.rglob("*") if p.is_file()]:
        relative = PurePosixPath(path.relative_to(staged).as_posix())
        if relative not in wanted and relative not in contents:
            path.unlink()
    for relative, source in wanted.items():
        _write_if_changed(staged / relative, source.read_bytes())
    for relative, content in contents.items():
        _write_if_changed(staged / relative, content)
    return staged


def _pages(layout: Layout) -> dict[PurePosixPath, Path]:
    book = layout.root / "book"
    pages = {PurePosixPath("_config.yml"): layout.root / "_config.yml"}
    for path in sorted(book.rglob("*")):
        relative = path.relative_to(book)
        hidden = any(part.startswith(".") for part in relative.parts)
        if path.is_file() and not hidden and relative.parts[0] not in NOT_STAGED:
            pages[PurePosixPath("book") / relative.as_posix()] = path
    for page in map(PurePosixPath, toc_files(read_toc(layout))):
        if page.parent == CHAPTERS:
            pages[CHAPTERS / f"{page.name}.ipynb"] = layout.executed(page.name)
    for path in existing_reruns(layout):
        pages[RERUNS / path.name] = path
    for relative, path in pages.items():
        if not path.is_file():
            raise GradedSparseError(f"the site needs {relative}, but there is no such file")
    return pages


def _toc_with_reruns(layout: Layout) -> str:
    reruns = existing_reruns(layout)
    if not reruns:
        return layout.toc.read_text(encoding="utf-8")
    toc = read_toc(layout)
    entries = [{"file": (RERUNS / path.name).as_posix()} for path in reruns]
    if "parts" not in toc:
        toc["parts"] = [{"chapters": toc.pop("chapters")}] if "chapters" in toc else []
    toc["parts"].append({"caption": "Reruns", "chapters": entries})
    return yaml.safe_dump(toc, sort_keys=False, allow_unicode=True)


def _write_if_changed(path: Path, content: bytes) -> None:
    if path.is_file() and path.read_bytes() == content:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def _made_from(layout: Layout, staged: Path, environment: str) -> str:
    pages = freshness.tree_digest(staged, [path for path in staged.rglob("*") if path.is_file()])
    return freshness.digest([pages, freshness.source_digest(layout), environment])


def _render(layout: Layout, environment: str) -> Path:
    """Runs Jupyter Book; returns the folder of the rendered pages.

    Sphinx's parsed pages are kept for the next time, unless the environment has changed or the
    rendering failed: a page that was parsed with a warning would not warn again. All pages are
    written anew, since the navigation beside each of them shows the titles of the others.
    """
    work = layout.build / "work"
    marker = work / "environment"
    if not (marker.is_file() and marker.read_text() == environment):
        shutil.rmtree(work, ignore_errors=True)
    rendered = work / "_build" / "html"
    shutil.rmtree(rendered, ignore_errors=True)
    work.mkdir(parents=True, exist_ok=True)
    command = [*JUPYTER_BOOK, "build", str(layout.build / "source")]
    command += ["--path-output", str(work), "-W", "--keep-going"]
    log = layout.build / "site.log"
    with log.open("w", encoding="utf-8") as file:
        status = subprocess.run(command, cwd=layout.root, stdout=file, stderr=subprocess.STDOUT, check=False).returncode
    if status != 0:
        shutil.rmtree(work)
        raise BuildError(_complaints(layout, log))
    marker.write_text(environment)
    return rendered


def _complaints(layout: Layout, log: Path) -> str:
    lines = ANSI.sub("", log.read_text(encoding="utf-8", errors="replace")).splitlines()
    source = f"{layout.build / 'source'}{os.sep}"
    found = [line.replace(source, "") for line in lines if COMPLAINT.search(line)]
    shown = list(dict.fromkeys(found)) or lines[-20:]
    heading = "the site could not be made without warnings; the last good one is as it was"
    return "\n".join([f"{heading} (log: {log.relative_to(layout.root)})", *shown])


def _publish(layout: Layout, rendered: Path) -> None:
    old = layout.build / "html.old"
    if layout.html.exists():
        layout.html.rename(old)
    rendered.rename(layout.html)
    shutil.rmtree(old, ignore_errors=True)


def _mend_interrupted_publishing(layout: Layout) -> None:
    old = layout.build / "html.old"
    if old.exists() and not layout.html.exists():
        old.rename(layout.html)
    shutil.rmtree(old, ignore_errors=True)
