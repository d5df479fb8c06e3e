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
from collections.abc import Iterator
from concurrent.futures import Executor, ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from tqdm import tqdm

from gradedsparse import _flock_kernel as kernel
from gradedsparse._arguments import require_integer, require_writable_path, thread_count
from gradedsparse.data import provenance, read_states, write_states
from gradedsparse.errors import GradedSparseError
from gradedsparse.mechanisms import mean_vector
from gradedsparse.profile import tails
from gradedsparse.spaces import Circle
from gradedsparse.states import WeightedMultisets, concatenate, require_share

NOISE_BLOCK = 100  # steps of noise drawn at a time; the draws do not depend on it
SHARD = 25  # replicas saved together
MANY = 100  # neighbours within the cutoff from which smaller cells pay
LARGEST_EXPONENT = 700.0  # of e, that fits a float
PATIENCE = 30  # seconds to wait for a Dask scheduler and its first worker
RESAMPLES = 200  # bootstrap samples behind the sampling error of k(p)

# The fields that each rule has, with their defaults; another rule's field is refused.
RULES = {
    "ball": {"r": 1.0},
    "bump": {"r_b": 1.4, "form": "squared"},
    "gaussian": {"h": 0.5, "dropped": 1e-4},
    "cauchy": {"h": 0.9, "a": 3.0, "dropped": 1e-4},
}
RULE_FIELDS = {field for fields in RULES.values() for field in fields}


