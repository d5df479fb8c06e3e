"""The named aggregations: values in closed form, constants that hold, and pairs that attain them."""

from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest
from builders import READINGS, one_state, random_states, states

from gradedsparse import Ball, Circle, GradedSparseError, distance_matrix
from gradedsparse.mechanisms import (
    attention_by_content,
    attention_pooling,
    count,
    flocking_angle,
    flocking_update,
    maximum,
    mean_difference,
    mean_vector,
    quotients,
    sharpened_gate,
    thresholded_gate,
    top_gate,
    top_weight,
    uniform_mean,
    value_aggregation,
    weighted_max,
    weighted_mean,
    weighted_sum,
)

SHARP = 1e-12

SEGMENT = Ball(1, 1.0)
EVERYWHERE = [
    weighted_mean(),
    weighted_mean(reading="accumulative"),
    value_aggregation(lambda x: np.linalg.norm(x.reshape(len(x), -1), axis=1)),
    attention_pooling(lambda x: np.abs(x), lambda y: np.tanh(np.linalg.norm(y.reshape(len(y), -1), axis=1))),
    top_weight(),
    top_weight("accumulative"),
    count(),
    weighted_sum(),
    mean_difference(),
    attention_by_content(2.0),
    sharpened_gate(1.0),
    sharpened_gate(3.0),
    thresholded_gate(0.3),
]
ON_A_SEGMENT = [weighted_max(), weighted_max("accumulative")]
NOWHERE = [top_gate(1), top_gate(2, "accumulative"), maximum(False), uniform_mean(False), count("conservative")]
EQUALS = [maximum(), uniform_mean()]


def named(item):
    return f"{item.name}, {item.reading}" if hasattr(item, "reading") else ""


def polarized_states(rng, n, gate):
    z = states(*zip(*[(rng.random(6) + 0.1, rng.normal(0, 0.8, 6)) for _ in range(n)], strict=True))
    return z[np.linalg.norm(mean_vector(z), axis=1) >= gate]


def test_values_in_closed_form():
    z = one_state([3.0, 1.0], [1.0, -1.0], SEGMENT)
    closed = {
        weighted_mean(): 0.25,
        weighted_mean(np.square, 2.0): 0.125,
        value_aggregation(np.abs): 0.5,
        attention_pooling(lambda x: np.column_stack([x, 0 * x]), lambda y: y[:, 0]): 0.25,
        top_weight(): 0.375,
        weighted_sum(): 1 / 3,
        weighted_max(): 0.75,
        weighted_max("accumulative"): 1.0,
        maximum(False): 0.5,
        uniform_mean(False): 0.0,
        mean_difference(): 2 * 0.75 * 0.25,
        attention_by_content(0.0): 0.25,
        attention_by_content(2.0): (3 * np.e - 1 / np.e) / (3 * np.e + 1 / np.e) / 2,
        sharpened_gate(1.0): 0.25,
        sharpened_gate(2.0): 0.4,
        thresholded_gate(0.3): 0.225,
        top_gate(1): 0.375,
        top_gate(2): 0.25,
    }
    for mechanism, value in closed.items():
        assert mechanism(z) == pytest.approx([value]), mechanism.name
    assert count()(one_state(np.ones(7), np.zeros(7))).tolist() == [3.5]
    assert mean_vector(one_state([1.0, 1.0], [0.0, np.pi / 2]))[0] == pytest.approx([0.5, 0.5])
    assert flocking_update(0.5)(one_state([2.0], [np.pi / 2]))[0] == pytest.approx([0.0, 1 / np.pi])
    assert flocking_angle(0.5)(one_state([2.0], [np.pi / 2])) == pytest.approx([0.5])
    assert weighted_mean()(one_state([1.0, 1.0], [[1.0, 0.0], [0.0, -1.0]], Ball(2, 1.0))).tolist() == [[0.25, -0.25]]


def test_states_of_one_batch_do_not_touch_each_other(rng):
    z = random_states(rng, 30, SEGMENT)
    for mechanism in EVERYWHERE + ON_A_SEGMENT + NOWHERE:
        together = mechanism(z)
        assert together == pytest.approx(np.concatenate([mechanism(state) for state in z])), mechanism.name


@pytest.mark.parametrize("mechanism", EVERYWHERE, ids=named)
@pytest.mark.parametrize("dimension", [1, 2])
def test_no_pair_exceeds_the_constant(mechanism, dimension, rng):
    space = Ball(dimension, 2.0)
    ratios = mechanism.ratios(random_states(rng, 200, space), random_states(rng, 200, space))
    assert 0 < ratios.max() <= mechanism.constant * (1 + SHARP)


@pytest.mark.parametrize("mechanism", ON_A_SEGMENT, ids=named)
def test_no_pair_on_a_segment_exceeds_the_constant(mechanism, rng):
    ratios = mechanism.ratios(random_states(rng, 400, SEGMENT), random_states(rng, 400, SEGMENT))
    assert 0 < ratios.max() <= mechanism.constant * (1 + SHARP)


