"""Certificates as files that anyone can check again: the two halves, the matching, the dual potentials, the claim."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np

from gradedsparse.certificate import Certificate, concentration_term
from gradedsparse.data import describe_space, open_arrays, space_described
from gradedsparse.errors import GradedSparseError
from gradedsparse.spaces import Space
from gradedsparse.states import WeightedMultisets
from gradedsparse.verification import TOLERANCE, verify_matching

FILE_FORMAT = 1
KEYS = {"certificate_format", "space", "claim", "pairs", "mass", "u", "v"} | {
    f"{half}_{part}" for half in "ab" for part in ("offsets", "weights", "values", "dropped")
}


def save(path: str | os.PathLike, certificate: Certificate, A: WeightedMultisets, B: WeightedMultisets) -> None:
    """Write a certificate with the halves that it speaks of, in double precision; whole or not at all."""
    matching = certificate.matching
    arrays = {
        "certificate_format": np.array(FILE_FORMAT),
        "space": np.array(json.dumps(describe_space(A.space))),
        "claim": np.array([certificate.w1, certificate.lower, certificate.delta]),
        "pairs": matching.pairs,
        "mass": matching.mass,
        "u": matching.potentials[0],
        "v": matching.potentials[1],
    }
    for half, z in (("a", A), ("b", B)):
        arrays |= {f"{half}_{part}": getattr(z, part) for part in ("offsets", "weights", "values", "dropped")}
    path = Path(path)
    part = path.with_name(path.name + ".part")
    with open(part, "wb") as file:
        np.savez_compressed(file, **arrays)
    os.replace(part, path)


def verify(path: str | os.PathLike, threads: int | None = None) -> dict[str, float]:
    """Check a certificate file from its states alone, every pair, and return what it proves.

    The result has w1, lower, concentration, delta, value (units of kappa) and n_a, n_b. The solver takes no part.
    Raises GradedSparseError naming what is wrong in a file that is damaged, or whose matching, potentials or claim do
    not hold.
    """
    arrays = open_arrays(path, KEYS, "certificate")
    try:
        file_format = int(arrays["certificate_format"])
        space = json.loads(str(arrays["space"]))
        w1, lower, delta = map(float, arrays["claim"])
    except (TypeError, ValueError):
        raise GradedSparseError(f"{path} is damaged: its format, space or claim cannot be read") from None
    if file_format != FILE_FORMAT:
        raise GradedSparseError(f"{path} has certificate format {file_format}; this version reads {FILE_FORMAT}")
    try:
        A, B = (_half(arrays, half, space_described(space)) for half in "ab")
        if not lower <= w1 + TOLERANCE:
            raise GradedSparseError(f"the lower bound {lower:.9f} exceeds the value {w1:.9f}")
        verify_matching(A, B, arrays["pairs"], arrays["mass"], (arrays["u"], arrays["v"]), w1, lower, threads)
        concentration = concentration_term(A, B, delta)
    except GradedSparseError as error:
        raise GradedSparseError(f"{path} is refused: {error}") from None
    return {
        "w1": w1,
        "lower": lower,
        "concentration": concentration,
        "delta": delta,
        "value": w1 + concentration,
        "n_a": len(A),
        "n_b": len(B),
    }


def _half(arrays: dict[str, np.ndarray], half: str, space: Space) -> WeightedMultisets:
    offsets, weights, values, dropped = (
        arrays[f"{half}_{part}"] for part in ("offsets", "weights", "values", "dropped")
    )
    whole = offsets.ndim == 1 and len(offsets) > 1 and offsets[0] == 0 and np.all(np.diff(offsets) > 0)
    if not (
        whole
        and len(weights) == len(values) == offsets[-1]
        and dropped.shape == (len(offsets) - 1,)
        and np.all((dropped >= 0) & (dropped < np.inf))
    ):
        raise GradedSparseError(f"the atoms of half {half.upper()} do not add up")
    z = WeightedMultisets.from_lists(np.split(weights, offsets[1:-1]), np.split(values, offsets[1:-1]), space)
    z.dropped[:] = dropped
    return z
