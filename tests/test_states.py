"""Building states: what is kept, what is refused, and with which words."""

import numpy as np
import pandas
import pyarrow
import pytest
from builders import one_state, random_states, same_states, states

from gradedsparse import Ball, Circle, GradedSparseError, WeightedMultisets
from gradedsparse.states import concatenate


def test_from_lists_keeps_order_and_drops_zero_weights():
    z = states([[2.0, 0.0, 1.0], [5.0]], [[0.1, 9.0, 0.3], [0.4]])
    assert z.offsets.tolist() == [0, 2, 3]
    assert z.weights.tolist() == [2.0, 1.0, 5.0]
    assert z.values.tolist() == [0.1, 0.3, 0.4]
    assert z.sizes.tolist() == [2, 1]


def test_shares_sum_to_one_and_relative_weights_reach_one():
    z = states([[2.0, 6.0], [5.0]], [[0.1, 0.2], [0.3]])
    assert z.shares.tolist() == [0.25, 0.75, 1.0]
    assert z.relative.tolist() == [1 / 3, 1.0, 1.0]


def test_repeated_atoms_are_kept_apart():
    assert one_state([0.5, 0.5], [1.0, 1.0]).sizes.tolist() == [2]


def test_no_states_at_all():
    z = states([], [])
    assert len(z) == 0
    assert len(states([], [], Ball(3, 1.0))) == 0
    assert len(WeightedMultisets.from_table({"state": [], "weight": [], "value": []}, Circle())) == 0
    assert z.shares.shape == (0,)
    assert z.tops.shape == (0,)


def test_padded_and_listed_states_are_the_same():
    W = np.array([[1.0, 0.0, 2.0], [3.0, 0.0, 0.0]])
    X = np.array([[0.1, np.nan, 0.2], [0.3, np.inf, 99.0]])
    assert same_states(
        WeightedMultisets.from_padded(W, X, space=Circle()), states([[1.0, 2.0], [3.0]], [[0.1, 0.2], [0.3]])
    )


def test_padded_states_in_three_dimensions():
    W = np.array([[1.0, 0.0], [1.0, 2.0]])
    X = np.arange(12.0).reshape(2, 2, 3) / 12
    z = WeightedMultisets.from_padded(W, X, space=Ball(3, 2.0))
    assert z.values.tolist() == X.reshape(4, 3)[[0, 2, 3]].tolist()


def test_the_caller_may_change_its_arrays_afterwards():
    W, X = np.ones((1, 2)), np.zeros((1, 2))
    z = WeightedMultisets.from_padded(W, X, space=Circle())
    W[:], X[:] = 7.0, 7.0
    assert z.weights.tolist() == [1.0, 1.0]
    assert z.values.tolist() == [0.0, 0.0]


@pytest.mark.parametrize("wrap", [dict, pandas.DataFrame, pyarrow.table])
def test_from_table_groups_rows_by_state_in_order_of_appearance(wrap):
    table = wrap({"state": ["b", "a", "b"], "weight": [1.0, 2.0, 3.0], "value": [0.1, 0.2, 0.3]})
    z = WeightedMultisets.from_table(table, Circle())
    assert same_states(z, states([[1.0, 3.0], [2.0]], [[0.1, 0.3], [0.2]]))


def test_from_table_with_named_columns_in_a_ball():
    table = {"id": [1, 1], "w": [1, 2], "x": [0.0, 0.5], "y": [0.1, 0.2]}
    z = WeightedMultisets.from_table(table, Ball(2, 1.0), state="id", weight="w", value=["x", "y"])
    assert z.values.tolist() == [[0.0, 0.1], [0.5, 0.2]]


