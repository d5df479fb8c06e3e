"""Checks of whole-number arguments, and the number of threads to use."""

import os

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
