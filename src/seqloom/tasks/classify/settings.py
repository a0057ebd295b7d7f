"""The configuration of the task classify, and what it learns from the training data."""

from collections.abc import Mapping
from typing import Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from seqloom.config import ConfigSection, Document
from seqloom.data.length_limit import TooLong
from seqloom.data.preview import DataPreview
from seqloom.data.readers.columns import LabelColumn, TextColumn
from seqloom.data.readers.decimal_marks import DecimalMark
from seqloom.data.readers.labelled import LabelType
from seqloom.data.readers.labelled_formats import Format
from seqloom.data.readers.media import Kind, kind_of
from seqloom.data.readers.numeric_targets import TargetType
from seqloom.data.readers.pixels import Resize
from seqloom.data.readers.text_pairs import SEPARATOR
from seqloom.data.readers.vectors import Missing
from seqloom.data.size_defaults import DEPENDS_ON_SIZE, training_defaults
from seqloom.data.target_scale import TargetScale
from seqloom.data.text.detection import SPLIT_DEFAULT, TextSample
from seqloom.data.text.tokenizers import TextConfig, Tokenizer
from seqloom.data.text.vocabulary import Labels
from seqloom.models.classifier import HeadConfig
from seqloom.models.encoder import BidirectionalEncoder, PrenetConfig
from seqloom.models.pretrained.pretrained import PretrainedConfig, PretrainedInputs
from seqloom.models.signals.audio_features import AudioFeatures, AugmentConfig, Normalization
from seqloom.models.signals.equalizer import EqualizerConfig
from seqloom.models.signals.frame_encoder import TimeReductionConfig
from seqloom.models.signals.image_encoder import ImageEncoderConfig
from seqloom.models.signals.inputs import DEPENDS_ON_KIND, encoder_defaults
from seqloom.models.signals.spectral_encoder import SpectralEncoderConfig
from seqloom.models.signals.statistics import SignalStatistics
from seqloom.tasks.targets.classes import (
    ClassWeights,
)
from seqloom.tasks.targets.numbers import LossFunction
from seqloom.tasks.task import Task, TextEncoding

SIGNAL_DEFAULTS: Mapping[Kind, Mapping[str, Any]] = {
    "vectors": {"task.noise": 0.1, "task.prenet.layers": 1, "task.prenet.size": 64, "task.prenet.window": 5},
    "sound": {"task.trim_db": 30.0},
    "image": {"task.encoder.layers": 0, "task.encoder.dropout": 0.3},
    "video": {"task.encoder.dropout": 0.3},
}


class Learned(ConfigSection):
    """Labels, and the vocabulary or the statistics of the training data."""

    labels: Labels  # none if the targets are numbers
    weights: tuple[float, ...]  # weight of each label in the loss
    scale: TargetScale | None = None  # None: the targets are classes
    text: Tokenizer | None = None  # None: the inputs are signals
    vectors: PretrainedInputs | None = None
    signal: SignalStatistics | None = None  # None: the inputs are texts

    @model_validator(mode="after")
    def _check_sizes(self) -> Self:
        if (self.text is None) is (self.signal is None):
            raise ValueError("expected either text or signal")
        if len(self.weights) != len(self.labels):
            raise ValueError(f"weights: expected one for each of {len(self.labels)} labels, found {len(self.weights)}")
        return self


