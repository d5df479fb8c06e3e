"""The adversarial search: close to every sharp constant, never beyond it, and what it reports is true."""

from dataclasses import replace

import numpy as np
import pytest
from builders import same_states

from gradedsparse import Ball, Circle, GradedSparseError, distance
from gradedsparse import mechanisms as m
from gradedsparse.search import check, largest_ratio

CIRCLE, SEGMENT, DISC = Circle(), Ball(1, 0.7), Ball(2, 3.0)
CLOSE = 0.97  # of a sharp constant
ROUNDED = 1e-8  # of f, over the least distance looked at


def mean_direction(angles):
    return np.column_stack([np.cos(angles), np.sin(angles)])


def length(vectors):
    return np.linalg.norm(vectors, axis=1)


SHARP = {
    "mean": (m.weighted_mean(), SEGMENT),
    "mean in a disc": (m.weighted_mean(), DISC),
    "mean, accumulative": (m.weighted_mean(reading="accumulative"), SEGMENT),
    "tripled mean": (m.attention_pooling(None, lambda y: 3 * np.sin(y), 3.0, sharp=True), SEGMENT),
    "value aggregation": (m.value_aggregation(np.sin, sharp=True), CIRCLE),
    "polarization": (m.attention_pooling(mean_direction, length, sharp=True), CIRCLE),
    "top weight": (m.top_weight(), CIRCLE),
    "top weight, accumulative": (m.top_weight("accumulative"), SEGMENT),
    "flocking 0.8": (m.flocking_update(0.8), CIRCLE),
    "flocking 0.4": (m.flocking_update(0.4), CIRCLE),
    "angle 0.8": (m.flocking_angle(0.8), CIRCLE),
    "angle 0.4": (m.flocking_angle(0.4), CIRCLE),
    "count": (m.count(), CIRCLE),
    "weighted sum": (m.weighted_sum(), DISC),
    "weighted maximum": (m.weighted_max(), SEGMENT),
    "weighted maximum, accumulative": (m.weighted_max("accumulative"), SEGMENT),
    "maximum of equals": (m.maximum(), SEGMENT),
    "mean field": (m.uniform_mean(), DISC),
    "mean difference": (m.mean_difference(), SEGMENT),
    "mean difference, circle": (m.mean_difference(), CIRCLE),
    "attention by content": (m.attention_by_content(1.5), SEGMENT),
    "sharpened gate 1": (m.sharpened_gate(1.0), SEGMENT),
    "sharpened gate 2": (m.sharpened_gate(2.0), DISC),
    "sharpened gate 4": (m.sharpened_gate(4.0), SEGMENT),
    "thresholded gate": (m.thresholded_gate(0.2), SEGMENT),
}
UNBOUNDED = {
    "top-1 gate": (m.top_gate(1), SEGMENT),
    "top-2 gate, accumulative": (m.top_gate(2, "accumulative"), DISC),
    "maximum": (m.maximum(equal_weights=False), SEGMENT),
    "maximum, conservative": (replace(m.maximum(equal_weights=False), reading="conservative"), SEGMENT),
    "uniform mean": (m.uniform_mean(equal_weights=False), SEGMENT),
    "uniform mean, accumulative": (replace(m.uniform_mean(equal_weights=False), reading="accumulative"), SEGMENT),
}
# largest change over the cap of each axiom alone
AXIOMS = {
    "mean": (1.0, 1.0),
    "mean, accumulative": (1.0, 2.0),
    "value aggregation": (1.0, 2 / np.pi),
    "top weight": (0.0, 0.5),
    "flocking 0.4": (1 / 0.4, 2 / np.pi / 0.4),
    "count": (0.0, 1.0),
    "weighted maximum, accumulative": (1.0, 2.0),
    "attention by content": (2.5 * np.exp(1.5), np.exp(1.5)),
    "sharpened gate 2": (1.0, 3 * np.sqrt(3) / 4),
    "thresholded gate": (0.8, 1.0),
}


@pytest.mark.parametrize("name", SHARP)
def test_the_search_comes_close_to_a_sharp_constant_and_never_exceeds_it(name):
    mechanism, space = SHARP[name]
    assert mechanism.sharp
    found = largest_ratio(mechanism, space, seed=3, restarts=3)
    assert CLOSE * mechanism.constant <= found.ratio <= mechanism.constant * (1 + ROUNDED)
    assert mechanism.ratios(found.z, found.other)[0] == pytest.approx(found.ratio, rel=ROUNDED)
    assert distance(found.z, found.other, mechanism.reading) == pytest.approx(found.cost, rel=ROUNDED)
    assert found.change / found.cost == pytest.approx(found.ratio, rel=ROUNDED)


