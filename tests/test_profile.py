"""The sparsity profile and its rates: closed forms, coverings by enumeration, bounds on both sides of measured W1."""

from itertools import combinations_with_replacement, permutations
from math import comb, factorial, gamma

import numpy as np
import pytest
from builders import one_state, random_states, states

from gradedsparse import (
    Ball,
    Circle,
    GradedSparseError,
    WeightedMultisets,
    designs,
    distance,
    distance_matrix,
    match,
    profile,
)
from gradedsparse.spaces import Discrete

CIRCLE = Circle()


@pytest.mark.parametrize("k", [1, 2, 5, 40])
def test_equal_weights_have_a_linear_tail(k):
    z = one_state(np.full(k, 3.0), np.zeros(k))
    np.testing.assert_allclose(profile.tails(z), [1 - np.arange(k + 1) / k], atol=1e-14)


def test_tails_follow_the_heaviest_first_whatever_the_order():
    z = one_state([1.0, 5.0, 2.0], [0.0, 0.0, 0.0])
    np.testing.assert_allclose(profile.tails(z), [[1.0, 3 / 8, 1 / 8, 0.0]], atol=1e-15)


def test_short_states_have_no_tail_beyond_their_atoms():
    z = states([[1.0], [1.0, 1.0]], [[0.0], [0.0, 0.0]])
    np.testing.assert_allclose(profile.tails(z), [[1, 0, 0], [1, 0.5, 0]])
    np.testing.assert_allclose(profile.mean_tail(z), [1, 0.25, 0])


def test_tails_start_at_one_and_decrease_to_zero(rng):
    T = profile.tails(random_states(rng, 50, most=20))
    np.testing.assert_allclose(T[:, 0], 1, rtol=1e-14)
    assert np.all(np.diff(T, axis=1) <= 0)
    assert np.all(T[:, -1] == 0)


def test_truncated_weight_stays_in_the_tail(rng):
    z = random_states(rng, 30, most=20)
    cut = z.truncate(0.25)
    full, kept = profile.tails(z), profile.tails(cut)
    assert kept.shape[1] < full.shape[1]
    for T, K, size in zip(full, kept, cut.sizes, strict=True):
        np.testing.assert_allclose(K[: size + 1], T[: size + 1], atol=1e-14)
    np.testing.assert_allclose(kept[:, -1], cut.dropped / cut.totals, atol=1e-15)


def test_atoms_beyond_is_the_first_k_whose_tail_is_small_enough():
    z = one_state(np.ones(4), np.zeros(4))
    assert [profile.atoms_beyond(z, p) for p in (0.8, 0.75, 0.7, 0.5, 0.25, 0.2, 0.01)] == [1, 1, 2, 2, 3, 4, 4]


def test_a_geometric_profile_decays_at_its_rate():
    """Weights e^{-beta j}: the tail falls by e^{-beta} an atom, so beta comes back up to whole atoms."""
    beta = 0.05
    k = np.arange(400)
    z = one_state(np.exp(-beta * k), np.zeros(400))
    gap = np.ceil(np.log(1000) / beta) - np.ceil(np.log(100) / beta)
    assert profile.decay_rate(z) == pytest.approx(np.log(10) / gap)
    assert profile.decay_rate(z) == pytest.approx(beta, rel=0.03)


def test_a_tail_that_stops_at_once_decays_without_bound():
    assert profile.decay_rate(one_state([1.0, 1.0], [0.0, 0.0])) == np.inf


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda z: profile.atoms_beyond(z, 0), "p must lie strictly between 0 and 1, not 0"),
        (lambda z: profile.atoms_beyond(z, 1.0), "p must lie strictly between"),
        (lambda z: profile.atoms_beyond(z.truncate(0.3), 0.01), "truncated at a mean dropped share of 2.50e-01"),
        (lambda z: profile.mean_tail(z[:0]), "a profile needs at least one state"),
    ],
)
def test_bad_arguments_are_refused(call, message):
    z = WeightedMultisets.from_padded(np.ones((3, 4)), np.zeros((3, 4)), space=Circle())
    with pytest.raises(GradedSparseError, match=message):
        call(z)


