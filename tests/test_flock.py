"""The flock: its compiled step against the formula, its determinism, resuming, and what it refuses."""

import hashlib
import importlib.util
import itertools
import json
import math
import os
import signal
import sys
from pathlib import Path

import numpy as np
import pytest
from builders import same_states
from scipy.integrate import quad

from gradedsparse import Circle, GradedSparseError, WeightedMultisets, certify, data, flock, load, profile, published
from gradedsparse.flock import Parameters, advance, advance_reference, sample_states, simulate

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"

STEP_TOLERANCE = 1e-5

SMALL = Parameters(n_particles=60, box=6.0, burn_in=20)

FLOCKS = {
    "ball": {"rule": "ball", "r": 1.0, "box": 9.0, "n_particles": 160},
    "ball that sees half the box": {"rule": "ball", "r": 1.5, "box": 3.0, "n_particles": 40},
    "ball in three cells a side": {"rule": "ball", "r": 1.0, "box": 3.3, "n_particles": 40},
    "ball of many neighbours": {"rule": "ball", "r": 2.5, "box": 5.0, "n_particles": 700},
    "gaussian": {"rule": "gaussian", "h": 0.4, "box": 9.0, "n_particles": 160},
    "gaussian that sees half the box": {"rule": "gaussian", "h": 0.5, "box": 4.3, "n_particles": 50},
    "gaussian that is not cut": {"rule": "gaussian", "h": 0.7, "box": 9.0, "n_particles": 160, "dropped": 0.0},
    "gaussian of many neighbours": {"rule": "gaussian", "h": 0.5, "box": 7.0, "n_particles": 700},
    "cauchy": {"rule": "cauchy", "dropped": 1e-2, "box": 9.0, "n_particles": 160},
    "cauchy of many neighbours": {"rule": "cauchy", "box": 18.0, "n_particles": 400},
    "cauchy that is not cut": {"rule": "cauchy", "box": 9.0, "n_particles": 160, "dropped": 0.0},
    "cauchy of another power": {"rule": "cauchy", "a": 2.2, "dropped": 3e-2, "box": 9.0, "n_particles": 160},
    "bump": {"rule": "bump", "box": 9.0, "n_particles": 160},
    "linear bump": {"rule": "bump", "form": "linear", "box": 9.0, "n_particles": 160},
    "cubed bump": {"rule": "bump", "form": "cubed", "box": 9.0, "n_particles": 160},
    "exponential bump": {"rule": "bump", "form": "exponential", "box": 9.0, "n_particles": 160},
    "one particle": {"rule": "ball", "r": 1.0, "box": 2.0, "n_particles": 1},
}


def random_flock(parameters, rng):
    """Positions, headings and noise that single precision holds exactly. The headings are spread about one direction:
    where they cancel, any rounding is magnified."""
    n = parameters.n_particles
    drawn = (
        rng.random((n, 2)) * parameters.box,
        rng.normal(0, 1, n),
        rng.uniform(-0.5, 0.5, n) * parameters.eta,
    )
    return (array.astype(np.float32).astype(float) for array in drawn)


def compiled_step(parameters, positions, headings, noise):
    x, y = positions.T.astype(np.float32)
    x, y = x.copy(), y.copy()
    c, s = np.cos(headings).astype(np.float32), np.sin(headings).astype(np.float32)
    advance(parameters, x, y, c, s, noise[None].astype(np.float32))
    return np.column_stack([x, y]), np.column_stack([c, s])


def periodic_gap(positions, other, box):
    gap = np.abs(positions - other)
    return np.minimum(gap, box - gap)


@pytest.mark.parametrize("eta", [0.0, 1.2, 2 * math.pi])
@pytest.mark.parametrize("name", FLOCKS)
def test_a_compiled_step_agrees_with_the_formula(name, eta, rng):
    parameters = Parameters(**FLOCKS[name], eta=eta)
    for _ in range(3):
        positions, headings, noise = random_flock(parameters, rng)
        moved, turned = compiled_step(parameters, positions, headings, noise)
        expected, angles = advance_reference(parameters, positions, headings, noise)
        np.testing.assert_allclose(turned, np.column_stack([np.cos(angles), np.sin(angles)]), atol=STEP_TOLERANCE)
        assert periodic_gap(moved, expected, parameters.box).max() <= STEP_TOLERANCE
        assert moved.min() >= 0
        assert moved.max() < parameters.box


