"""The class as a Lipschitz ball: extension from finitely many values, the three moves of the proof, and the supremum
over the class as a linear program (theory, section 1).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations_with_replacement
from math import comb

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import coo_array, vstack

from gradedsparse.errors import GradedSparseError
from gradedsparse.mechanisms import quotients
from gradedsparse.representation import Reading, atom_cost, distance_matrix, matching
from gradedsparse.spaces import Space
from gradedsparse.states import WeightedMultisets, require_same_space

# Values may exceed L d by this many kappa: the rounding of values that came from a mechanism of constant L.
VALUE_TOLERANCE = 1e-9
GRID_TOLERANCE = 1e-9
MOST_CANDIDATES = 500_000

Atoms = tuple[tuple[int, int], ...]  # (weight in units, index of the value), sorted


def least_constant(Z: WeightedMultisets, y: np.ndarray, reading: Reading = "conservative") -> float:
    """The least constant of a mechanism with the values y (len(Z),), in units of kappa.

    The largest ``|y_j - y_k| / d(z_j, z_k)``; ``inf`` when two states at distance 0 have different values. Raises
    GradedSparseError unless y is one finite number a state. Extension corollary of Theorem 1.
    """
    y = _values(Z, y)
    return float(quotients(np.abs(y[:, None] - y), distance_matrix(Z, reading=reading)).max())


def envelopes(
    Z: WeightedMultisets,
    y: np.ndarray,
    L: float,
    at: WeightedMultisets,
    reading: Reading = "conservative",
    threads: int | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Lower and upper envelope, (len(at),) each in units of kappa: max_j (y_j - L d) and min_j (y_j + L d).

    Every mechanism of constant L with the values y (len(Z),) at the states Z lies between the two, and both are such
    mechanisms (McShane 1934, Whitney 1934). Raises GradedSparseError unless y is one finite number a state and L
    positive and finite, and, naming the worst pair, when some ``|y_j - y_k| > L d(z_j, z_k)``, so that no mechanism of
    constant L has these values.
    """
    y = _values(Z, y)
    if not (np.isfinite(L) and L > 0):
        raise GradedSparseError(f"the constant must be positive and finite, not {L!r}")
    require_same_space(Z, at)
    _require_extendable(y, L, distance_matrix(Z, None, reading, threads))
    apart = L * distance_matrix(at, Z, reading, threads)
    return (y - apart).max(axis=1), (y + apart).min(axis=1)


def midpoint(
    Z: WeightedMultisets,
    y: np.ndarray,
    L: float,
    at: WeightedMultisets,
    reading: Reading = "conservative",
    threads: int | None = None,
) -> np.ndarray:
    """The mean of the two `envelopes`, (len(at),): the prediction whose largest possible error is least at every state.

    Raises as `envelopes` does.
    """
    lower, upper = envelopes(Z, y, L, at, reading, threads)
    return (lower + upper) / 2


@dataclass(frozen=True)
class ThreeMoves:
    """The walk from z to z' that proves Theorem 1.

    Attributes
    ----------
    weights, values
        (4, k) and (4, k) or (4, k, p): z, after A1, after A2, z'; column i is one element, of weight 0 where it is not
        there yet or no longer
    costs
        (3,) what the axioms charge for the moves, in units of kappa; they add up to d(z, z')
    space
        the value space
    """

    weights: np.ndarray
    values: np.ndarray
    costs: np.ndarray
    space: Space

    @property
    def path(self) -> WeightedMultisets:
        """The four states."""
        return WeightedMultisets.from_padded(self.weights, self.values, self.space)


def three_moves(z: WeightedMultisets, other: WeightedMultisets, reading: Reading = "conservative") -> ThreeMoves:
    """The three moves from a state to another along their optimal matching: values of the elements that gain weight
    (A1), weights (A2), values of the elements that lose weight (A1).

    Every element changes its value while its weight is the smaller of its two. Raises GradedSparseError unless both are
    single whole states, not truncated, of one space. Proof of Theorem 1.
    """
    first, second = matching(z, other, reading)[0].T
    if z.dropped.any() or other.dropped.any():
        raise GradedSparseError("there is no walk to a truncated state: its lightest atoms are not known")
    gone = np.setdiff1d(np.arange(len(z.weights)), first)
    new = np.setdiff1d(np.arange(len(other.weights)), second)
    a, b = _reading_weights(z, reading), _reading_weights(other, reading)
    before = np.concatenate([a[first], a[gone], np.zeros(len(new))])
    after = np.concatenate([b[second], np.zeros(len(gone)), b[new]])
    x = np.concatenate([z.values[first], z.values[gone], other.values[new]])
    y = np.concatenate([other.values[second], z.values[gone], other.values[new]])
    gains = (before <= after).reshape(-1, *[1] * (x.ndim - 1))
    halfway = np.where(gains, y, x)
    weights = np.stack([before, before, after, after])
    values = np.stack([x, halfway, halfway, y])
    costs = atom_cost(weights[:-1], values[:-1], weights[1:], values[1:], z.space).sum(axis=1)
    return ThreeMoves(weights, values, costs, z.space)


