"""Data sets: files of states, the manifest that says how each was made, and loading by name."""

from __future__ import annotations

import hashlib
import json
import os
import zipfile
import zlib
from functools import cache
from pathlib import Path

import numpy as np
import yaml

from gradedsparse.errors import GradedSparseError
from gradedsparse.spaces import Ball, Circle, Discrete, Finite, Space
from gradedsparse.states import WeightedMultisets

FILE_FORMAT = 1
STATE_KEYS = {"format", "space", "sizes", "values", "made_by"}
UNREADABLE = (OSError, ValueError, EOFError, zipfile.BadZipFile, zlib.error)


def directory() -> Path:
    """The folder with the data sets: ``GRADEDSPARSE_DATA`` if set, else the one that came with the package or the
    checkout."""
    if "GRADEDSPARSE_DATA" in os.environ:
        return Path(os.environ["GRADEDSPARSE_DATA"])
    package = Path(__file__).resolve().parent
    installed = package / "data_files"
    return installed if installed.is_dir() else package.parents[1] / "data"


def load(name: str) -> WeightedMultisets:
    """The states of a committed data set, by its name in the manifest, e.g. ``ball_eta1.2``.

    Raises GradedSparseError for an unknown name, and for a file that is missing or does not have the manifest's
    checksum.
    """
    check(name)
    return read_states(directory() / manifest()[name]["file"])


def check(name: str) -> dict:
    """The manifest entry of a data set whose file is there and undamaged.

    Raises GradedSparseError, with the file and the command that remakes it, otherwise.
    """
    entries = manifest()
    if name not in entries:
        raise GradedSparseError(f"no data set {name!r}; there are {', '.join(entries) or 'none'}")
    entry = entries[name]
    path = directory() / entry["file"]
    remake = f"remake it with: {entry['command']}"
    if not path.is_file():
        raise GradedSparseError(f"data set {name!r}: {path} is missing; {remake}")
    if file_sha256(path) != entry["sha256"]:
        raise GradedSparseError(f"data set {name!r}: {path} is damaged (its checksum is not the manifest's); {remake}")
    return entry


def manifest() -> dict[str, dict]:
    """The manifest: data set name -> file, sha256, bytes, states, atoms, command, made_by (parameters, seed, code
    version)."""
    path = directory() / "manifest.yaml"
    if not path.is_file():
        raise GradedSparseError(f"{path} is missing: set GRADEDSPARSE_DATA to the project's data folder")
    try:
        entries = yaml.safe_load(path.read_text()) or {}
        whole = all({"file", "sha256", "command"} <= entry.keys() for entry in entries.values())
    except (yaml.YAMLError, AttributeError):
        whole = False
    if not whole:
        raise GradedSparseError(f"{path} is damaged: every data set needs its file, sha256 and command")
    return entries


def register(name: str, command: str) -> dict:
    """Write the manifest entry of ``data/NAME.npz`` from the file itself and the command that made it; return the
    entry."""
    path = directory() / f"{name}.npz"
    states = read_states(path)
    entry = {
        "file": path.name,
        "sha256": file_sha256(path),
        "bytes": path.stat().st_size,
        "states": len(states),
        "atoms": len(states.weights),
        "command": command,
        "made_by": provenance(path),
    }
    target = directory() / "manifest.yaml"
    entries = manifest() if target.is_file() else {}
    entries[name] = entry
    part = target.with_suffix(".part")
    part.write_text(yaml.safe_dump(dict(sorted(entries.items())), sort_keys=False, width=120))
    os.replace(part, target)
    return entry


def write_states(path: str | os.PathLike, states: WeightedMultisets, made_by: dict | None = None) -> None:
    """Write states to one compressed file, in single precision; ``made_by`` is kept with them. Whole or not at all.

    Weights are left out when all are 1, dropped weights when all are 0.
    """
    path = Path(path)
    largest = int(states.sizes.max(initial=0))
    arrays = {
        "format": np.array(FILE_FORMAT),
        "space": np.array(json.dumps(describe_space(states.space))),
        "sizes": states.sizes.astype(np.min_scalar_type(largest)),
        "values": states.values.astype(np.float32),
        "made_by": np.array(json.dumps(made_by or {})),
    }
    if np.any(states.weights != 1):
        arrays["weights"] = states.weights.astype(np.float32)
    if np.any(states.dropped != 0):
        arrays["dropped"] = states.dropped.astype(np.float32)
    part = path.with_name(path.name + ".part")
    with open(part, "wb") as file:
        np.savez_compressed(file, **arrays)
    os.replace(part, path)


