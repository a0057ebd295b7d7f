"""Error messages of invalid configurations: file, line, key, value, expectation, nearest name."""

import json
from collections.abc import Callable
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import Field, field_validator, model_validator
from tests.config.sections import Encoder, Stem

from seqloom.config import ConfigError, ConfigSection, parse
from seqloom.config.errors import find_problems


class Beam(ConfigSection):
    name: Literal["beam"] = "beam"
    size: int = Field(5, ge=1, description="Hypotheses kept.")


class Greedy(ConfigSection):
    name: Literal["greedy"] = "greedy"


class Limit(ConfigSection):
    steps: int = Field(gt=0, le=99, multiple_of=3, description="Steps at most.")


class Tag(ConfigSection):
    name: Literal["tag"] = "tag"
    train: str = Field(description="File to learn from.", min_length=2, max_length=20, pattern="^[a-z]")
    stem: Stem = Stem()
    encoder: Encoder = Encoder()
    sizes: tuple[int, ...] = Field((), max_length=3)
    pair: tuple[int, str] = (1, "a")
    dropout: float | None = Field(None, ge=0, allow_inf_nan=False)
    either: int | tuple[float, ...] | Literal["auto", "none"] = 1
    decode: Annotated[Beam | Greedy, Field(discriminator="name")] = Beam()
    searches: tuple[Annotated[Beam | Greedy, Field(discriminator="name")], ...] = ()
    limit: Limit | float = 1.0
    limits: dict[str, Beam] = Field(default_factory=dict)
    weights: dict[str, float] = Field(default_factory=dict)
    flags: tuple[bool | str, ...] = ()
    learned: ConfigSection | None = Field(None, exclude=True)

    @field_validator("pair")
    @classmethod
    def check_pair(cls, value: tuple[int, str]) -> tuple[int, str]:
        if value[0] == 7:
            raise ValueError("7 is taken,\n  use another")
        return value

    @model_validator(mode="after")
    def check_all(self) -> "Tag":
        if self.either == 13:
            raise AssertionError("either must not be 13")
        return self


class Train(ConfigSection):
    epochs: int = Field(10, ge=1, description="Passes over the data.")
    pace: float = Field(1e-3, gt=0)


class Required(ConfigSection):
    stem: Stem = Field(description="Layers before the others.")
    mode: Literal["fast", "slow"]
    decode: Beam | Greedy = Field(discriminator="name")


KEYS = "name, train, stem, encoder, sizes, pair, dropout, either, decode, searches, limit, limits, weights, flags"
ENCODER = ", ".join(name for name in Encoder.model_fields if name != "given")
ACTIVATIONS = '"relu", "tanh", "none"'
EITHER = 'an integer or a list or one of: "auto", "none"'
TRAIN = '[task]\ntrain = "train.tsv"\n'


