"""Lower bounds on d: each below d for every pair, and equal to what it should be where that is known."""

import numpy as np
import ot
import pytest
from builders import SPACES, one_state, random_states, states

from gradedsparse import Ball, Circle, Discrete, GradedSparseError, distance, distance_matrix
from gradedsparse.bounds import feature_bound, features, mean_bound, wasserstein, weight_bound

ROUNDING = 1e-12
SINGLE = 2e-6


@pytest.mark.parametrize("share", [0.0, 0.3])
@pytest.mark.parametrize("space", SPACES, ids=str)
def test_bounds_are_below_the_distance(space, share, rng):
    A, B = (random_states(rng, 40, space, most=12).truncate(share) for _ in "ab")
    d = distance_matrix(A, B)
    assert np.all(weight_bound(A, B) <= d + ROUNDING)
    assert np.all(feature_bound(A, B) <= d + SINGLE)
    assert feature_bound(A, B).max() > 0.1


@pytest.mark.parametrize("share", [0.0, 0.3])
@pytest.mark.parametrize("space", [Circle(), Ball(1, 2.0), Ball(3, 1.0)], ids=str)
def test_mean_vectors_are_below_the_distance(space, share, rng):
    A, B = (random_states(rng, 60, space, most=6).truncate(share) for _ in "ab")
    bound = mean_bound(A, B)
    assert np.all(bound <= distance_matrix(A, B) + 1e-7)
    assert bound.max() > 0.3


def test_the_mean_bound_is_the_distance_of_two_single_atoms():
    z = states([[1.0]] * 4, [[0.0], [0.3], [2.0], [np.pi]])
    np.testing.assert_allclose(mean_bound(z, z), distance_matrix(z), atol=1e-7)


@pytest.mark.parametrize("space", SPACES, ids=str)
def test_wasserstein_is_below_the_distance(space, rng):
    for z, w in zip(random_states(rng, 40, space), random_states(rng, 40, space), strict=True):
        assert wasserstein(z, w) <= distance(z, w) + ROUNDING


def test_wasserstein_on_the_circle_agrees_with_a_network_simplex(rng):
    for z, w in zip(random_states(rng, 100, most=9), random_states(rng, 100, most=9), strict=True):
        cost = z.space.ground(z.values[:, None], w.values)
        expected = ot.emd2(z.shares / z.shares.sum(), w.shares / w.shares.sum(), cost)
        assert wasserstein(z, w) == pytest.approx(expected, abs=1e-12)


def test_wasserstein_does_not_see_how_a_weight_is_split():
    assert wasserstein(one_state([0.5, 0.5], [1.0, 1.0]), one_state([1.0], [1.0])) == pytest.approx(0, abs=1e-15)


def test_the_weight_bound_is_the_distance_when_all_values_agree(rng):
    weights = [rng.exponential(size=int(k)) for k in rng.integers(1, 9, 20)]
    z = states(weights, [np.full(len(w), 0.7) for w in weights])
    np.testing.assert_allclose(weight_bound(z, z), distance_matrix(z), atol=1e-14)


def test_one_atom_on_the_line_is_seen_by_the_rim_exactly():
    z = states([[1.0]] * 5, [[x] for x in (-2.0, -1.0, 0.0, 0.5, 2.0)], Ball(1, 2.0))
    np.testing.assert_allclose(feature_bound(z, z), distance_matrix(z), atol=SINGLE)


def test_a_bound_never_claims_what_another_landmark_would(rng):
    """A feature is a mechanism of the unit class: its value at any state differs by at most d."""
    A = random_states(rng, 30)
    for f in features(A, A)[0]:
        assert np.all(np.abs(f[:, None] - f) <= distance_matrix(A) + SINGLE)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda z: wasserstein(z, z[0]), "one state is wanted, such as z.0., not 2"),
        (lambda z: wasserstein(z[0].truncate(0.5), z[0]), "a truncated state has no measure"),
        (lambda z: mean_bound(*[one_state([1.0], [0.0], Discrete())] * 2), "no mean vectors in Discrete"),
        (lambda z: weight_bound(z, one_state([1.0], [0.0], Ball(1, 1.0))), "different spaces"),
        (lambda z: features(z, one_state([1.0], [0.0], Ball(1, 1.0))), "different spaces"),
    ],
)
def test_bad_arguments_are_refused(call, message):
    with pytest.raises(GradedSparseError, match=message):
        call(states([[1.0, 0.5], [2.0]], [[0.0, 1.0], [1.0]], Circle()))
