"""Common aggregations as mechanisms, each with its reading and its constant (theory, section 2).

Outputs are in units of kappa, so that a mechanism of constant L satisfies ``|f(z) - f(z')| <= L d(z, z') / kappa``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from gradedsparse.errors import GradedSparseError
from gradedsparse.representation import Reading, distance
from gradedsparse.states import Circle, WeightedMultisets


@dataclass(frozen=True)
class Mechanism:
    """A function of a state with its class and constant.

    Attributes
    ----------
    evaluate
        states z -> (len(z),) or (len(z), q) outputs in units of kappa
    reading
        the class, ``conservative`` or ``accumulative``
    constant
        a Lipschitz constant for d of that reading
    """

    name: str
    reading: Reading
    constant: float
    evaluate: Callable[[WeightedMultisets], np.ndarray]

    def __call__(self, z: WeightedMultisets) -> np.ndarray:
        return self.evaluate(z)

    def ratios(self, A: WeightedMultisets, B: WeightedMultisets) -> np.ndarray:
        """``|f(A_i) - f(B_i)| / d(A_i, B_i)`` for paired states, (n,); 0 where the two states are at distance 0.

        Never above ``constant``, up to rounding. Raises GradedSparseError for unequal numbers of states.
        """
        if len(A) != len(B):
            raise GradedSparseError(f"{len(A)} states cannot be paired with {len(B)}")
        change = np.linalg.norm(np.reshape(self(A) - self(B), (len(A), -1)), axis=1)
        apart = np.array([distance(a, b, self.reading) for a, b in zip(A, B, strict=True)])
        return np.divide(change, apart, out=np.zeros_like(change), where=apart > 0)


def weighted_mean() -> Mechanism:
    """sum mu_i x_i, in a ball; conservative, constant 1 (Table 1, first row, with h the identity)."""
    return Mechanism("weighted mean", "conservative", 1.0, _mean_value)


def top_weight() -> Mechanism:
    """R mu_max = (kappa / 2) mu_max; conservative, constant 1/2: mu_max changes by at most the total variation."""
    return Mechanism("top weight", "conservative", 0.5, lambda z: z.tops / z.totals / 2)


def count() -> Mechanism:
    """R / mu_max = (kappa / 2) sum s_i, the number of atoms when weights are equal; accumulative, constant 1."""
    return Mechanism("count", "accumulative", 1.0, lambda z: z.totals / z.tops / 2)


def flocking_update(polarization: float) -> Mechanism:
    """The direction of sum mu_i e^{i theta_i} as a unit vector over kappa = pi, for states polarized at least this
    much.

    Conservative, constant 1 / polarization. Evaluating it raises GradedSparseError for states off the circle and for
    a state below the gate; making it, for a gate outside (0, 1].
    """
    if not 0 < polarization <= 1:
        raise GradedSparseError(f"the gate must lie in (0, 1], not {polarization!r}")

    def direction(z: WeightedMultisets) -> np.ndarray:
        mean = mean_vector(z)
        length = np.linalg.norm(mean, axis=1)
        if np.any(low := length < polarization):
            i = int(np.argmax(low))
            raise GradedSparseError(f"state {i} has polarization {length[i]:.3g}, below the gate {polarization:g}")
        return mean / length[:, None] / z.space.kappa

    return Mechanism("flocking update", "conservative", 1 / polarization, direction)


def mean_vector(z: WeightedMultisets) -> np.ndarray:
    """sum mu_i e^{i theta_i} of every state as (n, 2) float64. Raises GradedSparseError for states off the circle."""
    if not isinstance(z.space, Circle):
        raise GradedSparseError(f"the mean vector is defined on the circle, not in {z.space}")
    return _sum_over_atoms(z, np.column_stack([np.cos(z.values), np.sin(z.values)]))


def _mean_value(z: WeightedMultisets) -> np.ndarray:
    if isinstance(z.space, Circle):
        raise GradedSparseError("the weighted mean needs values in a ball; on the circle, use the flocking update")
    return _sum_over_atoms(z, z.coordinates)


def _sum_over_atoms(z: WeightedMultisets, features: np.ndarray) -> np.ndarray:
    """sum mu_i features_i of every state; features (atoms, q) -> (n, q)."""
    return np.add.reduceat(z.shares[:, None] * features, z.offsets[:-1], axis=0)
