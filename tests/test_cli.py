"""The command line: what its commands write and print, and one line for everything that is wrong."""

import json
import signal
import subprocess
import sys
import time

import numpy as np
import pyarrow
import pyarrow.csv
import pyarrow.parquet
import pytest
from builders import random_states, same_states
from typer.testing import CliRunner

from gradedsparse import Ball, Circle, certificate, certify, flock, load
from gradedsparse.cli import app
from gradedsparse.data import manifest, provenance, read_states, write_states

SMALL = {"n-particles": 60, "box": 6.0, "burn-in": 20}
SMALL_PARAMETERS = flock.Parameters(n_particles=60, box=6.0, burn_in=20)


def command_line(command, /, *words, **options):
    return [command, *map(str, words), *(f"--{key.replace('_', '-')}={value}" for key, value in options.items())]


def run(command, /, *words, **options):
    return CliRunner().invoke(app, command_line(command, *words, **options))


def assert_refused(result, message):
    """Exit code 2 and one line on standard error, with nothing on standard output."""
    assert result.exit_code == 2
    assert result.stdout == ""
    lines = result.stderr.splitlines()
    assert len(lines) == 1, result.stderr
    assert lines[0].startswith("gradedsparse: ")
    assert message in lines[0]


# --- simulate ---------------------------------------------------------------------------------------


def simulate(out, replicas=30, seed=7, **options):
    return run("simulate", **{"out": out, "replicas": replicas, "seed": seed} | SMALL | options)


def test_simulate_writes_the_states_and_how_they_were_made(tmp_path):
    result = simulate(tmp_path / "z.npz")
    assert result.exit_code == 0
    assert f"30 states in {tmp_path / 'z.npz'}" in result.stdout
    z = read_states(tmp_path / "z.npz")
    assert same_states(z, flock.sample_states(SMALL_PARAMETERS, 30, seed=7, progress=False))
    made_by = provenance(tmp_path / "z.npz")
    assert flock.Parameters(**made_by["parameters"]) == SMALL_PARAMETERS
    assert (made_by["seed"], made_by["replicas"]) == (7, 30)
    assert [path.name for path in tmp_path.iterdir()] == ["z.npz"]


def test_simulate_with_truncation_keeps_the_dropped_weight(tmp_path):
    simulate(tmp_path / "whole.npz", rule="gaussian", h=0.4)
    simulate(tmp_path / "cut.npz", rule="gaussian", h=0.4, truncate=0.1)
    whole, cut = read_states(tmp_path / "whole.npz"), read_states(tmp_path / "cut.npz")
    assert len(cut.weights) < len(whole.weights)
    assert 0 < (cut.dropped / cut.totals).max() <= 0.1 + 1e-6
    np.testing.assert_allclose(cut.totals, whole.totals, rtol=1e-6)


RULE_OPTIONS = {
    "ball": {"r": 0.8},
    "bump": {"r-b": 1.2, "form": "cubed"},
    "gaussian": {"h": 0.4, "dropped": 1e-3},
    "cauchy": {"h": 0.5, "a": 2.5, "dropped": 0.02, "truncate": 0.01, "per-replica": 3},
}


@pytest.mark.parametrize("rule", RULE_OPTIONS)
def test_simulate_by_name_makes_a_data_set_and_its_recipe(rule, data_folder):
    options = {"name": "tiny", "replicas": 4, "seed": 3, "eta": 2.0, "rule": rule} | RULE_OPTIONS[rule]
    result = run("simulate", **options | SMALL)
    assert result.exit_code == 0
    states = 12 if "per-replica" in options else 4
    assert f"data set tiny: {states} states" in result.stdout
    made_by = manifest()["tiny"]["made_by"]
    recorded = {"replicas": 4, "seed": 3} | made_by["parameters"] | {"per-replica": made_by["per_replica"]}
    recorded |= {"truncate": made_by["truncate"]}
    for option, value in options.items():
        assert option == "name" or recorded[option.replace("r-b", "r_b")] == value
    first, recipe = load("tiny"), manifest()["tiny"]["command"]
    (data_folder / "tiny.npz").unlink()
    assert CliRunner().invoke(app, recipe.split()[1:]).exit_code == 0
    assert same_states(load("tiny"), first)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"replicas": 0}, "the number of replicas must be an integer of at least 1, not 0"),
        ({"seed": -1}, "the seed must be an integer of at least 0, not -1"),
        ({"seed": 1.5}, "Invalid value for '--seed': Input should be a valid integer"),
        ({"replicas": "many"}, "Invalid value for '--replicas': Input should be a valid integer"),
        ({"per-replica": 61}, "61 states from a replica need as many particles"),
        ({"scheduler": "nowhere://x"}, "no Dask scheduler answers at nowhere://x"),
        ({"workers": 0}, "the number of threads must be an integer of at least 1, not 0"),
        ({"rule": "cone"}, "flock parameters: rule = 'cone'"),
        ({"eta": -1.0}, "flock parameters: eta = -1.0"),
        ({"eta": "nan"}, "flock parameters: eta = nan"),
        ({"r": 4.0}, "the cutoff 4 is larger than half the box, 3"),
        ({"rule": "cauchy"}, "the cutoff 8.955 is larger than half the box, 3"),
        ({"h": 0.2}, "h does not apply to the ball rule"),
        ({"n-particles": 0}, "flock parameters: n_particles = 0"),
        ({"truncate": 1.5}, "the dropped share must be at least 0 and below 1, not 1.5"),
        ({"name": "both"}, "give either --out FILE or --name DATA_SET"),
    ],
)
def test_simulate_refuses_in_one_line_and_leaves_nothing_behind(options, message, tmp_path):
    assert_refused(simulate(tmp_path / "z.npz", **options), message)
    assert list(tmp_path.iterdir()) == []