@pytest.mark.parametrize("mechanism", EQUALS, ids=named)
def test_no_pair_of_equal_weights_exceeds_the_constant(mechanism, rng):
    A, B = (
        states(*zip(*[(np.full(k, 0.3), rng.uniform(-1, 1, k)) for k in rng.integers(1, 6, 300)], strict=True), SEGMENT)
        for _ in range(2)
    )
    assert 0 < mechanism.ratios(A, B).max() <= mechanism.constant * (1 + SHARP)


@pytest.mark.parametrize("gate", [0.3, 0.6, 0.8])
@pytest.mark.parametrize("update", [flocking_update, flocking_angle])
def test_no_polarized_pair_exceeds_the_flocking_constant(update, gate, rng):
    z = polarized_states(rng, 800, gate)
    half = len(z) // 2
    ratios = update(gate).ratios(z[:half], z[half : 2 * half])
    assert 0 < ratios.max() <= update(gate).constant * (1 + SHARP)


def pair(first, second, space=SEGMENT):
    return one_state(*first, space), one_state(*second, space)


def crossing(gate):
    """Two headings at right angles to the mean but for arcsin(gate), and the same across the line."""
    tilt = np.pi / 2 - np.arcsin(gate)
    return pair(([1, 1], [tilt, -tilt]), ([1, 1], [np.pi - tilt, np.pi + tilt]), Circle())


@pytest.mark.parametrize(
    ("mechanism", "z", "other"),
    [
        (weighted_mean(), *pair(([1], [-1]), ([1], [1]))),
        (weighted_mean(lambda y: 3 * y, 3.0), *pair(([1, 1], [0, -1]), ([1, 1], [0, 1]))),
        (value_aggregation(np.abs), *pair(([1, 2], [0, 1]), ([1, 2], [1, 1]))),
        (top_weight(), *pair(([1], [0]), ([1, 1], [0, 0]))),
        (count(), *pair((np.ones(4), np.zeros(4)), (np.ones(5), np.zeros(5)))),
        (flocking_angle(0.8 - 1e-9), *crossing(0.8)),
        (flocking_angle(0.2 - 1e-9), *crossing(0.2)),
        (weighted_sum(), *pair(([1, 1], [-1, 0]), ([1, 1], [1, 0]))),
        (weighted_max(), *pair(([1], [-1]), ([1], [1]))),
        (weighted_max("accumulative"), *pair(([1], [-1]), ([2, 1], [-1, 1]))),
        (maximum(), *pair(([1], [-1]), ([1, 1], [-1, 1]))),
        (uniform_mean(), *pair(([1, 1], [-1, 0]), ([1, 1], [1, 0]))),
        (sharpened_gate(2.0), *pair(([1, 3**-0.5], [-1, 1]), ([1, 3**-0.5 + 1e-6], [-1, 1]))),
        (thresholded_gate(0.2), *pair(([1, 1], [-1, 1]), ([2, 3], [-1, 1]))),
    ],
    ids=named,
)
def test_the_constant_is_attained(mechanism, z, other):
    assert mechanism.ratios(z, other)[0] == pytest.approx(mechanism.constant, rel=1e-5)


@pytest.mark.parametrize(
    ("mechanism", "pairs"),
    [
        (weighted_mean(reading="accumulative"), lambda e: (([1], [1]), ([1, e], [1, -1]))),
        (top_weight("accumulative"), lambda e: (([1], [0]), ([1, e], [0, 0]))),
        (mean_difference(), lambda e: (([1, e], [-1, -1]), ([1, e], [-1, 1]))),
        (sharpened_gate(1.0), lambda e: (([1], [-1]), ([1, e], [-1, 1]))),
        (attention_by_content(2.0), lambda e: (([1, e**2], [-1, 1]), ([1, e**2], [-1, 1 - e]))),
    ],
    ids=named,
)
def test_the_constant_is_approached(mechanism, pairs):
    gaps = [1 - mechanism.ratios(*pair(*pairs(e)))[0] / mechanism.constant for e in (1e-1, 1e-2, 1e-3)]
    assert gaps == sorted(gaps, reverse=True)
    assert 0 <= gaps[-1] < 5e-3


@pytest.mark.parametrize(
    ("mechanism", "pairs"),
    [
        (count("conservative"), lambda e: (([1] * int(1 / e), [0] * int(1 / e)), ([1] * int(2 / e), [0] * int(2 / e)))),
        (replace(weighted_sum(), reading="conservative"), lambda e: (([1], [1]), ([1] * int(1 / e), [1] * int(1 / e)))),
        (top_gate(1), lambda e: (([1 + e, 1], [-1, 1]), ([1, 1 + e], [-1, 1]))),
        (maximum(False), lambda e: (([1, e], [-1, -1]), ([1, e], [-1, 1]))),
        (
            replace(maximum(), reading="conservative"),
            lambda e: (([1] * int(1 / e), [-1] * int(1 / e)), ([1] * int(1 / e), [1] + [-1] * (int(1 / e) - 1))),
        ),
        (uniform_mean(False), lambda e: (([1, e], [-1, -1]), ([1, e], [-1, 1]))),
        (
            sharpened_gate(2.0, "conservative"),
            lambda e: (
                ([e] + [e**2] * int(1 / e**2), [-1] + [0] * int(1 / e**2)),
                ([e] + [e**2] * int(1 / e**2), [1] + [0] * int(1 / e**2)),
            ),
        ),
    ],
    ids=named,
)
def test_there_is_no_constant(mechanism, pairs):
    """The ratio grows without end along the pairs, like one over their parameter."""
    wide, narrow = (mechanism.ratios(*pair(*pairs(e)))[0] for e in (0.25, 0.05))
    assert narrow > 3 * wide


