"""Profiles: named sets of parameter values, one YAML file each in `book/profiles/`."""

from __future__ import annotations

from dataclasses import dataclass, field

import yaml

from gradedsparse.book.layout import Layout, nearest
from gradedsparse.errors import GradedSparseError

KEYS = {"label": str, "description": str, "chapters": dict}


@dataclass(frozen=True)
class Profile:
    """A profile as its file states it: values of parameters by chapter."""

    name: str
    label: str = ""
    description: str = ""
    chapters: dict[str, dict[str, object]] = field(default_factory=dict)

    @property
    def set_by(self) -> str:
        """How the provenance panel and the errors name this profile."""
        return f"profile {self.name}"


def load_profile(layout: Layout, name: str) -> Profile:
    """The profile `name`, its form checked; the values are checked against the notebooks later.

    Raises GradedSparseError if there is no such profile (with the nearest name) or if its file is
    not of the form `label`, `description`, `chapters: {chapter: {parameter: value}}`.
    """
    path = layout.profiles / f"{name}.yml"
    if not path.is_file():
        names = sorted(file.stem for file in layout.profiles.glob("*.yml"))
        raise GradedSparseError(
            f"there is no profile {name!r}; the nearest is {nearest(name, names)} (profiles: {', '.join(names)})"
        )
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except yaml.YAMLError as error:
        reason = " ".join(str(error).split())
        raise GradedSparseError(f"profile {name}: not valid YAML: {reason}") from error
    return _checked(name, content)


def check_chapters(profile: Profile, names: list[str]) -> None:
    """Raises GradedSparseError, with the nearest name, if the profile sets an unknown chapter."""
    for chapter in profile.chapters:
        if chapter not in names:
            raise GradedSparseError(
                f"profile {profile.name}: there is no chapter {chapter}; the nearest is {nearest(chapter, names)}"
            )


def _checked(name: str, content: object) -> Profile:
    if not isinstance(content, dict):
        raise GradedSparseError(f"profile {name}: must hold {', '.join(KEYS)}")
    for key, value in content.items():
        if key not in KEYS:
            raise GradedSparseError(f"profile {name}: unknown entry {key}; the nearest is {nearest(str(key), [*KEYS])}")
        if not isinstance(value, KEYS[key]):
            raise GradedSparseError(f"profile {name}: {key} must be a {KEYS[key].__name__}")
    for chapter, values in content.get("chapters", {}).items():
        if not isinstance(values, dict):
            raise GradedSparseError(f"profile {name}: chapter {chapter} must hold parameter: value pairs")
    return Profile(name, **content)
