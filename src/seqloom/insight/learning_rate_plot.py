"""The loss at each learning rate of a range test."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from seqloom.insight.plotting import BLACK, BLUE, RED, SLATE, panel_figure, save_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def draw_learning_rates(
    rates: Sequence[float], losses: Sequence[float], path: str | Path, *, suggestion: float | None
) -> "Figure":
    """Draw the loss over the learning rate, with the suggested one marked."""
    figure = panel_figure(1, width=6, height=3.8)
    (axes,) = figure.axes
    axes.plot(rates, losses, color=BLUE, linewidth=1.7)
    if suggestion is not None:
        axes.axvline(suggestion, color=RED, linewidth=1.4, linestyle="--", label=f"suggestion: {suggestion:g}")
        axes.legend(frameon=False, fontsize=9, labelcolor=BLACK)
    axes.set_xscale("log")
    axes.set_xlabel("learning rate", color=SLATE)
    axes.set_ylabel("training loss, smoothed", color=SLATE)
    axes.set_title("Learning rate range test", loc="left", fontweight="bold", color=BLACK)
    save_figure(figure, path)
    return figure
