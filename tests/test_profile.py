"""The sparsity profile: closed forms, and that truncation loses no weight."""

import numpy as np
import pytest
from builders import one_state, random_states, states

from gradedsparse import Circle, GradedSparseError, WeightedMultisets, profile


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
