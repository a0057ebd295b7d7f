"""Learning curves of several models in one picture."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

from seqloom.insight.learning_curves import is_number
from seqloom.insight.plotting import BLACK, SLATE, escape_dollars, panel_figure, save_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = ("#1f6fb4", "#d1495b", "#3a9a5b", "#8d5bb5", "#d9902f", "#2b9fa8", "#7a5c3e", "#4a5260")
LINES = ("-", "--", ":")
"""Colours, and line styles once all colours are used."""

MAX_NAME = 48  # characters of a name in the legend

Points = dict[float, list[float]]
"""Values of all runs of a variant by update."""


def draw_compared_curves(
    curves: Mapping[str, Sequence[Sequence[Mapping[str, Any]]]],  # rows of metrics.jsonl of each run of each variant
    path: str | Path,
    *,
    metric: str,
    higher_is_better: bool = True,
) -> "Figure | None":
    """Draw the training loss and the dev metric of all variants: thin lines for runs, a thick one for their mean.

    A model with a single evaluation, such as one that counts, is a horizontal line. Returns None if there is nothing to
    draw.
    """
    panels: dict[str, dict[str, list[Points]]] = {
        "training loss": {name: [_points(rows, "loss") for rows in runs] for name, runs in curves.items()},
        f"dev {metric}": {name: [_points(rows, metric, dev=True) for rows in runs] for name, runs in curves.items()},
    }
    panels = {title: variants for title, variants in panels.items() if any(map(any, variants.values()))}
    if not panels:
        return None
    from matplotlib.ticker import MaxNLocator

    figure = panel_figure(len(panels), width=5.8, height=3.9)
    for axes, (title, variants) in zip(figure.axes, panels.items(), strict=True):
        as_points = all(len(set(chain.from_iterable(runs))) < 2 for runs in variants.values())  # there are no curves
        for index, (name, runs) in enumerate(variants.items()):
            style: dict[str, Any] = {
                "color": COLOURS[index % len(COLOURS)],
                "linestyle": LINES[index // len(COLOURS) % len(LINES)],
            }
            _draw_variant(axes, [run for run in runs if run], label=_short(name), style=style, as_points=as_points)
        arrow = "" if title == "training loss" else f" ({'higher' if higher_is_better else 'lower'} is better)"
        axes.set_title(title.replace("_", " ") + arrow, loc="left", fontweight="bold", color=BLACK, fontsize=10)
        axes.set_xlabel("update", color=SLATE)
        axes.set_ylabel(title.replace("_", " ").removeprefix("training ").removeprefix("dev "), color=SLATE)
        axes.xaxis.set_major_locator(MaxNLocator(nbins=6, integer=True, min_n_ticks=1))
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    figure.axes[-1].legend(frameon=False, fontsize=8, labelcolor=BLACK)
    save_figure(figure, path)
    return figure


def _points(rows: Sequence[Mapping[str, Any]], name: str, *, dev: bool = False) -> Points:
    sources = [(row["update"], (row.get("dev") or {}) if dev else row) for row in rows]
    return {update: [values[name]] for update, values in sources if is_number(values.get(name))}


def _draw_variant(
    axes: "Axes", runs: Sequence[Points], *, label: str, style: Mapping[str, Any], as_points: bool
) -> None:
    if not runs:
        return
    merged: defaultdict[float, list[float]] = defaultdict(list)
    for run in runs:
        for update, values in run.items():
            merged[update] += values
    if len(merged) == 1:
        ((update, values),) = merged.items()
        if as_points:
            axes.plot([update] * len(values), values, "o", markersize=6, color=style["color"], label=label)
            return
        axes.axhline(fmean(values), linewidth=1.6, label=label, **style)
        return
    common = sorted(update for update, values in merged.items() if len(values) == len(runs))
    if len(runs) > 1:
        for run in runs:
            axes.plot(sorted(run), [run[update][0] for update in sorted(run)], linewidth=0.7, alpha=0.4, **style)
    shown = common if len(common) > 1 else sorted(merged)
    axes.plot(shown, [fmean(merged[update]) for update in shown], linewidth=2.0, label=label, **style)


def _short(name: str) -> str:
    return escape_dollars(name if len(name) <= MAX_NAME else f"{name[: MAX_NAME - 1]}…")
