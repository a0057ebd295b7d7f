"""The forecasts that a model has to beat: last value, season before, drift, exponential smoothing, DLinear."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from seqloom.data.readers.series import Numbers, Series, Window
from seqloom.metrics.forecasts import DLINEAR, DRIFT, LAST, SEASONAL, SMOOTHING
from seqloom.models.exponential_smoothing import Smoothed, Smoothing, has_season, smooth
from seqloom.models.linear_forecast import LinearForecast

AT_ONCE = 4096  # forecasts

Rows = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class BaselineForecasts:
    """Forecasts of trivial and of classical methods, in the units of the data."""

    targets: tuple[int, ...]  # columns of the series
    horizon: int
    every_step: bool
    season: int  # 0 or 1: there is none
    means: tuple[float, ...]  # of the targets
    deviations: tuple[float, ...]
    linear: LinearForecast | None = None
    smoothing: tuple[Smoothing, ...] = ()  # of each target

    @property
    def names(self) -> list[str]:
        """The methods that can be used."""
        names = [LAST, *[SEASONAL] * (self.season > 1), DRIFT]
        return [*names, *[SMOOTHING] * bool(self.smoothing), *[DLINEAR] * (self.linear is not None)]

    def forecast(self, name: str, examples: Sequence[Window]) -> Numbers:  # (N, horizon, targets)
        """The forecasts of a method, in the order of the examples."""
        methods: dict[str, Callable[[Series, Rows], Numbers]] = {
            LAST: lambda series, rows: self._before(series, rows, 1),
            SEASONAL: lambda series, rows: self._before(series, rows, self.season),
            DRIFT: self._drift,
            SMOOTHING: self._smoothing,
            DLINEAR: self._linear,
        }
        forecasts = []
        for _, group in groupby(examples, key=lambda window: id(window.series)):
            windows = list(group)
            rows = np.concatenate([window.origins(every_step=self.every_step) for window in windows])
            forecasts.append(methods[name](windows[0].series, rows))
        return np.concatenate(forecasts)

    def _values(self, series: Series) -> Numbers:  # (T, targets)
        return series.observed[:, list(self.targets)]

    def _before(self, series: Series, rows: Rows, lag: int) -> Numbers:
        """The last season repeated, or else the last value."""
        places = rows[:, None] + 1 + np.arange(self.horizon) % lag - lag
        return self._values(series)[np.where(places < 0, rows[:, None], places)]

    def _drift(self, series: Series, rows: Rows) -> Numbers:
        """The line through the first and the last value, continued."""
        values = self._values(series)
        slopes = (values[rows] - values[0]) / np.maximum(rows, 1)[:, None]
        steps = np.arange(1, self.horizon + 1)[:, None]
        forecast: Numbers = values[rows][:, None] + steps * slopes[:, None]
        return forecast

    def _smoothing(self, series: Series, rows: Rows) -> Numbers:
        period = self.season if has_season(len(series.observed), self.season) else 1
        states = _smoothed(series, self.targets, self.smoothing, period)
        # The start is estimated from two seasons: forecasts within them would have seen the future.
        known = rows >= (2 * period - 1 if period > 1 else 0)
        return np.where(known[:, None, None], states.forecast(rows, self.horizon), self._before(series, rows, 1))

    def _linear(self, series: Series, rows: Rows) -> Numbers:
        assert self.linear is not None  # noqa: S101  one of the names
        scaled = (self._values(series) - np.array(self.means)) / np.array(self.deviations)
        steps, parts = np.arange(1 - self.linear.length, 1), []
        for start in range(0, len(rows), AT_ONCE):
            places = (rows[start : start + AT_ONCE, None] + steps).clip(0)
            parts.append(self.linear.forecast(scaled[places]))
        forecast: Numbers = np.concatenate(parts) * np.array(self.deviations) + np.array(self.means)
        return forecast


@lru_cache(maxsize=4)  # a development set is scored again and again
def _smoothed(series: Series, targets: tuple[int, ...], parameters: tuple[Smoothing, ...], period: int) -> Smoothed:
    return smooth(series.observed[:, list(targets)], parameters, period)
