"""Adversarial search: the pair of states on which a mechanism comes closest to its constant.

Random pairs of states are far from the extremal ones, so the search climbs: from structured starts it moves weights and
values of both states at all scales, keeps the pairs of largest ``|f(z) - f(z')| / d(z, z')``, and restarts. What it
finds is a lower bound on the constant, with two states to show for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import permutations
from typing import Literal

import numpy as np

from gradedsparse.errors import GradedSparseError
from gradedsparse.mechanisms import Mechanism, quotients
from gradedsparse.representation import atom_cost
from gradedsparse.spaces import Ball, Circle, Space
from gradedsparse.states import WeightedMultisets

Axiom = Literal["A1", "A2"]

# Below this many kappa the rounding of f would count for more than 1e-9 of the ratio.
CLOSEST = 1e-6
RATIO_TOLERANCE = 1e-8
MOST_ATOMS = 5  # every matching of two states is tried, 120 at five atoms
STARTS = 512
PARENTS = 32  # pairs that a climb goes on from
PROPOSALS = 24  # of each kind of move, at every step
PATIENCE = 30  # steps without a gain before a climb ends
WORTHWHILE = 1e-4  # a gain, as a part of the ratio
SMALLEST_STEP = 1e-5
UNBOUNDED = 1e4  # a ratio beyond this will do to show that there is no constant


@dataclass(frozen=True)
class Witness:
    """The pair of states with the largest ratio found.

    Attributes
    ----------
    ratio
        ``|f(z) - f(z')| / d(z, z')``, or over the cap of one axiom if the search was for that
    z, other
        the two states; atom i of one stands for the same element as atom i of the other unless a weight is 0
    change, cost
        numerator and denominator, in units of kappa
    evaluated
        how many pairs were looked at
    """

    ratio: float
    z: WeightedMultisets
    other: WeightedMultisets
    change: float
    cost: float
    evaluated: int


def largest_ratio(
    mechanism: Mechanism,
    space: Space,
    atoms: int = 3,
    seed: int = 0,
    restarts: int = 4,
    steps: int = 150,
    axiom: Axiom | None = None,
    closest: float = CLOSEST,
) -> Witness:
    """Search for the pair of states of at most ``atoms`` atoms that maximises ``|f(z) - f(z')| / d(z, z')``.

    With ``axiom`` the two states differ by one move and the cap of that axiom takes the place of d: ``A1``, the value
    of one element changes; ``A2``, the weights change at fixed values. By Theorem 1 the constant of a mechanism that is
    defined on all states is the larger of the two. Only pairs at least ``closest`` kappa apart are looked at. A climb
    ends early when 30 steps gained less than 0.01 % or the ratio is beyond 10,000. The same seed gives the same pair.
    Raises GradedSparseError unless the space is a circle or a ball, ``atoms`` is in 1 to 5, ``restarts`` and ``steps``
    are positive and ``closest`` is in [1e-6, 1); and when no pair of states was found that the mechanism is defined on.
    """
    if not isinstance(space, (Circle, Ball)):
        raise GradedSparseError(f"the search moves values on a circle or in a ball, not in {space}")
    if not 1 <= atoms <= MOST_ATOMS:
        raise GradedSparseError(f"the search takes 1 to {MOST_ATOMS} atoms a state, not {atoms!r}")
    for name, number in (("restarts", restarts), ("steps", steps)):
        if number < 1:
            raise GradedSparseError(f"{name} must be at least 1, not {number!r}")
    if axiom not in (None, "A1", "A2"):
        raise GradedSparseError(f"unknown axiom {axiom!r}: it is 'A1' or 'A2'")
    if not CLOSEST <= closest < 1:
        raise GradedSparseError(f"closest must be at least {CLOSEST:g} and below 1, not {closest!r}")
    rng = np.random.default_rng(seed)
    climb = _Climb(mechanism, space, axiom, closest)
    ratio, weights, values = max((climb.run(rng, atoms, steps) for _ in range(restarts)), key=lambda found: found[0])
    if not climb.admitted:
        raise GradedSparseError(f"found no pair of states that the {mechanism.name} is defined on")
    z, other = (WeightedMultisets.from_padded(weights[[side]], values[[side]], space) for side in (0, 1))
    change = float(mechanism.apart(mechanism(z), mechanism(other))[0])
    cost = float(climb.costs(weights[None], values[None])[0])
    return Witness(ratio, z, other, change, cost, climb.evaluated)


@dataclass(frozen=True)
class Check:
    """A mechanism beside what the search found.

    Attributes
    ----------
    found
        the pair of states with the largest ratio
    by_axiom
        the largest ratio over the cap of ``A1`` and of ``A2`` alone
    """

    mechanism: Mechanism
    found: Witness
    by_axiom: dict[Axiom, float]


def check(mechanism: Mechanism, space: Space, **options) -> Check:
    """Search for pairs of states against the mechanism's constant, and with each axiom alone.

    ``options`` are those of `largest_ratio` except ``axiom``. Raises GradedSparseError as that does, and when a ratio
    exceeds the constant, which is then wrong.
    """
    found = largest_ratio(mechanism, space, **options)
    by_axiom = {axiom: largest_ratio(mechanism, space, axiom=axiom, **options).ratio for axiom in ("A1", "A2")}
    largest = max(found.ratio, *by_axiom.values())
    if largest > mechanism.constant * (1 + RATIO_TOLERANCE):
        raise GradedSparseError(
            f"the {mechanism.name} has no {mechanism.reading} constant {mechanism.constant:.6g}: "
            f"a pair of states has the ratio {largest:.6g}"
        )
    return Check(mechanism, found, by_axiom)


class _Climb:
    """One hill climb after another on pairs of padded states: weights (n, 2, k), values (n, 2, k) or (n, 2, k, p)."""

    def __init__(self, mechanism: Mechanism, space: Space, axiom: Axiom | None, closest: float):
        self.mechanism, self.space, self.axiom, self.closest = mechanism, space, axiom, closest
        self.evaluated = 0
        self.admitted = 0

    def run(self, rng, atoms: int, steps: int) -> tuple[float, np.ndarray, np.ndarray]:
        """The best pair of one climb: its ratio, weights (2, k) and values (2, k)."""
        parents = self._best(*self._rated(*_starts(rng, atoms, self.space)))
        mark, idle = 0.0, 0
        for _ in range(steps):
            ratios, weights, values = parents
            mark, idle = (ratios[0], 0) if ratios[0] > mark * (1 + WORTHWHILE) else (mark, idle + 1)
            if mark > UNBOUNDED or idle == PATIENCE:
                break
            chosen = rng.integers(len(ratios), size=(len(MOVES), PROPOSALS))
            moved = [
                move(rng, weights[rows], values[rows], self.space) for move, rows in zip(MOVES, chosen, strict=True)
            ]
            weights, values = (np.concatenate(arrays) for arrays in zip(*moved, strict=True))
            children = self._rated(_alive(weights), values)
            parents = self._best(*(np.concatenate(arrays) for arrays in zip(parents, children, strict=True)))
        ratios, weights, values = parents
        return float(ratios[0]), weights[0], values[0]

    def _rated(self, weights, values):
        weights, values = self._tied(weights, values)
        return self._ratios(weights, values), weights, values

    @staticmethod
    def _best(ratios, weights, values):
        """The pairs with the largest ratios, the best first."""
        order = np.argsort(-ratios, kind="stable")[:PARENTS]
        return ratios[order], weights[order], values[order]

    def _tied(self, weights, values):
        """The pairs with what the axiom holds fixed made equal."""
        if self.axiom == "A1":
            weights[:, 1] = weights[:, 0]
            values[:, 1, 1:] = values[:, 0, 1:]
        elif self.axiom == "A2":
            values[:, 1] = values[:, 0]
        return weights, values

    def _ratios(self, weights, values) -> np.ndarray:
        """Ratios (n,) of the pairs; 0 for pairs too close, or outside the mechanism's domain."""
        self.evaluated += len(weights)
        costs = self.costs(weights, values)
        sides = [WeightedMultisets.from_padded(weights[:, side], values[:, side], self.space) for side in (0, 1)]
        admitted = (costs >= self.closest) & self.mechanism.defined(sides[0]) & self.mechanism.defined(sides[1])
        self.admitted += int(admitted.sum())
        ratios = np.zeros(len(weights))
        if admitted.any():
            outputs = [self.mechanism(side[admitted]) for side in sides]
            ratios[admitted] = quotients(self.mechanism.apart(*outputs), costs[admitted])
        return ratios

    def costs(self, weights, values) -> np.ndarray:
        """d of the pairs (n,), the least cost over all matchings; the cost of the identity when an axiom is searched.

        Atoms of weight 0 take part, so a matching of all atoms is enough.
        """
        scale = weights.sum(axis=2) if self.mechanism.reading == "conservative" else weights.max(axis=2)
        a, b = np.moveaxis(weights / scale[:, :, None], 1, 0)
        x, y = np.moveaxis(values, 1, 0)
        if self.axiom:
            return atom_cost(a, x, b, y, self.space).sum(axis=1)
        costs = atom_cost(a[:, :, None], x[:, :, None], b[:, None], y[:, None], self.space)
        rows = np.arange(a.shape[1])
        return np.min([costs[:, rows, order].sum(axis=1) for order in permutations(rows)], axis=0)


