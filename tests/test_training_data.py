"""The data of a training run: what is held out, and what has to stay the same."""

import os
import signal
from pathlib import Path

import pytest
import typer
from tests.data.readers.test_suited_task import REVIEWS, SALES
from tests.test_workflow import at, send, settings

from seqloom import workflow
from seqloom.check import check_data
from seqloom.checkpoint import RunError
from seqloom.cli.options import errors
from seqloom.data.readers.text_files import DataError
from seqloom.interrupt import Interrupted
from seqloom.model import load
from seqloom.run import Run
from seqloom.run_config import Config
from seqloom.run_document import read_document
from seqloom.training_data import data_readers, dev_examples, fingerprints, with_detected


def test_development_examples_are_held_out_without_a_dev_file(tmp_path: Path) -> None:
    chosen = settings(tmp_path, "classify")
    shared = chosen._replace(task=chosen.task.model_copy(update={"dev": "", "dev_fraction": 0.3}))
    result = data_readers(shared)
    train, dev = [[example.location.line for example in read()] for read in (result.train, result.dev)]
    assert sorted(train + dev) == list(range(1, 19))
    assert dev
    another = shared._replace(train=shared.train.model_copy(update={"seed": 2}))
    assert [example.location.line for example in data_readers(another).dev()] == dev  # so that scores of seeds compare
    alone = chosen._replace(task=chosen.task.model_copy(update={"dev": "", "dev_fraction": 0.0}))
    run = workflow.train(alone, output=tmp_path / "run")
    assert not run.saved("best")
    assert load(run.path).predict(["it goes up"])


def forecast_settings(tmp_path: Path, rows: int, *overrides: str) -> Config:
    file = tmp_path / "series.csv"
    file.write_text("x\n" + "".join(f"{number % 7}\n" for number in range(rows)))
    document = read_document("", overrides, task="forecast", data=str(file))
    return with_detected(Config.build(document))[0]


@pytest.mark.parametrize(
    ("rows", "overrides", "reason"),
    [
        (
            19,
            ["task.horizon=7"],
            (
                r"of 5 examples, 1 is held out for development, and the other 4 overlap with it\. Found 19 rows, "
                r"expected at least 22 for training and development with task\.history \+ task\.horizon \(8 \+ 7\): "
                r"set task\.horizon to at most 5, set task\.dev to later rows, or set task\.dev_fraction=0$"
            ),
        ),
        (500, ["task.horizon=400"], r"expected at least 905 for .* \(62 \+ 400\): set task\.horizon to at most 208, "),
        (40, ["task.horizon=30", "task.history=8", "task.dev_fold=1/3"], r"Lower task\.history or task\.horizon, set "),
    ],
)
def test_training_data_of_which_all_examples_are_held_out(
    rows: int, overrides: list[str], reason: str, tmp_path: Path
) -> None:
    with pytest.raises(DataError, match=reason):
        list(data_readers(forecast_settings(tmp_path, rows, *overrides)).train())


def test_the_rows_and_the_horizon_that_are_named_leave_an_example(tmp_path: Path) -> None:
    assert list(data_readers(forecast_settings(tmp_path, 19, "task.horizon=5")).train())
    assert list(data_readers(forecast_settings(tmp_path, 22, "task.horizon=7", "task.history=8")).train())


def test_the_only_example_is_held_out(tmp_path: Path) -> None:
    (tmp_path / "one.txt").write_text("up it goes up\n")
    config = settings(tmp_path, "classify")
    problems = []
    for fold in ("1/2", "2/2"):
        update = {"train": str(tmp_path / "one.txt"), "dev": "", "dev_fold": fold}
        try:
            list(data_readers(config._replace(task=config.task.model_copy(update=update))).train())
        except DataError as error:
            problems.append(error.message)
    (problem,) = problems
    assert problem.startswith(
        "found no examples to train on: of 1 example, 1 is held out for development. Set task.dev,"
    )
    assert problem.endswith(" or another task.dev_fold")


