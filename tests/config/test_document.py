"""Documents: files, overrides, locations of values, and sections built from them."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.config.sections import Beam, Encoder, Greedy, Limit, Task, Train, configurable_part, floats, tasks

from seqloom.config import ConfigError, Document, dump, parse, parse_section, read, with_changes


def error_message(text: str, *overrides: str) -> str:
    with pytest.raises(ConfigError) as error:
        parse(text, "a.toml", overrides=overrides).build(task=Task, train=Train)
    return str(error.value)


def test_values_and_locations() -> None:
    document = parse('[task]\ntrain = "x"\n\n[task.encoder]\nwidth = 3', "a.toml", overrides=["train.epochs=5"])
    assert document.get("task.encoder") == {"width": 3}
    assert document.get("task.encoder.width") == 3
    assert document.get("task.encoder.width.more") is None
    assert document.get("task.name") is None
    assert document.get("decode.name") is None
    assert document.location("task.encoder.width") == "a.toml:5"
    assert document.location("task.encoder.cell") == "a.toml:4"
    assert document.location("task.name") == "a.toml:1"
    assert document.location("decode") == "a.toml:1"
    assert document.location("train.epochs") == "command line"


def test_tables_become_sections() -> None:
    document = parse('[task]\ntrain = "x"\npair = [2, "b"]\ndecode.name = "greedy"', "a.toml")
    built = document.build(task=Task, train=Train)
    assert built == {"task": Task(train="x", pair=(2.0, "b"), decode=Greedy()), "train": Train()}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, " no such file"),
        (b"a = 1\nb = '\xff'", "2: not UTF-8 text: byte 0xff"),
        (
            b"#" * 1_000_001,
            " not a configuration: larger than 1,000,000 bytes; if this is a data file, use --task TASK --data FILE",
        ),
        (b"[task]\ntrain = x", '2: strings need quotes: train = "x"'),
    ],
)
def test_files_that_cannot_be_read(tmp_path: Path, content: bytes | None, message: str) -> None:
    path = tmp_path / "a.toml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigError) as error:
        read(path)
    assert str(error.value) == f"{path}:{message}"


def test_a_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot read the configuration"):
        read(tmp_path)


def test_a_file_with_a_byte_order_mark(tmp_path: Path) -> None:
    path = tmp_path / "a.toml"
    path.write_bytes(b'\xef\xbb\xbf[task]\r\ntrain = "\xc3\xa9"\r\n')
    document = read(path, ["task.name=tag"])
    assert document.get("task") == {"train": "é", "name": "tag"}
    assert document.location("task.train") == f"{path}:2"


@pytest.mark.parametrize(
    ("override", "value"),
    [
        ("x.y=5", 5),
        ("x.y=-1e-3", -1e-3),
        ("x.y=true", True),
        ("x.y=True", "True"),
        ('x.y="5"', "5"),
        ("x.y='a b'", "a b"),
        ("x.y=lstm", "lstm"),
        ("x.y=", ""),
        ("x.y=a=b", "a=b"),
        ("x.y=../data/$NAME/train.tsv", "../data/$NAME/train.tsv"),
        ("x.y=C:\\data", "C:\\data"),
        ("x.y=5#3", "5#3"),
        ("x.y=5, z = 6", "5, z = 6"),
        ("x.y=5 }\nz = { a = 1", "5 }\nz = { a = 1"),
        ("x.y=2024-01-01", "2024-01-01"),
        ("x.y=10:30:00", "10:30:00"),
        ("x.y=[1, 2]", [1, 2]),
        ("x.y={ a = 1 }", {"a": 1}),
        ("x.y=" + "[" * 5000, "[" * 5000),
        ("x . 'y' =5", 5),
    ],
)
def test_an_override_is_a_value_of_toml_or_else_text(override: str, value: Any) -> None:
    document = Document.empty([override])
    assert document.values == {"x": {"y": value}}
    assert type(document.get("x.y")) is type(value)
    assert document.location("x.y") == "command line"


def test_overrides_come_after_the_file_and_in_order() -> None:
    text = '[task]\ntrain = "x"\nencoder = { width = 3, layers = 2 }'
    overrides = ["task.encoder.width=4", "task.encoder.width=5", "train.pace=1", "task.decode.name=greedy"]
    built = parse(text, "a.toml", overrides=overrides).build(task=Task, train=Train)
    encoder = Encoder(width=5, layers=2)
    assert built == {"task": Task(train="x", encoder=encoder, decode=Greedy()), "train": Train(pace=1.0)}


def test_errors_of_overrides_name_the_command_line() -> None:
    text = '[task]\ntrain = "x"\nencoder = { widht = 3 }\nseed = "y"\nsizes = [1, "a"]'
    lines = error_message(text, "task.encoder={ width = 0 }", "task.seed=z", "task.pair.x=1").split("\n")
    assert lines == [
        'a.toml:5: task.sizes[1]: expected an integer, got "a"',
        "command line: task.encoder.width: expected a number greater than or equal to 1, got 0",
        "command line: task.pair: expected a list, got { x = 1 }",
        'command line: task.seed: expected an integer, got "z"',
    ]


def test_a_missing_file_has_a_suggestion(tmp_path: Path) -> None:
    (tmp_path / "tag.toml").write_text("")
    (tmp_path / "other.toml").write_text("")
    for name in ("tga.toml", "tag", "tagg.toml"):
        with pytest.raises(ConfigError, match=rf"/{name}: no such file; did you mean .*/tag\.toml\?$"):
            read(tmp_path / name)


def test_a_data_file_is_not_a_configuration(tmp_path: Path) -> None:
    path = tmp_path / "train.conll"
    path.write_text("the DET\n")
    with pytest.raises(ConfigError) as error:
        read(path)
    expected = "expected = after the key: the DET; if this is a data file, use --task TASK --data FILE"
    assert str(error.value) == f"{path}:1: {expected}"


@pytest.mark.parametrize("override", ["", "x", "x.y", "=5", ".=5", "x.=5", "x y=5", "#x=5", "[x]\ny=5"])
def test_invalid_overrides(override: str) -> None:
    example = "x.y=VALUE" if override == "x.y" else "train.epochs=5"
    message = f"command line: {override!r} is not an override; write section.key=value, such as {example}"
    with pytest.raises(ConfigError) as error:
        Document.empty([override])
    assert str(error.value) == message
    with pytest.raises(ConfigError, match=r"^command line: the override 'x.y=.udcff' is not UTF-8$"):
        Document.empty(["x.y=\udcff"])
    assert error_message("[a", override) == f"a.toml:1: expected ] after the table name: [a\n{message}"


def test_an_override_needs_a_table() -> None:
    assert error_message('[task]\ntrain = "x"', "task.train.file=x", "task.sizes=[1]", "task.sizes.0=2").split(
        "\n"
    ) == [
        'command line: cannot set task.train.file: task.train is "x", not a table',
        "command line: cannot set task.sizes.0: task.sizes is [1], not a table",
    ]


def test_a_configuration_without_a_file() -> None:
    assert Document.empty(["task.train=x"]).build(task=Task)["task"] == Task(train="x")
    with pytest.raises(ConfigError, match=r'^command line: missing key "task.train": File to learn from.$'):
        Document.empty().build(task=Task, train=Train)


TRAP = "raise SystemExit('code of a configuration was run')"
CODE = ["trap", "trap:run", "trap.run", "__import__('trap')", "!!python/object:trap.run", "{{trap}}", "$(trap)"]


@pytest.mark.parametrize("name", CODE)
def test_a_configuration_that_names_code_is_only_data(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "trap.py").write_text(TRAP)
    monkeypatch.syspath_prepend(tmp_path)
    task = Task(train=name, encoder=Encoder(note=name, options={name: name}))
    document = parse(dump(task=task), "a.toml", overrides=[f"task.train={name}"])
    assert document.build(task=Task) == {"task": task}
    assert 'unknown key "task.encoder.given"' in error_message("", "task.train=x", f"task.encoder.given={name}")
    assert "command line: task.encoder.cell" in error_message("", "task.train=x", f"task.encoder.cell={name}")
    assert 'expected one of: "beam", "greedy"' in error_message("", "task.train=x", f"task.decode.name={name}")
    assert "trap" not in sys.modules


@given(tasks, st.builds(Train, pace=floats))
def test_a_dump_is_built_into_equal_sections(task: Task, train: Train) -> None:
    built = parse(dump(task=task, train=train), "a.toml").build(task=Task, train=Train)
    assert built == {"task": configurable_part(task), "train": train}


def test_infinite_numbers_survive_a_dump() -> None:
    train = Train(pace=float("inf"))
    task = Task(train="x", pair=(float("-inf"), ""), encoder=Encoder(options={"a": [float("inf")], "b": {"c": 1e300}}))
    assert parse(dump(task=task, train=train), "a.toml").build(task=Task, train=Train) == {"task": task, "train": train}
    assert Task.model_validate_json(task.model_dump_json()) == task


def test_a_dump_contains_every_default() -> None:
    document = parse(dump(task=Task(train="x"), train=Train()), "a.toml")
    assert document.get("task.encoder") == Encoder(width=64, options={"activation": "relu"}).model_dump()
    assert document.values["task"].keys() == Task.model_fields.keys() - {"learned", "limit", "patience", "seed"}
    assert document.get("train") == {"epochs": 10, "pace": 0.001}


def test_reading_a_configuration_needs_no_torch() -> None:
    code = "import sys, seqloom.config; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_values_without_a_file_are_changed_by_overrides() -> None:
    values = {"task.train": "x", "task.decode.name": "beam", "task.decode.size": 3, "train.epochs": 2}
    built = Document.empty(["task.decode.size=4"], values=values).build(task=Task, train=Train)
    assert built == {"task": Task(train="x", decode=Beam(size=4)), "train": Train(epochs=2)}
    with pytest.raises(ConfigError, match=r"^command line: train\.epochs: expected .* 1, got 0$"):
        Document.empty(values=values | {"train.epochs": 0}).build(task=Task, train=Train)


def test_a_section_from_key_value_pairs() -> None:
    assert parse_section(Train, "train", ["epochs=3"]) == Train(epochs=3)
    assert parse_section(Task, "task", ['pair=[2.0, "b"]'], train="x") == Task(train="x", pair=(2.0, "b"))
    with pytest.raises(
        ConfigError, match=r"^command line: invalid option 'epochs' of train; expected key=value in UTF-8$"
    ):
        parse_section(Train, "train", ["epochs"])
    with pytest.raises(ConfigError, match=r'^command line: unknown key "train\.epoch"; did you mean "train\.epochs"\?'):
        parse_section(Train, "train", ["epoch=3"])


def test_a_changed_copy_is_validated_and_keeps_hidden_fields() -> None:
    learned = Train(epochs=2)
    task = Task(train="x", weights={"a": 1.0}, learned=learned)
    changed = with_changes(task, "task", {"decode": Greedy(), "seed": 3})
    assert changed == Task(train="x", weights={"a": 1.0}, learned=learned, decode=Greedy(), seed=3)
    assert changed.learned is learned
    assert task.decode == Beam(size=7)
    for changes, message in (
        ({"decode": Limit(steps=1)}, r'missing key "task\.decode\.name"; expected one of: "beam", "greedy"'),
        ({"seed": "x"}, r'task\.seed: expected .*integer.*, got "x"'),
        ({"sead": 3}, r'unknown key "task\.sead"; did you mean "task\.seed"\?'),
    ):
        with pytest.raises(ConfigError, match=f"^command line: {message}"):
            with_changes(task, "task", changes)
