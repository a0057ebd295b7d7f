"""Errors and correlations against values worked out by hand and by other libraries."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import rankdata, spearmanr
from sklearn.metrics import jaccard_score, log_loss, mean_absolute_error, mean_squared_error

from seqloom.metrics.regression import (
    correlation,
    frame_accuracy,
    frame_nll,
    mae,
    mase,
    mse,
    naive_error,
    ranks,
    rse,
    spearman,
)

TRUTH = [[1.0, 10.0], [2.0, 20.0], [4.0, 10.0]]
FORECAST = [[1.0, 12.0], [3.0, 20.0], [2.0, 9.0]]


def test_errors_worked_out_by_hand() -> None:
    assert mse(TRUTH, FORECAST) == pytest.approx((0 + 4 + 1 + 0 + 4 + 1) / 6)
    assert mae(TRUTH, FORECAST) == pytest.approx((0 + 2 + 1 + 0 + 2 + 1) / 6)
    # The mean of all six numbers is 47 / 6; their sum of squares 621.
    assert rse(TRUTH, FORECAST) == pytest.approx(math.sqrt(10 / (621 - 47**2 / 6)))


def test_errors_equal_those_of_scikit_learn() -> None:
    truth, forecast = np.random.default_rng(0).normal(size=(2, 40, 3))
    assert mse(truth, forecast) == pytest.approx(mean_squared_error(truth, forecast), rel=1e-12)
    assert mae(truth, forecast) == pytest.approx(mean_absolute_error(truth, forecast), rel=1e-12)
    expected = np.mean([np.corrcoef(truth[:, column], forecast[:, column])[0, 1] for column in range(3)])
    assert correlation(truth, forecast) == pytest.approx(expected, rel=1e-12)


def test_naive_error_of_one_step_and_one_season() -> None:
    series = [[1.0, 5.0], [2.0, 5.0], [4.0, 5.0], [3.0, 5.0]]
    np.testing.assert_allclose(naive_error(series), [(1 + 2 + 1) / 3, 0])
    np.testing.assert_allclose(naive_error(series, season=2), [(3 + 1) / 2, 0])
    for season in (0, 4):
        with pytest.raises(ValueError, match=f"season is {season}, expected 1 to 3"):
            naive_error(series, season=season)


def test_mase_is_relative_to_the_naive_error_of_each_column() -> None:
    assert mase(TRUTH, FORECAST, [2.0, 0.5]) == pytest.approx((3 / 2 + 3 / 0.5) / 6)
    assert mase(TRUTH, FORECAST, [2.0, 0.0]) == pytest.approx(3 / 2 / 3)
    assert math.isnan(mase(TRUTH, FORECAST, [0.0, 0.0]))


@given(st.integers(1, 6), st.integers(2, 30))
def test_mase_of_the_naive_forecast_is_one(season: int, more: int) -> None:
    series = np.random.default_rng(season * more).normal(size=(season + more, 2))
    error = mase(series[season:], series[:-season], naive_error(series, season=season))
    assert error == pytest.approx(1, rel=1e-12)


def test_constant_columns_have_no_correlation() -> None:
    constant = [[1.0], [1.0]]
    assert math.isnan(correlation(constant, [[1.0], [2.0]]))
    assert math.isnan(rse(constant, [[1.0], [2.0]]))
    assert correlation([[1.0, 1.0], [2.0, 1.0]], [[3.0, 1.0], [5.0, 2.0]]) == pytest.approx(1)


def test_frame_nll_sums_over_features_and_averages_over_frames() -> None:
    random = np.random.default_rng(1)
    truth, probabilities = random.integers(0, 2, (50, 7)), random.uniform(0.01, 0.99, (50, 7))
    expected = sum(log_loss(truth[:, feature], probabilities[:, feature]) for feature in range(7))
    assert frame_nll(truth, probabilities) == pytest.approx(expected, rel=1e-12)
    assert frame_nll([[1, 0]], [[0.5, 0.5]]) == pytest.approx(2 * math.log(2))
    expected = jaccard_score(truth.ravel(), probabilities.ravel() > 0.5)
    assert frame_accuracy(truth, probabilities) == pytest.approx(expected)
    assert frame_accuracy([[0, 0]], [[0.1, 0.2]]) == 1


def test_certain_and_wrong_predictions_have_a_finite_nll() -> None:
    assert frame_nll([[1, 0]], [[0.0, 1.0]]) == pytest.approx(2 * 12 * math.log(10), rel=1e-5)  # 1 - 1e-12 is rounded
    assert frame_nll([[1, 0]], [[1.0, 0.0]]) == pytest.approx(0, abs=1e-11)


def test_invalid_shapes() -> None:
    with pytest.raises(ValueError, match=r"shape \(3,\), expected \(2,\)"):
        mse([1, 2], [1, 2, 3])
    with pytest.raises(ValueError, match="the truth is empty"):
        mae([], [])


@pytest.mark.parametrize("seed", range(5))
def test_spearman_equals_scipy(seed: int) -> None:
    random = np.random.default_rng(seed)
    first, second = random.integers(0, 8, 40), random.normal(size=40).round(1)
    np.testing.assert_allclose(ranks(first), rankdata(first))
    assert spearman(first, second) == pytest.approx(spearmanr(first, second).statistic, abs=1e-12)


def test_spearman_of_too_few_or_equal_values() -> None:
    assert spearman([], []) == spearman([1], [2]) == spearman([1, 1, 1], [1, 2, 3]) == 0
    with pytest.raises(ValueError, match="cannot correlate 3 with 2 values"):
        spearman([1, 2, 3], [1, 2])