# Covering numbers.


def _grid_states(k, steps, points):
    """All multisets of k shares in multiples of 1/steps, the rest at value 0, and values on a grid of the circle."""
    weights, values = [], []
    atoms = [(w, x) for w in range(steps + 1) for x in range(points if w else 1)]
    for chosen in combinations_with_replacement(atoms, k):
        total = sum(w for w, _ in chosen)
        if total <= steps:
            weights.append([w / steps for w, _ in chosen] + [1 - total / steps])
            values.append([2 * np.pi * x / points for _, x in chosen] + [0.0])
    return np.array(weights), np.array(values)


def _widest_label(weights, values, labels, space=CIRCLE):
    """The largest diameter of the states of one label, and the number of labels."""
    z = WeightedMultisets.from_padded(weights, values, space=space)
    groups = {}
    for i, label in enumerate(labels):
        groups.setdefault(label, []).append(i)
    return max(distance_matrix(z[np.array(members)]).max() for members in groups.values()), len(groups)


@pytest.mark.parametrize(("k", "eps"), [(1, 0.3), (1, 0.7), (2, 0.6), (2, 0.9)])
def test_covering_labels_by_enumeration(k, eps):
    """The proof's labels of every state of a grid: there are no more than counted, and each has diameter <= eps."""
    step, cell = eps / (2 * k), 2 * np.pi / np.ceil(4 / eps)
    weights, values = _grid_states(k, 20 if k == 1 else 9, 12 if k == 1 else 8)

    def label(w, x):
        levels = np.floor(w[:k] / step + 1e-9).astype(int)
        return tuple(sorted((n, int(v / cell + 1e-9) if n else 0) for n, v in zip(levels, x[:k], strict=True)))

    widest, used = _widest_label(weights, values, [label(w, x) for w, x in zip(weights, values, strict=True)])
    assert widest <= eps + 1e-12
    assert used <= np.exp(profile.log_covering(k, eps, CIRCLE)) * (1 + 1e-9)


@pytest.mark.parametrize("eps", [0.5, 0.8])
def test_covering_without_remainder_by_enumeration(eps):
    """Two atoms that share all the weight: only the heavier share is rounded, the lighter is what it leaves."""
    step, cell = eps / 2, 2 * np.pi / np.ceil(4 / eps)
    grid = [(w, x, y) for w in np.arange(20, 41) / 40 for x in range(10) for y in range(10)]
    weights = np.array([[w, 1 - w] for w, _, _ in grid])
    values = np.array([[2 * np.pi * x / 10, 2 * np.pi * y / 10] for _, x, y in grid])
    levels, cells = np.floor(weights[:, 0] / step + 1e-9).astype(int), (values / cell + 1e-9).astype(int)
    widest, used = _widest_label(weights, values, [(n, *c) for n, c in zip(levels, map(tuple, cells), strict=True)])
    assert widest <= eps + 1e-12
    assert used <= np.exp(profile.log_covering(2, eps, CIRCLE, remainder=False)) * (1 + 1e-9)


def test_covering_graded_by_the_shares(rng):
    """Atoms under ceilings 1, 1/4 and 1/16: labels of the stated resolutions have diameter <= eps."""
    eps, ceilings = 0.7, np.array([1.0, 0.25, 0.0625])
    weights = np.sort(ceilings * rng.random((4000, 3)), axis=1)[:, ::-1]
    weights = np.column_stack([weights, np.maximum(0, 1 - weights.sum(axis=1))])[weights.sum(axis=1) <= 1]
    values = np.column_stack([rng.uniform(0, 2 * np.pi, (len(weights), 3)), np.zeros(len(weights))])
    cells = np.maximum(1, np.ceil(2 / np.minimum(1, eps / (6 * ceilings))) * (eps / (6 * ceilings) < 1))
    levels = np.floor(weights[:, :3] * 6 / eps).astype(int)
    places = np.floor(values[:, :3] / (2 * np.pi) * cells).astype(int)
    widest, used = _widest_label(weights, values, [tuple(row) for row in np.column_stack([levels, places])])
    assert 0.2 < widest <= eps
    assert used <= np.exp(profile.log_covering_graded(ceilings, eps, CIRCLE))


