"""How far forecasts are from what came: errors of numbers, and the likelihood of binary frames."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike, NDArray

SMALLEST_PROBABILITY = 1e-12
"""What a certain answer that turns out wrong is taken for, so that one of them does not make the sum infinite."""


def mse(truth: ArrayLike, forecast: ArrayLike) -> float:
    """The mean squared error."""
    wanted, found = _pair(truth, forecast)
    return float(((found - wanted) ** 2).mean())


def mae(truth: ArrayLike, forecast: ArrayLike) -> float:
    """The mean absolute error."""
    wanted, found = _pair(truth, forecast)
    return float(np.abs(found - wanted).mean())


def naive_error(series: ArrayLike, *, season: int = 1) -> NDArray[np.float64]:  # (T, K) → (K,)
    """The mean absolute error, within a series, of saying what was seen one season (or one step) before."""
    values = np.asarray(series, dtype=np.float64)
    if not 1 <= season < len(values):
        raise ValueError(f"season is {season}, wanted from 1 to {len(values) - 1}, less than the length of the series")
    found: NDArray[np.float64] = np.abs(values[season:] - values[:-season]).mean(axis=0)
    return found


def mase(
    truth: ArrayLike,  # (..., K)
    forecast: ArrayLike,
    naive: ArrayLike,  # (K,), see naive_error, from the training data
) -> float:
    """The mean absolute scaled error (Hyndman & Koehler 2006): below one is better than the naive forecast.

    Columns that never change have no scale and are left out; NaN where no other is left.
    """
    wanted, found = _pair(truth, forecast)
    scale = np.asarray(naive, dtype=np.float64)
    moving = scale > 0
    if not moving.any():
        return float("nan")
    return float((np.abs(found - wanted)[..., moving] / scale[moving]).mean())


def rse(truth: ArrayLike, forecast: ArrayLike) -> float:
    """The root relative squared error over all columns together (Lai et al. 2018): the mean of the truth scores one."""
    wanted, found = _pair(truth, forecast)
    spread = ((wanted - wanted.mean()) ** 2).sum()
    return float(np.sqrt(((found - wanted) ** 2).sum() / spread)) if spread else float("nan")


def correlation(truth: ArrayLike, forecast: ArrayLike) -> float:  # (N, K)
    """The mean over columns of Pearson's correlation (Lai et al. 2018); constant columns are left out."""
    wanted, found = _pair(truth, forecast)
    moving = (np.ptp(wanted, axis=0) > 0) & (np.ptp(found, axis=0) > 0)
    if not moving.any():
        return float("nan")
    wanted, found = wanted[:, moving], found[:, moving]
    wanted, found = wanted - wanted.mean(axis=0), found - found.mean(axis=0)
    scale = np.sqrt((wanted**2).sum(axis=0) * (found**2).sum(axis=0))
    return float(((wanted * found).sum(axis=0) / scale).mean())


def frame_nll(truth: ArrayLike, probabilities: ArrayLike) -> float:  # (..., K), of zeros and ones
    """The negative log-likelihood in nats of binary frames: the sum over their keys, the mean over frames."""
    return float(log_losses(truth, probabilities).mean())


def log_losses(truth: ArrayLike, probabilities: ArrayLike) -> NDArray[np.float64]:  # (..., K) → (...)
    """The negative log-likelihood of each frame."""
    wanted, found = _pair(truth, probabilities)
    found = found.clip(SMALLEST_PROBABILITY, 1 - SMALLEST_PROBABILITY)
    losses: NDArray[np.float64] = -(wanted * np.log(found) + (1 - wanted) * np.log1p(-found)).sum(axis=-1)
    return losses


def frame_accuracy(truth: ArrayLike, probabilities: ArrayLike) -> float:  # (..., K), of zeros and ones
    """Σ right / Σ (right + false + missed) keys over all frames: the accuracy of transcription (Bay et al. 2009)."""
    wanted, found = _pair(truth, probabilities)
    on = found > 0.5
    right = (on & (wanted == 1)).sum()
    counted = (on | (wanted == 1)).sum()
    return float(right / counted) if counted else 1.0


def by_step(
    truth: NDArray[np.float64],  # (N, horizon, K)
    forecast: NDArray[np.float64],
    known: Mapping[str, NDArray[np.float64]],  # (horizon,), what is there already
) -> dict[str, dict[str, float]]:
    """The errors of each step ahead."""
    return {
        str(step + 1): {
            "mae": mae(truth[:, step], forecast[:, step]),
            "rse": rse(truth[:, step], forecast[:, step]),
            "correlation": correlation(truth[:, step], forecast[:, step]),
            **{name: float(values[step]) for name, values in known.items()},
        }
        for step in range(truth.shape[1])
    }


def _pair(truth: ArrayLike, forecast: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    wanted, found = np.asarray(truth, dtype=np.float64), np.asarray(forecast, dtype=np.float64)
    if wanted.shape != found.shape:
        raise ValueError(f"the forecast has shape {found.shape}, wanted {wanted.shape} as the truth")
    if not wanted.size:
        raise ValueError("there is nothing to compare: the truth is empty")
    return wanted, found
