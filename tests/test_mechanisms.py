"""The named aggregations: values in closed form, constants that hold, and pairs that attain them."""

import numpy as np
import pytest
from builders import one_state, random_states, states

from gradedsparse import Ball, GradedSparseError
from gradedsparse.mechanisms import count, flocking_update, mean_vector, top_weight, weighted_mean

SHARP = 1e-12


def polarized_states(rng, n, gate):
    z = states(*zip(*[(rng.random(6) + 0.1, rng.normal(0, 0.8, 6)) for _ in range(n)], strict=True))
    return z[np.linalg.norm(mean_vector(z), axis=1) >= gate]


def test_values_in_closed_form():
    z = one_state([3.0, 1.0], [1.0, -1.0], Ball(1, 1.0))
    assert weighted_mean()(z).ravel().tolist() == [0.25]
    assert top_weight()(z).tolist() == [0.375]
    assert count()(one_state(np.ones(7), np.zeros(7))).tolist() == [3.5]
    assert mean_vector(one_state([1.0, 1.0], [0.0, np.pi / 2]))[0] == pytest.approx([0.5, 0.5])
    assert flocking_update(0.5)(one_state([2.0], [np.pi / 2]))[0] == pytest.approx([0.0, 1 / np.pi])


@pytest.mark.parametrize("mechanism", [weighted_mean(), top_weight(), count()], ids=lambda f: f.name)
@pytest.mark.parametrize("dimension", [1, 2])
def test_no_pair_exceeds_the_constant(mechanism, dimension, rng):
    space = Ball(dimension, 2.0)
    ratios = mechanism.ratios(random_states(rng, 400, space), random_states(rng, 400, space))
    assert 0 < ratios.max() <= mechanism.constant * (1 + SHARP)


@pytest.mark.parametrize("gate", [0.6, 0.8])
def test_no_polarized_pair_exceeds_the_flocking_constant(gate, rng):
    z = polarized_states(rng, 800, gate)
    half = len(z) // 2
    ratios = flocking_update(gate).ratios(z[:half], z[half : 2 * half])
    assert 0 < ratios.max() <= 1 / gate * (1 + SHARP)


@pytest.mark.parametrize(
    ("mechanism", "z", "other"),
    [
        (weighted_mean(), one_state([1.0], [-1.0], Ball(1, 1.0)), one_state([1.0], [1.0], Ball(1, 1.0))),
        (top_weight(), one_state([1.0], [0.0]), one_state([1.0, 1.0], [0.0, 0.0])),
        (count(), one_state(np.ones(4), np.zeros(4)), one_state(np.ones(5), np.zeros(5))),
    ],
    ids=lambda item: getattr(item, "name", ""),
)
def test_the_constant_is_attained(mechanism, z, other):
    assert mechanism.ratios(z, other)[0] == pytest.approx(mechanism.constant, rel=SHARP)


def test_count_is_not_conservative():
    """The same pair under the other reading: adding an atom to many moves the count by more than d allows."""
    many, more = one_state(np.ones(40), np.zeros(40)), one_state(np.ones(41), np.zeros(41))
    as_conservative = type(count())("count", "conservative", 1.0, count().evaluate)
    assert as_conservative.ratios(many, more)[0] > 10


def test_equal_states_have_ratio_zero():
    z = one_state([1.0, 2.0], [0.0, 1.0])
    assert top_weight().ratios(z, z).tolist() == [0.0]


def test_truncated_weight_still_counts_in_the_shares():
    z = one_state([6.0, 3.0, 1.0], [0.0, 0.0, 0.0])
    assert top_weight()(z.truncate(0.1)) == pytest.approx(top_weight()(z))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: flocking_update(0.0), r"the gate must lie in \(0, 1\], not 0.0"),
        (lambda: flocking_update(1.5), "the gate must lie in"),
        (
            lambda: flocking_update(0.5)(states([[1], [1, 1]], [[0], [0, np.pi]])),
            "state 1 has polarization .*, below the gate 0.5",
        ),
        (lambda: flocking_update(0.5)(one_state([1.0], [0.0], Ball(1, 1.0))), "defined on the circle, not in Ball"),
        (lambda: weighted_mean()(one_state([1.0], [0.0])), "the weighted mean needs values in a ball"),
        (
            lambda: count().ratios(one_state([1.0], [0.0]), states([[1.0]] * 2, [[0.0]] * 2)),
            "1 states cannot be paired with 2",
        ),
    ],
)
def test_bad_arguments_are_refused(call, message):
    with pytest.raises(GradedSparseError, match=message):
        call()
