"""Speed of the flock beside other codes, and agreement of its physics with the plain version.

    python benchmarks/flock.py                      the speed table, about three minutes
    python benchmarks/flock.py --physics            observables at five noises, about ten minutes
    python benchmarks/flock.py --quick [--physics]  the same on less, well under a minute
    python benchmarks/flock.py --cpp DIR            and a clone of jordi-torrents/speed_comparison_on_vicsek

pyvicsek is measured when it is installed (pip install pyvicsek). Only the ratios of one run mean anything: machines
differ, and so does the same machine from one hour to the next. Every figure is the best of several turns that the codes
take in rotation, on one thread, on flocks that have settled.
"""

import argparse
import math
import os
import subprocess
import tempfile
import time
from pathlib import Path

import numpy as np
import plain_flock

from gradedsparse import flock
from gradedsparse.flock import Parameters

FLOCKS = {
    "ball, eta = 1.2": Parameters(eta=1.2),
    "ball, eta = 3": Parameters(eta=3.0),
    "bump, eta = 1.2": Parameters(rule="bump"),
    "Gaussian h = 0.125, eta = 1.2": Parameters(rule="gaussian", h=0.125),
    "Gaussian h = 0.5, eta = 1.2": Parameters(rule="gaussian"),
    "Cauchy, eta = 1.2": Parameters(rule="cauchy"),
}
NOISES = (1.2, 2.4, 3.0, 4.0, 5.0)
SIZES = (800, 3200, 12_800, 51_200)
CPP_NOISES = 21  # the C++ program sweeps this many noises from 0 to 2 pi


