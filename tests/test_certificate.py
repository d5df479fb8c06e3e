"""Certificates: the closed form of their terms, their coverage on a law that is known, and the cell bound."""

import math

import numpy as np
import pytest
from builders import SPACES, one_state, random_states, same_states, states
from scipy import stats
from scipy.optimize import linprog

from gradedsparse import Ball, GradedSparseError, cell_certify, certify, distance_matrix, match
from gradedsparse.certificate import concentration_term, halves
from gradedsparse.states import concatenate

ROUNDING = 1e-12


def repeated(z, n):
    return z[np.zeros(n, int)]


@pytest.mark.parametrize(("m", "published"), [(32_000, 0.0068), (4_000, 0.0194)])
def test_concentration_is_that_of_the_paper(m, published):
    z = one_state([1.0], [0.0])
    term = concentration_term(z, repeated(z, m), 0.05)
    assert term == pytest.approx(math.sqrt(math.log(20) / (2 * m)), rel=1e-14)
    assert round(term, 4) == published


def test_concentration_counts_the_states_of_half_b():
    z = one_state([1.0], [0.0])
    assert certify(repeated(z, 3), repeated(z, 8)).concentration == math.sqrt(math.log(20) / 16)


def test_a_certificate_is_the_sum_of_its_terms(rng):
    A, B = random_states(rng, 20), random_states(rng, 20)
    certificate = certify(A, B, delta=0.1)
    matched = match(A, B)
    assert (certificate.w1, certificate.lower) == (matched.value, matched.lower)
    assert certificate.value == certificate.w1 + certificate.concentration
    assert (certificate.delta, certificate.n_a, certificate.n_b) == (0.1, 20, 20)


def test_the_summary_tells_the_numbers_and_when_they_say_nothing(rng):
    A, B = random_states(rng, 60), random_states(rng, 60)
    certificate = certify(A, B)
    text = certificate.summary()
    for shown in ("0.95", f"{certificate.value:.4f}", f"{certificate.w1:.4f}", "60 states", "below the trivial value"):
        assert shown in text
    vacuous = certify(A[:1], B[:1])
    assert vacuous.value >= 1
    assert "says nothing yet" in vacuous.summary()
    assert "\n" not in text


# --- coverage -------------------------------------------------------------------------------------


def true_deviation(law, counts, D):
    """sup over the class of |P f - P_A f| = W1 of the law and the empirical law, by a linear program."""
    k = len(law)
    marginals = np.vstack([np.kron(np.eye(k), np.ones(k)), np.kron(np.ones(k), np.eye(k))])
    solved = linprog(D.ravel(), A_eq=marginals[:-1], b_eq=np.concatenate([law, counts / counts.sum()])[:-1])
    assert solved.success
    return solved.fun


def draws(support, law, m, trials, rng):
    """Per trial: the counts of half A over the support, half A and half B."""
    for _ in range(trials):
        drawn = rng.choice(len(law), (2, m), p=law)
        yield np.bincount(drawn[0], minlength=len(law)), support[drawn[0]], support[drawn[1]]


def highest_plausible_failures(trials, delta):
    """Failures that a true failure probability of delta exceeds once in a thousand runs."""
    return stats.binom.ppf(0.999, trials, delta)


@pytest.mark.parametrize("delta", [0.05, 0.3])
def test_the_true_deviation_exceeds_the_certificate_no_more_often_than_delta(delta, rng):
    support = random_states(rng, 6, most=5)
    law = np.array([0.3, 0.25, 0.2, 0.1, 0.1, 0.05])
    D = distance_matrix(support)
    trials = 250
    failures = sum(
        true_deviation(law, counts, D) > certify(A, B, delta).value
        for counts, A, B in draws(support, law, 12, trials, rng)
    )
    assert failures <= highest_plausible_failures(trials, delta)


def test_without_its_concentration_term_the_certificate_would_fail_too_often(rng):
    """Two states a diameter apart: W1 alone misses in about one trial of three, the certificate within delta."""
    support = states([[1.0], [1.0]], [[0.0], [np.pi]])
    law, delta, trials = np.array([0.5, 0.5]), 0.2, 400
    bare, full = 0, 0
    for counts, A, B in draws(support, law, 40, trials, rng):
        deviation = abs(counts[0] / 40 - 0.5)
        certificate = certify(A, B, delta)
        assert certificate.w1 == pytest.approx(abs(counts[0] - np.sum(B.values == 0)) / 40, abs=ROUNDING)
        bare += deviation > certificate.w1
        full += deviation > certificate.value
    assert bare > highest_plausible_failures(trials, delta)
    assert full <= highest_plausible_failures(trials, delta)


