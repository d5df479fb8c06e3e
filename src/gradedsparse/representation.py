"""The metric that the axioms force: atom cost, overlap, distance, matching (theory, section 1).

The atom cost is ``c((a, x), (b, y)) = min(a, b) rho(x, y) + (kappa / 2) |a - b|``, the distance of two states the least
total cost of a matching of their atoms, atoms left over matched to atoms of weight 0. All results are in units of
kappa.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Literal, NamedTuple

import numpy as np
from scipy.optimize import linear_sum_assignment
from tqdm import tqdm

from gradedsparse import _distance_kernel as kernel
from gradedsparse._arguments import thread_count
from gradedsparse.errors import GradedSparseError
from gradedsparse.spaces import Discrete, Finite, Metric, Space
from gradedsparse.states import WeightedMultisets, require_same_space

Reading = Literal["conservative", "accumulative"]

ROWS_PER_TASK = 16
PAIRS_PER_TASK = 4096
TABLE_ENTRIES = 1 << 18  # of a user's ground metric, computed at a time


def atom_cost(a, x, b, y, space: Space) -> np.ndarray:
    """``min(a, b) rho(x, y) / kappa + |a - b| / 2`` for weights a, b and values x, y that broadcast; a metric on the
    cone over X."""
    return np.minimum(a, b) * space.ground(x, y) + np.abs(np.subtract(a, b)) / 2


def distance(z: WeightedMultisets, other: WeightedMultisets, reading: Reading = "conservative") -> float:
    """d(z, z') / kappa of two single states, e.g. ``distance(z[0], z[1])``; exact.

    conservative: weights are shares, the result is in [0, 1]. accumulative: weights are relative to the largest of
    their state, the result has no upper bound. Raises GradedSparseError when either is not one state, or their spaces
    differ. Theorem 1.
    """
    _require_single(z, other)
    _row_filler(z, other, reading, False, out := np.zeros((1, 1)))(0)
    return float(out[0, 0])


def distance_matrix(
    A: WeightedMultisets,
    B: WeightedMultisets | None = None,
    reading: Reading = "conservative",
    threads: int | None = None,
    progress: bool = False,
) -> np.ndarray:
    """All distances d(A_i, B_j) / kappa, exact, as a (len(A), len(B)) float64 array; of A to itself when B is left out.

    ``threads`` defaults to all cores. Raises GradedSparseError for different spaces, an unknown reading, or
    ``threads`` that is not a positive integer.
    """
    within = B is None
    B = A if within else B
    symmetric = within and not isinstance(A.space, Metric)
    require_same_space(A, B)
    fill_rows = _row_filler(A, B, reading, symmetric, out := np.zeros((len(A), len(B))))
    with (
        ThreadPoolExecutor(thread_count(threads)) as pool,
        tqdm(total=len(A), unit="row", disable=not progress) as bar,
    ):
        for done in pool.map(fill_rows, range(0, len(A), ROWS_PER_TASK)):
            bar.update(done)
    if symmetric:
        out += out.T
        np.fill_diagonal(out, _weights(A, reading)[1])
    return out


def distance_pairs(
    A: WeightedMultisets,
    B: WeightedMultisets,
    rows: np.ndarray,
    columns: np.ndarray,
    reading: Reading = "conservative",
    threads: int | None = None,
) -> np.ndarray:
    """The distances d(A_i, B_j) / kappa of listed pairs, i in ``rows`` (k,) and j in ``columns`` (k,), as (k,) float64.

    Raises as `distance_matrix` does, and for a ground metric that is a user's function.
    """
    require_same_space(A, B)
    if isinstance(A.space, Metric):
        raise GradedSparseError("listed pairs need a ground metric that is known by formula or table")
    rows, columns = np.asarray(rows, np.int64), np.asarray(columns, np.int64)
    out, tables = np.empty(len(rows)), tables_of(A.space)
    a, b = prepare(A, reading), prepare(B, reading)

    def fill(first: int) -> None:
        last = min(first + PAIRS_PER_TASK, len(rows))
        kernel.distance_pairs(A.space.kind, tables, a, b, rows, columns, first, last, out)

    with ThreadPoolExecutor(thread_count(threads)) as pool:
        list(pool.map(fill, range(0, len(rows), PAIRS_PER_TASK)))
    return out


class Prepared(NamedTuple):
    """States as the compiled kernels take them: the atoms of each by descending weight, equal weights by value.

    ``weights`` (atoms + LANES,) in a reading, ``coordinates`` (p, atoms + LANES), ``left`` (n,) the dropped weights.
    """

    offsets: np.ndarray
    weights: np.ndarray
    coordinates: np.ndarray
    left: np.ndarray


def prepare(z: WeightedMultisets, reading: Reading) -> Prepared:
    """Lay out states for the kernels. Raises GradedSparseError for an unknown reading."""
    weights, left = _weights(z, reading)
    order = np.lexsort((*z.coordinates.T[::-1], -weights, z.owner))
    spare = (0, kernel.LANES)
    return Prepared(
        z.offsets,
        np.pad(weights[order], spare),
        np.pad(z.coordinates[order].T, ((0, 0), spare)),
        left,
    )


def _row_filler(
    A: WeightedMultisets, B: WeightedMultisets, reading: Reading, symmetric: bool, out: np.ndarray
) -> Callable[[int], int]:
    """A function that fills up to ROWS_PER_TASK rows of ``out`` from a given one and returns how many."""
    if isinstance(A.space, Metric):
        return lambda first: _fill_rows_by_tables(A, B, reading, out, first)
    a, b = prepare(A, reading), prepare(B, reading)
    tables = tables_of(A.space)

    def fill_rows(first: int) -> int:
        last = min(first + ROWS_PER_TASK, len(A))
        _fill(A.space.kind, tables, a, b, first, last, symmetric, out)
        return last - first

    return fill_rows


def _fill_rows_by_tables(A: WeightedMultisets, B: WeightedMultisets, reading: Reading, out: np.ndarray, first: int):
    """The same for a user's metric: rho of all atoms of a few states to all atoms of a few others, then their rows."""
    some_a = A[first : first + ROWS_PER_TASK]
    a = prepare(_numbered(some_a), reading)
    atoms = max(1, TABLE_ENTRIES // len(some_a.weights))
    edges = np.flatnonzero(np.diff(B.offsets[:-1] // atoms, prepend=-1)) if len(B) else []
    for lo, hi in zip(edges, [*edges[1:], len(B)], strict=True):
        some_b = B[lo:hi]
        table = A.space.ground(some_a.values[:, None], some_b.values[None])
        b = prepare(_numbered(some_b), reading)
        part = np.empty((len(some_a), len(some_b)))
        _fill(A.space.kind, (table, np.ascontiguousarray(table.T)), a, b, 0, len(some_a), False, part)
        out[first : first + len(some_a), lo:hi] = part
    return len(some_a)


def _numbered(z: WeightedMultisets) -> WeightedMultisets:
    """The states with every atom's value replaced by its number."""
    return WeightedMultisets(z.offsets, z.weights, np.arange(float(len(z.weights))), Discrete(), z.dropped)


def tables_of(space: Space) -> tuple[np.ndarray, np.ndarray]:
    """The ground metric there and back for the kernels, as tables; empty where the space has a formula."""
    table = space.table if isinstance(space, Finite) else np.empty((0, 0))
    return table, table


def _fill(kind: int, tables: tuple, a: Prepared, b: Prepared, first: int, last: int, symmetric: bool, out):
    kernel.distance_rows(
        kind, tables, a.offsets, a.weights, a.coordinates, a.left, b.offsets, b.weights, b.coordinates, b.left,
        first, last, symmetric, out,
    )  # fmt: skip


def matching(
    z: WeightedMultisets, other: WeightedMultisets, reading: Reading = "conservative"
) -> tuple[np.ndarray, np.ndarray]:
    """The optimal matching of two single states and what each matched pair adds to the overlap.

    Returns ``pairs`` (k, 2), atom of z and atom of z', k the smaller number of atoms, sorted by the first, and
    ``affinity`` (k,), min(a, b) (1 - rho / kappa); d / kappa is half the two totals less the sum of ``affinity``.
    Atoms that no pair names are left over. Raises as `distance` does.
    """
    _require_single(z, other)
    a, b = _weights(z, reading)[0], _weights(other, reading)[0]
    affinity = np.minimum(a[:, None], b) * (1 - _ground_matrix(z, other))
    rows, columns = linear_sum_assignment(affinity, maximize=True)
    return np.column_stack([rows, columns]), affinity[rows, columns]


def overlap(z: WeightedMultisets, other: WeightedMultisets, reading: Reading = "conservative") -> float:
    """The largest sum of min(a, b) (1 - rho / kappa) over matchings of two single states' atoms; conservative: 1 - d
    / kappa."""
    return float(matching(z, other, reading)[1].sum())


def distance_reference(z: WeightedMultisets, other: WeightedMultisets, reading: Reading = "conservative") -> float:
    """d / kappa as its definition reads: both states padded with atoms of weight 0, one square assignment by scipy."""
    _require_single(z, other)
    (a, left_a), (b, left_b) = _weights(z, reading), _weights(other, reading)
    cost = np.zeros((len(a) + len(b),) * 2)
    cost[: len(a), : len(b)] = np.minimum(a[:, None], b) * _ground_matrix(z, other) + np.abs(a[:, None] - b) / 2
    cost[: len(a), len(b) :] = a[:, None] / 2
    cost[len(a) :, : len(b)] = b / 2
    rows, columns = linear_sum_assignment(cost)
    return float(cost[rows, columns].sum() + (left_a[0] + left_b[0]) / 2)


def _ground_matrix(z: WeightedMultisets, other: WeightedMultisets) -> np.ndarray:
    return z.space.ground(z.values[:, None], other.values[None, :])


def _weights(z: WeightedMultisets, reading: Reading) -> tuple[np.ndarray, np.ndarray]:
    """Atom weights and dropped weights (n,) in the given reading."""
    if reading == "conservative":
        return z.shares, z.dropped / z.totals
    if reading == "accumulative":
        return z.relative, z.dropped / z.tops
    raise GradedSparseError(f"unknown reading {reading!r}: it is 'conservative' or 'accumulative'")


def _require_single(*states: WeightedMultisets) -> None:
    for z in states:
        if len(z) != 1:
            raise GradedSparseError(f"one state is wanted, such as z[0], not {len(z)}")
    require_same_space(*states)
