"""Compiled distances between states: one small rectangular assignment problem a pair, in units of kappa."""

import numpy as np
from numba import njit

from gradedsparse.states import CIRCLE_KIND


@njit(inline="always")
def ground(kind, x, i, y, j):
    """rho / kappa between row i of the coordinates x and row j of y."""
    if kind == CIRCLE_KIND:
        gap = abs(x[i, 0] - y[j, 0])
        return min(gap, 2.0 - gap)
    total = 0.0
    for k in range(x.shape[1]):
        gap = x[i, k] - y[j, k]
        total += gap * gap
    return min(np.sqrt(total), 1.0)


@njit(nogil=True, cache=True)
def assign(profit, n, m, column_of, row_of, u, v, shortest, parent, scanned):
    """Maximum-weight assignment of the n rows of profit[:n, :m] >= 0 to distinct columns, n <= m.

    Fills ``column_of[:n]`` and ``row_of[:m]`` (-1 where free). Costs are -profit; u, v are dual variables with u_i +
    v_j <= cost_ij, equality on assigned pairs, v <= 0, and v = 0 on free columns. Rows first take their best column
    if it is free, then a row displaced once bids for it, and what is left goes through shortest augmenting paths
    (Jonker and Volgenant 1987, rectangular as in Crouse 2016).
    """
    for j in range(m):
        row_of[j] = -1
        v[j] = 0.0
    free = 0  # rows still to be assigned are parent[:free] until the last stage, which uses them from column_of < 0
    for i in range(n):
        best = 0
        for j in range(1, m):
            if profit[i, j] > profit[i, best]:
                best = j
        u[i] = -profit[i, best]
        if row_of[best] < 0:
            row_of[best] = i
            column_of[i] = best
        else:
            column_of[i] = -1
            parent[free] = i
            free += 1

    bids = 2 * n if m > 1 else 0
    while free and bids:
        bids -= 1
        free -= 1
        i = parent[free]
        first, second = np.inf, np.inf
        j1, j2 = 0, 0
        for j in range(m):
            reduced = -profit[i, j] - v[j]
            if reduced < first:
                second, j2 = first, j1
                first, j1 = reduced, j
            elif reduced < second:
                second, j2 = reduced, j
        u[i] = second
        if first < second:
            if row_of[j1] < 0:
                u[i] = first  # a free column keeps its zero dual
            else:
                v[j1] -= second - first
        elif row_of[j1] >= 0:
            j1 = j2
        rival = row_of[j1]
        row_of[j1] = i
        column_of[i] = j1
        if rival >= 0:
            column_of[rival] = -1
            parent[free] = rival
            free += 1

    for row in range(n):
        if column_of[row] < 0:
            _augment(profit, row, m, column_of, row_of, u, v, shortest, parent, scanned)


@njit(nogil=True, cache=True)
def _augment(profit, row, m, column_of, row_of, u, v, shortest, parent, scanned):
    for j in range(m):
        shortest[j] = np.inf
        scanned[j] = False
    i = row
    length = 0.0
    while True:
        nearest, sink = np.inf, -1
        for j in range(m):
            if not scanned[j]:
                reach = length - profit[i, j] - u[i] - v[j]
                if reach < shortest[j]:
                    shortest[j] = reach
                    parent[j] = i
                if shortest[j] < nearest or (shortest[j] == nearest and row_of[j] < 0):
                    nearest = shortest[j]
                    sink = j
        length = nearest
        scanned[sink] = True
        if row_of[sink] < 0:
            break
        i = row_of[sink]
    u[row] += length
    for j in range(m):
        if scanned[j] and j != sink:
            u[row_of[j]] += length - shortest[j]
            v[j] -= length - shortest[j]
    j = sink
    while True:
        i = parent[j]
        row_of[j] = i
        j, column_of[i] = column_of[i], j
        if i == row:
            break


@njit(nogil=True, cache=True)
def match_pair(kind, a, x, b, y, profit, column_of, row_of, u, v, shortest, parent, scanned):
    """Match the atoms (a, x) of one state to (b, y) of another; the fewer are the rows. Returns the cost of the atoms.

    The cost is sum min(a, b) rho + |a - b| / 2 over matched atoms plus half the weight of every atom left over; it is
    summed as it stands, so two equal states are at distance exactly 0.
    """
    n, m = a.size, b.size
    for i in range(n):
        for j in range(m):
            profit[i, j] = min(a[i], b[j]) * (1.0 - ground(kind, x, i, y, j))
    assign(profit, n, m, column_of, row_of, u, v, shortest, parent, scanned)
    cost = 0.0
    for j in range(m):
        i = row_of[j]
        if i < 0:
            cost += 0.5 * b[j]
        else:
            cost += min(a[i], b[j]) * ground(kind, x, i, y, j) + 0.5 * abs(a[i] - b[j])
    return cost


@njit(nogil=True, cache=True)
def distance_rows(kind, offsets_a, a, x, left_a, offsets_b, b, y, left_b, first, last, symmetric, out):
    """Distances of states first..last of A to all of B into ``out`` (len(A), len(B)).

    ``left_a, left_b`` are the weights that a truncation left out, half of which every distance carries. With
    ``symmetric`` A and B are the same states and only the columns beyond the row are computed.
    """
    size = 1
    for i in range(first, last):
        size = max(size, offsets_a[i + 1] - offsets_a[i])
    for j in range(offsets_b.size - 1):
        size = max(size, offsets_b[j + 1] - offsets_b[j])
    profit = np.empty((size, size))
    column_of, row_of, parent = (
        np.empty(size, np.int64),
        np.empty(size, np.int64),
        np.empty(size, np.int64),
    )
    u, v, shortest = np.empty(size), np.empty(size), np.empty(size)
    scanned = np.empty(size, np.bool_)
    for i in range(first, last):
        a_lo, a_hi = offsets_a[i], offsets_a[i + 1]
        for j in range(i + 1 if symmetric else 0, offsets_b.size - 1):
            b_lo, b_hi = offsets_b[j], offsets_b[j + 1]
            if a_hi - a_lo <= b_hi - b_lo:
                cost = match_pair(
                    kind, a[a_lo:a_hi], x[a_lo:a_hi], b[b_lo:b_hi], y[b_lo:b_hi],
                    profit, column_of, row_of, u, v, shortest, parent, scanned,
                )  # fmt: skip
            else:
                cost = match_pair(
                    kind, b[b_lo:b_hi], y[b_lo:b_hi], a[a_lo:a_hi], x[a_lo:a_hi],
                    profit, column_of, row_of, u, v, shortest, parent, scanned,
                )  # fmt: skip
            out[i, j] = cost + 0.5 * (left_a[i] + left_b[j])
