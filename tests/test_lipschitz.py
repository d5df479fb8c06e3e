"""Extension from finitely many values, the three moves of the proof, and the axioms as a linear program."""

from itertools import product

import numpy as np
import ot
import pytest
from builders import READINGS, SPACES, one_state, random_states, reading_weights, small_states, states
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog
from scipy.sparse import coo_array
from scipy.sparse.csgraph import dijkstra

from gradedsparse import Ball, Circle, GradedSparseError, distance, distance_matrix
from gradedsparse.lipschitz import axiom_grid, envelopes, least_constant, midpoint, three_moves
from gradedsparse.mechanisms import count, top_weight, weighted_mean

EXACT = 1e-12
SOLVER = 1e-8

SEGMENT = Ball(1, 1.0)
GRIDS = {
    "circle": (Circle(), [0.0, 1.0, 2.5, 4.5]),
    "segment": (SEGMENT, [-1.0, -0.3, 1.0]),
    "disc": (Ball(2, 1.0), [[0.0, 0.0], [1.0, 0.0], [0.0, -1.0]]),
}


def mechanism_of(reading):
    return top_weight() if reading == "conservative" else count()


@pytest.mark.parametrize("reading", READINGS)
@pytest.mark.parametrize("space", SPACES, ids=str)
def test_the_envelopes_hold_every_mechanism_and_touch_it_where_it_is_known(space, reading, rng):
    f, Z, at = mechanism_of(reading), random_states(rng, 12, space), random_states(rng, 40, space)
    lower, upper = envelopes(Z, f(Z), f.constant, at, reading)
    assert np.all(lower <= f(at) + EXACT)
    assert np.all(f(at) <= upper + EXACT)
    known = envelopes(Z, f(Z), f.constant, Z, reading)
    assert known[0] == pytest.approx(f(Z), abs=EXACT)
    assert known[1] == pytest.approx(f(Z), abs=EXACT)


@pytest.mark.parametrize("reading", READINGS)
def test_the_envelopes_are_mechanisms_of_the_constant_and_the_midpoint_halves_the_doubt(reading, rng):
    Z, at = random_states(rng, 8), random_states(rng, 30)
    y = 0.7 * distance_matrix(Z, at[:1], reading)[:, 0]
    apart = distance_matrix(at, reading=reading)
    for envelope in envelopes(Z, y, 0.7, at, reading):
        assert np.all(np.abs(envelope[:, None] - envelope) <= 0.7 * apart + EXACT)
    assert np.array_equal(midpoint(Z, y, 0.7, at, reading), np.mean(envelopes(Z, y, 0.7, at, reading), axis=0))


def test_the_envelopes_are_attained_values():
    """At every state some mechanism of the class takes the lower value and some the upper: both extend with it."""
    Z, at = states([[1.0], [1.0, 1.0]], [[0.0], [0.0, 2.0]]), one_state([2.0, 1.0], [1.0, 3.0])
    y = np.array([0.0, 0.2])
    for value in np.concatenate(envelopes(Z, y, 1.0, at)):
        apart = distance_matrix(Z, at)[:, 0]
        assert np.all(np.abs(y - value) <= apart + EXACT)
        assert np.isclose(np.abs(y - value), apart).any()


@given(small_states(), small_states(), small_states())
def test_the_least_constant_is_the_steepest_pair(first, second, third):
    Z = states(*zip(*[(z.weights, z.values) for z in (first, second, third)], strict=True))
    y = np.array([0.0, 0.3, -0.2])
    slopes = [abs(y[i] - y[j]) / d if (d := distance(Z[i], Z[j])) else np.inf for i, j in ((0, 1), (0, 2), (1, 2))]
    assert least_constant(Z, y) == pytest.approx(max(slopes))


