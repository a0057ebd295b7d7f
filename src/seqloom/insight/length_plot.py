"""A metric over the length of the input, for one or several models in one picture."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from seqloom.insight.plotting import BLACK, COLOURS, SLATE, escape_dollars, panel_figure, save_figure, titled

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class LengthCurve(NamedTuple):
    """The metric of a model in each bin of lengths."""

    name: str
    values: Sequence[float | None]  # None: no examples, or not a number
    intervals: Sequence[Sequence[float] | None]  # 95 % confidence intervals where they are known


def draw_by_length(
    curves: Sequence[LengthCurve],
    path: str | Path,
    *,
    bins: Sequence[str],  # names of the bins
    examples: Sequence[int],  # in each bin
    metric: str,
    unit: str,  # of the lengths
    higher_is_better: bool = True,
) -> "Figure":
    """Draw a line for each model, with its confidence intervals, and write the picture to a file."""
    figure = panel_figure(1, width=max(5.6, 1.6 + 0.9 * len(bins)), height=4.0)
    (axes,) = figure.axes
    for index, curve in enumerate(curves):
        colour = COLOURS[index % len(COLOURS)]
        shift = 0.08 * (index - (len(curves) - 1) / 2)  # so that intervals do not cover each other
        known = [(at, value) for at, value in enumerate(curve.values) if value is not None]
        for at, interval in enumerate(curve.intervals):
            if interval is not None and curve.values[at] is not None:
                axes.plot([at + shift] * 2, interval, color=colour, linewidth=1.2, alpha=0.6)
        axes.plot(
            [at + shift for at, _ in known],
            [value for _, value in known],
            "o-",
            color=colour,
            linewidth=1.8,
            markersize=4.5,
            label=escape_dollars(curve.name),
        )
    axes.set_xticks(range(len(bins)), [f"{name}\n({count:,})" for name, count in zip(bins, examples, strict=True)])
    axes.set_xlim(-0.5, len(bins) - 0.5)
    axes.set_xlabel(f"length in {unit} (number of examples)", color=SLATE)
    name = metric.replace("_", " ")
    axes.set_ylabel(name, color=SLATE)
    better = "higher" if higher_is_better else "lower"
    title = f"{name} by length ({better} is better)"
    axes.set_title(escape_dollars(titled(title)), loc="left", fontweight="bold", color=BLACK, fontsize=10)
    if len(curves) > 1:
        axes.legend(frameon=False, fontsize=8, labelcolor=BLACK)
    save_figure(figure, path)
    return figure
