"""The sparsity profile, how few atoms carry the weight, and the rates of learning that it gives (theory, section 3).

The tail T_k of a state is its weight beyond the k heaviest atoms, the mean profile tau_k the mean of T_k. All distances
and bounds are in units of kappa.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.special import gammaln

from gradedsparse._arguments import require_integer
from gradedsparse.errors import GradedSparseError
from gradedsparse.matching import match
from gradedsparse.representation import distance_matrix
from gradedsparse.spaces import Ball, Circle, Space
from gradedsparse.states import WeightedMultisets

# sqrt(m) E W1 / kappa between two samples of m states of one atom, its value uniform on the circle, tends to this: 2
# sqrt(2) E int |B - median B| for a Brownian bridge B, and the integral has mean sqrt(2 / pi) (pi / 4 - 1/2).
ONE_ATOM_CONSTANT = 4 / math.sqrt(math.pi) * (math.pi / 4 - 0.5)

# The local slope is taken from eps / SLOPE_STEP to eps SLOPE_STEP, on this many cells.
SLOPE_STEP = 1.05
SLOPE_CELLS = 2000


def tails(z: WeightedMultisets) -> np.ndarray:
    """T_k of every state as an (n, K + 1) array, k = 0 ... K, K the largest number of atoms; shares, so T_0 = 1.

    What a truncation dropped stays in the tail of every k.
    """
    largest = int(z.sizes.max(initial=0))
    order = np.lexsort((-z.shares, z.owner))
    sorted_shares = np.zeros((len(z), largest))
    sorted_shares[z.owner, np.arange(len(z.shares)) - z.offsets[z.owner]] = z.shares[order]
    dropped = z.dropped / z.totals
    beyond = np.cumsum(sorted_shares[:, ::-1], axis=1)[:, ::-1]
    return np.column_stack([beyond, np.zeros(len(z))]) + dropped[:, None]


def mean_tail(z: WeightedMultisets) -> np.ndarray:
    """tau_k = mean of T_k over the states, k = 0 ... K; (K + 1,) float64. Raises GradedSparseError when there are no
    states."""
    if len(z) == 0:
        raise GradedSparseError("a profile needs at least one state")
    return tails(z).mean(axis=0)


def atoms_beyond(z: WeightedMultisets, p: float) -> int:
    """k(p), the least k with tau_k <= p: how many atoms carry all but the share p of the mean weight.

    Raises GradedSparseError for p outside (0, 1), no states, or states truncated so far that no k does.
    """
    if not 0 < p < 1:
        raise GradedSparseError(f"p must lie strictly between 0 and 1, not {p!r}")
    tau = mean_tail(z)
    below = np.flatnonzero(tau <= p)
    if len(below) == 0:
        raise GradedSparseError(f"the states are truncated at a mean dropped share of {tau[-1]:.2e}, above p = {p:g}")
    return int(below[0])


def decay_rate(z: WeightedMultisets) -> float:
    """beta = ln 10 / (k(0.1 %) - k(1 %)), the decay of the mean tail per atom; infinite when the two agree. As
    `atoms_beyond`."""
    gap = atoms_beyond(z, 0.001) - atoms_beyond(z, 0.01)
    return float(np.log(10) / gap) if gap else float("inf")


# Covering numbers: how many sets of diameter at most eps kappa cover the states.


@dataclass(frozen=True)
class Growth:
    """N_X(eps) <= (A / eps)^q sets of diameter eps kappa cover the value space, 0 < eps <= 1."""

    A: float
    q: int


def growth(space: Space) -> Growth:
    """A and q of a value space: 3 and 1 for the circle, 1 + sqrt(p) and p for a ball of dimension p.

    Raises GradedSparseError for a space whose covering numbers are not known here.
    """
    if isinstance(space, Circle):
        return Growth(3.0, 1)
    if isinstance(space, Ball):
        return Growth(1 + math.sqrt(space.dimension), int(space.dimension))
    raise GradedSparseError(f"the covering numbers of {space!r} are not known here, only those of circle and ball")


def value_cover(space: Space, eps: float) -> int:
    """How many sets of diameter at most ``eps`` kappa we cut the value space into: arcs, or cubes. Raises as `growth`.

    The circle has length 2 kappa; a cube of side eps / sqrt(p) has diameter eps.
    """
    q = growth(space).q
    _require_positive("eps", eps)
    if eps >= 1:
        return 1
    return _ceil(2 / eps) if isinstance(space, Circle) else _ceil(math.sqrt(q) / eps) ** q


def log_covering(k: int, eps: float, space: Space, remainder: bool = True) -> float:
    """ln N for the states of at most k atoms besides a remainder at one fixed value, by counting labels.

    A label rounds every share down to a multiple of h = eps / (2 k) and replaces every value by its set of diameter
    eps / 2, so N <= C(a + k - 1, k) with a = 1 + N_X(eps / 2) floor(1 / h), atoms of share below h being all alike.
    Two states of one label are within eps: their values cost eps / 2, their shares (k h) / 2, their remainders
    (k h) / 2. Without a ``remainder`` (T_k = 0) the k-th share is what the others leave: k - 1 atoms so, times
    N_X(eps / 2). Raises GradedSparseError when k is not a positive integer, eps not positive, or as `growth`.
    """
    require_integer("k", k, 1)
    cells = value_cover(space, eps / 2)
    if eps >= 1:
        return 0.0
    rounded = k if remainder else k - 1
    kinds = 1 + cells * _floor(2 * rounded / eps)
    multisets = sum(math.log((kinds + i) / (i + 1)) for i in range(rounded))
    return multisets if remainder else multisets + math.log(cells)


def log_covering_bound(k: int, eps: float, space: Space) -> float:
    """The closed form k ln(e (1 + (2 / eps) (2 A / eps)^q)), never below `log_covering`: ln N grows like k (q + 1)
    ln(1 / eps). As `log_covering`."""
    require_integer("k", k, 1)
    _require_positive("eps", eps)
    space_growth = growth(space)
    return k * (1 + math.log1p(2 / eps * (2 * space_growth.A / eps) ** space_growth.q))


def log_covering_graded(ceilings: np.ndarray, eps: float, space: Space) -> float:
    """ln N for the states whose j-th heaviest share is at most ``ceilings[j]`` (k,), besides a remainder at one value.

    An atom of share at most t needs resolution eps / (2 k t) only: N <= prod_j (1 + floor(2 k t_j / eps)) N_X(eps / (2
    k t_j)). Raises as `log_covering`.
    """
    k = len(ceilings)
    require_integer("the number of ceilings", k, 1)
    _require_positive("eps", eps)
    steps = [2 * k * t / eps for t in ceilings]
    return sum(math.log1p(_floor(s)) + math.log(value_cover(space, 1 / s if s > 0 else 1.0)) for s in steps)


# Upper bounds on the mean transport distance.


@dataclass(frozen=True)
class ProfileBound:
    """The profile bound with the k and J where it is least; in units of kappa, 1 (k = J = 0) where it says nothing.

    Attributes
    ----------
    value
        ``truncation + estimation``
    k, levels
        atoms kept, and levels of nested partitions
    truncation, estimation
        2 tau_k, and b(k, n)
    """

    value: float
    k: int
    levels: int
    truncation: float
    estimation: float


def profile_bound(tau: np.ndarray, n: int, space: Space, samples: int = 1, surely: bool = False) -> ProfileBound:
    """Theorem 2: E W1(Gamma, Gamma_n) <= min_k {2 tau_k + b(k, n)} for every law of mean profile ``tau`` (K + 1,).

    b(k, n) = min_J {3^-J + sum_{j <= J} 3^-(j-1) min(1, sqrt(N_j / n) / 2)}, N_j from `log_covering` at 3^-(j+1). With
    ``samples = 2`` it bounds the distance of two samples of n states each, N_j / n twice as large. With ``surely``
    every state's tail is at most ``tau``, not only their mean, and N_j comes from `log_covering_graded` where that is
    less. ``n`` may be any positive number of any size. Raises GradedSparseError for a ``tau`` that is no mean profile,
    n < 1, ``samples`` other than 1 or 2, or as `growth`.
    """
    tau = np.asarray(tau, float)
    if tau.ndim != 1 or len(tau) < 2 or not np.all(np.diff(tau) <= 0) or not 0 <= tau[-1] <= tau[0] <= 1 + 1e-9:
        raise GradedSparseError("a mean profile is tau_0 = 1 and then descending, at least down to tau_1")
    if not n >= 1:
        raise GradedSparseError(f"n must be at least 1, not {n!r}")
    if samples not in (1, 2):
        raise GradedSparseError(f"the bound is for 1 sample or 2, not {samples!r}")
    log_states = math.log(n) - math.log(samples)
    best = ProfileBound(1.0, 0, 0, 1.0, 0.0)
    for k in range(1, len(tau)):
        truncation = 2 * float(tau[k])
        if truncation < best.value:
            log_cover = _cover_of_kept(tau, k, space, surely)
            estimation, levels = _chaining(log_cover, log_states, best.value - truncation)
            if truncation + estimation < best.value:
                best = ProfileBound(truncation + estimation, k, levels, truncation, estimation)
    return best


def states_needed(tau: np.ndarray, target: float, space: Space, samples: int = 1, surely: bool = False) -> float:
    """log10 of the least n whose `profile_bound` is at most ``target``, to 0.01; infinite if that is beyond 10^300.

    Raises GradedSparseError for a target not in (0, 1), or as `profile_bound`.
    """
    if not 0 < target < 1:
        raise GradedSparseError(f"the target must lie strictly between 0 and 1, not {target!r}")
    exponents = range(30001)
    first = bisect_left(exponents, True, key=lambda e: _bound_at(tau, e / 100, space, samples, surely) <= target)
    return first / 100 if first < len(exponents) else math.inf


def _bound_at(tau: np.ndarray, log10_n: float, space: Space, samples: int, surely: bool) -> float:
    return profile_bound(tau, 10.0**log10_n, space, samples, surely).value


def _cover_of_kept(tau: np.ndarray, k: int, space: Space, surely: bool) -> Callable[[float], float]:
    ceilings = np.minimum(tau[:k], 1 / np.arange(1, k + 1))
    remainder = tau[k] > 0

    def log_cover(eps: float) -> float:
        plain = log_covering(k, eps, space, remainder)
        return min(plain, log_covering_graded(ceilings, eps, space)) if surely else plain

    return log_cover


def _chaining(log_cover: Callable[[float], float], log_states: float, limit: float) -> tuple[float, int]:
    """min over J of 3^-J + sum_{j <= J} 3^-(j-1) min(1, sqrt(N_j / n) / 2), and the J; only values below ``limit``
    matter."""
    best, levels, spent = 1.0, 0, 0.0
    for j in count(1):
        log_term = 0.5 * (log_cover(3.0 ** -(j + 1)) - log_states) - math.log(2)
        spent += 3.0 ** -(j - 1) * math.exp(min(0.0, log_term))
        if log_term >= 0 or spent >= min(best, limit):
            return best, levels
        if 3.0**-j + spent < best:
            best, levels = 3.0**-j + spent, j


# The rates that follow, without their constants. ``per_atom`` is what an atom adds to the dimension: q + 1 for a free
# share and a value in dimension q (upper bounds), q for a value alone (lower bounds, shares known).


def rate_hard(n, k: int, per_atom: int = 2):
    """Hard sparsity, T_k = 0: n^{-1 / (k per_atom)}, for k per_atom > 2."""
    return np.asarray(n, float) ** (-1 / (k * per_atom))


def rate_exponential(n, beta: float, per_atom: int = 2, graded: bool = False):
    """tau_k <= e^{-beta k}: exp(-sqrt(beta ln n / per_atom)), or ``graded``, each atom at the resolution that its share
    asks for, exp(-sqrt(2 beta ln n / per_atom))."""
    return np.exp(-np.sqrt((1 + graded) * beta * np.log(n) / per_atom))


def rate_polynomial(n, a: float):
    """tau_k <= k^{-a}: (ln n / ln ln n)^{-a}, n > e."""
    log = np.log(n)
    return (log / np.log(log)) ** -a


# Lower bounds, and what they say about the dimension.


def ball_mass(shares: np.ndarray, eps: np.ndarray, space: Space) -> np.ndarray:
    """An upper bound on the probability that a state of the given shares (k,), fixed and descending, with independent
    uniform values, is within ``eps`` kappa of any given one; for numbers or arrays of eps, of their shape.

    Where the shares fall by more than eps from one to the next, a matching that crosses the fall costs more than eps.
    So the atoms split into groups matched within themselves; for the m atoms of the first groups the mass is at most
    (product of the group sizes' factorials) (c eps)^{m q} (q!)^m / ((m q)! prod_j w_j^q), w_j the least share of the
    group, c = 1 on the circle and 2 in a ball; the least over m is taken. For k equal shares on the circle and eps <
    1/k this is (k eps)^k, attained for eps < 1/k^2 around states of evenly spread values. Raises GradedSparseError for
    ``shares`` that are not positive and descending, eps not positive, or as `growth`.
    """
    shares = np.asarray(shares, float)
    falls = shares - np.append(shares[1:], 0.0)
    if shares.ndim != 1 or len(shares) == 0 or shares[-1] <= 0 or not np.all(falls >= 0):
        raise GradedSparseError("the shares of the design must be positive and descending")
    eps = np.asarray(eps, float)
    if not np.all(eps > 0):
        raise GradedSparseError("eps must be positive")
    q = growth(space).q
    log_reach = np.log(eps if isinstance(space, Circle) else 2 * eps)
    log_mass, least, start = np.zeros(eps.shape), np.zeros(eps.shape), np.zeros(eps.shape)
    for m, (share, fall) in enumerate(zip(shares, falls, strict=True), 1):
        ends = fall > eps  # where atom m is the last of its group
        size = m - start
        group = gammaln(size + 1) + size * (math.lgamma(q + 1) + q * (log_reach - math.log(share)))
        log_mass = np.where(ends, log_mass + group, log_mass)
        least = np.where(ends, np.minimum(least, log_mass - math.lgamma(m * q + 1)), least)
        start = np.where(ends, m, start)
    return np.exp(least)


def lower_bound(shares: np.ndarray, n: int, space: Space) -> float:
    """Theorem 3: E W1(Gamma, Gamma_n) >= E d(z, {z_1 ... z_n}) >= integral of (1 - mass(eps))^n, for fixed shares.

    In units of kappa, from `ball_mass`; the integral is taken from below. Raises GradedSparseError when n < 1, or as
    `ball_mass`.
    """
    if not n >= 1:
        raise GradedSparseError(f"n must be at least 1, not {n!r}")
    eps = np.geomspace(1e-30, 1.0, 2000)
    with np.errstate(divide="ignore"):
        far = np.exp(n * np.log1p(-ball_mass(shares, eps, space)))
    return float(np.diff(eps, prepend=0.0) @ far)


def learner_bound(k: int, n: int) -> float:
    """Theorem 3 for learners: whatever is learned from n states and their outputs, on k equal shares and uniform values
    on the circle, some mechanism of the unit class is missed by at least this much in the mean.

    max over M of p (1 - k!/M^k)^n / (k (k + 1) M), p = M! / ((M - k)! M^k): random signs on the cells that M arcs make.
    In units of kappa. Raises GradedSparseError unless k and n are positive integers.
    """
    require_integer("k", k, 1)
    require_integer("n", n, 1)
    M = np.unique(np.rint(np.geomspace(k, 4 * k * n ** (1 / k) + 4, 4000)))
    p = np.prod(1 - np.arange(k)[:, None] / M, axis=0)
    with np.errstate(divide="ignore"):
        missed = np.exp(n * np.log1p(-math.factorial(k) / M**k))
    return float((p * missed / (k * (k + 1) * M)).max())


def nearest(A: WeightedMultisets, B: WeightedMultisets) -> tuple[float, float]:
    """The mean distance of a state of A to the nearest of B, in units of kappa, and its standard error given B.

    It estimates E d(z, {z_1 ... z_n}), the lower bound of Theorem 3, for any law, n = len(B); and no matching of A to
    B costs less. Raises GradedSparseError for fewer than two states in A, none in B, or different spaces.
    """
    if len(A) < 2 or len(B) == 0:
        raise GradedSparseError(f"the nearest states need two in A and one in B; there are {len(A)} and {len(B)}")
    least = distance_matrix(A, B).min(axis=1)
    return float(least.mean()), float(least.std(ddof=1) / math.sqrt(len(A)))


def effective_dimension(shares: np.ndarray, eps: float, space: Space) -> float:
    """How many atoms count at scale ``eps``, times the dimension q of their values: the local slope of ln P(sum_j mu_j
    rho_j <= eps) against ln eps, rho_j independent of density q r^(q-1) on [0, 1], the mass of a ball of radius eps.

    An atom of a share far above eps counts q, one far below it nothing; at most k q for shares (k,), in any unit. By
    convolution on a grid. Raises GradedSparseError for eps not in (0, 1), or as `growth`.
    """
    shares = np.asarray(shares, float) / np.sum(shares)
    q = growth(space).q
    if not 0 < eps < 1:
        raise GradedSparseError(f"the scale must lie strictly between 0 and 1, not {eps!r}")
    low, high = eps / SLOPE_STEP, eps * SLOPE_STEP
    step = high / SLOPE_CELLS
    edges = step * np.arange(SLOPE_CELLS + len(shares))
    mass = np.ones(1)
    for share in shares:
        mass = np.convolve(mass, np.diff(np.minimum(1.0, edges / share) ** q))[: len(edges) - 1]
    upper_ends = step * (np.arange(len(mass)) + (len(shares) + 1) / 2)  # sums of cells' middles, plus half a cell
    below = np.interp([low, high], upper_ends, np.cumsum(mass))
    return float(np.log(below[1] / below[0]) / np.log(high / low))


# Measuring.


def w1_draws(z: WeightedMultisets, m: int, draws: int) -> np.ndarray:
    """W1 / kappa of ``draws`` pairs of disjoint halves of m states each, taken in order from z; (draws,) float64.

    Raises GradedSparseError when z has fewer than 2 m draws states, or either is not a positive integer.
    """
    require_integer("the states of a half", m, 1)
    require_integer("the number of draws", draws, 1)
    if len(z) < 2 * m * draws:
        raise GradedSparseError(f"{draws} pairs of halves of {m} need {2 * m * draws} states; there are {len(z)}")
    return np.array([match(z[s : s + m], z[s + m : s + 2 * m]).value for s in range(0, 2 * m * draws, 2 * m)])


def w1_without_grading(A: WeightedMultisets, B: WeightedMultisets) -> float:
    """At least W1 / kappa of the class whose elements may each move the output by rho, whatever their weight, within a
    range of kappa.

    The distance is min(kappa, least total of rho over pairings of all elements). Raises GradedSparseError unless the
    halves have as many states and all states as many elements, or for different spaces.
    """
    sizes = np.unique(np.concatenate([A.sizes, B.sizes]))
    if len(sizes) != 1 or len(A) != len(B):
        raise GradedSparseError("without grading the halves must be equal, and all states of as many elements")
    equal_a, equal_b = (WeightedMultisets(z.offsets, np.ones(len(z.weights)), z.values, z.space) for z in (A, B))
    cost = np.minimum(1.0, sizes[0] * distance_matrix(equal_a, equal_b))
    return float(cost[linear_sum_assignment(cost)].mean())


def exponent(sizes: np.ndarray, w1: Sequence[np.ndarray]) -> tuple[float, float]:
    """The slope of -ln W1 against ln n by least squares, and its standard error from the spread of the draws.

    ``sizes`` (r,), ``w1`` r arrays of independent draws. Raises GradedSparseError for fewer than two sizes, sizes that
    do not grow, or as `relative_errors`.
    """
    sizes = np.asarray(sizes, float)
    if len(sizes) < 2 or len(sizes) != len(w1) or not np.all(np.diff(sizes) > 0):
        raise GradedSparseError("a slope needs the draws of at least two sizes, in ascending order")
    lever = np.log(sizes) - np.log(sizes).mean()
    lever /= lever @ lever
    slope = -lever @ np.log([np.mean(draws) for draws in w1])
    return float(slope), float(np.sqrt(lever**2 @ relative_errors(w1) ** 2))


def relative_errors(w1: Sequence[np.ndarray]) -> np.ndarray:
    """The standard error of the mean of each size's draws, as a share of the mean, (r,), sizes ascending.

    The spread of a size with fewer than four draws is taken from the largest smaller size that has four: relative
    spreads fall as n grows, so the error is not too small. Raises GradedSparseError when the first size has fewer.
    """
    spread, errors = None, []
    for draws in w1:
        if len(draws) >= 4:
            spread = np.std(draws, ddof=1) / np.mean(draws)
        if spread is None:
            raise GradedSparseError("the first size needs at least four draws, to tell the spread")
        errors.append(spread / math.sqrt(len(draws)))
    return np.array(errors)


@dataclass(frozen=True)
class ImpliedDimension:
    """The implied dimension along n: arrays of the middle n, the dimension, and its standard error."""

    n: np.ndarray
    dimension: np.ndarray
    error: np.ndarray


def implied_dimension(sizes: np.ndarray, w1: Sequence[np.ndarray], doublings: int = 3) -> ImpliedDimension:
    """The reciprocal of the local slope of -ln W1 against ln n over three consecutive doublings, n to 8 n.

    Reported at the middle of the four sizes on the logarithmic scale. Raises GradedSparseError unless each size is
    twice the one before and there are enough of them, or as `exponent`.
    """
    sizes = np.asarray(sizes, float)
    if len(sizes) <= doublings or not np.allclose(sizes[1:] / sizes[:-1], 2, rtol=0.02):
        raise GradedSparseError(f"the implied dimension needs {doublings + 1} sizes, each twice the one before")
    windows = [slice(i, i + doublings + 1) for i in range(len(sizes) - doublings)]
    slopes, errors = np.transpose([exponent(sizes[w], w1[w]) for w in windows])
    middle = np.array([np.sqrt(sizes[w][0] * sizes[w][-1]) for w in windows])
    return ImpliedDimension(middle, 1 / slopes, errors / slopes**2)


def _require_positive(name: str, value: float) -> None:
    if not value > 0:
        raise GradedSparseError(f"{name} must be positive, not {value!r}")


def _ceil(x: float) -> int:
    """The least integer that is at least x, rounding errors in x forgiven."""
    return math.ceil(x * (1 - 1e-12))


def _floor(x: float) -> int:
    return math.floor(x * (1 + 1e-12))
