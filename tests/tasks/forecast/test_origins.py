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
    assert "series" not in result.origins[0]
    assert "per_series" not in result.scores
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


def test_several_series_are_named(trained: tuple[Model, Path]) -> None:
    """Their errors differ, and the same origin is one of each of them."""
    _, folder = trained
    lines = (folder / "sales.csv").read_text().splitlines()[1:]
    scales = {"north": 1, "south": 10}
    rows = [
        f"{line.split(',')[0]},{shop},{scale * float(line.split(',')[1])}"
        for shop, scale in scales.items()
        for line in lines
    ]
    file = folder / "shops.csv"
    file.write_text("date,shop,sales\n" + "\n".join(rows) + "\n")
    settings = [
        *("task.name=forecast", f"task.train={file}[0:0.7]", f"task.dev={file}[0.7:0.8]", "task.group_column=shop"),
        *("task.history=8", "task.horizon=3", "task.encoder.hidden_size=4", "train.updates=4", "train.threads=1"),
    ]
    run = train(Config.build(Document.empty(settings)), output=folder / "shops", plots=False)
    model, part = seqloom.load(run.path), f"{file}[0.8:1]"
    result = model.backtest(part)
    origins = {shop: [row for row in result.origins if row["series"] == shop] for shop in scales}
    assert [row["first"] for row in origins["north"]] == [row["first"] for row in origins["south"]]
    for shop, of_shop in origins.items():
        scores = result.scores["per_series"][shop]
        assert scores["windows"] == len(of_shop)
        for name in ("mse_scaled", "mae", "best_baseline_mse_scaled"):
            assert scores[name] == pytest.approx(np.mean([row[name] for row in of_shop]))
    assert list(result.scores["per_series"]) == ["south", "north"]  # the largest errors first
    assert set(model.evaluate(part)["per_series"]) == set(scales)
    assert set(run.details()["per_series"]) == set(scales)
    shown = CliRunner().invoke(app, ["evaluate", str(run.path), part, "--backtest"])
    assert "By origin, the largest errors first (12 of 20; --json shows all):\nseries  first step" in shown.output
    assert "Series (the largest errors first):\nseries  mse_scaled" in shown.output
    shown = CliRunner().invoke(app, ["evaluate", str(run.path), part, "--backtest", "--json"])
    assert json.loads(shown.stdout)["origins"][0]["series"] == "north"
