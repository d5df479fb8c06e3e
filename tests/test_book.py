"""The pipeline of the book, on a small book made in a temporary folder."""

import fcntl
from pathlib import Path
from types import SimpleNamespace

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from gradedsparse.book import freshness, layout, notebooks, parameters, profiles, provenance
from gradedsparse.book import rerun as reruns
from gradedsparse.book import site as site_module
from gradedsparse.book.build import Planner, build_book, data_names, rerun_chapter
from gradedsparse.book.execute import BuildError
from gradedsparse.book.layout import Layout
from gradedsparse.cli import joined_pairs, parameter_values
from gradedsparse.errors import GradedSparseError

CELL = """\
# all of them at once
n: int = 200  # in [20, 64000] states in all
delta: float = 0.05  # in (0, 1] failure probability
rule: str = "ball"  # one of ball, gaussian: interaction rule
label: str = "A flock"  # free text
fail: bool = False  # whether the chapter fails
seed: int = 1  # in [0, 4294967295]
"""
CHECKSUM = "0123456789abcdef" * 4
CONFIG = """\
title: A small book
only_build_toc_files: true
execute:
  execute_notebooks: "off"
parse:
  myst_enable_extensions: [amsmath, colon_fence, dollarmath]
sphinx:
  extra_extensions: [sphinx_proof]
"""
LABELLED = """\
(chapter-target)=
# The certificate

```{prf:theorem}
:label: thm-main

It holds that $a \\le b$.
```

$$
a = b
$$ (eq-main)

See {prf:ref}`thm-main`, {eq}`eq-main` and {ref}`chapter-target`.
"""


@pytest.fixture
def declared():
    return parameters.declared(CELL, "04_certificate")


@pytest.fixture
def book(tmp_path):
    write_chapter(tmp_path, "01_start", "n: int = 3  # in [1, 10] size", "print(n)", "# Start")
    write_chapter(
        tmp_path,
        "04_certificate",
        CELL,
        "def bound(fail):\n    if fail:\n        raise ValueError('no bound')\n\n\nbound(fail)",
        LABELLED,
        data=["sample"],
    )
    write(tmp_path, "_config.yml", CONFIG)
    write(
        tmp_path,
        "_toc.yml",
        "format: jb-book\nroot: book/index\nchapters:\n"
        "- file: book/chapters/01_start\n- file: book/chapters/04_certificate\n",
    )
    write(tmp_path, "book/index.md", "# A small book\n\nSee {prf:ref}`thm-main`.\n")
    write(tmp_path, "book/profiles/default.yml", "label: Default\n")
    write(
        tmp_path,
        "book/profiles/quick.yml",
        "label: Quick\ndescription: Small.\nchapters:\n  04_certificate: {n: 40, delta: 0.5}\n",
    )
    write(tmp_path, "src/gradedsparse/library.py", "ONE = 1\n")
    write(tmp_path, "data/published.yaml", "figures: []\n")
    write(tmp_path, "requirements.lock", "numpy==2\n")
    return Layout(tmp_path)


def write(root: Path, name: str, text: str) -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def write_chapter(root, name, declarations, code, title, data=()):
    notebook = new_notebook(
        cells=[
            new_markdown_cell(title, id="title"),
            new_code_cell(declarations, id="set", metadata={"tags": ["parameters"]}),
            new_code_cell(code, id="code"),
        ],
        metadata={"kernelspec": {"name": "python3", "display_name": "Python 3"}},
    )
    if data:
        notebook.metadata["gradedsparse"] = {"data": list(data)}
    path = root / "notebooks" / f"{name}.ipynb"
    path.parent.mkdir(exist_ok=True)
    nbformat.write(notebook, path)


def sample_only(name):
    if name != "sample":
        raise GradedSparseError(f"data/{name}.npz is missing; `gradedsparse simulate` makes it")
    return {"sha256": CHECKSUM}


def quiet(_line):
    return None


def plan(book, name="04_certificate", profile="default", overrides=None):
    planner = Planner(book, sample_only)
    chosen = profiles.load_profile(book, profile)
    if overrides:
        return planner.rerun_job(planner.chapters[name], chosen, overrides)
    return next(job for job in planner.book_jobs(chosen) if job.target.stem == name)


# --- declarations ---