def test_the_sum_of_raw_weights_is_no_function_of_the_state():
    raw = replace(weighted_sum(), evaluate=lambda z: np.add.reduceat(z.weights * z.values, z.offsets[:-1]))
    z, doubled = pair(([1, 2], [0.1, 0.2]), ([2, 4], [0.1, 0.2]))
    assert raw.ratios(z, doubled).tolist() == [np.inf]
    assert weighted_sum().ratios(z, doubled).tolist() == [0.0]


@pytest.mark.parametrize("dimension", [1, 2])
def test_the_conservative_distance_is_at_most_twice_the_accumulative(dimension, rng):
    z = random_states(rng, 80, Ball(dimension, 1.0))
    conservative, accumulative = (distance_matrix(z, reading=reading) for reading in READINGS)
    assert np.all(conservative <= 2 * accumulative + SHARP)


def test_no_element_is_distinguished(rng):
    weights, values = rng.random(4), rng.uniform(-1, 1, 4)
    orders = [list(order) for order in permutations(range(4))]
    z = states([weights[order] for order in orders], [values[order] for order in orders], SEGMENT)
    for mechanism in EVERYWHERE + ON_A_SEGMENT + NOWHERE:
        assert np.ptp(mechanism(z), axis=0) < SHARP, mechanism.name


def test_the_first_listed_of_equals_is_distinguished_by_a_top_gate():
    z = states([[1, 1], [1, 1]], [[-1, 1], [1, -1]], SEGMENT)
    assert top_gate(1).ratios(z[0], z[1]).tolist() == [np.inf]


@pytest.mark.parametrize("gate", [0.3, 0.8])
def test_the_angle_bound_sharpens_the_mean_vector_bound(gate, rng):
    """|m - m'| <= 2 sin(d / 2), from which the constant of the angle follows."""
    z = random_states(rng, 120)
    mean = mean_vector(z)
    apart = np.linalg.norm(mean[:, None] - mean, axis=-1)
    assert np.all(apart <= 2 * np.sin(np.pi * distance_matrix(z) / 2) + SHARP)


def test_ratios_of_equal_states_and_of_equal_outputs():
    z = one_state([1.0, 2.0], [0.0, 1.0])
    assert top_weight().ratios(z, z).tolist() == [0.0]
    assert quotients(np.array([0.0, 1e-16, 0.5, 0.5]), np.array([0.0, 0.0, 0.0, 0.25])).tolist() == [0, 0, np.inf, 2]


def test_truncated_weight_still_counts_in_the_shares():
    z = one_state([6.0, 3.0, 1.0], [0.0, 0.0, 0.0])
    assert top_weight()(z.truncate(0.1)) == pytest.approx(top_weight()(z))


CIRCULAR, SQUARE = one_state([1.0], [0.0]), one_state([1.0], [[0.0, 0.0]], Ball(2, 1.0))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: flocking_update(0.0), r"the gate must lie in \(0, 1\], not 0.0"),
        (lambda: flocking_angle(1.5), "the gate must lie in"),
        (
            lambda: flocking_update(0.5)(states([[1], [1, 1]], [[0], [0, np.pi]])),
            "the flocking update needs a polarization of at least 0.5: state 1 has not",
        ),
        (lambda: maximum()(one_state([1, 2], [0, 0], SEGMENT)), "the maximum needs equal weights: state 0 has not"),
        (lambda: flocking_update(0.5)(one_state([1.0], [0.0], SEGMENT)), "defined on the circle, not in Ball"),
        (lambda: weighted_mean()(CIRCULAR), "the weighted mean needs values in a ball; on the circle, use the flock"),
        (lambda: weighted_max()(SQUARE), r"the weighted maximum needs values on a segment, Ball\(1, R\)"),
        (lambda: weighted_mean(reading="both"), "unknown reading 'both'"),
        (lambda: weighted_mean(np.sin, slope=0.0), "the slope must be positive and finite, not 0.0"),
        (lambda: attention_by_content(-1.0), "the steepness must be finite and at least 0"),
        (lambda: sharpened_gate(0.5), "the order of the gate must be finite and at least 1"),
        (lambda: thresholded_gate(0.5), "the threshold must be at least 0 and below 1/2"),
        (lambda: top_gate(0), "the gate must keep at least 1 atom"),
        (lambda: count().ratios(CIRCULAR, states([[1.0]] * 2, [[0.0]] * 2)), "1 states cannot be paired with 2"),
    ],
)
def test_bad_arguments_are_refused(call, message):
    with pytest.raises(GradedSparseError, match=message):
        call()
