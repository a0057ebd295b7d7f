"""What the scores of forecasts are worth beside those of the baselines."""

from collections.abc import Mapping
from typing import Any

from seqloom.formats import format_value
from seqloom.metrics.confidence import SIGNIFICANT


def compare_with_baselines(
    metrics: Mapping[str, Any],
    baselines: Mapping[str, Mapping[str, float]],
    *,
    overfitting: str = "",  # why longer training does not help; empty: it may
) -> str:
    """Which baselines have a smaller squared error than the model."""
    own = metrics["mse_scaled"]
    errors = {name: row["mse_scaled"] for name, row in baselines.items()}
    best = min(errors, key=lambda name: errors[name])
    better = sorted((name for name in errors if errors[name] < own), key=lambda name: errors[name])
    figures = f"{format_value(own)} against {format_value(errors[best])}"
    if format_value(own) == format_value(errors[best]):  # a model that returns to a baseline differs by rounding errors
        return f"The model is as good as the best baseline, {best}."
    if better:
        others = f", and also worse than {' and '.join(better[1:])}" if len(better) > 1 else ""
        remedy = f". {overfitting}" if overfitting else ", or train longer."
        return f"The model is worse than {best} (mse_scaled {figures}){others}: use {best}{remedy}"
    p_value = baselines[best].get("p_value")
    if p_value is None:
        few = "; there are too few forecasts for a test of significance"
        return f"The model is better than every baseline; the best of them is {best} (mse_scaled {figures}){few}."
    tested = f"(mse_scaled {figures}; p = {p_value:.2g} in a paired test)"
    if p_value >= SIGNIFICANT:
        return f"The model is not clearly better than {best}, the best baseline {tested}."
    return f"The model is better than every baseline; the best of them is {best} {tested}."