@pytest.mark.parametrize("k", [1, 2, 3])
@pytest.mark.parametrize("eps", [0.9, 0.5])
def test_the_number_of_labels_is_the_number_of_multisets(k, eps):
    kinds = 1 + int(np.ceil(4 / eps)) * int(2 * k / eps)
    assert profile.log_covering(k, eps, CIRCLE) == pytest.approx(np.log(comb(kinds + k - 1, k)))
    if kinds < 60:
        enumerated = sum(1 for _ in combinations_with_replacement(range(kinds), k))
        assert np.exp(profile.log_covering(k, eps, CIRCLE)) == pytest.approx(enumerated)


@pytest.mark.parametrize("space", [CIRCLE, Ball(1, 2.0), Ball(2, 0.5), Ball(3, 1.0)])
def test_closed_form_bounds_the_count(space):
    for k in (1, 2, 5, 20):
        for eps in (0.99, 0.5, 1 / 9, 1 / 81, 1e-4, 1e-8):
            assert profile.log_covering(k, eps, space) <= profile.log_covering_bound(k, eps, space)
            assert profile.log_covering(k, eps, space, remainder=False) <= profile.log_covering(k, eps, space)


@pytest.mark.parametrize("space", [CIRCLE, Ball(1, 2.0), Ball(3, 1.0)])
def test_values_are_covered_at_the_stated_growth(space):
    growth = profile.growth(space)
    for eps in (1.0, 0.999, 0.5, 0.3, 0.01):
        assert profile.value_cover(space, eps) <= (growth.A / eps) ** growth.q
    assert profile.value_cover(space, 1.0) == 1
    assert profile.value_cover(CIRCLE, 0.5) == 4
    assert profile.value_cover(CIRCLE, 2 / 7) == 7


def test_log_covering_grows_at_the_dimension_of_the_states():
    """ln N / ln(1 / eps) tends to k (q + 1), one less without a remainder."""
    for space, q in ((CIRCLE, 1), (Ball(3, 1.0), 3)):
        for remainder, dimension in ((True, 3 * (q + 1)), (False, 3 * (q + 1) - 1)):
            fine, coarse = (profile.log_covering(3, eps, space, remainder) for eps in (1e-9, 1e-6))
            assert (fine - coarse) / np.log(1e3) == pytest.approx(dimension, rel=1e-3)


# The profile bound.


def _bound_by_enumeration(tau, n, samples):
    """min over k and J of 2 tau_k + 3^-J + sum_{j <= J} 3^-(j-1) min(1, sqrt(samples N_j / n) / 2)."""
    values = [1.0]
    for k in range(1, len(tau)):
        spent = 0.0
        for J in range(1, 40):
            N = np.exp(profile.log_covering(k, 3.0 ** -(J + 1), CIRCLE, remainder=tau[k] > 0))
            spent += 3.0 ** -(J - 1) * min(1.0, np.sqrt(samples * N / n) / 2)
            values.append(2 * tau[k] + 3.0**-J + spent)
    return min(values)


@pytest.mark.parametrize("samples", [1, 2])
@pytest.mark.parametrize("n", [1, 100, 1e5, 1e9, 1e15])
def test_profile_bound_is_the_least_over_k_and_levels(n, samples):
    for tau in ([1.0, 0.0], [1.0, 0.3, 0.05, 0.01], [1.0, 0.5, 0.0]):
        bound = profile.profile_bound(np.array(tau), n, CIRCLE, samples)
        assert bound.value == pytest.approx(_bound_by_enumeration(tau, n, samples), rel=1e-12)
        assert bound.value == pytest.approx(bound.truncation + bound.estimation)


