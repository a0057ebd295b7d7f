import subprocess
import sys
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import Field

from seqloom.config import ConfigError, ConfigSection, Document, dump, parse, read, template
from seqloom.models.encoder import PrenetConfig, RecurrenceConfig


class Beam(ConfigSection):
    """Keep the best few."""

    name: Literal["beam"] = "beam"
    size: int = Field(5, ge=1, description="Hypotheses kept.")


class Greedy(ConfigSection):
    """Keep the best."""

    name: Literal["greedy"] = "greedy"


class Limit(ConfigSection):
    """When to stop."""

    steps: int = Field(description="Steps at most.")
    share: float = Field(0.5, description="Of the data.")


class Task(ConfigSection):
    """A label for each word.

    More that no template shows.
    """

    name: Literal["tag"] = "tag"
    train: str = Field(description="File to learn from.")
    front: PrenetConfig = PrenetConfig()
    encoder: RecurrenceConfig = RecurrenceConfig(hidden_size=64, options={"activation": "relu"})
    sizes: tuple[int, ...] = Field((3, 4), description="Widths.")
    pair: tuple[float, str] = (1.0, "a")
    patience: int | None = Field(None, description="Epochs without progress.", examples=[3])
    seed: int | None = None
    decode: Annotated[Beam | Greedy, Field(discriminator="name")] = Field(Beam(size=7), description="The search.")
    searches: tuple[Annotated[Beam | Greedy, Field(discriminator="name")], ...] = ()
    limit: Limit | None = None
    weights: dict[str, float] = Field(default_factory=dict, description="Of each label.")
    nested: dict[str, Beam] = Field(default_factory=dict)
    learned: ConfigSection | None = Field(None, exclude=True)


class Train(ConfigSection):
    epochs: int = Field(10, ge=1, description="Passes over the data.")
    rate: float = 1e-3


def refused(text: str, *overrides: str) -> str:
    with pytest.raises(ConfigError) as wrong:
        parse(text, "a.toml", overrides=overrides).build(task=Task, train=Train)
    return str(wrong.value)


def test_values_and_places() -> None:
    document = parse('[task]\ntrain = "x"\n\n[task.encoder]\nhidden = 3', "a.toml", overrides=["train.epochs=5"])
    assert document.get("task.encoder") == {"hidden": 3}
    assert document.get("task.encoder.hidden_size") == 3
    assert document.get("task.encoder.hidden_size.more") is None
    assert document.get("task.name") is None
    assert document.get("decode.name") is None
    assert document.place("task.encoder.hidden_size") == "a.toml:5"
    assert document.place("task.encoder.cell") == "a.toml:4"
    assert document.place("task.name") == "a.toml:1"
    assert document.place("decode") == "a.toml:1"
    assert document.place("train.epochs") == "command line"


def test_tables_become_parts() -> None:
    document = parse('[task]\ntrain = "x"\npair = [2, "b"]\ndecode.name = "greedy"', "a.toml")
    built = document.build(task=Task, train=Train)
    assert built == {"task": Task(train="x", pair=(2.0, "b"), decode=Greedy()), "train": Train()}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "1: cannot be read: No such file or directory"),
        (b"a = 1\nb = '\xff'", "2: is not UTF-8 text: found byte 0xff"),
        (b"#" * 1_000_001, "1: is larger than 1,000,000 bytes, wanted a configuration"),
        (b"[task]\ntrain = x", '2: no value of TOML (text stands in quotes: cell = "lstm"), found: train = x'),
    ],
)
def test_files_that_cannot_be_read(tmp_path: Path, content: bytes | None, message: str) -> None:
    path = tmp_path / "a.toml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigError) as wrong:
        read(path)
    assert str(wrong.value) == f"{path}:{message}"


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        read(tmp_path)


def test_a_file_with_a_mark_of_its_byte_order(tmp_path: Path) -> None:
    path = tmp_path / "a.toml"
    path.write_bytes(b'\xef\xbb\xbf[task]\r\ntrain = "\xc3\xa9"\r\n')
    document = read(path, ["task.name=tag"])
    assert document.get("task") == {"train": "é", "name": "tag"}
    assert document.place("task.train") == f"{path}:2"


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
    assert document.place("x.y") == "command line"


def test_overrides_come_after_the_file_and_in_order() -> None:
    text = '[task]\ntrain = "x"\nencoder = { hidden = 3, layers = 2 }'
    overrides = [
        "task.encoder.hidden_size=4",
        "task.encoder.hidden_size=5",
        "train.learning_rate=1",
        "task.decode.name=greedy",
    ]
    built = parse(text, "a.toml", overrides=overrides).build(task=Task, train=Train)
    encoder = RecurrenceConfig(hidden_size=5, layers=2)
    assert built == {"task": Task(train="x", encoder=encoder, decode=Greedy()), "train": Train(rate=1.0)}


