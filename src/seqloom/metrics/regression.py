"""Metrics of numeric predictions: forecast errors, correlations, and the likelihood of binary frames."""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from seqloom.metrics.confidence import MetricSums

SMALLEST_PROBABILITY = 1e-12
"""Lower bound of a probability, so that one certain but wrong prediction does not make the sum infinite."""
CONSTANT = 1e-12
"""Variance relative to the mean square, up to which rounding errors make it meaningless."""


def mse(truth: ArrayLike, forecast: ArrayLike) -> float:
    """The mean squared error."""
    target, predicted = _pair(truth, forecast)
    return float(((predicted - target) ** 2).mean())


def mae(truth: ArrayLike, forecast: ArrayLike) -> float:
    """The mean absolute error."""
    target, predicted = _pair(truth, forecast)
    return float(np.abs(predicted - target).mean())


def r2(truth: ArrayLike, predicted: ArrayLike) -> NDArray[np.float64]:  # (N, K) each → (K,)
    """The coefficient of determination of each column: 1 is perfect, 0 is as good as the mean of the truth.

    A constant column has 1 if all its predictions are right, otherwise 0, as in scikit-learn.
    """
    target, forecast = _pair(truth, predicted)
    errors = ((forecast - target) ** 2).sum(axis=0)
    spread = ((target - target.mean(axis=0)) ** 2).sum(axis=0)
    return _explained(errors, spread, np.ptp(target, axis=0) > 0)


def r2_sums(pairs: Sequence[tuple[NDArray[np.float64], NDArray[np.float64]]]) -> MetricSums:
    """The mean R² over columns from the sums of each example, its truth and its prediction (N, K)."""
    columns = pairs[0][0].shape[1] if pairs else 1

    def row(truth: NDArray[np.float64], predicted: NDArray[np.float64]) -> NDArray[np.float64]:
        sums = [((predicted - truth) ** 2).sum(axis=0), truth.sum(axis=0), (truth**2).sum(axis=0)]
        return np.concatenate([[len(truth)], *sums])

    def value(sums: NDArray[np.float64]) -> float:
        errors, totals, squares = sums[1:].reshape(3, columns)
        spread = squares - totals**2 / max(sums[0], 1)
        return float(_explained(errors, spread, spread > CONSTANT * squares).mean())

    return MetricSums(np.array([row(*pair) for pair in pairs]).reshape(-1, 1 + 3 * columns), value)


def _explained(
    errors: NDArray[np.float64], spread: NDArray[np.float64], moving: NDArray[np.bool_]
) -> NDArray[np.float64]:
    shares: NDArray[np.float64] = 1 - errors / np.where(moving, spread, 1)
    return np.where(moving, shares, errors == 0)


def naive_error(series: ArrayLike, *, season: int = 1) -> NDArray[np.float64]:  # (T, K) → (K,)
    """The mean absolute error within a series of forecasting the value one season (or one step) before."""
    values = np.asarray(series, dtype=np.float64)
    if not 1 <= season < len(values):
        raise ValueError(f"season is {season}, expected 1 to {len(values) - 1} (less than the length of the series)")
    errors: NDArray[np.float64] = np.abs(values[season:] - values[:-season]).mean(axis=0)
    return errors


def mase(
    truth: ArrayLike,  # (..., K)
    forecast: ArrayLike,
    naive: ArrayLike,  # (K,), see naive_error, from the training data
) -> float:
    """The mean absolute scaled error (Hyndman & Koehler 2006): below 1 is better than the naive forecast.

    Constant columns have no scale and are ignored; NaN if all columns are constant.
    """
    target, predicted = _pair(truth, forecast)
    scale = np.asarray(naive, dtype=np.float64)
    moving = scale > 0
    if not moving.any():
        return float("nan")
    return float((np.abs(predicted - target)[..., moving] / scale[moving]).mean())


def rse(truth: ArrayLike, forecast: ArrayLike) -> float:
    """The root relative squared error over all columns (Lai et al. 2018); forecasting the mean of the truth gives 1."""
    target, predicted = _pair(truth, forecast)
    spread = ((target - target.mean()) ** 2).sum()
    return float(np.sqrt(((predicted - target) ** 2).sum() / spread)) if spread else float("nan")


