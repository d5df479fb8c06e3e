"""Exact distances of all pairs of a block: this library beside a scipy loop, lapx and POT, whole job and in one run.

    .venv/bin/pip install -r benchmarks/requirements.txt
    .venv/bin/python benchmarks/distance.py

Every method gets the states and returns the distances; the others build their costs by vectorised NumPy on padded
buckets, which is counted, and `solver only` leaves that out. States are drawn, not simulated: headings within a noise
of 1.2 around a random direction, as many as in the flock; Gaussian weights of neighbours as dense as in the ordered
flock, cut at 0.1 %.
"""

import argparse
import time

import numpy as np
import ot
from scipy.optimize import linear_sum_assignment

import gradedsparse as gs

try:
    import lap
except ImportError:
    lap = None

BUCKET = 4


def ball_states(n, rng):
    """About 12 atoms of equal weight."""
    values = [rng.uniform(0, 2 * np.pi) + rng.uniform(-0.6, 0.6, max(1, rng.poisson(12))) for _ in range(n)]
    return gs.WeightedMultisets.from_lists([np.ones(len(x)) for x in values], values, gs.Circle())


def gaussian_states(n, rng, h=0.5, density=3.0):
    """Weights exp(-r^2 / (2 h^2)) of a Poisson cloud around an atom of weight 1."""
    weights, values = [], []
    for _ in range(n):
        radius = 2.2 * np.sqrt(rng.random(rng.poisson(density * np.pi * 2.2**2)))
        weights.append(np.append(1.0, np.exp(-(radius**2) / (2 * h**2))))
        values.append(rng.uniform(0, 2 * np.pi) + rng.uniform(-0.6, 0.6, len(radius) + 1))
    return gs.WeightedMultisets.from_lists(weights, values, gs.Circle()).truncate(1e-3)


def buckets(z):
    """States padded with weight 0 to a common number of atoms, a multiple of BUCKET: (indices, shares, values)."""
    padded = -(-z.sizes // BUCKET) * BUCKET
    for k in np.unique(padded):
        chosen = np.flatnonzero(padded == k)
        shares, values = np.zeros((len(chosen), k)), np.zeros((len(chosen), k))
        for row, i in enumerate(chosen):
            atoms = slice(z.offsets[i], z.offsets[i + 1])
            shares[row, : z.sizes[i]], values[row, : z.sizes[i]] = z.shares[atoms], z.coordinates[atoms, 0]
        yield chosen, shares, values


def costs(A, B):
    """-min(a, b) (1 - rho / kappa) for all pairs of two buckets, the smaller states as rows."""
    for in_a, shares_a, values_a in buckets(A):
        for in_b, shares_b, values_b in buckets(B):
            gap = np.abs(values_a[:, None, :, None] - values_b[None, :, None, :])
            cost = -np.minimum(shares_a[:, None, :, None], shares_b[None, :, None, :]) * (1 - np.minimum(gap, 2 - gap))
            cost = cost.reshape(-1, *cost.shape[2:])
            if cost.shape[1] > cost.shape[2]:
                cost = np.ascontiguousarray(cost.transpose(0, 2, 1))
            yield in_a, in_b, cost


def by_buckets(solve):
    """A method that hands padded costs, bucket by bucket, to ``solve``; returns distances and seconds of solving."""

    def method(A, B):
        left = (A.dropped / A.totals)[:, None] / 2 + (B.dropped / B.totals) / 2
        out, solving = np.empty((len(A), len(B))), 0.0
        for in_a, in_b, cost in costs(A, B):
            start = time.perf_counter()
            overlap = -solve(cost)
            solving += time.perf_counter() - start
            out[np.ix_(in_a, in_b)] = overlap.reshape(len(in_a), len(in_b))
        return 1 - left - out + left, solving

    return method


def scipy_loop(cost):
    return np.array([c[linear_sum_assignment(c)].sum() for c in cost])


def lapx_batch(cost):
    return lap.lapjvr_batch(cost, extend_cost=True, n_threads=1)[0]


def pot_loop(cost):
    """A partial assignment as transport: the rows' surplus goes to one free column."""
    n, m = cost.shape[1:]
    supply, demand = np.append(np.ones(n), m - n), np.ones(m)
    padded = np.zeros((n + 1, m))
    out = np.empty(len(cost))
    for i, c in enumerate(cost):
        padded[:n] = c
        out[i] = ot.emd2(supply if m > n else supply[:n], demand, padded if m > n else padded[:n])
    return out


def ours(threads):
    def method(A, B):
        return gs.distance_matrix(A, B, threads=threads), np.nan

    return method


def measure(method, A, B):
    start = time.perf_counter()
    out, solving = method(A, B)
    return out, time.perf_counter() - start, solving


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--states", type=int, default=300, help="states on each side of the block")
    parser.add_argument("--repeats", type=int, default=3, help="runs of each method; the fastest counts")
    args = parser.parse_args()
    methods = {
        "this library, 1 thread": (ours(1), args.states),
        "this library, 2 threads": (ours(2), args.states),
        "scipy linear_sum_assignment loop": (by_buckets(scipy_loop), args.states),
        "POT emd2 loop": (by_buckets(pot_loop), args.states // 4),
    }
    if lap:
        methods["lapx lapjvr_batch, padded buckets"] = (by_buckets(lapx_batch), args.states)
    rng = np.random.default_rng(1)
    for name, draw in (("equal weights (ball)", ball_states), ("Gaussian h = 0.5, cut at 0.1 %", gaussian_states)):
        A, B = draw(args.states, rng), draw(args.states, rng)
        print(f"\n{name}: {A.sizes.mean():.1f} atoms, {args.states} x {args.states} pairs")
        gs.distance_matrix(A[:2], B[:2])
        exact = gs.distance_matrix(A, B)
        rates, solver_rates = {}, {}
        for _ in range(args.repeats):
            for label, (method, n) in methods.items():
                out, seconds, solving = measure(method, A[:n], B[:n])
                np.testing.assert_allclose(out, exact[:n, :n], atol=1e-9)
                rates[label] = max(rates.get(label, 0), n * n / seconds)
                solver_rates[label] = np.fmax(solver_rates.get(label, np.nan), n * n / solving)
        one = rates["this library, 1 thread"]
        print(f"{'':36}{'pairs/s':>10}{'we are':>9}{'solver only':>13}")
        for label, rate in rates.items():
            only = solver_rates[label]
            tail = f"{one / only:12.1f}x" if only == only else ""
            print(f"{label:36}{rate:10,.0f}{one / rate:8.1f}x{tail}")


if __name__ == "__main__":
    main()