def test_the_formula_itself_on_two_particles_across_the_boundary():
    """0.1 and 9.9 are neighbours in a box of 10; the third is alone. Noise turns, then the new heading moves."""
    parameters = Parameters(n_particles=3, box=10.0, speed=0.5)
    positions = np.array([[0.1, 5.0], [9.9, 5.0], [5.0, 5.0]])
    headings, noise = np.array([0.0, np.pi / 2, 1.0]), np.array([0.0, 0.2, -0.3])
    for step in (advance_reference, compiled_step):
        moved, turned = step(parameters, positions, headings, noise)
        angles = turned if turned.ndim == 1 else np.arctan2(turned[:, 1], turned[:, 0])
        expected = np.array([np.pi / 4, np.pi / 4 + 0.2, 0.7])
        assert angles == pytest.approx(expected, abs=STEP_TOLERANCE)
        displaced = positions + 0.5 * np.column_stack([np.cos(expected), np.sin(expected)])
        np.testing.assert_allclose(moved, displaced % 10, atol=STEP_TOLERANCE)


@pytest.mark.parametrize("place", [[0.1, 0.1], [5.9, 3.0], [3.0, 5.9], [5.9, 5.9]])
def test_a_lone_cluster_is_counted_once(place, rng):
    """In an otherwise empty box, what lies next in memory may be the same particles again, in the next row's strip."""
    parameters = Parameters(n_particles=9, box=6.0)
    for _ in range(20):
        positions = ((np.array(place) + rng.uniform(-1.2, 1.2, (9, 2))) % 6).astype(np.float32).astype(float)
        headings, noise = rng.normal(0, 1, 9), np.zeros(9)
        _, turned = compiled_step(parameters, positions, headings, noise)
        _, angles = advance_reference(parameters, positions, headings, noise)
        np.testing.assert_allclose(turned, np.column_stack([np.cos(angles), np.sin(angles)]), atol=STEP_TOLERANCE)


def test_the_blocks_of_steps_change_nothing(rng):
    parameters = Parameters(n_particles=60, box=6.0)
    noise = rng.uniform(-0.6, 0.6, (64, 60)).astype(np.float32)
    start = (*(rng.random((2, 60)) * 6).astype(np.float32), np.ones(60, np.float32), np.zeros(60, np.float32))
    ends = []
    for block in (64, 16, 5, 1):
        state = [array.copy() for array in start]
        for first in range(0, 64, block):
            advance(parameters, *state, noise[first : first + block])
        ends.append(np.array(state))
    assert all(np.array_equal(end, ends[0]) for end in ends)


def test_headings_that_cancel_are_kept():
    """Two particles with opposite headings see the mean vector 0, which has no direction."""
    parameters = Parameters(n_particles=2, box=10.0, speed=0.0)
    _, turned = compiled_step(parameters, np.array([[1.0, 1.0], [1.5, 1.0]]), np.array([0.0, np.pi]), np.zeros(2))
    np.testing.assert_allclose(turned, [[1, 0], [-1, 0]], atol=STEP_TOLERANCE)


def test_headings_stay_unit_vectors_over_many_steps(rng):
    parameters = Parameters(n_particles=50, box=5.0, eta=3.0)
    x, y = (rng.random((2, 50)) * 5).astype(np.float32)
    angles = rng.uniform(-np.pi, np.pi, 50).astype(np.float32)
    c, s = np.cos(angles), np.sin(angles)
    advance(parameters, x, y, c, s, rng.uniform(-1.5, 1.5, (500, 50)).astype(np.float32))
    np.testing.assert_allclose(np.hypot(c, s), 1, atol=1e-6)


def test_a_dense_flock_without_noise_aligns():
    aligned = simulate(Parameters(n_particles=100, box=4.0, eta=0.0), seed=1, steps=200, every=200)
    assert aligned.order[0] < 0.5
    assert aligned.order[-1] == pytest.approx(1, abs=1e-6)


def test_full_noise_leaves_no_order():
    parameters = Parameters(n_particles=400, box=20.0, eta=2 * math.pi)
    assert simulate(parameters, seed=1, steps=100, every=5).order.mean() == pytest.approx(
        math.sqrt(math.pi / 4 / 400), rel=0.3
    )


