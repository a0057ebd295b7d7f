"""Exponential smoothing: Holt-Winters with an additive season and a damped trend (Holt 1957, Winters 1960).

With the error e of the forecast of the next value, l + φ b + s:

    l ← l + φ b + α e        b ← φ b + β e        s ← s + γ e
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]

MAX_PARTS = 20  # series to which the parameters are fitted
MAX_ROWS = 1500  # at the end of the training data, to which the parameters are fitted
ALPHAS, BETAS, GAMMAS, DAMPINGS = (0.02, 0.1, 0.3, 0.6, 0.95), (0.0, 0.01, 0.1), (0.0, 0.05, 0.3), (0.0, 0.9, 0.98)
REFINEMENTS = 3  # searches around the best parameters, with steps of half the size


class Smoothing(NamedTuple):
    """The parameters of one column."""

    alpha: float  # of the level
    beta: float  # of the trend
    gamma: float  # of the season
    phi: float  # damping of the trend; 0: no trend


@dataclass(frozen=True)
class Smoothed:
    """The states after each row, from which forecasts follow."""

    level: Numbers  # (T, K)
    trend: Numbers  # (T, K)
    season: Numbers  # (period + T, K), the season before the first row, and the part of it that each row has changed
    period: int
    phi: Numbers  # (K,)

    def forecast(self, rows: NDArray[np.int64], horizon: int) -> Numbers:  # (N,) → (N, horizon, K)
        """The forecasts after rows; of rows that the start is estimated from, the last level."""
        steps = np.arange(1, horizon + 1)
        damped = np.cumsum(self.phi[None] ** steps[:, None], axis=0)  # φ + φ² + …, (horizon, K)
        season = self.season[rows[:, None] + (steps - 1) % self.period + 1]
        forecast: Numbers = self.level[rows][:, None] + damped * self.trend[rows][:, None] + season
        return forecast


def smooth(values: Numbers, parameters: Sequence[Smoothing], period: int) -> Smoothed:  # (T, K)
    """The states after each row of columns, each with its own parameters; a period of 1 is no season."""
    period = period if has_season(len(values), period) else 1
    numbers = np.array(parameters, np.float64).T
    levels, trends = np.zeros_like(values), np.zeros_like(values)
    seasons = np.concatenate([_start(values, period)[2], np.zeros_like(values)])
    for row, (level, trend, season, _) in enumerate(_steps(values, numbers, period)):
        levels[row], trends[row], seasons[period + row] = level, trend, season
    return Smoothed(levels, trends, seasons, period, numbers[3])


def has_season(rows: int, period: int) -> bool:
    """Whether there are enough rows to estimate a season."""
    return period > 1 and rows >= 2 * period


def _steps(
    values: Numbers,  # (T, K)
    parameters: Numbers,  # (4, K)
    period: int,
) -> Iterator[tuple[Numbers, Numbers, Numbers, Numbers]]:
    """After each row: level, trend, the part of the season that it has changed, and the error of its forecast."""
    alpha, beta, gamma, phi = parameters
    level, trend, season = _start(values, period)
    trend = trend * (phi > 0)
    for row, value in enumerate(values):
        place = row % period
        expected = level + phi * trend
        error = value - expected - season[place]
        level, trend = expected + alpha * error, phi * trend + beta * error
        season[place] += gamma * error
        yield level, trend, season[place], error


def _start(values: Numbers, period: int) -> tuple[Numbers, Numbers, Numbers]:
    """The level, trend and season before the first row, from the first two seasons."""
    if period == 1 or len(values) < 2 * period:
        return values[0].copy(), np.zeros(values.shape[1]), np.zeros((period, values.shape[1]))
    first, second = values[:period], values[period : 2 * period]
    trend = (second.mean(axis=0) - first.mean(axis=0)) / period
    centred = np.arange(period)[:, None] - (period - 1) / 2
    season = first - first.mean(axis=0) - trend * centred
    level = first.mean(axis=0) - trend * (period + 1) / 2  # of the row before the first
    return level, trend, season


def fit_smoothing(parts: Sequence[Numbers], period: int) -> list[Smoothing]:  # each (T, K) → K
    """The parameters with the smallest squared error of the next value, for each column: a grid, then refined."""
    chosen = [parts[place] for place in np.unique(np.linspace(0, len(parts) - 1, MAX_PARTS, dtype=int))]
    chosen = [part[-MAX_ROWS:] for part in chosen]
    period = period if all(has_season(len(part), period) for part in chosen) else 1
    gammas = GAMMAS if period > 1 else (0.0,)
    grid = np.array([(a, b, c, d) for a, b, c, d in product(ALPHAS, BETAS, gammas, DAMPINGS) if d or not b])
    best = _best(chosen, np.repeat(grid[:, :, None], parts[0].shape[1], axis=2), period)  # (C, 4, K)
    size = np.array([0.2, 0.05, 0.1, 0.04])
    for _ in range(REFINEMENTS):
        around = np.array(list(product((-1, 0, 1), repeat=4)))[:, :, None] * size[None, :, None] + best[None]
        has_trend = best[3] > 0
        around[:, 0] = around[:, 0].clip(1e-3, 1)
        around[:, 1] = np.minimum(around[:, 1].clip(0), around[:, 0]) * has_trend
        around[:, 2] = np.minimum(around[:, 2].clip(0), 1 - around[:, 0]) * (period > 1)
        around[:, 3] = around[:, 3].clip(0.8, 0.995) * has_trend
        best, size = _best(chosen, around, period), size / 2
    return [Smoothing(*column) for column in best.T.tolist()]


def _best(parts: Sequence[Numbers], candidates: Numbers, period: int) -> Numbers:  # each (T, K), (C, 4, K) → (4, K)
    """Of several parameters for each column, those with the smallest squared error after the start."""
    count, columns = len(candidates), candidates.shape[2]
    flat = candidates.swapaxes(0, 1).reshape(4, count * columns)  # all candidates at once
    squares = np.zeros(count * columns)
    with np.errstate(over="ignore", invalid="ignore"):
        for part in parts:
            for row, (*_, error) in enumerate(_steps(np.tile(part, (1, count)), flat, period)):
                if row >= period:
                    squares += error**2
    totals = np.nan_to_num(squares, nan=np.inf).reshape(count, columns)
    return candidates[totals.argmin(axis=0), :, np.arange(columns)].T