class ClassifySettings(Task):
    """The keys of [task]."""

    depends_on_data: ClassVar[Mapping[str, str]] = {
        **DEPENDS_ON_SIZE,
        **DEPENDS_ON_KIND,
        "task.text.unit": "characters if the texts are single words such as names, otherwise words",
        "task.text.split": SPLIT_DEFAULT,
        "task.embedding_size": "128, for characters 64",
        "task.input_dropout": "0.3, for characters 0.1, for vectors 0",
        "task.word_dropout": "0.1 for words, otherwise 0",
        "task.trim_db": "30 for sound, otherwise 0",
        "task.noise": "0.1 for vectors, otherwise 0",
        "task.prenet.layers": "1 for vectors and sound, otherwise 0",
        "task.prenet.size": "64 for vectors, 128 for sound",
        "task.prenet.window": "5 for vectors and sound",
        "task.encoder.layers": "0 for images, otherwise 1",
        "task.encoder.dropout": "0.4, for numbers 0.1",
        "task.head.layers": "1 for pairs of texts, otherwise 0",
    }
    target_place: ClassVar[str] = (
        "put the files of each label into a folder named after it, or list file and label of each in labels.csv"
    )
    data_files: ClassVar[Mapping[str, str]] = {"folder": "folder"}
    option_fields: ClassVar[Mapping[str, str]] = {"format": "format", "encoding": "encoding", **data_files}
    too_long: ClassVar[tuple[TooLong, ...]] = ("truncate", "skip")

    name: Literal["classify"] = "classify"
    format: Format = Field(
        default="auto",
        description="File format: lines (label, whitespace, text; also fastText), columns (CSV, TSV, Excel, Parquet), "
        "jsonl, folder (one .txt file or one folder per label), file (sound, an image or a video), numbers (a sequence "
        "per row), long (a time step per row), ts, npz; auto: by suffix and first lines.",
    )
    encoding: TextEncoding = Field(
        default="utf-8", description="Text encoding of the files, such as utf-8, latin-1, cp1252."
    )
    separator: str = Field(
        default="", description="Column separator (empty: comma, semicolon, tab or |, as the first lines show)."
    )
    text_column: TextColumn = Field(
        default="",
        description="Column with the texts, or with the names of files: name, or index from 0, negative from the end "
        "(empty: by name and content).",
    )
    second_text_column: TextColumn = Field(
        default="",
        description="Column with the second text of each pair, such as a hypothesis after its premise: name or index "
        "(empty: by usual names such as sentence1 and sentence2; without them, an example is one text).",
    )
    label_column: LabelColumn = Field(
        default="",
        description="Column with the labels: name or index (empty: by name and content); a list: several columns with "
        "numbers.",
    )
    target_type: TargetType = Field(
        default="auto",
        description="class: labels are classes; number: labels are numbers, predicted as such (regression); auto: "
        "number if the labels have fractions, or are whole numbers that hardly recur.",
    )
    decimal: DecimalMark = Field(
        default="",
        description="Decimal mark of numbers in text, . or , where numbers such as 1,234 leave it open (empty: as the "
        "numbers show).",
    )
    group_column: int | str = Field(
        default="", description="long format: column that names the sequence of each row (empty: by name)."
    )
    time_column: int | str = Field(
        default="", description="long format: column with the time, which is not part of the vectors (empty: by name)."
    )
    label_separator: str = Field(
        default="",
        description='Cut labels at the first occurrence of this: ":" turns DESC:manner into DESC (empty: keep all).',
    )
    lowercase_labels: bool = Field(
        default=False,
        description="Lowercase labels and reduce whitespace in them to single spaces, so that Yes and yes are one "
        "label.",
    )
    channels: int = Field(default=1, ge=1, description="numbers format: values per time step in a row.")
    missing: Missing = Field(
        default="error", description="Missing values: error stops, hold repeats the previous value."
    )
    label_type: LabelType = Field(
        default="text", description="Type of the labels that Python gets; detected if the labels are Python values."
    )
    check_labels: bool = Field(
        default=True,
        description="Refuse training data with a single label, or in which most examples have a label of their own.",
    )
    folder: str = Field(
        default="",
        description="Folder, tar or zip archive of the listed recordings, images or videos (empty: that of the list).",
    )
    text: TextConfig = Field(default_factory=TextConfig, description="Tokenisation.")
    embedding_size: int = Field(default=128, ge=1, description="Size of the token embeddings.")
    pretrained: PretrainedConfig = Field(
        default_factory=PretrainedConfig, description="Pretrained vectors, in addition to the learned embedding."
    )
    word_dropout: float = Field(
        default=0.0, ge=0, lt=1, description="Fraction of tokens replaced by <unk> in training."
    )
    input_dropout: float = Field(default=0.0, ge=0, lt=1, description="Dropout on the input vectors.")
    normalize: bool | Literal["level"] = Field(
        default=True,
        description="Scale each channel to mean 0 and standard deviation 1 over the training data, each feature of "
        'sound over its recording; "level": all features of sound together over the recording.',
    )
    trim_db: float = Field(
        default=0.0,
        ge=0,
        le=200,
        description="Cut off the silence before and after sound: the blocks of 20 ms that are more than this many dB "
        "below the loudest one (0: keep it).",
    )
    equalizer: EqualizerConfig = Field(default_factory=EqualizerConfig, description="Equalisation of sound by speaker.")
    noise: float = Field(
        default=0.0, ge=0, description="Standard deviation of Gaussian noise added to the channels in training."
    )
    audio: AudioFeatures = Field(default_factory=AudioFeatures, description="Audio features.")
    augment: AugmentConfig = Field(
        default_factory=AugmentConfig, description="Data augmentation of sound, in training only."
    )
    image_size: int = Field(
        default=64, ge=4, le=4096, description="Height and width to which images and frames are resized, in pixels."
    )
    resize: Resize = Field(
        default="crop", description="Images that are not square: crop keeps the centre, pad adds grey borders."
    )
    image_encoder: ImageEncoderConfig = Field(
        default_factory=ImageEncoderConfig, description="Convolutions over an image, or over each frame of a video."
    )
    spectral_encoder: SpectralEncoderConfig = Field(
        default_factory=SpectralEncoderConfig,
        description="Convolutions over time and frequency of log mel energies, before the prenet.",
    )
    prenet: PrenetConfig = Field(
        default_factory=PrenetConfig, description="Feed-forward or convolutional layers before the encoder."
    )
    time_reduction: TimeReductionConfig = Field(
        default_factory=TimeReductionConfig, description="Reduction of the frame rate of sound."
    )
    encoder: BidirectionalEncoder = Field(
        default_factory=BidirectionalEncoder, description="Encoder: recurrent or Transformer layers."
    )
    pooling: Literal["last", "ends", "mean", "max", "attention"] = Field(
        default="max",
        description="How the vectors of all time steps become one; ends: the final states of both directions.",
    )
    head: HeadConfig = Field(
        default_factory=HeadConfig, description="Hidden layers between the pooling and the output."
    )
    class_weights: ClassWeights = Field(
        default="none",
        description="Weights of the labels in the loss; balanced: inversely proportional to their frequency; a table: "
        "{ label = weight, … }, 1 for labels that are not listed.",
    )
    label_smoothing: float = Field(
        default=0.0, ge=0, lt=1, description="Probability mass spread over all labels (0 disables label smoothing)."
    )
    loss_function: LossFunction = Field(default="mse", description="Loss function for numbers.")

    learned: Learned | None = Field(default=None, exclude=True)

    @classmethod
    def defaults(cls, document: Document, data: DataPreview | None) -> dict[str, Any]:
        values: dict[str, Any] = {"task.encoder.dropout": 0.4}
        first = data.head[0] if data and data.head else None
        if first is None or isinstance(first.content, str):
            rows = [str(example.content).split(SEPARATOR) for example in data.head] if data else []
            texts = TextSample.of(text for row in rows for text in row) if data else None
            if rows and all(len(row) == 2 for row in rows):
                values["task.head.layers"] = 1
            unit = document.get("task.text.unit") or ("characters" if texts and texts.single_words else "words")
            if unit == "words" and texts:
                values["task.text.split"] = texts.split
            values |= {"task.text.unit": unit, "task.input_dropout": 0.1 if unit == "characters" else 0.3}
            if unit == "characters":
                values["task.embedding_size"] = 64
            else:
                values["task.word_dropout"] = 0.1
        else:
            kind = kind_of(first.content, first.rate)
            values |= {**encoder_defaults(kind, document), **SIGNAL_DEFAULTS[kind]}
            if isinstance(document.get("task.encoder.cell"), list):
                values.pop("task.encoder.layers", None)
        if data and data.head and data.head[0].target is not None:
            values |= {"task.encoder.dropout": 0.1, "task.input_dropout": 0.1, "task.noise": 0.0}
        return values | training_defaults(document, data.examples if data else None)

    @property
    def reads_pairs(self) -> bool:
        return self.second_text_column != ""

    @property
    def sound_normalization(self) -> Normalization:
        """How the features of sound are scaled."""
        if self.normalize == "level":
            return "level"
        return "utterance" if self.normalize else "none"

    @model_validator(mode="after")
    def _check(self) -> Self:
        self.spectral_encoder.check(bidirectional=self.encoder.bidirectional)
        custom = self.encoder.custom_layer or self.encoder.layer_factory
        if self.pooling == "ends" and not self.encoder.bidirectional and not custom:
            raise ValueError('pooling "ends" needs encoder.bidirectional = true; use "last" for one direction')
        if self.reads_pairs and self.text_column == "":
            raise ValueError("second_text_column is set; set text_column, the column of the first text, too")
        if isinstance(self.label_column, tuple) and self.target_type == "class":
            raise ValueError('several label columns hold numbers, but target_type is "class"')
        return self