def test_frames_lie_on_one_trajectory():
    """What is kept on the way changes nothing, and every particle moves by the speed a step."""
    watched = simulate(SMALL, seed=4, steps=105, every=1)
    assert watched.times.tolist() == list(range(106))
    assert simulate(SMALL, seed=4, steps=105, every=50).times.tolist() == [0, 50, 100, 105]
    last = simulate(SMALL, seed=4, steps=105)
    np.testing.assert_array_equal(last.positions[-1], watched.positions[-1])
    np.testing.assert_array_equal(last.headings[-1], watched.headings[-1])
    for before, after in itertools.pairwise(watched.positions):
        moved = np.hypot(*periodic_gap(before, after, SMALL.box).T)
        np.testing.assert_allclose(moved, SMALL.speed, atol=STEP_TOLERANCE)


def test_a_state_is_what_one_particle_sees():
    frame = simulate(SMALL, seed=2)
    for particle in range(0, SMALL.n_particles, 7):
        gap = np.hypot(*periodic_gap(frame.positions[-1], frame.positions[-1, particle], SMALL.box).T)
        z = frame.state(particle)
        assert np.all(z.weights == 1)
        assert sorted(z.values) == sorted(frame.headings[-1, gap <= 1])
        assert frame.headings[-1, particle] in z.values


def test_a_gaussian_state_weighs_by_distance_itself_most():
    parameters = Parameters(rule="gaussian", h=0.5, n_particles=60, box=6.0, burn_in=20)
    frame = simulate(parameters, seed=2)
    gap = np.hypot(*periodic_gap(frame.positions[-1], frame.positions[-1, 3], 6.0).T)
    expected = np.sort(np.exp(-2 * gap[gap <= parameters.cutoff] ** 2))[::-1]
    z = frame.state(3)
    np.testing.assert_allclose(z.weights, expected, atol=1e-12)
    assert z.weights[0] == 1
    assert z.values[0] == frame.headings[-1, 3]


SELECTORS = {
    "gaussian": ({"h": 0.4}, lambda r: math.exp(-(r**2) / (2 * 0.4**2))),
    "cauchy": ({"h": 0.8, "a": 3}, lambda r: (1 + (r / 0.8) ** 2) ** -3),
    "cauchy of another power": ({"h": 0.8, "a": 2.5}, lambda r: (1 + (r / 0.8) ** 2) ** -2.5),
}


@pytest.mark.parametrize("dropped", [1e-2, 1e-4])
@pytest.mark.parametrize("name", SELECTORS)
def test_a_cutoff_leaves_out_the_share_that_it_names(name, dropped):
    """At uniform density the weight beyond R is a share of the integral of s(r) r dr."""
    fields, selector = SELECTORS[name]
    parameters = Parameters(rule=name.split()[0], dropped=dropped, box=100.0, **fields)
    beyond, whole = (quad(lambda r: selector(r) * r, start, np.inf)[0] for start in (parameters.cutoff, 0))
    assert beyond / whole == pytest.approx(dropped, rel=1e-3)
    distance = parameters.cutoff * np.array([0.0, 0.3, 0.999, 1.001])
    assert parameters.selector(distance).tolist() == pytest.approx([selector(r) for r in distance[:3]] + [0])


def test_a_selector_that_is_not_cut_reaches_half_the_box():
    for rule in ("gaussian", "cauchy"):
        parameters = Parameters(rule=rule, dropped=0.0, box=12.0)
        assert parameters.cutoff == 6
        assert parameters.selector(6.0) > 0


def test_the_bumps_fall_from_one_to_zero():
    at = np.array([0.0, 0.7, 1.4, 1.5])
    expected = {"linear": 0.75, "squared": 0.75**2, "cubed": 0.75**3, "exponential": math.exp(1 - 1 / 0.75)}
    for form, halfway in expected.items():
        assert Parameters(rule="bump", form=form).selector(at) == pytest.approx([1, halfway, 0, 0])
    assert Parameters(rule="bump") == Parameters(rule="bump", form="squared", r_b=1.4)


def test_polarization_counts_and_gate():
    z = simulate(SMALL, seed=2).state()
    assert flock.counts(z).tolist() == [len(z.values) - 1]
    local = abs(np.exp(1j * z.values).mean())
    assert flock.polarization(z)[0] == pytest.approx(local)
    assert flock.gate_share(z, local - 0.01) == 1
    assert flock.gate_share(z, local + 0.01) == 0


