"""What the chapters share in drawing: the style, states on the circle, matchings, and tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import matplotlib.pyplot as plt
import numpy as np
from IPython.display import Markdown

from gradedsparse.representation import Reading, matching
from gradedsparse.states import WeightedMultisets

# Okabe and Ito's colours, which the colour-blind can tell apart, in an order that also differs in lightness.
BLUE, ORANGE, GREEN, BLACK, SKY, VERMILION = "#0072B2", "#E69F00", "#009E73", "#000000", "#56B4E9", "#D55E00"
COLOURS = (BLUE, ORANGE, GREEN, VERMILION, SKY, BLACK)
MARKERS = ("o", "s", "^", "D", "v", "x")


def use_style() -> None:
    """Set matplotlib's defaults for the book: print-sized figures on white, safe colours, labels that can be read."""
    plt.rcParams.update(
        {
            "figure.figsize": (6.4, 3.8),
            "figure.dpi": 110,
            "figure.facecolor": "white",
            "savefig.bbox": "tight",
            "font.size": 11,
            "axes.prop_cycle": plt.cycler(color=COLOURS),
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.grid": True,
            "grid.alpha": 0.3,
            "legend.frameon": False,
        }
    )


def table(header: Sequence[str], rows: Iterable[Sequence]) -> Markdown:
    """A table as Markdown; cells are shown with ``str``, so numbers come formatted."""
    lines = ["| " + " | ".join(header) + " |", "|" + " --- |" * len(header)]
    lines += ["| " + " | ".join(map(str, row)) + " |" for row in rows]
    return Markdown("\n".join(lines))


def draw_state(axes, z: WeightedMultisets, colour: str = BLUE, radius: float = 1.0, label: str | None = None) -> None:
    """Draw one state on the circle: a disc at every heading, its area the atom's share, at the given radius."""
    axes.scatter(
        *_points(z.values, radius), s=900 * z.shares, color=colour, alpha=0.75, lw=0.6, ec="white", label=label
    )
    _frame(axes)


def draw_matching(
    axes, z: WeightedMultisets, other: WeightedMultisets, labels: Sequence[str], reading: Reading = "conservative"
) -> None:
    """Draw two states on two rings and their optimal matching, a line as thick as the weight the two atoms share."""
    outer, inner = 1.0, 0.72
    draw_state(axes, z, BLUE, outer, labels[0])
    draw_state(axes, other, ORANGE, inner, labels[1])
    for i, j in matching(z, other, reading)[0]:
        start, end = _points(z.values[i], outer), _points(other.values[j], inner)
        shared = min(z.shares[i], other.shares[j])
        axes.plot(*zip(start, end, strict=True), color=BLACK, lw=1 + 8 * shared, alpha=0.6, zorder=0)
    axes.add_patch(plt.Circle((0, 0), inner, fill=False, color="0.85", lw=0.8, zorder=-1))
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, 0.02), ncols=2, markerscale=0.5)


def _points(angle, radius: float) -> tuple[np.ndarray, np.ndarray]:
    return radius * np.cos(angle), radius * np.sin(angle)


def _frame(axes) -> None:
    axes.add_patch(plt.Circle((0, 0), 1.0, fill=False, color="0.7", lw=0.8, zorder=-1))
    axes.set(aspect="equal", xlim=(-1.25, 1.25), ylim=(-1.25, 1.25))
    axes.axis("off")