def test_simulate_refuses_places_that_cannot_be_written(tmp_path):
    assert_refused(simulate(tmp_path / "z.csv"), "the file of states must end in .npz")
    assert_refused(simulate(tmp_path / "no" / "z.npz"), "there is no folder")
    (tmp_path / "folder.npz").mkdir()
    assert_refused(simulate(tmp_path / "folder.npz"), "is a folder")
    assert_refused(run("simulate"), "give either --out FILE or --name DATA_SET")
    assert [path.name for path in tmp_path.iterdir()] == ["folder.npz"]


def test_simulate_refuses_to_mix_two_flocks(tmp_path, monkeypatch):
    monkeypatch.setattr(flock, "write_states", interrupt)
    simulate(tmp_path / "z.npz")
    monkeypatch.undo()
    assert_refused(simulate(tmp_path / "z.npz", eta=2.0), "holds replicas of another flock or seed")
    assert simulate(tmp_path / "z.npz").exit_code == 0


def interrupt(*args):
    raise KeyboardInterrupt


def test_simulate_extends_a_file_of_the_same_flock(tmp_path, monkeypatch):
    options = {"rule": "gaussian", "h": 0.4, "truncate": 0.01}
    simulate(tmp_path / "whole.npz", replicas=60, **options)
    simulate(tmp_path / "z.npz", replicas=30, **options)
    run_one, simulated = flock._sample_one, []
    monkeypatch.setattr(flock, "_sample_one", lambda *task: simulated.append(task[2]) or run_one(*task))
    assert simulate(tmp_path / "z.npz", replicas=60, **options).exit_code == 0
    assert sorted(simulated) == list(range(25, 60))
    assert same_states(read_states(tmp_path / "z.npz"), read_states(tmp_path / "whole.npz"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"eta": 2.0}, "holds states of another flock, seed or truncation"),
        ({"seed": 8}, "holds states of another flock, seed or truncation"),
        ({"truncate": 0.5}, "holds states of another flock, seed or truncation"),
        ({"per-replica": 2}, "holds states of another flock, seed or truncation"),
        ({"replicas": 29}, "holds 30 replicas already, more than 29"),
    ],
)
def test_simulate_leaves_another_file_as_it_is(options, message, tmp_path):
    simulate(tmp_path / "z.npz")
    before = (tmp_path / "z.npz").read_bytes()
    assert_refused(simulate(tmp_path / "z.npz", **options), message)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"z.npz": before}


def test_simulate_does_not_write_over_a_file_of_something_else(tmp_path):
    (tmp_path / "z.npz").write_text("do not lose")
    assert_refused(simulate(tmp_path / "z.npz"), "is damaged, or not a state file")
    assert (tmp_path / "z.npz").read_text() == "do not lose"


def test_a_killed_simulation_resumes_to_the_same_file(tmp_path):
    options = {"replicas": 60, "seed": 5, "n-particles": 800, "box": 20.0, "burn-in": 400, "workers": 1}
    words = command_line("simulate", out=tmp_path / "z.npz", **options)
    process = subprocess.Popen([sys.executable, "-m", "gradedsparse", *words], stderr=subprocess.DEVNULL)
    first_shard = tmp_path / "z.npz.replicas" / "000000-000024.npz"
    deadline = time.monotonic() + 60
    while not first_shard.exists() and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert first_shard.exists()
    assert not (tmp_path / "z.npz").exists()

    assert CliRunner().invoke(app, words).exit_code == 0
    parameters = flock.Parameters(n_particles=800, box=20.0, burn_in=400)
    expected = flock.sample_states(parameters, 60, seed=5, progress=False)
    assert same_states(read_states(tmp_path / "z.npz"), expected)
    assert [path.name for path in tmp_path.iterdir()] == ["z.npz"]