@pytest.mark.parametrize("name", UNBOUNDED)
def test_the_search_finds_no_end_where_there_is_no_constant(name):
    mechanism, space = UNBOUNDED[name]
    assert mechanism.constant == np.inf
    found = largest_ratio(mechanism, space)
    assert found.ratio > 1e4
    assert mechanism.ratios(found.z, found.other)[0] == pytest.approx(found.ratio, rel=1e-6)


@pytest.mark.parametrize("name", AXIOMS)
def test_each_axiom_alone_has_the_derived_constant(name):
    mechanism, space = SHARP[name]
    for axiom, constant in zip(("A1", "A2"), AXIOMS[name], strict=True):
        found = largest_ratio(mechanism, space, seed=1, restarts=3, axiom=axiom)
        assert CLOSE * constant <= found.ratio <= constant * (1 + ROUNDED), axiom


def test_an_axiom_search_changes_what_the_axiom_lets_change():
    mean = m.weighted_mean()
    values = largest_ratio(mean, SEGMENT, axiom="A1", restarts=1, steps=20)
    assert values.z.shares.tolist() == values.other.shares.tolist()
    assert np.sum(values.z.values != values.other.values) == 1
    weights = largest_ratio(m.mean_difference(), SEGMENT, axiom="A2", restarts=1, steps=20)
    assert set(weights.z.values) | set(weights.other.values) <= {*weights.z.values, *weights.other.values}
    assert weights.z.shares.tolist() != weights.other.shares.tolist()


def test_at_the_gate_the_constant_exceeds_what_single_moves_show():
    """The three moves between two polarized states may pass through states that are not."""
    angle = m.flocking_angle(0.8)
    single = max(largest_ratio(angle, CIRCLE, axiom=axiom, restarts=2).ratio for axiom in ("A1", "A2"))
    assert single < 0.9 * angle.constant


def test_a_check_holds_the_constant_against_all_three_searches():
    found = check(m.count(), CIRCLE, restarts=1, steps=40)
    assert found.found.ratio == pytest.approx(1.0, rel=1e-3)
    assert found.by_axiom["A1"] == 0
    assert found.by_axiom["A2"] == pytest.approx(1.0, rel=1e-3)
    with pytest.raises(GradedSparseError, match=r"the count has no accumulative constant 0.9: .* the ratio 1"):
        check(replace(m.count(), constant=0.9), CIRCLE, restarts=1)


def test_the_search_beats_random_pairs(rng):
    mechanism = m.attention_by_content(1.5)
    weights, values = rng.exponential(size=(2, 500, 3)), rng.uniform(-0.7, 0.7, (2, 500, 3))
    A, B = (m.WeightedMultisets.from_padded(w, x, SEGMENT) for w, x in zip(weights, values, strict=True))
    assert mechanism.ratios(A, B).max() < 0.8 * largest_ratio(mechanism, SEGMENT, restarts=1).ratio


def test_the_same_seed_gives_the_same_pair_and_pairs_stay_apart():
    first, again = (largest_ratio(m.flocking_update(0.6), CIRCLE, seed=5, restarts=1, closest=0.1) for _ in range(2))
    assert same_states(first.z, again.z)
    assert same_states(first.other, again.other)
    assert first.cost >= 0.1
    assert first.evaluated == again.evaluated > 1000


@pytest.mark.parametrize("atoms", [1, 2, 5])
def test_states_have_at_most_so_many_atoms(atoms):
    found = largest_ratio(m.weighted_mean(), DISC, atoms=atoms, restarts=1, steps=10)
    assert max(len(found.z.weights), len(found.other.weights)) <= atoms


class Elsewhere:
    dimension = 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"space": Elsewhere()}, "on a circle or in a ball"),
        ({"atoms": 0}, "takes 1 to 5 atoms a state, not 0"),
        ({"atoms": 6}, "takes 1 to 5 atoms a state, not 6"),
        ({"restarts": 0}, "restarts must be at least 1, not 0"),
        ({"steps": 0}, "steps must be at least 1, not 0"),
        ({"axiom": "A3"}, "unknown axiom 'A3'"),
        ({"closest": 1e-9}, "closest must be at least 1e-06 and below 1"),
        ({"mechanism": m.weighted_mean(), "space": CIRCLE}, "the weighted mean needs values in a ball"),
        (
            {"mechanism": replace(m.count(), domain=lambda z: np.zeros(len(z), bool)), "steps": 1},
            "found no pair of states that the count is defined on",
        ),
    ],
)
def test_bad_arguments_are_refused(options, message):
    with pytest.raises(GradedSparseError, match=message):
        largest_ratio(**{"mechanism": m.top_weight(), "space": SEGMENT, **options})
