"""Graded sparse mechanisms: the metric on weighted multisets, exact matching, and certificates of generalization.

Names are imported when first used, so that the command line starts at once.
"""

from importlib import import_module

_HOMES = {
    "Ball": "spaces",
    "Circle": "spaces",
    "Discrete": "spaces",
    "Finite": "spaces",
    "Metric": "spaces",
    "WeightedMultisets": "states",
    "GradedSparseError": "errors",
    "distance": "representation",
    "distance_matrix": "representation",
    "match": "matching",
    "certify": "certificate",
    "cell_certify": "certificate",
    "load": "data",
}
_MODULES = (
    "animation",
    "bounds",
    "designs",
    "figures",
    "flock",
    "lipschitz",
    "mechanisms",
    "profile",
    "published",
    "representation",
    "search",
    "states",
)

__all__ = [*sorted(_HOMES), *_MODULES]


def __getattr__(name: str):
    if name in _HOMES:
        return getattr(import_module(f"gradedsparse.{_HOMES[name]}"), name)
    if name in _MODULES:
        return import_module(f"gradedsparse.{name}")
    raise AttributeError(f"module 'gradedsparse' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
