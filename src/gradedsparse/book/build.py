"""The two commands of the pipeline: make the book, rerun a chapter."""

from __future__ import annotations

import fcntl
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from gradedsparse.book import freshness, notebooks, provenance, rerun
from gradedsparse.book.execute import Job, run
from gradedsparse.book.layout import Layout, chapter_names, find_chapter
from gradedsparse.book.notebooks import Chapter, load_chapter
from gradedsparse.book.parameters import Setting, resolve
from gradedsparse.book.profiles import Profile, check_chapters, load_profile
from gradedsparse.book.provenance import Provenance
from gradedsparse.book.site import make_site
from gradedsparse.errors import GradedSparseError

Say = Callable[[str], None]
DataCheck = Callable[[str], Mapping[str, object]]


def check_committed_data(name: str) -> Mapping[str, object]:
    """The manifest entry of a committed data set, its file verified (see gradedsparse.data)."""
    from gradedsparse.data import check

    return check(name)


def build_book(
    layout: Layout,
    profile_name: str = "default",
    check_data: DataCheck = check_committed_data,
    say: Say = print,
) -> Path:
    """Executes every chapter that is out of date, publishes the site, returns its first page.

    Every parameter and data set of every chapter is checked before anything is executed: bad
    input raises GradedSparseError. A chapter or a site that fails raises BuildError.
    """
    with _only_build(layout):
        planner = Planner(layout, check_data)
        profile = load_profile(layout, profile_name)
        jobs = planner.book_jobs(profile)
        for job in jobs:
            _run_if_stale(layout, job, say)
        for path in rerun.existing_reruns(layout):
            _warn_of_stale_rerun(planner, path, say)
        return make_site(layout, say)


def rerun_chapter(
    layout: Layout,
    wanted: str,
    overrides: Mapping[str, object],
    profile_name: str = "default",
    check_data: DataCheck = check_committed_data,
    say: Say = print,
) -> Path:
    """Executes one chapter with other values, publishes the site with it, returns its page.

    `wanted` is a number or the beginning of a name. Chapters of the book that were never
    executed are executed first. Raises as `build_book` does.
    """
    with _only_build(layout):
        planner = Planner(layout, check_data)
        profile = load_profile(layout, profile_name)
        check_chapters(profile, list(planner.chapters))
        chapter = planner.chapters[find_chapter(wanted, list(planner.chapters))]
        job = planner.rerun_job(chapter, profile, overrides)
        missing = [job for job in planner.book_jobs(profile) if not job.target.is_file()]
        if missing:
            say(f"the site needs {len(missing)} more chapters that were never executed: they first")
        for first in missing:
            _run_if_stale(layout, first, say)
        _run_if_stale(layout, job, say)
        index = make_site(layout, say)
        return index.parent / "book" / "reruns" / f"{job.target.stem}.html"


class Planner:
    """The chapters of a book, and the jobs that make their pages, everything checked."""

    def __init__(self, layout: Layout, check_data: DataCheck) -> None:
        """Loads every chapter of `_toc.yml`; raises GradedSparseError for a bad one."""
        self.layout = layout
        self.chapters = {name: load_chapter(layout, name) for name in chapter_names(layout)}
        self._check_data = check_data
        self._checksums: dict[str, str] = {}
        self._code_version = provenance.code_version(layout.root)

    def book_jobs(self, profile: Profile) -> list[Job]:
        """One job a chapter; raises GradedSparseError for bad values or data in any of them."""
        check_chapters(profile, list(self.chapters))
        command = "make book" if profile.name == "default" else f"make book PROFILE={profile.name}"
        return [
            self._job(
                chapter,
                chapter.notebook,
                self.layout.executed(chapter.name),
                self._settings(chapter, profile, {}),
                profile,
                command,
            )
            for chapter in self.chapters.values()
        ]

    def rerun_job(self, chapter: Chapter, profile: Profile, overrides: Mapping[str, object]) -> Job:
        """The job of a rerun; raises GradedSparseError for bad values, or if nothing differs."""
        if not overrides and profile.name == "default":
            raise GradedSparseError(f"rerun {chapter.name}: give at least one value to change, `-p NAME VALUE`")
        settings = self._settings(chapter, profile, overrides)
        changed = {name: settings[name].value for name in chapter.parameters if name in overrides}
        name = rerun.rerun_name(chapter.name, changed, profile.name)
        return self._job(
            chapter,
            rerun.rerun_copy(chapter.notebook, chapter.name, changed, profile.name),
            self.layout.reruns / f"{name}.ipynb",
            settings,
            profile,
            provenance.rerun_command(chapter.name, changed, profile.name),
        )

    def _settings(self, chapter: Chapter, profile: Profile, overrides: Mapping[str, object]) -> dict[str, Setting]:
        layers = [
            (profile.set_by, profile.chapters.get(chapter.name, {})),
            ("command line", dict(overrides)),
        ]
        return resolve(chapter.parameters, layers, chapter.name)

    def _job(
        self,
        chapter: Chapter,
        source: notebooks.NotebookNode,
        target: Path,
        settings: dict[str, Setting],
        profile: Profile,
        command: str,
    ) -> Job:
        data = {name: self._checksum(name) for name in data_names(chapter, settings)}
        made_from = freshness.record(self.layout, chapter, settings, profile.name, data)
        told = Provenance(chapter.name, settings, profile, data, command, self._code_version, wall_time=0.0)
        return Job(source, target, told, made_from)

    def _checksum(self, name: str) -> str:
        if name not in self._checksums:
            self._checksums[name] = str(self._check_data(name)["sha256"])
        return self._checksums[name]


def data_names(chapter: Chapter, settings: Mapping[str, Setting]) -> list[str]:
    """The data sets that a run reads: those declared ("*": all there are), or the one that `dataset` names instead.

    Raises GradedSparseError if `dataset` would have to replace more than one.
    """
    setting = settings.get("dataset")
    if setting is None:
        from gradedsparse.data import manifest

        return sorted(manifest()) if chapter.data == ["*"] else chapter.data
    if len(chapter.data) > 1:
        raise GradedSparseError(
            f"{chapter.name}: the parameter dataset can replace one declared data set, but "
            f"{len(chapter.data)} are declared"
        )
    return [str(setting.value)]


def _run_if_stale(layout: Layout, job: Job, say: Say) -> None:
    reasons = freshness.stale_because(job.target, job.made_from)
    name = job.target.stem
    if not reasons:
        say(f"{name}: up to date")
        return
    say(f"{name}: executing ({', '.join(reasons)})")
    wall_time = run(layout, job)
    say(f"{name}: done in {wall_time:.1f} s")


def _warn_of_stale_rerun(planner: Planner, path: Path, say: Say) -> None:
    made = notebooks.read(path).metadata.get("gradedsparse", {}).get("rerun", {})
    try:
        job = planner.rerun_job(
            planner.chapters[made["chapter"]],
            load_profile(planner.layout, made["profile"]),
            made["overrides"],
        )
    except (KeyError, GradedSparseError):
        say(f"rerun {path.stem}: no longer fits the book (`gradedsparse rerun --clear` removes it)")
        return
    reasons = freshness.stale_because(path, job.made_from)
    if reasons:
        command = job.provenance.command
        say(f"rerun {path.stem}: kept, but {', '.join(reasons)} since; again with `{command}`")


@contextmanager
def _only_build(layout: Layout) -> Iterator[None]:
    layout.build.mkdir(exist_ok=True)
    with (layout.build / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise GradedSparseError("another build of this book is running") from error
        yield
