"""Pictures of a sweep: which values led to which score, and which keys mattered."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from seqloom.insight.plotting import BLACK, BLUE, FRAME, GREY, GRID, RED, SLATE, escape_dollars, save_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Axis:
    """A key of a search space: categories, or a range of numbers."""

    name: str
    categories: Sequence[str] = ()
    low: float = 0.0
    high: float = 1.0
    log: bool = False
    flipped: bool = False  # the lowest value on top

    def height(self, value: str | float) -> float:
        """Where a value stands on the axis, from 0 to 1."""
        if isinstance(value, str):
            return (self.categories.index(value) + 0.5) / len(self.categories)
        scale = math.log if self.log else float
        span = scale(self.high) - scale(self.low)
        height = (scale(value) - scale(self.low)) / span if span else 0.5
        return 1 - height if self.flipped else height

    def ticks(self) -> list[tuple[float, str]]:
        """Heights and labels of the marks."""
        if self.categories:
            return [(self.height(name), name) for name in self.categories]
        if self.log:
            powers = range(math.ceil(math.log10(self.low) - 1e-9), math.floor(math.log10(self.high) + 1e-9) + 1)
            values = [self.low, self.high, *(10.0**power for power in powers)]
        else:
            from matplotlib.ticker import MaxNLocator

            round_values = MaxNLocator(5).tick_values(self.low, self.high)
            values = [self.low, self.high, *(float(value) for value in round_values if self.low < value < self.high)]
        spaced: list[float] = []
        for value in values:
            if all(abs(self.height(value) - self.height(other)) > 0.05 for other in spaced):
                spaced.append(value)
        return [(self.height(value), f"{value:.4g}") for value in spaced]


@dataclass(frozen=True)
class Line:
    """A trial: its value on each axis, and its score."""

    values: Sequence[str | float]
    score: float
    finished: bool  # False: stopped early


def draw_parallel_coordinates(
    axes: Sequence[Axis],
    lines: Sequence[Line],
    path: str | Path,
    *,
    metric: str,
    higher_is_better: bool = True,
    title: str = "",
) -> "Figure":
    """Draw a line for each trial across one axis per key and one for the score; the best trial stands out."""
    from matplotlib.colors import LinearSegmentedColormap
    from matplotlib.figure import Figure

    finite = [line for line in lines if math.isfinite(line.score)]
    if not finite:
        raise ValueError("there is nothing to draw: no trial has a score")
    scores = [line.score for line in finite]
    last = Axis(metric.replace("_", " "), low=min(scores), high=max(scores), flipped=not higher_is_better)
    columns = [*axes, last]
    figure = Figure(figsize=(max(6.0, 1.7 * len(columns) + 1.4), 4.6), layout="constrained")
    plot = figure.add_subplot()
    colours = LinearSegmentedColormap.from_list("score", [FRAME, BLUE])
    best_first = sorted(finite, key=lambda line: (line.finished, line.score if higher_is_better else -line.score))
    for index, line in enumerate(best_first):
        is_best = index == len(best_first) - 1 and line.finished
        height = last.height(line.score)
        heights = [axis.height(value) for axis, value in zip(axes, line.values, strict=True)] + [height]
        colour = RED if is_best else colours(height)
        style = "-" if line.finished else ":"
        plot.plot(heights, style, color=colour, linewidth=2.6 if is_best else 1.2, zorder=3 if is_best else 2)
    for position, axis in enumerate(columns):
        _draw_axis(plot, position, axis)
    handles = [("-", RED, "best trial"), ("-", BLUE, "finished"), (":", GREY, "pruned")]
    shown = handles if any(not line.finished for line in finite) else handles[:2]
    for style, colour, label in shown:
        plot.plot([], [], style, color=colour, label=label)
    plot.legend(loc="upper center", bbox_to_anchor=(0.5, -0.03), ncols=3, frameon=False, labelcolor=BLACK, fontsize=9)
    plot.set_xlim(-0.25, len(columns) - 0.6)
    plot.set_ylim(-0.04, 1.04)
    plot.axis("off")
    if title:
        plot.set_title(escape_dollars(title), loc="left", fontweight="bold", color=BLACK, pad=28)
    save_figure(figure, path)
    return figure


def _draw_axis(plot: "Axes", position: int, axis: Axis) -> None:
    plot.axvline(position, ymin=0.037, ymax=0.963, color=SLATE, linewidth=1.1, zorder=4)
    plot.text(position, 1.06, escape_dollars(axis.name), ha="center", va="bottom", color=BLACK, fontsize=9)
    box = {"facecolor": "white", "alpha": 0.75, "edgecolor": "none", "pad": 0.8}
    for height, label in axis.ticks():
        plot.plot([position - 0.02, position + 0.02], [height, height], color=SLATE, linewidth=1.1, zorder=4)
        plot.text(
            position + 0.045, height, escape_dollars(label), va="center", fontsize=8, color=SLATE, bbox=box, zorder=5
        )


def draw_importance(importance: Mapping[str, float], path: str | Path, *, metric: str, title: str = "") -> "Figure":
    """Draw the importance of each key for the score as bars, the largest on top."""
    from matplotlib.figure import Figure

    names = sorted(importance, key=lambda name: importance[name])
    figure = Figure(figsize=(6.4, 0.9 + 0.42 * len(names)), layout="constrained")
    plot = figure.add_subplot()
    bars = plot.barh([escape_dollars(name) for name in names], [100 * importance[name] for name in names], color=BLUE)
    plot.bar_label(bars, fmt="%.0f %%", padding=3, color=SLATE, fontsize=9)
    plot.set_xlim(0, 100 * max(importance.values(), default=1.0) * 1.12)
    plot.set_xlabel(f"importance for {metric.replace('_', ' ')} (%)", color=SLATE)
    plot.grid(visible=True, axis="x", color=GRID, linewidth=0.8)
    plot.set_axisbelow(True)
    plot.spines[["top", "right", "left"]].set_visible(False)
    plot.spines["bottom"].set_color(FRAME)
    plot.tick_params(colors=SLATE, labelsize=9, left=False)
    if title:
        plot.set_title(escape_dollars(title), loc="left", fontweight="bold", color=BLACK)
    save_figure(figure, path)
    return figure
