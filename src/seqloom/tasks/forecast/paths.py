"""Sample paths of a forecaster: possible continuations of each series."""

from collections.abc import Callable, Iterable, Sequence
from itertools import chain, groupby, islice, zip_longest
from typing import Any, NamedTuple

import numpy as np

from seqloom.data.readers.series import Numbers, Window, last_window
from seqloom.data.readers.text_files import DataError, pluralize
from seqloom.insight.forecast_paths import ForecastPaths
from seqloom.models.forecast_paths import sample_paths
from seqloom.tasks.forecast.prediction import ForecastPrediction
from seqloom.tasks.forecast.scoring import ForecastScoring

MIN_ORIGINS, MAX_ORIGINS = 20, 500  # earlier forecasts that show how errors go together
FEW_OWN = (
    f"fewer than {MIN_ORIGINS} earlier forecasts: how the steps of a path go together is copied from the errors of all "
    "series"
)


class PastForecasts(NamedTuple):
    """Earlier forecasts, and what came."""

    quantiles: Numbers  # (origins, horizon, targets, levels)
    truth: Numbers  # (origins, horizon, targets)


def draw_forecast_paths(
    task: ForecastScoring,
    earlier: Iterable[Window],  # whose future is known, series by series
    *,
    count: int,
    seed: int,
    predict: Callable[[Sequence[Any]], list[Any]],
) -> list[ForecastPaths]:
    """Paths after the end of each series, which copy the dependence of its own errors, or that of all if it has few."""
    every = [list(group) for _, group in groupby(earlier, key=lambda window: id(window.series))]
    short = next((own[-1] for own in every if len(own) < MIN_ORIGINS), None)
    shared = None if short is None else _past(task, _latest(every, short), predict)
    random = np.random.default_rng(seed)
    results = []
    for own in every:
        has_few = len(own) < MIN_ORIGINS
        past = shared if has_few and shared is not None else _past(task, own[-MAX_ORIGINS:], predict)
        end = last_window(own[-1].series, task.history)
        forecast: ForecastPrediction
        (forecast,) = predict([end])
        values = sample_paths(
            forecast.quantiles.astype(np.float64),
            forecast.levels,
            past_quantiles=past.quantiles,
            past_truth=past.truth,
            count=count,
            random=random,
        )
        values = task.fitted.round(values, [task.fitted.columns.index(name) for name in forecast.columns])
        axis = end.series.axis
        following = None if axis is None else axis.following(end.stop - 1, task.horizon, within=len(end))
        stamps = None
        if axis is not None and axis.stamps is not None and following is not None:
            stamps = np.concatenate([axis.stamps[: end.stop], following])
        history = end.series.values[: end.stop, _places(end, forecast)]
        problems = (*task.time_problems(end.series), *task.history_problems(end), forecast.warning)
        warning = "; ".join(filter(None, (*problems, FEW_OWN if has_few else "")))
        results.append(ForecastPaths(forecast.columns, values, forecast.times, history, stamps, end.identity, warning))
    return results


def _latest(every: Sequence[Sequence[Window]], short: Window) -> list[Window]:
    """The last windows of all series, about as many of each; DataError at a short series if they are too few, too."""
    backwards = chain.from_iterable(zip_longest(*map(reversed, every)))
    chosen = list(islice((window for window in backwards if window is not None), MAX_ORIGINS))
    if len(chosen) < MIN_ORIGINS:
        raise DataError(
            short.series.at(short.series.stop - 1),
            f"expected rows for at least {MIN_ORIGINS} earlier forecasts, which show how the errors of successive "
            f"steps go together, found {pluralize(len(chosen), 'forecast')}: give a longer series",
        )
    return chosen


def _past(
    task: ForecastScoring, windows: Sequence[Window], predict: Callable[[Sequence[Any]], list[Any]]
) -> PastForecasts:
    forecasts: list[ForecastPrediction] = predict(windows)
    places = _places(windows[0], forecasts[0])
    return PastForecasts(
        np.stack([each.quantiles for each in forecasts]).astype(np.float64),
        np.concatenate([window.future(task.horizon)[..., places] for window in windows]),
    )


def _places(window: Window, forecast: ForecastPrediction) -> list[int]:
    """The columns of a series that are forecast."""
    return [window.series.names.index(name) for name in forecast.columns]
