"""Optimal matching of two samples of states under d: W1 of their empirical laws, with a dual that certifies it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import ot

from gradedsparse.errors import GradedSparseError
from gradedsparse.representation import distance_matrix
from gradedsparse.states import WeightedMultisets, require_same_space

DEFAULT_TOLERANCE = 1e-6

# What rounding alone may leave between value and lower bound; tol = 0 asks for no more than this.
ROUNDING = 1e-12

# The network simplex stops at the optimum; this only bounds its iterations, far above what it needs.
ITERATIONS = 10**9


@dataclass(frozen=True)
class Matching:
    """An optimal transport plan between the empirical laws of A and B, in units of kappa.

    Attributes
    ----------
    pairs
        (k, 2) int64, state of A and state of B; a perfect matching when the halves are equal
    mass
        (k,) float64, the mass that each pair carries; all 1/n for halves of n states
    value
        the plan's cost, from above W1
    lower
        the dual potentials' value, from below W1
    potentials
        (u, v), shapes (len(A),) and (len(B),), with u_i + v_j <= d(A_i, B_j) for every pair
    evaluated
        how many distances were computed
    """

    pairs: np.ndarray
    mass: np.ndarray
    value: float
    lower: float
    potentials: tuple[np.ndarray, np.ndarray]
    evaluated: int

    @property
    def gap(self) -> float:
        """value - lower, at least the error of the value."""
        return self.value - self.lower


def match(
    A: WeightedMultisets,
    B: WeightedMultisets,
    tol: float = DEFAULT_TOLERANCE,
    threads: int | None = None,
    progress: bool = False,
) -> Matching:
    """W1 of the empirical laws of A and B under d / kappa by an optimal matching, with dual potentials.

    Halves of unequal size are matched by a plan that splits states. Every distance is computed: memory is 16 len(A)
    len(B) bytes, time about len(A) len(B) small assignment problems. Raises GradedSparseError for an empty half,
    different spaces, a negative ``tol``, or a gap between value and lower bound above ``tol``.
    """
    for name, half in (("A", A), ("B", B)):
        if len(half) == 0:
            raise GradedSparseError(f"half {name} is empty: it has no states to match")
    require_same_space(A, B)
    if not tol >= 0:
        raise GradedSparseError(f"tol must be at least 0, not {tol!r}")
    cost = distance_matrix(A, B, threads=threads, progress=progress)
    share_a, share_b = np.full(len(A), 1 / len(A)), np.full(len(B), 1 / len(B))
    plan, log = ot.emd(share_a, share_b, cost, numItermax=ITERATIONS, log=True)
    pairs = np.argwhere(plan > 0)
    mass = plan[pairs[:, 0], pairs[:, 1]]
    v = log["v"]
    u = (cost - v).min(axis=1)
    v = (cost - u[:, None]).min(axis=0)
    value = float(mass @ cost[pairs[:, 0], pairs[:, 1]])
    lower = float(share_a @ u + share_b @ v)
    if value - lower > max(tol, ROUNDING):
        raise GradedSparseError(f"the matching is only optimal to {value - lower:.2e}, not to tol = {tol:.2e}")
    return Matching(pairs, mass, value, min(lower, value), (u, v), cost.size)
