"""Gaps in time are never read silently: what train, evaluate, predict and generate say about them."""

from collections.abc import Iterable
from datetime import date, timedelta
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from seqloom.checkpoint import Snapshot
from seqloom.cli.main import app
from seqloom.model import Model
from seqloom.run import Run
from seqloom.run_config import Config
from seqloom.tasks.forecast import Forecast
from seqloom.training.config import TrainConfig

HISTORY, HORIZON = 4, 2
REGULAR = range(40)
WITH_GAP = [*range(20), *range(23, 43)]  # three days are missing before line 22 of the file


def write(path: Path, days: Iterable[int], *, ahead: Iterable[int] = ()) -> Path:
    rows = [f"{date(2024, 1, 1) + timedelta(days=day)},{day % 7},{day % 2}\n" for day in days]
    rows += [f"{date(2024, 1, 1) + timedelta(days=day)},,{day % 2}\n" for day in ahead]
    path.write_text("day,sales,promotion\n" + "".join(rows))
    return path


def task(**fields: object) -> Forecast:
    common = {"train": "x", "history": HISTORY, "horizon": HORIZON, "season": 7, "target": "sales"}
    return Forecast.model_validate(common | {"encoder": {"hidden_size": 3}} | fields)


def fitted(folder: Path, **fields: object) -> Model:
    path = write(folder / "train.csv", REGULAR)
    made = task(train=str(path), **fields)
    made = made.fit(made.read(path))
    torch.manual_seed(1)
    return Model(Config(made, TrainConfig()), made.build_model())


def gap(path: Path, missing: int = 3, line: int = 22) -> str:
    first = f"first {path}:{line}; {missing} missing in the longest"
    return f"irregular time stamps: 1 after a gap ({first}); forecasts count rows, not time"


def test_evaluations_name_a_gap_in_the_rows_that_they_read(tmp_path: Path) -> None:
    model, path = fitted(tmp_path), write(tmp_path / "gap.csv", WITH_GAP)
    assert model.evaluate(str(path))["warnings"] == [gap(path)]
    assert model.backtest(str(path)).scores["warnings"] == [gap(path)]
    assert "warnings" not in model.evaluate(f"{path}[30:40]")  # its history begins at row 26
    assert model.evaluate(f"{path}[22:40]")["warnings"] == [gap(path)]  # of its first history only
    assert "warnings" not in model.evaluate(str(write(tmp_path / "regular.csv", REGULAR)))


@pytest.mark.parametrize(("stop", "warned"), [(21, True), (23, True), (24, False), (40, False)])
def test_predictions_name_a_gap_in_their_history(stop: int, warned: bool, tmp_path: Path) -> None:
    path = write(tmp_path / "gap.csv", WITH_GAP)
    notes = fitted(tmp_path).predict(f"{path}[0:{stop}]").notes
    assert notes == ([f"1 of 1: {gap(path)}"] if warned else [])


def test_a_gap_before_the_covariates_of_the_steps_to_forecast(tmp_path: Path) -> None:
    model = fitted(tmp_path, future_covariates=("promotion",))
    path = write(tmp_path / "ahead.csv", range(20), ahead=(21, 22))
    assert model.predict(str(path)).notes == [f"1 of 1: {gap(path, missing=1)}"]


def test_the_development_file_of_several_series(tmp_path: Path) -> None:
    names = {}
    for name, days in (("train", (REGULAR, REGULAR)), ("dev", (REGULAR, WITH_GAP))):
        shops = [write(tmp_path / "shop.csv", each).read_text().splitlines()[1:] for each in days]
        rows = [f"{row},{shop}\n" for shop, rows in zip("ab", shops, strict=True) for row in rows]
        names[name] = tmp_path / f"{name}.csv"
        names[name].write_text("day,sales,promotion,shop\n" + "".join(rows))
    made = task(train=str(names["train"]), dev=str(names["dev"]), group_column="shop")
    _, notes = made.resolve(names["train"])
    found = [note for note in notes if note.startswith("warning: ")]
    assert found == [f"warning: dev file {names['dev']}: series b: {gap(names['dev'], line=62)}"]


def test_many_irregular_series_are_counted(tmp_path: Path) -> None:
    rows = write(tmp_path / "shop.csv", WITH_GAP).read_text().splitlines()[1:]
    path = tmp_path / "train.csv"
    path.write_text("day,sales,promotion,shop\n" + "".join(f"{row},{shop}\n" for shop in "abcdefgh" for row in rows))
    made = task(train=str(path), dev=str(path), group_column="shop")
    warnings = [note for note in made.resolve(path)[1] if "irregular" in note]
    for file, found in (("", warnings[:6]), (f"dev file {path}: ", warnings[6:])):
        assert [note.partition("series ")[2][:2] for note in found[:5]] == [f"{shop}:" for shop in "abcde"]
        assert found[5] == f"warning: {file}irregular time stamps in 3 more series"
    assert len(warnings) == 12


@pytest.mark.parametrize(("split", "is_dev"), [(0.3, True), (0.9, False)])
def test_a_gap_of_one_file_is_named_once(split: float, is_dev: bool, tmp_path: Path) -> None:
    path = write(tmp_path / "gap.csv", WITH_GAP)
    made = task(train=f"{path}[0:{split}]", dev=f"{path}[{split}:1]")
    _, notes = made.resolve(Path(made.train))
    (found,) = (note for note in notes if "irregular" in note)
    assert found.startswith("warning: dev file " if is_dev else "warning: irregular")


def test_the_commands_print_a_gap(tmp_path: Path) -> None:
    model, path = fitted(tmp_path, distribution="quantiles"), write(tmp_path / "gap.csv", [*WITH_GAP, 44])
    learned = model.config.task.learned
    assert learned is not None
    run = Run.create(tmp_path / "run", config=model.config.text(), learned=learned.model_dump_json(), environment={})
    run.save("best", Snapshot(model.module.state_dict(), {}, {}))
    messages = {}
    for command in (["evaluate"], ["evaluate", "--backtest"], ["predict"], ["generate", "--output", "paths.csv"]):
        name, *options = command
        if name == "generate":
            options[1] = str(tmp_path / options[1])
        result = CliRunner().invoke(app, [name, str(run.path), str(path), *options])
        assert result.exit_code == 0, result.output
        messages[" ".join(command[:2])] = result.stderr
    both = "irregular time stamps: 2 after a gap"
    last = f"note: irregular time stamps: 1 after a gap (first {path}:42; 1 missing in the longest)"
    assert messages["evaluate"].startswith(f"warning: {path}: {both}")
    assert messages["evaluate --backtest"].startswith(f"warning: {path}: {both}")
    assert last in messages["predict"]
    assert last in messages["generate --output"]
