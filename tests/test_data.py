"""Files of states and the manifest: what comes back, what is refused, and how to remake it."""

import numpy as np
import pytest
import yaml
from builders import SPACES_ON_FILE, one_state, random_states, same_states, states

from gradedsparse import GradedSparseError, data, load
from gradedsparse.data import provenance, read_states, register, write_states

COMMAND = "gradedsparse simulate --name flocks --replicas 3 --seed 1"


def in_single_precision(z):
    """The states with the numbers that a file keeps."""
    kept = z[:]
    kept.weights, kept.values, kept.dropped = (
        array.astype(np.float32).astype(float) for array in (z.weights, z.values, z.dropped)
    )
    return kept


@pytest.fixture
def registered(data_folder, rng):
    """A data folder with one data set, ``flocks``."""
    z = in_single_precision(random_states(rng, 3))
    write_states(data_folder / "flocks.npz", z, {"seed": 1, "version": "0.1.0"})
    register("flocks", COMMAND)
    return z


@pytest.mark.parametrize("space", SPACES_ON_FILE, ids=repr)
@pytest.mark.parametrize("share", [0.0, 0.3])
def test_states_come_back_from_a_file_in_single_precision(space, share, rng, tmp_path):
    z = random_states(rng, 20, space, most=12).truncate(share)
    write_states(tmp_path / "z.npz", z)
    assert same_states(read_states(tmp_path / "z.npz"), in_single_precision(z))
    assert [path.name for path in tmp_path.iterdir()] == ["z.npz"]


def test_states_of_many_atoms_and_unit_weights_come_back(tmp_path):
    z = one_state(np.ones(70_000), np.zeros(70_000))
    write_states(tmp_path / "z.npz", z)
    assert same_states(read_states(tmp_path / "z.npz"), z)
    with np.load(tmp_path / "z.npz") as file:
        assert "weights" not in file


def test_no_states_come_back_as_none(tmp_path):
    write_states(tmp_path / "z.npz", states([], []))
    assert len(read_states(tmp_path / "z.npz")) == 0


def test_a_file_says_how_it_was_made(tmp_path):
    write_states(tmp_path / "z.npz", one_state([1.0], [0.0]), {"seed": 3, "parameters": {"eta": 1.2}})
    assert provenance(tmp_path / "z.npz") == {"seed": 3, "parameters": {"eta": 1.2}}


def test_a_failed_write_leaves_the_old_file(tmp_path, monkeypatch):
    write_states(tmp_path / "z.npz", one_state([1.0], [0.5]))
    before = (tmp_path / "z.npz").read_bytes()

    def full_disk(file, **arrays):
        file.write(b"half of it")
        raise OSError("no space left on device")

    monkeypatch.setattr(data.np, "savez_compressed", full_disk)
    with pytest.raises(OSError, match="no space left"):
        write_states(tmp_path / "z.npz", one_state([1.0], [0.7]))
    assert (tmp_path / "z.npz").read_bytes() == before


def cut_short(path):
    path.write_bytes(path.read_bytes()[:-60])


def flip_a_byte(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0xFF
    path.write_bytes(bytes(content))


def empty(path):
    path.write_bytes(b"")


def write_text(path):
    path.write_text("not a file of states")


def change(**arrays):
    def rewrite(path):
        with np.load(path) as file:
            changed = dict(file) | arrays
        np.savez(path, **{name: array for name, array in changed.items() if array is not None})

    return rewrite


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (cut_short, "is damaged, or not a state file"),
        (flip_a_byte, "is damaged, or not a state file"),
        (empty, "is damaged, or not a state file"),
        (write_text, "is damaged, or not a state file"),
        (change(sizes=None), "is not a state file: it lacks sizes"),
        (change(sizes=np.array([1, 1])), "is damaged: 2 atoms announced, 6 found"),
        (change(sizes=np.array([7, -1])), "is damaged"),
        (change(format=np.array(2)), "has file format 2; this version reads 1"),
        (change(dropped=np.zeros(5)), "is damaged"),
        (change(space=np.array("nowhere")), "is damaged"),
    ],
)
def test_damaged_files_are_named(damage, message, tmp_path):
    path = tmp_path / "z.npz"
    write_states(path, states([[1.0, 2.0, 3.0]] * 2, [[0.1, 0.2, 0.3]] * 2))
    damage(path)
    with pytest.raises(GradedSparseError, match=rf"z\.npz {message}"):
        read_states(path)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(GradedSparseError, match=r"none\.npz is missing"):
        read_states(tmp_path / "none.npz")


