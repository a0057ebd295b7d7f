"""Templates: a comment for each key, and values that are read back as they are."""

from typing import Annotated, Literal

import pytest
from hypothesis import given
from pydantic import Field
from tests.config.sections import Greedy, Limit, Task, Train, configurable_part, tasks

from seqloom.config import ConfigSection, parse, template
from seqloom.config.schema import Unlisted

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
weights = {}            # Weight of each label.
nested = {}

# Layers before the encoder.
[task.stem]
layers = 0           # Number of layers.
size = 128           # Size of each layer.
activation = "relu"  # Activation function. One of "relu", "tanh", "none".

# Recurrent layers.
[task.encoder]
cell = "lstm"                      # Cell of all layers, or of each.
width = 64                         # Size of the state.
layers = 1                         # Number of layers.
bidirectional = false              # Read in both directions.
connect = "plain"                  # Connection of layers. One of "plain", "residual", "highway", "dense".
dropout = 0.0                      # Dropout between layers.
options = { activation = "relu" }  # Options of the cell.
note = ""                          # Any text.

"""
SEARCH = """\
# The search.
[task.decode]
name = "beam"  # One of "beam", "greedy"; each has its own keys.
size = 7       # Hypotheses kept.

# When to stop.
# [task.limit]
# steps = …    # Steps at most.
# share = 0.5  # Share of the data.

[train]
epochs = 10  # Passes over the data.
pace = 0.001
"""


def test_a_template_has_a_comment_for_each_key() -> None:
    text = template({"task": Task, "train": Train}, {"task.train": "train.conllu"})
    assert text == TEMPLATE + SEARCH
    built = parse(text, "a.toml").build(task=Task, train=Train)
    assert built == {"task": Task(train="train.conllu"), "train": Train()}


def test_unlisted_fields_are_left_out() -> None:
    class Section(ConfigSection):
        """A section."""

        shown: int = Field(1, description="Shown.")
        unlisted: Annotated[int, Unlisted()] = Field(2, description="Not shown.")

    assert template({"s": Section}) == "# A section.\n[s]\nshown = 1  # Shown.\n"
    assert Section.model_validate({"unlisted": 3}).unlisted == 3


def test_values_choose_sections_and_enable_optional_tables() -> None:
    values = {"task.train": "x", "task.decode.name": "greedy", "task.limit.steps": 5, "task.seed": 1}
    text = template({"task": Task}, values)
    assert parse(text, "a.toml").build(task=Task)["task"] == Task(
        train="x", decode=Greedy(), limit=Limit(steps=5), seed=1
    )
    assert '[task.decode]\nname = "greedy"  # One of "beam", "greedy"; each has its own keys.\n\n' in text


def test_a_template_needs_a_value_for_each_required_field() -> None:
    with pytest.raises(ValueError, match=r"^task.train has no default and no example$"):
        template({"task": Task})
    with pytest.raises(ValueError, match=r"^the template has no key task.trian; did you mean task.train\?$"):
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


def test_lines_have_at_most_120_columns() -> None:
    text = template({"wordy": Wordy}, {"wordy.needed.steps": 9})
    assert max(map(len, text.splitlines())) <= 120
    assert '\nkind = "UPPER"' in text
    assert '# Required, with choices. One of "UPPER", "lower".\n' in text
    assert '  # One of "none", "all" or a table.\n' in text
    expected = Wordy(kind="UPPER", file="a.tsv", needed=Limit(steps=9))
    assert parse(text, "a.toml").build(wordy=Wordy) == {"wordy": expected}


@given(tasks)
def test_any_values_are_read_back_from_their_template(task: Task) -> None:
    class Given(ConfigSection):
        inner: Task = task

    built = parse(template({"x": Given}), "a.toml").build(x=Given)["x"]
    assert built == Given(inner=configurable_part(task))
