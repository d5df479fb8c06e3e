"""Optimal matchings: against two other solvers, their duals, and a verification that refuses what does not hold."""

import numpy as np
import pytest
from builders import SPACES, SPACES_ON_FILE, one_state, random_states, states
from scipy.optimize import linear_sum_assignment, linprog

from gradedsparse import Ball, GradedSparseError, Metric, certificate_file, certify, distance_matrix, match, matching
from gradedsparse.states import concatenate
from gradedsparse.verification import verify_matching

ROUNDING = 1e-12


def assert_certified(matched, A, B):
    """Marginals, dual feasibility at every pair, complementary slackness on the plan, and no gap."""
    cost = distance_matrix(A, B)
    u, v = matched.potentials
    first, second = matched.pairs.T
    np.testing.assert_allclose(np.bincount(first, matched.mass, len(A)), 1 / len(A), atol=ROUNDING)
    np.testing.assert_allclose(np.bincount(second, matched.mass, len(B)), 1 / len(B), atol=ROUNDING)
    assert np.all(matched.mass > 0)
    assert (cost - u[:, None] - v).min() >= -ROUNDING
    assert np.abs(cost[first, second] - u[first] - v[second]).max() <= ROUNDING
    assert matched.value == pytest.approx(matched.mass @ cost[first, second], abs=ROUNDING)
    assert matched.lower == pytest.approx(u.mean() + v.mean(), abs=ROUNDING)
    assert 0 <= matched.gap <= ROUNDING
    assert matched.evaluated == len(A) * len(B)


def least_mean_assignment(A, B):
    cost = distance_matrix(A, B)
    return cost[linear_sum_assignment(cost)].mean()


def transport_by_linear_program(A, B):
    n, m = len(A), len(B)
    marginals = np.vstack([np.kron(np.eye(n), np.ones(m)), np.kron(np.ones(n), np.eye(m))])
    shares = np.concatenate([np.full(n, 1 / n), np.full(m, 1 / m)])
    solved = linprog(distance_matrix(A, B).ravel(), A_eq=marginals, b_eq=shares)
    assert solved.success
    return solved.fun


def tied_states(rng, n):
    """Few distinct states, so that many matchings are optimal."""
    few = random_states(rng, 3)
    return few[rng.integers(3, size=n)]


def test_equal_halves_agree_with_the_assignment_on_the_full_matrix(rng):
    for i in range(60):
        n, space = int(rng.integers(1, 25)), SPACES[i % len(SPACES)]
        A, B = random_states(rng, n, space), random_states(rng, n, space)
        matched = match(A, B)
        assert matched.value == pytest.approx(least_mean_assignment(A, B), abs=ROUNDING)
        assert matched.pairs.shape == (n, 2)
        np.testing.assert_allclose(matched.mass, 1 / n, atol=ROUNDING)
        assert_certified(matched, A, B)


def test_ties_and_duplicate_states(rng):
    for _ in range(20):
        A, B = tied_states(rng, 15), tied_states(rng, 15)
        matched = match(A, B)
        assert matched.value == pytest.approx(least_mean_assignment(A, B), abs=ROUNDING)
        assert_certified(matched, A, B)


def test_identical_halves_match_at_no_cost(rng):
    A = concatenate([random_states(rng, 12), tied_states(rng, 6)])
    matched = match(A, A[rng.permutation(len(A))])
    assert matched.value == 0
    assert matched.lower <= 0
    assert matched.gap <= ROUNDING


def test_halves_of_one_state(rng):
    z = random_states(rng, 2)
    matched = match(z[0], z[1])
    assert matched.pairs.tolist() == [[0, 0]]
    assert matched.mass.tolist() == [1.0]
    assert matched.value == distance_matrix(z[0], z[1])[0, 0]
    assert_certified(matched, z[0], z[1])


@pytest.mark.parametrize(("n", "m"), [(1, 5), (5, 1), (4, 6), (7, 3), (6, 9), (8, 11)])
def test_unequal_halves_agree_with_a_linear_program(n, m, rng):
    for _ in range(4):
        A, B = random_states(rng, n), random_states(rng, m)
        matched = match(A, B)
        assert matched.value == pytest.approx(transport_by_linear_program(A, B), abs=1e-9)
        assert_certified(matched, A, B)


def test_a_half_repeated_is_the_same_law(rng):
    A, B = random_states(rng, 5), random_states(rng, 8)
    assert match(concatenate([A, A, A]), B).value == pytest.approx(match(A, B).value, abs=ROUNDING)


def test_matching_is_the_same_on_any_number_of_threads(rng):
    A, B = random_states(rng, 40), random_states(rng, 40)
    one, two = match(A, B, threads=1), match(A, B, threads=2)
    assert (one.value, one.lower) == (two.value, two.lower)
    assert np.array_equal(one.pairs, two.pairs)


