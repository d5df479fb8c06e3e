"""Compiled parts of the exact matching: bounds for all pairs, exact distances where a bound does not exclude, and
shortest augmenting paths on the graph of candidate pairs.
"""

import numpy as np
from numba import njit

from gradedsparse._distance_kernel import NO_LIMIT, flip_path, largest_state, match_atoms, new_scratch

# What single precision may add to a bound.
SLACK = np.float32(2e-6)
# Pairs count as tight up to this rounding.
TIGHT = 1e-13


@njit(nogil=True, cache=True, fastmath={"nnan", "nsz"})
def _bounds(features_a, features_b, i, bound):
    """Lower bounds of d(A_i, B_j) / kappa for all j: the largest difference of a feature."""
    bound[:] = np.float32(0.0)
    for k in range(features_a.shape[0]):
        here, row = features_a[k, i], features_b[k]
        for j in range(bound.size):
            bound[j] = max(bound[j], abs(here - row[j]))
    for j in range(bound.size):
        bound[j] -= SLACK


@njit(nogil=True, cache=True)
def nearest_rows(kind, tables, a_states, b_states, features_a, features_b, first, last, tried, columns, costs):
    """For states first..last of A the nearest states of B among the ``tried`` (at most len(B)) of least bound.

    Fills a row of ``columns`` and ``costs``, (len(A), k), with the k nearest of them; returns how many distances were
    computed.
    """
    offsets_a, a, x, left_a = a_states
    offsets_b, b, y, left_b = b_states
    n_b, k = len(left_b), columns.shape[1]
    bound, promising, cost = np.empty(n_b, np.float32), np.empty(tried, np.int64), np.empty(tried)
    scratch = new_scratch(max(largest_state(offsets_a, first, last), largest_state(offsets_b, 0, n_b)))
    for i in range(first, last):
        _bounds(features_a, features_b, i, bound)
        most = np.partition(bound, tried - 1)[tried - 1]
        found = 0
        for j in range(n_b):
            if found < tried and bound[j] <= most:
                promising[found] = j
                found += 1
        for t in range(tried):
            j = promising[t]
            dropped = 0.5 * (left_a[i] + left_b[j])
            cost[t] = dropped + match_atoms(
                kind, tables, a, x, offsets_a[i], offsets_a[i + 1], b, y, offsets_b[j], offsets_b[j + 1],
                NO_LIMIT, scratch,
            )  # fmt: skip
        order = np.argsort(cost)[:k]
        columns[i] = promising[order]
        costs[i] = cost[order]
    return (last - first) * tried


@njit(nogil=True, cache=True)
def price_rows(kind, tables, a_states, b_states, features_a, features_b, u, v, first, last, columns, costs, count):
    """Pairs of states first..last of A with d < u_i + v_j, as many of every row as ``columns`` (rows, most) can hold.

    Fills a row of ``columns`` and ``costs`` and its ``count``; a full row may have been searched in part only. Returns
    how many distances were computed.
    """
    offsets_a, a, x, left_a = a_states
    offsets_b, b, y, left_b = b_states
    n_b = len(left_b)
    bound = np.empty(n_b, np.float32)
    scratch = new_scratch(max(largest_state(offsets_a, first, last), largest_state(offsets_b, 0, n_b)))
    evaluated = 0
    for i in range(first, last):
        _bounds(features_a, features_b, i, bound)
        found = 0
        start = (i * 7919) % n_b  # rows that stop early have looked at different columns
        for t in range(n_b):
            j = start + t if start + t < n_b else start + t - n_b
            if bound[j] < u[i] + v[j] - TIGHT:
                dropped = 0.5 * (left_a[i] + left_b[j])
                limit = u[i] + v[j] - TIGHT - dropped
                evaluated += 1
                cost = match_atoms(
                    kind, tables, a, x, offsets_a[i], offsets_a[i + 1], b, y, offsets_b[j], offsets_b[j + 1],
                    limit, scratch,
                )  # fmt: skip
                if cost < limit:
                    columns[i - first, found] = j
                    costs[i - first, found] = cost + dropped
                    found += 1
                    if found == columns.shape[1]:
                        break
        count[i - first] = found
    return evaluated