@pytest.mark.parametrize(
    ("text", "messages"),
    [
        (
            TRAIN + "[task.encoder]\nwidht = 3",
            ['4: unknown key "task.encoder.widht"; did you mean "task.encoder.width"?'],
        ),
        (TRAIN + "zebra = 3", [f'3: unknown key "task.zebra"; allowed keys: {KEYS}']),
        (TRAIN + "Sizes = [3]", ['3: unknown key "task.Sizes"; did you mean "task.sizes"?']),
        (TRAIN + "epochs = 3", ['3: unknown key "task.epochs"; did you mean "train.epochs"?']),
        (
            TRAIN + "[train]\nlayers = 3",
            ['4: unknown key "train.layers"; did you mean "task.encoder.layers" or "task.stem.layers"?'],
        ),
        (TRAIN + '"a\\n\\"b" = 3', [f'3: unknown key "task."a\\n\\"b""; allowed keys: {KEYS}']),
        (TRAIN + "learned = {}", [f"3: unknown table [task.learned]; allowed keys: {KEYS}"]),
        (TRAIN + "learned = 1", [f'3: unknown key "task.learned"; allowed keys: {KEYS}']),
        (
            TRAIN + '[task.encoder]\ngiven = "os:system"',
            [f'4: unknown key "task.encoder.given"; allowed keys: {ENCODER}'],
        ),
        (TRAIN + "[task.stme]\nlayers = 1", ["3: unknown table [task.stme]; did you mean [task.stem]?"]),
        (TRAIN + "[trian]", ["3: unknown table [trian]; did you mean [train]?"]),
        (TRAIN + "[encoder]", ["3: unknown table [encoder]; did you mean [task.encoder]?"]),
        ("seed = 1\n" + TRAIN, ['1: unknown key "seed"; allowed tables: [task], [train]']),
        ("pace = 1\n" + TRAIN, ['1: unknown key "pace"; did you mean "train.pace"?']),
        ("\n[task]\n", ['2: missing key "task.train": File to learn from.']),
        ("\n[train]\n", ['1: missing key "task.train": File to learn from.']),
        ("task = 3", ["1: task: expected a table, got 3"]),
        ("[[task]]\ntrain = 'a'", ['1: task: expected a table, got [{ train = "a" }]']),
        ("[task]\ntrain = 5", ["2: task.train: expected a string, got 5"]),
        ("[task]\ntrain = ['a']", ['2: task.train: expected a string, got ["a"]']),
        ("[task.train]\na = 1", ["1: task.train: expected a string, got { a = 1 }"]),
        ("[task]\ntrain = ''", ['2: task.train: expected at least 2 characters, got ""']),
        ("[task]\ntrain = '5x'", ["2: task.train: expected a string that matches pattern '^[a-z]', got \"5x\""]),
        (f"[task]\ntrain = '{'x' * 99}'", [f'2: task.train: expected at most 20 characters, got "{"x" * 56}…']),
        (TRAIN + '[task.encoder]\nwidth = "many"', ['4: task.encoder.width: expected an integer, got "many"']),
        (TRAIN + "encoder.width = 1.0", ["3: task.encoder.width: expected an integer, got 1.0"]),
        (TRAIN + "encoder.width = true", ["3: task.encoder.width: expected an integer, got true"]),
        (TRAIN + "encoder.bidirectional = 1", ["3: task.encoder.bidirectional: expected true or false, got 1"]),
        (TRAIN + "encoder.dropout = '0.5'", ['3: task.encoder.dropout: expected a number, got "0.5"']),
        (TRAIN + "encoder.width = 0", ["3: task.encoder.width: expected a number greater than or equal to 1, got 0"]),
        (TRAIN + "encoder.dropout = 1", ["3: task.encoder.dropout: expected a number less than 1, got 1"]),
        (TRAIN + "encoder.dropout = nan", ["3: task.encoder.dropout: expected a number less than 1, got nan"]),
        (TRAIN + "dropout = inf", ["3: task.dropout: expected a finite number, got inf"]),
        (TRAIN + "dropout = 'no'", ['3: task.dropout: expected a number, got "no"']),
        (
            TRAIN + "stem.activation = 'rleu'",
            [f'3: task.stem.activation: expected one of: {ACTIVATIONS}; got "rleu"; did you mean "relu"?'],
        ),
        (
            TRAIN + "encoder.connect = 3",
            ['3: task.encoder.connect: expected one of: "plain", "residual", "highway", "dense"; got 3'],
        ),
        (TRAIN + "name = 'tga'", ['3: task.name: expected "tag", got "tga"']),
        (TRAIN + "sizes = 3", ["3: task.sizes: expected a list, got 3"]),
        (TRAIN + "sizes = [\n1,\n'x']", ['5: task.sizes[1]: expected an integer, got "x"']),
        (TRAIN + "sizes = [1, 2, 3, 4]", ["3: task.sizes: expected at most 3 items, got [1, 2, 3, 4]"]),
        (TRAIN + "pair = [1]", ["3: missing value task.pair[1]"]),
        (TRAIN + "pair = [1, 2]", ["3: task.pair[1]: expected a string, got 2"]),
        (TRAIN + "pair = [7, 'a']", ['3: task.pair = [7, "a"]: 7 is taken, use another']),
        (
            TRAIN + "[task.encoder]\ncell = 'lstmm'",
            ['4: task.encoder.cell = "lstmm": unknown cell, expected one of elman, lstm, gru'],
        ),
        (TRAIN + "either = 13", ["1: [task]: either must not be 13"]),
        (TRAIN + "either = 'atuo'", [f'3: task.either: expected {EITHER}; got "atuo"; did you mean "auto"?']),
        (TRAIN + "either = [1, 'x']", ['3: task.either[1]: expected a number, got "x"']),
        (TRAIN + "flags = [true, 'x', 3]", ["3: task.flags[2]: expected true or false or a string, got 3"]),
        (TRAIN + "flags = 3", ["3: task.flags: expected a list, got 3"]),
        (
            TRAIN + "[task.decode]\nname = 'baem'\nsize = 3",
            ['4: task.decode.name: expected one of: "beam", "greedy"; got "baem"; did you mean "beam"?'],
        ),
        (TRAIN + "[task.decode]\nsize = 3", ['3: missing key "task.decode.name"; expected one of: "beam", "greedy"']),
        (TRAIN + "[task.decode]\nname = 'greedy'\nsize = 3", ['5: unknown key "task.decode.size"; allowed keys: name']),
        (
            TRAIN + "[task.decode]\nname = 'beam'\nsize = 0",
            ["5: task.decode.size: expected a number greater than or equal to 1, got 0"],
        ),
        (TRAIN + "decode = 'beam'", ['3: task.decode: expected a table, got "beam"']),
        (TRAIN + "decode.name = 3", ['3: task.decode.name: expected one of: "beam", "greedy"; got 3']),
        (
            TRAIN + "searches = [{ name = 'greedy' },\n{ name = 'beam', siez = 3 }]",
            ['4: unknown key "task.searches[1].siez"; did you mean "task.searches[1].size"?'],
        ),
        (
            TRAIN + "[[task.searches]]\n[[task.searches]]\nname = 'greedy'",
            ['3: missing key "task.searches[0].name"; expected one of: "beam", "greedy"'],
        ),
        (TRAIN + "limit = { steps = 0 }", ["3: task.limit.steps: expected a number greater than 0, got 0"]),
        (TRAIN + "limit = {}", ['3: missing key "task.limit.steps": Steps at most.']),
        (TRAIN + "limit = 'x'", ['3: task.limit: expected a table or a number, got "x"']),
        (
            TRAIN + "[task.limits.'x {}']\nsiez = 1",
            ['4: unknown key "task.limits."x {}".siez"; did you mean "task.limits."x {}".size"?'],
        ),
        (
            TRAIN + "[task.limits.'{x}']\nbeam = {}",
            ['4: unknown table [task.limits."{x}".beam]; allowed keys: name, size'],
        ),
        (TRAIN + "weights.'a b' = 'x'", ['3: task.weights."a b": expected a number, got "x"']),
        (TRAIN + "weights = 3", ["3: task.weights: expected a table, got 3"]),
        (TRAIN + "weights = []", ["3: task.weights: expected a table, got []"]),
        ("[task]\ntrain = 1979-05-27", ["2: task.train: dates and times need quotes, got 1979-05-27"]),
        (TRAIN + "sizes = [1, 07:32:00]", ["3: task.sizes[1]: dates and times need quotes, got 07:32:00"]),
        (
            TRAIN + "encoder.options.when = 1979-05-27T07:32:00Z",
            ["3: task.encoder.options.when: dates and times need quotes, got 1979-05-27 07:32:00+00:00"],
        ),
        (
            "[train]\npace = 0\nepoch = 1\n[task]\nencoder.width = 0\nname = 'x'\n",
            [
                "2: train.pace: expected a number greater than 0, got 0",
                '3: unknown key "train.epoch"; did you mean "train.epochs"?',
                '4: missing key "task.train": File to learn from.',
                "5: task.encoder.width: expected a number greater than or equal to 1, got 0",
                '6: task.name: expected "tag", got "x"',
            ],
        ),
    ],
)
def test_every_problem_names_key_value_and_expectation(text: str, messages: list[str]) -> None:
    with pytest.raises(ConfigError) as error:
        parse(text, "a.toml").build(task=Tag, train=Train)
    assert str(error.value).split("\n") == [f"a.toml:{message}" for message in messages]


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        ("0", "expected a number greater than 0, got 0"),
        ("102", "expected a number less than or equal to 99, got 102"),
        ("4", "expected a multiple of 3, got 4"),
    ],
)
def test_limits_of_numbers(steps: str, message: str) -> None:
    with pytest.raises(ConfigError) as error:
        parse(f"limit.steps = {steps}", "a.toml").build(limit=Limit)
    assert str(error.value) == f"a.toml:1: limit.steps: {message}"


