"""The configuration of the task music, and what it learns from the training data."""

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from pydantic import Field, field_validator

from seqloom.config import ConfigSection, Document
from seqloom.data.length_limit import TooLong
from seqloom.data.preview import DataPreview
from seqloom.data.readers.midi import KEYS, TEMPO
from seqloom.data.size_defaults import DEPENDS_ON_SIZE, training_defaults
from seqloom.models.encoder import DecoderConfig, PrenetConfig
from seqloom.tasks.task import Task, TextEncoding


class Learned(ConfigSection):
    """How often keys sound in the training data, with which a model starts and which it has to beat."""

    frequencies: tuple[float, ...] = Field(description="How often each key sounds.")
    starts: tuple[float, ...] = Field(description="How often each key sounds after a frame in which it did not.")
    stays: tuple[float, ...] = Field(description="How often each key sounds after a frame in which it did.")
    tempo: float = Field(TEMPO, gt=0, description="Mean tempo in quarter notes per minute.")
    length: int = Field(ge=1, description="Mean length of a piece in frames.")

    @field_validator("frequencies", "starts", "stays")
    @classmethod
    def _check(cls, values: tuple[float, ...]) -> tuple[float, ...]:
        if len(values) != KEYS or not all(0 <= value <= 1 for value in values):
            raise ValueError(f"expected {KEYS} numbers from 0 to 1")
        return values


class MusicSettings(Task):
    """The keys of [task]."""

    higher_is_better: ClassVar[bool] = False
    example_files: ClassVar[tuple[str, str]] = ("train", "dev")
    depends_on_data: ClassVar[Mapping[str, str]] = DEPENDS_ON_SIZE
    too_long: ClassVar[tuple[TooLong, ...]] = ("split", "truncate", "skip")
    input_name: ClassVar[str] = "piece"

    name: Literal["music"] = "music"
    train: str = Field(
        description="Folder or list of MIDI files; or frames: JSON lines with notes (a list of MIDI numbers for each "
        "frame), or a .npz file with values and lengths. $NAME is replaced by the environment variable NAME."
    )
    format: Literal["auto", "midi", "list", "jsonl", "npz"] = Field(
        "auto", description="Format of the files (auto: by their suffix)."
    )
    encoding: TextEncoding = Field("utf-8", description="Text encoding of lists and JSON lines.")
    frames_per_beat: int = Field(
        4, ge=1, le=96, description="Frames per quarter note, in MIDI files that are read or written."
    )
    nade_size: int = Field(
        100,
        ge=0,
        le=10_000,
        description="Hidden units of NADE, by which the notes of a frame depend on each other (0: they are "
        "independent, given the frames before).",
    )
    transpose: int = Field(
        0,
        ge=0,
        le=KEYS,
        description="Data augmentation, in training only: transpose each piece by up to this many semitones up or "
        "down, as far as the keyboard goes.",
    )
    prenet: PrenetConfig = Field(
        default_factory=PrenetConfig, description="Feed-forward or convolutional layers before the decoder."
    )
    decoder: DecoderConfig = Field(default_factory=DecoderConfig, description="Recurrent or Transformer layers.")

    learned: Learned | None = Field(None, exclude=True)

    @classmethod
    def defaults(cls, document: Document, data: DataPreview | None) -> dict[str, Any]:
        values: dict[str, Any] = {"task.decoder.hidden_size": 200, "task.decoder.dropout": 0.3}
        return values | training_defaults(document, data.examples if data else None)