@dataclass(frozen=True)
class AxiomGrid:
    """A finite set of states, closed under the moves of the axioms, and what the axioms say on it.

    Attributes
    ----------
    states
        all states with weights and values on the grid
    moves
        (m, 2) int64, the pairs of states that are one move apart
    caps
        (m,) float64, how much the axioms let a mechanism change between the two, in units of kappa
    units, values, reading
        the grid: weights are multiples of 1 / units, values are among ``values``
    index
        the state of sorted atoms (weight in units, index of the value)
    """

    states: WeightedMultisets
    moves: np.ndarray
    caps: np.ndarray
    units: int
    values: np.ndarray
    reading: Reading
    index: dict[Atoms, int] = field(repr=False)

    def find(self, z: WeightedMultisets) -> int:
        """The index of a single state. Raises GradedSparseError when it is not on the grid."""
        require_same_space(self.states, z)
        in_units = _reading_weights(z, self.reading) * self.units
        apart = z.space.ground(z.values[:, None], self.values[None, :])
        weights, places = np.rint(in_units).astype(int), apart.argmin(axis=1)
        if max(np.abs(in_units - weights).max(), apart.min(axis=1).max()) < GRID_TOLERANCE:
            wanted = sorted(zip(weights.tolist(), places.tolist(), strict=True))
            if (index := self.index.get(tuple(wanted))) is not None:
                return index
        raise GradedSparseError(
            f"the state is not on the grid of weights k / {self.units} and {len(self.values)} values"
        )

    def supremum(self, i: int, j: int) -> tuple[float, np.ndarray]:
        """The largest f(z_i) - f(z_j) over all f on the states that satisfy the axioms, and such an f (len(states),)
        with f(z_j) = 0, in units of kappa.

        A linear program with a variable a state and two inequalities a move, solved by HiGHS; the metric d does not
        enter. By Theorem 1 the value is d(z_i, z_j), with the merging axiom the Wasserstein distance of the measures.
        Its dual is a shortest path: the cheapest walk from z_j to z_i in priced moves.
        """
        n, m = len(self.states), len(self.moves)
        rows = np.repeat(np.arange(m), 2)
        changes = coo_array((np.tile([1.0, -1.0], m), (rows, self.moves.ravel())), shape=(m, n)).tocsr()
        bounds = np.full((n, 2), [-np.inf, np.inf])
        bounds[j] = 0.0
        objective = np.zeros(n)
        objective[i] = -1.0
        solution = linprog(
            objective,
            vstack([changes, -changes]),
            np.concatenate([self.caps, self.caps]),
            bounds=bounds,
            method="highs",
        )
        if not solution.success:
            raise GradedSparseError(f"the linear program of the axioms was not solved: {solution.message}")
        return float(-solution.fun), solution.x


def axiom_grid(
    space: Space,
    values: Sequence,
    units: int,
    reading: Reading = "conservative",
    atoms: int | None = None,
    merging: bool = False,
    scale: float = 1.0,
) -> AxiomGrid:
    """All states of at most ``atoms`` atoms with weights k / units and values among ``values``, and their moves.

    A1 joins states that differ in the value of one atom, at its weight times rho. A2 joins states that differ by one
    unit of weight: moved between two elements, one of them possibly of weight 0 with any value (conservative), or given
    to or taken from one, the largest weight staying 1 (accumulative). Any change of weights on the grid is a chain of
    such moves whose caps add up to its own, so these inequalities say all that A1 and A2 say; A3 is in the states being
    multisets. With ``merging`` A4 joins an atom and its two parts at no cost.

    ``values`` is (v,), or (v, p) in a ball of dimension p > 1; ``atoms`` defaults to ``units``. ``scale`` is the kappa
    of A2 in units of the space's own; below 1 it is smaller than the diameter. Raises GradedSparseError for values
    outside the space or repeated, more than 500,000 candidate states, merging outside the conservative reading or with
    fewer atoms than units, numbers below 1, and a scale that is not positive.
    """
    atoms = units if atoms is None else atoms
    points = WeightedMultisets.from_lists([np.ones(len(values))], [values], space).values
    rho = space.ground(points[:, None], points[None, :])
    _require_grid(rho, units, atoms, reading, merging, scale)
    kinds = [(weight, place) for weight in range(1, units + 1) for place in range(len(points))]
    candidates = (c for size in range(1, atoms + 1) for c in combinations_with_replacement(kinds, size))
    total = sum if reading == "conservative" else max
    index = {c: i for i, c in enumerate(c for c in candidates if total(weight for weight, _ in c) == units)}
    caps: dict[tuple[int, int], float] = {}
    for state, i in index.items():
        for moved, cap in _moves(state, rho, units, reading, merging, scale):
            if (j := index.get(moved, i)) != i:
                pair = (min(i, j), max(i, j))
                caps[pair] = min(cap, caps.get(pair, np.inf))
    states = WeightedMultisets.from_lists(
        [[weight for weight, _ in state] for state in index],
        [points[[place for _, place in state]] for state in index],
        space,
    )
    moves = np.array(list(caps), np.int64).reshape(-1, 2)
    return AxiomGrid(states, moves, np.array(list(caps.values())), units, points, reading, index)


