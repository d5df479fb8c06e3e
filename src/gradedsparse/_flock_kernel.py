"""Compiled time stepping of the flock: float32 positions in sorted cells.

The interaction sums are taken in integers (headings in units of 1/UNIT). Integer addition is associative, so the
result does not depend on the order of the neighbours or on the width of the machine's vectors, and no operation
here is contracted or reassociated: one seed gives the same bits on every machine.
"""

import numpy as np
from numba import njit

BALL = 0
GAUSSIAN = 1

UNIT = 1 << 22  # one unit vector, in integers: as fine as a float32 mantissa
CHUNK = 1 << 8  # neighbours summed in 32 bits before the sum is widened: UNIT * CHUNK is half of what 32 bits hold
LANES = 16  # the neighbour list is padded to a multiple of this
FAR = np.float32(1e9)  # where the padding sits: outside every cutoff

F0 = np.float32(0.0)
F1 = np.float32(1.0)
ONE = np.uint64(1)  # unsigned indices spare the test for a negative one
TWO = np.uint64(2)


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


@njit(nogil=True, cache=True)
def _ball_sum(near_x, near_y, near_c, near_s, x, y, cutoff2):
    total_c = np.int32(0)
    total_s = np.int32(0)
    for j in range(near_x.size):
        dx = near_x[j] - x
        dy = near_y[j] - y
        inside = dx * dx + dy * dy <= cutoff2
        total_c = np.int32(total_c + (near_c[j] if inside else np.int32(0)))
        total_s = np.int32(total_s + (near_s[j] if inside else np.int32(0)))
    return total_c, total_s


@njit(nogil=True, cache=True)
def _gaussian_sum(near_x, near_y, near_c, near_s, x, y, cutoff2, rate):
    total_c = np.int32(0)
    total_s = np.int32(0)
    for j in range(near_x.size):
        dx = near_x[j] - x
        dy = near_y[j] - y
        r2 = dx * dx + dy * dy
        weight = _exp_minus(min(r2, cutoff2) * rate) if r2 <= cutoff2 else F0
        total_c = np.int32(total_c + np.int32(np.rint(weight * np.float32(near_c[j]))))
        total_s = np.int32(total_s + np.int32(np.rint(weight * np.float32(near_s[j]))))
    return total_c, total_s


@njit(nogil=True, cache=True)
def unit_vectors(angle, c, s):
    """Write the cosines and sines of ``angle`` (N,) float32 in [-pi, pi] into ``c`` and ``s``."""
    for i in range(angle.size):
        s[i], c[i] = _sine_cosine(angle[i])


@njit(inline="always")
def _place(near_x, near_y, near_c, near_s, start, k, x, y, unit_c, unit_s):
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