def _starts(rng, atoms: int, space: Space) -> tuple[np.ndarray, np.ndarray]:
    """Pairs of states with structure: equal, heavy-and-light or random weights; values at one place, at two opposite
    places or anywhere; the second state drawn afresh, or the first with one atom changed."""
    shape = (STARTS, 2, atoms)
    graded = 10.0 ** (-rng.integers(1, 4, (STARTS, 1, 1)) * rng.integers(0, 2, shape))
    weights = _mix(rng, np.ones(shape), graded, rng.exponential(size=shape))
    weights[..., 1:] *= rng.random((STARTS, 2, atoms - 1)) < 0.8
    anywhere = _points(rng, shape, space)
    one_place = np.broadcast_to(_ends(rng, (STARTS, 1, 1), space), anywhere.shape)
    opposite = np.where(_per_atom(rng.random(shape) < 0.5, one_place), one_place, _opposite(one_place, space))
    values = _mix(rng, one_place, opposite, anywhere)
    near = rng.random(STARTS) < 0.7
    touched = _chosen(rng, STARTS, atoms)
    follows = near[:, None] & ~touched
    weights[:, 1] = np.where(follows, weights[:, 0], weights[:, 1])
    values[:, 1] = np.where(_per_atom(follows, values[:, 1]), values[:, 0], values[:, 1])
    return _alive(weights), values