def test_dev_examples_of_a_run(tmp_path: Path) -> None:
    """The dev data as they were recorded; training data if there are none; nothing else is read."""
    config = settings(tmp_path, "classify")
    recorded = fingerprints(config)
    lines = [example.location.line for example in dev_examples(config, recorded)]
    assert lines == [example.location.line for example in data_readers(config).dev()]
    alone = config._replace(task=config.task.model_copy(update={"dev": "", "dev_fraction": 0.0}))
    assert [example.location.line for example in dev_examples(alone, recorded)] == list(range(1, 19))
    Path(config.task.dev).write_text("up it goes up\n")
    with pytest.raises(DataError, match="has changed since the run was trained"):
        dev_examples(config, recorded)


@pytest.mark.parametrize("name", ["/dev/zero", "-", "pipe", "$SEQLOOM_TEST_SECRET", "missing.txt"])
def test_dev_examples_of_a_run_are_read_from_files_only(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SEQLOOM_TEST_SECRET", "hidden")
    monkeypatch.chdir(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    config = settings(tmp_path, "classify")
    named = config._replace(task=config.task.model_copy(update={"dev": name}))
    with pytest.raises(DataError) as raised:
        dev_examples(named, {**fingerprints(config), name: "0"})
    assert "hidden" not in str(raised.value)


def test_a_run_is_resumed_with_the_same_data_only(tmp_path: Path) -> None:
    config = settings(tmp_path)
    with pytest.raises(Interrupted):
        workflow.train(config, output=tmp_path / "run", listeners=[at(3, lambda: send(signal.SIGINT))])
    train = Path(config.task.train)
    before = train.read_bytes()
    train.write_bytes(before + b"one more\n")
    with pytest.raises(RunError, match=r"has changed since .* was started"):
        workflow.resume(tmp_path / "run")
    train.write_bytes(before)
    assert workflow.resume(tmp_path / "run").saved("best")


def test_another_number_of_threads_is_reported(tmp_path: Path) -> None:
    config = settings(tmp_path)
    with pytest.raises(Interrupted):
        workflow.train(config, output=tmp_path / "run", listeners=[at(3, lambda: send(signal.SIGINT))])
    before = int(Run.open(tmp_path / "run").environment["threads"])
    *_, note = workflow.resume(tmp_path / "run", [f"train.threads={before + 1}"]).notes
    assert note.startswith(f"resumed with {before + 1} threads, started with {before}: results may differ")
    assert note in (tmp_path / "run" / "train.log").read_text()


def test_no_held_out_examples_are_an_error(tmp_path: Path) -> None:
    config = settings(tmp_path, "classify")
    few = config._replace(task=config.task.model_copy(update={"dev": "", "dev_fraction": 0.0001}))
    with pytest.raises(ValueError, match="no development examples"):
        workflow.train(few, output=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_table_that_is_one_sequence_names_the_columns_that_may_divide_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = "".join(f"M{row // 4},{row},{row * 7 % 5},{row % 2}\n" for row in range(24))
    path = tmp_path / "x.csv"
    path.write_text(f"machine,time,ax,power\n{rows}")
    with pytest.raises(ValueError, match="all of it is one sequence, of which no part can be held out") as error:
        workflow.train(configured("tag", path, "task.label_column=power"), output=tmp_path / "run")
    advice = f"set task.group_column to machine, or hold out its last rows with task.train={path}[0:0.9]"
    assert advice in str(error.value)
    assert any("time from column 2 'time', label from column 4 'power'" in note for note in error.value.__notes__)
    with pytest.raises(typer.Exit), errors():
        raise error.value
    *notes, message = capsys.readouterr().err.splitlines()
    assert message.startswith(f"seqloom: {path}: all of it is one sequence")
    assert notes == error.value.__notes__
    assert not (tmp_path / "run").exists()


def configured(task: str, path: Path, *overrides: str) -> Config:
    return Config.build(read_document("", overrides, task=task, data=str(path)))


@pytest.mark.parametrize("task", ["tag", "translate", "caption"])
def test_data_of_another_task_are_refused_before_training(tmp_path: Path, task: str) -> None:
    path = tmp_path / "reviews.csv"
    path.write_text(REVIEWS)
    with pytest.raises(DataError, match=f"classify: seqloom train --task classify --data .*reviews.csv.*task {task} n"):
        with_detected(configured(task, path))


def test_a_configured_format_is_not_questioned(tmp_path: Path) -> None:
    path = tmp_path / "reviews.csv"
    path.write_text(REVIEWS)
    for key in ("task.format=columns", "task.target_column=label"):
        assert with_detected(configured("translate", path, key))[0].task.says_how_to_read


def test_a_task_without_formats_gets_a_note(tmp_path: Path) -> None:
    path = tmp_path / "reviews.csv"
    path.write_text(REVIEWS)
    _, notes = with_detected(configured("language_model", path))
    assert notes[-1].endswith(f"--task classify --data {path}")


def test_an_error_names_the_task_that_suits(tmp_path: Path) -> None:
    path = tmp_path / "sales.csv"
    path.write_text(SALES)
    with pytest.raises(
        DataError, match=r"2: value 1: expected a number, found '2010-01-01'\. Also found a time series"
    ):
        workflow.train(configured("tag", path), output=tmp_path / "run")
    (problem,) = check_data(configured("tag", path)).problems
    assert problem.endswith(f"seqloom train --task forecast --data {path}")
    path.write_text(SALES.replace("2010-03-01,9,3", "2010-03-01,x,3"))
    with pytest.raises(DataError, match=r"found 'x'$"):
        with_detected(configured("forecast", path))


def test_a_late_error_is_one_of_a_file_of_the_right_kind(tmp_path: Path) -> None:
    path = tmp_path / "scan.txt"
    lines = [f"IN: jump {number} times OUT: JUMP JUMP" for number in range(20)]
    path.write_text("\n".join([*lines, "damaged line of text"]))
    config = configured("translate", path, "task.format=scan")
    with pytest.raises(DataError, match=r"21: expected 'IN: source OUT: target', found 'damaged line of text'$"):
        workflow.train(config, output=tmp_path / "run")
    path.write_text("\n".join(["damaged line of text", *lines]))
    with pytest.raises(DataError, match=r"1: expected .*Also found plain text, without labels"):
        workflow.train(config, output=tmp_path / "run")


def test_one_long_recording_is_trained_on_a_range_of_its_rows(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("time,ax,power\n" + "".join(f"{row},{row * 7 % 5},{row * 3 % 7 / 10}\n" for row in range(40)))
    overrides = ["task.label_column=power", f"task.dev={path}[0.8:1]", "train.updates=1", "train.max_length=10"]
    config = configured("tag", tmp_path / "x.csv[0:0.8]", *overrides)
    readers = data_readers(config)
    assert [len(example) for example in readers.train()] == [10, 10, 10, 2]
    assert [(len(example), example.location.line) for example in readers.dev()] == [(8, 34)]
    model = load(workflow.train(config, output=tmp_path / "run").path)
    assert "in_train" not in model.evaluate(f"{path}[0.8:1]")
    assert model.evaluate(f"{path}[0:0.8]")["in_train"] == 1
    assert len(model.predict(f"{path}[30:]")[0].values["power"]) == 10


def test_a_note_about_another_task_says_that_the_configured_one_is_trained(tmp_path: Path) -> None:
    path = tmp_path / "reviews.csv"
    path.write_text(REVIEWS)
    _, notes = with_detected(configured("language_model", path))
    assert f"{path}: text from column 1 'text'; not read: column 'label'" in notes
    assert notes[-1].startswith(f"{path}: the task language_model is trained as configured, but found a text and its")


def test_an_error_about_a_missing_label_counts_all_of_them(tmp_path: Path) -> None:
    path = tmp_path / "reviews.csv"
    labels = ["good", "bad", "", "good", "", "bad", "", "good", "bad", "good", "bad"]
    path.write_text("text,label\n" + "".join(f"a film {index},{label}\n" for index, label in enumerate(labels)))
    with pytest.raises(DataError, match=r"no label; .*; 3 of 11 examples have none: remove the rows without one"):
        workflow.train(configured("classify", path), output=tmp_path / "run")
