"""Certificates of generalization: the transport distance between two halves of a sample, plus a concentration term.

Theorem 4: with probability at least 1 - delta over independent halves A and B of m states, for every mechanism f of
the unit conservative class at once, ``|P f - P_A f| <= W1(Gamma_A, Gamma_B) + kappa sqrt(ln(1 / delta) / (2 m))``.
All in units of kappa.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from gradedsparse._arguments import require_integer
from gradedsparse.errors import GradedSparseError
from gradedsparse.matching import Matching, match
from gradedsparse.spaces import Ball, Circle
from gradedsparse.states import WeightedMultisets, concatenate, require_same_space

# Partitions that the cell certificate tries: arcs of the circle (or cubes), shells of the shares, atoms kept.
RESOLUTIONS = (1, 3, 4, 5, 6, 8, 12)
SHELLS = (1, 4, 16, 64)
CUTOFFS = (1, 2, 4, 8, 16, 64)


@dataclass(frozen=True)
class Certificate:
    """A certificate for half A, every term in units of kappa.

    Attributes
    ----------
    w1
        the transport distance of the halves, from above
    lower
        the same from below
    concentration
        sqrt(ln(1 / delta) / (2 m)), m the states in half B
    matching
        the optimal matching behind w1
    """

    w1: float
    lower: float
    concentration: float
    delta: float
    n_a: int
    n_b: int
    matching: Matching

    @property
    def value(self) -> float:
        """The certificate: w1 + concentration."""
        return self.w1 + self.concentration

    def summary(self) -> str:
        """What the certificate says, in one paragraph."""
        verdict = (
            "That is below the trivial value 1."
            if self.value < 1
            else "That is not below the trivial value 1 and says nothing yet: more states are needed."
        )
        return (
            f"With probability at least {1 - self.delta:g} over the draw of the sample, the mean of every mechanism of "
            f"the unit conservative class over half A ({self.n_a} states) is within {self.value:.4f} kappa of its true "
            f"mean: {self.w1:.4f} for the transport distance to half B ({self.n_b} states), certified to "
            f"{self.w1 - self.lower:.1e}, and {self.concentration:.4f} for concentration. For a mechanism of constant "
            f"L multiply by L. {verdict} This holds for independent states from one law."
        )


@dataclass(frozen=True)
class CellCertificate:
    """The cell certificate: a bound on W1 from a partition of the states, in units of kappa.

    Attributes
    ----------
    bound
        ``sum_c min(a_c, b_c) diam_c + sum_c |a_c - b_c| / 2``, at least W1
    resolution, shells, cutoff
        the partition that gave the least bound
    cells
        how many of its cells are occupied
    """

    bound: float
    concentration: float
    delta: float
    resolution: int
    shells: int
    cutoff: int
    cells: int

    @property
    def value(self) -> float:
        """The certificate: bound + concentration."""
        return self.bound + self.concentration


def certify(
    A: WeightedMultisets,
    B: WeightedMultisets,
    delta: float = 0.05,
    threads: int | None = None,
    progress: bool = False,
) -> Certificate:
    """The empirical certificate of Theorem 4 for half A, from the optimal matching of A to B.

    A and B hold independent states from one law; ``delta`` in (0, 1) is the failure probability. Raises
    GradedSparseError for an empty half, different spaces, or ``delta`` out of range.
    """
    concentration = concentration_term(A, B, delta)
    matched = match(A, B, threads=threads, progress=progress)
    return Certificate(matched.value, matched.lower, concentration, delta, len(A), len(B), matched)


def cell_certify(A: WeightedMultisets, B: WeightedMultisets, delta: float = 0.05) -> CellCertificate:
    """A coarse certificate without distances, from the best of a family of partitions; time linear in the number of
    atoms.

    A cell fixes, for the ``cutoff`` heaviest atoms, the multiset of (arc or cube of the value, shell of the share).
    Two states of one cell can be matched within it, at overlap at least (1 - width) sum of the shells' lower ends,
    which bounds the cell's diameter. The bound holds for every partition, so the least over the family is one too.
    Raises as `certify` does. Theory, section 4.
    """
    concentration = concentration_term(A, B, delta)
    pooled = concatenate([A, B])
    in_a = np.arange(len(pooled)) < len(A)
    candidates = [
        _cell_bound(pooled, in_a, resolution, shells, cutoff)
        for shells in SHELLS
        for resolution in RESOLUTIONS
        for cutoff in CUTOFFS
    ]
    bound, resolution, shells, cutoff, cells = min(candidates)
    return CellCertificate(bound, concentration, delta, resolution, shells, cutoff, cells)


def halves(z: WeightedMultisets, seed: int) -> tuple[WeightedMultisets, WeightedMultisets]:
    """Split a sample at random into two halves of equal size; an odd state is left out.

    Raises GradedSparseError for fewer than two states, or a seed that is not a non-negative integer.
    """
    require_integer("the seed", seed, 0)
    if len(z) < 2:
        raise GradedSparseError(f"two halves need at least 2 states; there are {len(z)}")
    m = len(z) // 2
    order = np.random.default_rng(seed).permutation(len(z))
    return z[order[:m]], z[order[m : 2 * m]]


def concentration_term(A: WeightedMultisets, B: WeightedMultisets, delta: float) -> float:
    """sqrt(ln(1 / delta) / (2 m)) with m = len(B), in units of kappa. Raises GradedSparseError as `certify` does."""
    for name, half in (("A", A), ("B", B)):
        if len(half) == 0:
            raise GradedSparseError(f"half {name} is empty: a certificate needs states in both halves")
    require_same_space(A, B)
    if not 0 < delta < 1:
        raise GradedSparseError(f"delta must lie strictly between 0 and 1, not {delta!r}")
    return math.sqrt(math.log(1 / delta) / (2 * len(B)))


def _cell_bound(
    z: WeightedMultisets, in_a: np.ndarray, resolution: int, shells: int, cutoff: int
) -> tuple[float, int, int, int, int]:
    """The bound of one partition for the pooled states z, of which ``in_a`` (n,) bool form half A, with what
    describes it."""
    edges = _shell_edges(z.shares, shells)
    shell = np.searchsorted(edges, z.shares, side="right") - 1
    box, width = _boxes(z, resolution)
    code = box * len(edges) + shell

    heaviest_first = np.lexsort((-z.shares, z.owner))
    rank = np.arange(len(code)) - z.offsets[z.owner]
    kept = rank < cutoff
    atoms, owner = heaviest_first[kept], z.owner[kept]
    within = np.lexsort((code[atoms], owner))
    key = np.full((len(z), min(cutoff, int(z.sizes.max()))), -1, np.int64)
    key[owner, rank[kept]] = code[atoms][within]
    _, example, cell = np.unique(key, axis=0, return_index=True, return_inverse=True)

    share_a = np.bincount(cell[in_a], minlength=len(example)) / in_a.sum()
    share_b = np.bincount(cell[~in_a], minlength=len(example)) / (~in_a).sum()
    kept_share = np.bincount(owner, edges[shell[atoms]], minlength=len(z))[example]
    diameter = 1 - (1 - width) * kept_share
    bound = np.minimum(share_a, share_b) @ diameter + np.abs(share_a - share_b).sum() / 2
    return float(bound), resolution, shells, cutoff, len(example)


def _shell_edges(shares: np.ndarray, shells: int) -> np.ndarray:
    """Lower ends of the shells: quantiles of the shares, or every share where there are no more than ``shells`` of
    them."""
    distinct = np.unique(shares)
    if len(distinct) <= shells:
        return distinct
    return np.unique(np.quantile(shares, np.arange(shells) / shells, method="lower"))


def _boxes(z: WeightedMultisets, resolution: int) -> tuple[np.ndarray, float]:
    """A number for the arc or cube of every atom's value, and the diameter of an arc or cube in units of kappa."""
    if isinstance(z.space, Circle):
        return np.minimum((z.coordinates[:, 0] * (resolution / 2)).astype(np.int64), resolution - 1), min(
            1.0, 2 / resolution
        )
    if not isinstance(z.space, Ball):  # cells of single values, or one cell of all
        if resolution == 1:
            return np.zeros(len(z.values), np.int64), 1.0
        return np.unique(z.coordinates, axis=0, return_inverse=True)[1].ravel(), 0.0
    index = np.clip(((z.coordinates + 0.5) * resolution).astype(np.int64), 0, resolution - 1)
    box = index @ resolution ** np.arange(z.space.dimension, dtype=np.int64)
    return box, min(1.0, np.sqrt(z.space.dimension) / resolution)
