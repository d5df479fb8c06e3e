"""The public names that other people's scripts use, each as it is written down for them."""

import importlib
import inspect
import subprocess
import sys

import numpy as np
import pytest

import gradedsparse as gs

WEIGHTS = [[2.0, 1.0, 0.0], [1.0, 3.0], [5.0]]
VALUES = [[0.1, 6.2, 3.0], [0.0, 1.0], [2.0]]


@pytest.fixture
def z():
    return gs.WeightedMultisets.from_lists(WEIGHTS, VALUES, space=gs.Circle())


def test_states_from_lists_on_the_circle_and_in_a_ball(z):
    assert len(z) == 3
    assert z.offsets.tolist() == [0, 2, 4, 5]
    assert z.shares.tolist() == [2 / 3, 1 / 3, 0.25, 0.75, 1.0]
    assert len(z[2]) == 1
    assert len(z[:100]) == 3
    flat = gs.WeightedMultisets.from_lists([np.array([1.0, 2.0])], [np.zeros((2, 3))], space=gs.Ball(3, 1.5))
    assert flat.values.shape == (2, 3)


def test_states_from_padded_arrays():
    W, X = np.array([[1.0, 0.0], [2.0, 3.0]]), np.array([[0.5, 9.9], [0.0, 1.0]])
    z = gs.WeightedMultisets.from_padded(W, X, space=gs.Circle())
    assert z.offsets.tolist() == [0, 1, 3]


def test_distance_is_a_float_in_units_of_kappa(z):
    d = gs.distance(z[0], z[1], reading="conservative")
    assert type(d) is float
    assert 0 <= d <= 1
    assert gs.distance(z[0], z[1]) == d
    assert gs.distance(z[0], z[1], reading="accumulative") >= 0


def test_distance_matrix_is_a_float_array(z):
    D = gs.distance_matrix(z, z[:2], reading="conservative")
    assert D.shape == (3, 2)
    assert D.dtype == np.float64
    assert gs.distance_matrix(z, z).shape == (3, 3)


def test_match_and_its_fields(z):
    matched = gs.match(z, z[::-1], tol=1e-6)
    assert matched.pairs.shape == (3, 2)
    assert matched.value - matched.lower <= 1e-6
    assert [len(part) for part in matched.potentials] == [3, 3]
    assert matched.evaluated == 9


def test_certify_and_its_fields(z):
    certificate = gs.certify(z, z[::-1], delta=0.05)
    assert certificate.value == certificate.w1 + certificate.concentration
    assert certificate.lower <= certificate.w1
    assert isinstance(certificate.summary(), str)


def test_cell_certify_and_its_fields(z):
    cells = gs.cell_certify(z, z[::-1], delta=0.05)
    assert cells.value == cells.bound + cells.concentration


def test_profile_module(z):
    assert gs.profile.mean_tail(z)[0] == pytest.approx(1)
    assert gs.profile.atoms_beyond(z, 0.01) == 2


def test_flock_parameters_default_to_the_calibrated_setting():
    params = gs.flock.Parameters(
        rule="ball", r=1.0, eta=1.2, n_particles=3200, box=40.0, speed=0.5, burn_in=3000
    )  # fmt: skip
    assert params == gs.flock.Parameters()


def test_sample_states_gives_one_state_a_replica():
    params = gs.flock.Parameters(n_particles=20, box=4.0, burn_in=5)
    z = gs.flock.sample_states(params, replicas=3, seed=1, workers=2)
    assert isinstance(z, gs.WeightedMultisets)
    assert len(z) == 3


def test_load_a_committed_data_set():
    z = gs.load("ball_eta1.2")
    assert len(z) >= 2000
    assert z.space == gs.Circle()
    assert z.sizes.min() >= 1


def test_every_name_in_all_is_there_and_documented():
    for name in gs.__all__:
        assert inspect.getdoc(getattr(gs, name)), name
    assert set(dir(gs)) >= set(gs.__all__)


def test_errors_are_value_errors():
    assert issubclass(gs.GradedSparseError, ValueError)


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'gradedsparse' has no attribute 'certificates'"):
        gs.certificates  # noqa: B018


@pytest.mark.parametrize("module", ["states", "representation", "matching", "certificate", "profile", "flock", "data"])
def test_every_public_function_says_what_it_does(module):
    home = importlib.import_module(f"gradedsparse.{module}")
    own = [
        part
        for name, part in vars(home).items()
        if not name.startswith("_") and getattr(part, "__module__", None) == home.__name__ and callable(part)
    ]
    assert own
    assert [part.__name__ for part in own if not part.__doc__] == []


def test_importing_the_package_loads_no_heavy_library():
    """The command line starts at once: numba, scipy and matplotlib come with the first use."""
    check = "import sys, gradedsparse; print(sorted({'numba', 'scipy', 'matplotlib', 'ot'} & set(sys.modules)))"
    shown = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "[]"