def test_observables_of_states_known_by_hand():
    """Two replicas of two states: counts 1, 2 and 2, 3; polarizations 1, 1/3 and 1, 0."""
    up, down = 0.0, np.pi
    values = [[up, up], [up, up, down], [down] * 3, [up, up, down, down]]
    z = WeightedMultisets.from_lists([np.ones(len(x)) for x in values], values, Circle())
    seen = flock.observables(z, gate=0.3, per_replica=2)
    assert seen["count"] == pytest.approx((2, 0.5))
    assert f"{seen['count']:.2f}" == "2.00 ± 0.50"
    assert seen["polarization"] == pytest.approx((7 / 12, 1 / 12))
    assert seen["gate"] == pytest.approx((0.75, 0.25))
    assert [seen[k].value for k in ("k_1pct", "k_01pct")] == [4, 4]
    assert flock.observables(z, gate=0.3)["count"] == pytest.approx((2, math.sqrt(2 / 3 / 4)))


def test_the_error_of_k_is_that_of_a_crossing():
    """Two equal atoms in 2 % of the states, one in the others: tau_1 is 1 % as often above as below, tau_2 = 0."""
    values = [[0.0, 1.0] if i % 50 == 0 else [0.0] for i in range(5000)]
    z = WeightedMultisets.from_lists([np.ones(len(x)) for x in values], values, Circle())
    seen = flock.observables(z, gate=0.5)
    assert seen["k_1pct"].error == pytest.approx(0.5, abs=0.05)
    assert seen["k_01pct"] == (2, 0)
    for name, p in (("k_1pct", 0.01), ("k_01pct", 0.001)):
        assert seen[name].value == profile.atoms_beyond(z, p)


@pytest.mark.parametrize(("states", "per_replica"), [(1, 1), (3, 3), (3, 2)])
def test_observables_need_whole_replicas(states, per_replica, forty):
    with pytest.raises(GradedSparseError, match="not those of two or more replicas"):
        flock.observables(forty[:states], 0.5, per_replica)


def test_final_orders_are_those_of_the_replicas():
    expected = [simulate(SMALL, seed=7, replica=i).order[-1] for i in range(3)]
    for workers in (1, 2):
        assert flock.final_orders(SMALL, 3, seed=7, workers=workers).tolist() == expected


# The same seed must give the same states on every machine and in every version: the committed data depend on it.
PINNED = {
    "ball": "62b42f47ba7947d7",
    "gaussian": "0b776b5898321c5c",
    "bump": "0929ced8c35d1fed",
    "cauchy": "d6116177ed1347e2",
}


@pytest.mark.parametrize("rule", PINNED)
def test_a_seed_gives_the_same_bits_for_ever(rule):
    frame = simulate(Parameters(rule=rule, n_particles=800, box=20.0), seed=3, steps=60)
    assert hashlib.sha256(frame.positions.astype(np.float32).tobytes()).hexdigest()[:16] == PINNED[rule]


@pytest.mark.parametrize("rule", PINNED)
def test_the_size_of_the_cells_changes_nothing(rule, monkeypatch):
    parameters = Parameters(rule=rule, n_particles=800, box=20.0)
    frames = []
    for many in (0, math.inf):
        monkeypatch.setattr(flock, "MANY", many)
        frames.append(simulate(parameters, seed=3, steps=20))
    np.testing.assert_array_equal(frames[0].positions, frames[1].positions)
    np.testing.assert_array_equal(frames[0].headings, frames[1].headings)


# --- the physics, against the plain version in double precision ---------------------------------------


@pytest.fixture(scope="module")
def plain_flock():
    spec = importlib.util.spec_from_file_location("plain_flock", BENCHMARKS / "plain_flock.py")
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)  # where numba's cache looks for it
    spec.loader.exec_module(module)
    return module


def observables(parameters, positions, headings):
    """Global polarization, and the means over the particles of local polarization and number of neighbours."""
    gaps = np.array([np.hypot(*periodic_gap(positions, here, parameters.box).T) for here in positions])
    weights = parameters.selector(gaps)
    heading = np.exp(1j * headings)
    return abs(heading.mean()), (abs(weights @ heading) / weights.sum(axis=1)).mean(), (gaps <= 1).sum() / len(gaps)


