"""Compiled distances between states: one small rectangular assignment problem a pair, in units of kappa.

States come prepared (`representation._prepare`): the atoms of each by descending weight, coordinates as (p, atoms),
both with LANES spare entries at the end, so that a row can be filled and searched in whole lanes.
"""

import numpy as np
from numba import njit

from gradedsparse._lanes import LANES, nearest
from gradedsparse.spaces import CIRCLE_KIND, DISCRETE_KIND, EUCLIDEAN_KIND

NO_LIMIT = np.inf


@njit(nogil=True, cache=True)
def new_scratch(size):
    """Working arrays for states of up to ``size`` atoms: profit matrix, six real rows, three rows of indices."""
    width = _whole_lanes(size)
    profit = np.empty(size * width)
    return (
        profit, np.empty(width), np.empty(width), np.empty(width), np.empty(width), np.empty(width),
        np.empty(2 * width), np.empty(width, np.int64), np.empty(width, np.int64), np.empty(width, np.int64),
    )  # fmt: skip


@njit(inline="always")
def _whole_lanes(size):
    return (size + LANES - 1) // LANES * LANES


@njit(inline="always")
def _fill_ground(kind, table, x, i, y, j, width, row, at):
    """rho / kappa between atom i of x and atoms j, j + 1, ... of y into ``row[at : at + width]``; unsigned indices."""
    if kind == CIRCLE_KIND:
        here = x[0, i]
        for k in range(width):
            gap = abs(here - y[0, j + k])
            row[at + k] = min(gap, 2.0 - gap)
    elif kind == EUCLIDEAN_KIND:
        for k in range(width):
            row[at + k] = 0.0
        for p in range(x.shape[0]):
            here = x[p, i]
            for k in range(width):
                gap = here - y[p, j + k]
                row[at + k] += gap * gap
        for k in range(width):
            row[at + k] = min(np.sqrt(row[at + k]), 1.0)
    elif kind == DISCRETE_KIND:
        here = x[0, i]
        for k in range(width):
            row[at + k] = 0.0 if here == y[0, j + k] else 1.0
    else:
        here = int(x[0, i])
        for k in range(width):
            row[at + k] = table[here, int(y[0, j + k])]


@njit(inline="always")
def _fill_profit(kind, table, a, x, a_lo, n, b, y, b_lo, width, profit):
    """min(a, b) (1 - rho / kappa) of the n atoms from a_lo and the atoms from b_lo into ``profit``, row by row."""
    b_lo, width = np.uint64(b_lo), np.uint64(width)  # unsigned indices spare the test for negative ones
    at = np.uint64(0)
    for i in range(a_lo, a_lo + n):
        _fill_ground(kind, table, x, i, y, b_lo, width, profit, at)
        weight = a[i]
        for k in range(width):
            profit[at + k] = min(weight, b[b_lo + k]) * (1.0 - profit[at + k])
        at += width


@njit(inline="always")
def flip_path(row, sink, parent, column_of, row_of):
    """Match every row of the augmenting path from ``row`` to ``sink`` to the next column on it."""
    j = sink
    while True:
        i = parent[j]
        row_of[j] = i
        j, column_of[i] = column_of[i], j
        if i == row:
            break


@njit(inline="always")
def assign(profit, n, m, a, a_lo, excess, u, v, open_v, reach, settled, column_of, row_of, parent):
    """Maximum-weight assignment of n rows of profits >= 0, whole lanes each, to distinct ones of m >= n columns.

    One row after the other is inserted along a shortest augmenting path (Jonker and Volgenant 1987; rectangular as in
    Crouse 2016). Costs are -profit; u, v are dual variables with u_i + v_j <= cost_ij for the rows so far, equality on
    assigned pairs, v <= 0, and v = 0 on free columns; ``row_of`` is -1 there. Row i can add at most a[a_lo + i]: when
    the rows together are sure to stay more than ``excess`` below the sum of these, the search stops and a lower bound
    of that shortfall is returned, else the shortfall.
    """
    width = _whole_lanes(m)
    for j in range(width):
        v[j] = 0.0 if j < m else -np.inf  # no path leads to the spare columns
        row_of[j] = -1
    shortfall = 0.0
    for row in range(n):
        for j in range(width):
            open_v[j] = v[j]
            reach[j] = np.inf
        i, length, base = row, 0.0, 0.0
        while True:
            length, sink = nearest(profit, i * width, open_v, reach, parent, base, i, width)
            if row_of[sink] < 0:
                break
            settled[sink] = length
            reach[sink] = np.inf
            open_v[sink] = -np.inf
            i = row_of[sink]
            base = length - u[i]
        u[row] = length
        for j in range(m):
            if reach[j] == np.inf:
                u[row_of[j]] += length - settled[j]
                v[j] -= length - settled[j]
        flip_path(row, sink, parent, column_of, row_of)
        shortfall += a[a_lo + row] + length
        if shortfall > excess:
            break
    return shortfall


