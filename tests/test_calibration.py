"""After training, the best checkpoint is calibrated on the dev data, and its scores are those of what was saved."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import seqloom
from seqloom.config import Document
from seqloom.models.forecaster import Forecaster
from seqloom.run import Run
from seqloom.run_config import Config, load_config
from seqloom.run_summary import print_summary, summarize
from seqloom.workflow import resume, train


def run_of(folder: Path, values: np.ndarray, *settings: str) -> Run:
    np.savetxt(folder / "x.csv", values, fmt="%.6f")
    overrides = [
        *("task.name=forecast", f"task.train={folder / 'x.csv'}[0:0.7]", f"task.dev={folder / 'x.csv'}[0.7:1]"),
        *("task.history=8", "task.horizon=2", "task.encoder.hidden_size=4", "train.updates=40", "train.threads=1"),
        *("train.learning_rate=0.02", *settings),
    ]
    return train(Config.build(Document.empty(overrides)), output=folder / "run", plots=False)


def forecaster(model: Any) -> Forecaster:
    assert isinstance(model.module, Forecaster)
    return model.module


def test_a_random_walk_is_forecast_by_its_last_value(tmp_path: Path) -> None:
    walk = np.random.default_rng(0).normal(size=400).cumsum()
    run = run_of(tmp_path, walk)
    model = seqloom.load(run.path)
    shrinkage = forecaster(model).shrinkage
    assert shrinkage is not None
    assert shrinkage.item() == 0
    (answer,) = model.predict(tmp_path / "x.csv")
    np.testing.assert_allclose(answer.values, walk[-1], rtol=1e-5)
    scores = model.evaluate(f"{tmp_path / 'x.csv'}[0.7:1]")
    assert scores["skill"] == scores["skill_worst"] == 0
    stored = run.load_best().facts["metrics"]
    for name in ("mse_scaled", "crps", "coverage_80"):
        assert stored[name] == pytest.approx(scores[name])
    assert "the network is not used" in (run.path / "train.log").read_text()
    assert "the network is not used" in summarize(run, load_config(run)).calibration


def test_a_good_model_keeps_its_forecasts_and_a_resumed_one_is_calibrated_again(tmp_path: Path) -> None:
    random = np.random.default_rng(1)
    wave = np.where(np.arange(400) % 7 < 3, 1.0, -1.0) * 3 + random.normal(size=400) * 0.2
    run = run_of(tmp_path, wave, "task.base_forecast=last_value")
    first = forecaster(seqloom.load(run.path))
    assert first.shrinkage is not None
    assert first.interval_shifts is not None
    assert first.shrinkage.item() > 0.5
    assert first.interval_shifts.abs().sum() > 0
    before = seqloom.load(run.path).evaluate(f"{tmp_path / 'x.csv'}[0.7:1]")
    run = resume(run.path, ["train.updates=80"])
    after = seqloom.load(run.path).evaluate(f"{tmp_path / 'x.csv'}[0.7:1]")
    assert after["mse_scaled"] <= before["mse_scaled"] * 1.1
    assert 0.6 < after["coverage_80"] < 0.95


def test_nothing_is_calibrated_where_it_is_switched_off(tmp_path: Path) -> None:
    run = run_of(tmp_path, np.random.default_rng(2).normal(size=200).cumsum(), "task.calibrate=false")
    module = forecaster(seqloom.load(run.path))
    assert module.shrinkage is None
    assert module.interval_shifts is None
    assert "calibrated" not in (run.path / "train.log").read_text()


def test_a_trained_forecaster_is_described_with_its_baselines(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = run_of(tmp_path, np.random.default_rng(2).normal(size=200).cumsum())
    print_summary(summarize(run, load_config(run)), run.details())
    shown = capsys.readouterr().out
    assert shown.index("etter than the baseline") < shown.index("exponential smoothing") < shown.index("All metrics:")
