"""The sparsity profile: the tails T_k of the states, the weight beyond the k heaviest atoms (theory, section 3)."""

from __future__ import annotations

import numpy as np

from gradedsparse.errors import GradedSparseError
from gradedsparse.states import WeightedMultisets


def tails(z: WeightedMultisets) -> np.ndarray:
    """T_k of every state as an (n, K + 1) array, k = 0 ... K, K the largest number of atoms; shares, so T_0 = 1.

    What a truncation dropped stays in the tail of every k.
    """
    largest = int(z.sizes.max(initial=0))
    order = np.lexsort((-z.shares, z.owner))
    sorted_shares = np.zeros((len(z), largest))
    sorted_shares[z.owner, np.arange(len(z.shares)) - z.offsets[z.owner]] = z.shares[order]
    dropped = z.dropped / z.totals
    beyond = np.cumsum(sorted_shares[:, ::-1], axis=1)[:, ::-1]
    return np.column_stack([beyond, np.zeros(len(z))]) + dropped[:, None]


def mean_tail(z: WeightedMultisets) -> np.ndarray:
    """tau_k = mean of T_k over the states, k = 0 ... K; (K + 1,) float64. Raises GradedSparseError when there are no
    states."""
    if len(z) == 0:
        raise GradedSparseError("a profile needs at least one state")
    return tails(z).mean(axis=0)


def atoms_beyond(z: WeightedMultisets, p: float) -> int:
    """k(p), the least k with tau_k <= p: how many atoms carry all but the share p of the mean weight.

    Raises GradedSparseError for p outside (0, 1), no states, or states truncated so far that no k does.
    """
    if not 0 < p < 1:
        raise GradedSparseError(f"p must lie strictly between 0 and 1, not {p!r}")
    tau = mean_tail(z)
    below = np.flatnonzero(tau <= p)
    if len(below) == 0:
        raise GradedSparseError(f"the states are truncated at a mean dropped share of {tau[-1]:.2e}, above p = {p:g}")
    return int(below[0])


def decay_rate(z: WeightedMultisets) -> float:
    """beta = ln 10 / (k(0.1 %) - k(1 %)), the decay of the mean tail per atom; infinite when the two agree. As
    `atoms_beyond`."""
    gap = atoms_beyond(z, 0.001) - atoms_beyond(z, 0.01)
    return float(np.log(10) / gap) if gap else float("inf")
