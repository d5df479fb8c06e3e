"""Checks of arguments, and the number of threads to use."""

import os
from pathlib import Path

import numpy as np

from gradedsparse.errors import GradedSparseError


def available_cores() -> int:
    """The number of cores that this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def thread_count(threads: int | None) -> int:
    """``threads``, or all available cores for None. Raises GradedSparseError unless it is a positive integer."""
    if threads is None:
        return available_cores()
    require_integer("the number of threads", threads, 1)
    return threads


def require_integer(name: str, value, least: int) -> None:
    """Raise GradedSparseError, with the name, unless the value is an integer of at least ``least``."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < least:
        raise GradedSparseError(f"{name} must be an integer of at least {least}, not {value!r}")


def require_writable_path(path: Path) -> None:
    """Raise GradedSparseError unless a file of this name can be written: its folder is there and it is no folder."""
    if not path.parent.is_dir():
        raise GradedSparseError(f"{path}: there is no folder {path.parent}")
    if path.is_dir():
        raise GradedSparseError(f"{path} is a folder; the name of a file is wanted")