def correlation(truth: ArrayLike, forecast: ArrayLike) -> float:  # (N, K)
    """The mean over columns of Pearson's correlation (Lai et al. 2018); constant columns are ignored."""
    target, predicted = _pair(truth, forecast)
    moving = (np.ptp(target, axis=0) > 0) & (np.ptp(predicted, axis=0) > 0)
    if not moving.any():
        return float("nan")
    target, predicted = target[:, moving], predicted[:, moving]
    target, predicted = target - target.mean(axis=0), predicted - predicted.mean(axis=0)
    scale = np.sqrt((target**2).sum(axis=0) * (predicted**2).sum(axis=0))
    return float(((target * predicted).sum(axis=0) / scale).mean())


def ranks(values: ArrayLike) -> NDArray[np.float64]:  # (N,) → (N,)
    """Ranks from 1; equal values share their mean rank."""
    _, groups, counts = np.unique(np.asarray(values, np.float64), return_inverse=True, return_counts=True)
    mean_ranks: NDArray[np.float64] = (np.cumsum(counts) - (counts - 1) / 2)[groups]
    return mean_ranks


def spearman(first: ArrayLike, second: ArrayLike) -> float:
    """Rank correlation (Spearman 1904); 0 if all values of one side are equal, or there are fewer than two."""
    left, right = ranks(first), ranks(second)
    if left.shape != right.shape:
        raise ValueError(f"cannot correlate {len(left)} with {len(right)} values: expected equal numbers")
    left, right = left - left.mean() if len(left) else left, right - right.mean() if len(right) else right
    spread = float(np.sqrt((left**2).sum() * (right**2).sum()))
    return float((left * right).sum()) / spread if spread else 0.0


def mean_spearman(truth: ArrayLike, predicted: ArrayLike) -> float:  # (N, K)
    """The mean rank correlation over columns; constant columns are ignored, NaN if all are."""
    target, forecast = _pair(truth, predicted)
    moving = (np.ptp(target, axis=0) > 0) & (np.ptp(forecast, axis=0) > 0)
    pairs = zip(target.T[moving], forecast.T[moving], strict=True)
    return float(np.mean([spearman(*pair) for pair in pairs])) if moving.any() else float("nan")


def frame_nll(truth: ArrayLike, probabilities: ArrayLike) -> float:  # (..., K), of zeros and ones
    """The negative log-likelihood of binary frames in nats, summed over features and averaged over frames."""
    return float(log_losses(truth, probabilities).mean())


def log_losses(truth: ArrayLike, probabilities: ArrayLike) -> NDArray[np.float64]:  # (..., K) → (...)
    """The negative log-likelihood of each frame."""
    target, predicted = _pair(truth, probabilities)
    predicted = predicted.clip(SMALLEST_PROBABILITY, 1 - SMALLEST_PROBABILITY)
    losses: NDArray[np.float64] = -(target * np.log(predicted) + (1 - target) * np.log1p(-predicted)).sum(axis=-1)
    return losses


def frame_accuracy(truth: ArrayLike, probabilities: ArrayLike) -> float:  # (..., K), of zeros and ones
    """TP / (TP + FP + FN) over all frames, the accuracy of music transcription (Bay et al. 2009)."""
    target, predicted = _pair(truth, probabilities)
    on = predicted > 0.5
    true_positives = (on & (target == 1)).sum()
    counted = (on | (target == 1)).sum()
    return float(true_positives / counted) if counted else 1.0


def by_step(
    truth: NDArray[np.float64],  # (N, horizon, K)
    forecast: NDArray[np.float64],
    computed: Mapping[str, NDArray[np.float64]],  # (horizon,), further metrics to include
) -> dict[str, dict[str, float]]:
    """Metrics of each step of the horizon."""
    return {
        str(step + 1): {
            "mae": mae(truth[:, step], forecast[:, step]),
            "rse": rse(truth[:, step], forecast[:, step]),
            "correlation": correlation(truth[:, step], forecast[:, step]),
            **{name: float(values[step]) for name, values in computed.items()},
        }
        for step in range(truth.shape[1])
    }


def _pair(truth: ArrayLike, forecast: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    target, predicted = np.asarray(truth, dtype=np.float64), np.asarray(forecast, dtype=np.float64)
    if target.shape != predicted.shape:
        raise ValueError(f"the forecast has shape {predicted.shape}, expected {target.shape} (that of the truth)")
    if not target.size:
        raise ValueError("cannot compare forecasts: the truth is empty")
    return target, predicted
