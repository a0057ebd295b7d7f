"""Sections that the tests of the configuration share, with every kind of field."""

from typing import Annotated, Any, Literal

from hypothesis import strategies as st
from pydantic import Field, field_validator

from seqloom.config import ConfigSection

CELLS = ("elman", "lstm", "gru")


class Stem(ConfigSection):
    """Layers before the encoder."""

    layers: int = Field(0, ge=0, description="Number of layers.")
    size: int = Field(128, ge=1, description="Size of each layer.")
    activation: Literal["relu", "tanh", "none"] = Field("relu", description="Activation function.")


class Encoder(ConfigSection):
    """Recurrent layers."""

    cell: str | tuple[str, ...] = Field("lstm", description="Cell of all layers, or of each.")
    width: int = Field(128, ge=1, description="Size of the state.")
    layers: int = Field(1, ge=0, description="Number of layers.")
    bidirectional: bool = Field(default=False, description="Read in both directions.")
    connect: Literal["plain", "residual", "highway", "dense"] = Field("plain", description="Connection of layers.")
    dropout: float = Field(0.0, ge=0, lt=1, description="Dropout between layers.")
    options: dict[str, Any] = Field(default_factory=dict, description="Options of the cell.")
    note: str = Field("", description="Any text.")
    given: Any = Field(default=None, exclude=True, repr=False)

    @field_validator("cell")
    @classmethod
    def check_cell(cls, cell: str | tuple[str, ...]) -> str | tuple[str, ...]:
        if isinstance(cell, str) and cell not in CELLS:
            raise ValueError(f"unknown cell, expected one of {', '.join(CELLS)}")
        return cell


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
    share: float = Field(0.5, description="Share of the data.")


class Task(ConfigSection):
    """A label for each word.

    More that no template shows.
    """

    name: Literal["tag"] = "tag"
    train: str = Field(description="File to learn from.")
    stem: Stem = Stem()
    encoder: Encoder = Encoder(width=64, options={"activation": "relu"})
    sizes: tuple[int, ...] = Field((3, 4), description="Widths.")
    pair: tuple[float, str] = (1.0, "a")
    patience: int | None = Field(None, description="Epochs without progress.", examples=[3])
    seed: int | None = None
    decode: Annotated[Beam | Greedy, Field(discriminator="name")] = Field(Beam(size=7), description="The search.")
    searches: tuple[Annotated[Beam | Greedy, Field(discriminator="name")], ...] = ()
    limit: Limit | None = None
    weights: dict[str, float] = Field(default_factory=dict, description="Weight of each label.")
    nested: dict[str, Beam] = Field(default_factory=dict)
    learned: ConfigSection | None = Field(None, exclude=True)


class Train(ConfigSection):
    epochs: int = Field(10, ge=1, description="Passes over the data.")
    pace: float = 1e-3


texts = st.text(st.characters(codec="utf-8"), max_size=8) | st.text(st.sampled_from(list("\"'\\\n\r\t#[]{}=é😀\x7f\0")))
searches = st.builds(Beam, size=st.integers(1)) | st.builds(Greedy)
floats = st.floats(allow_nan=False)
tasks = st.builds(
    Task,
    train=texts,
    stem=st.builds(Stem, size=st.integers(1, 9), activation=st.sampled_from(["relu", "none"])),
    encoder=st.builds(
        Encoder,
        cell=st.sampled_from(["lstm", "gru"]),
        note=texts,
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


def configurable_part(task: Task) -> Task:
    """The task without the fields that are not part of the configuration."""
    return task.model_copy(update={"learned": None, "encoder": task.encoder.model_copy(update={"given": None})})
