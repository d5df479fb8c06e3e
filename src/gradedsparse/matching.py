"""Optimal matching of two samples of states under d: W1 of their empirical laws, with a dual that certifies it."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import ot
from tqdm import tqdm

from gradedsparse import _matching_kernel as kernel
from gradedsparse._arguments import thread_count
from gradedsparse.bounds import features
from gradedsparse.errors import GradedSparseError
from gradedsparse.representation import distance_matrix, distance_pairs, prepare, tables_of
from gradedsparse.spaces import Metric
from gradedsparse.states import WeightedMultisets, require_same_space

DEFAULT_TOLERANCE = 1e-6

# Halves up to this size are matched on the full matrix of distances.
DENSE = 256

NEIGHBOURS = 12  # candidates of each state at the start
TRIED = 48  # distances computed to find them
ADDED = 16  # pairs added to each state's candidates at a time
ROWS_PER_TASK = 32

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
    time_limit: float | None = None,
) -> Matching:
    """W1 of the empirical laws of A and B under d / kappa by an optimal matching, with dual potentials.

    Equal halves are matched on a graph of candidate pairs; every other pair is excluded by a lower bound on d or
    priced against the potentials, and added where it violates them, until none does or the gap is at most ``tol``
    (``tol=0``: exact). Memory is that of the states and candidates. Halves of unequal size are matched by a plan that
    splits states; that, and a ground metric given as a user's function, takes all distances and 16 len(A) len(B) bytes.

    After ``time_limit`` seconds the best matching so far is returned with a valid lower bound, whatever its gap. Raises
    GradedSparseError for an empty half, different spaces, a negative ``tol`` or ``time_limit``.
    """
    for name, half in (("A", A), ("B", B)):
        if len(half) == 0:
            raise GradedSparseError(f"half {name} is empty: it has no states to match")
    require_same_space(A, B)
    if not tol >= 0:
        raise GradedSparseError(f"tol must be at least 0, not {tol!r}")
    if time_limit is not None and not time_limit >= 0:
        raise GradedSparseError(f"time_limit must be at least 0 seconds, not {time_limit!r}")
    threads = thread_count(threads)
    if len(A) != len(B) or len(A) <= DENSE or isinstance(A.space, Metric):
        return _match_on_all(A, B, tol, threads, progress)
    return _match_on_candidates(A, B, max(tol, ROUNDING), threads, progress, time_limit)


def _match_on_all(A: WeightedMultisets, B: WeightedMultisets, tol: float, threads: int, progress: bool) -> Matching:
    """An optimal plan from the full matrix of distances."""
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


@dataclass
class _Candidates:
    """The graph of candidate pairs, by rows: the columns ``starts[i]:starts[i + 1]`` of row i and their distances."""

    starts: np.ndarray
    columns: np.ndarray
    costs: np.ndarray

    @classmethod
    def of(cls, rows: np.ndarray, columns: np.ndarray, costs: np.ndarray, n: int) -> _Candidates:
        """The graph with the given pairs, each once, in any order."""
        code = rows.astype(np.int64) * n + columns
        _, first = np.unique(code, return_index=True)
        starts = np.searchsorted(code[first], np.arange(n + 1) * n)
        return cls(starts, columns[first].astype(np.int64), costs[first])

    def add(self, rows: np.ndarray, columns: np.ndarray, costs: np.ndarray) -> _Candidates:
        """The graph with more pairs."""
        n = len(self.starts) - 1
        own = np.repeat(np.arange(n), np.diff(self.starts))
        return _Candidates.of(
            np.concatenate([own, rows]), np.concatenate([self.columns, columns]), np.concatenate([self.costs, costs]), n
        )

    def cost_of(self, column_of: np.ndarray) -> np.ndarray:
        """The distance of every row to its column."""
        own = np.repeat(np.arange(len(column_of)), np.diff(self.starts))
        chosen = np.flatnonzero(self.columns == column_of[own])
        out = np.empty(len(column_of))
        out[own[chosen]] = self.costs[chosen]
        return out


class _Search:
    """All pairs of two equal halves, reached through bounds: candidates, pricing, and the count of distances."""

    def __init__(self, A: WeightedMultisets, B: WeightedMultisets, pool: ThreadPoolExecutor, progress: bool):
        self.n = len(A)
        self.halves = (A, B)
        self.space = (A.space.kind, tables_of(A.space))
        self.states = prepare(A, "conservative"), prepare(B, "conservative")
        self.features = features(A, B)
        self.pool = pool
        self.progress = progress
        self.evaluated = 0

    def each(self, task: Callable, what: str) -> list:
        """The results of ``task(first, last)`` for all blocks of rows."""
        blocks = [(first, min(first + ROWS_PER_TASK, self.n)) for first in range(0, self.n, ROWS_PER_TASK)]
        with tqdm(total=self.n, unit="row", desc=what, disable=not self.progress) as bar:
            results = []
            for (first, last), result in zip(blocks, self.pool.map(lambda block: task(*block), blocks), strict=True):
                results.append(result)
                bar.update(last - first)
        return results

    def nearest(self) -> _Candidates:
        """For every row its nearest columns, as far as the bounds find them, and the column of its own number."""
        k = min(NEIGHBOURS, self.n)
        columns, costs = np.empty((self.n, k), np.int64), np.empty((self.n, k))
        self.evaluated += sum(
            self.each(
                lambda first, last: kernel.nearest_rows(
                    *self.space, *self.states, *self.features, first, last, min(TRIED, self.n), columns, costs
                ),
                "candidates",
            )
        )
        rows = np.repeat(np.arange(self.n), k)
        graph = _Candidates.of(rows, columns.ravel(), costs.ravel(), self.n)
        own = np.arange(self.n)
        return graph.add(own, own, self.distances(own, own))

    def distances(self, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """The distances of the given pairs."""
        self.evaluated += len(rows)
        return distance_pairs(*self.halves, rows, columns)

    def violated(self, u: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, bool]:
        """Pairs with d < u_i + v_j: their rows, columns and distances, and whether these are all."""

        def price(first, last):
            columns, costs = np.empty((last - first, ADDED), np.int64), np.empty((last - first, ADDED))
            count = np.empty(last - first, np.int64)
            evaluated = kernel.price_rows(
                *self.space, *self.states, *self.features, u, v, first, last, columns, costs, count
            )
            filled = np.arange(ADDED) < count[:, None]
            return np.repeat(np.arange(first, last), count), columns[filled], costs[filled], evaluated

        rows, columns, costs, evaluated = zip(*self.each(price, "pricing"), strict=True)
        self.evaluated += sum(evaluated)
        rows = np.concatenate(rows)
        return rows, np.concatenate(columns), np.concatenate(costs), np.bincount(rows).max(initial=0) < ADDED

    def bounded(self, v: np.ndarray) -> np.ndarray:
        """Potentials u that the bounds alone prove feasible with v."""
        u = np.empty(self.n)
        self.each(lambda first, last: kernel.bounded_rows(*self.features, v, first, last, u), "bounds")
        return u


def _match_on_candidates(
    A: WeightedMultisets, B: WeightedMultisets, tol: float, threads: int, progress: bool, time_limit: float | None
) -> Matching:
    """An optimal perfect matching without the full matrix: solve on the candidates, price the rest, repeat."""
    stop = np.inf if time_limit is None else time.monotonic() + time_limit
    n = len(A)
    with ThreadPoolExecutor(threads) as pool:
        search = _Search(A, B, pool, progress)
        graph = search.nearest()
        u, v = np.empty(n), np.zeros(n)
        column_of, row_of = np.full(n, -1), np.full(n, -1)
        best = None
        while True:
            arrays = (graph.starts, graph.columns, graph.costs, u, v, column_of, row_of)
            kernel.relax_potentials(*arrays)
            for first in range(0, n, ROWS_PER_TASK):
                if time.monotonic() > stop:
                    return _stopped(search, graph, v, column_of, row_of, best)
                kernel.augment(*arrays, first, min(first + ROWS_PER_TASK, n))
            rows, columns, costs, complete = search.violated(u, v)
            if complete:
                feasible = u.copy()
                np.minimum.at(feasible, rows, costs - v[columns])
                best = _perfect(graph.cost_of(column_of), column_of, feasible, v.copy(), search.evaluated, best)
                if best.gap <= tol:
                    return best
            graph = graph.add(rows, columns, costs)


def _perfect(
    costs: np.ndarray, column_of: np.ndarray, u: np.ndarray, v: np.ndarray, evaluated: int, best: Matching | None
) -> Matching:
    """The matching and potentials at hand, or what was better before."""
    n = len(u)
    value, lower = float(costs.mean()), float(u.mean() + v.mean())
    pairs, potentials = np.column_stack([np.arange(n), column_of]), (u, v)
    if best and best.value < value:
        pairs, value = best.pairs, best.value
    if best and best.lower > lower:
        potentials, lower = best.potentials, best.lower
    return Matching(pairs, np.full(n, 1 / n), value, min(lower, value), potentials, evaluated)


def _stopped(
    search: _Search,
    graph: _Candidates,
    v: np.ndarray,
    column_of: np.ndarray,
    row_of: np.ndarray,
    best: Matching | None,
) -> Matching:
    """The matching at hand completed at random, with potentials that the bounds prove."""
    free_rows, free_columns = np.flatnonzero(column_of < 0), np.flatnonzero(row_of < 0)
    graph = graph.add(free_rows, free_columns, search.distances(free_rows, free_columns))
    column_of[free_rows] = free_columns
    u = search.bounded(v)
    return _perfect(graph.cost_of(column_of), column_of, u, v, search.evaluated, best)
