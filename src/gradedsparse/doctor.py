"""Says what is missing to make the book: one OK, NOTE or FAIL a line, with the mend.

The first part needs nothing but Python, so that it runs before there is an environment:
`python3 -I src/gradedsparse/doctor.py`.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

OLDEST_PYTHON = (3, 11)
FREE_DISK = 2 * 1024**3
MEMORY = 2 * 1024**3
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
INSTALL = (
    "`rm -f .venv/.installed && make .venv/.installed` (in a conda environment: pip install -r requirements.lock -e .)"
)


@dataclass(frozen=True)
class Finding:
    """One line of the report: what was looked at, how it is, and what mends it."""

    status: str
    what: str
    mend: str = ""

    def __str__(self) -> str:
        return f"{self.status:4} {self.what}" + (f": {self.mend}" if self.mend else "")


def judge(good: bool, what: str, mend: str, otherwise: str = "FAIL") -> Finding:
    """OK, or else the status `otherwise` with the mend."""
    return Finding("OK", what) if good else Finding(otherwise, what, mend)


def machine(root: Path) -> Iterator[Finding]:
    """Findings that need nothing but Python: versions, programs, disk, memory."""
    found = sys.version.split()[0]
    yield judge(
        sys.version_info >= OLDEST_PYTHON,
        f"Python {found}",
        "install Python 3.11 or newer, then `make PYTHON=python3.11`",
    )
    for program in ("git", "make"):
        yield judge(bool(shutil.which(program)), program, f"install {program}")
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    yield judge(
        browser is not None,
        "browser for the tests of the site" + (f" ({browser})" if browser else ""),
        "optional; without Chromium those tests are skipped",
        otherwise="NOTE",
    )
    free = shutil.disk_usage(root).free
    yield judge(free >= FREE_DISK, f"free disk {free / 1024**3:.1f} GiB", "free 2 GiB")
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    yield judge(memory >= MEMORY, f"memory {memory / 1024**3:.1f} GiB", "2 GiB are needed")
    yield _writable(root / "_build")


def environment(root: Path) -> Iterator[Finding]:
    """Findings about the installed packages and the kernel."""
    if importlib.util.find_spec("gradedsparse") is None:
        yield Finding("FAIL", "environment not installed", INSTALL)
        return
    yield from _packages(root)
    yield _kernel()


def data(root: Path) -> Iterator[Finding]:
    """One finding for each data set of the manifest."""
    from gradedsparse.data import check, manifest
    from gradedsparse.errors import GradedSparseError

    try:
        names = list(manifest())
    except GradedSparseError as error:
        yield Finding("FAIL", "data sets", str(error))
        return
    for name in names:
        try:
            check(name)
        except GradedSparseError as error:
            yield Finding("FAIL", f"data set {name}", str(error))
        else:
            yield Finding("OK", f"data set {name}")


def main(root: Path) -> int:
    """Prints every finding about the book in `root`; returns 1 if one is a FAIL, else 0."""
    failures = 0
    for part in (machine, environment, data):
        if part is data and failures:
            print(Finding("NOTE", "data sets not checked", "mend the failures first"))
            break
        for finding in part(root):
            failures += finding.status == "FAIL"
            print(finding)
    return 1 if failures else 0


def _writable(folder: Path) -> Finding:
    try:
        folder.mkdir(exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return Finding("OK", f"{folder.name} is writable")
    except OSError as error:
        return Finding("FAIL", f"{folder.name} is not writable", f"{error.strerror}: {folder}")


def _packages(root: Path) -> Iterator[Finding]:
    from importlib import metadata

    from packaging.requirements import Requirement

    named = _named_packages(root)
    others = 0
    for line in (root / "requirements.lock").read_text(encoding="utf-8").splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        pin = Requirement(line)
        if pin.marker and not pin.marker.evaluate():
            continue
        try:
            installed = metadata.version(pin.name)
        except metadata.PackageNotFoundError:
            installed = "missing"
        if not pin.specifier.contains(installed if installed != "missing" else "0"):
            what = f"{pin.name} {installed}, but the lock file has {pin.specifier}"
            yield Finding("FAIL", what, INSTALL)
        elif _normal(pin.name) in named:
            yield Finding("OK", f"{pin.name} {installed}")
        else:
            others += 1
    yield Finding("OK", f"{others} further packages at their locked versions")


def _named_packages(root: Path) -> set[str]:
    import tomllib

    from packaging.requirements import Requirement

    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    listed = [*project["dependencies"], *project["optional-dependencies"]["book"]]
    return {_normal(Requirement(item).name) for item in listed}


def _normal(name: str) -> str:
    return name.lower().replace("_", "-")


def _kernel() -> Finding:
    from jupyter_client.manager import KernelManager

    try:
        program = KernelManager(kernel_name="python3").format_kernel_cmd()[0]
    except Exception as error:
        return Finding("FAIL", f"kernel python3 ({error})", INSTALL)
    return judge(
        Path(program) == Path(sys.executable),
        "kernel python3",
        f"it starts {program}, not this environment; remove that kernel specification",
    )


if __name__ == "__main__":
    sys.exit(main(Path(__file__).resolve().parents[2]))