def test_a_declaration_has_type_default_range_and_help(declared):
    n = declared["n"]
    assert (n.kind, n.default, n.help) == ("int", 200, "states in all")
    assert n.rule == "int in [20, 64000]"
    assert declared["delta"].rule == "float in (0, 1]"
    assert declared["rule"].rule == "str one of ball, gaussian"
    assert declared["rule"].help == "interaction rule"
    assert declared["label"].allowed is None
    assert list(declared) == ["n", "delta", "rule", "label", "fail", "seed"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("n = 3", "line 1 of the parameters cell must have the form"),
        ("import numpy", "must have the form"),
        ("n: int = 3", "n needs its range"),
        ("n: list = []", "the type of n is list"),
        ("n: int = 2 * 3  # in [1, 9]", "not a plain constant"),
        ("n: int = 30  # in [1, 9] size", "n = 30 (set by notebook) is out of range"),
        ("n: int = 2.0  # in [1, 9] size", "has the wrong type"),
        ("n: int = '2'  # in [1, 9] size", "is text, but its type is int"),
        ("n: int = 3  # in [9, 1] size", "the range in [9, 1] is empty"),
        ("n: int = 3  # in [low, 9] size", "is not numbers"),
        ("n: int = 3  # one of 1, three", "are not all of type int"),
        ("n: int = 3  # in [1, 9]\nn: int = 4  # in [1, 9]", "parameter n is declared twice"),
        ("n: int = ", "the parameters cell is not Python"),
    ],
)
def test_bad_declarations_are_named(text, message):
    with pytest.raises(GradedSparseError) as caught:
        parameters.declared(text, "04_certificate")
    assert message in str(caught.value)
    assert str(caught.value).startswith("04_certificate: ")


def test_ranges_may_be_open_tiny_or_infinite():
    text = "a: float = 1e-6  # in (0, inf) tolerance\nb: float = -2  # in [-1e3, -1e-6] exponent"
    found = parameters.declared(text, "x")
    assert found["a"].rule == "float in (0, inf)"
    assert isinstance(found["b"].default, float)


# --- values ---


@pytest.mark.parametrize(
    ("values", "messages"),
    [
        ({"nn": 3}, ["no parameter nn", "nearest is n: int in [20, 64000]"]),
        ({"dleta": 3}, ["no parameter dleta", "nearest is delta: float in (0, 1]"]),
        ({"n": 2.5}, ["n = 2.5", "wrong type", "int in [20, 64000]"]),
        ({"n": "2.5"}, ["n = '2.5'", "wrong type"]),
        ({"n": True}, ["n = True", "wrong type"]),
        ({"n": None}, ["n = None", "wrong type"]),
        ({"n": 19}, ["n = 19", "out of range", "int in [20, 64000]"]),
        ({"delta": "abc"}, ["delta = 'abc'", "wrong type", "float in (0, 1]"]),
        ({"delta": 0}, ["delta = 0.0", "out of range"]),
        ({"delta": "nan"}, ["delta = nan", "out of range"]),
        ({"rule": "bal"}, ["rule = bal", "one of ball, gaussian", "nearest is ball"]),
        ({"label": 3}, ["label = 3", "wrong type", "allowed is str"]),
        ({"fail": 1}, ["fail = 1", "wrong type", "allowed is bool"]),
    ],
)
def test_bad_values_name_chapter_parameter_and_range(declared, values, messages):
    with pytest.raises(GradedSparseError) as caught:
        parameters.resolve(declared, [("command line", values)], "04_certificate")
    for message in ["04_certificate", "command line", *messages]:
        assert message in str(caught.value)


def test_text_is_read_as_the_type(declared):
    text = {"n": "2000", "delta": "1e-3", "fail": "true", "label": "3"}
    settings = parameters.resolve(declared, [("command line", text)], "x")
    values = {name: settings[name].value for name in text}
    assert values == {"n": 2000, "delta": 0.001, "fail": True, "label": "3"}


def test_command_line_beats_profile_beats_notebook(declared):
    layers = [("profile quick", {"n": 40, "delta": 0.5}), ("command line", {"n": "50"})]
    settings = parameters.resolve(declared, layers, "x")
    assert [settings[name].value for name in ("n", "delta", "seed")] == [50, 0.5, 1]
    set_by = [settings[name].set_by for name in ("n", "delta", "seed")]
    assert set_by == ["command line", "profile quick", "notebook"]