def test_profile_bound_decays_at_the_predicted_exponent():
    for k in (2, 3):
        tau = np.append(np.ones(k), 0.0) * np.linspace(1, 1 / k, k + 1)
        near, far = (profile.profile_bound(tau, 10.0**e, CIRCLE).value for e in (60, 90))
        assert np.log10(near / far) / 30 == pytest.approx(1 / (2 * k - 1), rel=0.02)


def test_a_sure_profile_gives_a_smaller_bound():
    tau = designs.geometric(1.0, 40).mean_tail
    plain, sure = (profile.profile_bound(tau, 1e40, CIRCLE, surely=surely).value for surely in (False, True))
    assert sure < 0.9 * plain


def test_states_needed_is_where_the_bound_meets_the_target():
    tau = designs.hard(2).mean_tail
    e = profile.states_needed(tau, 0.5, CIRCLE)
    assert profile.profile_bound(tau, 10.0**e, CIRCLE).value <= 0.5
    assert profile.profile_bound(tau, 10.0 ** (e - 0.01), CIRCLE).value > 0.5
    assert profile.states_needed(np.array([1.0, 0.5]), 0.5, CIRCLE) == np.inf


DESIGNS = [
    designs.hard(1),
    designs.hard(3),
    designs.hard(3, random=True),
    designs.hard(2, Ball(2, 1.0)),
    designs.geometric(1.0, 8),
    designs.geometric(0.7, 6, Ball(1, 3.0), random=True),
    designs.polynomial(1.0, 10),
]


@pytest.mark.parametrize("design", DESIGNS)
def test_bounds_hold_on_every_design(design):
    """Above: the profile bound for two samples. Below: the nearest states, and the ball masses where they are known."""
    m, draws = 64, 6
    z = design.draw(2 * m * draws, seed=1)
    w1 = profile.w1_draws(z, m, draws)
    tau, error = profile.mean_tail(z), w1.std(ddof=1) / np.sqrt(draws)
    assert w1.mean() <= profile.profile_bound(tau, m, design.space, samples=2).value
    assert profile.nearest(z[:m], z[m : 2 * m])[0] <= w1[0] + 1e-12
    if design.weights == "fixed":
        lower = profile.lower_bound(design.shares, m, design.space)
        nearest, spread = profile.nearest(z[m:], z[:m])
        assert 0 < lower <= w1.mean() + 2 * error
        assert lower <= nearest + 4 * spread


# One atom on the circle.


def _circle_w1(x, y):
    """W1 / pi of two samples of angles: the distribution functions' difference less its median, integrated."""
    points = np.sort(np.concatenate([x, y]))
    gaps = np.diff(points, append=points[0] + 2 * np.pi)
    rise = np.searchsorted(np.sort(x), points, "right") / len(x) - np.searchsorted(np.sort(y), points, "right") / len(y)
    order = np.argsort(rise)
    median = rise[order][np.searchsorted(np.cumsum(gaps[order]), np.pi)]
    return np.sum(gaps * np.abs(rise - median)) / np.pi


def test_one_atom_on_the_circle_has_its_closed_form():
    z = designs.hard(1).draw(400, seed=5)
    for size in (7, 50):
        for value, s in zip(profile.w1_draws(z, size, 4), range(0, 8 * size, 2 * size), strict=True):
            x, y = z.values[s : s + size], z.values[s + size : s + 2 * size]
            assert value == pytest.approx(_circle_w1(x, y), abs=1e-12)


