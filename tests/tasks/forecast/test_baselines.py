"""Baselines of forecasts compared with their definitions; none sees what comes after its origin."""

from pathlib import Path

import numpy as np
import pytest

from seqloom.data.readers.series import Series, Window, consecutive_windows, windows
from seqloom.data.readers.text_files import Location
from seqloom.metrics.forecasts import DLINEAR, DRIFT, LAST, SEASONAL, SMOOTHING
from seqloom.models.exponential_smoothing import Smoothing, fit_smoothing
from seqloom.models.linear_forecast import fit_linear
from seqloom.tasks.forecast.baselines import BaselineForecasts
from seqloom.tasks.forecast.forecast import Forecast


def series(length: int = 60, *, seed: int = 0) -> Series:
    random = np.random.default_rng(seed)
    values = np.stack([np.sin(np.arange(length)), np.arange(length) * 0.5], axis=1) + random.normal(size=(length, 2))
    return Series(Location("x.csv", 1), values, ("a", "b"), 0, length)


def baselines(values: np.ndarray, *, every_step: bool = False) -> BaselineForecasts:
    means, deviations = values.mean(axis=0), values.std(axis=0)
    fits = fit_linear([((values - means) / deviations)[:, [1, 0]]], 6, 3)
    return BaselineForecasts(
        targets=(1, 0),
        horizon=3,
        every_step=every_step,
        season=4,
        means=tuple(means[[1, 0]].tolist()),
        deviations=tuple(deviations[[1, 0]].tolist()),
        linear=None if fits is None else fits.dlinear,
        smoothing=tuple(fit_smoothing([values[:, [1, 0]]], 4)),
    )


def test_definitions() -> None:
    known = series()
    values = known.values[:, [1, 0]]
    chosen, examples = baselines(known.values), list(windows(known, 6, horizon=3))
    assert chosen.names == [LAST, SEASONAL, DRIFT, SMOOTHING, DLINEAR]
    forecasts = {name: chosen.forecast(name, examples) for name in chosen.names}
    linear = chosen.linear
    assert linear is not None
    for number, window in enumerate(examples):
        end = window.stop
        np.testing.assert_array_equal(forecasts[LAST][number], values[[end - 1] * 3])
        np.testing.assert_array_equal(forecasts[SEASONAL][number], values[end - 4 : end - 1])
        slope = (values[end - 1] - values[0]) / (end - 1)
        np.testing.assert_allclose(
            forecasts[DRIFT][number], values[end - 1] + slope * np.array([[1], [2], [3]]), rtol=1e-9
        )
        scaled = (values[end - 6 : end] - chosen.means) / np.array(chosen.deviations)
        expected = np.array(linear.weight) @ scaled + np.array(linear.bias)[:, None]
        np.testing.assert_allclose(
            forecasts[DLINEAR][number], expected * np.array(chosen.deviations) + chosen.means, rtol=1e-9
        )


@pytest.mark.parametrize("every_step", [False, True])
def test_no_baseline_sees_the_future(every_step: bool) -> None:
    known = series()
    chosen = baselines(known.values, every_step=every_step)
    cut = consecutive_windows if every_step else windows
    for end in (2, 7, 20):  # before, within and after the rows from which smoothing starts
        later = known.values.copy()
        later[end:] = 1e6
        other = Series(known.location, later, known.names, 0, len(later))
        for name in chosen.names:
            forecasts = [
                chosen.forecast(name, [Window(each, max(end - 6, 0), end, known=True)]) for each in (known, other)
            ]
            np.testing.assert_array_equal(forecasts[0], forecasts[1])
    assert chosen.forecast(LAST, list(cut(known, 6, horizon=3))).shape[1:] == (3, 2)


def test_without_a_season_or_fits() -> None:
    plain = BaselineForecasts(targets=(0,), horizon=2, every_step=False, season=1, means=(0.0,), deviations=(1.0,))
    assert plain.names == [LAST, DRIFT]


def test_several_series_are_told_apart() -> None:
    first, second = series(), series(40, seed=5)
    chosen = BaselineForecasts(
        targets=(0,),
        horizon=2,
        every_step=False,
        season=0,
        means=(0.0,),
        deviations=(1.0,),
        smoothing=(Smoothing(1.0, 0.0, 0.0, 0.0),),
    )
    examples = [Window(first, 0, 9, known=True), Window(second, 0, 9, known=True), Window(first, 1, 10, known=True)]
    expected = np.array([first.values[8, 0], second.values[8, 0], first.values[9, 0]])
    for name in (LAST, SMOOTHING):  # with α = 1 the level is the last value
        np.testing.assert_allclose(chosen.forecast(name, examples)[:, 1, 0], expected)


def test_a_network_starts_from_the_combined_forecast_or_in_older_runs_from_dlinear(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    values = series().values[:, 1]
    path.write_text("y\n" + "\n".join(map(str, values)))
    task = Forecast(train=str(path), history=6, horizon=3, base_forecast="linear")
    task = task.fit(task.read(path))
    learned = task.fitted
    assert learned.linear is not None
    assert learned.combined is not None
    older = task.model_copy(update={"learned": learned.model_copy(update={"combined": None})})
    batch = task.collate([*task.read(path)][:2])
    scaled = ((values - learned.means[0]) / learned.deviations[0])[:7]
    histories = np.stack([scaled[:6], scaled[1:]])[..., None]
    for each, expected in ((task, learned.combined), (older, learned.linear)):
        model = each.build_model().eval()  # its changes are 0 at first
        forecast = model(batch.inputs)[0].detach().numpy()[:, 0]
        np.testing.assert_allclose(forecast, expected.forecast(histories), atol=1e-5)  # computed in float32
