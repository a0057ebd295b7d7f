"""What a person configures: a file, or a task and its data; errors in them are found early."""

import os
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.contracts.tiny import CASES, write

from seqloom import tasks
from seqloom.config import ConfigError, Document, parse
from seqloom.config.errors import find_problems
from seqloom.config.hints import SYNONYMS
from seqloom.data.readers.text_files import DataError
from seqloom.data.readers.text_tables import texts
from seqloom.run_config import Config, config_template
from seqloom.run_document import COLUMNS, check_columns, check_files, check_tables, find_data_files, read_document
from seqloom.tasks import key_table
from seqloom.training_data import data_readers, with_detected


def test_a_configuration_is_a_file_or_a_task_and_its_data(tmp_path: Path) -> None:
    write(CASES["classify"], tmp_path)
    alone = read_document("", task="classify", data=str(tmp_path / "t.txt"))
    assert alone.get("task.train") == str(tmp_path / "t.txt")
    assert alone.get("task.dev") is None
    changed = read_document("train.epochs=7", task="classify", data=str(tmp_path / "t.txt"))
    assert Config.build(changed).train.epochs == 7
    path = tmp_path / "c.toml"
    path.write_text(Config.build(alone).text())
    assert Config.build(read_document(str(path), ["train.batch_size=3"])).train.batch_size == 3
    with pytest.raises(ValueError, match=r"give either a configuration \(.*c\.toml\) or --task and --data"):
        read_document(str(path), task="tag", data="x")
    with pytest.raises(ValueError, match=r'^--task: unknown task "tagger"; did you mean "tag"\? Expected one of: '):
        read_document("", task="tagger", data="x")
    with pytest.raises(ValueError, match=r"^give a data file with --data: --task tag --data a\.csv$"):
        read_document("a.csv", task="tag")
    with pytest.raises(ConfigError, match=r"'train\.epochs' is not an override; write section\.key=value"):
        read_document("train.epochs", ["5"], task="classify", data=str(tmp_path / "t.txt"))
    with pytest.raises(ValueError, match=r"^--task tag needs --data FILE, too"):
        read_document("", task="tag")
    with pytest.raises(ValueError, match=r"^--data x\.csv needs --task, too: caption, classify, "):
        read_document("", data="x.csv")
    with pytest.raises(ValueError, match=r"^nothing to train or check"):
        read_document("")


def test_data_files_are_found_by_their_names(tmp_path: Path) -> None:
    for name in ("x.train.txt", "x.valid.txt", "values.txt", "devices.txt", "readme"):
        (tmp_path / name).touch()
    result = find_data_files(str(tmp_path))
    assert result == {"task.train": str(tmp_path / "x.train.txt"), "task.dev": str(tmp_path / "x.valid.txt")}
    (tmp_path / "y.train.txt").touch()
    with pytest.raises(
        ValueError, match=r"several files could be task\.train: x\.train\.txt, y.*as train\.\{en,de\}.*task\.parallel"
    ):
        find_data_files(str(tmp_path))
    for path in tmp_path.glob("*train*"):
        path.unlink()
    with pytest.raises(ValueError, match="no file has 'train' in its name"):
        find_data_files(str(tmp_path))


def test_a_folder_of_labels_is_training_data(tmp_path: Path) -> None:
    (tmp_path / "positive").mkdir()
    assert find_data_files(str(tmp_path)) == {"task.train": str(tmp_path)}
    (tmp_path / "train").mkdir()
    assert find_data_files(str(tmp_path)) == {"task.train": str(tmp_path / "train")}


def test_a_folder_of_texts_is_training_data(tmp_path: Path) -> None:
    for name in ("b.txt", "a.TXT"):
        (tmp_path / name).touch()
    assert find_data_files(str(tmp_path)) == {"task.train": str(tmp_path)}
    (tmp_path / "training_day.txt").touch()
    assert find_data_files(str(tmp_path)) == {"task.train": str(tmp_path)}
    (tmp_path / "training_day.txt").unlink()
    (tmp_path / "c.csv").touch()
    with pytest.raises(ValueError, match="no file has 'train' in its name"):
        find_data_files(str(tmp_path))


def test_parts_of_a_data_set_are_no_folder_of_texts(tmp_path: Path) -> None:
    for name in ("train", "dev", "test"):
        (tmp_path / f"{name}.txt").write_text(f"{name}\n")
    parts = {"task.train": str(tmp_path / "train.txt"), "task.dev": str(tmp_path / "dev.txt")}
    assert find_data_files(str(tmp_path)) == parts
    with pytest.raises(DataError, match=r"parts of one data set \(dev\.txt, test\.txt, train\.txt\): name one of them"):
        list(texts(tmp_path))
    (tmp_path / "dev.txt").unlink()
    assert find_data_files(str(tmp_path)) == {"task.train": str(tmp_path / "train.txt")}


