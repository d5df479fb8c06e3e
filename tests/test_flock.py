"""The flock: its compiled step against the formula, its determinism, resuming, and what it refuses."""

import itertools
import json
import math

import numpy as np
import pytest
from builders import same_states

from gradedsparse import GradedSparseError, flock, load
from gradedsparse.flock import Parameters, advance, advance_reference, sample_states, simulate

STEP_TOLERANCE = 1e-5

SMALL = Parameters(n_particles=60, box=6.0, burn_in=20)

FLOCKS = {
    "ball": {"rule": "ball", "r": 1.0, "box": 9.0, "n_particles": 160},
    "ball that sees half the box": {"rule": "ball", "r": 1.5, "box": 3.0, "n_particles": 40},
    "ball in three cells a side": {"rule": "ball", "r": 1.0, "box": 3.3, "n_particles": 40},
    "ball of many neighbours": {"rule": "ball", "r": 2.5, "box": 5.0, "n_particles": 700},
    "gaussian": {"rule": "gaussian", "h": 0.4, "box": 9.0, "n_particles": 160},
    "gaussian that sees half the box": {"rule": "gaussian", "h": 0.5, "box": 4.3, "n_particles": 50},
    "one particle": {"rule": "ball", "r": 1.0, "box": 2.0, "n_particles": 1},
}


def random_flock(parameters, rng):
    n = parameters.n_particles
    return (
        rng.random((n, 2)) * parameters.box,
        rng.uniform(-np.pi, np.pi, n),
        rng.uniform(-0.5, 0.5, n) * parameters.eta,
    )


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


def test_the_gaussian_cutoff_leaves_out_the_share_it_names():
    """At uniform density the weight beyond R is exp(-R^2 / 2h^2) of the whole."""
    parameters = Parameters(rule="gaussian", h=0.5, dropped=1e-3)
    assert math.exp(-(parameters.cutoff**2) / (2 * 0.5**2)) == pytest.approx(1e-3)
    assert parameters.selector(parameters.cutoff * np.array([0, 0.999, 1.001])).tolist() == pytest.approx(
        [1, 1e-3, 0], rel=0.02
    )


def test_polarization_and_counts():
    z = simulate(SMALL, seed=2).state()
    assert flock.counts(z).tolist() == [len(z.values) - 1]
    assert flock.polarization(z)[0] == pytest.approx(abs(np.exp(1j * z.values).mean()))


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


class InterruptingBar:
    """A progress bar during which the user presses Ctrl-C at the given replica."""

    at = 30

    def __init__(self, *, initial, **options):
        self.done = initial

    def __enter__(self):
        return self

    def __exit__(self, *error):
        return False

    def update(self):
        self.done += 1
        if self.done == self.at:
            raise KeyboardInterrupt


def test_an_interrupted_run_resumes_where_it_was(forty, tmp_path, monkeypatch):
    run_one, whole_bar = flock._sample_one, flock.tqdm
    monkeypatch.setattr(flock, "tqdm", InterruptingBar)
    with pytest.raises(KeyboardInterrupt):
        sample(40, workers=2, save=tmp_path / "run")
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == ["000000-000024.npz", "run.json"]

    simulated = []
    monkeypatch.setattr(flock, "tqdm", whole_bar)
    monkeypatch.setattr(flock, "_sample_one", lambda *task: simulated.append(task[2]) or run_one(*task))
    assert same_states(sample(40, workers=2, save=tmp_path / "run"), forty)
    assert sorted(simulated) == list(range(25, 40))


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
    ],
)
def test_bad_requests_write_nothing(options, message, tmp_path):
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
        ({"rule": "bal"}, "rule = 'bal': Input should be 'ball' or 'gaussian'"),
        ({"eta": -0.1}, "eta = -0.1: Input should be greater than or equal to 0"),
        ({"eta": 7.0}, "eta = 7.0: Input should be less than or equal to 6.28"),
        ({"eta": math.nan}, "eta = nan: "),
        ({"r": 0.0}, "r = 0.0: Input should be greater than 0"),
        ({"h": math.inf}, "h = inf: Input should be a finite number"),
        ({"box": -1.0}, "box = -1.0: Input should be greater than 0"),
        ({"speed": -0.5}, "speed = -0.5: "),
        ({"n_particles": 0}, "n_particles = 0: Input should be greater than or equal to 1"),
        ({"n_particles": 2.5}, "n_particles = 2.5: "),
        ({"burn_in": -1}, "burn_in = -1: "),
        ({"dropped": 0.0}, "dropped = 0.0: "),
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


def test_parameters_do_not_change():
    with pytest.raises(ValueError, match="frozen"):
        Parameters().eta = 2.0


# --- the calibrated setting -----------------------------------------------------------------------


def test_the_calibrated_flock_is_the_committed_and_the_published_one():
    """The first replicas of ball_eta1.2 come out again; its count and polarization are the paper's 10.7 and 0.94."""
    committed = load("ball_eta1.2")
    again = sample_states(Parameters(rule="ball", eta=1.2), replicas=24, seed=1, progress=False)
    assert again.offsets.tolist() == committed[:24].offsets.tolist()
    np.testing.assert_allclose(again.values, committed[:24].values, atol=1e-6)
    for figure, published in ((flock.counts, 10.7), (flock.polarization, 0.94)):
        for z in (again, committed):
            observed = figure(z)
            sampling_error = observed.std() / math.sqrt(len(z))
            rounding = 0.05 if published > 1 else 0.005
            assert abs(observed.mean() - published) <= 3 * sampling_error + rounding
