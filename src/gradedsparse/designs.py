"""Synthetic designs: laws on states with a prescribed sparsity profile, drawn fast (theory, section 3).

Every state has the same number of elements. The shares of its ``k`` heaviest follow the profile, fixed or random; the
values are independent and uniform on the circle or in a Euclidean ball.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from gradedsparse._arguments import require_integer
from gradedsparse.errors import GradedSparseError
from gradedsparse.profile import relative_errors, w1_draws
from gradedsparse.spaces import Ball, Circle
from gradedsparse.states import WeightedMultisets, concatenate

CIRCLE = Circle()
ELEMENTS_PER_BLOCK = 1 << 22  # drawn at a time


@dataclass(frozen=True, eq=False)
class Design:
    """A law on states with a prescribed mean profile; made by `hard`, `geometric`, `polynomial` and `with_elements`.

    Attributes
    ----------
    shares
        (k,) float64, descending, sum 1: the mean share of the j-th heaviest of the atoms that the profile describes
    space
        where the values are uniform, `Circle` or `Ball`
    weights
        ``fixed``: the shares of every state are these; ``simplex``: uniform among all shares of k atoms; ``sticks``:
        each atom breaks a random part off what the heavier ones left
    elements
        how many elements a state has, at least k
    beyond
        the share that the other ``elements - k`` have together, in equal parts
    """

    shares: np.ndarray = field(repr=False)
    space: Circle | Ball = CIRCLE
    weights: Literal["fixed", "simplex", "sticks"] = "fixed"
    elements: int = 0
    beyond: float = 0.0

    @property
    def atoms(self) -> int:
        """k, how many atoms the profile describes."""
        return len(self.shares)

    @property
    def all_shares(self) -> np.ndarray:
        """(elements,) float64, the mean share of every element, descending."""
        others = self.elements - self.atoms
        return np.append(self.shares * (1 - self.beyond), self.beyond * np.ones(others) / max(others, 1))

    @property
    def mean_tail(self) -> np.ndarray:
        """(elements + 1,) float64, the mean profile tau_k that `profile.mean_tail` finds in many states."""
        return np.append(np.cumsum(self.all_shares[::-1])[::-1], 0.0)

    @property
    def count(self) -> float:
        """The weight count M = 1 / mu_max of the mean shares: how many elements of the heaviest's weight there are."""
        return 1 / self.all_shares[0]

    def draw(self, n: int, seed, core: bool = False) -> WeightedMultisets:
        """n independent states; the same seed, anything that ``numpy.random.default_rng`` takes, gives the same ones.

        With ``core`` the elements beyond the profile are drawn and then left out, their share kept as dropped: what
        ``truncate(beyond)`` does, without the memory. Raises GradedSparseError when n is not a positive integer.
        """
        require_integer("the number of states", n, 1)
        rng = np.random.default_rng(seed)
        kept = self.atoms if core else self.elements
        blocks = [self._block(size, kept, rng) for size in _block_sizes(n, self.elements)]
        return blocks[0] if len(blocks) == 1 else concatenate(blocks)

    def _block(self, n: int, kept: int, rng: np.random.Generator) -> WeightedMultisets:
        shares = np.empty((n, kept))
        shares[:, : self.atoms] = (1 - self.beyond) * self._profile_shares(n, rng)
        shares[:, self.atoms :] = self.all_shares[self.atoms : kept]
        values = _uniform(self.space, n * self.elements, rng).reshape(n, self.elements, -1)[:, :kept]
        return WeightedMultisets(
            np.arange(n + 1, dtype=np.int64) * kept,
            shares.ravel(),
            values.reshape(n * kept, -1) if self.space.dimension > 1 else values.ravel(),
            self.space,
            np.full(n, self.beyond if kept < self.elements else 0.0),
        )

    def _profile_shares(self, n: int, rng: np.random.Generator) -> np.ndarray:
        if self.weights == "fixed":
            return np.broadcast_to(self.shares, (n, self.atoms))
        if self.weights == "simplex":
            parts = rng.standard_exponential((n, self.atoms))
            return parts / parts.sum(axis=1, keepdims=True)
        part, jitter = _sticks(self.shares)
        broken = part * (1 + jitter * rng.uniform(-1, 1, (n, self.atoms - 1)))
        left = np.cumprod(np.column_stack([np.ones(n), 1 - broken]), axis=1)
        return left * np.column_stack([broken, np.ones(n)])


def hard(k: int, space: Circle | Ball = CIRCLE, random: bool = False) -> Design:
    """Hard sparsity: T_k = 0. Equal shares 1/k, so T_j = 1 - j/k; or, random, uniform among all shares of k atoms.

    Raises GradedSparseError when k is not a positive integer, or the space neither circle nor ball.
    """
    require_integer("the number of atoms", k, 1)
    if not random:
        return _design(np.full(k, 1 / k), space, "fixed")
    return _design(np.cumsum(1 / np.arange(k, 0, -1))[::-1] / k, space, "simplex")


def geometric(beta: float, atoms: int, space: Circle | Ball = CIRCLE, random: bool = False) -> Design:
    """Shares in proportion to e^{-beta j}: tau_k = (e^{-beta k} - e^{-beta K}) / (1 - e^{-beta K}) with K atoms.

    Random shares have the same mean profile, and stay in descending order. Raises GradedSparseError when beta is not
    positive, or as `hard`.
    """
    require_integer("the number of atoms", atoms, 1)
    _require_positive("beta", beta)
    shares = np.exp(-beta * np.arange(atoms))
    return _design(shares / shares.sum(), space, "sticks" if random else "fixed")


