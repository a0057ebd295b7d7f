import json
from collections.abc import Callable
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import Field, field_validator, model_validator

from seqloom.config import ConfigError, ConfigSection, parse
from seqloom.layers.build import names
from seqloom.models.encoder import PrenetConfig, RecurrenceConfig
from seqloom.wording import problems, suggest


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
    front: PrenetConfig = PrenetConfig()
    encoder: RecurrenceConfig = RecurrenceConfig()
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
    rate: float = Field(1e-3, gt=0)


class Needy(ConfigSection):
    front: PrenetConfig = Field(description="Layers before the others.")
    mode: Literal["fast", "slow"]
    decode: Beam | Greedy = Field(discriminator="name")


KEYS = "name, train, front, encoder, sizes, pair, dropout, either, decode, searches, limit, limits, weights, flags"
ENCODER = ", ".join(name for name in RecurrenceConfig.model_fields if name != "given")
ACTIVATIONS = '"relu", "tanh", "sigmoid", "leaky_relu", "elu", "gelu", "none"'
LAYERS = "[task.prenet] or [task.encoder]"
EITHER = 'one of "auto", "none" or a whole number or a list of numbers'
TRAIN = '[task]\ntrain = "train.tsv"\n'


@pytest.mark.parametrize(
    ("text", "messages"),
    [
        (
            TRAIN + "[task.encoder]\nhiden = 3",
            [f'4: unknown key "hiden" in [task.encoder]: did you mean "hidden"? (allowed: {ENCODER})'],
        ),
        (TRAIN + "zebra = 3", [f'3: unknown key "zebra" in [task] (allowed: {KEYS})']),
        (TRAIN + "Sizes = [3]", [f'3: unknown key "Sizes" in [task]: did you mean "sizes"? (allowed: {KEYS})']),
        (
            TRAIN + "epochs = 3",
            [f'3: unknown key "epochs" in [task]: did you mean the one in [train]? (allowed: {KEYS})'],
        ),
        (
            TRAIN + "[train]\nlayers = 3",
            [f'4: unknown key "layers" in [train]: did you mean the one in {LAYERS}? (allowed: epochs, rate)'],
        ),
        (TRAIN + '"a\\n\\"b" = 3', [f'3: unknown key "a\\n\\"b" in [task] (allowed: {KEYS})']),
        (TRAIN + "learned = {}", [f"3: unknown table [task.learned] (allowed: {KEYS})"]),
        (TRAIN + "learned = 1", [f'3: unknown key "learned" in [task] (allowed: {KEYS})']),
        (
            TRAIN + '[task.encoder]\ngiven = "os:system"',
            [f'4: unknown key "given" in [task.encoder] (allowed: {ENCODER})'],
        ),
        (
            TRAIN + "[task.fornt]\nlayers = 1",
            [f"3: unknown table [task.fornt]: did you mean [task.prenet]? (allowed: {KEYS})"],
        ),
        (TRAIN + "[trian]", ["3: unknown table [trian]: did you mean [train]? (allowed: [task], [train])"]),
        (
            TRAIN + "[encoder]",
            ["3: unknown table [encoder]: did you mean the one in [task]? (allowed: [task], [train])"],
        ),
        (
            "seed = 1\n" + TRAIN,
            ['1: unknown key "seed" outside of any table (allowed: [task], [train])'],
        ),
        (
            "rate = 1\n" + TRAIN,
            ['1: unknown key "rate" outside of any table: did you mean the one in [train]? (allowed: [task], [train])'],
        ),
        ("\n[task]\n", ['2: missing key "train" in [task]: File to learn from.']),
        ("\n[train]\n", ['1: missing key "train" in [task]: File to learn from.']),
        ("task = 3", ["1: task is 3 (a whole number), wanted a table"]),
        ("[[task]]\ntrain = 'a'", ['1: task is [{ train = "a" }] (a list), wanted a table']),
        ("[task]\ntrain = 5", ["2: task.train is 5 (a whole number), wanted text"]),
        ("[task]\ntrain = ['a']", ['2: task.train is ["a"] (a list), wanted text']),
        ("[task.train]\na = 1", ["1: task.train is a table, wanted text"]),
        ("[task]\ntrain = ''", ['2: task.train must be at least 2 characters long, found ""']),
        ("[task]\ntrain = '5x'", ['2: task.train must be of the form ^[a-z], found "5x"']),
        (
            f"[task]\ntrain = '{'x' * 99}'",
            [f'2: task.train must be at most 20 characters long, found "{"x" * 56}…'],
        ),
        (
            TRAIN + '[task.encoder]\nhidden = "many"',
            ['4: task.encoder.hidden_size is "many" (text), wanted a whole number'],
        ),
        (TRAIN + "encoder.hidden = 1.0", ["3: task.encoder.hidden_size is 1.0 (a number), wanted a whole number"]),
        (TRAIN + "encoder.hidden = true", ["3: task.encoder.hidden_size is true, wanted a whole number"]),
        (
            TRAIN + "encoder.bidirectional = 1",
            ["3: task.encoder.bidirectional is 1 (a whole number), wanted true or false"],
        ),
        (TRAIN + "encoder.dropout = '0.5'", ['3: task.encoder.dropout is "0.5" (text), wanted a number']),
        (TRAIN + "encoder.hidden = 0", ["3: task.encoder.hidden_size must be at least 1, found 0"]),
        (TRAIN + "encoder.dropout = 1", ["3: task.encoder.dropout must be less than 1, found 1"]),
        (TRAIN + "encoder.dropout = nan", ["3: task.encoder.dropout must be less than 1, found nan"]),
        (TRAIN + "dropout = inf", ["3: task.dropout must be finite, found inf"]),
        (TRAIN + "dropout = 'no'", ['3: task.dropout is "no" (text), wanted a number']),
        (
            TRAIN + "front.activation = 'rleu'",
            [f'3: task.prenet.activation is "rleu", wanted one of {ACTIVATIONS}: did you mean "relu"?'],
        ),
        (
            TRAIN + "encoder.connect = 3",
            ['3: task.encoder.connection is 3 (a whole number), wanted one of "plain", "residual", "highway", "dense"'],
        ),
        (TRAIN + "name = 'tga'", ['3: task.name is "tga", wanted "tag"']),
        (TRAIN + "sizes = 3", ["3: task.sizes is 3 (a whole number), wanted a list of whole numbers"]),
        (TRAIN + "sizes = [\n1,\n'x']", ['5: task.sizes[1] is "x" (text), wanted a whole number']),
        (TRAIN + "sizes = [1, 2, 3, 4]", ["3: task.sizes must be at most 3 values long, found [1, 2, 3, 4]"]),
        (TRAIN + "pair = [1]", ["3: task.pair is [1] (a list), wanted a list of 2 values"]),
        (TRAIN + "pair = [1, 2]", ["3: task.pair[1] is 2 (a whole number), wanted text"]),
        (TRAIN + "pair = [7, 'a']", ['3: task.pair is [7, "a"]: 7 is taken, use another']),
        (
            TRAIN + "[task.encoder]\ncell = 'lstmm'",
            [f'4: task.encoder.cell is "lstmm": did you mean "lstm"? (allowed: {", ".join(names())}, transformer)'],
        ),
        (TRAIN + "either = 13", ["1: [task]: either must not be 13"]),
        (
            TRAIN + "either = 'atuo'",
            [f'3: task.either is "atuo", wanted {EITHER}: did you mean "auto"?'],
        ),
        (
            TRAIN + "either = [1, 'x']",
            [f'3: task.either is [1, "x"] (a list), wanted {EITHER}'],
        ),
        (TRAIN + "flags = [true, 'x', 3]", ["3: task.flags[2] is 3 (a whole number), wanted true or false or text"]),
        (TRAIN + "flags = 3", ["3: task.flags is 3 (a whole number), wanted a list of Booleans or texts"]),
        (
            TRAIN + "[task.decode]\nname = 'baem'\nsize = 3",
            ['4: task.decode.name is "baem", wanted one of "beam", "greedy": did you mean "beam"?'],
        ),
        (TRAIN + "[task.decode]\nsize = 3", ['3: missing key "name" in [task.decode]: one of "beam", "greedy"']),
        (
            TRAIN + "[task.decode]\nname = 'greedy'\nsize = 3",
            ['5: unknown key "size" in [task.decode] (allowed: name)'],
        ),
        (TRAIN + "[task.decode]\nname = 'beam'\nsize = 0", ["5: task.decode.size must be at least 1, found 0"]),
        (TRAIN + "decode = 'beam'", ['3: task.decode is "beam" (text), wanted a table']),
        (TRAIN + "decode.name = 3", ['3: task.decode.name is 3 (a whole number), wanted one of "beam", "greedy"']),
        (
            TRAIN + "searches = [{ name = 'greedy' },\n{ name = 'beam', siez = 3 }]",
            ['4: unknown key "siez" in [task.searches[1]]: did you mean "size"? (allowed: name, size)'],
        ),
        (
            TRAIN + "[[task.searches]]\n[[task.searches]]\nname = 'greedy'",
            [
                '3: missing key "name" in [task.searches[0]]: one of "beam", "greedy"',
            ],
        ),
        (TRAIN + "limit = { steps = 0 }", ["3: task.limit.steps must be more than 0, found 0"]),
        (TRAIN + "limit = {}", ['3: missing key "steps" in [task.limit]: Steps at most.']),
        (TRAIN + "limit = 'x'", ['3: task.limit is "x" (text), wanted a table or a number']),
        (
            TRAIN + "[task.limits.'x {}']\nsiez = 1",
            [
                '4: unknown key "siez" in [task.limits."x {}"]: did you mean "size"? (allowed: name, size)',
            ],
        ),
        (
            TRAIN + "[task.limits.'{x}']\nbeam = {}",
            [
                '4: unknown table [task.limits."{x}".beam] (allowed: name, size)',
            ],
        ),
        (TRAIN + "weights.'a b' = 'x'", ['3: task.weights."a b" is "x" (text), wanted a number']),
        (TRAIN + "weights = 3", ["3: task.weights is 3 (a whole number), wanted a table"]),
        (TRAIN + "weights = []", ["3: task.weights is [] (a list), wanted a table"]),
        ("[task]\ntrain = 1979-05-27", ["2: task.train is 1979-05-27 (a date), wanted text"]),
        (TRAIN + "sizes = [1, 07:32:00]", ["3: task.sizes[1] is 07:32:00 (a time), wanted a whole number"]),
        (
            TRAIN + "encoder.options.when = 1979-05-27T07:32:00Z",
            ["3: task.encoder.options.when is 1979-05-27 07:32:00+00:00 (a date), wanted another value"],
        ),
        (
            "[train]\nrate = 0\nepoch = 1\n[task]\nencoder.hidden = 0\nname = 'x'\n",
            [
                "2: train.learning_rate must be more than 0, found 0",
                '3: unknown key "epoch" in [train]: did you mean "epochs"? (allowed: epochs, rate)',
                '4: missing key "train" in [task]: File to learn from.',
                "5: task.encoder.hidden_size must be at least 1, found 0",
                '6: task.name is "x", wanted "tag"',
            ],
        ),
    ],
)
def test_what_is_wrong_is_said_in_our_words(text: str, messages: list[str]) -> None:
    with pytest.raises(ConfigError) as wrong:
        parse(text, "a.toml").build(task=Tag, train=Train)
    assert str(wrong.value).split("\n") == [f"a.toml:{message}" for message in messages]


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        ("0", "must be more than 0, found 0"),
        ("102", "must be at most 99, found 102"),
        ("4", "must be a multiple of 3, found 4"),
    ],
)
def test_limits_of_numbers(steps: str, message: str) -> None:
    with pytest.raises(ConfigError) as wrong:
        parse(f"limit.steps = {steps}", "a.toml").build(limit=Limit)
    assert str(wrong.value) == f"a.toml:1: limit.steps {message}"