# --- the manifest ---------------------------------------------------------------------------------


def test_a_registered_data_set_loads_by_name(registered):
    assert same_states(load("flocks"), registered)


def test_the_manifest_describes_the_file(registered, data_folder):
    entry = data.manifest()["flocks"]
    assert entry == {
        "file": "flocks.npz",
        "sha256": data.file_sha256(data_folder / "flocks.npz"),
        "bytes": (data_folder / "flocks.npz").stat().st_size,
        "states": 3,
        "atoms": len(registered.weights),
        "command": COMMAND,
        "made_by": {"seed": 1, "version": "0.1.0"},
    }


def test_registering_another_keeps_the_first(registered, data_folder):
    write_states(data_folder / "ants.npz", registered)
    register("ants", "gradedsparse simulate --name ants")
    assert list(data.manifest()) == ["ants", "flocks"]
    assert same_states(load("flocks"), registered)


@pytest.mark.parametrize("damage", [cut_short, flip_a_byte, empty])
def test_a_damaged_data_set_is_refused_with_the_command_that_remakes_it(damage, registered, data_folder):
    damage(data_folder / "flocks.npz")
    with pytest.raises(GradedSparseError) as caught:
        load("flocks")
    assert "flocks.npz is damaged (its checksum is not the manifest's)" in str(caught.value)
    assert str(caught.value).endswith(f"remake it with: {COMMAND}")


def test_other_states_under_the_same_name_are_refused(registered, data_folder):
    write_states(data_folder / "flocks.npz", registered[:2])
    with pytest.raises(GradedSparseError, match="its checksum is not the manifest's"):
        load("flocks")


def test_a_missing_data_set_is_refused_with_the_command_that_remakes_it(registered, data_folder):
    (data_folder / "flocks.npz").unlink()
    with pytest.raises(GradedSparseError, match=rf"flocks\.npz is missing; remake it with: {COMMAND}"):
        load("flocks")


def test_an_unknown_name_is_refused_with_those_there_are(registered):
    with pytest.raises(GradedSparseError, match="no data set 'flock'; there are flocks"):
        load("flock")


def test_a_missing_manifest_says_where_to_look(data_folder):
    with pytest.raises(GradedSparseError, match=r"manifest\.yaml is missing: set GRADEDSPARSE_DATA"):
        load("flocks")


@pytest.mark.parametrize("text", ["flocks: [", "- a list", "flocks: 3", "flocks: {file: flocks.npz}"])
def test_a_damaged_manifest_is_named(text, data_folder):
    (data_folder / "manifest.yaml").write_text(text)
    with pytest.raises(GradedSparseError, match=r"manifest\.yaml is damaged"):
        load("flocks")


# --- the committed data sets ----------------------------------------------------------------------


def test_every_committed_data_set_is_what_its_manifest_says():
    entries = data.manifest()
    assert "ball_eta1.2" in entries
    for name, entry in entries.items():
        path = data.directory() / entry["file"]
        z = load(name)
        assert (len(z), len(z.weights), path.stat().st_size) == (entry["states"], entry["atoms"], entry["bytes"])
        assert provenance(path) == entry["made_by"]
        assert (
            f"--name {name} --replicas {entry['made_by']['replicas']} --seed {entry['made_by']['seed']}"
            in (entry["command"])
        )


def test_no_file_of_states_lies_in_the_data_folder_unregistered():
    registered = {entry["file"] for entry in data.manifest().values()}
    assert {path.name for path in data.directory().glob("*.npz")} == registered


def test_the_manifest_is_sorted_plain_yaml():
    text = (data.directory() / "manifest.yaml").read_text()
    assert list(yaml.safe_load(text)) == sorted(yaml.safe_load(text))
