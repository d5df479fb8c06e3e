"""The metric: against its definition, two other solvers, its axioms, and the statements of the theory."""

import numpy as np
import pytest
from builders import (
    READINGS,
    SEAM,
    SPACES,
    distance_by_enumeration,
    one_state,
    random_states,
    reading_weights,
    small_states,
    states,
)
from hypothesis import given, strategies
from numba import njit
from scipy.optimize import linear_sum_assignment, linprog

from gradedsparse import Ball, Circle, GradedSparseError, distance, distance_matrix
from gradedsparse._distance_kernel import assign, new_scratch
from gradedsparse._lanes import nearest, nearest_reference
from gradedsparse.representation import atom_cost, distance_reference, matching, overlap

EXACT = 1e-14
ROUNDING = 1e-12


def distance_by_linear_program(z, other, reading):
    """The padded transport of unit masses, solved as a linear program."""
    a, b = reading_weights(z, reading), reading_weights(other, reading)
    k, m = len(a), len(b)
    cost = np.zeros((k + m, k + m))
    cost[:k, :m] = np.minimum(a[:, None], b) * z.space.ground(z.values[:, None], other.values)
    cost[:k, :m] += np.abs(a[:, None] - b) / 2
    cost[:k, m:], cost[k:, :m] = a[:, None] / 2, b / 2
    rows = np.kron(np.eye(k + m), np.ones(k + m))
    columns = np.kron(np.ones(k + m), np.eye(k + m))
    solved = linprog(cost.ravel(), A_eq=np.vstack([rows, columns]), b_eq=np.ones(2 * (k + m)))
    assert solved.success
    return solved.fun


def same_atoms_permuted(z, rng):
    order = rng.permutation(len(z.weights))
    return one_state(z.weights[order], z.values[order], z.space)


@pytest.mark.parametrize("space", SPACES, ids=repr)
@pytest.mark.parametrize("reading", READINGS)
def test_distance_is_the_least_cost_over_all_partial_matchings(space, reading, rng):
    A, B = random_states(rng, 12, space, most=5), random_states(rng, 5, space, most=5)
    expected = [[distance_by_enumeration(z, w, reading) for w in B] for z in A]
    np.testing.assert_allclose(distance_matrix(A, B, reading), expected, atol=EXACT, rtol=EXACT)


@pytest.mark.parametrize("space", SPACES, ids=repr)
@pytest.mark.parametrize("reading", READINGS)
def test_kernel_agrees_with_the_padded_reference(space, reading, rng):
    A, B = random_states(rng, 20, space, most=25), random_states(rng, 10, space, most=40)
    expected = [[distance_reference(z, w, reading) for w in B] for z in A]
    np.testing.assert_allclose(distance_matrix(A, B, reading), expected, atol=ROUNDING, rtol=0)


@pytest.mark.parametrize("reading", READINGS)
def test_equal_weights_on_the_circle_agree_with_the_padded_reference(reading, rng):
    """They are matched in cyclic order, by another algorithm: seam, ties, few against many and many against as many."""
    for most in (3, 9, 30):
        values = [rng.uniform(-7, 7, int(k)) for k in rng.integers(1, most + 1, 20)]
        values += [rng.choice([*SEAM, 1.0, 2.0, 4.0], int(k)) for k in rng.integers(1, most + 1, 10)]
        z = states([np.ones(len(x)) for x in values], values)
        expected = [[distance_reference(v, w, reading) for w in z] for v in z]
        np.testing.assert_allclose(distance_matrix(z, z[:], reading), expected, atol=ROUNDING)


@pytest.mark.parametrize("reading", READINGS)
def test_distance_agrees_with_a_linear_program(reading, rng):
    A, B = random_states(rng, 8, most=7), random_states(rng, 8, most=7)
    for z, w in zip(A, B, strict=True):
        assert distance(z, w, reading) == pytest.approx(distance_by_linear_program(z, w, reading), abs=1e-9)


