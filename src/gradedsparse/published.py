"""The figures published with the paper, as data, for comparison with ours."""

from __future__ import annotations

from functools import cache

import yaml

from gradedsparse.data import directory
from gradedsparse.errors import GradedSparseError

TABLES = ("table1", "table2", "table3", "table4")


@cache
def _figures() -> dict:
    path = directory() / "published.yaml"
    if not path.is_file():
        raise GradedSparseError(f"{path} is missing: set GRADEDSPARSE_DATA to the project's data folder")
    return yaml.safe_load(path.read_text())


def source() -> str:
    """Where the figures were published."""
    return _figures()["source"]


def setup() -> dict:
    """The study's settings as published: states, pilot_states, burn_in, delta, mean_distance (units of kappa)."""
    return dict(_figures()["setup"])


def table(name: str) -> list[dict]:
    """The rows of ``table1`` to ``table4``, each a dict; W1 and certificates in units of kappa, angles in radians.

    Raises GradedSparseError for another name.
    """
    if name not in TABLES:
        raise GradedSparseError(f"no published table {name!r}: there are {', '.join(TABLES)}")
    return [dict(row) for row in _figures()[name]]


def row(name: str, **keys) -> dict:
    """The one row of a table with the given entries, e.g. ``row("table4", eta=1.2)``.

    Raises GradedSparseError unless exactly one row has them.
    """
    found = [entry for entry in table(name) if all(entry.get(key) == value for key, value in keys.items())]
    if len(found) != 1:
        raise GradedSparseError(f"{len(found)} rows of {name} have {keys}; exactly one is wanted")
    return found[0]