def _weigh(rng, weights, values, space):
    """Multiply the weight of one atom, in one state or in both."""
    factor = np.exp(rng.normal(size=(len(weights), 1, 1)) * 10 * _steps(rng, (len(weights), 1, 1)))
    return np.where(_touched(rng, weights), weights * factor, weights), values


def _switch(rng, weights, values, space):
    """Take one atom away, or give it the weight of another atom of the pair."""
    n, _, k = weights.shape
    source = weights.reshape(n, 2 * k)[np.arange(n), rng.integers(2 * k, size=n)]
    new = np.where(rng.random(n) < 0.5, 0.0, source)
    return np.where(_touched(rng, weights), new[:, None, None], weights), values


def _shift(rng, weights, values, space):
    """Move the value of one atom, in one state or in both, by the same step."""
    step = rng.normal(size=(len(weights), 1, 1, *values.shape[3:])) * space.kappa
    step *= _per_atom(_steps(rng, (len(weights), 1, 1)), step)
    moved = _inside(values + step, space)
    return weights, np.where(_per_atom(_touched(rng, weights), values), moved, values)


def _place(rng, weights, values, space):
    """Put one atom where another atom of the pair is, opposite it, or at an end of the space."""
    n, _, k = weights.shape
    source = values.reshape(n, 2 * k, *values.shape[3:])[np.arange(n), rng.integers(2 * k, size=n)][:, None, None]
    target = _mix(rng, source, _opposite(source, space), _ends(rng, (n, 1, 1), space))
    return weights, np.where(_per_atom(_touched(rng, weights), values), target, values)


def _jiggle(rng, weights, values, space):
    """Move everything a little."""
    size = _steps(rng, (len(weights), 1, 1))
    moved = values + _per_atom(size, values) * rng.normal(size=values.shape) * space.kappa
    return weights * np.exp(size * rng.normal(size=weights.shape)), _inside(moved, space)


