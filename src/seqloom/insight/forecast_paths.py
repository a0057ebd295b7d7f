"""Sample paths of a forecast as a table and as a plot."""

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from seqloom import files
from seqloom.data.feature_statistics import SINGLE_DIGITS
from seqloom.formats import format_number
from seqloom.insight.forecast_plot import MAX_PANELS, format_dates
from seqloom.insight.plotting import BLACK, RED, escape_dollars, panel_figure, save_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MIN_HISTORY, MAX_HISTORY = 10, 200  # rows before the paths in a plot


@dataclass(frozen=True)
class ForecastPaths:
    """Possible continuations of a series."""

    columns: list[str]
    values: NDArray[np.float64]  # (paths, horizon, columns)
    times: list[str]  # (horizon,), time stamps; empty: unknown
    history: NDArray[np.float64]  # (rows, columns), before the paths
    stamps: NDArray[Any] | None = None  # (rows + horizon,), dates or numbers for a plot; None: steps
    name: str = ""  # of the series; empty: there is only one
    warning: str = ""  # why the paths may be worse than others

    def rows(self) -> list[list[str]]:
        """A row for each path and step, after a header."""
        first = ["series"] if self.name else []
        table = [[*first, "path", "time" if self.times else "step", *self.columns]]
        for path, steps in enumerate(self.values, start=1):
            for step, numbers in enumerate(steps.tolist()):
                place = self.times[step] if self.times else str(step + 1)
                cells = (format_number(number, SINGLE_DIGITS) for number in numbers)
                table.append([*[self.name] * bool(self.name), str(path), place, *cells])
        return table


def write_paths(series: Sequence[ForecastPaths], path: Path) -> None:
    """Write the paths of one or several series as a CSV file."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    for number, paths in enumerate(series):
        writer.writerows(paths.rows()[1 if number else 0 :])
    files.write(path, text.getvalue())


def draw_paths(paths: ForecastPaths, path: str | Path, *, title: str = "") -> "Figure":
    """Draw the end of the history and all paths, a panel per column."""
    horizon = paths.values.shape[1]
    shown = min(len(paths.history), max(MIN_HISTORY, min(3 * horizon, MAX_HISTORY)))
    count = min(len(paths.columns), MAX_PANELS)
    figure = panel_figure(count, width=9.6, height=4.2 if count == 1 else 2.6, across=1)
    steps = np.arange(-shown + 1, horizon + 1) if paths.stamps is None else paths.stamps[-shown - horizon :]
    strength = max(0.15, min(0.8, 4 / len(paths.values)))
    for column, axes in enumerate(figure.axes):
        before = paths.history[-shown:, column]
        axes.plot(steps[:shown], before, color=BLACK, linewidth=1.3, label="observed")
        for number, values in enumerate(paths.values[..., column]):
            joined = np.concatenate([before[-1:], values])
            label = "sample paths" if not number else None
            axes.plot(steps[shown - 1 :], joined, color=RED, linewidth=1.1, alpha=strength, label=label)
        axes.set_title(escape_dollars(paths.columns[column]), loc="left", fontsize=10, color=BLACK)
        axes.set_ylabel("value")
        axes.margins(x=0.01)
        if steps.dtype.kind == "M":
            format_dates(axes)
    figure.axes[-1].set_xlabel("time step" if paths.stamps is None else "time")
    figure.legend(*figure.axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=2, frameon=False)
    save_figure(figure, path, title=title)
    return figure