def test_one_atom_on_the_circle_has_its_known_constant(rng):
    """sqrt(m) E W1 / kappa of two samples of m tends to 2 sqrt(2) E int |B - median B|, B a Brownian bridge."""
    m, draws = 2000, 400
    mean = np.mean([_circle_w1(*rng.uniform(0, 2 * np.pi, (2, m))) for _ in range(draws)])
    assert np.sqrt(m) * mean == pytest.approx(profile.ONE_ATOM_CONSTANT, rel=4 * 0.32 / np.sqrt(draws))


# Lower bounds.


def test_ball_mass_of_equal_shares_is_attained(rng):
    """(k eps)^k, the exact mass around evenly spread values, by drawing."""
    k, eps, n = 3, 0.09, 200_000
    center = one_state(np.ones(k), 2 * np.pi * np.arange(k) / k)
    inside = distance_matrix(center, designs.hard(k).draw(n, seed=2))[0] <= eps
    mass = profile.ball_mass(np.full(k, 1 / k), eps, CIRCLE)
    assert mass == pytest.approx((k * eps) ** k)
    assert inside.mean() == pytest.approx(mass, abs=4 * np.sqrt(mass / n))


@pytest.mark.parametrize(
    ("design", "eps"),
    [
        (designs.hard(2), 0.3),
        (designs.geometric(0.7, 5), 0.1),
        (designs.geometric(0.7, 5), 0.2),
        (designs.polynomial(1.0, 6), 0.05),
        (designs.hard(2, Ball(2, 1.0)), 0.15),
        (designs.geometric(1.0, 3, Ball(3, 0.5)), 0.2),
    ],
)
def test_ball_mass_bounds_the_mass_of_every_ball(design, eps):
    n = 20_000
    drawn = (distance_matrix(design.draw(20, seed=3), design.draw(n, seed=4)) <= eps).mean(axis=1)
    bound = profile.ball_mass(design.shares, eps, design.space)
    assert 0 < bound < 1
    assert drawn.max() <= bound + 4 * np.sqrt(bound / n)


def test_lower_bound_of_equal_shares_has_its_closed_form():
    """Gamma(1 + 1/k) n^(-1/k) / k to first order, the exact (k + 1)-integral for k = 1."""
    assert profile.lower_bound(np.ones(1), 100, CIRCLE) == pytest.approx(1 / 101, rel=0.05)
    for k in (2, 4):
        closed = gamma(1 + 1 / k) * 1e12 ** (-1 / k) / k
        assert 0.95 * closed < profile.lower_bound(np.full(k, 1 / k), 10**12, CIRCLE) <= closed
    assert profile.lower_bound(np.ones(1), 10**8, Ball(2, 5.0)) == pytest.approx(gamma(1.5) / 2 * 1e-4, rel=0.05)
    assert profile.lower_bound(np.ones(1), 10**8, CIRCLE) > (2e8) ** -1 / 2


def test_learner_bound_is_the_best_cell_size():
    for k, n in ((1, 1), (1, 50), (2, 300), (3, 1000)):
        cells = np.arange(max(k, 2), 2000)
        p = np.prod([1 - i / cells for i in range(k)], axis=0)
        best = np.max(p * (1 - factorial(k) / cells**k) ** n / (k * (k + 1) * cells))
        assert 0.99 * best <= profile.learner_bound(k, n) <= best * (1 + 1e-12)
        assert profile.learner_bound(k, n) < profile.lower_bound(np.full(k, 1 / k), n, CIRCLE)


def test_nearest_is_the_mean_distance_to_the_nearest(rng):
    A, B = random_states(rng, 12), random_states(rng, 9)
    least = [min(distance(A[i], B[j]) for j in range(9)) for i in range(12)]
    mean, error = profile.nearest(A, B)
    assert mean == pytest.approx(np.mean(least))
    assert error == pytest.approx(np.std(least, ddof=1) / np.sqrt(12))