def _stretch(rng, weights, values, space):
    """Bring the second state closer to the first along the line between them, or take it further away."""
    t = np.exp(rng.normal(size=(len(weights), 1)))
    weights[:, 1] = np.maximum(weights[:, 0] + t * (weights[:, 1] - weights[:, 0]), 0.0)
    values[:, 1] = values[:, 0] + _per_atom(t, values[:, 1]) * (values[:, 1] - values[:, 0])
    return weights, _inside(values, space)


def _mirror(rng, weights, values, space):
    """Move the first state a little and let the second be its image, reflected in the midpoint of two of its atoms."""
    weights, values = _jiggle(rng, weights, values, space)
    n, _, k = weights.shape
    pair = sum(values[np.arange(n), 0, rng.integers(k, size=n)] for _ in range(2))[:, None]
    centre = _mix(rng, pair, _opposite(pair, space)) if isinstance(space, Circle) else pair
    weights[:, 1] = weights[:, 0]
    values[:, 1] = centre - values[:, 0]
    return weights, _inside(values, space)


def _swap(rng, weights, values, space):
    """Bring two weights of the first state close together and let the second be the first with the two exchanged."""
    n, _, k = weights.shape
    rows, i, j = np.arange(n), rng.integers(k, size=n), rng.integers(k, size=n)
    weights[rows, 0, j] = weights[rows, 0, i] * np.exp(_steps(rng, n))
    weights[:, 1], values[:, 1] = weights[:, 0], values[:, 0]
    weights[rows, 1, i], weights[rows, 1, j] = weights[rows, 0, j], weights[rows, 0, i]
    return weights, values


MOVES = (_weigh, _switch, _shift, _place, _jiggle, _stretch, _mirror, _swap)


def _alive(weights: np.ndarray) -> np.ndarray:
    """Weights relative to the largest of their state, the first atom revived where all are 0."""
    weights[..., 0] = np.where(weights.max(axis=-1) > 0, weights[..., 0], 1.0)
    return weights / weights.max(axis=-1, keepdims=True)


def _steps(rng, shape) -> np.ndarray:
    """Step lengths in units of kappa, spread evenly over the scales down to SMALLEST_STEP."""
    return SMALLEST_STEP ** rng.random(shape)


def _chosen(rng, n: int, atoms: int) -> np.ndarray:
    """One atom of each of n, as (n, k) bool."""
    return np.arange(atoms) == rng.integers(atoms, size=n)[:, None]


def _touched(rng, weights) -> np.ndarray:
    """One atom of each pair, in the first state, the second or both, as (n, 2, k) bool."""
    n, _, k = weights.shape
    sides = np.array([[True, False], [False, True], [True, True]])[rng.integers(3, size=n)]
    return sides[:, :, None] & _chosen(rng, n, k)[:, None]


def _mix(rng, *arrays: np.ndarray) -> np.ndarray:
    """For every row one of the arrays, at random."""
    choice = rng.integers(len(arrays), size=len(arrays[0]))
    return np.stack(arrays)[choice, np.arange(len(choice))]


def _per_atom(mask: np.ndarray, values: np.ndarray) -> np.ndarray:
    """The mask with axes for the coordinates of the values added."""
    return mask.reshape(mask.shape + (1,) * (values.ndim - mask.ndim))


def _points(rng, shape, space: Space) -> np.ndarray:
    """Values anywhere in the space."""
    ends = _ends(rng, shape, space)
    return ends if isinstance(space, Circle) else ends * _per_atom(rng.random(shape), ends)


def _ends(rng, shape, space: Space) -> np.ndarray:
    """Values on the boundary of a ball, or anywhere on the circle."""
    if isinstance(space, Circle):
        return rng.uniform(0, 2 * np.pi, shape)
    if space.dimension == 1:
        return space.radius * rng.choice([-1.0, 1.0], shape)
    directions = rng.normal(size=(*shape, space.dimension))
    return space.radius * directions / np.linalg.norm(directions, axis=-1, keepdims=True)


def _opposite(values: np.ndarray, space: Space) -> np.ndarray:
    return values + np.pi if isinstance(space, Circle) else -values


def _inside(values: np.ndarray, space: Space) -> np.ndarray:
    """The nearest values of the space."""
    if isinstance(space, Circle):
        return np.mod(values, 2 * np.pi)
    if space.dimension == 1:
        return np.clip(values, -space.radius, space.radius)
    return values * np.minimum(1.0, space.radius / np.maximum(np.linalg.norm(values, axis=-1, keepdims=True), 1e-300))
