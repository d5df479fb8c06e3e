"""States for the tests, with the cases that break careless code: ties, repeated atoms, zero weights, the 0/2pi seam."""

import numpy as np
from hypothesis import strategies

from gradedsparse import Ball, Circle, Discrete, Finite, Metric, WeightedMultisets


def taxicab(x, y):
    return np.abs(x - y).sum()


POINTS = np.array([0.0, 0.5, 0.7, 2.0, 3.0])
FINITE = Finite(np.abs(POINTS[:, None] - POINTS), kappa=4.0)
TAXICAB = Metric(taxicab, kappa=4.0, dimension=2)
SPACES_ON_FILE = [Circle(), Ball(1, 2.0), Ball(2, 0.5), Ball(3, 1.0), Discrete(), FINITE]
SPACES = [*SPACES_ON_FILE, TAXICAB]
READINGS = ["conservative", "accumulative"]

SEAM = [0.0, 1e-9, -1e-9, 2 * np.pi, 2 * np.pi - 1e-9, np.pi, -np.pi]


def states(weights, values, space=None):
    return WeightedMultisets.from_lists(weights, values, space=space or Circle())


def one_state(weights, values, space=None):
    return states([weights], [values], space)


def random_values(rng, k, space):
    if isinstance(space, Circle):
        return rng.choice(SEAM, k) if rng.random() < 0.2 else rng.uniform(-7, 7, k)
    if isinstance(space, Discrete | Finite):
        return rng.integers(len(POINTS), size=k)
    if isinstance(space, Metric):
        return rng.uniform(0, space.kappa / space.dimension, (k, space.dimension))
    points = rng.normal(size=(k, space.dimension))
    points *= space.radius * rng.random((k, 1)) / np.linalg.norm(points, axis=1, keepdims=True)
    return points[:, 0] if space.dimension == 1 else points


def random_weights(rng, k):
    weights = rng.choice([1.0, 0.5, 0.25], k) if rng.random() < 0.5 else rng.exponential(size=k) + 1e-6
    if k > 1 and rng.random() < 0.3:
        weights[rng.integers(k)] = 0.0
    return weights


def random_atoms(rng, k, space):
    """Weights and values of one state of k atoms: often tied, repeated, of weight zero or at the seam."""
    weights, values = random_weights(rng, k), random_values(rng, k, space)
    if k > 1 and rng.random() < 0.3:
        values[1:] = values[rng.integers(k, size=k - 1)]
    return weights, values


def random_states(rng, n, space=None, most=6):
    space = space or Circle()
    atoms = [random_atoms(rng, int(rng.integers(1, most + 1)), space) for _ in range(n)]
    return states(*zip(*atoms, strict=True), space)


def same_states(z, other):
    """Whether two sequences hold the same bits."""
    return (
        z.space == other.space
        and np.array_equal(z.offsets, other.offsets)
        and np.array_equal(z.weights, other.weights)
        and np.array_equal(z.values, other.values)
        and np.array_equal(z.dropped, other.dropped)
    )


def reading_weights(z, reading):
    return z.shares if reading == "conservative" else z.relative


def distance_by_enumeration(z, other, reading):
    """The definition itself: the least cost over every partial matching of the atoms of two single states."""
    a, b = reading_weights(z, reading), reading_weights(other, reading)
    cost = np.minimum(a[:, None], b) * z.space.ground(z.values[:, None], other.values) + np.abs(a[:, None] - b) / 2

    def least(i, left):
        if i == len(a):
            return sum(b[j] for j in left) / 2
        unmatched = a[i] / 2 + least(i + 1, left)
        return min([unmatched, *(cost[i, j] + least(i + 1, left - {j}) for j in left)])

    return float(least(0, frozenset(range(len(b)))))


def small_states(space=None, most=4):
    """A hypothesis strategy for one state: tied and free weights, values on a grid that meets itself and off it."""
    space = space or Circle()
    reach = 7.0 if isinstance(space, Circle) else space.radius
    weight = strategies.sampled_from([1.0, 0.5, 0.25]) | strategies.floats(1e-3, 1.0)
    value = strategies.sampled_from([-reach, 0.0, reach / 2, reach]) | strategies.floats(-reach, reach)
    atoms = strategies.lists(strategies.tuples(weight, value), min_size=1, max_size=most)
    return atoms.map(lambda pairs: one_state(*map(list, zip(*pairs, strict=True)), space))