def test_the_least_constant_is_enough_and_less_is_refused(rng):
    Z = random_states(rng, 10)
    y = rng.random(10)
    L = least_constant(Z, y)
    envelopes(Z, y, L, Z)
    with pytest.raises(GradedSparseError, match="no mechanism of constant"):
        envelopes(Z, y, 0.99 * L, Z)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda Z: envelopes(Z, [0.0, 0.0, 0.9], 1.0, Z),
            "constant 1 has these values: states 1 and 2 are 0.325822 kappa apart, their values 0.9",
        ),
        (lambda Z: envelopes(Z, [0.0, 1.0], 1.0, Z), r"one value a state is wanted, \(3,\).* y has \(2,\)"),
        (lambda Z: envelopes(Z, [0.0, np.nan, 0.0], 1.0, Z), "the value of state 1 is not finite"),
        (lambda Z: envelopes(Z, ["a", 0.0, 0.0], 1.0, Z), "must be an array of numbers"),
        (lambda Z: envelopes(Z, np.zeros(3), 0.0, Z), "the constant must be positive and finite, not 0.0"),
        (lambda Z: envelopes(Z, np.zeros(3), np.inf, Z), "the constant must be positive and finite"),
        (lambda Z: envelopes(Z, np.zeros(3), 1.0, one_state([1.0], [0.0], SEGMENT)), "live in different spaces"),
        (lambda Z: envelopes(Z, np.zeros(3), 1.0, Z, "both"), "unknown reading 'both'"),
        (lambda Z: least_constant(Z[:0], []), "at least one state"),
        (lambda Z: three_moves(Z, Z), "one state is wanted"),
        (lambda Z: three_moves(Z[2].truncate(0.5), Z[0]), "no walk to a truncated state"),
        (lambda Z: axiom_grid(Circle(), [0.0, 2 * np.pi], 2), "values 0 and 1 of the grid are the same"),
        (lambda Z: axiom_grid(SEGMENT, [0.0, 3.0], 2), "outside|not in the space"),
        (lambda Z: axiom_grid(SEGMENT, [0.0], 0), "units must be at least 1, not 0"),
        (lambda Z: axiom_grid(SEGMENT, [0.0], 2, atoms=0), "atoms must be at least 1, not 0"),
        (lambda Z: axiom_grid(SEGMENT, [0.0], 2, "both"), "unknown reading 'both'"),
        (lambda Z: axiom_grid(SEGMENT, [0.0], 2, scale=0.0), "the scale must be positive and finite"),
        (lambda Z: axiom_grid(SEGMENT, [0.0], 2, "accumulative", merging=True), "merging needs the conservative"),
        (lambda Z: axiom_grid(SEGMENT, [0.0], 3, atoms=2, merging=True), "merging needs .* as many atoms as units"),
        (lambda Z: axiom_grid(SEGMENT, np.linspace(-1, 1, 9), 9), "candidate states; at most 500,000"),
        (lambda Z: axiom_grid(Circle(), [0.0], 2).find(Z[1]), "not on the grid of weights k / 2 and 1 values"),
    ],
)
def test_bad_arguments_are_refused(call, message):
    Z = states([[1.0], [1.0, 2.0], [1.0, 1.0]], [[0.0], [0.0, 1.0], [0.0, 0.0]])
    with pytest.raises(GradedSparseError, match=message):
        call(Z)


@pytest.mark.parametrize("reading", READINGS)
@pytest.mark.parametrize("space", [Circle(), Ball(1, 2.0), Ball(2, 0.5)], ids=str)
def test_the_three_moves_are_moves_of_the_axioms_and_cost_d(space, reading, rng):
    z, other = random_states(rng, 40, space), random_states(rng, 40, space)
    for i in range(40):
        walk = three_moves(z[i], other[i], reading)
        assert walk.costs.sum() == pytest.approx(distance(z[i], other[i], reading), abs=EXACT)
        assert distance(walk.path[0], z[i]) == pytest.approx(0, abs=EXACT)
        assert distance(walk.path[3], other[i]) == pytest.approx(0, abs=EXACT)
        assert np.array_equal(walk.weights[0], walk.weights[1])
        assert np.array_equal(walk.values[1], walk.values[2])
        assert np.array_equal(walk.weights[2], walk.weights[3])
        assert np.sort(walk.weights[0][walk.weights[0] > 0]) == pytest.approx(np.sort(reading_weights(z[i], reading)))
        for step in range(3):
            apart = distance(walk.path[step], walk.path[step + 1], reading)
            assert apart == pytest.approx(walk.costs[step], abs=EXACT)


@settings(max_examples=30)
@given(small_states(most=3), small_states(most=3), st.sampled_from(READINGS))
def test_no_stage_of_the_three_moves_is_a_detour(z, other, reading):
    walk = three_moves(z, other, reading)
    from_start = [distance(walk.path[0], stage, reading) for stage in walk.path]
    assert from_start == pytest.approx(np.concatenate([[0], np.cumsum(walk.costs)]), abs=EXACT)


@pytest.mark.parametrize(("reading", "units", "atoms"), [("conservative", 4, 4), ("accumulative", 3, 3)])
@pytest.mark.parametrize("place", GRIDS)
def test_the_supremum_over_the_class_is_the_distance(place, reading, units, atoms, rng):
    space, values = GRIDS[place]
    grid = axiom_grid(space, values, units, reading, atoms)
    apart = distance_matrix(grid.states, reading=reading)
    for i, j in rng.integers(len(grid.states), size=(12, 2)):
        value, f = grid.supremum(i, j)
        assert value == pytest.approx(apart[i, j], abs=SOLVER)
        assert f[j] == 0
        assert f[i] == pytest.approx(value, abs=SOLVER)
        assert np.all(np.abs(f[:, None] - f) <= apart + SOLVER)
    shortest = dijkstra(coo_array((grid.caps, grid.moves.T), shape=apart.shape).tocsr(), directed=False)
    assert shortest == pytest.approx(apart, abs=EXACT)