def test_pairs_of_the_command_line():
    words = ["04", "-p", "n", "2000", "-p", "x", "-1", "-p", "y=3", "--profile", "quick"]
    expected = ["04", "-p", "n=2000", "-p", "x=-1", "-p", "y=3", "--profile", "quick"]
    assert joined_pairs(words) == expected
    assert parameter_values(["n=2000", "x=-1"]) == {"n": "2000", "x": "-1"}
    with pytest.raises(GradedSparseError, match="n is given twice"):
        parameter_values(["n=1", "n=2"])
    with pytest.raises(GradedSparseError, match="n has no value"):
        parameter_values(["n"])


# --- profiles, chapters, data: everything is checked before anything is executed ---


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("chapters: {04_certficate: {n: 40}}", "no chapter 04_certficate; the nearest is 04_cert"),
        ("chapters: {04_certificate: {m: 40}}", "no parameter m (set by profile bad)"),
        ("chapters: {04_certificate: {n: 4}}", "n = 4 (set by profile bad) is out of range"),
        ("chapters: {04_certificate: 4}", "must hold parameter: value pairs"),
        ("chapter: {}", "unknown entry chapter; the nearest is chapters"),
        ("- 3", "must hold label, description, chapters"),
        ("a: [", "not valid YAML"),
    ],
)
def test_bad_profiles_stop_before_any_execution(book, text, message):
    write(book.root, "book/profiles/bad.yml", text)
    with pytest.raises(GradedSparseError) as caught:
        build_book(book, "bad", sample_only, quiet)
    assert message in str(caught.value)
    assert not book.executed("01_start").exists()


def test_an_unknown_profile_names_the_nearest(book):
    with pytest.raises(GradedSparseError, match="no profile 'quik'; the nearest is quick"):
        build_book(book, "quik", sample_only, quiet)


def test_a_missing_notebook_is_named(book):
    book.source("01_start").unlink()
    with pytest.raises(GradedSparseError, match=r"notebooks/01_start.ipynb does not exist"):
        build_book(book, "default", sample_only, quiet)


def test_missing_data_is_named_before_any_execution(book):
    write_chapter(book.root, "04_certificate", CELL, "1", "# T", data=["other"])
    with pytest.raises(GradedSparseError, match=r"data/other.npz is missing"):
        build_book(book, "default", sample_only, quiet)
    assert not book.executed("01_start").exists()


def test_the_parameter_dataset_replaces_the_declared_data(book):
    text = 'dataset: str = "sample"  # a committed data set'
    write_chapter(book.root, "04_certificate", text, "1", "# T", data=["other"])
    chapter = notebooks.load_chapter(book, "04_certificate")
    settings = parameters.resolve(chapter.parameters, [], chapter.name)
    assert data_names(chapter, settings) == ["sample"]


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        ([new_markdown_cell("# T"), new_code_cell("1")], "exactly one .* has 0"),
        (
            [
                new_markdown_cell("no title"),
                new_code_cell("", metadata={"tags": ["parameters"]}),
            ],
            "must hold the title",
        ),
    ],
)
def test_a_badly_built_notebook_is_named(book, cells, message):
    nbformat.write(new_notebook(cells=cells), book.source("01_start"))
    with pytest.raises(GradedSparseError, match=message):
        notebooks.load_chapter(book, "01_start")


@pytest.mark.parametrize("wanted", ["04", "4", "04_certificate", "04_c"])
def test_a_chapter_goes_by_number_or_prefix(wanted):
    assert layout.find_chapter(wanted, ["01_start", "04_certificate"]) == "04_certificate"


@pytest.mark.parametrize(
    ("wanted", "message"),
    [("certificate", "nearest is 04_certificate"), ("5", "04_cert"), ("0", "01_s"), ("", "no ch")],
)
def test_an_unknown_chapter_names_the_nearest(wanted, message):
    with pytest.raises(GradedSparseError, match=message):
        layout.find_chapter(wanted, ["01_start", "04_certificate"])


# --- staleness ---


def test_the_record_names_what_changed(book):
    before = plan(book).made_from
    assert plan(book).made_from == before
    assert changed(before, plan(book, profile="quick").made_from) == {"parameters", "profile"}
    write(book.root, "src/gradedsparse/library.py", "ONE = 2\n")
    assert changed(before, plan(book).made_from) == {"code"}
    write(book.root, "src/gradedsparse/library.py", "ONE = 1\n")
    write(book.root, "data/published.yaml", "figures: [1]\n")
    assert changed(before, plan(book).made_from) == {"published figures"}
    write(book.root, "data/published.yaml", "figures: []\n")
    write(book.root, "requirements.lock", "numpy==3\n")
    assert changed(before, plan(book).made_from) == {"environment"}
    write(book.root, "requirements.lock", "numpy==2\n")
    write_chapter(book.root, "04_certificate", CELL, "2", LABELLED, data=["sample"])
    assert changed(before, plan(book).made_from) == {"notebook"}


