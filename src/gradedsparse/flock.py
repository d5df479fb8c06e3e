"""The Vicsek flock of the study: parameters, selectors, simulation, and the states that its particles see.

N particles at unit speed step move in a periodic box. At each step every particle takes the direction of the weighted
sum of the headings around it, the weight given by the selector s(r), turns by uniform noise, and moves along its new
heading (theory, section 5).
"""

from __future__ import annotations

import difflib
import json
import math
import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from tqdm import tqdm

from gradedsparse import _flock_kernel as kernel
from gradedsparse._arguments import require_integer, require_writable_path, thread_count
from gradedsparse.data import read_states, write_states
from gradedsparse.errors import GradedSparseError
from gradedsparse.mechanisms import mean_vector
from gradedsparse.states import Circle, WeightedMultisets, concatenate, require_share

NOISE_BLOCK = 100  # steps of noise drawn at a time; the draws do not depend on it
SHARD = 25  # replicas saved together

RULES = {"ball": kernel.BALL, "gaussian": kernel.GAUSSIAN}


class Parameters(BaseModel):
    """One flock: rule and its length, noise, size, speed, burn-in. Lengths are in the units of the ball's default
    radius.

    Raises GradedSparseError, one line, for an unknown name, a value out of range, or a cutoff above half the box.

    Attributes
    ----------
    rule
        ``ball``, s(r) = 1 for r <= ``r``; or ``gaussian``, s(r) = exp(-r^2 / (2 h^2)), cut off at `cutoff`
    eta
        width of the uniform noise on a heading, radians, in [0, 2 pi]
    n_particles, box
        number of particles and side of the periodic box
    speed
        distance covered in one step
    burn_in
        steps from the uniform start to the state that is kept
    dropped
        share of the Gaussian's total weight (at uniform density) that its cutoff leaves out
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    rule: Literal["ball", "gaussian"] = "ball"
    r: float = Field(1.0, gt=0, allow_inf_nan=False)
    h: float = Field(0.5, gt=0, allow_inf_nan=False)
    eta: float = Field(1.2, ge=0, le=2 * math.pi)
    n_particles: int = Field(3200, ge=1, le=10_000_000, strict=True)
    box: float = Field(40.0, gt=0, allow_inf_nan=False)
    speed: float = Field(0.5, ge=0, allow_inf_nan=False)
    burn_in: int = Field(3000, ge=0, strict=True)
    dropped: float = Field(1e-4, gt=0, lt=1)

    def __init__(self, **fields):
        try:
            super().__init__(**fields)
        except ValidationError as error:
            raise GradedSparseError(_one_line(error)) from None

    @model_validator(mode="after")
    def _fits_the_box(self):
        if self.cutoff > self.box / 2:
            raise ValueError(f"the cutoff {self.cutoff:.4g} is larger than half the box, {self.box / 2:.4g}")
        if self.speed > self.box / 2:
            raise ValueError(f"the speed {self.speed:.4g} is larger than half the box, {self.box / 2:.4g}")
        return self

    @property
    def cutoff(self) -> float:
        """The distance beyond which the selector is taken as zero: r, or h sqrt(2 ln(1/dropped))."""
        return self.r if self.rule == "ball" else self.h * math.sqrt(2 * math.log(1 / self.dropped))

    def selector(self, distance: np.ndarray) -> np.ndarray:
        """The weight s(r) of a neighbour at the given distances, zero beyond the cutoff."""
        distance = np.asarray(distance, float)
        weight = np.ones_like(distance) if self.rule == "ball" else np.exp(-(distance**2) / (2 * self.h**2))
        return np.where(distance <= self.cutoff, weight, 0.0)


@dataclass(frozen=True)
class Flock:
    """A flock at one or more moments: ``times`` (t,), ``positions`` (t, N, 2) in [0, box), ``headings`` (t, N) in
    radians."""

    parameters: Parameters
    times: np.ndarray
    positions: np.ndarray
    headings: np.ndarray

    @property
    def order(self) -> np.ndarray:
        """(t,) the global polarization, the length of the mean of e^{i theta} over all particles, in [0, 1]."""
        return np.abs(np.exp(1j * self.headings).mean(axis=1))

    def state(self, particle: int = 0, moment: int = -1) -> WeightedMultisets:
        """The state seen from one particle: weights s(distance to j), values theta_j, itself included."""
        return WeightedMultisets.from_lists(*zip(self._seen(particle, moment), strict=True), space=Circle())

    def _seen(self, particle: int, moment: int) -> tuple[np.ndarray, np.ndarray]:
        gap = _separations(self.positions[moment], self.positions[moment, particle], self.parameters.box)
        weights = self.parameters.selector(gap)
        seen = np.flatnonzero(weights)
        seen = seen[np.lexsort((self.headings[moment, seen], -weights[seen]))]
        return weights[seen], self.headings[moment, seen]


def simulate(
    parameters: Parameters,
    seed: int,
    replica: int = 0,
    steps: int | None = None,
    every: int | None = None,
) -> Flock:
    """Run one replica from its random start; the result depends on the parameters, the seed and the replica's index
    only.

    ``steps`` defaults to the burn-in. With ``every`` the flock is kept at times 0, every, 2 every, ... and at the
    end, else at the end alone; particles keep their index. Raises GradedSparseError for a seed or index that is not a
    non-negative integer, or a negative number of steps.
    """
    require_integer("the seed", seed, 0)
    require_integer("the replica's index", replica, 0)
    steps = parameters.burn_in if steps is None else steps
    require_integer("the number of steps", steps, 0)
    if every is not None:
        require_integer("every", every, 1)
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(replica,)))
    n = parameters.n_particles
    side = np.float32(parameters.box)
    x, y = rng.random(n, dtype=np.float32) * side, rng.random(n, dtype=np.float32) * side
    c, s = np.empty(n, np.float32), np.empty(n, np.float32)
    kernel.unit_vectors((rng.random(n, dtype=np.float32) - np.float32(0.5)) * np.float32(2 * np.pi), c, s)

    moments = sorted({*range(0, steps + 1, every), steps}) if every else [steps]
    frames = []
    now = 0
    for moment in moments:
        while now < moment:
            block = min(NOISE_BLOCK, moment - now)
            noise = (rng.random((block, n), dtype=np.float32) - np.float32(0.5)) * np.float32(parameters.eta)
            advance(parameters, x, y, c, s, noise)
            now += block
        frames.append((np.column_stack([x, y]), np.arctan2(s.astype(float), c.astype(float))))
    positions, headings = (np.array(part) for part in zip(*frames, strict=True))
    return Flock(parameters, np.array(moments), positions.astype(float), headings)


def polarization(z: WeightedMultisets) -> np.ndarray:
    """The local polarization of every state, ``|sum mu_i e^{i theta_i}|``, as (n,) float64 in [0, 1]; states on the
    circle."""
    return np.linalg.norm(mean_vector(z), axis=1)


def counts(z: WeightedMultisets) -> np.ndarray:
    """The number of neighbours other than the particle itself in every state of a ball flock, (n,) int64."""
    return z.sizes - 1


def advance(parameters: Parameters, x, y, c, s, noise) -> None:
    """Advance positions ``x, y`` and heading vectors ``c, s`` (N,) float32 in place, a step for each row of ``noise``
    (steps, N)."""
    kernel.advance(
        x, y, c, s, noise, parameters.box, parameters.cutoff, parameters.speed, RULES[parameters.rule],
        1 / (2 * parameters.h**2),
    )  # fmt: skip


def advance_reference(parameters: Parameters, positions, headings, noise) -> tuple[np.ndarray, np.ndarray]:
    """One step in plain NumPy and double precision over all pairs: the formula that the compiled kernel must agree
    with.

    positions (N, 2), headings (N,), noise (N,) radians -> positions (N, 2), headings (N,).
    """
    gaps = np.array([_separations(positions, here, parameters.box) for here in positions])
    mean = parameters.selector(gaps) @ np.exp(1j * headings)
    headings = np.angle(mean) + noise
    step = parameters.speed * np.column_stack([np.cos(headings), np.sin(headings)])
    return np.mod(positions + step, parameters.box), headings


def sample_states(
    parameters: Parameters,
    replicas: int,
    seed: int,
    workers: int | None = None,
    save: str | os.PathLike | None = None,
    progress: bool = True,
) -> WeightedMultisets:
    """One state from each of ``replicas`` independent flocks: what particle 0 sees after the burn-in.

    The states depend on the parameters and the seed only, whatever the number of ``workers`` (threads; all cores by
    default). With ``save``, a folder, finished replicas are written there as the work goes on and are not run again
    when the call is repeated; a larger ``replicas`` extends the set. Raises GradedSparseError for counts that are not
    positive integers, a seed that is not a non-negative integer, and a folder that holds another flock's replicas.
    """
    require_integer("the number of replicas", replicas, 1)
    require_integer("the seed", seed, 0)
    threads = thread_count(workers)
    folder = _open_folder(Path(save), parameters, seed) if save is not None else None
    shards = [range(first, min(first + SHARD, replicas)) for first in range(0, replicas, SHARD)]
    parts = {shard: read_states(path) for shard in shards if folder and (path := _shard_path(folder, shard)).exists()}
    missing = [shard for shard in shards if shard not in parts]
    done = sum(map(len, parts))
    with (
        ThreadPoolExecutor(threads) as pool,
        tqdm(total=replicas, initial=done, unit="replica", disable=not progress) as bar,
    ):
        try:
            running = {shard: [pool.submit(_sample_one, parameters, seed, i) for i in shard] for shard in missing}
            for shard in missing:
                seen = []
                for replica in running.pop(shard):
                    seen.append(replica.result())
                    bar.update()
                parts[shard] = WeightedMultisets.from_lists(*zip(*seen, strict=True), space=Circle())
                if folder:
                    write_states(_shard_path(folder, shard), parts[shard])
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    return concatenate([parts[shard] for shard in shards])


def make_file(
    path: str | os.PathLike,
    parameters: Parameters,
    replicas: int,
    seed: int,
    truncate: float = 0.0,
    workers: int | None = None,
) -> None:
    """Sample states into one file; finished replicas wait in the folder ``path`` + ``.replicas`` until all are there.

    ``truncate`` is the share of each state's weight that may be left out (see `WeightedMultisets.truncate`). The file
    records parameters, seed, replicas and code version. Raises as `sample_states` does, before anything is written.
    """
    path = Path(path)
    if path.suffix != ".npz":
        raise GradedSparseError(f"{path}: the file of states must end in .npz")
    require_writable_path(path)
    require_share(truncate)
    folder = path.with_name(path.name + ".replicas")
    states = sample_states(parameters, replicas, seed, workers, save=folder)
    made_by = {
        "parameters": parameters.model_dump(),
        "seed": seed,
        "replicas": replicas,
        "truncate": truncate,
        "version": version("gradedsparse"),
    }
    write_states(path, states.truncate(truncate) if truncate else states, made_by)
    shutil.rmtree(folder)


def _sample_one(parameters: Parameters, seed: int, replica: int) -> tuple[np.ndarray, np.ndarray]:
    weights, values = simulate(parameters, seed, replica)._seen(0, -1)
    return weights.astype(np.float32), values.astype(np.float32)


def _shard_path(folder: Path, shard: range) -> Path:
    return folder / f"{shard.start:06d}-{shard.stop - 1:06d}.npz"


def _open_folder(folder: Path, parameters: Parameters, seed: int) -> Path:
    """Make the folder for this run, or check that it holds replicas of the same one."""
    label = folder / "run.json"
    run = json.dumps({"parameters": parameters.model_dump(), "seed": seed}, indent=1)
    if label.exists():
        if label.read_text() != run:
            raise GradedSparseError(
                f"{folder} holds replicas of another flock or seed ({label}); choose another folder"
            )
    elif folder.exists() and any(folder.iterdir()):
        raise GradedSparseError(f"{folder} is not empty and holds no replicas; choose another folder")
    else:
        folder.mkdir(parents=True, exist_ok=True)
        label.write_text(run)
    return folder


def _separations(positions: np.ndarray, here: np.ndarray, box: float) -> np.ndarray:
    """Distances (N,) of ``positions`` (N, 2) from the point ``here`` in the periodic box."""
    gap = np.abs(positions - here)
    return np.hypot(*np.minimum(gap, box - gap).T)


def _one_line(error: ValidationError) -> str:
    first = error.errors()[0]
    name = ".".join(map(str, first["loc"]))
    if first["type"] == "extra_forbidden":
        near = difflib.get_close_matches(name, Parameters.model_fields, 1)
        return f"flock parameters: unknown {name!r}" + (f"; did you mean {near[0]!r}?" if near else "")
    message = first["msg"].removeprefix("Value error, ")
    place = f"{name} = {first['input']!r}: " if name else ""
    return f"flock parameters: {place}{message}"