def test_effective_dimension_counts_the_atoms_at_small_scales_and_fewer_at_large():
    shares = designs.geometric(1.0, 5).shares
    assert profile.effective_dimension(shares, 1e-4, CIRCLE) == pytest.approx(5, rel=0.01)
    assert profile.effective_dimension(shares, 1e-4, Ball(3, 1.0)) == pytest.approx(15, rel=0.01)
    assert profile.effective_dimension(7 * shares, 0.1, CIRCLE) == profile.effective_dimension(shares, 0.1, CIRCLE)
    falling = [profile.effective_dimension(shares, eps, CIRCLE) for eps in np.linspace(0.01, 0.9, 12)]
    assert np.all(np.diff(falling) < 0)
    assert falling[-1] < 0.25


def test_effective_dimension_of_two_atoms_has_its_closed_form():
    """P(a r + b s <= eps) = (eps^2 - (eps - b)_+^2) / (2 a b) for eps < a: slope 2 until eps = b, then less."""
    a, b = 0.8, 0.2
    for eps in (0.05, 0.15, 0.4, 0.6):
        slope = 2 * (eps**2 - eps * max(0, eps - b)) / (eps**2 - max(0, eps - b) ** 2)
        assert profile.effective_dimension([a, b], eps, CIRCLE) == pytest.approx(slope, rel=0.01)


@pytest.mark.parametrize(("space", "q"), [(CIRCLE, 1), (Ball(2, 1.0), 2)])
def test_effective_dimension_is_the_local_slope_of_the_ball_mass(space, q, rng):
    shares, eps = designs.geometric(0.7, 4).shares, 0.3
    total = np.sort(rng.random((1_000_000, 4)) ** (1 / q) @ shares)
    inner, outer = np.searchsorted(total, [eps / 1.1, 1.1 * eps])
    slope = np.log(outer / inner) / np.log(1.1**2)
    assert profile.effective_dimension(shares, eps, space) == pytest.approx(slope, rel=0.02)


# Rates.


def test_rates_solve_the_balance_that_they_come_from():
    """ln N(eps) = ln n: k (q + 1) atoms at full resolution, the graded sum, and the polynomial's order."""
    n, beta = 1e50, 0.05
    L = -np.log(profile.rate_exponential(n, beta))
    assert (L / beta) * 2 * L == pytest.approx(np.log(n))
    L = -np.log(profile.rate_exponential(n, beta, graded=True))
    assert 2 * L**2 / (2 * beta) == pytest.approx(np.log(n))
    k = np.arange(int(L / beta) + 1)
    assert 2 * np.sum(L - beta * k) == pytest.approx(np.log(n), rel=0.05)
    assert profile.rate_hard(n, 5) == pytest.approx(1e-5)
    assert profile.rate_hard(n, 5, per_atom=1) == pytest.approx(1e-10)
    assert profile.rate_polynomial(n, 2.0) == pytest.approx((np.log(n) / np.log(np.log(n))) ** -2)


# Measuring.


def test_draws_come_from_disjoint_halves(rng):
    z = random_states(rng, 41)
    w1 = profile.w1_draws(z, 10, 2)
    assert w1.tolist() == [match(z[:10], z[10:20]).value, match(z[20:30], z[30:40]).value]


def test_a_power_law_gives_its_dimension_at_the_middle():
    sizes = 10 * 2 ** np.arange(6)
    w1 = [np.full(4, 3 * n ** (-1 / 2.5)) for n in sizes]
    implied = profile.implied_dimension(sizes, w1)
    np.testing.assert_allclose(implied.dimension, 2.5)
    np.testing.assert_allclose(implied.n, np.sqrt(8) * sizes[:3])
    np.testing.assert_allclose(implied.error, 0, atol=1e-12)
    assert profile.exponent(sizes, w1) == pytest.approx((0.4, 0.0))


