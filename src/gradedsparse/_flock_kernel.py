"""Compiled time stepping of the flock: float32 positions in sorted cells.

The interaction sums are taken in integers (headings in units of 1/UNIT). Integer addition is associative, so the
result does not depend on the order of the neighbours or on the width of the machine's vectors, and no operation
here is contracted or reassociated: one seed gives the same bits on every machine.
"""

import numpy as np
from numba import njit

BALL, GAUSSIAN, CAUCHY_CUBED, CAUCHY, BUMP_LINEAR, BUMP_SQUARED, BUMP_CUBED, BUMP_EXPONENTIAL = range(8)

UNIT = 1 << 22  # one unit vector, in integers: as fine as a float32 mantissa
CHUNK = 1 << 8  # neighbours summed in 32 bits before the sum is widened: UNIT * CHUNK is half of what 32 bits hold
SORTING = 16  # steps after which particles that are close are made to lie close in memory again
LANES = 16  # neighbours are taken by so many at a time, some of them too far away to count
FAR = np.float32(1e9)  # where the padding sits: outside every cutoff
EDGE = np.float32(0.05)  # where 1 - u is less, the exponential bump is below 1/UNIT

F0 = np.float32(0.0)
F1 = np.float32(1.0)
ONE = np.uint64(1)  # unsigned indices spare the test for a negative one


@njit(inline="always")
def _exp_minus(q):
    """exp(-q) for 0 <= q: a degree-6 Taylor polynomial at q/16, raised to the 16th power."""
    t = -q * np.float32(1 / 16)
    p = F1 + t * (
        F1
        + t
        * (
            np.float32(1 / 2)
            + t * (np.float32(1 / 6) + t * (np.float32(1 / 24) + t * (np.float32(1 / 120) + t * np.float32(1 / 720))))
        )
    )
    p = p * p
    p = p * p
    p = p * p
    return p * p


@njit(inline="always")
def _sine_cosine(angle):
    """(sin, cos) of |angle| <= pi, from Taylor polynomials at half of it and the doubling formulas."""
    t = angle * np.float32(0.5)
    q = t * t
    sine = t * (
        F1
        - q
        * (
            np.float32(1 / 6)
            - q
            * (
                np.float32(1 / 120)
                - q * (np.float32(1 / 5040) - q * (np.float32(1 / 362880) - q * np.float32(1 / 39916800)))
            )
        )
    )
    cosine = F1 - q * (
        np.float32(1 / 2)
        - q
        * (
            np.float32(1 / 24)
            - q
            * (
                np.float32(1 / 720)
                - q * (np.float32(1 / 40320) - q * (np.float32(1 / 3628800) - q * np.float32(1 / 479001600)))
            )
        )
    )
    return np.float32(2.0) * sine * cosine, F1 - np.float32(2.0) * sine * sine


@njit(inline="always")
def _log(x):
    """log(x) for 1 <= x: the series of the inverse hyperbolic tangent at the 16th root of x."""
    root = np.sqrt(np.sqrt(np.sqrt(np.sqrt(x))))
    t = (root - F1) / (root + F1)
    q = t * t
    series = F1 + q * (np.float32(1 / 3) + q * (np.float32(1 / 5) + q * (np.float32(1 / 7) + q * np.float32(1 / 9))))
    return np.float32(32.0) * t * series


@njit(inline="always")
def _weight(kind, q, power):
    """The weight at scaled squared distance q: r^2 / 2h^2 (Gaussian), r^2 / h^2 (Cauchy) or r^2 / r_b^2 (bump)."""
    if kind == GAUSSIAN:
        return _exp_minus(q)
    if kind == CAUCHY_CUBED:
        base = F1 + q
        return F1 / (base * base * base)
    if kind == CAUCHY:
        return _exp_minus(power * _log(F1 + q))
    rest = max(F1 - q, F0)
    if kind == BUMP_LINEAR:
        return rest
    if kind == BUMP_SQUARED:
        return rest * rest
    if kind == BUMP_CUBED:
        return rest * rest * rest
    return _exp_minus(q / rest) if rest > EDGE else F0