def test_errors_of_overrides_name_the_command_line() -> None:
    text = '[task]\ntrain = "x"\nencoder = { hiden = 3 }\nseed = "y"\nsizes = [1, "a"]'
    lines = refused(text, "task.encoder={ hidden = 0 }", "task.seed=z", "task.pair.x=1").split("\n")
    assert lines == [
        'a.toml:5: task.sizes[1] is "a" (text), wanted a whole number',
        "command line: task.encoder.hidden_size must be at least 1, found 0",
        "command line: task.pair is a table, wanted a list of 2 values",
        'command line: task.seed is "z" (text), wanted a whole number',
    ]


@pytest.mark.parametrize("override", ["", "x", "x.y", "=5", ".=5", "x.=5", "x y=5", "#x=5", "[x]\ny=5", "x.y=\udcff"])
def test_what_is_no_override(override: str) -> None:
    message = f"command line: {override!r} is no override, wanted section.key=value in UTF-8"
    with pytest.raises(ConfigError) as wrong:
        Document.empty([override])
    assert str(wrong.value) == message
    assert refused("[a", override) == f"a.toml:1: wanted ] at the end of the table's name, found: [a\n{message}"


def test_an_override_needs_a_table() -> None:
    assert refused('[task]\ntrain = "x"', "task.train.file=x", "task.sizes=[1]", "task.sizes.0=2").split("\n") == [
        "command line: 'task.train.file=x' needs a table [task.train], found \"x\"",
        "command line: 'task.sizes.0=2' needs a table [task.sizes], found [1]",
    ]


def test_nothing_but_the_command_line() -> None:
    assert Document.empty(["task.train=x"]).build(task=Task)["task"] == Task(train="x")
    with pytest.raises(ConfigError, match=r'^command line: missing key "train" in \[task\]: File to learn from.$'):
        Document.empty().build(task=Task, train=Train)


TRAP = "raise SystemExit('code of a configuration was run')"
CODE = ["trap", "trap:run", "trap.run", "__import__('trap')", "!!python/object:trap.run", "{{trap}}", "$(trap)"]


@pytest.mark.parametrize("name", CODE)
def test_a_configuration_that_names_code_is_only_data(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "trap.py").write_text(TRAP)
    monkeypatch.syspath_prepend(tmp_path)
    task = Task(train=name, encoder=RecurrenceConfig(custom_layer=name, options={name: name}))
    document = parse(dump(task=task), "a.toml", overrides=[f"task.train={name}"])
    assert document.build(task=Task) == {"task": task}
    assert 'unknown key "given" in [task.encoder]' in refused("", "task.train=x", f"task.encoder.given={name}")
    assert "command line: task.encoder.cell" in refused("", "task.train=x", f"task.encoder.cell={name}")
    assert 'wanted one of "beam", "greedy"' in refused("", "task.train=x", f"task.decode.name={name}")
    assert "trap" not in sys.modules


texts = st.text(st.characters(codec="utf-8"), max_size=8) | st.text(st.sampled_from(list("\"'\\\n\r\t#[]{}=é😀\x7f\0")))
searches = st.builds(Beam, size=st.integers(1)) | st.builds(Greedy)
floats = st.floats(allow_nan=False)
tasks = st.builds(
    Task,
    train=texts,
    front=st.builds(PrenetConfig, size=st.integers(1, 9), activation=st.sampled_from(["relu", "none"])),
    encoder=st.builds(
        RecurrenceConfig,
        cell=st.sampled_from(["lstm", "gru"]),
        own=texts,
        bidirectional=st.booleans(),
        dropout=st.floats(0, 1, exclude_max=True),
        options=st.dictionaries(texts, texts | st.booleans() | st.integers() | floats | st.lists(texts)),
        given=st.none() | st.just(print),
    ),
    sizes=st.lists(st.integers()).map(tuple),
    pair=st.tuples(floats, texts),
    patience=st.none() | st.integers(),
    decode=searches,
    searches=st.lists(searches, max_size=3).map(tuple),
    limit=st.none() | st.builds(Limit, steps=st.integers(), share=floats),
    weights=st.dictionaries(texts, floats),
    nested=st.dictionaries(texts, st.builds(Beam, size=st.integers(1)), max_size=2),
    learned=st.none() | st.just(Train()),
)


def unburdened(task: Task) -> Task:
    """Without what is no configuration."""
    return task.model_copy(update={"learned": None, "encoder": task.encoder.model_copy(update={"given": None})})


@given(tasks, st.builds(Train, rate=floats))
def test_what_is_dumped_is_built_again(task: Task, train: Train) -> None:
    built = parse(dump(task=task, train=train), "a.toml").build(task=Task, train=Train)
    assert built == {"task": unburdened(task), "train": train}


