"""Value spaces: where the values of atoms live, each with its ground metric rho and its scale kappa >= diam.

A space turns values into coordinates in units of kappa, and its ``kind`` tells the compiled kernels how to take rho
from them; ``ground`` is the same formula in plain NumPy.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache, cached_property

import numpy as np

from gradedsparse.errors import GradedSparseError

CIRCLE_KIND = 0
EUCLIDEAN_KIND = 1
DISCRETE_KIND = 2
TABLE_KIND = 3  # coordinates are row and column of a table of distances

# A value may leave the ball, a distance exceed kappa, by this share of it: the rounding of values scaled to fit.
TOLERANCE = 1e-9


@dataclass(frozen=True)
class Circle:
    """Angles in radians with the arc length as ground distance; kappa = pi.

    Any finite angle is accepted; angles that differ by a multiple of 2 pi are the same value.
    """

    kappa: float = field(default=float(np.pi), init=False, repr=False)
    dimension: int = field(default=1, init=False, repr=False)
    kind: int = field(default=CIRCLE_KIND, init=False, repr=False)

    def coordinates(self, values: np.ndarray) -> np.ndarray:
        """Values (n,) in radians -> coordinates (n, 1) in units of kappa, in [0, 2)."""
        turns = np.mod(values / self.kappa, 2.0)
        turns[turns == 2.0] = 0.0
        return turns[:, None]

    def ground(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Ground distance rho / kappa of values that broadcast against each other; in [0, 1]."""
        gap = np.mod(np.subtract(x, y) / self.kappa, 2.0)
        return np.minimum(gap, 2.0 - gap)

    def outside(self, values: np.ndarray) -> np.ndarray:
        """Which of the values are not in the space (none: every finite angle is)."""
        return np.zeros(len(values), bool)


