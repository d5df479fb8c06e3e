"""States from a reader's own file: a long table as CSV or Parquet, or arrays in an npz file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow
import pyarrow.csv
import pyarrow.parquet

from gradedsparse.data import is_state_file, open_arrays, read_states
from gradedsparse.errors import GradedSparseError
from gradedsparse.spaces import Ball, Circle, Space
from gradedsparse.states import WeightedMultisets

KAPPA_TOLERANCE = 1e-4


def space_named(name: str, kappa: float | None, dimension: int = 1) -> Space:
    """The value space that a name and a scale describe: ``circle`` (kappa = pi) or ``ball`` of diameter kappa.

    Raises GradedSparseError for an unknown name, a circle with another scale, or a ball without one.
    """
    if name == "circle":
        if kappa is not None and abs(kappa - np.pi) > KAPPA_TOLERANCE:
            raise GradedSparseError(f"on the circle, values are angles in radians and kappa is pi, not {kappa:g}")
        if dimension != 1:
            raise GradedSparseError(f"the circle needs one value column, not {dimension}")
        return Circle()
    if name == "ball":
        if kappa is None:
            raise GradedSparseError("the ball needs its diameter: give --kappa")
        return Ball(dimension, kappa / 2)
    raise GradedSparseError(f"unknown space {name!r}: it is 'circle' or 'ball'")


def read_table(
    path: str | Path,
    space: Space,
    state: str = "state",
    weight: str = "weight",
    value: Sequence[str] = ("value",),
) -> WeightedMultisets:
    """The states of a file: .csv or .parquet with one row an atom, .npz with the same columns as arrays, or a data
    set's .npz.

    Columns as in `WeightedMultisets.from_table`. Raises GradedSparseError for a file that is missing, not a table or
    without one of the columns, and for states in another space than the one asked for.
    """
    path = Path(path)
    if not path.is_file():
        raise GradedSparseError(f"{path}: no such file")
    if path.suffix == ".npz":
        if is_state_file(path):
            z = read_states(path)
            if z.space != space:
                raise GradedSparseError(f"{path} holds states in {z.space}, not in {space}")
            return z
        table = open_arrays(path, {state, weight, *value}, "table")
    elif path.suffix in (".csv", ".parquet"):
        reader = pyarrow.csv.read_csv if path.suffix == ".csv" else pyarrow.parquet.read_table
        try:
            table = reader(path)
        except (pyarrow.ArrowException, OSError) as error:
            raise GradedSparseError(f"{path} is not a {path.suffix} table: {str(error).splitlines()[0]}") from None
    else:
        raise GradedSparseError(f"{path}: a .csv, .parquet or .npz file is wanted")
    try:
        return WeightedMultisets.from_table(table, space, state, weight, value)
    except GradedSparseError as error:
        raise GradedSparseError(f"{path}: {error}") from None