@pytest.mark.parametrize(
    "fields",
    [{"eta": eta} for eta in (1.2, 2.4, 3.0, 4.0, 5.0)]
    + [{"rule": "gaussian"}, {"rule": "bump"}, {"rule": "cauchy", "dropped": 1e-2}],
    ids=str,
)
def test_observables_agree_with_the_plain_version_within_sampling_error(fields, plain_flock):
    parameters = Parameters(n_particles=200, box=10.0, burn_in=100, **fields)
    replicas = range(40)
    ours, plain = [], []
    for i in replicas:
        frame = simulate(parameters, seed=5, replica=i)
        ours.append(observables(parameters, frame.positions[-1], frame.headings[-1]))
        plain.append(observables(parameters, *plain_flock.simulate(parameters, seed=i, steps=parameters.burn_in)))
    ours, plain = np.array(ours), np.array(plain)
    error = np.sqrt((ours.var(axis=0) + plain.var(axis=0)) / len(replicas))
    assert np.all(np.abs(ours.mean(axis=0) - plain.mean(axis=0)) <= 3.5 * error)


@pytest.mark.parametrize("rule", PINNED)
def test_the_plain_version_agrees_with_the_formula(rule, plain_flock, rng):
    parameters = Parameters(rule=rule, n_particles=300, box=20.0)
    positions, headings, _ = random_flock(parameters, rng)
    moved, turned = plain_flock.advance(parameters, positions, headings, 1, np.random.default_rng(1))
    noise = (np.random.default_rng(1).random(300) - 0.5) * parameters.eta
    expected, angles = advance_reference(parameters, positions, headings, noise)
    np.testing.assert_allclose(np.exp(1j * turned), np.exp(1j * angles), atol=1e-9)
    assert periodic_gap(moved, expected, parameters.box).max() <= 1e-9


# --- several states from a replica --------------------------------------------------------------------


def test_far_apart_particles_are_each_any_particle_and_lie_apart(rng):
    """Whichever of them is particle 0: over all relabellings each particle is chosen equally often."""
    n, b = 96, 8
    parameters = Parameters(n_particles=n, box=7.0)
    positions = rng.random((n, 2)) * 7 * rng.random((n, 1))
    chosen, nearest = [], []
    for first in range(n):
        label = np.roll(np.arange(n), -first)
        frame = flock.Flock(parameters, np.array([0]), positions[None, label], np.zeros((1, n)))
        picked = frame.far_apart(b)
        assert picked[0] == 0
        chosen.extend(label[picked])
        gaps = np.array([np.hypot(*periodic_gap(positions[label[picked]], p, 7.0).T) for p in positions[label[picked]]])
        nearest.append(np.sort(gaps, axis=1)[:, 1].mean())
    assert np.bincount(chosen, minlength=n).tolist() == [b] * n
    at_random = [
        np.sort([np.hypot(*periodic_gap(sample, p, 7.0).T) for p in sample], axis=1)[:, 1].mean()
        for sample in (positions[rng.choice(n, b, replace=False)] for _ in range(200))
    ]
    assert np.mean(nearest) > 1.2 * np.mean(at_random)


def test_all_particles_can_be_seen_from_and_no_more():
    frame = simulate(SMALL, seed=2)
    assert sorted(frame.far_apart(60)) == list(range(60))
    for b, message in ((0, "must be an integer of at least 1, not 0"), (61, "need as many particles, not 60")):
        with pytest.raises(GradedSparseError, match=message):
            frame.far_apart(b)


def test_several_states_a_replica_come_in_the_order_of_the_replicas(tmp_path):
    z = sample_states(SMALL, 30, seed=7, progress=False, per_replica=4, save=tmp_path)
    assert len(z) == 120
    assert same_states(z[::4], sample_states(SMALL, 30, seed=7, progress=False))
    frame = simulate(SMALL, seed=7, replica=26)
    expected = frame.states(frame.far_apart(4))
    np.testing.assert_array_equal(z[104:108].values, expected.values.astype(np.float32))
    assert same_states(sample_states(SMALL, 30, seed=7, progress=False, per_replica=4, save=tmp_path), z)
    with pytest.raises(GradedSparseError, match="holds replicas of another flock or seed"):
        sample_states(SMALL, 30, seed=7, progress=False, per_replica=5, save=tmp_path)


# --- sampling: determinism, saving, resuming --------------------------------------------------------


