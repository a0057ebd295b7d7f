"""The configuration of the task handwriting, and what it learns from the training data."""

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from pydantic import Field

from seqloom.config import ConfigSection, Document
from seqloom.data.preview import DataPreview
from seqloom.data.size_defaults import DEPENDS_ON_SIZE, training_defaults
from seqloom.models.encoder import DecoderConfig
from seqloom.tasks.task import Task, TextEncoding


class Learned(ConfigSection):
    """Characters and scale of the training data, and the single Gaussian that a model has to beat."""

    characters: tuple[str, ...] = Field(description="Characters of the texts; empty: the model reads no text.")
    scale: float = Field(gt=0, description="Root mean square of the movements, by which they are divided.")
    mean: tuple[float, float] = Field(description="Mean movement.")
    covariance: tuple[float, float, float] = Field(description="Variances of dx and dy, and their covariance.")
    pen: tuple[float, float, float] = Field(description="How often the pen draws, lifts and ends.")
    longest: int = Field(ge=1, description="Points of the longest drawing.")
    end_of_text: bool = Field(default=False, description="A symbol of its own follows the characters of each text.")
    never_empty: bool = Field(default=False, description="The pen cannot end before the first point of a drawing.")


class HandwritingSettings(Task):
    """The keys of [task]."""

    higher_is_better: ClassVar[bool] = False
    example_files: ClassVar[tuple[str, str]] = ("train.jsonl", "dev.jsonl")
    depends_on_data: ClassVar[Mapping[str, str]] = DEPENDS_ON_SIZE
    target_name: ClassVar[str] = "text"
    input_name: ClassVar[str] = "drawing"

    name: Literal["handwriting"] = "handwriting"
    train: str = Field(
        description="JSON lines with strokes (rows of dx, dy, and 1 where the pen is lifted) and, to learn to write, "
        "text; or a .npz file with values, lengths and texts. $NAME is replaced by the environment variable NAME."
    )
    format: Literal["auto", "jsonl", "npz"] = Field("auto", description="Format of the files (auto: by their suffix).")
    encoding: TextEncoding = Field("utf-8", description="Text encoding of JSON lines.")
    condition: Literal["auto", "text", "none"] = Field(
        "auto",
        description="text: write the text of each drawing; none: draw freely; auto: text, if all drawings have one.",
    )
    components: int = Field(20, ge=1, le=1000, description="Gaussians of the mixture for the next point.")
    window_components: int = Field(
        10, ge=1, le=1000, description="Gaussians of the window that slides over the text (condition = text)."
    )
    decoder: DecoderConfig = Field(
        default_factory=DecoderConfig, description="Recurrent layers; to draw freely, also Transformer layers."
    )

    learned: Learned | None = Field(None, exclude=True)

    @classmethod
    def defaults(cls, document: Document, data: DataPreview | None) -> dict[str, Any]:
        values: dict[str, Any] = {"task.decoder.hidden_size": 128}
        if not isinstance(document.get("task.decoder.cell"), list):  # which has a length of its own
            values["task.decoder.layers"] = 2
        return values | training_defaults(document, data.examples if data else None)