def test_a_tolerance_of_zero_is_met(rng):
    A, B = random_states(rng, 30), random_states(rng, 30)
    assert match(A, B, tol=0).gap <= ROUNDING


def test_a_plan_that_is_not_optimal_is_refused(rng, monkeypatch):
    def product_plan(a, b, cost, **options):
        return np.outer(a, b), {"v": np.zeros(len(b))}

    monkeypatch.setattr(matching.ot, "emd", product_plan)
    with pytest.raises(GradedSparseError, match=r"only optimal to \d\.\d\de-\d\d, not to tol = 1\.00e-06"):
        match(random_states(rng, 5), random_states(rng, 5))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda z: match(z[:0], z), "half A is empty"),
        (lambda z: match(z, z[:0]), "half B is empty"),
        (lambda z: match(z, one_state([1.0], [0.0], Ball(1, 1.0))), "different spaces"),
        (lambda z: match(z, z, tol=-1e-9), "tol must be at least 0"),
        (lambda z: match(z, z, tol=np.nan), "tol must be at least 0, not nan"),
        (lambda z: match(z, z, threads=0), "the number of threads must be an integer"),
    ],
)
def test_bad_arguments_are_refused(call, message):
    with pytest.raises(GradedSparseError, match=message):
        call(states([[1.0], [2.0]], [[0.0], [1.0]]))


# --- on candidates ---------------------------------------------------------------------------------


@pytest.fixture
def on_candidates(monkeypatch):
    """Every matching of equal halves goes through candidates and pricing, however small."""
    monkeypatch.setattr(matching, "DENSE", 0)


def assert_exact(matched, A, B):
    cost = distance_matrix(A, B)
    u, v = matched.potentials
    assert matched.value == pytest.approx(cost[linear_sum_assignment(cost)].mean(), abs=ROUNDING)
    assert sorted(matched.pairs[:, 1]) == list(range(len(B)))
    assert matched.value == pytest.approx(cost[tuple(matched.pairs.T)].mean(), abs=ROUNDING)
    assert (cost - u[:, None] - v).min() >= -ROUNDING
    assert matched.lower == pytest.approx(u.mean() + v.mean(), abs=ROUNDING)
    assert 0 <= matched.gap <= ROUNDING


def test_candidates_and_pricing_reach_the_optimum(on_candidates, rng):
    spaces = [space for space in SPACES if not isinstance(space, Metric)]
    for i in range(120):
        n, space = int(rng.integers(1, 40)), spaces[i % len(spaces)]
        A, B = random_states(rng, n, space), random_states(rng, n, space)
        assert_exact(match(A, B, tol=0), A, B)


def test_ties_duplicates_and_equal_halves_on_candidates(on_candidates, rng):
    for _ in range(20):
        A, B = tied_states(rng, 30), tied_states(rng, 30)
        assert_exact(match(A, B, tol=0), A, B)
        assert match(A, A[rng.permutation(30)], tol=0).value <= ROUNDING
    assert match(A[:1], B[:1]).pairs.tolist() == [[0, 0]]


def test_clusters_of_unequal_size_on_candidates(on_candidates, rng):
    """Most nearest neighbours lead to the wrong cluster: the graph must grow before the matching is optimal."""
    near = states([[1.0]] * 80, rng.uniform(0, 0.3, (80, 1)))
    far = states([[1.0]] * 80, rng.uniform(3, 3.3, (80, 1)))
    A, B = concatenate([near, far[:20]]), concatenate([near[:20], far])
    assert_exact(match(A, B, tol=0), A, B)


def test_truncated_states_on_candidates(on_candidates, rng):
    A, B = (random_states(rng, 60, most=15).truncate(share) for share in (0.3, 0.1))
    assert_exact(match(A, B, tol=0), A, B)


def test_loose_bounds_cost_time_but_not_exactness(on_candidates, rng, monkeypatch):
    def no_bounds(A, B):
        return np.zeros((1, len(A)), np.float32), np.zeros((1, len(B)), np.float32)

    monkeypatch.setattr(matching, "features", no_bounds)
    A, B = random_states(rng, 50), random_states(rng, 50)
    assert_exact(match(A, B, tol=0), A, B)


def test_bounds_spare_most_distances(rng):
    A, B = (states([np.ones(8)] * 600, rng.uniform(0, 6.2, (600, 1)) + rng.uniform(-0.5, 0.5, (600, 8))) for _ in "ab")
    matched = match(A, B, tol=0)
    assert_exact(matched, A, B)
    assert matched.evaluated < 0.4 * 600**2