def sample(replicas, **options):
    return sample_states(SMALL, replicas, seed=7, progress=False, **options)


@pytest.fixture(scope="module")
def forty():
    return sample(40, workers=1)


def test_the_states_do_not_depend_on_the_workers(forty):
    assert same_states(sample(40, workers=2), forty)
    assert same_states(sample(40, workers=5), forty)


@pytest.mark.parametrize("replicas", [1, 24, 25, 26])
def test_fewer_replicas_are_a_prefix(replicas, forty):
    assert same_states(sample(replicas), forty[:replicas])


def test_each_replica_is_the_simulation_of_its_index(forty):
    for i in (0, 31):
        z = simulate(SMALL, seed=7, replica=i).state()
        np.testing.assert_array_equal(forty[i].values, z.values.astype(np.float32))


def test_replicas_and_seeds_differ(forty):
    assert not any(same_states(forty[0], forty[i]) for i in range(1, 40))
    assert not same_states(sample_states(SMALL, 5, seed=8, progress=False), forty[:5])


def test_saving_changes_nothing_and_a_larger_set_extends_a_smaller_one(forty, tmp_path):
    assert same_states(sample(30, save=tmp_path / "run"), forty[:30])
    assert same_states(sample(40, save=tmp_path / "run"), forty)
    assert same_states(sample(10, save=tmp_path / "run"), forty[:10])


class EventfulBar:
    """A progress bar during which something happens after the given number of replicas."""

    def __init__(self, at, event):
        self.at, self.event, self.done = at, event, 0

    def __call__(self, *, initial, **options):
        return self

    def __enter__(self):
        return self

    def __exit__(self, *error):
        return False

    def update(self):
        self.done += 1
        if self.done == self.at:
            self.event()


def press_ctrl_c():
    raise KeyboardInterrupt


def test_an_interrupted_run_resumes_where_it_was(forty, tmp_path, monkeypatch):
    run_one, whole_bar = flock._sample_one, flock.tqdm
    monkeypatch.setattr(flock, "tqdm", EventfulBar(30, press_ctrl_c))
    monkeypatch.setattr(flock, "as_completed", list)  # in the order of the replicas
    with pytest.raises(KeyboardInterrupt):
        sample(40, workers=2, save=tmp_path / "run")
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == ["000000-000024.npz", "run.json"]

    simulated = []
    monkeypatch.setattr(flock, "tqdm", whole_bar)
    monkeypatch.setattr(flock, "_sample_one", lambda *task: simulated.append(task[2]) or run_one(*task))
    assert same_states(sample(40, workers=2, save=tmp_path / "run"), forty)
    assert sorted(simulated) == list(range(25, 40))


def test_a_dask_cluster_that_loses_a_worker_gives_the_bits_of_the_serial_run(forty, tmp_path, monkeypatch):
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(2, threads_per_worker=1, dashboard_address=None) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
    ):
        victims = list(client.run(os.getpid).values())
        assert len(set(victims) - {os.getpid()}) == 2
        bar = EventfulBar(20, lambda: os.kill(victims[0], signal.SIGKILL))
        monkeypatch.setattr(flock, "tqdm", bar)
        assert same_states(sample(40, save=tmp_path / "run", scheduler=cluster.scheduler_address), forty)
        assert bar.done == 40
        assert victims[0] not in client.run(os.getpid).values()
    assert sorted(path.name for path in (tmp_path / "run").glob("*.npz")) == [
        "000000-000024.npz",
        "000025-000039.npz",
    ]


def test_a_cluster_without_workers_is_refused(tmp_path, monkeypatch):
    distributed = pytest.importorskip("distributed")
    monkeypatch.setattr(flock, "PATIENCE", 0.5)
    with (
        distributed.LocalCluster(n_workers=0, dashboard_address=None) as cluster,
        pytest.raises(GradedSparseError, match="has no workers"),
    ):
        sample(3, save=tmp_path / "run", scheduler=cluster.scheduler_address)
    assert list(tmp_path.iterdir()) == []


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_a_folder_of_another_flock_or_seed_is_refused_and_left_as_it_was(tmp_path):
    sample(3, save=tmp_path / "run")
    before = contents(tmp_path / "run")
    for parameters, seed in ((SMALL, 8), (SMALL.model_copy(update={"eta": 2.0}), 7)):
        with pytest.raises(GradedSparseError, match="holds replicas of another flock or seed"):
            sample_states(parameters, 3, seed, save=tmp_path / "run", progress=False)
    assert contents(tmp_path / "run") == before


