"""The sentence about a forecaster and its baselines."""

from typing import Any

import pytest

from seqloom.tasks.forecast.verdict import compare_with_baselines


def errors(mse_scaled: float, **more: float) -> dict[str, Any]:
    return {"mse_scaled": mse_scaled, "mae": 2 * mse_scaled, **more}


BASELINES = {"last value": errors(0.9, p_value=0.001), "drift": errors(0.7, p_value=0.25)}


@pytest.mark.parametrize(
    ("own", "p_value", "expected"),
    [
        (
            0.5,
            0.25,
            "The model is not clearly better than drift, the best baseline (mse_scaled 0.5 against 0.7; p = 0.25 in a",
        ),
        (
            0.5,
            0.01,
            "The model is better than every baseline; the best of them is drift (mse_scaled 0.5 against 0.7; p = 0.01",
        ),
        (0.8, 0.01, "The model is worse than drift (mse_scaled 0.8 against 0.7): use drift, or train longer."),
        (
            0.95,
            0.01,
            "The model is worse than drift (mse_scaled 0.95 against 0.7), and also worse than last value: use",
        ),
        (0.7 + 1e-8, 0.01, "The model is as good as the best baseline, drift."),  # it returns to a baseline
        (0.7 - 1e-8, 0.01, "The model is as good as the best baseline, drift."),
    ],
)
def test_the_best_baseline_decides(own: float, p_value: float, expected: str) -> None:
    baselines = BASELINES | {"drift": errors(0.7, p_value=p_value)}
    assert compare_with_baselines(errors(own), baselines).startswith(expected)


def test_longer_training_is_not_advised_to_a_model_that_overfits() -> None:
    sentence = compare_with_baselines(errors(0.8), BASELINES, overfitting="The dev error rises.")
    assert sentence.endswith(": use drift. The dev error rises.")


def test_few_forecasts_are_not_tested() -> None:
    sentence = compare_with_baselines(errors(0.5), {"drift": errors(0.7)})
    assert sentence.endswith("(mse_scaled 0.5 against 0.7); there are too few forecasts for a test of significance.")
