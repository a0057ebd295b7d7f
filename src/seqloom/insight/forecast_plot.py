"""A plot of forecasts beside what was observed."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from seqloom.insight.plotting import BLACK, RED, SAND, SLATE, panel_figure, save_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MAX_PANELS = 8
"""Columns of a forecast that are drawn; more would be too small to see."""


def draw_forecast(
    observed: ArrayLike,  # (T,) or (T, K), or (history + T, K): the history may come before
    forecast: ArrayLike,  # (T,) or (T, K), the last T steps
    baseline: ArrayLike | None,  # as the forecast
    path: str | Path,
    names: Sequence[str] = (),  # of the columns
) -> "Figure":
    """Draw the observed values, the forecast and the baseline: a panel for each column."""
    actual, predicted = _columns(observed), _columns(forecast)
    naive = None if baseline is None else _columns(baseline)
    for name, values in (("forecast", predicted), ("baseline", predicted if naive is None else naive)):
        if values.shape[1] != actual.shape[1] or not 0 < len(values) <= len(actual):
            raise ValueError(f"{name} has shape {values.shape}, expected at most {actual.shape}, that of observed")
    if names and len(names) != actual.shape[1]:
        raise ValueError(f"names has {len(names)} entries, expected {actual.shape[1]}: one for each column")
    count = min(actual.shape[1], MAX_PANELS)
    across = 1 if count <= 3 else 2
    figure = panel_figure(count, width=9.6 if across == 1 else 6.4, height=2.6 if count > 1 else 3.8, across=across)
    steps = np.arange(len(actual)) - (len(actual) - len(predicted)) + 1  # the first forecast is step 1
    for column, axes in enumerate(figure.axes):
        axes.plot(steps, actual[:, column], color=BLACK, linewidth=1.3, label="observed")
        if naive is not None:
            axes.plot(
                steps[-len(naive) :], naive[:, column], color=SAND, linewidth=1.3, linestyle="--", label="baseline"
            )
        axes.plot(steps[-len(predicted) :], predicted[:, column], color=RED, linewidth=1.7, label="forecast")
        if len(predicted) < len(actual):
            axes.axvspan(0.5, len(predicted) + 0.5, color=RED, alpha=0.06, linewidth=0)
        axes.set_title(names[column] if names else f"column {column + 1}", loc="left", fontweight="bold", color=BLACK)
        axes.margins(x=0.01)
    for axes in figure.axes[-across:]:
        axes.set_xlabel("time step", color=SLATE)
    figure.legend(*figure.axes[0].get_legend_handles_labels(), loc="outside upper right", ncols=3, frameon=False)
    save_figure(figure, path)
    return figure


def _columns(values: ArrayLike) -> np.ndarray[Any, np.dtype[np.float64]]:
    array = np.asarray(values, dtype=np.float64)
    return array[:, None] if array.ndim == 1 else array