@njit(inline="always")
def _sum(kind, near, first, last, x, y, law):
    """The weighted headings of the neighbours ``first`` to ``last`` - 1, added up in units of 1/UNIT."""
    near_x, near_y, near_c, near_s = near
    cutoff2, rate, power = law
    total_c = np.int32(0)
    total_s = np.int32(0)
    for j in range(first, last):
        dx = near_x[j] - x
        dy = near_y[j] - y
        r2 = dx * dx + dy * dy
        inside = r2 <= cutoff2
        if kind == BALL:
            total_c = np.int32(total_c + (near_c[j] if inside else np.int32(0)))
            total_s = np.int32(total_s + (near_s[j] if inside else np.int32(0)))
        else:
            weight = _weight(kind, min(r2, cutoff2) * rate, power) if inside else F0
            total_c = np.int32(total_c + np.int32(np.rint(weight * np.float32(near_c[j]))))
            total_s = np.int32(total_s + np.int32(np.rint(weight * np.float32(near_s[j]))))
    return total_c, total_s


@njit(inline="always")
def _turn(kind, flock, cells, near, reach, width, law):
    """Give every particle the direction of the weighted sum of the headings that it sees."""
    x, y, c, s = flock
    row, column, start = cells
    for i in range(x.size):
        k = np.uint64(row[i] * width + column[i])
        first = start[k - ONE] if k > 0 else np.uint64(0)
        length = start[k + np.uint64(2 * reach)] - first
        last = first + (length + np.uint64(LANES - 1)) // np.uint64(LANES) * np.uint64(LANES)
        wide_c = np.int64(0)
        wide_s = np.int64(0)
        while first < last:
            end = min(last, first + np.uint64(CHUNK))
            part_c, part_s = _sum(kind, near, first, end, x[i], y[i], law)
            wide_c += part_c
            wide_s += part_s
            first = end
        if wide_c != 0 or wide_s != 0:  # else the headings cancel to the last digit: keep one's own
            u, v = np.float32(wide_c), np.float32(wide_s)
            scale = F1 / np.sqrt(u * u + v * v)
            c[i] = u * scale
            s[i] = v * scale


@njit(nogil=True, cache=True, error_model="numpy")
def _turn_by(kind, flock, cells, near, reach, width, law):
    """`_turn` with its kind a constant, so that each loop is compiled for one weight."""
    if kind == BALL:
        _turn(BALL, flock, cells, near, reach, width, law)
    elif kind == GAUSSIAN:
        _turn(GAUSSIAN, flock, cells, near, reach, width, law)
    elif kind == CAUCHY_CUBED:
        _turn(CAUCHY_CUBED, flock, cells, near, reach, width, law)
    elif kind == CAUCHY:
        _turn(CAUCHY, flock, cells, near, reach, width, law)
    elif kind == BUMP_LINEAR:
        _turn(BUMP_LINEAR, flock, cells, near, reach, width, law)
    elif kind == BUMP_SQUARED:
        _turn(BUMP_SQUARED, flock, cells, near, reach, width, law)
    elif kind == BUMP_CUBED:
        _turn(BUMP_CUBED, flock, cells, near, reach, width, law)
    else:
        _turn(BUMP_EXPONENTIAL, flock, cells, near, reach, width, law)


@njit(nogil=True, cache=True, error_model="numpy")
def unit_vectors(angle, c, s):
    """Write the cosines and sines of ``angle`` (N,) float32 in [-pi, pi] into ``c`` and ``s``."""
    for i in range(angle.size):
        s[i], c[i] = _sine_cosine(angle[i])


@njit(inline="always")
def _place(near, start, k, x, y, unit_c, unit_s):
    near_x, near_y, near_c, near_s = near
    j = start[k]
    start[k] = j + ONE
    near_x[j] = x
    near_y[j] = y
    near_c[j] = unit_c
    near_s[j] = unit_s


@njit(inline="always")
def _wrap(position, side):
    position = position + side if position < F0 else position
    return position - side if position >= side else position


@njit(nogil=True, cache=True, error_model="numpy")
def _by_place(x, y, side):
    """The particles (N,) in the order of rows of unit squares."""
    per_side = np.int64(np.ceil(side))
    start = np.zeros(per_side * per_side + 1, np.int64)
    square = np.empty(x.size, np.int64)
    order = np.empty(x.size, np.int64)
    for i in range(x.size):
        square[i] = np.int64(y[i]) * per_side + np.int64(x[i])
        start[square[i] + 1] += 1
    for k in range(1, start.size):
        start[k] += start[k - 1]
    for i in range(x.size):
        order[start[square[i]]] = i
        start[square[i]] += 1
    return order


