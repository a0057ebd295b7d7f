"""The forecasts at the end of the development data, with their history, the interval of the errors and a baseline."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from seqloom.data.readers.series import Numbers, Window
from seqloom.data.readers.text_files import pluralize
from seqloom.insight.forecast_plot import draw_forecast
from seqloom.insight.plotting import titled
from seqloom.metrics.forecast_quantiles import central_intervals, usual_interval

MAX_PLOT_STEPS = 200  # time steps in a plot
MIN_ERROR_WINDOWS = 40  # forecasts from which on a 95 % interval of the errors is drawn; of fewer, their range
MAX_ERROR_WINDOWS = 500  # forecasts whose errors give the interval in a plot


class PlottedForecast(NamedTuple):
    """The steps of a forecast that a plot shows: the horizon, or the next step after each row (``every_step``)."""

    values: Numbers  # (T, targets)
    quantiles: NDArray[np.float32]  # (T, targets, levels); no levels: the model forecasts numbers only


@dataclass(frozen=True, kw_only=True)
class DevForecasts:
    """Forecasts of development examples, to be drawn."""

    predict: Callable[[Sequence[Window]], list[PlottedForecast]]
    names: Sequence[str]  # of the targets
    horizon: int
    every_step: bool
    levels: Sequence[float]  # of the quantiles; empty: the interval is that of the errors
    baseline_name: str
    baseline: Callable[[Sequence[Window]], Numbers]  # its forecasts, (N, horizon, targets)
    data: str = "on the dev data"  # end of the title

    def draw(self, examples: Sequence[Window], path: Path) -> None:
        """Draw the forecasts for the last rows of the examples."""
        stride = 1 if self.every_step else self.horizon
        series = examples[-1].series
        windows = [window for window in examples[::-1] if window.series is series][::stride]
        windows = windows[:1] if self.every_step else windows[: max(MAX_PLOT_STEPS // stride, 1)][::-1]
        columns = self._columns(series.names)
        plotted = self.predict(windows)
        forecast = np.concatenate([each.values for each in plotted])[-MAX_PLOT_STEPS:]
        naive = self.baseline(windows)  # (N, horizon, targets)
        baseline = (naive[:, 0] if self.every_step else np.concatenate(naive))[-len(forecast) :]
        end = windows[-1].stop + stride
        start = max(end - len(forecast) - max(min(len(forecast), MAX_PLOT_STEPS // 2), self.horizon), 0)
        stamps = None if series.axis is None else series.axis.stamps
        quantiles = np.concatenate([each.quantiles for each in plotted])[-len(forecast) :]
        draw_forecast(
            series.values[start:end, columns],
            forecast,
            baseline,
            path,
            names=self.names,
            times=None if stamps is None else stamps[start:end],
            intervals=self._intervals(quantiles) if self.levels else self._error_interval(examples, forecast),
            baseline_name=f"baseline: {self.baseline_name}",
            title=titled(f"forecasts of {pluralize(stride, 'step')} {self.data}"),
        )

    def _intervals(self, quantiles: NDArray[np.float32]) -> dict[str, tuple[Numbers, Numbers]]:
        """The intervals of the model from the usual one to the widest."""
        usual = usual_interval(self.levels)
        return {
            f"{100 * share:.3g} % interval": (
                quantiles[..., low].astype(np.float64),
                quantiles[..., high].astype(np.float64),
            )
            for low, high, share in central_intervals(self.levels)
            if usual is not None and low <= usual[0]
        }

    def _error_interval(self, examples: Sequence[Window], forecast: Numbers) -> dict[str, tuple[Numbers, Numbers]]:
        """The interval of the errors of all forecasts, around these ones."""
        low, high = self._error_quantiles(examples)
        share = "95 %" if len(examples) >= MIN_ERROR_WINDOWS else "all"
        repeats = math.ceil(len(forecast) / len(low))
        bounds = [forecast + np.tile(bound, (repeats, 1))[-len(forecast) :] for bound in (low, high)]
        name = f"{share} of the errors of {pluralize(min(len(examples), MAX_ERROR_WINDOWS), 'forecast')}"
        return {name: (bounds[0], bounds[1])}

    def _columns(self, names: Sequence[str]) -> list[int]:
        return [names.index(name) for name in self.names]

    def _plotted(self, future: Numbers) -> Numbers:  # (1 or T, horizon, targets) → (horizon or T, targets)
        """The steps that a plot shows: the whole horizon, or the next step after each row."""
        return future[:, 0] if self.every_step else future[0]

    def _error_quantiles(self, examples: Sequence[Window]) -> tuple[Numbers, Numbers]:  # (horizon or 1, targets)
        """Bounds of 95 % of the errors at each step of the horizon; of few forecasts, of all errors."""
        chosen = [examples[index] for index in np.linspace(0, len(examples) - 1, MAX_ERROR_WINDOWS, dtype=int).tolist()]
        chosen = list({id(window): window for window in chosen}.values())
        errors = []
        for window, forecast in zip(chosen, self.predict(chosen), strict=True):
            future = window.future(self.horizon, every_step=self.every_step)[..., self._columns(window.series.names)]
            error = self._plotted(future) - forecast.values
            errors.append(error[:, None] if self.every_step else error[None])
        bounds = (0.025, 0.975) if len(examples) >= MIN_ERROR_WINDOWS else (0.0, 1.0)
        low, high = np.quantile(np.concatenate(errors), bounds, axis=0)
        return low, high
