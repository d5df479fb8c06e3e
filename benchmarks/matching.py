"""From two halves of states to W1 and its certificate: the lazy matching beside all distances and a dense solver.

    .venv/bin/pip install -r benchmarks/requirements.txt
    .venv/bin/python benchmarks/matching.py --dense 1000 2000 --lazy 4000 8000

Both use this library's distance kernel; the dense solver is lapx `lapjvr`, or scipy where lapx is missing. States are
drawn as in benchmarks/distance.py. Every row is a process of its own, so that its peak memory is known.
"""

import argparse
import json
import resource
import subprocess
import sys
import time

import numpy as np
from distance import ball_states, gaussian_states
from scipy.optimize import linear_sum_assignment

import gradedsparse as gs

try:
    import lap
except ImportError:
    lap = None

DRAWS = {"ball": ball_states, "gaussian": gaussian_states}


def dense(A, B, threads):
    cost = gs.distance_matrix(A, B, threads=threads)
    columns = lap.lapjvr(cost)[2] if lap else linear_sum_assignment(cost)[1]
    return cost[np.arange(len(A)), columns].mean(), cost.size


def lazy(A, B, threads):
    matched = gs.match(A, B, threads=threads)
    return matched.value, matched.evaluated


def measure(rule, n, method, threads):
    """One run, in this process: seconds, value, share of distances, peak memory in MiB."""
    rng = np.random.default_rng(n)
    A, B = DRAWS[rule](n, rng), DRAWS[rule](n, rng)
    lazy(A[:300], B[:300], threads)  # compiled or read from the cache
    start = time.perf_counter()
    value, evaluated = method(A, B, threads)
    seconds = time.perf_counter() - start
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"seconds": seconds, "value": float(value), "share": evaluated / n**2, "memory": memory}


def in_process(rule, n, method, threads):
    command = [sys.executable, __file__, "--one", rule, str(n), method, str(threads)]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dense", type=int, nargs="*", default=[1000, 2000, 4000], help="states a half, both methods")
    parser.add_argument("--lazy", type=int, nargs="*", default=[], help="states a half, without the dense method")
    parser.add_argument("--rules", nargs="*", choices=DRAWS, default=list(DRAWS))
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--one", nargs=4, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        rule, n, method, threads = args.one
        print(json.dumps(measure(rule, int(n), {"dense": dense, "lazy": lazy}[method], int(threads))))
        return
    for rule in args.rules:
        print(f"\n{rule}, {args.threads} threads")
        for title in ("a half", "W1", "seconds", "dense", "ratio", "distances", "MiB", "exponent"):
            print(f"{title:>10}", end="")
        print()
        last = None
        for n in sorted({*args.dense, *args.lazy}):
            run = in_process(rule, n, "lazy", args.threads)
            beside = ratio = exponent = ""
            if n in args.dense:
                other = in_process(rule, n, "dense", args.threads)
                assert abs(run["value"] - other["value"]) < 1e-6, "the methods disagree"
                beside, ratio = f"{other['seconds']:.1f}", f"{other['seconds'] / run['seconds']:.1f}x"
            if last:
                exponent = f"{np.log(run['seconds'] / last[1]) / np.log(n / last[0]):.2f}"
            print(
                f"{n:10}{run['value']:10.5f}{run['seconds']:10.1f}{beside:>10}{ratio:>10}{run['share']:10.1%}"
                f"{run['memory']:10.0f}{exponent:>10}",
                flush=True,
            )
            last = n, run["seconds"]


if __name__ == "__main__":
    main()
