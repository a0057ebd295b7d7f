"""DLinear: the closed form compared with gradient descent on its two maps, and with series that it can forecast."""

import numpy as np
import pytest
import torch
from torch import nn

from seqloom.config import ConfigError
from seqloom.models import linear_forecast
from seqloom.models.linear_forecast import MAX_LENGTH, LinearForecast, fit_linear


def series(length: int = 400, *, seed: int = 0) -> np.ndarray:
    """An autoregression around a wave, standardised."""
    random = np.random.default_rng(seed)
    noise = np.zeros(length)
    for step in range(1, length):
        noise[step] = 0.7 * noise[step - 1] + random.normal() * 0.3
    values = np.sin(np.arange(length) * 2 * np.pi / 12) + noise
    return np.asarray((values - values.mean()) / values.std())[:, None]


def windows(values: np.ndarray, length: int, horizon: int) -> tuple[np.ndarray, np.ndarray]:
    view = np.lib.stride_tricks.sliding_window_view(values, length + horizon, axis=0).swapaxes(1, 2)
    return view[:, :length], view[:, length:]


def test_the_same_as_training_the_two_maps_of_the_paper(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a penalty the solution is unique in its forecasts, so that gradient descent must reach them."""
    monkeypatch.setattr(linear_forecast, "PENALTIES", (1e-9,) * 3)
    values = series()
    fits = fit_linear([values], 14, 3)
    assert fits is not None
    fitted = fits.dlinear
    histories, futures = (torch.tensor(side[..., 0].copy()) for side in windows(values, 14, 3))
    padded = torch.cat([histories[:, :1].expand(-1, 12), histories, histories[:, -1:].expand(-1, 12)], dim=1)
    trend = nn.functional.avg_pool1d(padded.unsqueeze(1), 25, stride=1)[:, 0]
    torch.manual_seed(0)
    maps = nn.Linear(14, 3).double(), nn.Linear(14, 3).double()
    optimizer = torch.optim.LBFGS([each for part in maps for each in part.parameters()], max_iter=500)

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss = (maps[0](trend) + maps[1](histories - trend) - futures).square().mean()
        loss.backward()
        return torch.as_tensor(loss)

    optimizer.step(closure)
    with torch.no_grad():
        expected = (maps[0](trend) + maps[1](histories - trend)).numpy()
    actual = fitted.forecast(histories.numpy()[..., None])[..., 0]
    np.testing.assert_allclose(actual, expected, atol=2e-3)  # gradient descent stops a little before the end


def test_waves_are_forecast_and_a_random_walk_has_no_gain() -> None:
    wave = np.sin(np.arange(300) / 4)[:, None] * np.sqrt(2)
    fits = fit_linear([wave], 30, 5)
    assert fits is not None
    histories, futures = windows(wave, 30, 5)
    for fitted in fits:
        assert np.abs(fitted.forecast(histories) - futures).max() < 0.02
        assert fitted.gain > 0.99
        assert np.array(fitted.errors).max() < 0.02
    walk = np.random.default_rng(3).normal(size=(600, 2)).cumsum(axis=0)
    drunk = fit_linear([(walk - walk.mean(axis=0)) / walk.std(axis=0)], 30, 5)
    assert drunk is not None
    assert max(fitted.gain for fitted in drunk) < 0.02


def test_half_of_the_combined_forecast_follows_the_level(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its other half is least squares on the changes from the last value, by another solver."""
    monkeypatch.setattr(linear_forecast, "PENALTIES", (1e-9,) * 3)
    values = series()
    fits = fit_linear([values], 14, 3)
    assert fits is not None
    histories, futures = (side[..., 0] for side in windows(values, 14, 3))
    last = histories[:, -1:]
    features = np.concatenate([histories[:, :-1] - last, np.ones_like(last)], axis=1)
    changes = last + features @ np.linalg.lstsq(features, futures - last, rcond=None)[0]
    dlinear, combined = (fit.forecast(histories[..., None])[..., 0] for fit in fits)
    np.testing.assert_allclose(combined, (dlinear + changes) / 2, atol=1e-5)  # the penalty is not quite zero
    raised = [
        fit.forecast(histories[..., None] + 10.0)[..., 0] - fit.forecast(histories[..., None])[..., 0] for fit in fits
    ]
    np.testing.assert_allclose(raised[1], (raised[0] + 10) / 2, atol=1e-4)  # numbers have 7 digits


def test_errors_are_those_of_the_training_windows() -> None:
    values = np.concatenate([series(), series(seed=1)], axis=1)
    fits = fit_linear([values[:250], values[250:]], 14, 3)
    assert fits is not None
    pairs = [windows(part, 14, 3) for part in (values[:250], values[250:])]
    for fitted in fits:
        squares = np.concatenate([(fitted.forecast(past) - future) ** 2 for past, future in pairs])
        np.testing.assert_allclose(fitted.errors, np.sqrt(squares.mean(axis=0)), rtol=1e-4)  # numbers have 7 digits
        assert LinearForecast.model_validate_json(fitted.model_dump_json()) == fitted


def test_limits() -> None:
    assert fit_linear([series(30)], 20, 5) is None
    long = fit_linear([series(1500)], 1000, 2)
    assert long is not None
    assert long.dlinear.length == long.combined.length == MAX_LENGTH
    with pytest.raises(ConfigError, match=r"for each step of the horizon"):
        LinearForecast(weight=((1.0,),), bias=(0.0, 1.0), errors=((1.0,),), gain=0.0)