class Parameters(BaseModel):
    """One flock: rule with its lengths, noise, size, speed, burn-in. Lengths are in units of the ball's default radius.

    The rules, with u = (r / r_b)^2, are

    - ``ball``: s(r) = 1 for r <= ``r``;
    - ``bump``: s(r) = 1 - u, (1 - u)^2, (1 - u)^3 or exp(1 - 1/(1 - u)) for r < ``r_b``, by ``form``;
    - ``gaussian``: s(r) = exp(-r^2 / (2 h^2)), cut off at `cutoff`;
    - ``cauchy``: s(r) = (1 + (r/h)^2)^-a, cut off at `cutoff`.

    A field of another rule is None, and refused when given. Raises GradedSparseError, one line, for that, an unknown
    name, a value out of range, or a cutoff above half the box.

    Attributes
    ----------
    rule
        ``ball``, ``bump``, ``gaussian`` or ``cauchy``
    r
        radius of the ball, 1 by default
    r_b, form
        radius of the bump, 1.4, and its form: ``linear``, ``squared`` (the default), ``cubed`` or ``exponential``
    h
        bandwidth, 0.5 for the Gaussian and 0.9 for the Cauchy rule
    a
        exponent of the Cauchy rule, above 1; 3
    dropped
        share of the total weight, at uniform density, that the cutoff of the Gaussian and Cauchy rules leaves out;
        with 0 they reach half the box, the farthest at which the nearest image of a particle is the only one
    eta
        width of the uniform noise on a heading, radians, in [0, 2 pi]
    n_particles, box
        number of particles and side of the periodic box
    speed
        distance covered in one step
    burn_in
        steps from the uniform start to the state that is kept
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    rule: Literal["ball", "bump", "gaussian", "cauchy"] = "ball"
    r: float | None = Field(None, gt=0, allow_inf_nan=False)
    r_b: float | None = Field(None, gt=0, allow_inf_nan=False)
    form: Literal["linear", "squared", "cubed", "exponential"] | None = None
    h: float | None = Field(None, gt=0, allow_inf_nan=False)
    a: float | None = Field(None, gt=1, allow_inf_nan=False)
    dropped: float | None = Field(None, ge=0, lt=1)
    eta: float = Field(1.2, ge=0, le=2 * math.pi)
    n_particles: int = Field(3200, ge=1, le=10_000_000, strict=True)
    box: float = Field(40.0, gt=0, allow_inf_nan=False)
    speed: float = Field(0.5, ge=0, allow_inf_nan=False)
    burn_in: int = Field(3000, ge=0, strict=True)

    def __init__(self, **fields):
        try:
            super().__init__(**fields)
        except ValidationError as error:
            raise GradedSparseError(_one_line(error)) from None

    @model_validator(mode="before")
    @classmethod
    def _has_the_fields_of_its_rule(cls, fields: dict) -> dict:
        rule = fields.get("rule", "ball")
        if rule not in RULES:
            return fields
        given = {name: value for name, value in fields.items() if value is not None}
        for name in given.keys() & RULE_FIELDS - RULES[rule].keys():
            raise ValueError(f"{name} does not apply to the {rule} rule")
        return RULES[rule] | given

    @model_validator(mode="after")
    def _fits_the_box(self):
        if self.cutoff > self.box / 2:
            raise ValueError(f"the cutoff {self.cutoff:.4g} is larger than half the box, {self.box / 2:.4g}")
        if self.speed > self.box / 2:
            raise ValueError(f"the speed {self.speed:.4g} is larger than half the box, {self.box / 2:.4g}")
        return self

    def described(self) -> dict:
        """The parameters as plain data, without the fields of other rules."""
        return self.model_dump(exclude_none=True)

    @property
    def cutoff(self) -> float:
        """The distance beyond which the selector is taken as zero.

        For the Gaussian h sqrt(2 ln(1/dropped)), for the Cauchy rule h sqrt(dropped^(-1/(a-1)) - 1).
        """
        if self.rule in ("ball", "bump"):
            return self.r or self.r_b
        if self.dropped == 0:
            return self.box / 2
        if self.rule == "gaussian":
            return self.h * math.sqrt(2 * math.log(1 / self.dropped))
        return self.h * math.sqrt(math.expm1(min(-math.log(self.dropped) / (self.a - 1), LARGEST_EXPONENT)))

    def selector(self, distance: np.ndarray) -> np.ndarray:
        """The weight s(r) of a neighbour at the given distances, zero beyond the cutoff."""
        distance = np.asarray(distance, float)
        return np.where(distance <= self.cutoff, self._weight(np.minimum(distance, self.cutoff)), 0.0)

    def _weight(self, distance: np.ndarray) -> np.ndarray:
        if self.rule == "ball":
            return np.ones_like(distance)
        if self.rule == "gaussian":
            return np.exp(-(distance**2) / (2 * self.h**2))
        if self.rule == "cauchy":
            return (1 + (distance / self.h) ** 2) ** -self.a
        rest = 1 - (distance / self.r_b) ** 2
        if self.form == "exponential":
            return np.exp(1 - 1 / np.maximum(rest, np.finfo(float).tiny))
        return rest ** {"linear": 1, "squared": 2, "cubed": 3}[self.form]


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
        return self.states([particle], moment)

    def states(self, particles, moment: int = -1) -> WeightedMultisets:
        """The states seen from the given particles, heaviest atoms first."""
        seen = [self._seen(particle, moment) for particle in particles]
        return WeightedMultisets.from_lists(*zip(*seen, strict=True), space=Circle())

    def far_apart(self, b: int, moment: int = -1) -> np.ndarray:
        """(b,) particles spread over the flock, particle 0 first.

        The particles are lined up along a path that sweeps the box in about sqrt(b) lanes, there and back, and every
        N/b-th is taken from particle 0 on. As particle 0 may stand anywhere in the line, each of the b is any particle
        with the same chance, so that a state seen from it has the law of a single one; picking by distance would
        favour the lonely. Neighbours in the choice are about box / sqrt(b) apart. Raises GradedSparseError unless b
        is an integer from 1 to N.
        """
        n = self.parameters.n_particles
        require_integer("the number of states from a replica", b, 1)
        if b > n:
            raise GradedSparseError(f"{b} states from a replica need as many particles, not {n}")
        x, y = self.positions[moment].T
        lane = np.floor(y * (round(math.sqrt(b)) / self.parameters.box)).astype(int)
        line = np.lexsort((np.where(lane % 2, -x, x), lane))
        start = np.flatnonzero(line == 0)[0]
        return line[(start + np.arange(b) * n // b) % n]

    def _seen(self, particle: int, moment: int) -> tuple[np.ndarray, np.ndarray]:
        gap = _separations(self.positions[moment], self.positions[moment, particle], self.parameters.box)
        weights = self.parameters.selector(gap)
        seen = np.flatnonzero(weights)
        seen = seen[np.lexsort((self.headings[moment, seen], -weights[seen]))]
        return weights[seen], self.headings[moment, seen]


class Planned(NamedTuple):
    """A data set of the study: its flock, the seed, the number of replicas and the weight share truncated."""

    parameters: Parameters
    seed: int
    replicas: int
    truncate: float

    @property
    def made_by(self) -> dict:
        """What `make_file` will record of it, but the code version."""
        return _run(self.parameters, self.seed, 1) | {"truncate": self.truncate, "replicas": self.replicas}


def _planned(seed: int, replicas: int, **fields) -> Planned:
    parameters = Parameters(**fields)
    return Planned(parameters, seed, replicas, 0.0 if parameters.rule == "ball" else 0.001)


# The data sets of the study by name, whether they are made yet or not; `recipe` gives the command for each.
STUDY = {
    "ball_eta1.2": _planned(1, 8000, eta=1.2),
    "ball_eta2.4": _planned(2, 8000, eta=2.4),
    "ball_eta3": _planned(3, 8000, eta=3.0),
    "ball_eta4": _planned(4, 8000, eta=4.0),
    "ball_eta5": _planned(5, 8000, eta=5.0),
    "gaussian_h0.125_eta1.2": _planned(6, 8000, rule="gaussian", h=0.125, eta=1.2),
    "gaussian_h0.18_eta1.2": _planned(13, 8000, rule="gaussian", h=0.18, eta=1.2),
    "gaussian_h0.25_eta1.2": _planned(14, 8000, rule="gaussian", h=0.25, eta=1.2),
    "gaussian_h0.35_eta1.2": _planned(15, 8000, rule="gaussian", h=0.35, eta=1.2),
    "gaussian_h0.5_eta1.2": _planned(7, 8000, rule="gaussian", h=0.5, eta=1.2),
    "bump_eta1.2": _planned(8, 4000, rule="bump", eta=1.2),
    "cauchy_eta1.2": _planned(9, 4000, rule="cauchy", eta=1.2),
    "gaussian_h0.5_eta2.4": _planned(10, 4000, rule="gaussian", h=0.5, eta=2.4),
    "bump_eta2.4": _planned(11, 4000, rule="bump", eta=2.4),
    "cauchy_eta2.4": _planned(12, 4000, rule="cauchy", eta=2.4),
}


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


def gate_share(z: WeightedMultisets, gate: float) -> float:
    """The share of the states whose local polarization is at least ``gate``; states on the circle."""
    return float(np.mean(polarization(z) >= gate))


class Estimate(NamedTuple):
    """A figure of a sample and its standard error; a format such as ``.2f`` writes both, with ± between."""

    value: float
    error: float

    def __format__(self, spec: str) -> str:
        return f"{self.value:{spec}} ± {self.error:{spec}}"


def observables(z: WeightedMultisets, gate: float, per_replica: int = 1) -> dict[str, Estimate]:
    """What the published tables tell of a flock, from its states on the circle, ``per_replica`` in a row from each
    replica.

    By the names of the published columns: ``count``, atoms besides the particle itself; ``polarization``, mean and
    local; ``gate``, the share of states whose polarization is at least ``gate``; ``k_1pct`` and ``k_01pct``, the least
    k whose mean tail is at most 1 % and 0.1 %. The replica is the unit of the errors: the spread of replica means, and
    for the two k a bootstrap over replicas. Raises GradedSparseError unless there are at least two replicas, whole.
    """
    require_integer("the number of states from a replica", per_replica, 1)
    replicas, rest = divmod(len(z), per_replica)
    if rest or replicas < 2:
        raise GradedSparseError(f"{len(z)} states are not those of two or more replicas with {per_replica} in each")

    def by_replica(figure: np.ndarray) -> np.ndarray:
        return figure.reshape(replicas, per_replica, -1).mean(axis=1)

    local = polarization(z)
    columns = {"count": counts(z), "polarization": local, "gate": local >= gate}
    found = {}
    for name, figure in columns.items():
        means = by_replica(figure)
        found[name] = Estimate(float(means.mean()), float(means.std(ddof=1) / math.sqrt(replicas)))
    tail = by_replica(tails(z))
    rng = np.random.default_rng(0)
    shares = [rng.multinomial(replicas, np.full(replicas, 1 / replicas)) / replicas for _ in range(RESAMPLES)]
    resampled = np.array([share @ tail for share in shares])
    for name, p in (("k_1pct", 0.01), ("k_01pct", 0.001)):
        spread = np.sum(resampled > p, axis=1).std(ddof=1)
        found[name] = Estimate(float(np.sum(tail.mean(axis=0) > p)), float(spread))
    return found


def final_orders(parameters: Parameters, replicas: int, seed: int, workers: int | None = None) -> np.ndarray:
    """The order of each of ``replicas`` independent flocks after the burn-in, (replicas,) in [0, 1].

    ``workers`` is the number of threads, all cores by default; the result does not depend on it. Raises as
    `sample_states` does.
    """
    _require_sample(parameters, replicas, seed, 1)
    with _executor(workers, None) as pool:
        return np.array(list(pool.map(lambda i: simulate(parameters, seed, i).order[-1], range(replicas))))


def advance(parameters: Parameters, x, y, c, s, noise) -> None:
    """Advance positions ``x, y`` and heading vectors ``c, s`` (N,) float32 in place, a step for each row of ``noise``
    (steps, N)."""
    rule = parameters
    density = rule.n_particles / rule.box**2
    reach = 1 if density * math.pi * rule.cutoff**2 < MANY else 3
    kernel.advance(x, y, c, s, noise, rule.box, rule.cutoff, rule.speed, *_kernel_weight(rule), reach)


def _kernel_weight(parameters: Parameters) -> tuple[int, float, float]:
    """The kernel's name for the selector: kind, rate of r^2, and the Cauchy rule's power."""
    match parameters.rule:
        case "ball":
            return kernel.BALL, 1.0, 0.0
        case "gaussian":
            return kernel.GAUSSIAN, 1 / (2 * parameters.h**2), 0.0
        case "cauchy":
            kind = kernel.CAUCHY_CUBED if parameters.a == 3 else kernel.CAUCHY
            return kind, 1 / parameters.h**2, parameters.a
    return getattr(kernel, f"BUMP_{parameters.form.upper()}"), 1 / parameters.r_b**2, 0.0


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
    per_replica: int = 1,
    scheduler: str | None = None,
) -> WeightedMultisets:
    """States from ``replicas`` independent flocks after the burn-in, ``per_replica`` from each, in order.

    One state a replica is what particle 0 sees; more are seen from particles that are `Flock.far_apart`, and are not
    independent. The states depend on the parameters and the seed only, whatever the number of ``workers`` (threads; all
    cores by default) or the machines of the Dask cluster whose ``scheduler`` has the given address. With ``save``, a
    folder, finished replicas are written there as the work goes on and are not run again when the call is repeated; a
    larger ``replicas`` extends the set. Raises GradedSparseError for counts that are not positive integers, a seed that
    is not a non-negative integer, a folder that holds another flock's replicas, and a scheduler that does not answer.
    """
    _require_sample(parameters, replicas, seed, per_replica)
    folder = Path(save) if save is not None else None
    return _sample(parameters, replicas, seed, workers, folder, progress, per_replica, scheduler)


def make_file(
    path: str | os.PathLike,
    parameters: Parameters,
    replicas: int,
    seed: int,
    truncate: float = 0.0,
    workers: int | None = None,
    per_replica: int = 1,
    scheduler: str | None = None,
) -> None:
    """Sample states into one file; finished replicas wait in the folder ``path`` + ``.replicas`` until all are there.

    ``truncate`` is the share of each state's weight that may be left out (see `WeightedMultisets.truncate`), the other
    arguments are those of `sample_states`. The file records parameters, seed, replicas and code version. A file of
    fewer replicas of the same flock is extended. Raises as `sample_states` does, and for a file that holds anything
    else, before anything is written.
    """
    path = Path(path)
    if path.suffix != ".npz":
        raise GradedSparseError(f"{path}: the file of states must end in .npz")
    require_writable_path(path)
    require_share(truncate)
    _require_sample(parameters, replicas, seed, per_replica)
    run = _run(parameters, seed, per_replica) | {"truncate": truncate}
    known = _known_states(path, run, replicas) if path.exists() else None
    folder = path.with_name(path.name + ".replicas")
    states = _sample(parameters, replicas, seed, workers, folder, True, per_replica, scheduler, known)
    made_by = run | {"replicas": replicas, "version": version("gradedsparse")}
    write_states(path, states.truncate(truncate) if truncate else states, made_by)
    shutil.rmtree(folder)


def recipe(name: str, made_by: dict) -> str:
    """The command that makes the data set ``name``, from what `make_file` recorded in its file."""
    options = {"name": name, "replicas": made_by["replicas"], "seed": made_by["seed"]}
    options |= {"per-replica": made_by["per_replica"]} | made_by["parameters"] | {"truncate": made_by["truncate"]}
    return "gradedsparse simulate " + " ".join(f"--{key.replace('_', '-')} {value}" for key, value in options.items())


def _require_sample(parameters: Parameters, replicas: int, seed: int, per_replica: int) -> None:
    require_integer("the number of replicas", replicas, 1)
    require_integer("the seed", seed, 0)
    require_integer("the number of states from a replica", per_replica, 1)
    if per_replica > parameters.n_particles:
        raise GradedSparseError(f"{per_replica} states from a replica need as many particles")


def _sample(
    parameters: Parameters,
    replicas: int,
    seed: int,
    workers: int | None,
    folder: Path | None,
    progress: bool,
    per_replica: int,
    scheduler: str | None,
    known: WeightedMultisets | None = None,
) -> WeightedMultisets:
    """`sample_states` of checked arguments; ``known`` are the states of the first replicas, if they exist already."""
    with _executor(workers, scheduler) as pool:
        if folder:
            _open_folder(folder, _run(parameters, seed, per_replica))
        shards = [range(first, min(first + SHARD, replicas)) for first in range(0, replicas, SHARD)]
        parts, missing = {}, {}
        for shard in shards:
            if known is not None and shard.stop * per_replica <= len(known):
                parts[shard] = known[shard.start * per_replica : shard.stop * per_replica]
            elif folder and (path := _shard_path(folder, shard)).exists():
                parts[shard] = read_states(path)
            else:
                missing |= dict.fromkeys(shard, shard)
        with tqdm(total=replicas, initial=replicas - len(missing), unit="replica", disable=not progress) as bar:
            running = {pool.submit(_sample_one, parameters, seed, i, per_replica): i for i in missing}
            done = {}
            for replica in as_completed(running):
                done[running[replica]] = replica.result()
                bar.update()
                shard = missing[running[replica]]
                if all(i in done for i in shard):
                    parts[shard] = concatenate([done.pop(i) for i in shard])
                    if folder:
                        write_states(_shard_path(folder, shard), parts[shard])
    return concatenate([parts[shard] for shard in shards])


@contextmanager
def _executor(workers: int | None, scheduler: str | None) -> Iterator[Executor]:
    """Where replicas run: threads here, or the Dask cluster of a scheduler. What has not begun is cancelled on an
    error."""
    if scheduler is None:
        with ThreadPoolExecutor(thread_count(workers)) as pool:
            try:
                yield pool
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise
        return
    if workers is not None:
        raise GradedSparseError("give either a number of threads or a scheduler, whose cluster has its own")
    try:
        from dask.distributed import Client
    except ImportError:
        raise GradedSparseError("a Dask cluster needs: pip install 'gradedsparse[cluster]'") from None
    try:
        client = Client(scheduler, timeout=PATIENCE, set_as_default=False)
    except (OSError, ValueError) as error:
        raise GradedSparseError(f"no Dask scheduler answers at {scheduler} ({error})") from None
    with client:
        try:
            client.wait_for_workers(1, timeout=PATIENCE)
        except TimeoutError:
            raise GradedSparseError(f"the Dask scheduler at {scheduler} has no workers") from None
        yield client.get_executor(pure=False)


def _sample_one(parameters: Parameters, seed: int, replica: int, per_replica: int) -> WeightedMultisets:
    """The states of one replica, in the single precision of a file."""
    flock = simulate(parameters, seed, replica)
    z = flock.states(flock.far_apart(per_replica))
    weights, values = (array.astype(np.float32).astype(float) for array in (z.weights, z.values))
    return WeightedMultisets(z.offsets, weights, values, z.space)


def _shard_path(folder: Path, shard: range) -> Path:
    return folder / f"{shard.start:06d}-{shard.stop - 1:06d}.npz"


def _run(parameters: Parameters, seed: int, per_replica: int) -> dict:
    """What decides the states of a replica of given index."""
    return {"parameters": parameters.described(), "seed": seed, "per_replica": per_replica}


def _open_folder(folder: Path, run: dict) -> None:
    """Make the folder for this run, or check that it holds replicas of the same one."""
    label = folder / "run.json"
    if label.exists():
        try:
            same = json.loads(label.read_text()) == run
        except ValueError:
            same = False
        if not same:
            raise GradedSparseError(
                f"{folder} holds replicas of another flock or seed ({label}); choose another folder"
            )
    elif folder.exists() and any(folder.iterdir()):
        raise GradedSparseError(f"{folder} is not empty and holds no replicas; choose another folder")
    else:
        folder.mkdir(parents=True, exist_ok=True)
        label.write_text(json.dumps(run, indent=1))


def _known_states(path: Path, run: dict, replicas: int) -> WeightedMultisets:
    """The states of a file that the same run made with at most as many replicas."""
    made_by = provenance(path)
    if {name: made_by.get(name) for name in run} != run:
        raise GradedSparseError(f"{path} holds states of another flock, seed or truncation; choose another file")
    if made_by["replicas"] > replicas:
        raise GradedSparseError(f"{path} holds {made_by['replicas']} replicas already, more than {replicas}")
    return read_states(path)


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