def test_a_missing_table_and_a_missing_choice() -> None:
    with pytest.raises(ConfigError) as error:
        parse("", "a.toml").build(x=Required)
    assert str(error.value).split("\n") == [
        "a.toml:1: missing table [x.stem]: Layers before the others.",
        'a.toml:1: missing key "x.mode"; expected one of: "fast", "slow"',
        "a.toml:1: missing table [x.decode]",
    ]


class Wrapped(ConfigSection):
    steps: int = 1

    @model_validator(mode="wrap")
    @classmethod
    def check(cls, value: Any, handler: Callable[[Any], "Wrapped"]) -> "Wrapped":
        return handler(value)


class PlainUnions(ConfigSection):
    limit: Wrapped | float = 1.0
    search: Beam | Greedy = Beam()
    either: Limit | Train = Train()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("limit.steps = 'x'", 'x.limit.steps: expected an integer, got "x"'),
        ("search.size = 'x'", 'x.search.size: expected an integer, got "x"'),
        ("either.size = 'x'", "missing value x.either.steps"),
    ],
)
def test_unions_without_a_discriminator_are_refused_too(text: str, message: str) -> None:
    with pytest.raises(ConfigError) as error:
        parse(f"[x]\n{text}", "a.toml").build(x=PlainUnions)
    assert str(error.value).partition("\n")[0].partition(": ")[2] == message


keys = st.sampled_from([*KEYS.split(", "), *ENCODER.split(", "), "learned", "given", "epochs", "size", "x y", "steps"])
values = st.recursive(
    st.none().map(lambda _: 0)
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters(codec="utf-8"), max_size=5)
    | st.dates()
    | st.times()
    | st.sampled_from(["tag", "beam", "greedy", "relu"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=4),
)
tables = st.dictionaries(st.sampled_from(["task", "train", "other"]), st.dictionaries(keys, values) | values)


@given(tables)
def test_any_values_are_built_or_refused_on_single_lines_in_plain_words(document: dict[str, Any]) -> None:
    problems = find_problems({"task": Tag, "train": Train}, document)
    for path, message in problems:
        assert "\n" not in message
        assert not any(word in message for word in ("pydantic", "should", "http", "validat", "Literal", "NoneType"))
        assert path[0] in {"task", "train", *document}
    if not problems:
        Tag.model_validate_json(json.dumps(document["task"]))
        Train.model_validate_json(json.dumps(document.get("train", {})))
