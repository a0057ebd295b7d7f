"""Rolling-origin backtests: which forecasts are made, and their scores by step and by origin."""

from collections.abc import Sequence
from itertools import groupby
from typing import Any

from seqloom.data.readers.series import Window
from seqloom.metrics.backtest import Backtest
from seqloom.metrics.forecast_quantiles import shown_names
from seqloom.tasks.forecast.prediction import ForecastPrediction
from seqloom.tasks.forecast.scoring import ForecastScoring, series_names


def choose_origins(examples: Sequence[Window], step: int, count: int) -> list[Window]:
    """Of each series, the last example and those whole steps before it, at most ``count`` (0: all)."""
    chosen: list[Window] = []
    for _, group in groupby(examples, key=lambda window: id(window.series)):
        windows = list(group)
        last = windows[-1].stop
        kept = [window for window in windows if (last - window.stop) % step == 0]
        chosen += kept[-count:] if count else kept
    return chosen


def build_backtest(
    task: ForecastScoring, predictions: Sequence[ForecastPrediction], windows: Sequence[Window]
) -> Backtest:
    """The tables of a backtest."""
    scores = task.score(predictions, windows)
    baselines = scores["baselines"]
    best = min(baselines, key=lambda name: baselines[name]["mse_scaled"])
    intervals = [name for name in shown_names(task.levels) if name.startswith(("coverage_", "crps_"))]
    kept = ("mae", "mse_scaled", "best_baseline_mse_scaled", *(name for name in intervals if task.levels))
    horizon = [{"step": int(step)} | _only(row, kept) for step, row in scores["per_step"].items()]
    origins = []
    names = series_names(windows) or [""] * len(windows)
    for prediction, window, name in zip(predictions, windows, names, strict=True):
        own = task.score([prediction], [window])
        row = _only(own, kept) | {"best_baseline_mse_scaled": own["baselines"][best]["mse_scaled"]}
        times = window.time_stamps(1)
        place = {"series": name} if name else {}
        origins.append(place | {"first": times[0] if times else window.stop + 1} | _only(row, kept))
    return Backtest(scores, horizon, origins, best)


def _only(values: dict[str, Any], names: Sequence[str]) -> dict[str, Any]:
    return {name: values[name] for name in names if name in values}