def test_the_reported_errors_are_those_of_repeated_measurements(rng):
    sizes, counts, spread = 10 * 2 ** np.arange(5), [16, 16, 8, 4, 2], [0.2, 0.15, 0.1, 0.08, 0.08]

    def measured():
        draws = [n**-0.25 * (1 + s * rng.standard_normal(r)) for n, r, s in zip(sizes, counts, spread, strict=True)]
        implied = profile.implied_dimension(sizes, draws)
        return [*profile.exponent(sizes, draws), implied.dimension[-1], implied.error[-1]]

    slope, error, dimension, dimension_error = np.transpose([measured() for _ in range(400)])
    assert slope.mean() == pytest.approx(0.25, abs=0.01)
    assert np.sqrt(np.mean(error**2)) == pytest.approx(slope.std(), rel=0.15)
    assert np.median(dimension_error) == pytest.approx(dimension.std(), rel=0.3)


def test_without_grading_by_enumeration(rng):
    """min(1, least total of rho over all pairings), matched over all permutations of three states."""
    values = rng.uniform(0, 2 * np.pi, (6, 2)) * [1, 0.2]
    z = WeightedMultisets.from_padded(np.tile([0.9, 0.1], (6, 1)), values, space=CIRCLE)

    def apart(x, y):
        return min(1.0, *(CIRCLE.ground(x, y[list(s)]).sum() for s in permutations(range(2))))

    least = min(np.mean([apart(values[i], values[3 + s[i]]) for i in range(3)]) for s in permutations(range(3)))
    assert profile.w1_without_grading(z[:3], z[3:]) == pytest.approx(least)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda z: profile.log_covering(0, 0.1, CIRCLE), "k must be an integer of at least 1, not 0"),
        (lambda z: profile.log_covering(1, 0.0, CIRCLE), "eps must be positive, not 0.0"),
        (lambda z: profile.log_covering(1, 0.1, Discrete()), "covering numbers of Discrete"),
        (lambda z: profile.log_covering_graded(np.empty(0), 0.1, CIRCLE), "number of ceilings"),
        (lambda z: profile.profile_bound([1.0, 1.5], 10, CIRCLE), "a mean profile is tau_0 = 1 and then descending"),
        (lambda z: profile.profile_bound([1.0, 0.5], 0, CIRCLE), "n must be at least 1, not 0"),
        (lambda z: profile.profile_bound([1.0, 0.5], 10, CIRCLE, samples=3), "1 sample or 2, not 3"),
        (lambda z: profile.states_needed([1.0, 0.5], 1.0, CIRCLE), "the target must lie strictly between 0 and 1"),
        (lambda z: profile.ball_mass([0.2, 0.8], 0.1, CIRCLE), "positive and descending"),
        (lambda z: profile.lower_bound([1.0], 0, CIRCLE), "n must be at least 1, not 0"),
        (lambda z: profile.learner_bound(0, 5), "k must be an integer"),
        (lambda z: profile.nearest(z[:1], z), "two in A and one in B; there are 1 and 3"),
        (lambda z: profile.effective_dimension([1.0], 1.0, CIRCLE), "between 0 and 1, not 1.0"),
        (lambda z: profile.w1_draws(z, 1, 2), "2 pairs of halves of 1 need 4 states; there are 3"),
        (lambda z: profile.w1_without_grading(z[:1], z[1:]), "halves must be equal"),
        (lambda z: profile.exponent([10], [np.ones(4)]), "at least two sizes"),
        (lambda z: profile.exponent([10, 20], [np.ones(3), np.ones(3)]), "first size needs at least four draws"),
        (lambda z: profile.implied_dimension([1, 2, 4], [np.ones(4)] * 3), "needs 4 sizes"),
        (lambda z: profile.implied_dimension([1, 2, 4, 9], [np.ones(4)] * 4), "each twice the one before"),
    ],
)
def test_bad_arguments_of_the_bounds_are_refused(call, message):
    z = WeightedMultisets.from_padded(np.ones((3, 2)), np.zeros((3, 2)), space=CIRCLE)
    with pytest.raises(GradedSparseError, match=message):
        call(z)