def test_numbers_without_end_survive_inside_options() -> None:
    train = Train(rate=float("inf"))
    task = Task(
        train="x", pair=(float("-inf"), ""), encoder=RecurrenceConfig(options={"a": [float("inf")], "b": {"c": 1e300}})
    )
    assert parse(dump(task=task, train=train), "a.toml").build(task=Task, train=Train) == {"task": task, "train": train}
    assert Task.model_validate_json(task.model_dump_json()) == task


def test_a_dump_holds_every_default() -> None:
    document = parse(dump(task=Task(train="x"), train=Train()), "a.toml")
    assert document.get("task.encoder") == RecurrenceConfig(hidden_size=64, options={"activation": "relu"}).model_dump()
    assert document.values["task"].keys() == Task.model_fields.keys() - {"learned", "limit", "patience", "seed"}
    assert document.get("train") == {"epochs": 10, "rate": 0.001}


TEMPLATE = """\
# A label for each word.
[task]
name = "tag"
train = "train.conllu"  # File to learn from.
sizes = [3, 4]          # Widths.
pair = [1.0, "a"]
# patience = 3          # Epochs without progress.
# seed = …
searches = []
weights = {}            # Of each label.
nested = {}

# Feed-forward or convolutional layers before the recurrence.
[task.prenet]
layers = 0           # How many; 0: the recurrence reads the input itself.
size = 128           # Width of each.
window = 1           # Elements that each output sees: 1 is a plain layer, more a convolution.
activation = "relu"  # Their non-linearity. One of "relu", "tanh", "sigmoid", "leaky_relu", "elu", "gelu", "none".

"""
SEARCH = """\
# The search.
[task.decode]
name = "beam"  # One of "beam", "greedy"; each has keys of its own.
size = 7       # Hypotheses kept.

# When to stop.
# [task.limit]
# steps = …    # Steps at most.
# share = 0.5  # Of the data.

[train]
epochs = 10  # Passes over the data.
learning_rate = 0.001
"""


def test_a_template_shows_and_explains_everything() -> None:
    text = template({"task": Task, "train": Train}, {"task.train": "train.conllu"})
    assert text.startswith(TEMPLATE)
    assert text.endswith(SEARCH)
    assert "\n# Recurrent layers by name.\n[task.encoder]\ncell = " in text
    assert "\nhidden = 64 " in text
    assert '\noptions = { activation = "relu" } ' in text
    assert "\ngiven" not in text
    assert "learned" not in text
    built = parse(text, "a.toml").build(task=Task, train=Train)
    assert built == {"task": Task(train="train.conllu"), "train": Train()}


def test_values_of_a_template_choose_parts_and_wake_optional_tables() -> None:
    values = {"task.train": "x", "task.decode.name": "greedy", "task.limit.steps": 5, "task.seed": 1}
    text = template({"task": Task}, values)
    assert parse(text, "a.toml").build(task=Task)["task"] == Task(
        train="x", decode=Greedy(), limit=Limit(steps=5), seed=1
    )
    assert '[task.decode]\nname = "greedy"  # One of "beam", "greedy"; each has keys of its own.\n\n' in text


def test_a_template_needs_a_value_for_each_required_field() -> None:
    with pytest.raises(ValueError, match=r"^task.train has no default and no example$"):
        template({"task": Task})
    with pytest.raises(ValueError, match=r'^the template has no key task.trian: did you mean "task.train"\?$'):
        template({"task": Task}, {"task.train": "x", "task.trian": "y"})


class Wordy(ConfigSection):
    short: int = Field(1, description="word " * 60)
    path: str = Field("x" * 90, description="A wide value. " + "word " * 30)
    many: tuple[str, ...] = Field(tuple("word" * 3 for _ in range(20)), description="A list that fits no line.")
    kind: Literal["UPPER", "lower"] = Field(description="Required, with choices.")
    mixed: Literal["none", "all"] | dict[str, float] = Field("none", description="word " * 20)
    file: str = Field(examples=["a.tsv"])
    inner: Limit = Field(Limit(steps=3), description="word " * 30)
    needed: Limit


def test_a_template_fits_the_page() -> None:
    text = template({"wordy": Wordy}, {"wordy.needed.steps": 9})
    assert max(map(len, text.splitlines())) <= 120
    assert '\nkind = "UPPER"' in text
    assert '# Required, with choices. One of "UPPER", "lower".\n' in text
    assert '  # One of "none", "all" or a table.\n' in text
    wanted = Wordy(kind="UPPER", file="a.tsv", needed=Limit(steps=9))
    assert parse(text, "a.toml").build(wordy=Wordy) == {"wordy": wanted}


@given(tasks)
def test_a_template_of_any_values_is_what_they_say(task: Task) -> None:
    class Given(ConfigSection):
        inner: Task = task

    built = parse(template({"x": Given}), "a.toml").build(x=Given)["x"]
    assert built == Given(inner=unburdened(task))


def test_reading_a_configuration_needs_no_torch() -> None:
    code = "import sys, seqloom.config; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