@njit(nogil=True, cache=True, fastmath={"nnan", "nsz"})
def _least_arcs(x, x_lo, n, y, y_lo, m, width, best, lead, around):
    """The least total arc of n points of a circle matched to distinct ones of m >= n; both sorted, in units of kappa.

    Two matched arcs never need to cross, so there is an optimum that keeps the cyclic order: the points go to a chain
    of the others with m - n skips. best[s, l] is the least total so far of the chains that begin at l, with s skips;
    all beginnings are taken in one vector loop.
    """
    width, n, m = np.uint64(width), np.uint64(n), np.uint64(m)  # unsigned indices spare the test for negative ones
    one = np.uint64(1)
    for t in range(m):
        around[t] = y[0, np.uint64(y_lo) + t]
    for t in range(m, width + width):
        around[t] = around[t - m]
    ends = m - n + one
    for k in range(ends * width):
        best[k] = 0.0 if k < width else np.inf
    for i in range(n):
        here = x[0, np.uint64(x_lo) + i]
        for k in range(width):
            lead[k] = np.inf
        for s in range(ends):
            at, there = s * width, i + s
            for k in range(width):
                so_far = min(lead[k], best[at + k])
                lead[k] = so_far
                gap = abs(here - around[there + k])
                best[at + k] = so_far + min(gap, 2.0 - gap)
    total = np.inf
    for k in range(ends * width):
        total = min(total, best[k])
    return total


@njit(inline="always")
def match_atoms(kind, tables, a, x, a_lo, a_hi, b, y, b_lo, b_hi, limit, scratch):
    """The cost of the best matching of atoms a_lo:a_hi of (a, x) and b_lo:b_hi of (b, y), or a lower bound above
    ``limit``.

    The cost is sum min(a, b) rho + |a - b| / 2 over matched atoms plus half the weight of every atom left over. Every
    atom's part of it is computed by itself, so two equal states are at distance exactly 0.
    """
    table = tables[0]
    if a_hi - a_lo > b_hi - b_lo:
        table = tables[1]
        a, x, a_lo, a_hi, b, y, b_lo, b_hi = b, y, b_lo, b_hi, a, x, a_lo, a_hi
    n, m = a_hi - a_lo, b_hi - b_lo
    profit, u, v, open_v, reach, settled, around, column_of, row_of, parent = scratch
    width = _whole_lanes(m)
    if kind == CIRCLE_KIND and a[a_lo] == a[a_hi - 1] and b[b_lo] == b[b_hi - 1] and m - n <= n:
        weight, other = a[a_lo], b[b_lo]
        least = 0.5 * (n * abs(weight - other) + (m - n) * other)
        if least > limit:
            return least
        return least + min(weight, other) * _least_arcs(x, a_lo, n, y, b_lo, m, width, profit, reach, around)
    _fill_profit(kind, table, a, x, a_lo, n, b, y, b_lo, width, profit)
    least = 0.0  # half of what the weights of b exceed those of a
    for j in range(b_lo, b_hi):
        least += 0.5 * b[j]
    for i in range(a_lo, a_hi):
        least -= 0.5 * a[i]
    shortfall = assign(profit, n, m, a, a_lo, limit - least, u, v, open_v, reach, settled, column_of, row_of, parent)
    if least + shortfall > limit:
        return least + shortfall
    cost = 0.0
    for j in range(m):
        i = row_of[j]
        if i < 0:
            cost += 0.5 * b[b_lo + j]
        else:
            cost += 0.5 * (a[a_lo + i] + b[b_lo + j]) - profit[i * width + j]
    return cost


@njit(nogil=True, cache=True, fastmath={"nnan", "nsz"})
def distance_rows(kind, tables, offsets_a, a, x, left_a, offsets_b, b, y, left_b, first, last, symmetric, out):
    """Distances of states first..last of A to all of B into ``out`` (len(A), len(B)).

    ``left_a, left_b`` are the weights that a truncation left out, half of which every distance carries. With
    ``symmetric`` A and B are the same states and only the columns beyond the row are computed.
    """
    scratch = new_scratch(max(largest_state(offsets_a, first, last), largest_state(offsets_b, 0, len(left_b))))
    for i in range(first, last):
        for j in range(i + 1 if symmetric else 0, len(left_b)):
            cost = match_atoms(
                kind, tables, a, x, offsets_a[i], offsets_a[i + 1], b, y, offsets_b[j], offsets_b[j + 1],
                NO_LIMIT, scratch,
            )  # fmt: skip
            out[i, j] = cost + 0.5 * (left_a[i] + left_b[j])


@njit(nogil=True, cache=True)
def distance_pairs(kind, tables, a_states, b_states, rows, columns, first, last, out):
    """Distances of the pairs of states (rows[t], columns[t]), first <= t < last, into ``out``."""
    offsets_a, a, x, left_a = a_states
    offsets_b, b, y, left_b = b_states
    scratch = new_scratch(max(largest_state(offsets_a, 0, len(left_a)), largest_state(offsets_b, 0, len(left_b))))
    for t in range(first, last):
        i, j = rows[t], columns[t]
        out[t] = 0.5 * (left_a[i] + left_b[j]) + match_atoms(
            kind, tables, a, x, offsets_a[i], offsets_a[i + 1], b, y, offsets_b[j], offsets_b[j + 1], NO_LIMIT, scratch
        )


@njit(nogil=True, cache=True)
def largest_state(offsets, first, last):
    """The most atoms of the states first..last, at least 1."""
    size = 1
    for i in range(first, last):
        size = max(size, offsets[i + 1] - offsets[i])
    return size