def test_one_and_two_threads_give_the_same_matching_on_candidates(on_candidates, rng):
    A, B = random_states(rng, 80), random_states(rng, 80)
    one, two = match(A, B, threads=1), match(A, B, threads=2)
    assert (one.value, one.lower, one.evaluated) == (two.value, two.lower, two.evaluated)
    assert np.array_equal(one.pairs, two.pairs)


def test_stopped_at_any_moment_the_matching_and_its_lower_bound_are_valid(on_candidates, rng, monkeypatch):
    A, B = random_states(rng, 100), random_states(rng, 100)
    cost = distance_matrix(A, B)
    exact = cost[linear_sum_assignment(cost)].mean()
    gaps = []
    for moment in range(12):
        ticks = iter(range(1000))
        monkeypatch.setattr(matching.time, "monotonic", lambda ticks=ticks: next(ticks))
        stopped = match(A, B, tol=0, time_limit=moment)
        u, v = stopped.potentials
        assert stopped.lower - ROUNDING <= exact <= stopped.value + ROUNDING
        assert (cost - u[:, None] - v).min() >= -ROUNDING
        verify_matching(A, B, stopped.pairs, stopped.mass, stopped.potentials, stopped.value, stopped.lower)
        gaps.append(stopped.gap)
    assert gaps[0] > 0.01
    with pytest.raises(GradedSparseError, match="time_limit must be at least 0 seconds, not -1"):
        match(A, B, time_limit=-1)


# --- verification ---------------------------------------------------------------------------------


@pytest.fixture
def claim(rng):
    """The arguments of a verification that passes, by name."""
    A, B = random_states(rng, 9), random_states(rng, 9)
    matched = match(A, B)
    return {
        "A": A,
        "B": B,
        "pairs": matched.pairs,
        "mass": matched.mass,
        "potentials": matched.potentials,
        "value": matched.value,
        "lower": matched.lower,
    }


def test_an_optimal_matching_is_verified(claim):
    assert verify_matching(**claim) is None


def test_any_feasible_plan_and_potentials_are_verified_for_what_they_are_worth(claim):
    A, B = claim["A"], claim["B"]
    claim["pairs"] = np.column_stack([np.arange(9), np.arange(9)])
    claim["mass"] = np.full(9, 1 / 9)
    claim["value"] = np.diag(distance_matrix(A, B)).mean()
    claim["potentials"] = (np.zeros(9), np.zeros(9))
    claim["lower"] = 0.0
    assert verify_matching(**claim) is None


def swapped(pairs):
    """The second states of pairs 0 and 1 exchanged."""
    pairs = pairs.copy()
    pairs[[0, 1], 1] = pairs[[1, 0], 1]
    return pairs


def with_entry(array, index, entry):
    array = array.copy()
    array[index] = entry
    return array


TAMPERED = {
    "another matching": (lambda c: {"pairs": swapped(c["pairs"])}, r"the matching costs 0\.\d+, not 0\.\d+"),
    "a state twice": (lambda c: {"pairs": with_entry(c["pairs"], (0, 1), c["pairs"][1, 1])}, "of half B carries mass"),
    "a state that is not there": (lambda c: {"pairs": with_entry(c["pairs"], (0, 0), 9)}, "do not name states"),
    "a negative index": (lambda c: {"pairs": with_entry(c["pairs"], (0, 0), -1)}, "do not name states"),
    "fractional indices": (lambda c: {"pairs": c["pairs"] + 0.5}, "do not name states"),
    "no pairs": (lambda c: {"pairs": c["pairs"][:0], "mass": c["mass"][:0]}, "do not name states"),
    "one pair less": (lambda c: {"pairs": c["pairs"][1:], "mass": c["mass"][1:]}, "state 0 of half A carries mass 0,"),
    "mass moved": (
        lambda c: {"mass": c["mass"] + with_entry(np.zeros(9), [0, 1], [0.01, -0.01])},
        "state 0 of half A carries mass 0.1211",
    ),
    "negative mass": (lambda c: {"mass": -c["mass"]}, "masses must be non-negative and finite"),
    "no finite mass": (lambda c: {"mass": with_entry(c["mass"], 0, np.nan)}, "masses must be non-negative and finite"),
    "no finite potential": (
        lambda c: {"potentials": (with_entry(c["potentials"][0], 0, -np.inf), c["potentials"][1])},
        "potentials finite",
    ),
    "a potential raised": (
        lambda c: {"potentials": (c["potentials"][0] + with_entry(np.zeros(9), 4, 1e-6), c["potentials"][1])},
        r"the potentials exceed the distance of A 4 and B \d by 1e-06",
    ),
    "a potential too few": (
        lambda c: {"potentials": (c["potentials"][0][1:], c["potentials"][1])},
        r"potentials of shapes \(8,\) and \(9,\) for 9 and 9 states",
    ),
    "a smaller value": (lambda c: {"value": c["value"] - 1e-6}, "the matching costs"),
    "no value": (lambda c: {"value": np.nan}, "the matching costs"),
    "a larger lower bound": (lambda c: {"lower": c["lower"] + 1e-6}, "the potentials are worth"),
    "no lower bound": (lambda c: {"lower": np.nan}, "the potentials are worth"),
    "other states": (lambda c: {"A": c["A"][::-1]}, "the matching costs"),
}


