"""``seqloom generate`` of a forecaster: a table and a plot of paths with dates."""

import csv
from datetime import date, timedelta
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import seqloom
from seqloom.cli.main import app
from seqloom.insight.forecast_paths import ForecastPaths
from seqloom.model import Model

DAYS, HORIZON = 120, 4


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("paths")
    random = np.random.default_rng(1)
    level = 50 + random.normal(size=DAYS).cumsum()
    rows = (f"{date(2024, 1, 1) + timedelta(days=day)},{value:.2f}\n" for day, value in enumerate(level))
    (folder / "s.csv").write_text("day,sales\n" + "".join(rows))
    options = ["task.history=6", f"task.horizon={HORIZON}", "task.encoder.hidden_size=4", "train.updates=3"]
    arguments = ["train", "--task", "forecast", "--data", str(folder / "s.csv"), *options, "--quiet"]
    result = CliRunner().invoke(app, [*arguments, "--output", str(folder / "run")])
    assert result.exit_code == 0, result.output
    return folder / "run"


def test_paths_are_written_with_their_dates(run: Path, tmp_path: Path) -> None:
    series, output = str(run.parent / "s.csv"), tmp_path / "paths.csv"
    result = CliRunner().invoke(app, ["generate", str(run), series, "--count", "3", "--output", str(output)])
    assert result.exit_code == 0, result.output
    header, *rows = csv.reader(output.read_text().splitlines())
    assert header == ["path", "time", "sales"]
    days = [str(date(2024, 1, 1) + timedelta(days=DAYS + step)) for step in range(HORIZON)]
    assert [row[:2] for row in rows] == [[str(path), day] for path in (1, 2, 3) for day in days]
    assert (tmp_path / "paths.png").is_file()
    (same,) = seqloom.load(run).sample_paths(series, count=3)
    assert [float(row[2]) for row in rows] == pytest.approx(same.values.ravel().tolist(), rel=1e-3)


def test_the_series_is_not_overwritten(run: Path) -> None:
    series = run.parent / "s.csv"
    before = series.read_bytes()
    result = CliRunner().invoke(app, ["generate", str(run), str(series), "--output", str(series)])
    assert result.exit_code == 1
    assert "is the file that is read, and would be overwritten" in " ".join(result.output.split())
    assert series.read_bytes() == before


def test_paths_lie_within_the_intervals_as_often_as_these_say(run: Path) -> None:
    model, series = seqloom.load(run), str(run.parent / "s.csv")
    (paths,) = model.sample_paths(series, count=400)
    (forecast,) = model.predict(series)
    low, high = (np.array(bound) for bound in forecast.interval(0.8))
    share = ((paths.values >= low) & (paths.values <= high)).mean(axis=0)
    assert share == pytest.approx(np.full((HORIZON, 1), 0.8), abs=0.03)


def test_warnings_of_several_series_are_printed_once(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def paths(_: Model, source: str, **_options: object) -> list[ForecastPaths]:
        values = np.zeros((2, HORIZON, 1))
        warned = [(name, warning) for name, warning in (("a", "few"), ("b", ""), ("c", "few")) if source]
        return [ForecastPaths(["sales"], values, [], values[0], None, name, warning) for name, warning in warned]

    monkeypatch.setattr(Model, "sample_paths", paths)
    result = CliRunner().invoke(app, ["generate", str(run), "s.csv", "--output", str(tmp_path / "paths.csv")])
    assert result.exit_code == 0, result.output
    assert result.stderr.strip() == "note: 'a', 'c': few"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "give its file"),
        (["--length", "3"], "--length does not apply to this model, which generates paths"),
        (["--output", "paths.txt"], "expected a file that ends in .csv"),
    ],
)
def test_wrong_options_are_refused(run: Path, options: list[str], message: str) -> None:
    series = [str(run.parent / "s.csv")] if options else []
    result = CliRunner().invoke(app, ["generate", str(run), *series, *options])
    assert result.exit_code == 1
    assert message in " ".join(result.output.split())


def test_a_short_series_is_refused(run: Path, tmp_path: Path) -> None:
    (tmp_path / "short.csv").write_text("".join((run.parent / "s.csv").read_text().splitlines(keepends=True)[:20]))
    with pytest.raises(ValueError, match="at least 20 earlier forecasts"):
        seqloom.load(run).sample_paths(str(tmp_path / "short.csv"))
