"""Plots of a run."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from seqloom.config import Document
from seqloom.explain import explain_all
from seqloom.model import load
from seqloom.run_config import Config, load_config
from seqloom.run_summary import summarize
from seqloom.tasks.forecast.baselines import BaselineForecasts
from seqloom.workflow import train

pytestmark = pytest.mark.usefixtures("drawn_runs")


@pytest.mark.parametrize("output", ["last", "every_step"])
def test_a_forecast_is_drawn_beside_the_observed_and_the_last_values(
    output: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = np.sin(np.arange(120) / 5)
    (tmp_path / "waves.csv").write_text("level,other\n" + "".join(f"{value:.6f},{-value:.6f}\n" for value in steps))
    drawn: list[tuple[np.ndarray, ...]] = []

    def draw(*arrays: np.ndarray, names: list[str], **options: Any) -> None:
        drawn.append(arrays[:3])
        assert names == ["level"]
        assert options["baseline_name"] == "baseline: last value"
        assert list(options["intervals"]) == ["95 % interval", "80 % interval"]
        assert options["title"].startswith(f"{tmp_path.name}: forecasts of ")  # not just "run"
        (lowest, highest), (low, high) = options["intervals"].values()
        assert low.shape == high.shape == arrays[1].shape
        assert (lowest <= low).all()
        assert (low < high).all()
        assert (high <= highest).all()

    monkeypatch.setattr("seqloom.insight.dev_forecasts.draw_forecast", draw)
    monkeypatch.setattr(BaselineForecasts, "names", ["last value"])  # the better ones are tested elsewhere
    config = Config.build(
        Document.empty(
            [
                "task.name=forecast",
                f"task.train={tmp_path / 'waves.csv'}",
                f"task.output={output}",
                "task.history=8",
                "task.horizon=2",
                'task.target=["level"]',
                "task.encoder.hidden_size=4",
                "train.updates=2",
            ]
        )
    )
    run = train(config, output=tmp_path / "run")
    assert (run.path / "results.png").stat().st_size > 1000
    ((observed, forecast, baseline),) = drawn
    assert forecast.shape == baseline.shape
    assert len(observed) > len(forecast)  # the history comes before
    # The plot ends where the data end, and the baseline is the value before the forecast.
    horizon, end = (2, len(steps)) if output == "last" else (1, len(steps) - 1)
    np.testing.assert_allclose(observed[:, 0], steps[end - len(observed) : end], atol=1e-5)
    before = steps[end - len(forecast) - 1 : end - 1][::horizon].repeat(horizon)
    np.testing.assert_allclose(baseline[:, 0], before, atol=1e-5)


def test_one_key_chooses_the_format_of_all_plots(tmp_path: Path) -> None:
    file = tmp_path / "train.tsv"
    file.write_text("".join(f"{'ab'[number % 2]}\tword {number}\n" for number in range(20)))
    small = ["task.encoder.hidden_size=4", "task.embedding_size=4", "train.epochs=1", "train.plot_format=svg"]
    run = train(
        Config.build(Document.empty(["task.name=classify", f"task.train={file}", *small])), output=tmp_path / "reviews"
    )
    assert sorted(path.name for path in run.path.glob("*.svg")) == ["confusion.svg", "results.svg"]
    assert "<!-- reviews: learning curves -->" in (run.path / "results.svg").read_text(encoding="utf-8")
    assert not list(run.path.glob("*.png"))
    assert summarize(run, load_config(run)).pictures == ["results.svg", "confusion.svg"]
    explain_all(load(run.path), ["word 1"], tmp_path / "explained")
    assert {path.suffix for path in (tmp_path / "explained").iterdir()} == {".svg", ".html"}


def test_without_matplotlib_the_log_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "text.txt").write_text("a b\n" * 20)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    config = Config.build(
        Document.empty(["task.name=language_model", f"task.train={tmp_path / 'text.txt'}", "train.updates=1"])
    )
    run = train(config, output=tmp_path / "run")
    assert not (run.path / "results.png").exists()
    assert "no plots: matplotlib.figure is not installed" in (run.path / "train.log").read_text()