@pytest.mark.parametrize("reading", READINGS)
def test_five_hundred_atoms(reading, rng):
    weights = [rng.exponential(size=500), rng.choice([1.0, 2.0], 480)]
    z = states(weights, [rng.uniform(0, 7, 500), rng.uniform(0, 7, 480)])
    assert distance(z[0], z[1], reading) == pytest.approx(distance_reference(z[0], z[1], reading), abs=1e-11)


def solve_assignment(profit, most=None, excess=np.inf):
    """Column of each row, duals and shortfall; the rows' weights are ``most``, by default all 1."""
    n, m = profit.shape
    scratch = new_scratch(m)
    flat, u, v, open_v, reach, settled, _, column_of, row_of, parent = scratch
    rows = flat[: n * (len(flat) // m)].reshape(n, -1)
    rows[:, :m] = profit
    rows[:, m:] = 7.0  # spare columns must never be taken
    most = np.ones(n) if most is None else most
    shortfall = solve(flat, n, m, most, excess, u, v, open_v, reach, settled, column_of, row_of, parent)
    return column_of[:n], row_of[:m], u[:n], v[:m], shortfall


@njit
def solve(profit, n, m, most, excess, u, v, open_v, reach, settled, column_of, row_of, parent):
    return assign(profit, n, m, most, 0, excess, u, v, open_v, reach, settled, column_of, row_of, parent)


def test_assignment_duals_are_feasible_and_tight(rng):
    """u_i + v_j <= cost_ij everywhere, with equality on assigned pairs, v <= 0, and v = 0 on free columns."""
    for _ in range(300):
        n = int(rng.integers(1, 9))
        m = int(rng.integers(n, 12))
        profit = rng.choice([0.0, 0.5, 1.0], (n, m)) if rng.random() < 0.5 else rng.random((n, m))
        column_of, row_of, u, v, shortfall = solve_assignment(profit)
        assert len(set(column_of)) == n
        assert row_of[column_of].tolist() == list(range(n))
        slack = -profit - u[:, None] - v
        assert slack.min() >= -EXACT
        assert np.abs(slack[np.arange(n), column_of]).max() <= EXACT
        assert v.max() <= 0
        assert np.all(v[row_of < 0] == 0)
        best = profit[linear_sum_assignment(profit, maximize=True)].sum()
        assert profit[np.arange(n), column_of].sum() == pytest.approx(best, abs=EXACT)
        assert n - shortfall == pytest.approx(best, abs=EXACT)


def test_an_assignment_stops_once_it_is_sure_to_fall_short(rng):
    for _ in range(100):
        most = np.sort(rng.random(6))[::-1]
        profit = most[:, None] * rng.random((6, 8))
        best = profit[linear_sum_assignment(profit, maximize=True)].sum()
        exact = most.sum() - best
        stopped = solve_assignment(profit, most, excess=exact / 2)[-1]
        assert exact / 2 < stopped <= exact + EXACT
        assert solve_assignment(profit, most, excess=exact + EXACT)[-1] == pytest.approx(exact, abs=EXACT)


@pytest.mark.parametrize("width", [8, 24])
def test_the_vector_loop_is_the_plain_one(width, rng):
    for _ in range(50):
        profit, v = rng.random(3 * width), rng.random(width)
        v[rng.random(width) < 0.3] = -np.inf
        reach, parent = np.where(rng.random(width) < 0.5, rng.random(width), np.inf), np.zeros(width, np.int64)
        plain_reach, plain_parent = reach.copy(), parent.copy()
        found = run_nearest(profit, width, v, reach, parent, 0.8, 5, width)
        expected = nearest_reference(profit, width, v, plain_reach, plain_parent, 0.8, 5, width)
        assert found[0] == expected[0]
        assert found[0] == reach[found[1]]
        assert np.array_equal(reach, plain_reach)
        assert np.array_equal(parent, plain_parent)


@njit
def run_nearest(profit, start, v, reach, parent, base, row, width):
    return nearest(profit, start, v, reach, parent, base, row, width)


@pytest.mark.parametrize("reading", READINGS)
@pytest.mark.parametrize("space", [Circle(), Ball(1, 2.0)], ids=repr)
def test_metric_axioms(reading, space):
    @given(x=small_states(space), y=small_states(space), z=small_states(space))
    def check(x, y, z):
        assert distance(x, x, reading) == 0
        assert distance(x, y, reading) == pytest.approx(distance(y, x, reading), abs=EXACT)
        assert distance(x, z, reading) <= distance(x, y, reading) + distance(y, z, reading) + ROUNDING

    check()


@given(x=small_states(most=6), y=small_states(most=6))
def test_conservative_distance_lies_between_0_and_1(x, y):
    assert 0 <= distance(x, y) <= 1 + EXACT


def test_the_extremes_are_reached():
    assert distance(one_state([1.0], [0.0]), one_state([3.0], [np.pi])) == 1
    assert distance(one_state([1.0], [0.4]), one_state([3.0], [0.4])) == 0


def test_different_states_are_apart():
    """Two atoms at one place are not one atom of their joint weight: here d sees more than the measures."""
    assert distance(one_state([0.5, 0.5], [1.0, 1.0]), one_state([1.0], [1.0])) == pytest.approx(0.5, abs=EXACT)


@pytest.mark.parametrize("space", SPACES, ids=repr)
@pytest.mark.parametrize("reading", READINGS)
def test_order_of_atoms_does_not_matter(space, reading, rng):
    for z in random_states(rng, 20, space, most=9):
        assert distance(z, same_atoms_permuted(z, rng), reading) <= 1e-15


def test_equal_multisets_are_at_distance_exactly_zero(rng):
    """Weights in binary fractions, so that the order of summation leaves no trace."""
    for _ in range(50):
        k = int(rng.integers(1, 30))
        z = one_state(rng.choice([1.0, 0.5, 0.25], k), rng.uniform(-7, 7, k))
        assert distance(z, same_atoms_permuted(z, rng)) == 0
        assert distance(z, one_state([*z.weights, 0.0, 0.0], [*z.values, 1.0, 2.0])) == 0


def test_atoms_of_weight_zero_change_nothing(rng):
    for z, w in zip(random_states(rng, 20), random_states(rng, 20), strict=True):
        padded = one_state([0.0, *z.weights, 0.0], [5.0, *z.values, -1.0])
        assert distance(padded, w) == distance(z, w)


def test_the_unit_of_the_weights_does_not_matter(rng):
    for z, w in zip(random_states(rng, 20), random_states(rng, 20), strict=True):
        for reading in READINGS:
            scaled = one_state(8.0 * z.weights, z.values)
            assert distance(scaled, w, reading) == distance(z, w, reading)


def test_a_full_turn_changes_nothing(rng):
    for z, w in zip(random_states(rng, 20), random_states(rng, 20), strict=True):
        turned = one_state(z.weights, z.values + 2 * np.pi)
        assert distance(turned, w) == pytest.approx(distance(z, w), abs=EXACT)


def test_values_on_both_sides_of_the_seam_are_neighbours():
    near = one_state([1.0, 1.0], [0.01, 2 * np.pi - 0.01])
    far = one_state([1.0, 1.0], [-0.01, 0.01])
    assert distance(near, far) == pytest.approx(0, abs=EXACT)
    assert distance(one_state([1.0], [0.01]), one_state([1.0], [-0.01])) == pytest.approx(0.02 / np.pi, abs=EXACT)


def test_one_atom_against_many_pays_for_the_rest():
    """k equal atoms at one place against one atom there: the overlap is 1/k."""
    for k in (2, 7, 50):
        many = one_state(np.ones(k), np.full(k, 0.3))
        assert distance(one_state([1.0], [0.3]), many) == pytest.approx(1 - 1 / k, abs=EXACT)
        assert distance(many, one_state([1.0], [0.3]), "accumulative") == pytest.approx((k - 1) / 2, abs=EXACT)


def test_the_accumulative_distance_has_no_upper_bound():
    many, few = one_state(np.ones(9), np.zeros(9)), one_state(np.ones(4), np.full(4, np.pi))
    assert distance(many, few, "accumulative") == pytest.approx((9 + 4) / 2, abs=EXACT)
    assert distance(many, few) == pytest.approx(1, abs=EXACT)


def test_the_readings_weigh_states_differently():
    """Weights 2, 1 against 2, 2 at the same values: shares move by 1/6, relative weights by 1/2."""
    z, w = one_state([2.0, 1.0], [0.0, 1.0]), one_state([2.0, 2.0], [0.0, 1.0])
    assert distance(z, w) == pytest.approx(1 / 6, abs=EXACT)
    assert distance(z, w, "accumulative") == pytest.approx(1 / 4, abs=EXACT)


@pytest.mark.parametrize("dimension", [1, 2, 3])
def test_ball_distances_in_closed_form(dimension):
    """Two single atoms at opposite ends of the last axis are a diameter apart; a radius from the centre is half."""
    rim, centre = np.zeros(dimension), np.zeros(dimension)
    rim[-1] = 2.5
    z = states([[1.0]] * 3, [rim[None], -rim[None], centre[None]], Ball(dimension, 2.5))
    assert distance(z[0], z[1]) == pytest.approx(1, abs=EXACT)
    assert distance(z[0], z[2]) == pytest.approx(0.5, abs=EXACT)


@pytest.mark.parametrize("reading", READINGS)
@pytest.mark.parametrize("space", SPACES, ids=repr)
def test_overlap_and_matching_give_the_distance(space, reading, rng):
    for z, w in zip(random_states(rng, 10, space), random_states(rng, 10, space), strict=True):
        pairs, affinity = matching(z, w, reading)
        a, b = reading_weights(z, reading), reading_weights(w, reading)
        ground = z.space.ground(z.values[pairs[:, 0]], w.values[pairs[:, 1]])
        np.testing.assert_allclose(affinity, np.minimum(a[pairs[:, 0]], b[pairs[:, 1]]) * (1 - ground), atol=EXACT)
        assert len(pairs) == min(len(a), len(b))
        assert len(set(pairs[:, 0])) == len(set(pairs[:, 1])) == len(pairs)
        assert overlap(z, w, reading) == affinity.sum()
        total = (a.sum() + b.sum()) / 2
        assert total - affinity.sum() == pytest.approx(distance(z, w, reading), abs=ROUNDING)


@pytest.mark.parametrize("share", [0.05, 0.3, 0.8])
def test_truncation_is_one_sided(share, rng):
    """d <= d_trunc <= d + T + T', T and T' the dropped shares; T' = 0 for a state left whole."""
    A, B = random_states(rng, 30, most=15), random_states(rng, 30, most=15)
    cut_a, cut_b = A.truncate(share), B.truncate(share)
    exact = distance_matrix(A, B)
    dropped_a, dropped_b = (cut_a.dropped / cut_a.totals)[:, None], cut_b.dropped / cut_b.totals
    assert min(dropped_a.max(), dropped_b.max()) > 0
    for cut, growth in (
        (distance_matrix(cut_a, cut_b), dropped_a + dropped_b),
        (distance_matrix(cut_a, B), dropped_a),
        (distance_matrix(A, cut_b), dropped_b),
    ):
        assert np.all(cut >= exact - ROUNDING)
        assert np.all(cut <= exact + growth + ROUNDING)


def test_truncation_on_both_sides_can_cost_the_sum_of_the_dropped_shares():
    """Nearly equal states, the heavier atom at opposite values: each drops the partner of what the other keeps."""
    z, w = one_state([0.51, 0.49], [0.0, np.pi]), one_state([0.49, 0.51], [0.0, np.pi])
    assert distance(z, w) == pytest.approx(0.02, abs=EXACT)
    assert distance(z.truncate(0.49), w.truncate(0.49)) == pytest.approx(1, abs=EXACT)


def test_truncated_references_agree(rng):
    A, B = random_states(rng, 12, most=15).truncate(0.4), random_states(rng, 12, most=15).truncate(0.2)
    for reading in READINGS:
        expected = [[distance_reference(z, w, reading) for w in B] for z in A]
        np.testing.assert_allclose(distance_matrix(A, B, reading), expected, atol=ROUNDING)


@pytest.mark.parametrize("reading", READINGS)
def test_the_number_of_threads_does_not_change_a_bit(reading, rng):
    A, B = random_states(rng, 70, most=20), random_states(rng, 50, most=20)
    one = distance_matrix(A, B, reading, threads=1)
    assert np.array_equal(one, distance_matrix(A, B, reading, threads=2))
    assert np.array_equal(one, [[distance(z, w, reading) for w in B] for z in A])


@pytest.mark.parametrize("reading", READINGS)
def test_distances_within_a_sample(reading, rng):
    A = random_states(rng, 40, most=10)
    D = distance_matrix(A, reading=reading, threads=2)
    assert np.array_equal(D, D.T)
    assert np.all(np.diag(D) == 0)
    np.testing.assert_allclose(D, distance_matrix(A, A, reading), atol=EXACT)


def test_distances_within_a_truncated_sample_match_those_to_itself(rng):
    A = random_states(rng, 20, most=10).truncate(0.3)
    np.testing.assert_allclose(distance_matrix(A), distance_matrix(A, A), atol=EXACT)


def test_no_states_give_an_empty_matrix(rng):
    A = random_states(rng, 3)
    assert distance_matrix(A, A[:0]).shape == (3, 0)
    assert distance_matrix(A[:0], A).shape == (0, 3)


@given(
    weights=strategies.lists(
        strategies.sampled_from([0.0, 0.5, 1.0]) | strategies.floats(0, 2), min_size=3, max_size=3
    ),
    values=strategies.lists(strategies.floats(-7, 7), min_size=3, max_size=3),
)
def test_atom_cost_is_a_metric_on_the_cone(weights, values):
    def cost(i, j):
        return atom_cost(weights[i], values[i], weights[j], values[j], Circle())

    assert cost(0, 0) == 0
    assert cost(0, 1) >= 0
    assert cost(0, 1) == pytest.approx(cost(1, 0), abs=EXACT)
    assert cost(0, 2) <= cost(0, 1) + cost(1, 2) + ROUNDING


def test_kappa_below_the_diameter_breaks_the_triangle_inequality():
    """Values at -1 and 1 under kappa = 1: the way through an atom of weight 0 costs 1, the direct one 2."""
    too_small = Ball(1, 0.5)
    direct = atom_cost(1.0, -1.0, 1.0, 1.0, too_small)
    through_nothing = atom_cost(1.0, -1.0, 0.0, 0.0, too_small) + atom_cost(0.0, 0.0, 1.0, 1.0, too_small)
    assert (direct, through_nothing) == (2.0, 1.0)
    with pytest.raises(GradedSparseError, match="outside the space"):
        one_state([1.0], [1.0], too_small)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda z: distance(z, z[0]), "one state is wanted, such as z.0., not 2"),
        (lambda z: distance(z[0], one_state([1.0], [0.0], Ball(1, 1.0))), "different spaces"),
        (lambda z: distance_matrix(z, one_state([1.0], [0.0], Ball(1, 1.0))), "different spaces"),
        (lambda z: distance(z[0], z[1], "linear"), "unknown reading 'linear': it is 'conservative' or 'accumulative'"),
        (lambda z: distance_matrix(z, threads=0), "the number of threads must be an integer of at least 1, not 0"),
        (lambda z: distance_matrix(z, threads=1.5), "the number of threads must be an integer"),
    ],
)
def test_bad_arguments_are_refused(call, message):
    with pytest.raises(GradedSparseError, match=message):
        call(states([[1.0], [2.0]], [[0.0], [1.0]]))