def test_a_star_stands_for_all_committed_data(data_folder):
    entry = "{file: x.npz, sha256: '0', command: make}"
    (data_folder / "manifest.yaml").write_text(f"b_set: {entry}\na_set: {entry}\n")
    assert data_names(SimpleNamespace(name="01", data=["*"]), {}) == ["a_set", "b_set"]


def test_the_record_depends_on_the_checksum_of_the_data(book):
    chapter = notebooks.load_chapter(book, "04_certificate")
    old = freshness.record(book, chapter, {}, "default", {"sample": "aa"})
    new = freshness.record(book, chapter, {}, "default", {"sample": "bb"})
    assert changed(old, new) == {"data"}


def changed(old, new):
    return {name for name in new if old[name] != new[name]}


# --- execution, provenance, reruns, site: one build of the whole small book ---


def test_the_whole_book(book):
    lines = []
    index = build_book(book, "quick", sample_only, lines.append)
    assert index.is_file()
    page = (book.html / "book/chapters/04_certificate.html").read_text(encoding="utf-8")
    assert "quick" in page
    assert "How this page was made" in page
    check_panel(nbformat.read(book.executed("04_certificate"), 4))

    lines.clear()
    build_book(book, "quick", sample_only, lines.append)
    assert lines == ["01_start: up to date", "04_certificate: up to date", "site: up to date"]

    write_chapter(book.root, "01_start", "n: int = 3  # in [1, 10] size", "n + 1", "# Start")
    lines.clear()
    build_book(book, "quick", sample_only, lines.append)
    assert "01_start: executing (notebook changed)" in lines
    assert "04_certificate: up to date" in lines
    log = (book.build / "site.log").read_text(encoding="utf-8")
    assert "0 added, 1 changed, 0 removed" in log

    check_rerun(book)
    check_failures_leave_everything(book)


def check_panel(executed):
    title, panel = executed.cells[0].source, executed.cells[1].source
    assert title.index("# The certificate") < title.index("Quick profile") < title.index("```{prf:")
    for row in [
        "* - `n`\n  - `40`\n  - `200`\n  - profile quick\n  - states in all",
        "* - `seed`\n  - `1`\n  - `1`\n  - notebook",
        f"* - data set\n  - `sample`, SHA-256 `{CHECKSUM[:12]}`",
        "numba",
        "$ make book PROFILE=quick",
        '$ make rerun CHAPTER=04 ARGS="-p n 20"',
    ]:
        assert row in panel
    for cell in executed.cells:
        tags = cell.metadata.get("tags", [])
        assert "parameters" not in tags
        assert "injected-parameters" not in tags
        assert "papermill" not in cell.metadata
    assert "papermill" not in executed.metadata
    nbformat.validate(executed)


def check_rerun(book):
    page = rerun_chapter(book, "4", {"n": "60", "delta": "0.01"}, "default", sample_only, quiet)
    assert page.name == "04_certificate--n-60--delta-0.01.html"
    text = page.read_text(encoding="utf-8")
    assert "The certificate (n = 60, delta = 0.01)" in text
    assert "../chapters/04_certificate.html#thm-main" in text
    assert "Reruns" in (book.html / "book/index.html").read_text(encoding="utf-8")
    assert "reruns" not in book.toc.read_text(encoding="utf-8")


def check_failures_leave_everything(book):
    kept = {path: path.read_bytes() for path in everything_made(book)}
    with pytest.raises(BuildError) as caught:
        rerun_chapter(book, "04", {"fail": "true"}, "default", sample_only, quiet)
    message = str(caught.value)
    assert "chapter 04_certificate failed at line 6" in message
    assert "    bound(fail)\nValueError: no bound\n" in message
    assert "Traceback" not in message
    assert {path: path.read_bytes() for path in everything_made(book)} == kept

    write(book.root, "book/index.md", "# A small book\n\nSee {prf:ref}`thm-none`.\n")
    for _ in range(2):
        with pytest.raises(BuildError, match=r"book/index.*thm-none"):
            site_module.make_site(book, quiet)
        assert {path: path.read_bytes() for path in everything_made(book)} == kept