@pytest.mark.parametrize(
    ("task", "settings", "problem"),
    [
        ("classify", ["task.text_column=revew"], r"no column 'revew' \(task.text_column\); .* did you mean 'review'\?"),
        ("classify", ["task.label_column=['stars', 'start']"], r"no column 'start' \(task.label_column\)"),
        ("forecast", ["task.target=['stars', 'sales']"], r"no column 'sales' \(task.target\)"),
        ("translate", ["task.source_column=en"], r"no column 'en' \(task.source_column\)"),
        ("classify", ["task.text_column=review", "task.label_column=1"], ""),
        ("tag", ["task.label_column=speed"], r"no column 'speed' \(task.label_column\); the header has review, stars"),
        ("tag", ["task.label_column=['stars', 'start']"], r"no column 'start' \(task.label_column\)"),
        ("classify", ["task.text_column=x", "task.encoding=utf-9"], ""),  # found later
    ],
)
def test_columns_that_do_not_exist_are_found_before_the_data_are_read(
    task: str, settings: list[str], problem: str, tmp_path: Path
) -> None:
    path = tmp_path / "x.csv"
    path.write_text("review,stars\ngood,5\nbad,1\n")
    document = read_document("", settings, task=task, data=str(path))
    if not problem:
        check_columns(document)
        return
    with pytest.raises(DataError, match=problem):
        check_columns(document)