def test_a_missing_table_and_a_missing_choice() -> None:
    with pytest.raises(ConfigError) as wrong:
        parse("", "a.toml").build(x=Needy)
    assert str(wrong.value).split("\n") == [
        "a.toml:1: missing table [x.front]: Layers before the others.",
        'a.toml:1: missing key "mode" in [x]: one of "fast", "slow"',
        "a.toml:1: missing table [x.decode]",
    ]


class Wrapped(ConfigSection):
    steps: int = 1

    @model_validator(mode="wrap")
    @classmethod
    def check(cls, value: Any, handler: Callable[[Any], "Wrapped"]) -> "Wrapped":
        return handler(value)


class Doubtful(ConfigSection):
    limit: Wrapped | float = 1.0
    search: Beam | Greedy = Beam()
    either: Limit | Train = Train()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("limit.steps = 'x'", "[x] has values that do not go together"),
        ("search.size = 'x'", 'missing key "name" in [x.search]: one of "beam", "greedy"'),
        ("either.size = 'x'", "x.either is a table, wanted a table"),
    ],
)
def test_parts_that_cannot_be_told_apart_are_refused_too(text: str, message: str) -> None:
    with pytest.raises(ConfigError) as wrong:
        parse(f"[x]\n{text}", "a.toml").build(x=Doubtful)
    assert str(wrong.value).partition(": ")[2] == message


@pytest.mark.parametrize(
    ("word", "wanted"),
    [("hiden", ': did you mean "hidden"?'), ("batch-size", ': did you mean "batch_size"?'), ("x", "")],
)
def test_the_nearest_word(word: str, wanted: str) -> None:
    assert suggest(word, ["hidden", "batch_size", "cell"]) == wanted


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
def test_any_values_are_built_or_refused_on_single_lines_without_jargon(document: dict[str, Any]) -> None:
    found = problems({"task": Tag, "train": Train}, document)
    for path, message in found:
        assert "\n" not in message
        assert not any(
            word in message for word in ("pydantic", "Input should", "http", "validat", "Literal", "NoneType")
        )
        assert path[0] in {"task", "train", *document}
    if not found:
        Tag.model_validate_json(json.dumps(document["task"]))
        Train.model_validate_json(json.dumps(document.get("train", {})))