@pytest.mark.parametrize(
    ("weights", "values", "space", "message"),
    [
        ([[1.0], [1.0, -2.0]], [[0.0], [0.0, 0.0]], Circle(), r"state 1, atom 1: weight is negative \(-2.0\)"),
        ([[np.nan]], [[0.0]], Circle(), "state 0, atom 0: weight is not a number"),
        ([[1.0, np.inf]], [[0.0, 0.0]], Circle(), "state 0, atom 1: weight is infinite"),
        ([[1.0], [0.0, 0.0]], [[0.0], [1.0, 2.0]], Circle(), "state 1: no positive weight"),
        ([[1.0], []], [[0.0], []], Circle(), "state 1: no positive weight"),
        ([[1e308, 1e308]], [[0.0, 0.0]], Circle(), "state 0: its weights sum to infinity"),
        ([[1.0]], [[np.nan]], Circle(), "state 0, atom 0: value is not finite"),
        ([[1.0]], [[[0.0, np.inf]]], Ball(2, 1.0), "state 0, atom 0: value is not finite"),
        ([[1.0, 1.0]], [[0.0, 1.1]], Ball(1, 1.0), r"state 0, atom 1: value lies outside the space Ball.* \(1.1\)"),
        ([[1.0]], [[[0.8, 0.8]]], Ball(2, 1.0), "state 0, atom 0: value lies outside"),
        ([[1.0, 1.0]], [[0.0]], Circle(), "state 0: 2 weights but 1 values"),
        ([[1.0]], [[0.0], [0.0]], Circle(), "1 weight arrays but 2 value arrays"),
        ([[1.0]], [[[0.0, 0.0]]], Circle(), r"state 0: the values must have shape \(1,\)"),
        ([[1.0]], [[0.0]], Ball(2, 1.0), r"state 0: the values must have shape \(1, 2\)"),
        ([[[1.0]]], [[0.0]], Circle(), "state 0: the weights must be a 1-d array"),
        ([["heavy"]], [[0.0]], Circle(), "state 0: the weights must be an array of numbers"),
    ],
)
def test_bad_states_are_refused_with_their_place(weights, values, space, message):
    with pytest.raises(GradedSparseError, match=message):
        WeightedMultisets.from_lists(weights, values, space=space)


def test_a_value_on_the_rim_is_inside():
    assert len(one_state([1.0], [1.0 + 1e-12], Ball(1, 1.0))) == 1


@pytest.mark.parametrize(
    ("table", "space", "options", "message"),
    [
        ({"state": [0], "weight": [1]}, Circle(), {}, "no column 'value' in the table; it has state, weight"),
        ({"state": [0], "weight": [1], "value": [0]}, Ball(2, 1.0), {}, "needs 2 value column"),
        (
            {"state": ["p", "q"], "weight": [1, -1], "value": [0, 0]},
            Circle(),
            {},
            r"state q \(row 1\), atom 0: weight is negative",
        ),
        ({"state": [0], "weight": ["much"], "value": [0]}, Circle(), {}, "column 'weight' must be an array of numbers"),
        (
            {"state": [0, 1, 2], "weight": [1, 1], "value": [0, 0]},
            Circle(),
            {},
            r"'weight' has shape \(2,\).*'state' names 3 atoms",
        ),
        ({"state": [0, None], "weight": [1, 1], "value": [0, 0]}, Circle(), {}, "column 'state': row 1 does not say"),
        ({"state": [np.nan], "weight": [1], "value": [0]}, Circle(), {}, "column 'state': row 0 does not say"),
        ({"state": [[0]], "weight": [1], "value": [0]}, Circle(), {}, "column 'state' must be one label a row"),
    ],
)
def test_bad_tables_are_refused(table, space, options, message):
    with pytest.raises(GradedSparseError, match=message):
        WeightedMultisets.from_table(table, space, **options)


@pytest.mark.parametrize("shape", [((2, 2), (2, 3)), ((2,), (2,)), ((2, 2), (2, 2, 1))])
def test_padded_arrays_must_fit(shape):
    with pytest.raises(GradedSparseError, match=r"padded states need weights \(n, k\)"):
        WeightedMultisets.from_padded(np.ones(shape[0]), np.zeros(shape[1]), space=Circle())


