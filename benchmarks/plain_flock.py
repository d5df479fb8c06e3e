"""The yardstick of the flock: a plain numba version in double precision, with cell lists.

What a good programmer would write first: particles sorted into cells of at least the cutoff, each looks through the
nine cells around it, takes the nearest image of what it finds, and turns by arctangent, cosine and sine. It shares no
code with the library but the parameters, so it also checks the physics.
"""

import math

import numpy as np
from numba import njit

BALL, BUMP, GAUSSIAN, CAUCHY = range(4)
KINDS = {"ball": BALL, "bump": BUMP, "gaussian": GAUSSIAN, "cauchy": CAUCHY}


def simulate(parameters, seed, steps):
    """Positions (N, 2) and headings (N,) of one flock after ``steps`` steps from a uniform start."""
    rng = np.random.default_rng(seed)
    positions = rng.random((parameters.n_particles, 2)) * parameters.box
    headings = rng.uniform(-math.pi, math.pi, parameters.n_particles)
    return advance(parameters, positions, headings, steps, rng)


def advance(parameters, positions, headings, steps, rng):
    """Positions (N, 2) and headings (N,) after ``steps`` further steps; the noise comes from ``rng``, drawn by the
    step."""
    positions, headings = positions.copy(), headings.copy()
    vectors = np.column_stack([np.cos(headings), np.sin(headings)])
    scratch = _scratch(parameters)
    for _ in range(steps):
        noise = (rng.random(parameters.n_particles) - 0.5) * parameters.eta
        _step(positions, headings, vectors, noise, *scratch, _constants(parameters))
    return positions, headings


def _scratch(parameters):
    n, per_side = parameters.n_particles, int(parameters.box / parameters.cutoff)
    integers = [np.empty(size, np.int64) for size in (per_side**2 + 1, n, n)]
    return (*integers, *np.empty((4, n)), per_side)


def _constants(parameters):
    length = {"ball": parameters.r, "bump": parameters.r_b}.get(parameters.rule, parameters.h)
    power = {"bump": 2.0, "cauchy": parameters.a}.get(parameters.rule, 0.0)
    return parameters.box, parameters.cutoff, parameters.speed, KINDS[parameters.rule], length, power


@njit(inline="always")
def _weight(kind, r2, length, power):
    if kind == BALL:
        return 1.0
    if kind == GAUSSIAN:
        return math.exp(-r2 / (2 * length * length))
    if kind == CAUCHY:
        base = 1 + r2 / (length * length)
        return 1 / (base * base * base) if power == 3 else base**-power
    base = 1 - r2 / (length * length)
    return base * base


@njit(cache=True)
def _step(
    positions, headings, vectors, noise, start, cell, order, sorted_x, sorted_y, sorted_c, sorted_s, per_side, constants
):
    """One step in place; the arrays from ``start`` to ``sorted_s`` are scratch."""
    box, cutoff, speed, kind, length, power = constants
    n = len(headings)
    to_cell = per_side / box
    start[:] = 0
    for i in range(n):
        column = min(int(positions[i, 0] * to_cell), per_side - 1)
        row = min(int(positions[i, 1] * to_cell), per_side - 1)
        cell[i] = row * per_side + column
        start[cell[i]] += 1
    for k in range(1, per_side * per_side + 1):
        start[k] += start[k - 1]
    for i in range(n):
        start[cell[i]] -= 1
        j = start[cell[i]]
        order[j] = i
        sorted_x[j], sorted_y[j] = positions[i]
        sorted_c[j], sorted_s[j] = vectors[i]

    cutoff2 = cutoff * cutoff
    around, shift = np.empty(9, np.int64), np.empty((9, 2))
    for row in range(per_side):
        for column in range(per_side):
            for m in range(9):
                wrap_y, near_row = divmod(row + m // 3 - 1, per_side)
                wrap_x, near_column = divmod(column + m % 3 - 1, per_side)
                around[m] = near_row * per_side + near_column
                shift[m] = wrap_x * box, wrap_y * box
            here = row * per_side + column
            for i in range(start[here], start[here + 1]):
                total_c, total_s = 0.0, 0.0
                for m in range(9):
                    x, y = sorted_x[i] - shift[m, 0], sorted_y[i] - shift[m, 1]
                    for j in range(start[around[m]], start[around[m] + 1]):
                        dx = sorted_x[j] - x
                        dy = sorted_y[j] - y
                        r2 = dx * dx + dy * dy
                        if r2 <= cutoff2:
                            weight = _weight(kind, r2, length, power)
                            total_c += weight * sorted_c[j]
                            total_s += weight * sorted_s[j]
                headings[order[i]] = math.atan2(total_s, total_c) + noise[order[i]]

    for i in range(n):
        vectors[i] = math.cos(headings[i]), math.sin(headings[i])
        positions[i, 0] = _wrap(positions[i, 0] + speed * vectors[i, 0], box)
        positions[i, 1] = _wrap(positions[i, 1] + speed * vectors[i, 1], box)


@njit(inline="always")
def _wrap(position, box):
    if position < 0:
        position += box
    return position - box if position >= box else position
