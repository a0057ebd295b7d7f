"""Rolling-origin backtests compared with forecasts that are made one by one."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import seqloom
from seqloom.cli.main import app
from seqloom.config import Document
from seqloom.data.readers.series import Window
from seqloom.model import Model
from seqloom.run_config import Config
from seqloom.tasks.forecast.origins import choose_origins
from seqloom.workflow import train


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Model, Path]:
    folder = tmp_path_factory.mktemp("backtest")
    random = np.random.default_rng(0)
    values = np.sin(np.arange(160) / 3) * 5 + random.normal(size=160) + 20
    days = np.datetime64("2024-01-01") + np.arange(160)
    rows = [f"{day},{value:.4f}" for day, value in zip(days, values, strict=True)]
    (folder / "sales.csv").write_text("date,sales\n" + "\n".join(rows) + "\n")
    config = Config.build(
        Document.empty(
            [
                *("task.name=forecast", f"task.train={folder / 'sales.csv'}[0:0.7]", "task.history=8"),
                *("task.horizon=3", "task.encoder.hidden_size=4", "train.updates=4", "train.threads=1"),
            ]
        )
    )
    run = train(config, output=folder / "run", plots=False)
    return seqloom.load(run.path), folder


def test_origins_are_whole_steps_before_the_last(trained: tuple[Model, Path]) -> None:
    model, folder = trained
    examples: list[Window] = list(model.task.read(folder / "sales.csv[0.7:1]"))
    stops = [window.stop for window in choose_origins(examples, 5, 0)]
    assert stops[-1] == 157
    assert set(np.diff(stops)) == {5}
    assert [window.stop for window in choose_origins(examples, 5, 2)] == [152, 157]


def test_each_forecast_is_that_of_the_rows_before_its_origin(trained: tuple[Model, Path]) -> None:
    model, folder = trained
    result = model.backtest(f"{folder / 'sales.csv'}[0.7:1]")
    lines = (folder / "sales.csv").read_text().splitlines()
    assert [row["step"] for row in result.horizon] == [1, 2, 3]
    errors = []
    for number, row in enumerate(result.origins[::-1]):
        end = 157 - 3 * number
        assert row["first"] == lines[1 + end].split(",")[0]
        (folder / "known.csv").write_text("\n".join(lines[: 1 + end]) + "\n")
        (answer,) = model.predict(folder / "known.csv")
        truth = [float(line.split(",")[1]) for line in lines[1 + end : 4 + end]]
        errors.append(np.array(answer.values)[:, 0] - truth)
        assert row["mae"] == pytest.approx(np.abs(errors[-1]).mean(), rel=1e-4)  # answers have the digits of float32
        low, high = (np.array(bound)[:, 0] for bound in answer.interval(0.8))
        assert row["coverage_80"] == pytest.approx(((low <= truth) & (truth <= high)).mean())
    by_step = np.abs(errors).mean(axis=0)
    np.testing.assert_allclose([row["mae"] for row in result.horizon], by_step, rtol=1e-4)
    assert result.scores["windows"] == len(result.origins)


def test_the_command(trained: tuple[Model, Path]) -> None:
    _, folder = trained
    run, file = str(folder / "run"), f"{folder / 'sales.csv'}[0.7:1]"

    def call(*options: str) -> Any:
        return CliRunner().invoke(app, ["evaluate", run, file, *options])

    shown = call("--backtest", "--origins", "4", "--step", "2")
    assert shown.exit_code == 0, shown.output
    assert "4 forecasts of 3 steps." in shown.output
    assert "By step of the horizon:" in shown.output
    assert "By origin:" in shown.output
    assert (folder / "run" / "backtest.png").stat().st_size > 1000
    values = json.loads(call("--backtest", "--json", "--output", str(folder / "x.svg")).stdout)
    assert len(values["horizon"]) == 3
    assert (folder / "x.svg").is_file()
    for options, message in (
        (("--step", "2"), "--step needs --backtest"),
        (("--backtest", "--by", "length"), "exclude each other"),
        (("--output", "x.png"), "--output needs --by length or --backtest"),
    ):
        refused = call(*options)
        assert refused.exit_code != 0
        assert message in refused.output