def literal_supremum(space, values, units, slots, reading, i_atoms, j_atoms):
    """The axioms as they read: labelled elements, every change of one value and every pair of weight vectors."""
    total = sum if reading == "conservative" else max
    weights = [w for w in product(range(units + 1), repeat=slots) if total(w) == units]
    rho = space.ground(np.array(values)[:, None], np.array(values)[None, :])
    unnamed = {}

    def variable(w, x):
        return unnamed.setdefault(tuple(sorted(a for a in zip(w, x, strict=True) if a[0] > 0)), len(unnamed))

    rows = []
    for x in product(range(len(values)), repeat=slots):
        for w in weights:
            rows += [(variable(w, x), variable(v, x), np.abs(np.subtract(w, v)).sum() / 2 / units) for v in weights]
            for k, new in product(range(slots), range(len(values))):
                moved = (*x[:k], new, *x[k + 1 :])
                rows.append((variable(w, x), variable(w, moved), w[k] / units * rho[x[k], new]))
    first, second, caps = map(np.array, zip(*rows, strict=True))
    r = np.arange(len(rows))
    changes = coo_array((np.ones(len(rows)), (r, first))) - coo_array((np.ones(len(rows)), (r, second)))
    objective = np.zeros(len(unnamed))
    objective[unnamed[j_atoms]], objective[unnamed[i_atoms]] = 1, -1
    bounds = [(0, 0) if k == unnamed[j_atoms] else (None, None) for k in range(len(unnamed))]
    return -linprog(objective, changes.tocsr(), caps, bounds=bounds).fun, len(unnamed)


@pytest.mark.parametrize(("reading", "units", "slots"), [("conservative", 3, 3), ("accumulative", 2, 3)])
def test_moves_by_one_unit_say_all_that_the_axioms_say(reading, units, slots, rng):
    space, values = SEGMENT, [-1.0, 0.2]
    grid = axiom_grid(space, values, units, reading, slots)
    keys = list(grid.index)
    for i, j in rng.integers(len(keys), size=(6, 2)):
        literal, variables = literal_supremum(space, values, units, slots, reading, keys[i], keys[j])
        assert variables == len(grid.states)
        assert grid.supremum(i, j)[0] == pytest.approx(literal, abs=SOLVER)


@pytest.mark.parametrize("place", ["circle", "segment"])
def test_with_merging_the_supremum_is_the_wasserstein_distance_of_the_measures(place, rng):
    space, values = GRIDS[place]
    grid = axiom_grid(space, values, 4, merging=True)
    apart = distance_matrix(grid.states)
    rho = space.ground(grid.values[:, None], grid.values[None, :])
    masses = np.zeros((len(grid.states), len(values)))
    for atoms, i in grid.index.items():
        for weight, where in atoms:
            masses[i, where] += weight / 4
    strict = 0
    for i, j in rng.integers(len(grid.states), size=(20, 2)):
        value, _ = grid.supremum(i, j)
        assert value == pytest.approx(ot.emd2(masses[i], masses[j], rho), abs=SOLVER)
        assert value <= apart[i, j] + SOLVER
        strict += value < apart[i, j] - 1e-3
    assert strict > 0


def test_a_scale_below_the_diameter_caps_the_ground_distance():
    """A2 moves the weight of an atom to another place for kappa, so the class is that of min(rho, kappa)."""
    scale, values = 0.6, [-1.0, 0.0, 0.9]
    grid = axiom_grid(SEGMENT, values, 3, scale=scale)
    for (i, first), (j, second) in product(enumerate(grid.states), repeat=2):
        if len(first.weights) == len(second.weights) == 1:
            rho = SEGMENT.ground(first.values, second.values)[0]
            assert grid.supremum(i, j)[0] == pytest.approx(min(rho, scale), abs=SOLVER)


def test_known_mechanisms_satisfy_the_axioms_of_the_grid():
    for reading in READINGS:
        grid = axiom_grid(SEGMENT, [-1.0, 0.0, 1.0], 4, reading, 3)
        for f in (weighted_mean(reading=reading), top_weight(reading), count("accumulative")):
            if f.reading == reading:
                y = f(grid.states)
                changes = np.abs(y[grid.moves[:, 0]] - y[grid.moves[:, 1]])
                assert np.all(changes <= f.constant * grid.caps + EXACT), f.name


def test_states_are_found_on_the_grid():
    grid = axiom_grid(Circle(), [0.0, 3.0], 4)
    z = one_state([1.0, 3.0], [3.0 + 2 * np.pi, 0.0])
    assert distance(grid.states[grid.find(z)], z) == pytest.approx(0, abs=EXACT)
    assert [grid.find(state) for state in grid.states] == list(range(len(grid.states)))