def everything_made(book):
    folders = [book.html, book.root / "book/chapters", book.reruns]
    return [path for folder in folders for path in folder.rglob("*") if path.is_file()]


def test_a_failing_chapter_leaves_its_last_good_copy(book):
    job = plan(book)
    notebooks.write(new_notebook(), job.target)
    before = job.target.read_bytes()
    write(
        book.root,
        "book/profiles/default.yml",
        "label: D\nchapters:\n  04_certificate: {fail: true}\n",
    )
    with pytest.raises(BuildError, match="ValueError: no bound"):
        build_book(book, "default", sample_only, quiet)
    assert job.target.read_bytes() == before


def test_two_builds_at_once_are_refused(book):
    book.build.mkdir()
    with (book.build / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(GradedSparseError, match="another build"):
            build_book(book, "default", sample_only, quiet)


# --- reruns ---


def test_labels_are_stripped_and_references_kept():
    text = (
        "(target)=\n# Title\n\n```{prf:theorem} Name\n:label: thm-a\n:class: x\n\n"
        "Text (see)=y\n```\n"
        ":::{figure} a.png\n---\nname: fig-a\nwidth: 3\n---\nCaption\n:::\n"
        "$$\na = b\n$$ (eq-a)\n\n$$a = b$$ (eq-b)\n"
        "\\begin{align}\na &= b \\label{eq-c}\n\\end{align}\n{eq}`eq-a` {prf:ref}`thm-a`\n"
    )
    stripped = reruns.without_labels(text)
    for label in ["(target)=", ":label:", "name: fig-a", "(eq-a)", "(eq-b)", "\\label"]:
        assert label not in stripped
    for kept in [":class: x", "width: 3", "{eq}`eq-a`", "{prf:ref}`thm-a`", "Text (see)=y", "# T"]:
        assert kept in stripped


def test_a_rerun_copy_names_no_figure_and_says_its_values(book):
    notebook = notebooks.load_chapter(book, "04_certificate").notebook
    notebook.cells[2].metadata["mystnb"] = {"figure": {"name": "fig-a", "caption": "c"}}
    copied = reruns.rerun_copy(notebook, "04_certificate", {"n": 60}, "default")
    assert copied.cells[2].metadata["mystnb"] == {"figure": {"caption": "c"}}
    assert notebook.cells[2].metadata["mystnb"]["figure"]["name"] == "fig-a"
    assert "# The certificate (n = 60)" in copied.cells[0].source


def test_rerun_names_keep_different_values_apart():
    assert reruns.rerun_name("04", {"n": 2000, "delta": 0.01}) == "04--n-2000--delta-0.01"
    assert reruns.rerun_name("04", {"n": 1}, "quick") == "04--profile-quick--n-1"
    names = {reruns.rerun_name("04", {"label": text}) for text in ("a b", "a/b", "a_b")}
    assert len(names) == 3
    assert not any("/" in name or " " in name for name in names)


def test_a_rerun_must_change_something(book):
    planner = Planner(book, sample_only)
    chosen = profiles.load_profile(book, "default")
    with pytest.raises(GradedSparseError, match="at least one value to change"):
        planner.rerun_job(planner.chapters["01_start"], chosen, {})


def test_clearing_reruns(book):
    write(book.root, "book/reruns/a.ipynb", "{}")
    write(book.root, "book/reruns/b.ipynb", "{}")
    assert reruns.clear_reruns(book) == 2
    assert reruns.existing_reruns(book) == []


def test_the_suggested_command_stays_in_range(declared):
    settings = parameters.resolve(declared, [("command line", {"n": 20})], "x")
    assert provenance.another_run("04_c", settings) == 'make rerun CHAPTER=04 ARGS="-p n 40"'
    only_seed = {"seed": settings["seed"]}
    assert provenance.another_run("04_c", only_seed) == 'make rerun CHAPTER=04 ARGS="-p seed 2"'
    assert provenance.another_run("04_c", {}) is None


# --- cleanliness of source notebooks ---


def test_leftovers_are_found_and_stripped():
    cell = new_code_cell("1", execution_count=3)
    cell.outputs = [nbformat.v4.new_output("stream", text="1")]
    notebook = new_notebook(cells=[new_markdown_cell("x"), cell])
    expected = ["cell 1 has outputs", "cell 1 has an execution count"]
    assert notebooks.leftovers(notebook) == expected
    notebooks.strip(notebook)
    assert notebooks.leftovers(notebook) == []
