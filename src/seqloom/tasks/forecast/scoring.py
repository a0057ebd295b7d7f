"""How forecasts are scored: pairs of truth and forecast, baselines, and what the development data correct."""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, cast

import numpy as np
from torch import nn

from seqloom.data.readers.series import Numbers, Window
from seqloom.data.readers.text_files import DataError
from seqloom.metrics import regression
from seqloom.metrics.confidence import MetricSums, mean_of_sums, significance
from seqloom.metrics.forecasts import LAST, SEASONAL, Forecasts
from seqloom.models.baseline import Baseline
from seqloom.models.forecaster import Forecaster
from seqloom.tasks.forecast.baselines import BaselineForecasts
from seqloom.tasks.forecast.calibration import describe_shrinkage, estimate_shifts, estimate_shrinkage
from seqloom.tasks.forecast.features import ForecastFeatures
from seqloom.tasks.forecast.prediction import ForecastPrediction, Quantiles
from seqloom.tasks.task import Calibration


def series_names(examples: Sequence[Window]) -> list[str]:
    """The name of the series of each example, or its place in the data if it has none; empty: there is only one."""
    if len({id(window.series) for window in examples}) < 2:
        return []
    return [window.identity or str(window.series.location) for window in examples]


class ForecastScoring(ForecastFeatures):
    """The part of the task forecast that compares forecasts with what was observed."""

    @property
    def main_metric(self) -> str:
        return "nll" if self.data_type == "binary" else "mse_scaled"

    @property
    def gap(self) -> int:
        """Examples whose horizon overlaps both the training and the held-out part of a series."""
        if self.output == "last":
            return self.horizon - 1
        return math.ceil((self.horizon - 1) / self.history) if self.history else 0

    @property
    def levels(self) -> tuple[float, ...]:
        """The probabilities of the quantiles that are forecast."""
        return () if self.distribution == "none" else self.quantiles

    @property
    def is_calibrated(self) -> bool:
        return (
            self.calibrate
            and self.relative
            and self.data_type == "numbers"
            and (self.distribution != "negative_binomial")
        )

    def calibrate_to(
        self, model: nn.Module, examples: Sequence[Window], *, predict: Callable[[], list[Any]]
    ) -> Calibration:
        forecaster, (columns, places) = cast(Forecaster, model), self._scored()
        scale, overlap, notes = np.array(self.fitted.deviations)[columns], self.gap + 1, []
        forecaster.calibrate(shrinkage=0.0)
        bases = self._pairs(predict(), examples)
        forecaster.calibrate()
        pairs = self._pairs(predict(), examples)
        shrinkage = estimate_shrinkage(
            [(own - base)[..., places] / scale for (_, own), (_, base) in zip(pairs, bases, strict=True)],
            [(truth - base)[..., places] / scale for truth, base in bases],
            overlap=overlap,
        )
        if shrinkage is None:
            return Calibration()
        forecaster.calibrate(shrinkage.factor)
        if shrinkage.factor < 1:
            notes.append(describe_shrinkage(shrinkage, "linear forecast" if self.fitted.linear_base else "last value"))
        if self.levels:
            truth = np.concatenate([truth for truth, _ in pairs])[..., places]
            quantiles = self._predicted_quantiles(predict())[..., places, :]
            blocks = math.ceil(len(examples) / overlap)
            shifts = estimate_shifts(truth, quantiles, self.levels, blocks=blocks)
            forecaster.calibrate(shrinkage.factor, shifts.tolist())
            notes.append("the intervals were adjusted to the errors on the dev data")
        return Calibration("calibrated: " + "; ".join(notes) if notes else "", network_is_unused=not shrinkage.factor)

    def _scored(self) -> tuple[list[int], list[int]]:
        """The columns to score, and their places among the targets: those that change."""
        targets = self._targets(self.fitted.columns)
        places = self.fitted.varying(targets)
        return [targets[place] for place in places], places

    def _pairs(
        self, predictions: Sequence[ForecastPrediction], examples: Sequence[Window]
    ) -> list[tuple[Numbers, Numbers]]:
        """The observed and the forecast values of each example, (N, horizon, targets)."""
        unknown = next((window for window in examples if not window.known), None)
        if unknown is not None:
            raise DataError(unknown.location, "the values to forecast are missing; evaluation needs them")
        targets = self._targets(self.fitted.columns)
        shape = -1, self.horizon, len(targets)
        if self.output == "every_step":
            # Sequences may have been concatenated and cut; concatenating all answers restores the order of examples.
            ends = np.cumsum([len(window) for window in examples])[:-1]
            sides = [answer.truth for answer in predictions], [answer.steps for answer in predictions]
            joined = (np.concatenate([np.reshape(part, shape) for part in side]) for side in sides)
            return list(zip(*(np.split(side, ends) for side in joined), strict=True))
        return [
            (window.future(self.horizon)[..., targets], np.reshape(answer.values, shape))
            for window, answer in zip(examples, predictions, strict=True)
        ]

    def metric_sums(self, predictions: Sequence[ForecastPrediction], examples: Sequence[Window]) -> MetricSums:
        return self._sums(self._pairs(predictions, examples))

    def _sums(self, pairs: Sequence[tuple[Numbers, Numbers]]) -> MetricSums:
        """The sums of the main metric, from the truth and the forecasts of each example."""
        if self.data_type == "binary":
            return mean_of_sums([regression.log_losses(*pair) for pair in pairs])
        columns, places = self._scored()
        scale = np.array(self.fitted.deviations)[columns]
        return mean_of_sums([((forecast - truth)[..., places] / scale) ** 2 for truth, forecast in pairs])

    def score(self, predictions: Sequence[ForecastPrediction], examples: Sequence[Window]) -> dict[str, Any]:
        pairs = self._pairs(predictions, examples)
        truth, forecast = (np.concatenate(side) for side in zip(*pairs, strict=True))
        if self.data_type == "binary":
            return {
                "nll": regression.frame_nll(truth, forecast),
                "accuracy": regression.frame_accuracy(truth, forecast),
                "frames": len(truth) * self.horizon,
            }
        (columns, places), baselines = self._scored(), self._baselines()
        forecasts = Forecasts(
            truth=truth[..., places],
            forecast=forecast[..., places],
            baselines={name: baselines.forecast(name, examples)[..., places] for name in baselines.names},
            scale=np.array(self.fitted.deviations)[columns],
            names=[self.fitted.columns[column] for column in columns],
            naive_errors=[self.fitted.naive_errors[place] for place in places],
            levels=self.levels,
            quantiles=self._predicted_quantiles(predictions)[..., places, :] if self.levels else None,
            series=[
                name for name, (rows, _) in zip(series_names(examples), pairs, strict=False) for _ in range(len(rows))
            ],
        )
        scores = forecasts.score()
        own, overlap = self._sums(self._pairs(predictions, examples)), self._overlap(examples)
        for name in baselines.names:
            test = significance(own, self._forecast_sums(baselines.forecast(name, examples), examples), overlap=overlap)
            if test is not None and test.is_possible:
                scores["baselines"][name]["p_value"] = test.p_value
        return {name: value for name, value in scores.items() if not (isinstance(value, float) and math.isnan(value))}

    def _baselines(self) -> BaselineForecasts:
        learned = self.fitted
        targets = self._targets(learned.columns)
        return BaselineForecasts(
            targets=tuple(targets),
            horizon=self.horizon,
            every_step=self.output == "every_step",
            season=self.season,
            means=tuple(learned.means[target] for target in targets),
            deviations=tuple(learned.deviations[target] for target in targets),
            linear=learned.linear,
            smoothing=learned.smoothing,
        )

    def _predicted_quantiles(self, predictions: Sequence[ForecastPrediction]) -> Quantiles:
        """The quantiles of all forecasts, (N, horizon, targets, levels)."""
        if self.output == "every_step":
            return np.concatenate([answer.step_quantiles for answer in predictions])
        return np.stack([answer.quantiles for answer in predictions])

    def _observed(self, examples: Sequence[Window]) -> list[Numbers]:  # (N, horizon, targets) each
        """The values to forecast of each example."""
        every_step, targets = self.output == "every_step", self._targets(self.fitted.columns)
        return [window.future(self.horizon, every_step=every_step)[..., targets] for window in examples]

    def fit_baseline(self, counts: Counter[Any], examples: Sequence[Window]) -> Baseline | None:  # noqa: ARG002
        if self.data_type == "binary":
            return Baseline(name="frequency of each feature")
        titles = {SEASONAL: f"value one season ({self.season} steps) before"}
        lags = {LAST: 1, SEASONAL: self.season}
        candidates = [
            Baseline(name=titles.get(name, name), lag=lags.get(name, 0), method=name)
            for name in self._baselines().names
        ]
        if not examples:
            return candidates[self.season > 1]
        return min(candidates, key=lambda candidate: self.score_baseline(candidate, examples)[self.main_metric])

    def baseline_forecast(self, baseline: Baseline, examples: Sequence[Window]) -> Numbers:  # (N, horizon, targets)
        """The forecasts of a baseline, in the order of the examples."""
        method = baseline.method or (SEASONAL if baseline.lag > 1 else LAST)  # runs of earlier versions have lags only
        return self._baselines().forecast(method, examples)

    def baseline_sums(self, baseline: Baseline, examples: Sequence[Window]) -> MetricSums:
        if self.data_type == "binary":
            means = np.array(self.fitted.means)[self._targets(self.fitted.columns)]
            return self._sums([(truth, np.broadcast_to(means, truth.shape)) for truth in self._observed(examples)])
        return self._forecast_sums(self.baseline_forecast(baseline, examples), examples)

    def _forecast_sums(self, forecasts: Numbers, examples: Sequence[Window]) -> MetricSums:  # (N, horizon, targets)
        """The sums of the main metric of forecasts of all examples, in their order."""
        truths = self._observed(examples)
        parts = np.split(forecasts, np.cumsum(list(map(len, truths)))[:-1])
        return self._sums(list(zip(truths, parts, strict=True)))

    def _overlap(self, examples: Sequence[Window]) -> int:
        """How many successive examples share values that they forecast: those of a backtest may not."""
        if self.output == "every_step":
            return self.gap + 1
        steps = [after.stop - before.stop for before, after in pairwise(examples) if after.stop > before.stop]
        return math.ceil(self.horizon / min(steps)) if steps else 1

    def score_baseline(self, baseline: Baseline, examples: Sequence[Window]) -> dict[str, float]:
        learned, truth = self.fitted, np.concatenate(self._observed(examples))
        targets = self._targets(learned.columns)
        if self.data_type == "binary":
            forecast = np.broadcast_to(np.array(learned.means)[targets], truth.shape)
            return {
                "nll": regression.frame_nll(truth, forecast),
                "accuracy": regression.frame_accuracy(truth, forecast),
            }
        columns, places = self._scored()
        truth, forecast = truth[..., places], self.baseline_forecast(baseline, examples)[..., places]
        scale = np.array(learned.deviations)[columns]
        return {
            "mse_scaled": regression.mse(truth / scale, forecast / scale),
            "mse": regression.mse(truth, forecast),
            "mae": regression.mae(truth, forecast),
        }