def test_the_name_of_an_object_is_no_column(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text('{"en": "a", "de": {"b": "x"}}\n')
    document = read_document("", ["task.source_column=en", "task.target_column=de"], task="translate", data=str(path))
    with pytest.raises(DataError, match=r"'de' is an object \(task.target_column\); name a value inside of it: 'de.b'"):
        check_columns(document)


def test_checked_columns_are_keys_of_their_task() -> None:
    for task, columns in COLUMNS.items():
        assert set(columns) <= {key[1] for key in key_table.read(task) if key[1:]}


@pytest.mark.parametrize("task", ["classify", "translate", "forecast"])
def test_what_is_said_of_the_training_table_does_not_depend_on_the_task(task: str) -> None:
    """Synonyms of keys and typos get the same message with and without the keys of a task; the others wait for it."""
    early: dict[str, str] = {}
    documents: dict[str, Document] = {}
    for word in (*SYNONYMS, "learnig_rate", "optimzer", "words", "min_length", "token", "nothing"):
        documents[word] = Document.empty(values={"task.name": task, "task.train": "x", f"train.{word}": 1})
        try:
            check_tables(documents[word])
        except ConfigError as error:
            early[word] = str(error)
    for word, message in early.items():
        with pytest.raises(ConfigError) as expected:
            Config.build(documents[word], defaults=False)
        assert str(expected.value) == message
    assert {"lr", "max_epochs", "optim", "learnig_rate", "optimzer"} <= early.keys()
    assert {"words", "min_length", "token", "nothing", "dev_file", "vocab_size"}.isdisjoint(early)


@pytest.fixture
def up_to_date(monkeypatch: pytest.MonkeyPatch) -> None:
    """The stored keys are believed, even if sources have been edited since."""
    monkeypatch.setattr(key_table, "may_be_new", lambda _: False)


@pytest.mark.usefixtures("up_to_date")
@pytest.mark.parametrize("task", tasks.names())
def test_unknown_keys_of_a_task_are_found_without_it(task: str) -> None:
    """With the message that the task gives; keys without a similar one wait for the task."""
    files = {"task.name": task, "task.train": "x"}
    for wrong in ("task.encodr.cell=lstm", "task.dev_fractoin=1", "task.lr=1", "task.dev_fraction.x=1"):
        document = Document.empty([wrong], values=files)
        with pytest.raises(ConfigError) as expected:
            Config.build(document, defaults=False)
        message = str(expected.value)
        if ("unknown" in message and "did you mean" in message) or ": expected" in message:
            with pytest.raises(ConfigError, match=f"^{re.escape(message)}$"):
                check_tables(document)
        else:
            check_tables(document)
    check_tables(Document.empty(["task.qqqqqq=1"], values=files))


@pytest.mark.usefixtures("up_to_date")
@pytest.mark.parametrize("wrong", ["x", -1, 2.5, True, [1], 10**9])
@pytest.mark.parametrize("task", tasks.names())
def test_wrong_values_of_a_task_are_found_without_it(task: str, wrong: Any) -> None:
    """With the messages that the task gives, and for all keys of one type."""
    files = {"task.name": task, "task.train": "x"}
    keys = [key for key, schema in key_table.types(task).items() if schema]
    assert len(keys) > 10
    document = Document.empty(values={**files, **dict.fromkeys(keys, wrong)})
    early: set[str] = set()
    try:
        check_tables(document)
    except ConfigError as error:
        early = {*str(error).splitlines()}
    expected = {problem.message for problem in find_problems({"task": tasks.find(task)}, document.values)}
    assert early == {
        f"command line: {message}"
        for message in expected
        if re.match(r"[\w.]+(: expected| = .*: unknown cell)", message)
    }


@pytest.mark.usefixtures("up_to_date")
@pytest.mark.parametrize(
    ("task", "key"),
    [("tag", "task.encoder.cell"), ("translate", "task.decoder.cell"), ("language_model", "task.characters.cell")],
)
@pytest.mark.parametrize("cell", ["lstmm", ["gru", "LSTM"], [], "seqloom.cells.lstm"])
def test_names_of_cells_are_checked_without_the_task(task: str, key: str, cell: Any) -> None:
    """With the message that the task gives, which comes from the classes themselves."""
    document = Document.empty(values={"task.name": task, "task.train": "x", key: cell})
    problems = [problem.message for problem in find_problems({"task": tasks.find(task)}, document.values)]
    named = [f"command line: {message}" for message in problems if "unknown cell" in message]
    assert bool(named) == (bool(cell) and (isinstance(cell, str) or key != "task.characters.cell"))
    try:
        check_tables(document)
        early = []
    except ConfigError as error:
        early = str(error).splitlines()
    assert [message for message in early if "unknown cell" in message] == named


def test_a_cell_may_be_newer_than_the_stored_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stored = tmp_path / "tasks" / "keys.json"
    stored.parent.mkdir()
    stored.write_text(key_table.FILE.read_text())
    monkeypatch.setattr(key_table, "FILE", stored)
    monkeypatch.setattr(key_table, "SOURCES", tmp_path)
    document = Document.empty(values={"task.name": "tag", "task.train": "x", "task.encoder.cell": "mine"})
    with pytest.raises(ConfigError, match='unknown cell "mine"'):
        check_tables(document)
    (tmp_path / "cells").mkdir()
    (tmp_path / "cells" / "mine.py").write_text("class Mine: ...")
    os.utime(stored, (0, 0))  # older than the cell
    check_tables(document)


def test_a_key_of_another_section_is_refused_unless_it_may_be_new(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored = tmp_path / "keys.json"
    stored.write_text(key_table.FILE.read_text())
    monkeypatch.setattr(key_table, "FILE", stored)
    document = Document.empty(["task.hidden_size=1"], values={"task.name": "tag", "task.train": "x"})
    with pytest.raises(ConfigError, match=r'"task.hidden_size"; did you mean "task.encoder.hidden_size"'):
        check_tables(document)
    os.utime(stored, (0, 0))  # older than every section
    check_tables(document)


def test_the_stored_keys_are_those_of_the_tasks() -> None:
    assert key_table.render() == key_table.FILE.read_text(), "run: python -m seqloom.tasks.key_table"
    for task in tasks.names():
        check_tables(parse(config_template(task), "c.toml"))


def test_wrong_values_of_the_training_table() -> None:
    values = {"task.name": "tag", "task.train": "x", "train.epochs": 0}
    check_tables(Document.empty(values=values))  # a task may have a default for another limit
    with pytest.raises(ConfigError, match=r'^command line: train\.epochs: expected an integer, got "x"$'):
        check_tables(Document.empty(["train.epochs=x"], values=values))


@pytest.mark.parametrize("task", ["classify", "forecast"])
def test_the_placeholder_of_a_template_is_recognised(task: str, tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text(config_template(task))
    document = read_document(str(tmp_path / "c.toml"))
    with pytest.raises(DataError, match=r"^path/to/\w+\.\w+.*: still the placeholder of the template: set task\.train"):
        check_files(document)
    with pytest.raises(DataError, match="still the placeholder"):
        with_detected(Config.build(document))


@pytest.mark.parametrize("key", ["task.train", "task.dev"])
def test_files_have_to_exist(key: str, tmp_path: Path) -> None:
    (tmp_path / "there.txt").touch()
    files = {"task.train": str(tmp_path / "there.txt"), key: str(tmp_path / "three.txt")}
    with pytest.raises(DataError, match=r"three\.txt: no such file; did you mean .*there\.txt\?"):
        check_files(Document.empty(values=files))
    check_files(Document.empty(values={"task.train": f"{tmp_path}/there.txt[0:0.5]"}))


@pytest.mark.skipif(sys.platform == "win32", reason="needs pipes of POSIX")
@pytest.mark.parametrize("name", ["-", "pipe", "/dev/zero"])
def test_data_that_can_be_read_only_once_are_refused(name: str, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    name = str(tmp_path / name) if name == "pipe" else name
    with pytest.raises(DataError, match="training reads its data several times, and this can be read once: use a file"):
        read_document("", task="classify", data=name)
    config = Config.build(Document.empty(values={"task.name": "classify", "task.train": name}))
    with pytest.raises(DataError, match="use a file"):
        data_readers(config)


def test_a_name_that_is_not_utf8_is_refused_in_words() -> None:
    with pytest.raises(DataError, match=r"'d\\udcff.csv': the name is not valid UTF-8, as a configuration is"):
        read_document("", task="classify", data="d\udcff.csv")
