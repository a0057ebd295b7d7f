"""Sample paths of several series: each copies the dependence of its own errors."""

from collections.abc import Sequence
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest
from scipy.stats import spearmanr

from seqloom.data.readers.series import Window
from seqloom.tasks.forecast import Forecast
from seqloom.tasks.forecast.paths import FEW_OWN
from seqloom.tasks.forecast.prediction import ForecastPrediction

HORIZON, COUNT = 3, 2000
LEVELS = (0.025, 0.1, 0.3, 0.5, 0.7, 0.9, 0.975)


def shop(name: str, rows: int, carry_over: float) -> list[str]:
    """A series that passes a share of each value on to the next one, so that this is the correlation of two steps."""
    random, value = np.random.default_rng(len(name)), 0.0
    lines = []
    for row in range(rows):
        value = carry_over * value + (1 - carry_over**2) ** 0.5 * random.normal()
        lines.append(f"{row},{name},{row % 2},{value:.5f}\n")
    return lines


def fitted(path: Path, **fields: object) -> Forecast:
    common = {"train": f"{path}[0:0.8]", "dev": f"{path}[0.8:1]", "history": 1, "horizon": HORIZON, "season": 1}
    columns = {"group_column": "shop", "date": "day", "target": "sales", "columns": ("promotion", "sales")}
    task = Forecast.model_validate(common | columns | {"distribution": "quantiles", "quantiles": LEVELS} | fields)
    return task.fit(task.read(path))


def standard_normal(windows: Sequence[Window]) -> list[Any]:
    """The forecast that knows nothing but the distribution of the values, so that the errors are the values."""
    row = np.array([NormalDist().inv_cdf(level) for level in LEVELS], np.float32)
    bands = np.broadcast_to(row, (HORIZON, 1, len(LEVELS)))
    return [ForecastPrediction(["sales"], [[0.0]] * HORIZON, [], [], levels=LEVELS, bands=bands) for _ in windows]


def step_correlations(values: Any) -> list[float]:  # (N, horizon)
    return [float(spearmanr(values[:, step], values[:, step + 1]).statistic) for step in range(HORIZON - 1)]


def own_correlations(task: Forecast, source: Path, name: str) -> list[float]:
    (series,) = {window.series for window in task.read(source) if window.identity == name}
    return step_correlations(np.lib.stride_tricks.sliding_window_view(series.observed[:, 1], HORIZON))


@pytest.mark.parametrize("order", [("smooth", "rough"), ("rough", "smooth")])
def test_each_series_copies_its_own_errors(tmp_path: Path, order: tuple[str, str]) -> None:
    path = tmp_path / "shops.csv"
    carry_over = {"smooth": 0.95, "rough": -0.95}
    rows = [line for name in order for line in shop(name, 700, carry_over[name])]
    path.write_text("day,shop,promotion,sales\n" + "".join(rows))
    task = fitted(path)
    every = task.sample_paths(path, count=COUNT, seed=1, predict=standard_normal)
    assert [paths.name for paths in every] == list(order)
    for paths in every:
        expected = own_correlations(task, path, paths.name)
        assert np.sign(expected).tolist() == [np.sign(carry_over[paths.name])] * (HORIZON - 1)
        # Of the 698 earlier forecasts, the last 500 are copied, and each of these four times.
        assert step_correlations(paths.values[..., 0]) == pytest.approx(expected, abs=0.05)
        assert not paths.warning


def test_a_series_with_few_forecasts_copies_the_errors_of_all_and_says_so(tmp_path: Path) -> None:
    path = tmp_path / "shops.csv"
    rows = [*shop("smooth", 700, 0.95), *shop("short", 12, -0.95)]
    path.write_text("day,shop,promotion,sales\n" + "".join(rows))
    task = fitted(path)
    smooth, short = task.sample_paths(path, count=COUNT, seed=1, predict=standard_normal)
    assert (smooth.warning, short.warning) == ("", FEW_OWN)
    expected = own_correlations(task, path, "smooth")  # all but 9 of the 500 errors are of this series
    assert step_correlations(short.values[..., 0]) == pytest.approx(expected, abs=0.1)


def test_series_with_few_forecasts_in_all_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "shops.csv"
    path.write_text("day,shop,promotion,sales\n" + "".join([*shop("one", 10, 0.5), *shop("other", 10, 0.5)]))
    task = fitted(path)
    with pytest.raises(ValueError, match=r"shops\.csv:11: .* at least 20 earlier forecasts, .* found 14 forecasts"):
        task.sample_paths(path, count=2, seed=1, predict=standard_normal)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            {"data_type": "binary", "output": "every_step"},
            r'^a model with task\.data_type = "binary" generates nothing',
        ),
        ({"distribution": "none"}, 'need a model with task.output = "last" and task.distribution'),
        ({"distribution": "quantiles", "output": "every_step"}, 'task.output = "last" and task.distribution'),
    ],
)
def test_models_without_paths_say_why(fields: dict[str, object], message: str) -> None:
    series = [np.eye(2)[[0, 1] * 20]]
    task = Forecast.model_validate({"train": "x", "history": 2} | fields)
    task = task.fit(task.read(series))
    with pytest.raises(ValueError, match=message):
        task.sample_paths(series, count=2, seed=1, predict=standard_normal)


def test_covariates_of_the_steps_to_forecast_are_read(tmp_path: Path) -> None:
    path = tmp_path / "shops.csv"
    rows = []
    for name, carry_over in (("smooth", 0.95), ("rough", -0.95)):
        ahead = [f"{row},{name},{row % 2},\n" for row in range(200, 200 + HORIZON)]
        rows += [*shop(name, 200, carry_over), *ahead]
    path.write_text("day,shop,promotion,sales\n" + "".join(rows))
    task = fitted(path, future_covariates=("promotion",))
    known: list[list[float]] = []

    def predict(windows: Sequence[Window]) -> list[Any]:
        known.extend(task.covariates(window)[:, 0].tolist() for window in windows if not window.known)
        assert all(np.isfinite(task.covariates(window)).all() for window in windows)
        return standard_normal(windows)

    every = task.sample_paths(path, count=COUNT, seed=1, predict=predict)
    promotion = task.fitted.scale(np.array([[row % 2, 0.0] for row in range(199, 200 + HORIZON)]))[:, 0].tolist()
    assert known == [promotion, promotion]  # of the last row, and of the steps to forecast
    for paths in every:
        expected = own_correlations(task, path, paths.name)
        assert step_correlations(paths.values[..., 0]) == pytest.approx(expected, abs=0.05)
        assert len(paths.history) == 200
