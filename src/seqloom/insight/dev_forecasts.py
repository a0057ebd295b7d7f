"""The forecasts at the end of the development data, with their history, the interval of the errors and a baseline."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from seqloom.data.readers.series import Numbers, Window
from seqloom.data.readers.text_files import pluralize
from seqloom.insight.forecast_plot import draw_forecast
from seqloom.insight.plotting import titled

MAX_PLOT_STEPS = 200  # time steps in a plot
MIN_ERROR_WINDOWS = 40  # forecasts from which on a 95 % interval of the errors is drawn; of fewer, their range
MAX_ERROR_WINDOWS = 500  # forecasts whose errors give the interval in a plot


@dataclass(frozen=True, kw_only=True)
class DevForecasts:
    """Forecasts of development examples, to be drawn."""

    predict: Callable[[Sequence[Window]], list[Numbers]]
    """The forecast for each example, (horizon, targets); ``every_step``: the next step after each row, (T, targets)."""
    names: Sequence[str]  # of the targets
    horizon: int
    every_step: bool
    baseline_name: str
    baseline_lag: int  # the baseline repeats the value of this many steps before

    def draw(self, examples: Sequence[Window], path: Path) -> None:
        """Draw the forecasts for the last rows of the examples."""
        stride = 1 if self.every_step else self.horizon
        series = examples[-1].series
        windows = [window for window in examples[::-1] if window.series is series][::stride]
        windows = windows[:1] if self.every_step else windows[: max(MAX_PLOT_STEPS // stride, 1)][::-1]
        columns = self._columns(series.names)
        forecast = np.concatenate(self.predict(windows))[-MAX_PLOT_STEPS:]
        naive = [
            window.seasonal_forecast(self.horizon, self.baseline_lag, every_step=self.every_step)[..., columns]
            for window in windows
        ]
        baseline = np.concatenate([self._plotted(values) for values in naive])[-len(forecast) :]
        end = windows[-1].stop + stride
        start = max(end - len(forecast) - max(min(len(forecast), MAX_PLOT_STEPS // 2), self.horizon), 0)
        stamps = None if series.axis is None else series.axis.stamps
        low, high = self._error_quantiles(examples)
        share = "95 %" if len(examples) >= MIN_ERROR_WINDOWS else "all"
        repeats = math.ceil(len(forecast) / len(low))
        draw_forecast(
            series.values[start:end, columns],
            forecast,
            baseline,
            path,
            names=self.names,
            times=None if stamps is None else stamps[start:end],
            interval=(
                forecast + np.tile(low, (repeats, 1))[-len(forecast) :],
                forecast + np.tile(high, (repeats, 1))[-len(forecast) :],
            ),
            baseline_name=f"baseline: {self.baseline_name}",
            interval_name=f"{share} of the errors of {pluralize(min(len(examples), MAX_ERROR_WINDOWS), 'forecast')}",
            title=titled(f"forecasts of {pluralize(stride, 'step')} on the dev data"),
        )

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
            error = self._plotted(future) - forecast
            errors.append(error[:, None] if self.every_step else error[None])
        bounds = (0.025, 0.975) if len(examples) >= MIN_ERROR_WINDOWS else (0.0, 1.0)
        low, high = np.quantile(np.concatenate(errors), bounds, axis=0)
        return low, high