def polynomial(a: float, atoms: int, space: Circle | Ball = CIRCLE, random: bool = False) -> Design:
    """Tails of order k^{-a}: tau_k = ((k + 1)^{-a} - (K + 1)^{-a}) / (1 - (K + 1)^{-a}) with K atoms.

    As `geometric`.
    """
    require_integer("the number of atoms", atoms, 1)
    _require_positive("a", a)
    shares = -np.diff(np.arange(1.0, atoms + 2) ** -a)
    return _design(shares / shares.sum(), space, "sticks" if random else "fixed")


def with_elements(design: Design, elements: int, beyond: float) -> Design:
    """The same design in a crowd: ``elements`` in all, those beyond the profile with the share ``beyond`` together.

    Raises GradedSparseError for random shares, no more elements than the profile has atoms, ``beyond`` not strictly
    between 0 and 1, or elements beyond the profile that would be heavier than its lightest atom.
    """
    require_integer("the number of elements", elements, design.atoms + 1)
    if design.weights != "fixed":
        raise GradedSparseError("elements beyond the profile need a design of fixed shares")
    if not 0 < beyond < 1:
        raise GradedSparseError(f"the share beyond the profile must lie strictly between 0 and 1, not {beyond!r}")
    crowd = replace(design, elements=elements, beyond=beyond)
    if crowd.all_shares[design.atoms] > crowd.all_shares[design.atoms - 1]:
        raise GradedSparseError(
            f"the {elements - design.atoms} elements beyond the profile would be heavier than its lightest atom"
        )
    return crowd


@dataclass(frozen=True)
class Curve:
    """Measured transport distances between two halves of a design, in units of kappa.

    Attributes
    ----------
    sizes
        (r,) int64, the states of a half, each size twice the one before
    w1
        r arrays, the independent draws of W1 at each size
    """

    sizes: np.ndarray
    w1: list[np.ndarray] = field(repr=False)

    @property
    def mean(self) -> np.ndarray:
        """(r,) float64, the mean over the draws."""
        return np.array([draws.mean() for draws in self.w1])

    @property
    def error(self) -> np.ndarray:
        """(r,) float64, the standard error of the mean, as in `profile.relative_errors`."""
        return self.mean * relative_errors(self.w1)


def measure(design: Design, largest: int, seed: int, draws: int = 16, doublings: int = 6, core: bool = False) -> Curve:
    """W1 between halves of ``largest / 2^doublings ... largest`` states, every draw from states of its own.

    Two draws at the largest size, twice as many at every halving, up to ``draws``. ``core`` as in `Design.draw`. Raises
    GradedSparseError for fewer than four draws, a largest size that is no multiple of 2^doublings, or a seed that is
    not a non-negative integer.
    """
    require_integer("the number of draws", draws, 4)
    require_integer("the number of doublings", doublings, 1)
    require_integer("the largest half", largest, 2**doublings)
    require_integer("the seed", seed, 0)
    if largest % 2**doublings:
        raise GradedSparseError(f"a half of {largest} states cannot be halved {doublings} times")
    sizes = largest // 2 ** np.arange(doublings, -1, -1)
    counts = np.minimum(2 * largest // sizes, draws)
    w1 = [
        w1_draws(design.draw(int(2 * m * r), (seed, int(m)), core), int(m), int(r))
        for m, r in zip(sizes, counts, strict=True)
    ]
    return Curve(sizes, w1)


def _design(shares: np.ndarray, space: Circle | Ball, weights: str) -> Design:
    if not isinstance(space, Circle | Ball):
        raise GradedSparseError(f"a design has its values on the circle or in a ball, not in {space!r}")
    return Design(shares, space, weights, elements=len(shares))


def _sticks(shares: np.ndarray) -> tuple[np.ndarray, float]:
    """The mean part (k - 1,) of the rest that each atom but the last takes, and the largest relative jitter c of it.

    Parts p (1 + c U), U in [-1, 1], keep the shares descending if the least an atom can take is no less than the most
    that the next can, (1 - p + c p) p' (1 + c) <= p (1 - c): a quadratic in c. The last takes all, p' = 1 as it is.
    """
    part = shares[:-1] / np.cumsum(shares[::-1])[:0:-1]
    if len(part) == 0:
        return part, 0.0
    p, q = part[:-1], part[1:]
    between = (np.sqrt((p + q) ** 2 + 4 * p * q * (p - q * (1 - p))) - p - q) / (2 * p * q)
    return part, float(max(0.0, min(*between, 1.0, 1 - 1 / (2 * part[-1]), (1 / part - 1).min())))


def _uniform(space: Circle | Ball, count: int, rng: np.random.Generator) -> np.ndarray:
    """Uniform values, (count,), or (count, p) in a ball of dimension p > 1."""
    if isinstance(space, Circle):
        return 2 * np.pi * rng.random(count)
    if space.dimension == 1:
        return space.radius * rng.uniform(-1, 1, count)
    points = rng.standard_normal((count, space.dimension))
    points *= space.radius * rng.random((count, 1)) ** (1 / space.dimension) / np.linalg.norm(points, axis=1)[:, None]
    return points


def _block_sizes(n: int, elements: int) -> Iterator[int]:
    size = max(1, ELEMENTS_PER_BLOCK // elements)
    return (min(size, n - first) for first in range(0, n, size))


def _require_positive(name: str, value: float) -> None:
    if not (np.isfinite(value) and value > 0):
        raise GradedSparseError(f"{name} must be positive and finite, not {value!r}")