def test_dependent_states_break_the_coverage(rng):
    """One draw repeated through both halves: W1 is 0, the deviation 1/2, and the certificate fails every time."""
    support = states([[1.0], [1.0]], [[0.0], [np.pi]])
    half = repeated(support[int(rng.integers(2))], 40)
    assert certify(half, half, delta=0.2).value < 0.5


# --- cells ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("space", SPACES, ids=repr)
def test_the_cell_bound_is_above_the_transport_distance(space, rng):
    for n in (1, 5, 40):
        A, B = random_states(rng, n, space, most=4), random_states(rng, n + 3, space, most=4)
        cells = cell_certify(A, B, delta=0.1)
        assert match(A, B).value - ROUNDING <= cells.bound <= 1 + ROUNDING
        assert cells.value == cells.bound + cells.concentration
        assert cells.concentration == concentration_term(A, B, 0.1)


def test_the_cell_bound_holds_for_few_states_drawn_often(rng):
    support = random_states(rng, 5, most=3)
    for _ in range(20):
        A, B = support[rng.integers(5, size=30)], support[rng.integers(5, size=30)]
        assert match(A, B).value - ROUNDING <= cell_certify(A, B).bound


def test_the_cell_bound_holds_for_truncated_states(rng):
    A, B = random_states(rng, 30, most=9).truncate(0.3), random_states(rng, 30, most=9).truncate(0.3)
    assert match(A, B).value - ROUNDING <= cell_certify(A, B).bound


@pytest.mark.parametrize(
    ("space", "finest"),
    [(None, 1 / 6), (Ball(1, 1.0), 1 / 12), (Ball(2, 1.0), np.sqrt(2) / 12), (Ball(3, 1.0), np.sqrt(3) / 12)],
    ids=repr,
)
def test_identical_halves_of_equal_weights_pay_for_the_resolution_alone(space, finest):
    """Every share sits on a shell's lower end, so a cell's diameter is that of its arc or cube."""
    dimension = 1 if space is None else space.dimension
    values = np.zeros(4) if dimension == 1 else np.zeros((4, dimension))
    z = repeated(one_state(np.ones(4), values, space), 25)
    cells = cell_certify(z, z)
    assert cells.bound == pytest.approx(finest, abs=ROUNDING)
    assert (cells.resolution, cells.cells) == (12, 1)


def test_halves_without_a_common_cell_have_the_trivial_bound():
    A, B = repeated(one_state([1.0], [0.0]), 5), repeated(one_state([1.0], [np.pi]), 5)
    assert cell_certify(A, B).bound == pytest.approx(1, abs=ROUNDING)


# --- halves and bad input -------------------------------------------------------------------------


@pytest.mark.parametrize("n", [2, 3, 20, 21])
def test_halves_split_at_random_and_use_no_state_twice(n):
    z = states([[1.0]] * n, np.arange(n)[:, None] / 10)
    A, B = halves(z, seed=3)
    assert len(A) == len(B) == n // 2
    chosen = concatenate([A, B]).values
    assert len(set(chosen)) == 2 * (n // 2)
    assert set(chosen) <= set(z.values)


def test_halves_depend_on_the_seed_alone(rng):
    z = random_states(rng, 30)
    assert all(map(same_states, halves(z, 5), halves(z, 5)))
    assert not all(map(same_states, halves(z, 5), halves(z, 6)))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda z: certify(z[:0], z), "half A is empty: a certificate needs states in both halves"),
        (lambda z: certify(z, z[:0]), "half B is empty"),
        (lambda z: cell_certify(z, z[:0]), "half B is empty"),
        (lambda z: certify(z, z, delta=0), "delta must lie strictly between 0 and 1, not 0"),
        (lambda z: certify(z, z, delta=1.0), "delta must lie strictly between 0 and 1"),
        (lambda z: certify(z, z, delta=np.nan), "delta must lie strictly between 0 and 1"),
        (lambda z: cell_certify(z, z, delta=-1), "delta must lie strictly between 0 and 1"),
        (lambda z: certify(z, one_state([1.0], [0.0], Ball(1, 1.0))), "different spaces"),
        (lambda z: cell_certify(z, one_state([1.0], [0.0], Ball(1, 1.0))), "different spaces"),
        (lambda z: halves(z[:1], 0), "two halves need at least 2 states; there are 1"),
        (lambda z: halves(z, -1), "the seed must be an integer of at least 0, not -1"),
        (lambda z: halves(z, 1.5), "the seed must be an integer"),
    ],
)
def test_bad_arguments_are_refused(call, message):
    with pytest.raises(GradedSparseError, match=message):
        call(states([[1.0], [2.0]], [[0.0], [1.0]]))
