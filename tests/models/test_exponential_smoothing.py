"""Exponential smoothing compared with its equations, published figures and series that it forecasts exactly."""

import numpy as np
import pytest

from seqloom.models.exponential_smoothing import Smoothing, fit_smoothing, smooth

OIL = [445.36, 453.20, 454.41, 422.38, 456.04, 440.39, 425.19, 486.21, 500.43, 521.28, 508.95, 488.89, 509.87, 456.72]
OIL += [473.82, 525.95, 549.83, 542.34]
"""Annual oil production of Saudi Arabia, 1996 to 2013 (Hyndman & Athanasopoulos 2018, section 7.1)."""


def test_simple_smoothing_is_a_weighted_mean() -> None:
    values = np.array(OIL)[:, None]
    alpha = 0.8339
    weights = alpha * (1 - alpha) ** np.arange(len(OIL))[::-1]
    expected = (weights * OIL).sum() + (1 - alpha) ** len(OIL) * OIL[0]  # it starts at the first value
    states = smooth(values, [Smoothing(alpha, 0.0, 0.0, 0.0)], 1)
    actual = states.forecast(np.array([len(OIL) - 1]), 2)
    np.testing.assert_allclose(actual[0, :, 0], expected, rtol=1e-12)
    assert actual[0, 0, 0] == pytest.approx(542.68, abs=0.01)  # the published forecast


def test_the_fit_finds_the_published_parameter() -> None:
    (fitted,) = fit_smoothing([np.array(OIL)[:, None]], 1)

    def error(alpha: float) -> float:
        level, total = OIL[0], 0.0
        for value in OIL[1:]:
            total += (value - level) ** 2
            level += alpha * (value - level)
        return total

    best = min(np.linspace(0.01, 1, 100), key=error)
    assert best == pytest.approx(0.83, abs=0.02)  # 0.8339 in the book, which also fits the first level
    flat = smooth(np.array(OIL)[:, None], [fitted], 1)
    errors = [OIL[row + 1] - flat.forecast(np.array([row]), 1)[0, 0, 0] for row in range(len(OIL) - 1)]
    assert np.square(errors).sum() <= error(best) * 1.001


def test_a_line_with_a_season_is_forecast_exactly() -> None:
    season = np.array([3.0, -1.0, 0.5, -2.5])
    line = np.stack([10 + 0.5 * np.arange(40) + np.tile(season, 10), 5 - 2.0 * np.arange(40)], axis=1)
    states = smooth(line, [Smoothing(0.3, 0.1, 0.2, 1.0)] * 2, 4)
    rows = np.array([7, 20, 33])
    forecast = states.forecast(rows, 6)
    for row, values in zip(rows, forecast, strict=True):
        np.testing.assert_allclose(values, line[row + 1 : row + 7], atol=1e-9)


def test_the_equations_step_by_step() -> None:
    random = np.random.default_rng(0)
    values, (alpha, beta, gamma, phi) = random.normal(size=24), (0.4, 0.1, 0.3, 0.9)
    period = 3
    first, second = values[:3].mean(), values[3:6].mean()
    trend = (second - first) / 3
    season = [value - first - trend * (place - 1) for place, value in enumerate(values[:3])]
    level = first - 2 * trend
    states = smooth(values[:, None], [Smoothing(alpha, beta, gamma, phi)], period)
    for row, value in enumerate(values):
        error = value - level - phi * trend - season[row % 3]
        level, trend = level + phi * trend + alpha * error, phi * trend + beta * error
        season[row % 3] += gamma * error
        expected = [
            level + sum(phi**power for power in range(1, step + 1)) * trend + season[(row + step) % 3]
            for step in range(1, 6)
        ]
        np.testing.assert_allclose(states.forecast(np.array([row]), 5)[0, :, 0], expected, rtol=1e-9, atol=1e-12)


def test_the_fit_is_at_least_as_good_as_fixed_parameters() -> None:
    random = np.random.default_rng(1)
    steps = np.arange(120)
    values = np.stack([np.sin(steps * np.pi / 6) * 5 + random.normal(size=120).cumsum(), random.normal(size=120)], 1)
    fitted = fit_smoothing([values], 12)

    def error(parameters: list[Smoothing]) -> np.ndarray:
        states = smooth(values, parameters, 12)
        rows = np.arange(12, 119)
        return np.asarray(((states.forecast(rows, 1)[:, 0] - values[rows + 1]) ** 2).mean(axis=0))

    for other in (Smoothing(0.5, 0.1, 0.1, 0.98), Smoothing(0.1, 0.0, 0.05, 0.0), Smoothing(0.9, 0.0, 0.0, 0.0)):
        assert (error(fitted) <= error([other] * 2) * 1.01).all()
    assert fitted[0].alpha > 0.5  # follows the random walk
    assert fitted[1].alpha < 0.2  # averages the noise
