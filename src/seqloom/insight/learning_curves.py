"""Learning curves of a training run."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from seqloom.formats import format_number
from seqloom.insight.plotting import BLACK, BLUE, GREY, RED, SLATE, panel_figure, save_figure, titled

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MAX_MARKED = 40
"""A curve with at most this many points marks each of them."""

Curve = list[tuple[float, float]]


def draw_learning_curves(
    rows: Sequence[Mapping[str, Any]],  # of metrics.jsonl
    path: str | Path,
    *,
    metric: str = "",  # that selects the best model; empty: the first metric of the dev data
    higher_is_better: bool = True,
) -> "Figure":
    """Draw the training loss, the dev loss and the dev metric over the updates, with its best value marked."""
    evaluations = [row for row in rows if row.get("dev")]
    metric = metric or next((name for row in evaluations for name, value in row["dev"].items() if is_number(value)), "")
    training: Curve = [(row["update"], row["loss"]) for row in rows if is_number(row.get("loss"))]
    losses, points = (
        [(row["update"], row["dev"][name]) for row in evaluations if is_number(row["dev"].get(name))]
        for name in ("loss", metric)
    )
    panels = {"loss": training + losses, metric: points if metric != "loss" else training + losses}
    panels = {name: curve for name, curve in panels.items() if curve}
    if not panels:
        raise ValueError("there is nothing to draw: no row has a loss or a metric")
    figure = panel_figure(len(panels), width=5.6, height=3.7)
    for axes, (panel, curve) in zip(figure.axes, panels.items(), strict=True):
        if panel == "loss":
            _draw_curve(axes, training, GREY, label="training")
            _draw_curve(axes, losses, BLUE, label="dev")
        else:
            _draw_curve(axes, points, BLUE, label="dev")
        if panel == metric and points:
            update, best = _best(points, dict(losses), sign=1 if higher_is_better else -1)
            label = f"best: {format_number(best, 4)} at update {update:,}"
            axes.plot([update], [best], "o", color=RED, markersize=8, zorder=4, clip_on=False, label=label)
        axes.set_title(panel.replace("_", " "), loc="left", fontsize=10, color=BLACK)
        axes.legend(frameon=False, fontsize=9, labelcolor=BLACK)
        _set_y_limits(axes, [value for _, value in curve])
        _set_x_axes(axes, rows)
        axes.set_ylabel(panel.replace("_", " "))
    save_figure(figure, path, title=titled("learning curves"))
    return figure


def _best(points: Curve, losses: dict[float, float], *, sign: int) -> tuple[float, float]:
    """The best point; of equal ones that with the lowest loss, or else the first: the one whose checkpoint is kept."""
    return max(points, key=lambda point: (sign * point[1], -losses.get(point[0], math.inf)))


def _draw_curve(axes: "Axes", curve: Curve, colour: str, *, label: str) -> None:
    if curve:
        updates, values = zip(*curve, strict=True)
        marker = "o" if len(curve) <= MAX_MARKED else ""
        axes.plot(updates, values, color=colour, linewidth=1.7, label=label, marker=marker, markersize=3.5)


def _set_y_limits(axes: "Axes", values: Sequence[float]) -> None:
    """Cut off a few outliers at the top: what matters happens below."""
    low, high = min(values), max(values)
    usual = float(np.quantile(values, 0.95))
    if high - usual > 2 * (usual - low) > 0:
        high = usual
    margin = 0.06 * (high - low) or 0.06 * abs(high) or 1.0
    axes.set_ylim(low - margin, high + margin)


def _set_x_axes(axes: "Axes", rows: Sequence[Mapping[str, Any]]) -> None:
    """Updates on the axis below, epochs on the axis above."""
    from matplotlib.ticker import MaxNLocator

    last = max(rows, key=lambda row: float(row["update"]))
    axes.set_xlabel("update", color=SLATE)
    axes.set_xlim(-0.02 * (last["update"] or 1), 1.02 * (last["update"] or 1))
    axes.xaxis.set_major_locator(MaxNLocator(nbins=6, integer=True))
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    if last["update"] and last.get("epoch"):
        ratio = last["epoch"] / last["update"]
        above = axes.secondary_xaxis("top", functions=(lambda update: update * ratio, lambda epoch: epoch / ratio))
        above.xaxis.set_major_locator(MaxNLocator(nbins=6, integer=last["epoch"] >= 2))
        above.tick_params(colors=GREY, labelsize=8, length=2)
        above.spines["top"].set_visible(False)
        above.set_xlabel("epoch", color=GREY, fontsize=8, loc="right")


def is_number(value: object) -> bool:
    """Whether a value of metrics.jsonl can be drawn."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
