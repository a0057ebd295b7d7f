"""Plots of predicted numbers: against the true ones, and over time."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from seqloom.insight.plotting import BLACK, BLUE, GREY, RED, escape_dollars, panel_figure, save_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Numbers = NDArray[np.float64]

MAX_PANELS = 8  # targets that are drawn
MAX_POINTS = 5000
MAX_STEPS = 400  # time steps in a plot


def draw_predicted(
    truth: Numbers,  # (N, K)
    predicted: Numbers,
    path: str | Path,
    *,
    names: Sequence[str],  # titles of the panels
    title: str = "",
) -> "Figure":
    """Draw predicted against true values, a panel for each target; on the diagonal they are equal."""
    count = min(truth.shape[1], MAX_PANELS)
    figure = panel_figure(count, width=4.6, height=4.4, across=min(count, 4))
    chosen = np.linspace(0, len(truth) - 1, min(len(truth), MAX_POINTS)).astype(int)
    for column, axes in enumerate(figure.axes):
        actual, guess = truth[:, column], predicted[:, column]
        ends = min(actual.min(), guess.min()), max(actual.max(), guess.max())
        axes.plot(ends, ends, color=GREY, linewidth=1.2, linestyle="--", label="equal")
        axes.scatter(actual[chosen], guess[chosen], s=14, color=BLUE, alpha=0.55, linewidths=0)
        axes.set_xlabel("true value")
        axes.set_ylabel("predicted value")
        axes.set_title(escape_dollars(names[column]), loc="left", fontsize=10, color=BLACK)
    save_figure(figure, path, title=title)
    return figure


def draw_series(
    truth: Numbers,  # (T, K)
    predicted: Numbers,
    path: str | Path,
    *,
    names: Sequence[str],
    title: str = "",
) -> "Figure":
    """Draw the true and the predicted values of one sequence over time, a panel for each target."""
    count = min(truth.shape[1], MAX_PANELS)
    figure = panel_figure(count, width=9.6, height=2.6 if count > 1 else 4.2, across=1)
    steps = np.arange(1, len(truth) + 1)
    for column, axes in enumerate(figure.axes):
        axes.plot(steps, truth[:, column], color=BLACK, linewidth=1.3, label="true")
        axes.plot(steps, predicted[:, column], color=RED, linewidth=1.5, label="predicted")
        axes.set_title(escape_dollars(names[column]), loc="left", fontsize=10, color=BLACK)
        axes.set_ylabel("value")
        axes.margins(x=0.01)
    figure.axes[-1].set_xlabel("time step")
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), frameon=False)
    save_figure(figure, path, title=title)
    return figure
