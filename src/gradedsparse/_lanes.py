"""Eight numbers at a time: the inner loop of the assignment solver, written out as vector instructions.

The loop reads three arrays and writes two of them; a compiler that must allow for overlap runs it one number at a time.
`nearest_reference` is the same loop in plain Python.
"""

import math

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

LANES = 8

INDEX = ir.IntType(64)
REALS = ir.VectorType(ir.DoubleType(), LANES)
INDICES = ir.VectorType(INDEX, LANES)


@intrinsic
def nearest(typing, profit, start, v, reach, parent, base, row, width):
    """Lower ``reach[j]`` to ``base - profit[start + j] - v[j]`` where that is less, with ``parent[j] = row``.

    All j < width; returns the least ``reach`` and where it is. Arrays are contiguous, float64 but for ``parent``
    (int64); ``width`` is a multiple of LANES.
    """
    result = types.Tuple((types.float64, types.int64))
    signature = result(profit, types.int64, v, reach, parent, types.float64, types.int64, types.int64)

    def codegen(context, builder, signature, args):
        profit, v, reach, parent = (
            context.make_array(signature.args[k])(context, builder, args[k]).data for k in (0, 2, 3, 4)
        )
        start, base, row, width = args[1], _spread(builder, args[5], REALS), _spread(builder, args[6], INDICES), args[7]
        least = cgutils.alloca_once_value(builder, ir.Constant(REALS, [math.inf] * LANES))
        place = cgutils.alloca_once_value(builder, ir.Constant(INDICES, [0] * LANES))
        first, step = ir.Constant(INDEX, 0), ir.Constant(INDEX, LANES)
        with cgutils.for_range_slice(builder, first, width, step) as (j, _):
            way = builder.fsub(
                builder.fsub(base, _load(builder, profit, builder.add(start, j), REALS)),
                _load(builder, v, j, REALS),
            )
            old, old_parent = _load(builder, reach, j, REALS), _load(builder, parent, j, INDICES)
            shorter = builder.fcmp_ordered("<", way, old)
            new = builder.select(shorter, way, old)
            _store(builder, new, reach, j)
            _store(builder, builder.select(shorter, row, old_parent), parent, j)
            here = builder.add(_spread(builder, j, INDICES), ir.Constant(INDICES, list(range(LANES))))
            _keep_least(builder, least, place, new, here)
        return context.make_tuple(builder, signature.return_type, _least_lane(builder, least, place))

    return signature, codegen


def nearest_reference(profit, start, v, reach, parent, base, row, width):
    """What `nearest` does, one number at a time; where several are least, it returns one of them."""
    for j in range(width):
        if base - profit[start + j] - v[j] < reach[j]:
            reach[j] = base - profit[start + j] - v[j]
            parent[j] = row
    place = min(range(width), key=lambda j: reach[j])
    return reach[place], place


def _keep_least(builder, least, place, new, here):
    best = builder.load(least)
    better = builder.fcmp_ordered("<", new, best)
    builder.store(builder.select(better, new, best), least)
    builder.store(builder.select(better, here, builder.load(place)), place)


def _least_lane(builder, least, place):
    """The least of the lanes and its place, by halving."""
    values, places = builder.load(least), builder.load(place)
    lanes = LANES
    while lanes > 1:
        lanes //= 2
        low, high = ([k + shift for k in range(lanes)] for shift in (0, lanes))
        value, other = _choose(builder, values, low), _choose(builder, values, high)
        better = builder.fcmp_ordered("<", other, value)
        values = builder.select(better, other, value)
        places = builder.select(better, _choose(builder, places, high), _choose(builder, places, low))
    first = ir.Constant(ir.IntType(32), 0)
    return builder.extract_element(values, first), builder.extract_element(places, first)


def _choose(builder, vector, lanes):
    mask = ir.Constant(ir.VectorType(ir.IntType(32), len(lanes)), lanes)
    return builder.shuffle_vector(vector, vector, mask)


def _spread(builder, scalar, kind):
    """A vector with the scalar in every lane."""
    first = builder.insert_element(ir.Constant(kind, ir.Undefined), scalar, ir.Constant(ir.IntType(32), 0))
    return _choose(builder, first, [0] * LANES)


def _load(builder, pointer, index, kind):
    return builder.load(builder.bitcast(builder.gep(pointer, [index]), kind.as_pointer()), align=8)


def _store(builder, vector, pointer, index):
    builder.store(vector, builder.bitcast(builder.gep(pointer, [index]), vector.type.as_pointer()), align=8)
