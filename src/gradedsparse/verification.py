"""Re-checking a certificate from the states alone, without the solver that made it."""

from __future__ import annotations

import numpy as np

from gradedsparse.bounds import feature_bound
from gradedsparse.errors import GradedSparseError
from gradedsparse.representation import distance_pairs
from gradedsparse.states import WeightedMultisets

# Rounding allowed in sums of distances, in units of kappa.
TOLERANCE = 1e-9
# Rounding allowed in a lower bound, which is in single precision.
SINGLE = 2e-6
ROWS = 512  # checked at a time


def verify_matching(
    A: WeightedMultisets,
    B: WeightedMultisets,
    pairs: np.ndarray,
    mass: np.ndarray,
    potentials: tuple[np.ndarray, np.ndarray],
    value: float,
    lower: float,
    threads: int | None = None,
) -> None:
    """Check that a plan is one, that it costs ``value``, that the potentials are feasible at every pair and worth
    ``lower``.

    Arguments as the fields of `Matching`. Together these prove lower <= W1 <= value. Raises GradedSparseError naming
    the first thing that does not hold.
    """
    u, v = potentials
    if u.shape != (len(A),) or v.shape != (len(B),):
        raise GradedSparseError(f"potentials of shapes {u.shape} and {v.shape} for {len(A)} and {len(B)} states")
    named = pairs.shape == (len(mass), 2) and len(pairs) > 0 and np.issubdtype(pairs.dtype, np.integer)
    if not named or pairs.min() < 0 or np.any(pairs.max(axis=0) >= (len(A), len(B))):
        raise GradedSparseError("the pairs do not name states of the two halves")
    if not (np.all(mass >= 0) and all(map(_all_finite, (mass, u, v)))):
        raise GradedSparseError("masses must be non-negative and finite, potentials finite")
    for name, column, size in (("A", 0, len(A)), ("B", 1, len(B))):
        received = np.bincount(pairs[:, column], mass, minlength=size)
        if np.any(wrong := np.abs(received - 1 / size) > TOLERANCE / size):
            i = int(np.argmax(wrong))
            raise GradedSparseError(f"state {i} of half {name} carries mass {received[i]:.6g}, not 1/{size}")
    cost = distance_pairs(A, B, pairs[:, 0], pairs[:, 1], threads=threads)
    total = mass @ cost
    if not abs(total - value) <= TOLERANCE:
        raise GradedSparseError(f"the matching costs {total:.9f}, not {value:.9f}")
    _check_potentials(A, B, u, v, threads)
    if not abs(u.mean() + v.mean() - lower) <= TOLERANCE:
        raise GradedSparseError(f"the potentials are worth {u.mean() + v.mean():.9f}, not {lower:.9f}")


def _check_potentials(A: WeightedMultisets, B: WeightedMultisets, u: np.ndarray, v: np.ndarray, threads: int | None):
    """Every pair, a block of rows at a time: what a lower bound on d does not settle is computed."""
    for first in range(0, len(A), ROWS):
        block = A[first : first + ROWS]
        allowed = u[first : first + ROWS, None] + v - TOLERANCE
        rows, columns = np.nonzero(feature_bound(block, B) - SINGLE < allowed)
        slack = distance_pairs(block, B, rows, columns, threads=threads) - allowed[rows, columns]
        if len(slack) and slack.min() < 0:
            t = int(slack.argmin())
            excess = TOLERANCE - slack[t]
            raise GradedSparseError(
                f"the potentials exceed the distance of A {first + rows[t]} and B {columns[t]} by {excess:.3g}"
            )


def _all_finite(array: np.ndarray) -> bool:
    return bool(np.isfinite(array).all())
