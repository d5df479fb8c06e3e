"""Synthetic designs: the profile that was asked for, uniform values, one seed, and a crowd that does not matter."""

import numpy as np
import pytest
from builders import same_states
from scipy.stats import kstest

from gradedsparse import Ball, Circle, GradedSparseError, designs, distance_matrix, profile

RANDOM = [
    designs.hard(4, random=True),
    designs.geometric(0.5, 12, random=True),
    designs.geometric(2.0, 5, random=True),
    designs.geometric(1.0, 1, random=True),
    designs.polynomial(1.0, 12, random=True),
    designs.polynomial(0.5, 30, random=True),
]


@pytest.mark.parametrize("k", [1, 2, 5, 40])
def test_equal_shares_have_the_profile_one_minus_j_over_k(k):
    design = designs.hard(k)
    np.testing.assert_allclose(design.mean_tail, 1 - np.arange(k + 1) / k, atol=1e-14)
    np.testing.assert_allclose(profile.tails(design.draw(3, seed=0)), np.tile(design.mean_tail, (3, 1)), atol=1e-14)
    assert design.count == pytest.approx(k)


def test_a_geometric_design_has_a_geometric_profile():
    beta, K = 0.3, 20
    tau = designs.geometric(beta, K).mean_tail
    np.testing.assert_allclose(tau, (np.exp(-beta * np.arange(K + 1)) - np.exp(-beta * K)) / (1 - np.exp(-beta * K)))
    assert np.all(tau <= np.exp(-beta * np.arange(K + 1)) + 1e-15)
    assert profile.decay_rate(designs.geometric(beta, 60).draw(1, 0)) == pytest.approx(beta, rel=0.05)


def test_a_polynomial_design_has_a_polynomial_profile():
    a, K = 0.7, 30
    j = np.arange(K + 1) + 1.0
    tau = designs.polynomial(a, K).mean_tail
    np.testing.assert_allclose(tau, (j**-a - (K + 1) ** -a) / (1 - (K + 1) ** -a), atol=1e-14)
    assert np.all(tau[1:] <= np.arange(1, K + 1) ** -a)


@pytest.mark.parametrize("design", RANDOM)
def test_random_shares_have_the_mean_profile_that_was_asked_for(design):
    tails = profile.tails(design.draw(40_000, seed=1))
    np.testing.assert_allclose(tails[:, 0], 1, rtol=1e-12)
    error = tails.std(axis=0) / 200 + 1e-12
    assert np.all(np.abs(tails.mean(axis=0) - design.mean_tail) < 5 * error)
    if design.atoms > 1:
        assert tails[:, 1].std() > 0.001


@pytest.mark.parametrize("design", RANDOM[1:])
def test_random_sticks_stay_in_order(design):
    shares = design.draw(20_000, seed=2).shares.reshape(-1, design.atoms)
    assert np.all(np.diff(shares, axis=1) <= 1e-12)


def test_simplex_shares_are_uniform():
    """With k atoms every share has the distribution function 1 - (1 - x)^(k-1)."""
    shares = designs.hard(3, random=True).draw(20_000, seed=3).shares.reshape(-1, 3)
    assert kstest(shares[:, 0], lambda x: 1 - (1 - x) ** 2).pvalue > 1e-3


def test_values_are_uniform_on_the_circle():
    z = designs.hard(2).draw(20_000, seed=4)
    assert kstest(z.values / (2 * np.pi), "uniform").pvalue > 1e-3


@pytest.mark.parametrize("p", [1, 2, 5])
def test_values_are_uniform_in_a_ball(p):
    space = Ball(p, 3.0)
    values = designs.hard(2, space).draw(20_000, seed=5).values.reshape(-1, p)
    assert not space.outside(values if p > 1 else values[:, 0]).any()
    assert kstest((np.linalg.norm(values, axis=1) / 3.0) ** p, "uniform").pvalue > 1e-3
    assert np.all(np.abs(values.mean(axis=0)) < 5 * values.std(axis=0) / 200)


@pytest.mark.parametrize("design", [designs.hard(3), designs.geometric(0.5, 9, Ball(2, 1.0), random=True)])
def test_one_seed_gives_the_same_states(design, monkeypatch):
    first = design.draw(1000, seed=6)
    assert same_states(first, design.draw(1000, seed=6))
    assert not np.array_equal(first.values, design.draw(1000, seed=7).values)
    assert len(np.unique(first.values, axis=0)) == len(first.values)


def test_blocks_join_without_repeats(monkeypatch):
    monkeypatch.setattr(designs, "ELEMENTS_PER_BLOCK", 100)
    z = designs.hard(3).draw(500, seed=8)
    assert len(z) == 500
    assert len(np.unique(z.values)) == 1500