@dataclass(frozen=True)
class Ball:
    """The Euclidean ball of the given dimension and radius about the origin; kappa = 2 radius.

    Raises GradedSparseError when the dimension is not a positive integer or the radius not a positive finite number.
    """

    dimension: int
    radius: float
    kind: int = field(default=EUCLIDEAN_KIND, init=False, repr=False)

    def __post_init__(self) -> None:
        _require_dimension("Ball", self.dimension)
        if not (np.isfinite(self.radius) and self.radius > 0):
            raise GradedSparseError(f"Ball: the radius must be positive and finite, not {self.radius!r}")

    @property
    def kappa(self) -> float:
        return 2.0 * self.radius

    def coordinates(self, values: np.ndarray) -> np.ndarray:
        """Values (n, p) or, for p = 1, (n,) -> coordinates (n, p) in units of kappa."""
        return np.reshape(values / self.kappa, (-1, self.dimension))

    def ground(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Ground distance rho / kappa; the last axis is the coordinate unless the dimension is 1."""
        gap = np.subtract(x, y) / self.kappa
        return np.abs(gap) if self.dimension == 1 else np.linalg.norm(gap, axis=-1)

    def outside(self, values: np.ndarray) -> np.ndarray:
        """Which of the values lie outside the ball."""
        return np.linalg.norm(np.reshape(values, (-1, self.dimension)), axis=1) > self.radius * (1 + TOLERANCE)


@dataclass(frozen=True)
class Discrete:
    """Labels, given as numbers: any two that differ are at distance kappa = 1."""

    kappa: float = field(default=1.0, init=False, repr=False)
    dimension: int = field(default=1, init=False, repr=False)
    kind: int = field(default=DISCRETE_KIND, init=False, repr=False)

    def coordinates(self, values: np.ndarray) -> np.ndarray:
        """Values (n,) -> coordinates (n, 1)."""
        return values[:, None]

    def ground(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """0 where the values that broadcast against each other agree, else 1."""
        return np.not_equal(x, y).astype(float)

    def outside(self, values: np.ndarray) -> np.ndarray:
        """Which of the values are not in the space (none)."""
        return np.zeros(len(values), bool)


@dataclass(frozen=True, eq=False)
class Finite:
    """q points with given distances; values are their numbers 0 ... q - 1.

    ``distances`` (q, q) is a metric; ``kappa`` defaults to the largest distance. Raises GradedSparseError, naming the
    points, unless it is symmetric, zero on the diagonal only, satisfies the triangle inequality, and stays within
    kappa.
    """

    distances: np.ndarray
    kappa: float | None = None
    dimension: int = field(default=1, init=False, repr=False)
    kind: int = field(default=TABLE_KIND, init=False, repr=False)

    def __post_init__(self) -> None:
        table = np.array(self.distances, float)
        if table.ndim != 2 or table.shape[0] != table.shape[1] or len(table) == 0:
            raise GradedSparseError(f"Finite: the distances must be a square matrix, not of shape {table.shape}")
        kappa = float(table.max()) or 1.0 if self.kappa is None else self.kappa
        slack = TOLERANCE * kappa
        off_diagonal = ~np.eye(len(table), dtype=bool)
        for bad, problem in (
            (~np.isfinite(table) | (table < 0), "is negative or not finite"),
            (abs(table - table.T) > slack, "differs from the way back"),
            (~off_diagonal & (table != 0), "must be 0"),
            (off_diagonal & (table == 0), "is 0 for two points"),
            (table > kappa + slack, f"exceeds kappa = {kappa}"),
        ):
            if bad.any():
                i, j = np.argwhere(bad)[0]
                raise GradedSparseError(f"Finite: the distance of points {i} and {j}, {table[i, j]}, {problem}")
        for k in range(len(table)):
            detour = table[:, k, None] + table[k]
            if np.any(shorter := detour < table - slack):
                i, j = np.argwhere(shorter)[0]
                raise GradedSparseError(f"Finite: from point {i} to {j} it is shorter through {k}: not a metric")
        object.__setattr__(self, "distances", table)
        object.__setattr__(self, "kappa", kappa)

    @cached_property
    def table(self) -> np.ndarray:
        """(q, q) the distances in units of kappa."""
        return np.minimum(self.distances / self.kappa, 1.0)

    def __eq__(self, other) -> bool:
        return (
            isinstance(other, Finite) and self.kappa == other.kappa and np.array_equal(self.distances, other.distances)
        )

    def __hash__(self) -> int:
        return hash((self.kappa, self.distances.tobytes()))

    def __repr__(self) -> str:
        return f"Finite({len(self.distances)} points, kappa={self.kappa:g})"

    def coordinates(self, values: np.ndarray) -> np.ndarray:
        """Values (n,) -> coordinates (n, 1), rows of the table."""
        return values[:, None]

    def ground(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Ground distance rho / kappa of values that broadcast against each other."""
        return self.table[np.asarray(x).astype(np.int64), np.asarray(y).astype(np.int64)]

    def outside(self, values: np.ndarray) -> np.ndarray:
        """Which of the values number no point."""
        return (values < 0) | (values >= len(self.distances)) | (values != np.floor(values))


@dataclass(frozen=True)
class Metric:
    """A ground metric given as a function of two values that numba can compile, within ``kappa``.

    ``function(x, y)`` takes two numbers, or two arrays (p,) in dimension p, and returns rho(x, y). That it is a metric
    is for its author to know; a distance above kappa, negative or not a number is refused when it is met. Raises
    GradedSparseError for a function that numba cannot compile, or kappa or a dimension out of range.
    """

    function: Callable
    kappa: float
    dimension: int = 1
    kind: int = field(default=TABLE_KIND, init=False, repr=False)

    def __post_init__(self) -> None:
        _require_dimension("Metric", self.dimension)
        if not (np.isfinite(self.kappa) and self.kappa > 0):
            raise GradedSparseError(f"Metric: kappa must be positive and finite, not {self.kappa!r}")

    def coordinates(self, values: np.ndarray) -> np.ndarray:
        """Values (n,) or (n, p) -> (n, p), as they are."""
        return np.reshape(values, (-1, self.dimension))

    def ground(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Ground distance rho / kappa of values that broadcast; the last axis is the coordinate unless p = 1.

        Raises GradedSparseError, with the two values, for a distance that is not in [0, kappa].
        """
        point = () if self.dimension == 1 else (self.dimension,)
        shape = np.broadcast_shapes(np.shape(x)[: np.ndim(x) - len(point)], np.shape(y)[: np.ndim(y) - len(point)])
        x, y = (np.ascontiguousarray(np.broadcast_to(v, shape + point), float).reshape(-1, *point) for v in (x, y))
        rho = _elementwise(self.function)(x, y)
        if np.any(bad := ~((rho >= 0) & (rho <= self.kappa * (1 + TOLERANCE)))):
            i = int(np.argmax(bad))
            raise GradedSparseError(f"Metric: the distance of {x[i]} and {y[i]} is {rho[i]}, not in [0, {self.kappa}]")
        return np.minimum(rho / self.kappa, 1.0).reshape(shape)

    def outside(self, values: np.ndarray) -> np.ndarray:
        """Which of the values are not in the space (unknown: none)."""
        return np.zeros(len(values), bool)


def _require_dimension(name: str, dimension) -> None:
    if isinstance(dimension, bool) or not isinstance(dimension, (int, np.integer)) or dimension < 1:
        raise GradedSparseError(f"{name}: the dimension must be a positive integer, not {dimension!r}")


@cache
def _elementwise(function: Callable) -> Callable:
    """The compiled loop rho_i = function(x_i, y_i)."""
    import numba

    compiled = function if isinstance(function, numba.core.dispatcher.Dispatcher) else numba.njit(function)

    @numba.njit(nogil=True)
    def loop(x, y):
        rho = np.empty(len(x))
        for i in range(len(x)):
            rho[i] = compiled(x[i], y[i])
        return rho

    def checked(x, y):
        try:
            return loop(x, y)
        except numba.core.errors.NumbaError as error:
            reason = str(error).strip().splitlines()[-1]
            raise GradedSparseError(f"Metric: numba cannot compile {function!r}: {reason}") from None

    return checked


Space = Circle | Ball | Discrete | Finite | Metric