# --- certify and verify -----------------------------------------------------------------------------


def table_of(z, value="value"):
    labels = np.array([f"s{i}" for i in range(len(z))])
    columns = {"state": labels[z.owner], "weight": z.weights}
    values = z.values if z.values.ndim == 2 else z.values[:, None]
    names = [value] if values.shape[1] == 1 else [f"{value}{k}" for k in range(values.shape[1])]
    return columns | dict(zip(names, values.T, strict=True))


def write_table(path, table):
    if path.suffix == ".csv":
        pyarrow.csv.write_csv(pyarrow.table(table), path)
    elif path.suffix == ".parquet":
        pyarrow.parquet.write_table(pyarrow.table(table), path)
    else:
        np.savez(path, **table)
    return path


@pytest.fixture
def sample(rng):
    return random_states(rng, 24)


@pytest.fixture
def table_file(sample, tmp_path):
    return write_table(tmp_path / "states.csv", table_of(sample))


def printed_terms(result):
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


def assert_terms(terms, expected, kappa):
    for name in ("value", "w1", "lower", "concentration", "delta", "n_a", "n_b"):
        assert terms[name] == pytest.approx(getattr(expected, name), abs=1e-12)
    assert terms["kappa"] == pytest.approx(kappa)


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".npz"])
def test_certify_reads_tables_of_three_kinds(suffix, sample, tmp_path):
    path = write_table(tmp_path / f"states{suffix}", table_of(sample))
    terms = printed_terms(run("certify", path, "--json", seed=4))
    assert_terms(terms, certify(*certificate.halves(sample, 4)), np.pi)


def test_certify_reads_a_file_of_states(sample, tmp_path):
    write_states(tmp_path / "z.npz", sample)
    terms = printed_terms(run("certify", tmp_path / "z.npz", "--json"))
    assert_terms(terms, certify(*certificate.halves(read_states(tmp_path / "z.npz"), 0)), np.pi)


def test_certify_two_halves_in_a_ball_with_named_columns(rng, tmp_path):
    A, B = random_states(rng, 9, Ball(2, 0.5)), random_states(rng, 11, Ball(2, 0.5))
    first = write_table(tmp_path / "a.csv", table_of(A, "x"))
    second = write_table(tmp_path / "b.parquet", table_of(B, "x"))
    result = run("certify", first, second, "--json", "--value=x0", "--value=x1", space="ball", kappa=1.0, delta=0.2)
    assert_terms(printed_terms(result), certify(A, B, 0.2), 1.0)


def test_certify_says_what_it_found_in_one_paragraph(sample, table_file):
    result = run("certify", table_file)
    assert result.exit_code == 0
    assert result.stdout.strip() == certify(*certificate.halves(sample, 0)).summary()


def test_a_saved_certificate_is_verified_without_its_table(sample, table_file, tmp_path):
    assert run("certify", table_file, save=tmp_path / "claim.npz").exit_code == 0
    table_file.unlink()
    result = run("verify", tmp_path / "claim.npz")
    assert result.exit_code == 0
    expected = certify(*certificate.halves(sample, 0))
    assert result.stdout.startswith(f"verified: certificate {expected.value:.6f} kappa at delta = 0.05")
    assert "12 and 12 states" in result.stdout


def test_verify_refuses_a_changed_claim(table_file, tmp_path):
    run("certify", table_file, save=tmp_path / "claim.npz")
    with np.load(tmp_path / "claim.npz") as file:
        arrays = dict(file)
    np.savez(tmp_path / "claim.npz", **arrays | {"claim": arrays["claim"] * [0.9, 0.9, 1]})
    assert_refused(run("verify", tmp_path / "claim.npz"), "claim.npz is refused: the matching costs")


def test_verify_refuses_what_is_no_certificate(table_file, tmp_path):
    assert_refused(run("verify", table_file), "is damaged, or not a certificate file")
    assert_refused(run("verify", tmp_path / "none.npz"), "none.npz is missing")