@njit(nogil=True, cache=True)
def bounded_rows(features_a, features_b, v, first, last, u):
    """Potentials that the bounds alone prove feasible: u_i = min_j (bound_ij - v_j) for rows first..last."""
    bound = np.empty(len(v), np.float32)
    for i in range(first, last):
        _bounds(features_a, features_b, i, bound)
        u[i] = np.inf
        for j in range(len(v)):
            u[i] = min(u[i], max(bound[j], 0.0) - v[j])


@njit(nogil=True, cache=True)
def relax_potentials(starts, columns, costs, u, v, column_of, row_of):
    """Lower every u_i to what the candidates of its row allow, and free the rows whose pair is no longer tight."""
    for i in range(len(u)):
        least, own = np.inf, np.inf
        for t in range(starts[i], starts[i + 1]):
            reduced = costs[t] - v[columns[t]]
            least = min(least, reduced)
            if columns[t] == column_of[i]:
                own = reduced
        u[i] = least
        if column_of[i] >= 0 and own > least + TIGHT:
            row_of[column_of[i]] = -1
            column_of[i] = -1
        if column_of[i] < 0:
            for t in range(starts[i], starts[i + 1]):
                if costs[t] - v[columns[t]] == least and row_of[columns[t]] < 0:
                    column_of[i] = columns[t]
                    row_of[columns[t]] = i
                    break


@njit(nogil=True, cache=True)
def augment(starts, columns, costs, u, v, column_of, row_of, first, last):
    """Match the free ones of the rows first..last along shortest augmenting paths on the candidate graph.

    u, v stay feasible on the candidates and tight on the pairs. The graph holds a perfect matching, so a path is
    always found.
    """
    n = len(v)
    length = np.full(n, np.inf)
    parent = np.empty(n, np.int64)
    place = np.full(n, -1)  # in the heap; -2: settled
    heap = np.empty(n, np.int64)
    touched = np.empty(n, np.int64)
    for row in range(first, last):
        if column_of[row] >= 0:
            continue
        size, met = 0, 0
        i, base = row, 0.0
        while True:
            for t in range(starts[i], starts[i + 1]):
                j = columns[t]
                if place[j] == -2:
                    continue
                reach = base + costs[t] - u[i] - v[j]
                if reach < length[j]:
                    if place[j] == -1:
                        touched[met] = j
                        met += 1
                        place[j] = size
                        heap[size] = j
                        size += 1
                    length[j] = reach
                    parent[j] = i
                    _sift_up(heap, place, length, place[j])
            sink = heap[0]
            size -= 1
            if size > 0:
                heap[0] = heap[size]
                place[heap[0]] = 0
                _sift_down(heap, place, length, 0, size)
            place[sink] = -2
            base = length[sink]
            if row_of[sink] < 0:
                break
            i = row_of[sink]
        u[row] += base
        for t in range(met):
            j = touched[t]
            if place[j] == -2 and j != sink:
                u[row_of[j]] += base - length[j]
                v[j] -= base - length[j]
            place[j] = -1
            length[j] = np.inf
        flip_path(row, sink, parent, column_of, row_of)


@njit(nogil=True, cache=True)
def _sift_up(heap, place, length, at):
    j = heap[at]
    while at > 0:
        above = (at - 1) // 2
        if length[heap[above]] <= length[j]:
            break
        heap[at] = heap[above]
        place[heap[at]] = at
        at = above
    heap[at] = j
    place[j] = at


@njit(nogil=True, cache=True)
def _sift_down(heap, place, length, at, size):
    j = heap[at]
    while True:
        below = 2 * at + 1
        if below >= size:
            break
        if below + 1 < size and length[heap[below + 1]] < length[heap[below]]:
            below += 1
        if length[heap[below]] >= length[j]:
            break
        heap[at] = heap[below]
        place[heap[at]] = at
        at = below
    heap[at] = j
    place[j] = at