@njit(nogil=True, cache=True)
def advance(x, y, c, s, noise, box, cutoff, speed, rule, rate):
    """Advance one flock in place by ``noise.shape[0]`` steps.

    ``x, y`` (N,) positions in [0, box), ``c, s`` (N,) heading vectors, ``noise`` (steps, N) angles in [-pi, pi];
    ``rate`` is 1/(2 h^2) for the Gaussian rule. Every row of square cells, together with the rows below and above it,
    is laid out by columns as one strip, with one column of periodic images at either end: all that a particle can see
    is one contiguous piece of the strip of its row.
    """
    n = x.size
    per_side = max(1, int(np.floor(box / cutoff)))
    width = per_side + 2
    to_cell = np.float32(per_side / box)
    side = np.float32(box)
    step = np.float32(speed)
    cutoff2 = np.float32(cutoff) * np.float32(cutoff)
    rate = np.float32(rate)

    row = np.empty(n, np.uint32)
    column = np.empty(n, np.uint32)
    count = np.empty((per_side, width), np.uint32)
    start = np.empty(per_side * width + 1, np.uint32)
    new_c, new_s = np.empty(n, np.float32), np.empty(n, np.float32)
    room = 9 * n + LANES
    near_x, near_y = np.empty(room, np.float32), np.empty(room, np.float32)
    near_c, near_s = np.empty(room, np.int32), np.empty(room, np.int32)

    for t in range(noise.shape[0]):
        # count the particles of every cell, then of every column of every strip
        count[:] = 0
        for i in range(n):
            column[i] = min(np.uint32(x[i] * to_cell), np.uint32(per_side - 1))
            row[i] = min(np.uint32(y[i] * to_cell), np.uint32(per_side - 1))
            count[row[i], column[i] + ONE] += 1
        count[:, 0] = count[:, per_side]
        count[:, per_side + 1] = count[:, 1]
        filled = 0
        for r in range(per_side):
            below, above = (r + per_side - 1) % per_side, (r + 1) % per_side
            for k in range(width):
                start[r * width + k] = filled
                filled += count[below, k] + count[r, k] + count[above, k]

        # lay out the strips; afterwards start[k] is the end of column k and so the start of column k + 1
        for i in range(n):
            unit_c = np.int32(np.rint(c[i] * np.float32(UNIT)))
            unit_s = np.int32(np.rint(s[i] * np.float32(UNIT)))
            for d in range(-1, 2):
                strip = np.int64(row[i]) + d
                image_y = y[i]
                if strip < 0:
                    strip += per_side
                    image_y += side
                elif strip >= per_side:
                    strip -= per_side
                    image_y -= side
                k = np.uint64(strip * width) + column[i] + ONE
                _place(near_x, near_y, near_c, near_s, start, k, x[i], image_y, unit_c, unit_s)
                if column[i] == 0:
                    k_image = np.uint64(strip * width + width - 1)
                    _place(
                        near_x,
                        near_y,
                        near_c,
                        near_s,
                        start,
                        k_image,
                        x[i] + side,
                        image_y,
                        unit_c,
                        unit_s,
                    )
                if column[i] == per_side - 1:
                    k_image = np.uint64(strip * width)
                    _place(
                        near_x,
                        near_y,
                        near_c,
                        near_s,
                        start,
                        k_image,
                        x[i] - side,
                        image_y,
                        unit_c,
                        unit_s,
                    )
        for j in range(filled, filled + LANES):
            near_x[j] = FAR

        turn = noise[t]
        for i in range(n):
            k = row[i] * np.uint64(width) + column[i]
            first = start[k - ONE] if k > 0 else np.uint32(0)
            length = (start[k + TWO] - first + LANES - 1) // LANES * LANES
            wide_c = np.int64(0)
            wide_s = np.int64(0)
            for lo in range(first, first + length, CHUNK):
                hi = min(first + length, lo + CHUNK)
                if rule == BALL:
                    part_c, part_s = _ball_sum(
                        near_x[lo:hi],
                        near_y[lo:hi],
                        near_c[lo:hi],
                        near_s[lo:hi],
                        x[i],
                        y[i],
                        cutoff2,
                    )
                else:
                    part_c, part_s = _gaussian_sum(
                        near_x[lo:hi],
                        near_y[lo:hi],
                        near_c[lo:hi],
                        near_s[lo:hi],
                        x[i],
                        y[i],
                        cutoff2,
                        rate,
                    )
                wide_c += part_c
                wide_s += part_s
            if wide_c != 0 or wide_s != 0:  # else the headings cancel to the last digit: keep one's own
                u, v = np.float32(wide_c), np.float32(wide_s)
                scale = F1 / np.sqrt(u * u + v * v)
                new_c[i] = u * scale
                new_s[i] = v * scale
            else:
                new_c[i], new_s[i] = c[i], s[i]

        # add the noise and move
        for i in range(n):
            sine, cosine = _sine_cosine(turn[i])
            c[i] = new_c[i] * cosine - new_s[i] * sine
            s[i] = new_c[i] * sine + new_s[i] * cosine
            x[i] = _wrap(x[i] + step * c[i], side)
            y[i] = _wrap(y[i] + step * s[i], side)