def main() -> None:
    """Read the options and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="less of everything")
    parser.add_argument("--physics", action="store_true", help="compare observables instead of speed")
    parser.add_argument("--cpp", type=Path, metavar="DIR", help="a clone of the public C++ code")
    options = parser.parse_args()
    if options.physics:
        print_physics(replicas=8 if options.quick else 40, particles=800 if options.quick else 3200)
    else:
        print_speed(0.15 if options.quick else 1.0, 2 if options.quick else 4, options.cpp)
        print_threads(8 if options.quick else 24)
        print_sizes(0.2 if options.quick else 1.0)


# --- speed --------------------------------------------------------------------------------------------


def print_speed(seconds: float, turns: int, cpp: Path | None) -> None:
    """Million particle updates per second on one thread: ours, the others, and the ratio to the fastest of them."""
    program = built(cpp) if cpp else None
    print(f"{'flock':32}{'ours':>8}{'plain':>8}{'pyvicsek':>10}{'C++':>8}{'ratio':>8}   million updates/s, one thread")
    for label, parameters in FLOCKS.items():
        codes = {"ours": ours(parameters), "plain": plain(parameters)}
        if parameters.rule == "ball":
            codes |= {"pyvicsek": pyvicsek(parameters), "C++": program and cpp_run(program, parameters)}
        rates = {name: 0.0 for name, run in codes.items() if run}
        for _ in range(turns):
            for name in rates:
                rates[name] = max(rates[name], rate(codes[name], seconds))
        fastest = max(value for name, value in rates.items() if name != "ours")
        cells = [f"{rates[name] / 1e6:.2f}" if name in rates else "-" for name in ("ours", "plain", "pyvicsek", "C++")]
        print("{:32}{:>8}{:>8}{:>10}{:>8}".format(label, *cells) + f"{rates['ours'] / fastest:>8.1f}", flush=True)


def rate(run, seconds: float) -> float:
    """The best number of updates a second of ``run``, a function that makes some and returns their number."""
    best, end = 0.0, time.perf_counter() + seconds
    while True:
        start = time.perf_counter()
        updates = run()
        now = time.perf_counter()
        best = max(best, updates / (now - start))
        if now > end:
            return best


def settled(parameters: Parameters):
    """Positions (N, 2) and headings (N,) of a flock after some hundred steps."""
    frame = flock.simulate(parameters, seed=1, steps=400)
    return frame.positions[-1], frame.headings[-1]


def ours(parameters: Parameters):
    """50 steps of the library, noise included."""
    positions, headings = settled(parameters)
    x, y = positions.T.astype(np.float32).copy()
    c, s = np.cos(headings).astype(np.float32), np.sin(headings).astype(np.float32)
    rng = np.random.default_rng(1)

    def run() -> int:
        noise = (rng.random((50, len(x)), dtype=np.float32) - np.float32(0.5)) * np.float32(parameters.eta)
        flock.advance(parameters, x, y, c, s, noise)
        return noise.size

    return run


def plain(parameters: Parameters):
    """Ten steps of the plain version, noise included."""
    positions, headings = settled(parameters)
    rng = np.random.default_rng(1)

    def run() -> int:
        plain_flock.advance(parameters, positions, headings, 10, rng)
        return 10 * len(headings)

    run()
    return run


def pyvicsek(parameters: Parameters):
    """Ten steps of pyvicsek, whose noise is a vector instead of an angle; None where it is not installed."""
    try:
        from vicsek.models.particle import Particle
        from vicsek.models.vicsek import Vicsek
    except ImportError:
        return None
    positions, headings = settled(parameters)
    vectors = parameters.speed * np.column_stack([np.cos(headings), np.sin(headings)])
    particles = [Particle(position, vector, "", "") for position, vector in zip(positions, vectors, strict=True)]
    model = Vicsek(parameters.box, particles, parameters.r, parameters.speed, parameters.eta / (2 * math.pi), seed=1)

    def run() -> int:
        for _ in range(10):
            model.step()
        return 10 * len(headings)

    return run


def built(clone: Path) -> str:
    """The C++ program, compiled for this machine."""
    source, generator = next(clone.rglob("main.cpp")), next(clone.rglob("SFMT.c"))
    program = tempfile.mkdtemp() + "/vicsek"
    flags = ["-O3", "-march=native", "-ffast-math", "-DSFMT_MEXP=1279", "-I", str(generator.parent)]
    subprocess.run(["g++", *flags, str(source), str(generator), "-o", program], check=True)
    return program


def cpp_run(program: str, parameters: Parameters):
    """A sweep of the C++ program over its own noises, 50 steps each."""
    density = parameters.n_particles / parameters.box**2
    values = {"int_L": int(parameters.box), "v0": parameters.speed, "rho": density}
    values |= {"N_reset": 25, "N_steps": 25, "seed": 1}
    path = Path(program).with_suffix(".dat")
    path.write_text("".join(f"{value} {name}\n" for name, value in values.items()))

    def run() -> int:
        subprocess.run([program, str(path)], check=True, stdout=subprocess.DEVNULL)
        return (25 + CPP_NOISES * 50) * parameters.n_particles

    return run


def print_threads(replicas: int) -> None:
    """The same sample on one thread and on two."""
    if len(os.sched_getaffinity(0)) < 2:
        print("\nthreads: this machine has one core")
        return
    parameters = Parameters(burn_in=400)

    def seconds(workers: int) -> float:
        start = time.perf_counter()
        flock.sample_states(parameters, replicas, seed=1, workers=workers, progress=False)
        return time.perf_counter() - start

    one, two = (min(times) for times in zip(*((seconds(1), seconds(2)) for _ in range(3)), strict=True))
    print(f"\ntwo threads: {one / two:.2f} times one ({replicas} replicas of 400 steps)", flush=True)


def print_sizes(seconds: float) -> None:
    """Time a step against the number of particles at the same density, and the exponent that fits it."""
    print("\nparticles     ns an update     (ball, eta = 1.2, density 2)")
    cost = []
    for n in SIZES:
        cost.append(n / rate(ours(Parameters(n_particles=n, box=math.sqrt(n / 2))), seconds))
        print(f"{n:>9}{1e9 * cost[-1] / n:>14.1f}", flush=True)
    print(f"cost of a step ~ N^{np.polyfit(np.log(SIZES), np.log(cost), 1)[0]:.2f}")


# --- physics ------------------------------------------------------------------------------------------


def print_physics(replicas: int, particles: int) -> None:
    """Means over replicas of the observables, ours and the plain version's, and their distance in standard errors."""
    print(
        f"{particles} particles at density 2, 1,000 steps, {replicas} replicas of each; 40 states seen in a replica\n"
    )
    print(f"{'eta':>4}  {'observable':22}{'ours':>16}{'plain':>17}{'errors apart':>15}")
    for eta in NOISES:
        parameters = Parameters(eta=eta, n_particles=particles, box=math.sqrt(particles / 2), burn_in=1000)
        both = np.array([[observables(frame) for frame in pair(parameters, i)] for i in range(replicas)])
        mean, error = both.mean(axis=0), both.std(axis=0, ddof=1) / math.sqrt(replicas)
        for k, name in enumerate(("global polarization", "local polarization", "neighbours")):
            apart = abs(mean[0, k] - mean[1, k]) / math.hypot(*error[:, k])
            cells = [f"{mean[code, k]:.4f} ± {error[code, k]:.4f}" for code in (0, 1)]
            print(f"{eta:>4}  {name:22}{cells[0]:>16}{cells[1]:>17}{apart:>11.1f}", flush=True)


def pair(parameters: Parameters, i: int):
    """Replica i of the library and one of the plain version."""
    positions, headings = plain_flock.simulate(parameters, seed=i, steps=parameters.burn_in)
    moment = np.array([parameters.burn_in])
    yield flock.simulate(parameters, seed=2, replica=i)
    yield flock.Flock(parameters, moment, positions[None], headings[None])


def observables(frame: flock.Flock) -> tuple[float, float, float]:
    """Global polarization, and the means over 40 particles of local polarization and number of neighbours."""
    z = frame.states(frame.far_apart(40))
    return frame.order[-1], flock.polarization(z).mean(), flock.counts(z).mean()


if __name__ == "__main__":
    main()
