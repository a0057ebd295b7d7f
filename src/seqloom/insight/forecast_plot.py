"""A plot of forecasts beside what was observed, with their intervals and a baseline."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from seqloom.insight.plotting import BLACK, RED, SAND, SLATE, escape_dollars, panel_figure, save_figure

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
    *,
    intervals: Mapping[str, tuple[ArrayLike, ArrayLike]] | None = None,  # lower and upper bounds, as the forecast
    times: ArrayLike | None = None,  # (history + T,), dates or numbers; None: steps, the first forecast is step 1
    baseline_name: str = "baseline",
    title: str = "",
) -> "Figure":
    """Draw the observed values, the forecast, its intervals (the widest first) and the baseline, a panel per column."""
    actual, predicted = _columns(observed), _columns(forecast)
    naive = None if baseline is None else _columns(baseline)
    bounds = {name: (_columns(low), _columns(high)) for name, (low, high) in (intervals or {}).items()}
    for name, values in (("forecast", predicted), ("baseline", predicted if naive is None else naive)):
        if values.shape[1] != actual.shape[1] or not 0 < len(values) <= len(actual):
            raise ValueError(f"{name} has shape {values.shape}, expected at most {actual.shape}, that of observed")
    if names and len(names) != actual.shape[1]:
        raise ValueError(f"names has {len(names)} entries, expected {actual.shape[1]}: one for each column")
    steps: NDArray[Any] = np.arange(len(actual)) - (len(actual) - len(predicted)) + 1  # the first forecast is step 1
    if times is not None:
        steps = np.asarray(times)
        if len(steps) != len(actual):
            raise ValueError(f"times has {len(steps)} entries, expected {len(actual)}: one for each observation")
    count = min(actual.shape[1], MAX_PANELS)
    across = 1 if count <= 3 else 2
    figure = panel_figure(count, width=9.6 if across == 1 else 6.4, height=2.6 if count > 1 else 4.2, across=across)
    for column, axes in enumerate(figure.axes):
        recent = steps[-len(predicted) :]
        for number, (name, (low, high)) in enumerate(bounds.items()):  # the widest first
            strength = 0.13 + 0.09 * number
            axes.fill_between(
                recent, low[:, column], high[:, column], color=RED, alpha=strength, linewidth=0, label=name
            )
        axes.plot(steps, actual[:, column], color=BLACK, linewidth=1.3, label="observed")
        if naive is not None:
            axes.plot(
                steps[-len(naive) :], naive[:, column], color=SAND, linewidth=1.3, linestyle="--", label=baseline_name
            )
        axes.plot(recent, predicted[:, column], color=RED, linewidth=1.7, label="forecast")
        if len(predicted) < len(actual):
            axes.axvspan(recent[0], recent[-1], color=SLATE, alpha=0.04, linewidth=0)
        axes.set_title(
            escape_dollars(names[column]) if names else f"column {column + 1}",
            loc="left",
            fontsize=10,
            color=BLACK,
        )
        axes.set_ylabel("value")
        axes.margins(x=0.01)
        if steps.dtype.kind == "M":
            format_dates(axes)
    for axes in figure.axes[-across:]:
        axes.set_xlabel("time step" if times is None else "time")
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), frameon=False)
    save_figure(figure, path, title=title)
    return figure


def format_dates(axes: Any) -> None:
    """Ticks at round dates, with the year or the day written once."""
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter, num2date

    class DateFormatter(ConciseDateFormatter):
        """Writes the month or year below the first tick, and where another one begins."""

        def format_ticks(self, values: Any) -> list[str]:
            labels: list[str] = super().format_ticks(values)  # type: ignore[no-untyped-call]
            dates = num2date(values)  # type: ignore[no-untyped-call]
            low, high = sorted(axes.get_xlim())
            first = next((index for index, value in enumerate(values) if low <= value <= high), None)
            if first is not None:
                if any((date.hour, date.minute, date.second, date.microsecond) != (0, 0, 0, 0) for date in dates):
                    labels[first] = f"{dates[first]:%H:%M}\n{dates[first]:%d %b %Y}"
                elif any(date.day != 1 for date in dates):
                    labels[first] = f"{dates[first]:%d}\n{dates[first]:%b %Y}"
                elif any(date.month != 1 for date in dates):
                    labels[first] = f"{dates[first]:%b}\n{dates[first]:%Y}"
            return labels

    locator = AutoDateLocator(minticks=4, maxticks=10)  # type: ignore[no-untyped-call]
    axes.xaxis.set_major_locator(locator)
    starts = ["", "%Y", "%b\n%Y", "%d %b", "%H:%M", "%H:%M"]  # of a year, month, day, hour, minute, second
    axes.xaxis.set_major_formatter(DateFormatter(locator, zero_formats=starts, show_offset=False))  # type: ignore[no-untyped-call]


def _columns(values: ArrayLike) -> NDArray[np.float64]:
    array = np.asarray(values, dtype=np.float64)
    return array[:, None] if array.ndim == 1 else array
