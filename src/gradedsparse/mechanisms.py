"""Aggregations as mechanisms, each with its reading, its constant, and how to check it (theory, section 2).

Outputs are in units of kappa, so that a mechanism of constant L satisfies ``|f(z) - f(z')| <= L d(z, z') / kappa``. A
mechanism of conservative constant L has an accumulative constant of at most 2 L, because the conservative distance is
at most twice the accumulative one; functions that take a ``reading`` know the constant of both.

`search.largest_ratio` looks for the pair of states that comes closest to a constant.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from gradedsparse.errors import GradedSparseError
from gradedsparse.representation import Reading, distance
from gradedsparse.spaces import Ball, Circle
from gradedsparse.states import WeightedMultisets

# A change of output up to this many kappa is the rounding of two equal outputs.
ROUNDING = 1e-14
# Weights of one state that agree to this relative accuracy count as equal.
EQUAL_WEIGHTS = 1e-12


def euclidean(y: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Euclidean distance of paired outputs, (n,) or (n, q) each -> (n,)."""
    return np.linalg.norm(np.reshape(np.subtract(y, other), (len(y), -1)), axis=1)


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
        a Lipschitz constant for d of that reading; ``inf`` when there is none
    form
        the formula in LaTeX
    sharp
        whether no smaller constant holds
    domain
        states z -> (len(z),) bool, where the mechanism is defined; everywhere when left out
    needs
        what the domain asks of a state, in words
    apart
        two arrays of outputs -> (n,) distances in units of kappa; Euclidean unless the output is an angle
    """

    name: str
    reading: Reading
    constant: float
    evaluate: Callable[[WeightedMultisets], np.ndarray]
    form: str = ""
    sharp: bool = False
    domain: Callable[[WeightedMultisets], np.ndarray] | None = None
    needs: str = ""
    apart: Callable[[np.ndarray, np.ndarray], np.ndarray] = euclidean

    def __call__(self, z: WeightedMultisets) -> np.ndarray:
        """The outputs in units of kappa. Raises GradedSparseError for a state outside the domain, or values in a space
        that the mechanism does not take."""
        if not (inside := self.defined(z)).all():
            raise GradedSparseError(f"the {self.name} needs {self.needs}: state {int(np.argmin(inside))} has not")
        return self.evaluate(z)

    def defined(self, z: WeightedMultisets) -> np.ndarray:
        """Which states the mechanism is defined on, (len(z),) bool."""
        return np.ones(len(z), bool) if self.domain is None else self.domain(z)

    def ratios(self, A: WeightedMultisets, B: WeightedMultisets) -> np.ndarray:
        """``|f(A_i) - f(B_i)| / d(A_i, B_i)`` for paired states, (n,); 0 where the outputs agree, ``inf`` where only
        the states do.

        Never above ``constant``, up to rounding. Raises GradedSparseError for unequal numbers of states, and as the
        mechanism does.
        """
        if len(A) != len(B):
            raise GradedSparseError(f"{len(A)} states cannot be paired with {len(B)}")
        costs = np.array([distance(a, b, self.reading) for a, b in zip(A, B, strict=True)])
        return quotients(self.apart(self(A), self(B)), costs)


def quotients(changes: np.ndarray, costs: np.ndarray) -> np.ndarray:
    """changes / costs; 0 where there is no change beyond rounding, ``inf`` for a change at no cost."""
    changes = np.where(changes > ROUNDING, changes, 0.0)
    return np.divide(changes, costs, out=np.where(changes > 0, np.inf, 0.0), where=costs > 0)


def weighted_mean(
    h: Callable[[np.ndarray], np.ndarray] | None = None, slope: float = 1.0, reading: Reading = "conservative"
) -> Mechanism:
    """h(sum mu_i x_i), in a ball (Table 1, first row); h the identity when left out.

    ``h`` takes (n,), or (n, p) in a ball of dimension p > 1, and ``slope`` is its Lipschitz constant. Constant slope;
    accumulative 2 slope, approached by {R} against {R, a light atom at -R}.
    """
    mean = attention_pooling(None, h, slope, reading)
    form = r"\sum_i \mu_i x_i" if h is None else r"h\bigl(\sum_i \mu_i x_i\bigr)"
    return Mechanism("weighted mean", reading, mean.constant, mean.evaluate, form, sharp=h is None)


def value_aggregation(
    phi: Callable[[np.ndarray], np.ndarray], reading: Reading = "conservative", sharp: bool = False
) -> Mechanism:
    """sum mu_i phi(x_i), phi 1-Lipschitz from values (atoms,) or (atoms, p) to (atoms,), in the units of the space.

    Constant 1, sharp when two values differ under phi by their full distance; accumulative 2. No bound on phi itself is
    needed, because shares sum to 1 and phi varies by at most kappa.
    """
    constant = _constant(reading, 1.0, 2.0)
    return Mechanism(
        "value aggregation", reading, constant, lambda z: _pool(z, phi(z.values)), r"\sum_i \mu_i\,\varphi(x_i)", sharp
    )


def attention_pooling(
    v: Callable[[np.ndarray], np.ndarray] | None,
    h: Callable[[np.ndarray], np.ndarray] | None = None,
    slope: float = 1.0,
    reading: Reading = "conservative",
    sharp: bool = False,
) -> Mechanism:
    """h(sum mu_i v(x_i)) with v 1-Lipschitz into a Euclidean space and ``slope`` the Lipschitz constant of h.

    The attention weights are the state's own weights. ``v`` takes the values, (atoms,) or (atoms, p), and returns
    (atoms,) or (atoms, q); ``h`` takes what its pooling gives, (n,) or (n, q). Either is the identity when left out.
    Constant slope; accumulative 2 slope.
    """
    if not (np.isfinite(slope) and slope > 0):
        raise GradedSparseError(f"the slope must be positive and finite, not {slope!r}")

    def pooled(z: WeightedMultisets) -> np.ndarray:
        mean = _pool(z, _ball_values(z, "the weighted mean") if v is None else v(z.values))
        return mean if h is None else h(mean * z.space.kappa) / z.space.kappa

    constant = _constant(reading, slope, 2 * slope)
    return Mechanism("attention pooling", reading, constant, pooled, r"h\bigl(\sum_i \mu_i v(x_i)\bigr)", sharp)


def top_weight(reading: Reading = "conservative") -> Mechanism:
    """R mu_max = (kappa / 2) mu_max; constant 1/2, because mu_max changes by at most the total variation;
    accumulative 1."""
    constant = _constant(reading, 0.5, 1.0)
    return Mechanism(
        "top weight", reading, constant, lambda z: z.tops / z.totals / 2, r"\tfrac{\kappa}{2}\,\mu_{\max}", sharp=True
    )


def count(reading: Reading = "accumulative") -> Mechanism:
    """R / mu_max = (kappa / 2) sum s_i, the number of atoms when weights are equal; accumulative, constant 1, and none
    in the conservative reading."""
    constant = _constant(reading, np.inf, 1.0)
    return Mechanism(
        "count", reading, constant, lambda z: z.totals / z.tops / 2, r"\tfrac{\kappa}{2}\sum_i s_i", sharp=True
    )


def flocking_update(polarization: float) -> Mechanism:
    """The direction of sum mu_i e^{i theta_i} as a unit vector over kappa = pi, for states polarized at least this
    much.

    Conservative, constant 1 / polarization. Evaluating it raises GradedSparseError for states off the circle and for
    a state below the gate; making it, for a gate outside (0, 1].
    """
    _require_gate(polarization)

    def direction(z: WeightedMultisets) -> np.ndarray:
        mean = mean_vector(z)
        return mean / np.linalg.norm(mean, axis=1, keepdims=True) / z.space.kappa

    return Mechanism(
        "flocking update",
        "conservative",
        1 / polarization,
        direction,
        r"m/\lvert m\rvert",
        sharp=True,
        domain=lambda z: np.linalg.norm(mean_vector(z), axis=1) >= polarization,
        needs=f"a polarization of at least {polarization:g}",
    )


def flocking_angle(polarization: float) -> Mechanism:
    """The flocking update as an angle over kappa = pi; two outputs are as far apart as their arc.

    Conservative, constant (pi / 2) / arcsin(polarization), attained by two atoms that cross the line at right angles to
    the mean. Raises as `flocking_update` does.
    """
    _require_gate(polarization)

    def angle(z: WeightedMultisets) -> np.ndarray:
        mean = mean_vector(z)
        return np.arctan2(mean[:, 1], mean[:, 0]) / np.pi

    def arc(y: np.ndarray, other: np.ndarray) -> np.ndarray:
        gap = np.abs(y - other)
        return np.minimum(gap, 2.0 - gap)

    return Mechanism(
        "flocking update, as an angle",
        "conservative",
        np.pi / 2 / np.arcsin(polarization),
        angle,
        r"\arg m",
        sharp=True,
        domain=lambda z: np.linalg.norm(mean_vector(z), axis=1) >= polarization,
        needs=f"a polarization of at least {polarization:g}",
        apart=arc,
    )


def weighted_sum() -> Mechanism:
    """sum s_i x_i, in a ball: the sum over a neighbourhood whose heaviest link has weight 1; accumulative, constant
    1."""
    return Mechanism(
        "weighted sum",
        "accumulative",
        1.0,
        lambda z: _pool(z, _ball_values(z, "the weighted sum"), z.relative),
        r"\sum_i s_i x_i",
        sharp=True,
    )


def weighted_max(reading: Reading = "conservative") -> Mechanism:
    """max_i mu_i (x_i + R) on a segment, with s_i in the accumulative reading: a maximum that the weights cap.

    Constant 1; accumulative 2.
    """
    constant = _constant(reading, 1.0, 2.0)

    def evaluate(z: WeightedMultisets) -> np.ndarray:
        weights = z.shares if reading == "conservative" else z.relative
        return np.maximum.reduceat(weights * (_segment_values(z, "the weighted maximum") + 0.5), z.offsets[:-1])

    symbol = r"\mu_i" if reading == "conservative" else "s_i"
    return Mechanism("weighted maximum", reading, constant, evaluate, rf"\max_i {symbol}\,(x_i + R)", sharp=True)


def maximum(equal_weights: bool = True) -> Mechanism:
    """max_i x_i over the atoms on a segment, whatever their weights.

    On states of equal weights, such as an unweighted neighbourhood, it is accumulative with constant 2; on all states
    it is in no class, because the lightest atom moves it as far as the heaviest.
    """
    return Mechanism(
        "maximum",
        "accumulative",
        2.0 if equal_weights else np.inf,
        lambda z: np.maximum.reduceat(_segment_values(z, "the maximum"), z.offsets[:-1]),
        r"\max_i x_i",
        sharp=True,
        domain=_has_equal_weights if equal_weights else None,
        needs="equal weights",
    )


def uniform_mean(equal_weights: bool = True) -> Mechanism:
    """The mean of the values of all atoms, in a ball, whatever their weights: mean-field mixing.

    On states of equal weights it is the weighted mean, conservative with constant 1; on all states it is in no class.
    """
    return Mechanism(
        "uniform mean",
        "conservative",
        1.0 if equal_weights else np.inf,
        lambda z: _pool(z, _ball_values(z, "the uniform mean"), 1 / z.sizes[z.owner]),
        r"\tfrac1n\sum_i x_i",
        sharp=True,
        domain=_has_equal_weights if equal_weights else None,
        needs="equal weights",
    )


def mean_difference() -> Mechanism:
    """sum_ij mu_i mu_j rho(x_i, x_j), the mean distance of two atoms drawn by their shares; any space.

    Conservative, constant 2, approached by a light atom that leaves a heavy one.
    """

    def evaluate(z: WeightedMultisets) -> np.ndarray:
        first = np.repeat(np.arange(len(z.weights)), z.sizes[z.owner])
        starts = np.cumsum(z.sizes[z.owner]) - z.sizes[z.owner]
        second = np.arange(len(first)) - starts[first] + z.offsets[z.owner[first]]
        apart = z.space.ground(z.values[first], z.values[second])
        return np.bincount(z.owner[first], z.shares[first] * z.shares[second] * apart, minlength=len(z))

    return Mechanism(
        "mean difference", "conservative", 2.0, evaluate, r"\sum_{i,j} \mu_i\mu_j\,\rho(x_i, x_j)", sharp=True
    )


def attention_by_content(steepness: float) -> Mechanism:
    """sum mu_i e^{b x_i / kappa} x_i / sum mu_i e^{b x_i / kappa}: attention whose weights come from the first
    coordinate of the values on top of the state's own, in a ball.

    Conservative, constant (1 + b) e^b for the steepness b >= 0 (logits range over b), approached by a light atom that
    all attention is about to go to. Raises GradedSparseError for a negative steepness.
    """
    if not (np.isfinite(steepness) and steepness >= 0):
        raise GradedSparseError(f"the steepness must be finite and at least 0, not {steepness!r}")

    def evaluate(z: WeightedMultisets) -> np.ndarray:
        values = _ball_values(z, "attention by content")
        logits = steepness * z.coordinates[:, 0]
        attention = z.shares * np.exp(logits - np.maximum.reduceat(logits, z.offsets[:-1])[z.owner])
        return _pool(z, values, attention / np.bincount(z.owner, attention)[z.owner])

    return Mechanism(
        "attention by content",
        "conservative",
        (1 + steepness) * np.exp(steepness),
        evaluate,
        r"\sum_i a_i x_i,\ a_i \propto \mu_i e^{b x_i/\kappa}",
        sharp=True,
    )


def sharpened_gate(order: float, reading: Reading = "accumulative") -> Mechanism:
    """sum w_i^p x_i / sum w_i^p in a ball, p >= 1: a softmax gate read at a temperature p times lower.

    Accumulative, constant (p + 1)^(1 + 1/p) (p - 1)^(1 - 1/p) / (2 p), which is 2 at p = 1, 1.22 at its least and
    grows like p / 2; conservative 1 for p = 1 and none beyond. Raises GradedSparseError for an order below 1.
    """
    if not (np.isfinite(order) and order >= 1):
        raise GradedSparseError(f"the order of the gate must be finite and at least 1, not {order!r}")
    steepest = (order + 1) ** (1 + 1 / order) * (order - 1) ** (1 - 1 / order) / (2 * order)
    constant = _constant(reading, 1.0 if order == 1 else np.inf, steepest)

    def evaluate(z: WeightedMultisets) -> np.ndarray:
        power = z.relative**order
        return _pool(z, _ball_values(z, "the gate"), power / np.bincount(z.owner, power)[z.owner])

    return Mechanism(
        "sharpened gate", reading, constant, evaluate, r"\sum_i g_i x_i,\ g_i \propto w_i^{\,p}", sharp=True
    )


def thresholded_gate(threshold: float) -> Mechanism:
    """sum (mu_i - t)_+ x_i in a ball: experts below a share of 0 <= t < 1/2 are off, the others start from 0.

    Conservative, constant 1. Raises GradedSparseError for a threshold out of range.
    """
    if not 0 <= threshold < 0.5:
        raise GradedSparseError(f"the threshold must be at least 0 and below 1/2, not {threshold!r}")
    return Mechanism(
        "thresholded gate",
        "conservative",
        1.0,
        lambda z: _pool(z, _ball_values(z, "the gate"), np.maximum(z.shares - threshold, 0.0)),
        r"\sum_i (\mu_i - t)_+\, x_i",
        sharp=True,
    )


def top_gate(kept: int, reading: Reading = "conservative") -> Mechanism:
    """The sum of mu_i x_i over the ``kept`` heaviest atoms, in a ball; among equals the first listed.

    In no class: it jumps where the atom at the edge changes. Raises GradedSparseError unless kept is at least 1.
    """
    if kept < 1:
        raise GradedSparseError(f"the gate must keep at least 1 atom, not {kept!r}")

    def evaluate(z: WeightedMultisets) -> np.ndarray:
        order = np.lexsort((-z.weights, z.owner))
        chosen = np.zeros(len(z.weights), bool)
        chosen[order[np.arange(len(order)) - z.offsets[z.owner] < kept]] = True
        return _pool(z, _ball_values(z, "the gate"), z.shares * chosen)

    form = r"\sum_{i \le k} \mu_{(i)} x_{(i)}"
    return Mechanism(f"top-{kept} gate", reading, _constant(reading, np.inf, np.inf), evaluate, form, sharp=True)


def mean_vector(z: WeightedMultisets) -> np.ndarray:
    """sum mu_i e^{i theta_i} of every state as (n, 2) float64. Raises GradedSparseError for states off the circle."""
    if not isinstance(z.space, Circle):
        raise GradedSparseError(f"the mean vector is defined on the circle, not in {z.space}")
    return _sum_over_atoms(z, np.column_stack([np.cos(z.values), np.sin(z.values)]), z.shares)


def _constant(reading: Reading, conservative: float, accumulative: float) -> float:
    if reading not in ("conservative", "accumulative"):
        raise GradedSparseError(f"unknown reading {reading!r}: it is 'conservative' or 'accumulative'")
    return conservative if reading == "conservative" else accumulative


def _require_gate(polarization: float) -> None:
    if not 0 < polarization <= 1:
        raise GradedSparseError(f"the gate must lie in (0, 1], not {polarization!r}")


def _has_equal_weights(z: WeightedMultisets) -> np.ndarray:
    return z.tops * z.sizes <= z.totals * (1 + EQUAL_WEIGHTS)


def _ball_values(z: WeightedMultisets, what: str) -> np.ndarray:
    if not isinstance(z.space, Ball):
        hint = "; on the circle, use the flocking update" if isinstance(z.space, Circle) else ""
        raise GradedSparseError(f"{what} needs values in a ball{hint}")
    return z.values


def _segment_values(z: WeightedMultisets, what: str) -> np.ndarray:
    """The values in units of kappa, (atoms,) in [-1/2, 1/2]."""
    if not (isinstance(z.space, Ball) and z.space.dimension == 1):
        raise GradedSparseError(f"{what} needs values on a segment, Ball(1, R)")
    return z.coordinates[:, 0]


def _pool(z: WeightedMultisets, features: np.ndarray, weights: np.ndarray | None = None) -> np.ndarray:
    """The weighted sum of the atoms' features over kappa, (atoms,) -> (n,) or (atoms, q) -> (n, q); shares when no
    weights are given."""
    return _sum_over_atoms(z, features, z.shares if weights is None else weights) / z.space.kappa


def _sum_over_atoms(z: WeightedMultisets, features: np.ndarray, weights: np.ndarray) -> np.ndarray:
    scaled = weights * features if features.ndim == 1 else weights[:, None] * features
    return np.add.reduceat(scaled, z.offsets[:-1], axis=0)
