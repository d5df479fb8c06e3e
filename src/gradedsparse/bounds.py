"""Lower bounds on d that cost far less than d: the heaviest weights, mean distances from landmarks, Wasserstein.

Each bound is below d / kappa for every pair (theory, section 4), also for truncated states.
"""

from __future__ import annotations

import numpy as np
import ot

from gradedsparse.errors import GradedSparseError
from gradedsparse.mechanisms import mean_vector
from gradedsparse.spaces import Ball, Circle
from gradedsparse.states import WeightedMultisets, concatenate, require_same_space

HEAVIEST = (*range(1, 17), *range(18, 33, 2), 40, 48, 64)
LANDMARKS = 16


def features(A: WeightedMultisets, B: WeightedMultisets) -> tuple[np.ndarray, np.ndarray]:
    """Mechanisms of the unit conservative class at all states, (q, len(A)) and (q, len(B)) float32, in units of kappa.

    The sum of the j heaviest shares, for some j, and the mean of rho(x, y) / kappa - 1/2 for some landmarks y. Any
    difference of one of them is at most d / kappa in size. Raises GradedSparseError for different spaces.
    """
    require_same_space(A, B)
    landmarks = _landmarks(A, B)
    return _features(A, landmarks), _features(B, landmarks)


def feature_bound(A: WeightedMultisets, B: WeightedMultisets) -> np.ndarray:
    """(len(A), len(B)) the largest difference of a feature; see `features`."""
    features_a, features_b = features(A, B)
    bound = np.zeros((len(A), len(B)), np.float32)
    for here, there in zip(features_a, features_b, strict=True):
        np.maximum(bound, np.abs(here[:, None] - there), out=bound)
    return bound


def weight_bound(A: WeightedMultisets, B: WeightedMultisets) -> np.ndarray:
    """(len(A), len(B)) half the l1 distance of the shares in descending order: d when all values agree."""
    require_same_space(A, B)
    width = int(max(A.sizes.max(initial=0), B.sizes.max(initial=0)))
    a, b = _descending(A, width), _descending(B, width)
    left = (A.dropped / A.totals)[:, None] + B.dropped / B.totals
    return (np.array([np.abs(row - b).sum(axis=1) for row in a]).reshape(left.shape) + left) / 2


def mean_bound(A: WeightedMultisets, B: WeightedMultisets) -> np.ndarray:
    """(len(A), len(B)) a bound from the mean vectors m = sum mu_i x_i, or sum mu_i e^{i theta_i} on the circle.

    With c the length of m - m': c / kappa in a ball. On the circle a chord c spans the arc 2 arcsin(c / 2), a convex
    function of c, so that d is at least that (to 1e-7, by rounding), and at least c for truncated states. Raises
    GradedSparseError for different spaces and for others than these.
    """
    require_same_space(A, B)
    if not isinstance(A.space, Circle | Ball):
        raise GradedSparseError(f"there are no mean vectors in {A.space}")
    means_a, means_b = _means(A), _means(B)
    gap = np.stack([np.linalg.norm(mean - means_b, axis=1) for mean in means_a]) if len(A) else np.empty((0, len(B)))
    if isinstance(A.space, Circle):
        whole = (A.dropped == 0)[:, None] & (B.dropped == 0)
        gap = np.where(whole, 2 * np.arcsin(np.minimum(gap / 2, 1.0)), gap)
    return gap / A.space.kappa


def wasserstein(z: WeightedMultisets, other: WeightedMultisets) -> float:
    """W1 / kappa of the measures sum mu_i delta_{x_i} of two single states: at most d / kappa, equal under axiom A4.

    In closed form on the circle, by POT elsewhere. Raises GradedSparseError when either is not one state, or has been
    truncated (its measure is not known), or their spaces differ.
    """
    require_same_space(z, other)
    for state in (z, other):
        if len(state) != 1:
            raise GradedSparseError(f"one state is wanted, such as z[0], not {len(state)}")
        if state.dropped[0] > 0:
            raise GradedSparseError("a truncated state has no measure: part of its weight has no value")
    if isinstance(z.space, Circle):
        return _circle_wasserstein(z.coordinates[:, 0], z.shares, other.coordinates[:, 0], other.shares)
    cost = z.space.ground(z.values[:, None], other.values[None])
    return float(ot.emd2(z.shares / z.shares.sum(), other.shares / other.shares.sum(), cost))


def _means(z: WeightedMultisets) -> np.ndarray:
    """The mean vectors of all states, (n, 2) on the circle, (n, p) in a ball."""
    if isinstance(z.space, Circle):
        return mean_vector(z)
    weighted = z.shares[:, None] * z.values.reshape(-1, z.space.dimension)
    return np.add.reduceat(weighted, z.offsets[:-1], axis=0) if len(z) else np.empty((0, z.space.dimension))


def _circle_wasserstein(x: np.ndarray, a: np.ndarray, y: np.ndarray, b: np.ndarray) -> float:
    """The integral of |F - G - m| over the circle, F, G the distribution functions and m a median of their difference.

    Werman, Peleg and Rosenfeld 1985; Rabin, Delon and Gousseau 2011.
    """
    places = np.concatenate([x, y])
    order = np.argsort(places, kind="stable")
    level = np.cumsum(np.concatenate([a, -b])[order])
    length = np.diff(places[order], append=places[order][0] + 2.0)
    by_level = np.argsort(level)
    median = level[by_level][np.searchsorted(np.cumsum(length[by_level]), 1.0)]
    return float(np.abs(level - median) @ length)


def _features(z: WeightedMultisets, landmarks: np.ndarray) -> np.ndarray:
    width = max(HEAVIEST)
    heaviest = np.cumsum(_descending(z, width), axis=1)[:, np.array(HEAVIEST) - 1].T
    means = [
        np.bincount(z.owner, z.shares * (z.space.ground(z.values, point) - 0.5), minlength=len(z))
        for point in landmarks
    ]
    return np.ascontiguousarray(np.concatenate([heaviest, means]).astype(np.float32))


def _descending(z: WeightedMultisets, width: int) -> np.ndarray:
    """(n, width) the largest shares of every state in descending order, then zeros."""
    order = np.lexsort((-z.shares, z.owner))
    rank = np.arange(len(order)) - z.offsets[z.owner]
    kept = rank < width
    out = np.zeros((len(z), width))
    out[z.owner[kept], rank[kept]] = z.shares[order][kept]
    return out


def _landmarks(A: WeightedMultisets, B: WeightedMultisets) -> np.ndarray:
    """Up to LANDMARKS values, a row each: spread over a circle or the rim of a ball, else the values met most often."""
    space = A.space
    if isinstance(space, Circle):
        return np.arange(LANDMARKS // 2) * (2 * np.pi / LANDMARKS)  # the point opposite tells the same
    if isinstance(space, Ball):
        axes = space.radius * np.eye(space.dimension)[: LANDMARKS // 2]
        rim = np.concatenate([axes, -axes])
        return rim[:, 0] if space.dimension == 1 else rim
    values, count = np.unique(concatenate([A, B]).values, axis=0, return_counts=True)
    return values[np.argsort(-count, kind="stable")[:LANDMARKS]]