def read_states(path: str | os.PathLike) -> WeightedMultisets:
    """The states of a file that `write_states` made. Raises GradedSparseError when it is missing, damaged or another
    file."""
    arrays = _open_states(path)
    sizes = arrays["sizes"].astype(np.int64)
    values = arrays["values"].astype(np.float64)
    weights = arrays["weights"].astype(np.float64) if "weights" in arrays else np.ones(len(values))
    dropped = arrays["dropped"].astype(np.float64) if "dropped" in arrays else np.zeros(len(sizes))
    if np.any(sizes < 1) or not len(values) == len(weights) == sizes.sum() or len(dropped) != len(sizes):
        raise GradedSparseError(f"{path} is damaged: {sizes.sum()} atoms announced, {len(values)} found")
    try:
        space = space_described(json.loads(str(arrays["space"])))
    except ValueError as error:
        raise GradedSparseError(f"{path} is damaged: its space cannot be read ({error})") from None
    return WeightedMultisets(np.concatenate([[0], np.cumsum(sizes)]), weights, values, space, dropped)


def provenance(path: str | os.PathLike) -> dict:
    """How a file of states was made, as its maker recorded it."""
    return json.loads(str(_open_states(path)["made_by"]))


def file_sha256(path: str | os.PathLike) -> str:
    """The SHA-256 of a file, in hex."""
    stat = os.stat(path)
    return _sha256(os.fspath(path), stat.st_mtime_ns, stat.st_size)


@cache
def _sha256(path: str, mtime_ns: int, size: int) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def is_state_file(path: str | os.PathLike) -> bool:
    """Whether a file has the parts that `write_states` writes."""
    try:
        with np.load(path, allow_pickle=False) as file:
            return set(file.files) >= STATE_KEYS
    except UNREADABLE:
        return False


def open_arrays(path: str | os.PathLike, keys: set[str], kind: str) -> dict[str, np.ndarray]:
    """The arrays of an npz file that must have the given keys. Raises GradedSparseError, naming the kind of file,
    otherwise."""
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {key: file[key] for key in file.files}
    except FileNotFoundError:
        raise GradedSparseError(f"{path} is missing") from None
    except UNREADABLE:
        raise GradedSparseError(f"{path} is damaged, or not a {kind} file") from None
    if missing := keys - arrays.keys():
        raise GradedSparseError(f"{path} is not a {kind} file: it lacks {', '.join(sorted(missing))}")
    return arrays


def _open_states(path: str | os.PathLike) -> dict[str, np.ndarray]:
    arrays = open_arrays(path, STATE_KEYS, "state")
    if int(arrays["format"]) != FILE_FORMAT:
        raise GradedSparseError(f"{path} has file format {arrays['format']}; this version reads {FILE_FORMAT}")
    return arrays


def describe_space(space: Space) -> dict:
    """A value space as plain data, to keep in a file. Raises GradedSparseError for a user's metric: it is code."""
    match space:
        case Circle():
            return {"name": "circle"}
        case Ball():
            return {"name": "ball", "dimension": space.dimension, "radius": space.radius}
        case Discrete():
            return {"name": "discrete"}
        case Finite():
            return {"name": "finite", "distances": space.distances.tolist(), "kappa": space.kappa}
    raise GradedSparseError(f"{space} is given by a function, which no file can keep")


def space_described(description: dict) -> Space:
    """The value space that `describe_space` wrote down. Raises GradedSparseError when it describes none."""
    match description:
        case {"name": "circle"}:
            return Circle()
        case {"name": "ball", "dimension": dimension, "radius": float() | int() as radius}:
            return Ball(dimension, radius)
        case {"name": "discrete"}:
            return Discrete()
        case {"name": "finite", "distances": list() as distances, "kappa": float() as kappa}:
            return Finite(np.array(distances), kappa)
    raise GradedSparseError(f"{description!r} describes no value space")