def _moves(
    state: Atoms, rho: np.ndarray, units: int, reading: Reading, merging: bool, scale: float
) -> Iterator[tuple[Atoms, float]]:
    """The states one move away and what the axioms charge. Some may be off the grid; of two states that are one move
    apart, one or both have the other here."""
    padded = (*state, *((0, place) for place in range(len(rho))))
    for i, (weight, place) in enumerate(state):
        for new in range(len(rho)):
            yield _replaced(padded, {i: (weight, new)}), weight / units * rho[place, new]  # A1
        if reading == "accumulative":
            yield _replaced(padded, {i: (weight - 1, place)}), scale / (2 * units)  # A2
            continue
        for k, (weight_k, place_k) in enumerate(padded):
            if k != i:
                yield _replaced(padded, {i: (weight - 1, place), k: (weight_k + 1, place_k)}), scale / units  # A2
        for part in range(1, weight if merging else 1):
            yield _replaced(padded, {i: (weight - part, place), len(state) + place: (part, place)}), 0.0  # A4


def _replaced(atoms: Atoms, changes: dict[int, tuple[int, int]]) -> Atoms:
    """The atoms with some changed, those of weight 0 dropped (A3), in order."""
    changed = [changes.get(i, atom) for i, atom in enumerate(atoms)]
    return tuple(sorted(atom for atom in changed if atom[0] > 0))


def _require_grid(rho: np.ndarray, units: int, atoms: int, reading: Reading, merging: bool, scale: float) -> None:
    for name, number in (("units", units), ("atoms", atoms)):
        if number < 1:
            raise GradedSparseError(f"{name} must be at least 1, not {number!r}")
    if reading not in ("conservative", "accumulative"):
        raise GradedSparseError(f"unknown reading {reading!r}: it is 'conservative' or 'accumulative'")
    if not (np.isfinite(scale) and scale > 0):
        raise GradedSparseError(f"the scale must be positive and finite, not {scale!r}")
    same = np.argwhere(np.triu(rho < GRID_TOLERANCE, 1))
    if len(same):
        raise GradedSparseError(f"values {same[0, 0]} and {same[0, 1]} of the grid are the same")
    if merging and (reading != "conservative" or atoms < units):
        raise GradedSparseError("merging needs the conservative reading and as many atoms as units")
    candidates = comb(units * len(rho) + atoms, atoms)
    if candidates > MOST_CANDIDATES:
        raise GradedSparseError(
            f"{units} units, {len(rho)} values and {atoms} atoms make {candidates:,} candidate states; "
            f"at most {MOST_CANDIDATES:,} are searched"
        )


def _values(Z: WeightedMultisets, y) -> np.ndarray:
    try:
        y = np.asarray(y, dtype=np.float64)
    except (TypeError, ValueError):
        raise GradedSparseError("the values y must be an array of numbers") from None
    if y.shape != (len(Z),) or len(Z) == 0:
        raise GradedSparseError(f"one value a state is wanted, ({len(Z)},), and at least one state; y has {y.shape}")
    if not np.isfinite(y).all():
        raise GradedSparseError(f"the value of state {int(np.argmin(np.isfinite(y)))} is not finite")
    return y


def _require_extendable(y: np.ndarray, L: float, apart: np.ndarray) -> None:
    """Raise GradedSparseError naming the pair whose values differ most beyond L d."""
    excess = np.abs(y[:, None] - y) - L * apart
    j, k = np.unravel_index(np.argmax(excess), excess.shape)
    if excess[j, k] > VALUE_TOLERANCE:
        raise GradedSparseError(
            f"no mechanism of constant {L:g} has these values: states {min(j, k)} and {max(j, k)} are "
            f"{apart[j, k]:.6g} kappa apart, their values {abs(y[j] - y[k]):.6g}"
        )


def _reading_weights(z: WeightedMultisets, reading: Reading) -> np.ndarray:
    return z.shares if reading == "conservative" else z.relative
