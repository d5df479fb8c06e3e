"""States as weighted multisets: ragged arrays of weights and values over a value space.

A state is a finite multiset of atoms (weight, value). Everything that enters the library as data enters here and is
checked here, once; the rest of the library takes a `WeightedMultisets` as valid.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property

import numpy as np

from gradedsparse.errors import GradedSparseError
from gradedsparse.spaces import Space


class WeightedMultisets:
    """A sequence of states over one value space, as ragged arrays.

    Build one with `from_lists`, `from_padded` or `from_table`; they check the data. ``z[3]`` is the state 3 as a
    sequence of length one, ``z[:100]``, ``z[mask]`` and ``z[index_array]`` are the states chosen.

    Attributes
    ----------
    offsets
        (n + 1,) int64; the atoms of state i are ``offsets[i]:offsets[i + 1]``
    weights
        (atoms,) float64, positive, in any unit
    values
        (atoms,) float64, or (atoms, p) in a ball of dimension p > 1; in the units of the space
    space
        the value space
    dropped
        (n,) float64, the weight of each state that a truncation left out, in the unit of its weights
    """

    def __init__(self, offsets, weights, values, space: Space, dropped=None):
        self.offsets = offsets
        self.weights = weights
        self.values = values
        self.space = space
        self.dropped = np.zeros(len(offsets) - 1) if dropped is None else dropped

    @classmethod
    def from_lists(cls, weights: Sequence, values: Sequence, space: Space) -> WeightedMultisets:
        """States from a list of weight arrays (k_i,) and a list of value arrays (k_i,), or (k_i, p) in ``Ball(p,
        radius)``.

        Weights are non-negative in any unit; atoms of weight 0 are dropped. Raises GradedSparseError naming the state
        and the atom for unequal lengths, weights that are negative, NaN or infinite, a state without positive weight,
        and values that are not finite or not in the space.
        """
        if len(weights) != len(values):
            raise GradedSparseError(
                f"{len(weights)} weight arrays but {len(values)} value arrays: one of each per state"
            )
        value_shape = () if space.dimension == 1 else (space.dimension,)
        weight_arrays = [_as_floats(w, f"state {i}: the weights") for i, w in enumerate(weights)]
        value_arrays = [_as_floats(x, f"state {i}: the values") for i, x in enumerate(values)]
        for i, (w, x) in enumerate(zip(weight_arrays, value_arrays, strict=True)):
            if w.ndim != 1:
                raise GradedSparseError(f"state {i}: the weights must be a 1-d array, not of shape {w.shape}")
            if x.shape[1:] != value_shape and not (value_shape == () and x.shape == (len(w), 1)):
                raise GradedSparseError(
                    f"state {i}: the values must have shape {(len(w), *value_shape)} in this space, not {x.shape}"
                )
            if len(w) != len(x):
                raise GradedSparseError(f"state {i}: {len(w)} weights but {len(x)} values")
        sizes = np.array([len(w) for w in weight_arrays], np.int64)
        flat_weights = np.concatenate(weight_arrays) if len(sizes) else np.empty(0)
        flat_values = (
            np.concatenate([x.reshape(-1, *value_shape) for x in value_arrays])
            if len(sizes)
            else np.empty((0, *value_shape))
        )
        return cls._checked(_offsets(sizes), flat_weights, flat_values, space)

    @classmethod
    def from_padded(cls, weights, values, space: Space) -> WeightedMultisets:
        """States from an (n, k) array of weights, zero where there is no atom, and values (n, k), or (n, k, p).

        Values under a weight of zero are ignored, whatever they are. Raises as `from_lists` does.
        """
        weights = _as_floats(weights, "the weights")
        values = _as_floats(values, "the values")
        expected = weights.shape if space.dimension == 1 else (*weights.shape, space.dimension)
        if weights.ndim != 2 or values.shape != expected:
            raise GradedSparseError(
                f"padded states need weights (n, k) and values (n, k{'' if space.dimension == 1 else ', p'}); "
                f"got {weights.shape} and {values.shape}"
            )
        n, k = weights.shape
        flat_values = values.reshape(n * k, *values.shape[2:]).copy()
        flat_values[weights.ravel() == 0] = 0.0
        return cls._checked(np.arange(n + 1, dtype=np.int64) * k, weights.ravel().copy(), flat_values, space)

    @classmethod
    def from_table(
        cls,
        table,
        space: Space,
        state: str = "state",
        weight: str = "weight",
        value: str | Sequence[str] = "value",
    ) -> WeightedMultisets:
        """States from a long table with one row an atom: a mapping of columns, a pandas or a pyarrow table.

        Rows of equal ``state`` form one state; states keep the order of their first row. ``value`` names one column,
        or p columns in ``Ball(p, radius)``. Raises GradedSparseError for a column that is not there, columns of unequal
        length, a row without its state, and as `from_lists`.
        """
        value_columns = [value] if isinstance(value, str) else list(value)
        if len(value_columns) != space.dimension:
            raise GradedSparseError(f"this space needs {space.dimension} value column(s), not {len(value_columns)}")
        labels = _labels(table, state)
        weights, *columns = (_as_floats(_column(table, name), f"column {name!r}") for name in (weight, *value_columns))
        for name, column in zip((weight, *value_columns), (weights, *columns), strict=True):
            if column.shape != labels.shape:
                raise GradedSparseError(
                    f"column {name!r} has shape {column.shape}, but column {state!r} names {len(labels)} atoms"
                )
        values = columns[0] if space.dimension == 1 else np.column_stack(columns)
        _, first_row, group = np.unique(labels, return_index=True, return_inverse=True)
        by_first_row = np.argsort(first_row)
        rank = np.empty_like(by_first_row)
        rank[by_first_row] = np.arange(len(by_first_row))
        group = rank[group]
        order = np.argsort(group, kind="stable")
        names = [f"state {labels[row]!s} (row {row})" for row in first_row[by_first_row]]
        return cls._checked(
            _offsets(np.bincount(group, minlength=len(names))),
            weights[order],
            values[order],
            space,
            names,
        )

    @classmethod
    def _checked(cls, offsets, weights, values, space, names=None) -> WeightedMultisets:
        n = len(offsets) - 1
        owner = np.repeat(np.arange(n), np.diff(offsets))

        def refuse(bad: np.ndarray, problem: str) -> None:
            if bad.any():
                j = int(np.argmax(bad))
                i = owner[j]
                name = names[i] if names else f"state {i}"
                shown = weights[j] if problem.startswith("weight") else values[j]
                raise GradedSparseError(f"{name}, atom {j - offsets[i]}: {problem} ({shown})")

        refuse(np.isnan(weights), "weight is not a number")
        refuse(np.isinf(weights), "weight is infinite")
        refuse(weights < 0, "weight is negative")
        refuse(~np.isfinite(values).reshape(len(weights), space.dimension).all(axis=1), "value is not finite")
        refuse(space.outside(values), f"value lies outside the space {space}")
        keep = weights > 0
        totals = np.bincount(owner, weights, minlength=n)
        for problem, bad in (
            ("no positive weight", totals == 0),
            ("its weights sum to infinity", np.isinf(totals)),
        ):
            if bad.any():
                i = int(np.argmax(bad))
                raise GradedSparseError(f"{names[i] if names else f'state {i}'}: {problem}")
        return cls(_offsets(np.bincount(owner[keep], minlength=n)), weights[keep], values[keep], space)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __repr__(self) -> str:
        return f"WeightedMultisets({len(self)} states, {len(self.weights)} atoms, {self.space})"

    def __iter__(self) -> Iterator[WeightedMultisets]:
        return (self[i] for i in range(len(self)))

    def __getitem__(self, key) -> WeightedMultisets:
        n = len(self)
        if isinstance(key, (int, np.integer)):
            if not -n <= key < n:
                raise IndexError(f"state {key} of {n}")
            key = slice(key % n, key % n + 1)
        if isinstance(key, slice) and key.step in (None, 1):
            lo, hi, _ = key.indices(n)
            hi = max(lo, hi)
            offsets = self.offsets[lo : hi + 1]
            atoms = slice(offsets[0], offsets[-1])
            return WeightedMultisets(
                offsets - offsets[0],
                self.weights[atoms],
                self.values[atoms],
                self.space,
                self.dropped[lo:hi],
            )
        chosen = np.arange(n)[key]
        sizes = self.sizes[chosen]
        offsets = _offsets(sizes)
        atoms = np.arange(offsets[-1]) + np.repeat(self.offsets[chosen] - offsets[:-1], sizes)
        return WeightedMultisets(offsets, self.weights[atoms], self.values[atoms], self.space, self.dropped[chosen])

    @property
    def sizes(self) -> np.ndarray:
        """(n,) int64, the number of atoms of each state."""
        return np.diff(self.offsets)

    @cached_property
    def owner(self) -> np.ndarray:
        """(atoms,) int64, the state that each atom belongs to."""
        return np.repeat(np.arange(len(self)), self.sizes)

    @cached_property
    def totals(self) -> np.ndarray:
        """(n,) float64, the total weight of each state, with what a truncation dropped."""
        return np.bincount(self.owner, self.weights, minlength=len(self)) + self.dropped

    @cached_property
    def tops(self) -> np.ndarray:
        """(n,) float64, the largest weight of each state."""
        return np.maximum.reduceat(self.weights, self.offsets[:-1]) if len(self) else np.empty(0)

    @cached_property
    def shares(self) -> np.ndarray:
        """(atoms,) float64, mu = weight / total weight of the state: the conservative reading."""
        return self.weights / self.totals[self.owner]

    @cached_property
    def relative(self) -> np.ndarray:
        """(atoms,) float64, s = weight / largest weight of the state: the accumulative reading."""
        return self.weights / self.tops[self.owner]

    @cached_property
    def coordinates(self) -> np.ndarray:
        """(atoms, p) float64, the values in units of kappa."""
        return np.ascontiguousarray(self.space.coordinates(self.values))

    def truncate(self, share: float) -> WeightedMultisets:
        """Drop the lightest atoms of every state, at most ``share`` of its total weight (0 <= share < 1).

        The distance then leaves the dropped weight unmatched, so it can only grow: d <= d_trunc <= d + kappa (T + T')
        with T, T' the dropped shares of the two states. Raises GradedSparseError when the share is out of range.
        """
        require_share(share)
        order = np.lexsort((-self.weights, self.owner))
        from_here = np.cumsum(self.weights[order][::-1])[::-1]
        after_state = np.append(from_here, 0.0)[self.offsets[1:]]
        tail = from_here - after_state[self.owner] + self.dropped[self.owner]
        keep = tail > share * self.totals[self.owner]
        keep[self.offsets[:-1]] = True
        kept = order[keep]
        weights = self.weights[kept]
        sizes = np.bincount(self.owner[keep], minlength=len(self))
        kept_owner = self.owner[keep]
        dropped = self.totals - np.bincount(kept_owner, weights, minlength=len(self))
        dropped[sizes == self.sizes] = self.dropped[sizes == self.sizes]
        return WeightedMultisets(_offsets(sizes), weights, self.values[kept], self.space, np.maximum(dropped, 0.0))


def concatenate(parts: Sequence[WeightedMultisets]) -> WeightedMultisets:
    """The states of all parts, in order. Raises GradedSparseError when there are none or their spaces differ."""
    parts = list(parts)
    if not parts:
        raise GradedSparseError("nothing to concatenate")
    require_same_space(*parts)
    return WeightedMultisets(
        _offsets(np.concatenate([part.sizes for part in parts])),
        np.concatenate([part.weights for part in parts]),
        np.concatenate([part.values for part in parts]),
        parts[0].space,
        np.concatenate([part.dropped for part in parts]),
    )


def require_same_space(first: WeightedMultisets, *others: WeightedMultisets) -> None:
    """Raise GradedSparseError unless all have the same value space."""
    for other in others:
        if other.space != first.space:
            raise GradedSparseError(f"the states live in different spaces: {first.space} and {other.space}")


def require_share(share: float) -> None:
    """Raise GradedSparseError unless ``share`` may be dropped by a truncation: at least 0 and below 1."""
    if not 0 <= share < 1:
        raise GradedSparseError(f"the dropped share must be at least 0 and below 1, not {share}")


def _offsets(sizes: np.ndarray) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)


def _as_floats(array, name: str) -> np.ndarray:
    try:
        return np.asarray(array, dtype=np.float64)
    except (TypeError, ValueError):
        raise GradedSparseError(f"{name} must be an array of numbers") from None


def _column(table, name: str):
    try:
        return table[name]
    except (KeyError, IndexError):
        columns = getattr(table, "column_names", None) or list(getattr(table, "columns", table))
        raise GradedSparseError(f"no column {name!r} in the table; it has {', '.join(map(str, columns))}") from None


def _labels(table, name: str) -> np.ndarray:
    """The column that says which state each row belongs to, (atoms,), every row with a label."""
    labels = np.asarray(_column(table, name))
    if labels.ndim != 1:
        raise GradedSparseError(f"column {name!r} must be one label a row, not of shape {labels.shape}")
    for row, label in enumerate(labels.tolist() if labels.dtype.kind in "fO" else ()):
        if label is None or label != label:
            raise GradedSparseError(f"column {name!r}: row {row} does not say which state it belongs to")
    return labels.astype(str) if labels.dtype.kind == "O" else labels