def test_a_folder_of_other_files_is_refused_and_left_as_it_was(tmp_path):
    (tmp_path / "thesis.txt").write_text("do not lose")
    with pytest.raises(GradedSparseError, match="is not empty and holds no replicas"):
        sample(3, save=tmp_path)
    assert contents(tmp_path) == {"thesis.txt": b"do not lose"}


@pytest.mark.parametrize("label", ["", "{", json.dumps({"seed": 7})])
def test_a_folder_with_a_damaged_label_is_refused(label, tmp_path):
    (tmp_path / "run.json").write_text(label)
    with pytest.raises(GradedSparseError, match="holds replicas of another flock or seed"):
        sample(3, save=tmp_path)


def test_a_damaged_shard_is_named(tmp_path):
    sample(3, save=tmp_path)
    (tmp_path / "000000-000002.npz").write_bytes(b"PK\x03\x04 cut")
    with pytest.raises(GradedSparseError, match=r"000000-000002.npz is damaged"):
        sample(3, save=tmp_path)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"replicas": 0}, "the number of replicas must be an integer of at least 1, not 0"),
        ({"replicas": 2.5}, "the number of replicas must be an integer"),
        ({"seed": 1.0}, "the seed must be an integer of at least 0, not 1.0"),
        ({"seed": -1}, "the seed must be an integer of at least 0, not -1"),
        ({"seed": "one"}, "the seed must be an integer of at least 0, not 'one'"),
        ({"workers": 0}, "the number of threads must be an integer of at least 1, not 0"),
        ({"per_replica": 0}, "the number of states from a replica must be an integer of at least 1, not 0"),
        ({"per_replica": 61}, "61 states from a replica need as many particles"),
        ({"scheduler": "tcp://127.0.0.1:9", "workers": 2}, "give either a number of threads or a scheduler"),
        ({"scheduler": "nowhere://x"}, "no Dask scheduler answers at nowhere://x"),
        ({"scheduler": "tcp://127.0.0.1:9"}, "no Dask scheduler answers at tcp://127.0.0.1:9"),
    ],
)
def test_bad_requests_write_nothing(options, message, tmp_path, monkeypatch):
    monkeypatch.setattr(flock, "PATIENCE", 0.2)
    request = {"replicas": 2, "seed": 1} | options
    with pytest.raises(GradedSparseError, match=message):
        sample_states(SMALL, save=tmp_path / "run", **request)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"steps": -1}, "the number of steps must be an integer of at least 0, not -1"),
        ({"replica": -1}, "the replica's index must be an integer of at least 0, not -1"),
        ({"every": 0}, "every must be an integer of at least 1, not 0"),
    ],
)
def test_bad_simulations_are_refused(options, message):
    with pytest.raises(GradedSparseError, match=message):
        simulate(SMALL, seed=1, **options)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"noise": 1.2}, "unknown 'noise'"),
        ({"n_particle": 10}, "unknown 'n_particle'; did you mean 'n_particles'?"),
        ({"rule": "bal"}, "rule = 'bal': Input should be 'ball', 'bump', 'gaussian' or 'cauchy'"),
        ({"eta": -0.1}, "eta = -0.1: Input should be greater than or equal to 0"),
        ({"eta": 7.0}, "eta = 7.0: Input should be less than or equal to 6.28"),
        ({"eta": math.nan}, "eta = nan: "),
        ({"r": 0.0}, "r = 0.0: Input should be greater than 0"),
        ({"rule": "gaussian", "h": math.inf}, "h = inf: Input should be a finite number"),
        ({"h": 0.3}, "h does not apply to the ball rule"),
        ({"rule": "gaussian", "r": 1.0}, "r does not apply to the gaussian rule"),
        ({"rule": "bump", "dropped": 0.1}, "dropped does not apply to the bump rule"),
        ({"rule": "bump", "form": "square"}, "form = 'square': Input should be 'linear', 'squared', "),
        ({"rule": "cauchy", "a": 1.0}, "a = 1.0: Input should be greater than 1"),
        ({"rule": "cauchy", "a": 1.001}, "larger than half the box, 20"),
        ({"box": -1.0}, "box = -1.0: Input should be greater than 0"),
        ({"speed": -0.5}, "speed = -0.5: "),
        ({"n_particles": 0}, "n_particles = 0: Input should be greater than or equal to 1"),
        ({"n_particles": 2.5}, "n_particles = 2.5: "),
        ({"burn_in": -1}, "burn_in = -1: "),
        ({"rule": "gaussian", "dropped": -0.1}, "dropped = -0.1: "),
        ({"rule": "gaussian", "dropped": 1.0}, "dropped = 1.0: "),
        ({"r": 21.0}, "the cutoff 21 is larger than half the box, 20"),
        ({"rule": "gaussian", "h": 5.0}, "the cutoff 21.46 is larger than half the box, 20"),
        ({"speed": 21.0}, "the speed 21 is larger than half the box, 20"),
    ],
)
def test_bad_parameters_are_one_line(fields, message):
    with pytest.raises(GradedSparseError) as caught:
        Parameters(**fields)
    text = str(caught.value)
    assert text.startswith("flock parameters: ")
    assert message in text
    assert "\n" not in text