BAD_TABLES = {
    "negative weight": ("state,weight,value\na,1,0\nb,-2,0\n", "state b (row 1), atom 0: weight is negative (-2.0)"),
    "missing weight": ("state,weight,value\na,1,0\nb,,0\n", "state b (row 1), atom 0: weight is not a number"),
    "missing state": ("state,weight,value\n1,1,0\n,1,0\n", "column 'state': row 1 does not say which state"),
    "text weight": ("state,weight,value\na,heavy,0\n", "column 'weight' must be an array of numbers"),
    "no weight": ("state,weight,value\na,1,0\nb,0,0\n", "state b (row 1): no positive weight"),
    "infinite value": ("state,weight,value\na,1,inf\n", "value is not finite"),
    "one state": ("state,weight,value\na,1,0\n", "two halves need at least 2 states; there are 1"),
    "no rows": ("state,weight,value\n", "two halves need at least 2 states; there are 0"),
    "no column": ("state,weight,angle\na,1,0\n", "no column 'value' in the table; it has state, weight, angle"),
    "ragged rows": ("state,weight,value\na,1,0\nb,2\n", "is not a .csv table"),
    "empty file": ("", "is not a .csv table"),
}


@pytest.mark.parametrize("case", BAD_TABLES)
def test_certify_refuses_bad_tables_in_one_line(case, tmp_path):
    text, message = BAD_TABLES[case]
    (tmp_path / "states.csv").write_text(text)
    assert_refused(run("certify", tmp_path / "states.csv", "--json", save=tmp_path / "claim.npz"), message)
    assert [path.name for path in tmp_path.iterdir()] == ["states.csv"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"delta": 0}, "delta must lie strictly between 0 and 1, not 0"),
        ({"delta": 1.5}, "delta must lie strictly between 0 and 1, not 1.5"),
        ({"seed": -1}, "the seed must be an integer of at least 0, not -1"),
        ({"space": "torus"}, "unknown space 'torus': it is 'circle' or 'ball'"),
        ({"space": "ball"}, "the ball needs its diameter: give --kappa"),
        ({"space": "ball", "kappa": 0.0}, "Ball: the radius must be positive"),
        ({"space": "ball", "kappa": 0.001}, "value lies outside the space"),
        ({"kappa": 2.0}, "kappa is pi, not 2"),
        ({"state": "group"}, "no column 'group' in the table"),
    ],
)
def test_certify_refuses_bad_options_in_one_line(options, message, table_file, tmp_path):
    assert_refused(run("certify", table_file, save=tmp_path / "claim.npz", **options), message)
    assert [path.name for path in tmp_path.iterdir()] == [table_file.name]


def garbage(path):
    path.write_bytes(bytes(range(256)) * 8)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("none.csv", "no such file"),
        ("states.txt", "a .csv, .parquet or .npz file is wanted"),
        ("states.npz", "is damaged, or not a table file"),
        ("states.parquet", "is not a .parquet table"),
        ("states.csv", "states.csv"),
    ],
)
def test_certify_refuses_files_that_are_no_tables(name, message, tmp_path):
    if name != "none.csv":
        garbage(tmp_path / name)
    assert_refused(run("certify", tmp_path / name), message)


def test_certify_refuses_columns_of_unequal_length(tmp_path):
    np.savez(tmp_path / "states.npz", state=[0, 0, 1], weight=[1, 1], value=[0, 0, 0])
    assert_refused(run("certify", tmp_path / "states.npz"), "column 'weight' has shape (2,)")


def test_certify_refuses_states_of_another_space(sample, tmp_path):
    write_states(tmp_path / "z.npz", sample)
    assert_refused(run("certify", tmp_path / "z.npz", space="ball", kappa=2.0), "holds states in Circle")
    assert sample.space == Circle()


def test_certify_refuses_a_place_for_the_certificate_before_the_work(table_file, tmp_path):
    assert_refused(run("certify", table_file, save=tmp_path / "no" / "claim.npz"), "there is no folder")
    assert_refused(run("certify", table_file, save=tmp_path), "is a folder")


# --- the program itself ------------------------------------------------------------------------------


def program(*words):
    return subprocess.run([sys.executable, "-m", "gradedsparse", *words], capture_output=True, text=True, check=False)


def test_the_program_shows_bad_input_without_a_traceback():
    result = program("certify", "none.csv")
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr == "gradedsparse: none.csv: no such file\n"


@pytest.mark.parametrize("command", ["simulate", "certify", "verify"])
def test_help_names_every_option(command):
    result = CliRunner().invoke(app, [command, "--help"], env={"COLUMNS": "200"})
    assert result.exit_code == 0
    expected = {"simulate": "--burn-in", "certify": "--delta", "verify": "certify --save"}
    assert expected[command] in result.stdout


def test_a_mistyped_option_is_refused_with_the_right_one():
    result = program("certify", "--detla", "0.1", "x.csv")
    assert result.returncode == 2
    assert "--delta" in result.stderr
    assert "Traceback" not in result.stderr
