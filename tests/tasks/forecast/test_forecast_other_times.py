"""Files whose times are unlike those of the training data: another step, offsets from UTC, rows that are not read."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from seqloom.data.readers.text_files import DataError
from seqloom.model import Model
from seqloom.run_config import Config
from seqloom.tasks.forecast import Forecast
from seqloom.tasks.forecast.settings import Learned
from seqloom.training.config import TrainConfig

HISTORY, HORIZON = 4, 2
DAY = timedelta(days=1)
START = datetime(2024, 1, 1)  # noqa: DTZ001  a Monday
OTHER_STEP = (
    "the time step is {}, but the model was trained with every day; forecasts count rows, not time, so that these are "
    "probably wrong: give data with the time step of training"
)


def write(path: Path, times: Iterable[object], *, shops: str = "", values: Iterable[object] = ()) -> Path:
    """Sales at some times; of each shop, if there are several."""
    times = list(times)
    cells = list(values) or [row % 7 for row in range(len(times))]
    if not shops:
        path.write_text("date,sales\n" + "".join(f"{time},{cell}\n" for time, cell in zip(times, cells, strict=True)))
        return path
    rows = [f"{time},{shop},{cell}\n" for shop in shops for time, cell in zip(times, cells, strict=True)]
    path.write_text("date,shop,sales\n" + "".join(rows))
    return path


def every(step: timedelta, count: int = 40, *, offset: str = "") -> list[str]:
    return [f"{START + step * row}{offset}" for row in range(count)]


def days(count: int = 40) -> list[str]:
    return [f"{START + DAY * row:%Y-%m-%d}" for row in range(count)]


def fitted(path: Path, **fields: object) -> Model:
    common = {"train": str(path), "history": HISTORY, "horizon": HORIZON, "season": 1, "distribution": "quantiles"}
    made = Forecast.model_validate(common | {"encoder": {"hidden_size": 3}, "dev": f"{path}[0.5:1]"} | fields)
    made, _ = made.resolve(path)
    made = made.fit(made.read(path))
    torch.manual_seed(1)
    return Model(Config(made, TrainConfig()), made.build_model())


def notes(model: Model, path: Path) -> list[str]:
    return [note.partition(": ")[2] for note in model.predict(str(path)).notes]


@pytest.mark.parametrize(
    ("times", "step"),
    [
        (every(timedelta(hours=1)), "every hour"),
        (every(7 * DAY), "every week"),
        ([f"2024-{month:02}-01" for month in range(1, 13)], "every month"),
        ([day for day in days() if np.is_busday(np.datetime64(day))], "Monday to Friday"),
        (days(), ""),
        ([*days(20), *days(40)[23:]], ""),  # a gap, which has a warning of its own
        (days(5), ""),  # Monday to Friday, too
        (range(40), ""),  # numbers of rows, which have no unit
    ],
)
def test_another_time_step_is_named_in_every_answer(times: list[str], step: str, tmp_path: Path) -> None:
    model = fitted(write(tmp_path / "train.csv", days()))
    path = write(tmp_path / "other.csv", times)
    warning = OTHER_STEP.format(step)
    if not step:
        assert not [note for note in notes(model, path) if "time step" in note]
        return
    assert notes(model, path) == [warning]
    if len(times) > HISTORY + 20:
        assert model.evaluate(str(path))["warnings"] == [warning]
        assert model.backtest(str(path)).scores["warnings"] == [warning]
        (paths,) = model.sample_paths(str(path), count=2)
        assert paths.warning == warning


def test_working_days_are_not_a_step_of_one_day(tmp_path: Path) -> None:
    working = [day for day in days() if np.is_busday(np.datetime64(day))]
    model = fitted(write(tmp_path / "train.csv", working))
    assert not notes(model, write(tmp_path / "week.csv", working[:5]))  # without a weekend, it could be either
    (note,) = notes(model, write(tmp_path / "all.csv", days()))
    assert note.startswith("the time step is every day, but the model was trained with Monday to Friday;")


def test_the_steps_are_a_part_of_the_run(tmp_path: Path) -> None:
    learned = fitted(write(tmp_path / "train.csv", days())).config.task.learned
    assert isinstance(learned, Learned)
    restored = Learned.model_validate_json(learned.model_dump_json())
    assert restored == learned
    assert list(map(str, restored.steps or ())) == ["every day"]


def test_a_run_without_a_step_says_nothing(tmp_path: Path) -> None:
    model = fitted(write(tmp_path / "train.csv", days()))
    task = model.config.task
    assert isinstance(task, Forecast)
    earlier = task.fitted.model_copy(update={"steps": None, "offsets": None})
    older = Model(Config(task.model_copy(update={"learned": earlier}), TrainConfig()), model.module)
    assert not notes(older, write(tmp_path / "hourly.csv", every(timedelta(hours=1))))
    path = write(tmp_path / "offset.csv", every(timedelta(hours=1), 6, offset="+02:00"))
    answers = older.predict(str(path))  # read in UTC, as in its training
    assert answers[0].times == ["2024-01-01 04:00+00:00", "2024-01-01 05:00+00:00"]
    assert notes(older, path) == ["times with the offset +02:00 are converted to UTC"]
    assert not task.ensemble_conflict(older.config.task)


def test_a_model_that_starts_from_another_knows_the_steps_of_both(tmp_path: Path) -> None:
    daily = fitted(write(tmp_path / "daily.csv", days())).config.task
    hourly = fitted(write(tmp_path / "hourly.csv", every(timedelta(hours=1)))).config.task
    assert isinstance(daily, Forecast)
    assert isinstance(hourly, Forecast)
    assert list(map(str, hourly.share_learned(daily).fitted.steps or ())) == ["every day", "every hour"]


def test_training_names_another_step_of_the_development_file(tmp_path: Path) -> None:
    train = write(tmp_path / "train.csv", days())
    dev = write(tmp_path / "dev.csv", [f"{START + 50 * DAY + timedelta(hours=row)}" for row in range(20)])
    task = Forecast(train=str(train), dev=str(dev), history=HISTORY, horizon=HORIZON)
    _, found = task.resolve(train)
    assert f"warning: dev file {dev}: {OTHER_STEP.format('every hour')}" in found


def test_several_series_with_another_step_share_a_warning(tmp_path: Path) -> None:
    model = fitted(write(tmp_path / "train.csv", days(), shops="abc"), group_column="shop")
    path = write(tmp_path / "hourly.csv", every(timedelta(hours=1)), shops="abc")
    assert model.evaluate(str(path))["warnings"] == [OTHER_STEP.format("every hour")]
    assert model.predict(str(path)).notes == [f"3 of 3: {OTHER_STEP.format('every hour')}"]


def test_irregular_times_of_several_series_are_named_with_their_series(tmp_path: Path) -> None:
    model = fitted(write(tmp_path / "train.csv", days(), shops="abc"), group_column="shop")
    path = write(tmp_path / "repeated.csv", [*days(), days()[-1]], shops="ab")
    assert [note.partition(" (")[0] for note in notes(model, path)] == [
        "series a: irregular time stamps: 1 repeated",
        "series b: irregular time stamps: 1 repeated",
    ]


def test_times_with_one_offset_stay_local(tmp_path: Path) -> None:
    train = write(tmp_path / "train.csv", every(DAY, offset="+02:00"))
    model = fitted(train, calendar=True)
    answers = model.predict(str(train))
    assert answers[0].times == ["2024-02-10", "2024-02-11"]
    assert not answers.notes
    plain = write(tmp_path / "plain.csv", days())
    assert model.predict(str(plain))[0].values == answers[0].values  # the weekday is that of the file
    assert notes(model, plain) == [
        "times have no offset and are read as written; those of the training data have the offset +02:00"
    ]
    hourly = write(tmp_path / "hourly.csv", every(timedelta(hours=1), offset="+02:00"))
    assert model.predict(str(hourly))[0].times[0] == "2024-01-02 16:00+02:00"


def test_another_offset_than_in_training_is_named(tmp_path: Path) -> None:
    model = fitted(write(tmp_path / "train.csv", every(DAY, offset="+02:00")))
    path = write(tmp_path / "utc.csv", every(DAY, offset="Z"))
    assert model.predict(str(path))[0].times[0] == "2024-02-10"
    assert notes(model, path) == [
        "times have the offset +00:00 and are read as written; those of the training data have the offset +02:00"
    ]


def berlin(frequency: str, count: int) -> list[str]:
    """Times across the beginning of summer time."""
    times = pd.date_range("2024-03-25", periods=count, freq=frequency, tz="Europe/Berlin")
    return [time.isoformat() for time in times]


def test_days_with_different_offsets_are_local_days(tmp_path: Path) -> None:
    path = write(tmp_path / "train.csv", berlin("D", 40))
    model = fitted(path)
    assert model.predict(str(path))[0].times == ["2024-05-04", "2024-05-05"]
    local = "times are read as local times without their offsets, which differ (+01:00, +02:00)"
    assert notes(model, path) == [local]
    assert model.evaluate(str(path))["warnings"] == [local]
    summer = write(tmp_path / "summer.csv", berlin("D", 40)[10:])
    assert not notes(model, summer)


def test_hours_with_different_offsets_are_read_in_utc(tmp_path: Path) -> None:
    path = write(tmp_path / "train.csv", berlin("h", 200))
    task = Forecast(train=str(path), history=HISTORY, horizon=HORIZON)
    resolved, found = task.resolve(path)
    assert resolved.time_zone == "utc"
    assert any("times are read as UTC, since their offsets differ (+01:00, +02:00)" in note for note in found)
    model = fitted(path)
    answers = model.predict(str(path))
    assert answers[0].times == ["2024-04-02 07:00+00:00", "2024-04-02 08:00+00:00"]
    summer = write(tmp_path / "summer.csv", berlin("h", 200)[150:])  # read as in training
    assert model.predict(str(summer))[0].times == answers[0].times
    assert notes(model, summer) == ["times with the offset +02:00 are converted to UTC"]
    assert fitted(path, time_zone="local").predict(str(path))[0].times[0] == "2024-04-02 09:00"


def test_the_index_of_a_data_frame_with_a_time_zone(tmp_path: Path) -> None:
    model = fitted(write(tmp_path / "train.csv", days()))
    index = pd.date_range("2024-03-25", periods=20, freq="D", tz="Europe/Berlin")
    frame = pd.DataFrame({"sales": np.arange(20.0)}, index=index)
    assert model.predict(frame)[0].times == ["2024-04-14", "2024-04-15"]


@pytest.mark.parametrize("row", [0, 20, 40 - HISTORY - 2])
def test_missing_values_that_are_not_read_do_not_matter(row: int, tmp_path: Path) -> None:
    model = fitted(write(tmp_path / "train.csv", days()))
    cells: list[object] = [row % 7 for row in range(40)]
    complete = model.predict(str(write(tmp_path / "complete.csv", days(), values=cells)))
    cells[row] = ""
    path = write(tmp_path / "gap.csv", days(), values=cells)
    answers = model.predict(str(path))
    assert answers[0].values == complete[0].values
    assert not answers.notes
    with pytest.raises(DataError, match=r"missing value; train again with task.fill_missing=true"):
        model.evaluate(str(path))


@pytest.mark.parametrize("row", [40 - HISTORY - 1, 39])
def test_missing_values_that_are_read_need_another_training(row: int, tmp_path: Path) -> None:
    model = fitted(write(tmp_path / "train.csv", days()))
    cells: list[object] = [row % 7 for row in range(40)]
    cells[row] = ""
    path = write(tmp_path / "gap.csv", days(), values=cells)
    problem = f"gap.csv:{row + 2}: column sales: missing value; train again with task.fill_missing=true, which repeats"
    with pytest.raises(DataError, match=problem):
        model.predict(str(path))
    with pytest.raises(DataError, match=r"missing value; train again with task.fill_missing=true"):
        model.predict(pd.read_csv(path))
    assert model.predict(f"{path}[0:{row}]")[0].times[0] == days()[row]  # it lies behind the rows that are read


def test_missing_values_of_many_series_that_are_not_read(tmp_path: Path) -> None:
    values = np.arange(40.0)[:, None]
    np.savez(tmp_path / "train.npz", values=values, lengths=np.array([40]))
    model = fitted(tmp_path / "train.npz", dev="")
    complete = model.predict(str(tmp_path / "train.npz"))
    early, late = values.copy(), values.copy()
    early[3], late[-2] = np.nan, np.nan
    np.savez(tmp_path / "early.npz", values=early, lengths=np.array([40]))
    np.savez(tmp_path / "late.npz", values=late, lengths=np.array([40]))
    assert model.predict(str(tmp_path / "early.npz"))[0].values == complete[0].values
    assert model.predict([early])[0].values == complete[0].values
    with pytest.raises(DataError, match=r"element 39 .* train again with task.fill_missing=true, which repeats"):
        model.predict(str(tmp_path / "late.npz"))
    with pytest.raises(DataError, match="step 38: a value is missing"):
        model.predict([late])


def test_a_forecast_starts_after_the_latest_row(tmp_path: Path) -> None:
    model = fitted(write(tmp_path / "train.csv", days()), calendar=True)
    times = days()
    path = write(tmp_path / "swapped.csv", [*times[:-2], times[-1], times[-2]])
    answers = model.predict(str(path))
    assert answers[0].times == ["2024-02-10", "2024-02-11"]
    assert "1 out of order" in answers.notes[0]
    task = model.config.task
    assert isinstance(task, Forecast)
    known, right = (task.covariates(*task.read_inputs(file)) for file in (path, tmp_path / "train.csv"))
    np.testing.assert_array_equal(known[-HORIZON:], right[-HORIZON:])


@pytest.mark.parametrize("key", ["target", "columns", "future_covariates"])
def test_dates_are_neither_forecast_nor_read(key: str, tmp_path: Path) -> None:
    path = write(tmp_path / "train.csv", days())
    task = Forecast.model_validate({"train": str(path), "history": HISTORY, "horizon": HORIZON, key: "date"})
    with pytest.raises(DataError, match=rf"column 'date' holds dates .* time axis .*: set task.{key} to columns of"):
        list(task.read(path))
