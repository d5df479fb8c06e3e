"""The built site at `_build/html`, its source notebooks, and what a browser makes of its pages."""

import os
import re
import shutil
import subprocess
from functools import cache
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from bs4 import BeautifulSoup

from gradedsparse.book.layout import Layout, read_toc, toc_files
from gradedsparse.book.notebooks import leftovers, read, tagged

ROOT = Path(__file__).resolve().parents[1]
HTML = ROOT / "_build" / "html"
CONTINUOUS_INTEGRATION = os.environ.get("CI") == "true"
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
PAGES = sorted(path for path in HTML.glob("book/**/*.html"))
TRACEBACK = re.compile(r"Traceback \(most recent call last\)|^\w*Error: ", re.MULTILINE)


def page_name(path):
    return path.relative_to(HTML).as_posix()


def lacking(what, mend):
    """Skips with a plain reason; in continuous integration it is a failure instead."""
    if CONTINUOUS_INTEGRATION:
        pytest.fail(f"{what}, which continuous integration needs")
    pytest.skip(f"{what}: {mend}")


@pytest.fixture
def site():
    if not (HTML / "index.html").is_file():
        lacking("no built site at _build/html", "`make book` builds it")
    return HTML


@pytest.fixture
def browser():
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None:
        lacking("no Chromium on PATH", "pages not checked in a browser")
    return found


every_page = pytest.mark.parametrize("path", PAGES or [None], ids=lambda path: page_name(path) if path else "no site")


@cache
def parsed(path):
    return BeautifulSoup(path.read_text(encoding="utf-8"), "html.parser")


@cache
def anchors(path):
    tree = parsed(path)
    named = {tag["name"] for tag in tree.find_all("a", attrs={"name": True})}
    return named | {tag["id"] for tag in tree.find_all(id=True)}


# --- source notebooks ---


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_source_notebook_is_clean_and_declares_its_parameters(path):
    notebook = read(path)
    assert leftovers(notebook) == []
    assert len(tagged(notebook, "parameters")) == 1
    assert notebook.metadata["kernelspec"]["name"] == "python3"


# --- the site as files ---


def test_every_page_of_the_contents_exists(site):
    wanted = toc_files(read_toc(Layout(ROOT)))
    assert [name for name in wanted if not (site / f"{name}.html").is_file()] == []


def test_the_first_page_leads_into_the_book(site):
    refresh = parsed(site / "index.html").find("meta", attrs={"http-equiv": "Refresh"})
    target = refresh["content"].partition("url=")[2]
    assert (site / target).is_file()


@every_page
def test_no_page_shows_an_error(site, path):
    outputs = parsed(path).select(".cell_output")
    assert [text for text in (o.get_text() for o in outputs) if TRACEBACK.search(text)] == []


@every_page
def test_images_exist_and_have_alternative_text(site, path):
    images = parsed(path).find_all("img")
    missing = [i["src"] for i in images if not i["src"].startswith("data:") and not exists(path, i)]
    silent = [image["src"][:80] for image in images if not image.get("alt", "").strip()]
    assert missing == []
    assert silent == []


def exists(page, image):
    return (page.parent / unquote(urlsplit(image["src"]).path)).is_file()


@every_page
def test_internal_links_resolve(site, path):
    links = {tag["href"] for tag in parsed(path).find_all("a", href=True)}
    assert sorted(link for link in links if not resolves(path, link)) == []


def resolves(page, link):
    parts = urlsplit(link)
    if parts.scheme or parts.netloc:
        return True
    target = (page.parent / unquote(parts.path)).resolve() if parts.path else page
    if not target.is_file():
        return False
    fragment = unquote(parts.fragment)
    return not fragment or target.suffix != ".html" or fragment in anchors(target)


@every_page
def test_nothing_is_loaded_from_elsewhere(site, path):
    tree = parsed(path)
    sources = [tag["src"] for tag in tree.find_all(["script", "img", "iframe"], src=True)]
    sources += [tag["href"] for tag in tree.find_all("link", href=True)]
    assert [source for source in sources if urlsplit(source).netloc] == []


# --- the site in a browser without a network ---


def rendered(browser, path, folder):
    command = [
        browser,
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-quic",
        "--disable-dev-shm-usage",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        "--host-resolver-rules=MAP * ~NOTFOUND",
        f"--user-data-dir={folder}",
        "--virtual-time-budget=20000",
        "--dump-dom",
        path.as_uri(),
    ]
    result = subprocess.run(command, capture_output=True, timeout=120, check=True)
    return BeautifulSoup(result.stdout.decode("utf-8"), "html.parser")


def undefined_macros(article):
    """MathJax shows an unknown macro as red text instead of an error."""
    red = article.select("mjx-mtext[style*='color: red']")
    return [text.parent.get_text() for text in red]


@every_page
def test_formulas_are_rendered_without_a_network(site, browser, path, tmp_path):
    formulas = parsed(path).select(".math")
    if not formulas:
        return
    tree = rendered(browser, path, tmp_path)
    article = tree.select_one("article")
    assert len(article.select(".math mjx-container")) >= len(formulas)
    assert [error.get_text() for error in article.select("mjx-merror, [data-mjx-error]")] == []
    assert undefined_macros(article) == []
    for code in article.select("pre, code, script, mjx-container"):
        code.decompose()
    assert not re.search(r"\\[(\[]", article.get_text())
