"""Errors of forecasts beside those of naive ones, in the units of the data and in standard deviations."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqloom.metrics import regression

Numbers = NDArray[np.float64]

MAX_TARGETS = 1000  # columns up to which each has errors of its own


@dataclass(frozen=True, kw_only=True)
class Forecasts:
    """Forecasts, what was observed, and the errors of naive forecasts, each (N, horizon, targets)."""

    truth: Numbers
    forecast: Numbers
    last_errors: Numbers  # of the last value before each forecast
    seasonal_errors: Numbers | None  # of the value one season before; None: there is no season
    scale: Numbers  # (targets,), standard deviations in the training data
    names: Sequence[str]  # of the targets
    naive_errors: Sequence[float]  # mean absolute error of the naive forecast in the training data, for each target

    def score(self) -> dict[str, Any]:
        """Errors and skill by name; NaN where one is not defined."""
        model_mse, last_mse = self._scaled_mse(self.forecast - self.truth), self._scaled_mse(self.last_errors)
        targets = self.truth.shape[-1]
        flat = self.truth.reshape(-1, targets), self.forecast.reshape(-1, targets)
        scores = {
            "mse_scaled": float(model_mse.mean()),
            "mse": regression.mse(self.truth, self.forecast),
            "mae": regression.mae(self.truth, self.forecast),
            "mase": regression.mase(self.truth, self.forecast, self.naive_errors),
            "rse": regression.rse(self.truth, self.forecast),
            "correlation": regression.correlation(*flat),
            "skill": float(1 - model_mse.mean() / last_mse.mean()) if last_mse.mean() else float("nan"),
            "skill_worst": float((1 - model_mse / last_mse).min()) if last_mse.all() else float("nan"),
            "last_mse": float((self.last_errors**2).mean()),
            "last_mse_scaled": float(last_mse.mean()),
        }
        if self.seasonal_errors is not None:
            scores |= {
                "seasonal_mse": float((self.seasonal_errors**2).mean()),
                "seasonal_mse_scaled": float(self._scaled_mse(self.seasonal_errors).mean()),
            }
        steps = {"mse_scaled": model_mse, "last_mse_scaled": last_mse}
        per_step = regression.by_step(self.truth, self.forecast, steps)
        return scores | {"windows": len(self.truth), "per_step": per_step} | self._per_target()

    def _per_target(self) -> dict[str, dict[str, dict[str, float]]]:
        """The errors of each target, if there are several."""
        if not 1 < len(self.names) <= MAX_TARGETS:
            return {}
        errors = {"": self.forecast - self.truth, "last_": self.last_errors}
        if self.seasonal_errors is not None:
            errors["seasonal_"] = self.seasonal_errors
        columns = {"mse_scaled": ((errors[""] / self.scale) ** 2), "mse": errors[""] ** 2, "mae": np.abs(errors[""])}
        columns |= {f"{name}mae": np.abs(values) for name, values in errors.items() if name}
        means = {name: values.mean(axis=(0, 1)).tolist() for name, values in columns.items()}
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
