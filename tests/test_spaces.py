"""Value spaces: their ground metrics, what they refuse, and states in each of them."""

import numba
import numpy as np
import pytest
from builders import FINITE, POINTS, TAXICAB, random_states
from scipy.spatial.distance import cdist

from gradedsparse import (
    Ball,
    Circle,
    Discrete,
    Finite,
    GradedSparseError,
    Metric,
    WeightedMultisets,
    distance,
    distance_matrix,
    match,
)
from gradedsparse.data import write_states
from gradedsparse.representation import distance_reference


def states(values, space):
    return WeightedMultisets.from_lists([np.ones(len(x)) for x in values], values, space)


def test_finite_points_on_a_line_are_the_line(rng):
    line = Ball(1, 2.0)
    numbers = [rng.integers(len(POINTS), size=4) for _ in range(12)]
    places = [POINTS[x] - 1.5 for x in numbers]
    np.testing.assert_allclose(
        distance_matrix(states(numbers, FINITE)), distance_matrix(states(places, line)), atol=1e-14
    )


def test_labels_are_points_at_distance_kappa(rng):
    numbers = [rng.integers(4, size=5) for _ in range(12)]
    table = Finite(3.0 * (1 - np.eye(4)))
    assert np.array_equal(distance_matrix(states(numbers, Discrete())), distance_matrix(states(numbers, table)))


def test_discrete_distance_is_the_shortfall_of_the_overlap_of_labels():
    """Equal weights without repetition: d is the share of labels that have no partner."""
    z = states([[0.0, 1.0, 2.0, 3.0], [1.0, 3.0, 5.0, 7.0]], Discrete())
    assert distance(z[0], z[1]) == pytest.approx(0.5, abs=1e-15)


@numba.njit
def chord(x, y):
    return 2 * abs(np.sin((x - y) / 2))


def test_a_users_metric_on_the_line_and_in_the_plane(rng):
    z = random_states(rng, 40, TAXICAB, most=9)
    expected = [[distance_reference(z[i], z[j]) for j in range(5)] for i in range(40)]
    np.testing.assert_allclose(distance_matrix(z, z[:5]), expected, atol=1e-14)
    rho = TAXICAB.ground(z.values[:, None], z.values[None]) * TAXICAB.kappa
    np.testing.assert_allclose(rho, cdist(z.values, z.values, "cityblock"), atol=1e-14)
    on_circle = states([rng.uniform(0, 6, 5) for _ in range(4)], Metric(chord, kappa=2.0))
    assert distance(on_circle[0], on_circle[1]) == pytest.approx(distance_reference(on_circle[0], on_circle[1]))


def test_a_users_metric_is_taken_in_tiles(rng, monkeypatch):
    z = random_states(rng, 50, TAXICAB, most=9)
    whole = distance_matrix(z)
    monkeypatch.setattr("gradedsparse.representation.TABLE_ENTRIES", 300)
    assert np.array_equal(distance_matrix(z), whole)
    assert np.all(np.diag(whole) == 0)
    np.testing.assert_allclose(whole, whole.T, atol=1e-14)


def test_halves_under_a_users_metric_are_matched(rng):
    A, B = random_states(rng, 9, TAXICAB), random_states(rng, 9, TAXICAB)
    assert match(A, B).gap <= 1e-12


def test_spaces_with_equal_distances_are_equal():
    assert Finite(1 - np.eye(3)) == Finite(1 - np.eye(3))
    assert Finite(1 - np.eye(3)) != Finite(1 - np.eye(3), kappa=2.0)
    assert len({Finite(1 - np.eye(3)), Finite(1 - np.eye(3)), Circle(), Circle()}) == 2


def too_far(x, y):
    return 10.0 * abs(x - y)


def not_compilable(x, y):
    return {x: y}[x] + "far"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Finite(np.ones((2, 3))), r"square matrix, not of shape \(2, 3\)"),
        (lambda: Finite([[0, 1], [2, 0]]), "points 0 and 1, 1.0, differs from the way back"),
        (lambda: Finite([[0, -1], [-1, 0]]), "points 0 and 1, -1.0, is negative"),
        (lambda: Finite([[0, 0], [0, 0]]), "points 0 and 1, 0.0, is 0 for two points"),
        (lambda: Finite([[1, 1], [1, 0]]), "points 0 and 0, 1.0, must be 0"),
        (lambda: Finite([[0, 2], [2, 0]], kappa=1.0), "points 0 and 1, 2.0, exceeds kappa = 1.0"),
        (lambda: Finite([[0, 1, 3], [1, 0, 1], [3, 1, 0]]), "from point 0 to 2 it is shorter through 1"),
        (lambda: Metric(chord, kappa=0.0), "kappa must be positive"),
        (lambda: Metric(chord, kappa=1.0, dimension=0), "the dimension must be a positive integer"),
        (lambda: states([[0.0, 5.0]], FINITE), r"state 0, atom 1: value lies outside the space Finite\(5 points"),
        (lambda: states([[0.5]], FINITE), "state 0, atom 0: value lies outside the space"),
        (lambda: distance_matrix(states([[0.0], [1.0]], Metric(too_far, 2.0))), r"distance of .* is 10.0, not in"),
        (lambda: distance_matrix(states([[0.0]], Metric(not_compilable, 2.0))), "numba cannot compile"),
    ],
)
def test_what_is_no_metric_is_refused(make, message):
    with pytest.raises(GradedSparseError, match=message):
        make()


def test_states_under_a_users_metric_are_not_written(tmp_path):
    with pytest.raises(GradedSparseError, match="given by a function, which no file can keep"):
        write_states(tmp_path / "z.npz", states([[0.0], [1.0]], Metric(chord, 2.0)))
    assert list(tmp_path.iterdir()) == []