@pytest.mark.parametrize("case", TAMPERED)
def test_what_does_not_hold_is_refused(case, claim):
    change, message = TAMPERED[case]
    with pytest.raises(GradedSparseError, match=message):
        verify_matching(**claim | change(claim))


# --- certificates as files ------------------------------------------------------------------------


@pytest.fixture
def saved(rng, tmp_path):
    """A certificate file, and the certificate in it."""
    A, B = random_states(rng, 8).truncate(0.1), random_states(rng, 8)
    certificate = certify(A, B, delta=0.1)
    certificate_file.save(tmp_path / "claim.npz", certificate, A, B)
    return tmp_path / "claim.npz", certificate


@pytest.mark.parametrize("space", SPACES_ON_FILE, ids=repr)
def test_a_saved_certificate_proves_what_was_certified(space, rng, tmp_path):
    A, B = random_states(rng, 6, space).truncate(0.2), random_states(rng, 9, space)
    certificate = certify(A, B, delta=0.1)
    certificate_file.save(tmp_path / "claim.npz", certificate, A, B)
    proved = certificate_file.verify(tmp_path / "claim.npz")
    for term in ("w1", "lower", "concentration", "delta", "value", "n_a", "n_b"):
        assert proved[term] == getattr(certificate, term)
    assert [path.name for path in tmp_path.iterdir()] == ["claim.npz"]


def rewrite(path, **arrays):
    """Replace arrays of a certificate file; None leaves one out."""
    with np.load(path) as file:
        arrays = dict(file) | arrays
    np.savez(path, **{name: array for name, array in arrays.items() if array is not None})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"claim": np.array([0.0, 0.0, 0.1])}, "is refused: the matching costs"),
        ({"claim": np.array([0.1, 0.2, 0.1])}, "is refused: the lower bound 0.200000000 exceeds the value 0.100000000"),
        ({"claim": np.array([np.nan, np.nan, 0.1])}, "is refused: the lower bound nan exceeds the value nan"),
        ({"claim": np.array([0.1])}, "is damaged"),
        ({"claim": np.array(["a", "b", "c"])}, "is damaged"),
        ({"u": np.ones(8)}, "is refused: the potentials exceed the distance"),
        ({"mass": np.full(8, 1 / 7)}, "is refused: state 0 of half A carries mass"),
        ({"pairs": np.zeros((0, 2), int), "mass": np.zeros(0)}, "is refused: the pairs do not name states"),
        ({"pairs": np.zeros(8, int)}, "is refused: the pairs do not name states"),
        ({"a_offsets": np.array([0, 3])}, "is refused: the atoms of half A do not add up"),
        ({"b_dropped": np.full(8, -1.0)}, "is refused: the atoms of half B do not add up"),
        ({"b_dropped": np.full(8, np.inf)}, "is refused: the atoms of half B do not add up"),
        ({"space": np.array("{circle")}, "is damaged"),
        ({"space": np.array('{"name": "torus"}')}, "is refused: {'name': 'torus'} describes no value space"),
        (
            {"space": np.array('{"name": "ball", "dimension": 0, "radius": 1}')},
            "claim.npz is refused: Ball: the dimension",
        ),
        ({"certificate_format": np.array(9)}, "has certificate format 9; this version reads 1"),
        ({"certificate_format": np.array("first")}, "is damaged"),
        ({"u": None, "v": None}, "is not a certificate file: it lacks u, v"),
    ],
)
def test_a_changed_certificate_file_is_refused(change, message, saved):
    path, _ = saved
    rewrite(path, **change)
    with pytest.raises(GradedSparseError, match=message):
        certificate_file.verify(path)


def test_negative_weights_in_a_certificate_file_are_refused(saved):
    path, _ = saved
    with np.load(path) as file:
        weights = file["a_weights"]
    rewrite(path, a_weights=-weights)
    with pytest.raises(GradedSparseError, match=r"claim.npz is refused: .*atom 0: weight is negative"):
        certificate_file.verify(path)


def test_truncated_and_missing_files_are_refused(saved, tmp_path):
    path, _ = saved
    path.write_bytes(path.read_bytes()[:-200])
    with pytest.raises(GradedSparseError, match=r"claim.npz is damaged, or not a certificate file"):
        certificate_file.verify(path)
    with pytest.raises(GradedSparseError, match=r"none.npz is missing"):
        certificate_file.verify(tmp_path / "none.npz")
