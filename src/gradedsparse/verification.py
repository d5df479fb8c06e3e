"""Re-checking a certificate from the states alone, without the solver that made it."""

from __future__ import annotations

import numpy as np

from gradedsparse.errors import GradedSparseError
from gradedsparse.representation import distance_matrix
from gradedsparse.states import WeightedMultisets

# Rounding allowed in sums of distances, in units of kappa.
TOLERANCE = 1e-9


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
    cost = distance_matrix(A, B, threads=threads)
    total = mass @ cost[pairs[:, 0], pairs[:, 1]]
    if not abs(total - value) <= TOLERANCE:
        raise GradedSparseError(f"the matching costs {total:.9f}, not {value:.9f}")
    slack = cost - u[:, None] - v
    if slack.min() < -TOLERANCE:
        i, j = np.unravel_index(int(slack.argmin()), slack.shape)
        raise GradedSparseError(f"the potentials exceed the distance of A {i} and B {j} by {-slack[i, j]:.3g}")
    if not abs(u.mean() + v.mean() - lower) <= TOLERANCE:
        raise GradedSparseError(f"the potentials are worth {u.mean() + v.mean():.9f}, not {lower:.9f}")


def _all_finite(array: np.ndarray) -> bool:
    return bool(np.isfinite(array).all())