@njit(nogil=True, cache=True, error_model="numpy")
def _lay_out(flock, cells, count, near, reach, per_side, side):
    """Lay out the strips, each followed by a padding that no particle sees.

    Afterwards start[k] is the end of column k and, but for the padding, the start of column k + 1.
    """
    x, y, c, s = flock
    row, column, start = cells
    width = per_side + 2 * reach
    to_cell = np.float32(per_side / side)
    last = np.uint32(per_side - 1)
    margin = np.uint32(reach)
    count[:] = 0
    for i in range(x.size):
        column[i] = min(np.uint32(x[i] * to_cell), last)
        row[i] = min(np.uint32(y[i] * to_cell), last)
        count[row[i], column[i] + margin] += 1
    count[:, :reach] = count[:, per_side : per_side + reach]
    count[:, per_side + reach :] = count[:, reach : 2 * reach]
    filled = np.uint64(0)
    for r in range(per_side):
        for k in range(width):
            start[r * width + k] = filled
            for d in range(r - reach, r + reach + 1):
                filled += count[d + per_side if d < 0 else d - per_side if d >= per_side else d, k]
        for j in range(filled, filled + np.uint64(LANES)):
            near[0][j] = FAR
        filled += np.uint64(LANES)
    for i in range(x.size):
        unit_c = np.int32(np.rint(c[i] * np.float32(UNIT)))
        unit_s = np.int32(np.rint(s[i] * np.float32(UNIT)))
        for d in range(-reach, reach + 1):
            strip = np.int64(row[i]) + d
            image_y = y[i]
            if strip < 0:
                strip += per_side
                image_y += side
            elif strip >= per_side:
                strip -= per_side
                image_y -= side
            k = np.uint64(strip * width) + column[i] + margin
            _place(near, start, k, x[i], image_y, unit_c, unit_s)
            if column[i] < margin:
                _place(near, start, k + np.uint64(per_side), x[i] + side, image_y, unit_c, unit_s)
            if column[i] + margin > last:
                _place(near, start, k - np.uint64(per_side), x[i] - side, image_y, unit_c, unit_s)


@njit(nogil=True, cache=True, error_model="numpy")
def _move(flock, noise, order, step, side):
    """Add the noise to the headings, and move."""
    x, y, c, s = flock
    for i in range(x.size):
        sine, cosine = _sine_cosine(noise[order[i]])
        c[i], s[i] = c[i] * cosine - s[i] * sine, c[i] * sine + s[i] * cosine
        x[i] = _wrap(x[i] + step * c[i], side)
        y[i] = _wrap(y[i] + step * s[i], side)


@njit(nogil=True, cache=True, error_model="numpy")
def advance(x, y, c, s, noise, box, cutoff, speed, kind, rate, power, reach):
    """Advance one flock in place by ``noise.shape[0]`` steps.

    ``x, y`` (N,) positions in [0, box), ``c, s`` (N,) heading vectors, ``noise`` (steps, N) angles in [-pi, pi];
    ``kind``, ``rate`` (what makes q of r^2) and ``power`` say which `_weight`. The cells are squares with a side of at
    least cutoff / ``reach``. Every row of cells, together with the ``reach`` rows below and above it, is laid out by
    columns as one strip, with ``reach`` columns of periodic images at either end: all that a particle can see is one
    contiguous piece of the strip of its row. A larger ``reach`` makes that piece shorter and the layout dearer; the
    result is the same.
    """
    n = x.size
    per_side = max(2 * reach, int(np.floor(reach * box / cutoff)))
    width = per_side + 2 * reach
    side = np.float32(box)
    law = (np.float32(cutoff) * np.float32(cutoff), np.float32(rate), np.float32(power))
    cells = (np.empty(n, np.uint32), np.empty(n, np.uint32), np.empty(per_side * width + 1, np.uint64))
    count = np.empty((per_side, width), np.uint32)
    room = 2 * (2 * reach + 1) * n + per_side * LANES
    near = (
        np.empty(room, np.float32), np.empty(room, np.float32), np.empty(room, np.int32), np.empty(room, np.int32)
    )  # fmt: skip
    order = np.arange(n)
    flock = (x, y, c, s)
    for t in range(noise.shape[0]):
        if t % SORTING == 0:
            moved = _by_place(flock[0], flock[1], side)
            order = order[moved]
            flock = (flock[0][moved], flock[1][moved], flock[2][moved], flock[3][moved])
        _lay_out(flock, cells, count, near, reach, per_side, side)
        _turn_by(kind, flock, cells, near, reach, width, law)
        _move(flock, noise[t], order, np.float32(speed), side)
    x[order], y[order], c[order], s[order] = flock