def test_a_description_has_the_fields_of_its_rule_and_gives_the_parameters_back():
    common = {"rule", "eta", "n_particles", "box", "speed", "burn_in"}
    own = {"ball": {"r"}, "bump": {"r_b", "form"}, "gaussian": {"h", "dropped"}, "cauchy": {"h", "a", "dropped"}}
    for rule, fields in own.items():
        parameters = Parameters(rule=rule)
        assert parameters.described().keys() == common | fields
        assert Parameters(**json.loads(json.dumps(parameters.described()))) == parameters
    assert (Parameters(rule="gaussian").h, Parameters(rule="cauchy").h, Parameters(rule="cauchy").a) == (0.5, 0.9, 3)


def test_parameters_do_not_change():
    with pytest.raises(ValueError, match="frozen"):
        Parameters().eta = 2.0


# --- the calibrated setting -----------------------------------------------------------------------


def test_the_calibrated_flock_is_the_committed_and_the_published_one():
    """The first replica of ball_eta1.2 comes out again; its count and polarization are the paper's 10.7 and 0.94."""
    committed = load("ball_eta1.2")
    again = sample_states(Parameters(rule="ball", eta=1.2), replicas=1, seed=1, progress=False)
    assert same_states(again, committed[:1])
    for figure, paper in ((flock.counts, 10.7), (flock.polarization, 0.94)):
        observed = figure(committed)
        sampling_error = observed.std() / math.sqrt(len(committed))
        rounding = 0.05 if paper > 1 else 0.005
        assert abs(observed.mean() - paper) <= 3 * sampling_error + rounding


def test_every_committed_set_is_the_planned_one_and_has_its_published_row():
    """Parameters, seed and truncation as planned; where the tables name the flock, exactly one row does."""
    for name, entry in data.manifest().items():
        planned = flock.STUDY[name].made_by
        made_by = {key: entry["made_by"][key] for key in planned}
        assert made_by | {"replicas": 0} == planned | {"replicas": 0}
    for planned in flock.STUDY.values():
        rule, eta, h = planned.parameters.rule, planned.parameters.eta, planned.parameters.h
        if rule == "ball":
            published.row("table4", eta=eta)
        elif rule == "gaussian" and eta == 1.2:
            published.row("table3", h=h)
        else:
            published.row("table2", rule=rule, eta=eta)
    seeds = [planned.seed for planned in flock.STUDY.values()]
    assert len(set(seeds)) == len(seeds)


# --- the precision of a file ------------------------------------------------------------------------


@pytest.mark.parametrize("truncate", [0.0, 0.001])
@pytest.mark.parametrize("fields", [{}, {"rule": "gaussian"}, {"rule": "cauchy", "dropped": 1e-2}], ids=str)
def test_the_single_precision_of_a_file_hardly_moves_the_certificate(fields, truncate, tmp_path):
    frame = simulate(Parameters(n_particles=200, box=10.0, burn_in=100, **fields), seed=3)
    exact = frame.states(range(200)).truncate(truncate)
    data.write_states(tmp_path / "states.npz", exact)
    kept = data.read_states(tmp_path / "states.npz")
    assert not np.array_equal(kept.values, exact.values)
    before, after = (certify(z[:100], z[100:]).value for z in (exact, kept))
    assert abs(after - before) < 1e-5
