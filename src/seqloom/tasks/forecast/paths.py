"""Sample paths of a forecaster: possible continuations of each series."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from seqloom.data.readers.series import Window
from seqloom.data.readers.text_files import DataError, pluralize
from seqloom.insight.forecast_paths import ForecastPaths
from seqloom.models.forecast_paths import sample_paths
from seqloom.tasks.forecast.prediction import ForecastPrediction
from seqloom.tasks.forecast.scoring import ForecastScoring

MIN_ORIGINS, MAX_ORIGINS = 20, 500  # earlier forecasts that show how errors go together


def draw_forecast_paths(
    task: ForecastScoring,
    earlier: Sequence[Window],  # whose future is known
    ends: Sequence[Window],  # the end of each series
    *,
    count: int,
    seed: int,
    predict: Callable[[Sequence[Any]], list[Any]],
) -> list[ForecastPaths]:
    """Paths after the end of each series."""
    chosen = list(earlier)[-MAX_ORIGINS:]
    if len(chosen) < MIN_ORIGINS:
        raise DataError(
            ends[-1].series.at(ends[-1].stop - 1),
            f"expected rows for at least {MIN_ORIGINS} earlier forecasts, which show how the errors of successive "
            f"steps go together, found {pluralize(len(chosen), 'forecast')}: give a longer series",
        )
    random = np.random.default_rng(seed)
    forecasts: list[ForecastPrediction] = predict(ends)
    past: list[ForecastPrediction] = predict(chosen)
    places = [chosen[0].series.names.index(name) for name in forecasts[0].columns]
    truth = np.concatenate([window.future(task.horizon)[..., places] for window in chosen])
    results = []
    for window, forecast in zip(ends, forecasts, strict=True):
        values = sample_paths(
            forecast.quantiles.astype(np.float64),
            forecast.levels,
            past_quantiles=np.stack([each.quantiles for each in past]).astype(np.float64),
            past_truth=truth,
            count=count,
            random=random,
        )
        targets = [task.fitted.columns.index(name) for name in forecast.columns]
        values = task.fitted.round(values, targets)
        axis = window.series.axis
        following = None if axis is None else axis.following(window.stop - 1, task.horizon)
        stamps = None
        if axis is not None and axis.stamps is not None and following is not None:
            stamps = np.concatenate([axis.stamps[: window.stop], following])
        history = window.series.values[: window.stop, places]
        results.append(ForecastPaths(forecast.columns, values, forecast.times, history, stamps, window.identity))
    return results