@pytest.mark.parametrize(("dimension", "radius"), [(0, 1.0), (True, 1.0), (1.5, 1.0), (2, 0.0), (2, -1.0), (2, np.nan)])
def test_impossible_balls_are_refused(dimension, radius):
    with pytest.raises(GradedSparseError, match=r"Ball: the (dimension|radius) must be"):
        Ball(dimension, radius)


def test_circle_measures_arcs_in_units_of_pi_across_the_seam():
    assert Circle().ground(0.1, 2 * np.pi - 0.1) == pytest.approx(0.2 / np.pi)
    assert Circle().ground(0.0, np.pi) == pytest.approx(1.0)
    assert Circle().coordinates(np.array([-1e-30, 2 * np.pi, -np.pi])).ravel().tolist() == [0.0, 0.0, 1.0]


def test_selection_is_like_that_of_a_list(rng):
    z = random_states(rng, 9)
    everything = [z[i] for i in range(9)]
    mask = rng.random(9) < 0.5
    for key in (slice(2, 5), slice(None, None, -1), slice(7, 3), [4, 4, 0], np.array([8, 1])):
        picked = everything[key] if isinstance(key, slice) else [everything[i] for i in key]
        assert len(z[key]) == len(picked)
        assert all(same_states(a, b) for a, b in zip(z[key], picked, strict=True))
    assert same_states(z[mask], z[np.flatnonzero(mask)])
    assert same_states(z[-1], z[8])
    assert [same_states(a, b) for a, b in zip(z, everything, strict=True)] == [True] * 9
    with pytest.raises(IndexError):
        z[9]


def test_selection_after_slicing_keeps_atoms_and_dropped_weight(rng):
    z = random_states(rng, 12).truncate(0.3)
    assert same_states(z[3:9][[2, 0]], z[[5, 3]])


def test_truncation_keeps_the_heaviest_and_remembers_the_rest():
    z = one_state([1.0, 4.0, 3.0, 2.0], [0.1, 0.2, 0.3, 0.4]).truncate(0.3)
    assert z.weights.tolist() == [4.0, 3.0]
    assert z.values.tolist() == [0.2, 0.3]
    assert z.dropped.tolist() == [3.0]
    assert z.totals.tolist() == [10.0]
    assert z.shares.tolist() == [0.4, 0.3]


def test_truncation_never_leaves_out_more_than_its_share_and_never_all(rng):
    z = random_states(rng, 50, most=12)
    for share in (0.0, 1e-12, 0.1, 0.5, 0.999):
        cut = z.truncate(share)
        assert np.all(cut.dropped <= share * z.totals * (1 + 1e-12))
        assert np.all(cut.sizes >= 1)
        np.testing.assert_allclose(cut.totals, z.totals, rtol=1e-14)


def test_truncating_twice_adds_the_dropped_weight():
    z = one_state([8.0, 4.0, 2.0, 1.0, 1.0], [0.0] * 5)
    assert same_states(z.truncate(0.1).truncate(0.25), z.truncate(0.25))


@pytest.mark.parametrize("share", [-0.1, 1.0, np.nan])
def test_truncation_refuses_shares_out_of_range(share):
    with pytest.raises(GradedSparseError, match="the dropped share must be at least 0 and below 1"):
        one_state([1.0], [0.0]).truncate(share)


def test_concatenation_is_the_inverse_of_slicing(rng):
    z = random_states(rng, 10).truncate(0.2)
    assert same_states(concatenate([z[:4], z[4:4], z[4:]]), z)


def test_concatenation_refuses_nothing_and_mixed_spaces():
    with pytest.raises(GradedSparseError, match="nothing to concatenate"):
        concatenate([])
    with pytest.raises(GradedSparseError, match="different spaces"):
        concatenate([one_state([1.0], [0.0]), one_state([1.0], [0.0], Ball(1, 1.0))])
