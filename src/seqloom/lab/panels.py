"""Pieces that the figures of experiments share: titles, curves with their spread over seeds, rows of dots, planes."""

from collections.abc import Callable, Mapping, Sequence
from statistics import fmean
from typing import TYPE_CHECKING, Any

from seqloom.insight.plotting import BLACK, COLOURS, GREY
from seqloom.lab.curves import Curves

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from torch import Tensor

MARKERS = "os^DvPX*"


def set_title(axes: "Axes", title: str) -> None:
    """A bold title at the left end."""
    axes.set_title(title, loc="left", fontsize=10, fontweight="bold", color=BLACK)


def draw_curves(
    axes: "Axes",
    curves: Curves,
    *,
    colours: Sequence[str] = COLOURS,
    styles: Mapping[str, Mapping[str, Any]] | None = None,  # further arguments of ``plot``, by curve
) -> None:
    """The mean over seeds as a line with markers, and their range as a band."""
    for index, (name, points) in enumerate(curves.items()):
        xs = sorted(points)
        colour = colours[index % len(colours)]
        style: dict[str, Any] = {
            "color": colour,
            "marker": MARKERS[index % len(MARKERS)],
            "markersize": 5,
            "linewidth": 1.8,
            **((styles or {}).get(name, {})),
        }
        axes.plot(xs, [fmean(points[x]) for x in xs], label=name, **style)
        if any(len(points[x]) > 1 for x in xs):
            low, high = [min(points[x]) for x in xs], [max(points[x]) for x in xs]
            axes.fill_between(xs, low, high, color=style["color"], alpha=0.15, linewidth=0)


def draw_dots(
    axes: "Axes",
    groups: Mapping[str, Sequence[float]],
    *,
    colours: Sequence[str] = COLOURS,
    mean: Callable[[Sequence[float]], float] = fmean,  # as in the verdict
) -> None:
    """A row for each group, from top to bottom: a dot for each seed, and a vertical line at their mean."""
    for index, values in enumerate(groups.values()):
        row, colour = -index, colours[index % len(colours)]
        axes.scatter(values, [row] * len(values), s=42, color=colour, alpha=0.55, linewidths=0, zorder=3)
        axes.plot([mean(values)] * 2, [row - 0.28, row + 0.28], color=colour, linewidth=2.5, zorder=4)
    axes.set_yticks([-index for index in range(len(groups))], list(groups))
    axes.set_ylim(-len(groups) + 0.4, 0.6)
    axes.grid(visible=False, axis="y")


def mark_level(axes: "Axes", value: float, label: str) -> None:
    """A dotted horizontal line, such as that of chance, with its name at the left end."""
    axes.axhline(value, color=GREY, linestyle=":", linewidth=1.2)
    axes.annotate(
        label, (0.01, value), xycoords=("axes fraction", "data"), xytext=(0, 3), textcoords="offset points",
        color=GREY, fontsize=8,
    )  # fmt: skip


def set_percent_axis(axes: "Axes", label: str) -> None:
    """A y-axis of shares, with ticks in per cent."""
    axes.set_ylabel(label)
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")


def legend_below(figure: "Figure", axes: "Axes", *, columns: int = 0) -> None:
    """One legend for all panels, below them."""
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=columns or len(labels), frameon=False, fontsize=9)


def set_log_steps(axes: "Axes", values: Sequence[int], *, label: str) -> None:
    """A logarithmic x-axis with a tick at each of the values."""
    axes.set_xscale("log")
    axes.set_xticks(list(values), [str(value) for value in values], minor=False)
    axes.set_xticks([], minor=True)
    axes.set_xlabel(label)


def plane_of(vectors: "Tensor") -> "Tensor":  # (N, D) → (N, 2)
    """The first two principal components; the second point lies to the right of the first, and above it."""
    import torch

    centred = vectors - vectors.mean(dim=0)
    _, _, directions = torch.linalg.svd(centred.double(), full_matrices=False)
    points: Tensor = centred.double() @ directions[:2].T
    return points * torch.where(points[1] < points[0], -1.0, 1.0)
