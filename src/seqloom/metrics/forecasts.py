"""Errors of forecasts beside those of naive ones, in the units of the data and in standard deviations."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqloom.metrics import regression
from seqloom.metrics.forecast_quantiles import central_intervals, interval_name, quantile_scores, shown_names

Numbers = NDArray[np.float64]

LAST, SEASONAL, DRIFT, SMOOTHING, DLINEAR = "last value", "season before", "drift", "exponential smoothing", "DLinear"
"""Baselines, as scores name them."""
SHORT_NAMES = {LAST: "last", SEASONAL: "seasonal"}  # of baselines whose errors stand beside those of the model
SKILL_DIGITS = 6
MAX_TARGETS = 1000  # columns up to which each has errors of its own


@dataclass(frozen=True, kw_only=True)
class Forecasts:
    """Forecasts, what was observed, and the forecasts of baselines, each (N, horizon, targets)."""

    truth: Numbers
    forecast: Numbers
    baselines: Mapping[str, Numbers]  # forecasts of other methods by name; the last value is one of them
    scale: Numbers  # (targets,), standard deviations in the training data
    names: Sequence[str]  # of the targets
    naive_errors: Sequence[float]  # mean absolute error of the naive forecast in the training data, for each target
    levels: Sequence[float] = ()  # probabilities of the quantiles
    quantiles: NDArray[np.float32] | None = None  # (N, horizon, targets, levels)
    series: Sequence[str] = ()  # the series of each of the N forecasts; empty: there is only one

    def score(self) -> dict[str, Any]:
        """Errors and skill by name; NaN where one is not defined."""
        errors = {name: forecast - self.truth for name, forecast in self.baselines.items()}
        short_names = {name: SHORT_NAMES[name] for name in errors if name in SHORT_NAMES}
        model_mse, last_mse = self._scaled_mse(self.forecast - self.truth), self._scaled_mse(errors[LAST])
        targets = self.truth.shape[-1]
        flat = self.truth.reshape(-1, targets), self.forecast.reshape(-1, targets)
        others = {name: self._errors_of(error) for name, error in errors.items()}
        best = min(others, key=lambda name: others[name]["mse_scaled"])
        scores = {
            "mse_scaled": float(model_mse.mean()),
            "mse": regression.mse(self.truth, self.forecast),
            "mae": regression.mae(self.truth, self.forecast),
            "mase": regression.mase(self.truth, self.forecast, self.naive_errors),
            "rse": regression.rse(self.truth, self.forecast),
            "correlation": regression.correlation(*flat),
            "skill": _skill(float(model_mse.mean()), float(last_mse.mean())),
            "skill_worst": min(map(_skill, model_mse.tolist(), last_mse.tolist())) if last_mse.all() else float("nan"),
            "skill_best_baseline": _skill(float(model_mse.mean()), others[best]["mse_scaled"]),
        }
        for name, short in short_names.items():
            scores |= {f"{short}_mse": others[name]["mse"], f"{short}_mse_scaled": others[name]["mse_scaled"]}
        steps = {"mse_scaled": model_mse, "last_mse_scaled": last_mse}
        steps |= {"best_baseline_mse_scaled": self._scaled_mse(errors[best])}
        intervals: dict[str, Any] = {}
        by_place: dict[str, Numbers] = {}
        if self.quantiles is not None:
            by_place = quantile_scores(self.truth, self.quantiles, self.levels, scale=self.scale)
            means = {name: float(values.mean()) for name, values in by_place.items()}
            shown = shown_names(self.levels)
            scores |= {name: means[name] for name in shown}
            steps |= {name: by_place[name].mean(axis=1) for name in shown}
            intervals["intervals"] = {
                f"{share:.4g}": {part: means[f"{part}_{interval_name(share)}"] for part in ("coverage", "width")}
                for *_, share in central_intervals(self.levels)
            }
        per_step = regression.by_step(self.truth, self.forecast, steps)
        counts = {"windows": len(self.truth)}
        details = {"baselines": others, "per_step": per_step}
        details |= self._per_target(errors, short_names, by_place) | self._per_series(errors[best])
        return scores | counts | details | intervals

    def _per_series(self, best_baseline: Numbers) -> dict[str, dict[str, dict[str, float]]]:
        """The errors of each series, the largest first, if there are several."""
        names, places = np.unique(np.array(self.series, dtype=object).astype(str), return_inverse=True)
        if len(names) < 2:
            return {}
        counts, errors = np.bincount(places), self.forecast - self.truth
        values = {
            "mse_scaled": (errors / self.scale) ** 2,
            "best_baseline_mse_scaled": (best_baseline / self.scale) ** 2,
            "mae": np.abs(errors),
        }
        means = {
            name: (np.bincount(places, weights=each.mean(axis=(1, 2))) / counts).tolist()
            for name, each in values.items()
        }
        order = np.argsort(means["mse_scaled"], kind="stable")[::-1].tolist()
        return {
            "per_series": {
                str(names[place]): {name: each[place] for name, each in means.items()} | {"windows": int(counts[place])}
                for place in order
            }
        }

    def _errors_of(self, errors: Numbers) -> dict[str, float]:
        return {
            "mse_scaled": float(self._scaled_mse(errors).mean()),
            "mse": float((errors**2).mean()),
            "mae": float(np.abs(errors).mean()),
            "mase": regression.mase(errors, np.zeros_like(errors), self.naive_errors),
        }

    def _per_target(
        self, others: Mapping[str, Numbers], short_names: Mapping[str, str], by_place: Mapping[str, Numbers]
    ) -> dict[str, dict[str, dict[str, float]]]:
        """The errors of each target, if there are several."""
        if not 1 < len(self.names) <= MAX_TARGETS:
            return {}
        errors = {"": self.forecast - self.truth} | {f"{short}_": others[name] for name, short in short_names.items()}
        columns = {"mse_scaled": ((errors[""] / self.scale) ** 2), "mse": errors[""] ** 2, "mae": np.abs(errors[""])}
        columns |= {f"{name}mae": np.abs(values) for name, values in errors.items() if name}
        means = {name: values.mean(axis=(0, 1)).tolist() for name, values in columns.items()}
        if by_place:
            means |= {name: by_place[name].mean(axis=0).tolist() for name in shown_names(self.levels)}
        return {
            "per_target": {
                target: {name: values[place] for name, values in means.items()}
                for place, target in enumerate(self.names)
            }
        }

    def _scaled_mse(self, errors: Numbers) -> Numbers:  # (horizon,)
        """The mean squared error at each step, in standard deviations."""
        squared: Numbers = ((errors / self.scale) ** 2).mean(axis=(0, 2))
        return squared


def _skill(error: float, other: float) -> float:
    """1 − error / other, to the digits that single precision determines; NaN if the other is zero."""
    return round(1 - error / other, SKILL_DIGITS) + 0.0 if other else float("nan")  # + 0.0: no minus sign before zero