def test_millions_of_states_are_drawn():
    z = designs.hard(3).draw(2_000_000, seed=9)
    assert len(z) == 2_000_000
    assert z.offsets[-1] == 6_000_000


def test_a_crowd_keeps_the_profile_up_to_what_lies_beyond():
    core = designs.geometric(1.0, 6)
    crowd = designs.with_elements(core, 400, 1e-3)
    z = crowd.draw(50, seed=10)
    assert np.all(z.sizes == 400)
    np.testing.assert_allclose(profile.mean_tail(z), crowd.mean_tail, atol=1e-14)
    assert np.all(np.abs(crowd.mean_tail[:7] - core.mean_tail) <= 1e-3 + 1e-12)
    assert crowd.mean_tail[6] == pytest.approx(1e-3)


def test_the_core_of_a_crowd_is_its_truncation():
    crowd = designs.with_elements(designs.geometric(1.0, 4, Ball(2, 1.0)), 30, 2e-3)
    whole, core = crowd.draw(20, seed=11), crowd.draw(20, seed=11, core=True)
    cut = whole.truncate(2e-3 * (1 + 1e-9))
    np.testing.assert_array_equal(core.offsets, cut.offsets)
    np.testing.assert_array_equal(core.values, cut.values)
    np.testing.assert_allclose(core.shares, cut.shares)
    np.testing.assert_allclose(core.dropped / core.totals, cut.dropped / cut.totals)
    excess = distance_matrix(core) - distance_matrix(whole)
    off_diagonal = ~np.eye(20, dtype=bool)
    assert np.all((excess > -1e-12) & (excess <= 2e-3 + 1e-12) | ~off_diagonal)


def test_measure_halves_the_size_and_doubles_the_draws():
    design = designs.hard(2)
    curve = designs.measure(design, 32, seed=12, draws=8, doublings=3)
    assert curve.sizes.tolist() == [4, 8, 16, 32]
    assert [len(draws) for draws in curve.w1] == [8, 8, 4, 2]
    assert curve.mean.tolist() == [draws.mean() for draws in curve.w1]
    again = designs.measure(design, 32, seed=12, draws=8, doublings=3)
    assert all(np.array_equal(a, b) for a, b in zip(curve.w1, again.w1, strict=True))
    assert not np.array_equal(curve.w1[0], designs.measure(design, 32, seed=13, draws=8, doublings=3).w1[0])


@pytest.mark.parametrize("design", [designs.hard(4), designs.hard(2, random=True)])
def test_measured_exponents_lie_between_the_predicted_ones(design):
    """From above, every law of hard sparsity k: 1 / (2 k - 1). From below, equal shares: 1 / k; here 4 and 2 atoms."""
    curve = designs.measure(design, 256, seed=14, doublings=3)
    slope, error = profile.exponent(curve.sizes, curve.w1)
    low, high = 1 / (2 * design.atoms - 1), 1 / design.atoms
    assert low - 3 * error - 0.02 <= slope <= high + 3 * error + 0.02
    assert error < 0.05


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: designs.hard(0), "number of atoms must be an integer of at least 1, not 0"),
        (lambda: designs.hard(2, space="circle"), "on the circle or in a ball, not in 'circle'"),
        (lambda: designs.geometric(0.0, 3), "beta must be positive and finite, not 0.0"),
        (lambda: designs.polynomial(np.inf, 3), "a must be positive and finite, not inf"),
        (lambda: designs.hard(2).draw(0, 1), "number of states must be an integer of at least 1, not 0"),
        (lambda: designs.with_elements(designs.hard(3), 3, 0.1), "number of elements must be an integer of at least 4"),
        (lambda: designs.with_elements(designs.hard(3), 9, 0.0), "strictly between 0 and 1, not 0.0"),
        (lambda: designs.with_elements(designs.hard(3), 4, 0.5), "the 1 elements beyond the profile would be heavier"),
        (lambda: designs.with_elements(designs.hard(3, random=True), 9, 0.1), "a design of fixed shares"),
        (lambda: designs.measure(designs.hard(2), 100, 1, doublings=3), "100 states cannot be halved 3 times"),
        (lambda: designs.measure(designs.hard(2), 64, 1, draws=3), "number of draws must be an integer of at least 4"),
    ],
)
def test_bad_arguments_are_refused(call, message):
    with pytest.raises(GradedSparseError, match=message):
        call()


def test_the_circle_is_the_default_space():
    assert designs.hard(1).space == Circle()
