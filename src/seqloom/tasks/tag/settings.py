"""The configuration of the task tag, and what it learns from the training data."""

from collections.abc import Mapping
from typing import Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from seqloom.config import ConfigSection, Document
from seqloom.data.feature_statistics import check_scales
from seqloom.data.length_limit import TooLong
from seqloom.data.preview import DataPreview
from seqloom.data.readers import tagged
from seqloom.data.readers.columns import LabelColumn
from seqloom.data.readers.conll_columns import Column
from seqloom.data.readers.decimal_marks import DecimalMark
from seqloom.data.readers.numeric_targets import TargetType
from seqloom.data.readers.pixels import Resize
from seqloom.data.readers.spans import are_spans
from seqloom.data.readers.vectors import Missing, VectorSequence
from seqloom.data.size_defaults import DEPENDS_ON_SIZE, training_defaults
from seqloom.data.target_scale import TargetScale
from seqloom.data.text.vocabulary import Labels, Vocabulary
from seqloom.models.character_encoder import (
    CharacterConfig,
)
from seqloom.models.encoder import BidirectionalEncoder, PrenetConfig
from seqloom.models.pretrained.pretrained import PretrainedConfig, PretrainedInputs
from seqloom.models.signals.audio_features import AudioFeatures
from seqloom.models.signals.image_encoder import ImageEncoderConfig
from seqloom.tasks.targets.numbers import LossFunction
from seqloom.tasks.task import Task, TextEncoding


class WordEmbeddingConfig(ConfigSection):
    """Word embedding."""

    embedding_size: int = Field(100, ge=1, description="Size of the word embeddings.")
    lowercase: bool = Field(
        default=True, description="Look up words in lowercase; the character encoder always sees the original case."
    )
    min_count: int = Field(1, ge=1, description="Words that occur less often than this become <unk>.")
    unknown_dropout: float = Field(
        0.25,
        ge=0,
        description="In training, replace a word that occurs n times by <unk> with probability a / (a + n), where a "
        "is this value (0: never).",
    )


class TaggingEncoder(BidirectionalEncoder):
    """Encoder; bidirectional by default, because a label may depend on the words that follow."""

    dropout: float = Field(0.3, ge=0, lt=1, description="Dropout between layers and on the output.")


class Learned(ConfigSection):
    """Labels, vocabularies and scales of the training data."""

    labels: Labels  # none if the targets are numbers
    scale: TargetScale | None = None  # None: the targets are labels
    pairs: tuple[tuple[str, str], ...]  # span labels: all neighbours that occur; "" stands for the start and the end
    words: Vocabulary | None = None  # None: the inputs are frames
    counts: tuple[int, ...] = ()  # occurrences of each word of the vocabulary
    characters: Vocabulary | None = None
    features: tuple[Vocabulary, ...] = ()  # of each column of task.feature_columns
    suffixes: Vocabulary | None = None  # of words, for the HMM
    size: int  # width of a word embedding or of a frame
    mean: tuple[float, ...] = ()  # one per feature of a frame
    deviation: tuple[float, ...] = ()
    channel_names: tuple[str, ...] = ()  # of the features of a frame; empty: unknown
    video: bool = False  # the frames are images; size is that of a pixel
    vectors: PretrainedInputs | None = None

    @model_validator(mode="after")
    def _check_sizes(self) -> Self:
        check_scales(self.mean, self.deviation, self.channel_names)
        if unknown := {name for pair in self.pairs for name in pair} - {"", *self.labels.names}:
            raise ValueError(f"pairs: {min(unknown)!r} is not a label")
        if self.counts and (self.words is None or len(self.counts) != len(self.words)):
            raise ValueError("counts: expected a number for each word")
        return self


class TagSettings(Task):
    """The keys of [task]."""

    input_name: ClassVar[str] = "word or frame"
    example_files: ClassVar[tuple[str, str]] = ("train.conllu", "dev.conllu")
    depends_on_data: ClassVar[Mapping[str, str]] = DEPENDS_ON_SIZE | {
        "task.output": "crf if the labels are spans (B-, I-), otherwise linear",
        "task.input_dropout": "0.3, for numbers at each vector 0",
        "task.encoder.dropout": "0.3, for numbers at each vector 0",
        "task.image_encoder.channels": "16 for videos",
    }
    too_long: ClassVar[tuple[TooLong, ...]] = ("split", "truncate", "skip")
    data_files: ClassVar[Mapping[str, str]] = {"folder": "folder"}
    option_fields: ClassVar[Mapping[str, str]] = {"format": "format", "encoding": "encoding", "folder": "folder"}

    name: Literal["tag"] = "tag"
    format: tagged.Format = Field(
        "auto",
        description="File format: conll (a word and its label per line), conllu, lines (a sentence per line, to "
        "predict), table (words in a CSV, JSON, Excel or Parquet file), vectors (frames in .csv, .npz or .ts), long "
        "(frames with a column that names their sequence), media (a list of recordings or videos with their labels); "
        "auto: by suffix and first lines, otherwise conll.",
    )
    encoding: TextEncoding = Field("utf-8", description="Text encoding of the files, such as utf-8, latin-1, cp1252.")
    separator: str = Field(
        "",
        description="Column separator of a text file (empty: comma, semicolon, tab or |, as the first lines show; in "
        "CoNLL a tab, or else spaces).",
    )
    label_column: LabelColumn | None = Field(
        None,
        description="Column with the labels: index from 0 (-1: last) or name. Default: the last; upos in CoNLL-U. A "
        "list: several columns with numbers.",
    )
    target_type: TargetType = Field(
        "auto",
        description="class: labels are classes; number: labels are numbers, predicted as such (regression); auto: "
        "number if the labels have fractions, or are whole numbers that hardly recur.",
    )
    decimal: DecimalMark = Field(
        "",
        description="Decimal mark of numbers in text, . or , where numbers such as 1,234 leave it open (empty: as the "
        "numbers show).",
    )
    word_column: Column | None = Field(
        None,
        description="Column with the words: index from 0 or name. Default: the first; form in CoNLL-U.",
    )
    feature_columns: tuple[Column, ...] = Field(
        (),
        description="CoNLL and CoNLL-U: further columns that the model reads, such as part-of-speech tags: indices or "
        "names. Files to predict need them, too.",
    )
    feature_size: int = Field(32, ge=1, description="Size of the embedding of each of these columns.")
    group_column: Column | None = Field(
        None, description="table and long: column that names the sentence or sequence of each row. Default: by name."
    )
    time_column: Column | None = Field(
        None, description="long: column with the time, which is not part of the vectors. Default: by name."
    )
    folder: str = Field(
        "", description="Folder, tar or zip archive of the listed recordings or videos (empty: that of the list)."
    )
    missing: Missing = Field("error", description="Missing values: error stops, hold repeats the previous value.")
    check_labels: bool = Field(
        default=True,
        description="Refuse training data with a single label, in which most labels occur only once, or which have "
        "many more labels than different words.",
    )
    convert_iob1: bool = Field(
        default=False,
        description="Convert span labels from IOB1 to BIO: an I- that continues no span becomes B-.",
    )
    parallel: tuple[str, str] | None = Field(
        None,
        description='For labels in a separate file: the parts in which the two file names differ, such as ["seq.in", '
        '"seq.out"].',
    )
    model: Literal["neural", "hmm"] = Field(
        "neural",
        description="neural: recurrent or Transformer layers; hmm: a hidden Markov model, a fast baseline.",
    )
    audio: AudioFeatures = Field(default_factory=AudioFeatures, description="Audio features.")
    image_size: int = Field(
        32, ge=4, le=4096, description="Height and width to which the frames of videos are resized, in pixels."
    )
    resize: Resize = Field(
        "crop", description="Frames of videos that are not square: crop keeps the centre, pad adds grey borders."
    )
    image_encoder: ImageEncoderConfig = Field(
        default_factory=ImageEncoderConfig, description="Convolutions over each frame of a video."
    )
    words: WordEmbeddingConfig = Field(default_factory=WordEmbeddingConfig, description="Word embedding.")
    characters: CharacterConfig = Field(
        default_factory=CharacterConfig,
        description="Character-level word vectors, from a recurrent layer over the characters of each word.",
    )
    pretrained: PretrainedConfig = Field(
        default_factory=PretrainedConfig, description="Pretrained vectors, in addition to the word embedding."
    )
    input_dropout: float = Field(
        0.3, ge=0, lt=1, description="Dropout on the input vectors (pretrained vectors have their own dropout)."
    )
    prenet: PrenetConfig = Field(
        default_factory=PrenetConfig, description="Feed-forward or convolutional layers before the encoder."
    )
    encoder: TaggingEncoder = Field(
        default_factory=TaggingEncoder, description="Encoder: recurrent or Transformer layers."
    )
    output: Literal["linear", "crf"] = Field(
        "linear", description="linear: choose each label on its own; crf: choose all labels of a sequence jointly."
    )
    crf_constraints: Literal["never", "prediction", "always"] = Field(
        "prediction",
        description="CRF only: when to exclude malformed spans, such as I-x after O; always: in training, too.",
    )
    calibrate: bool = Field(
        default=True,
        description="Spans: after training, raise or lower the score of O as far as this evidently improves span_f1 on "
        "the dev data.",
    )
    label_smoothing: float = Field(
        0.0, ge=0, lt=1, description="Linear output only: probability mass spread over all labels (0 disables it)."
    )
    loss_function: LossFunction = Field("mse", description="Loss function for numbers.")
    metric: Literal["auto", "accuracy", "span_f1", "overlap_f1"] = Field(
        "auto",
        description="Dev metric of labels that selects the best checkpoint; auto: span_f1 for spans, otherwise "
        "accuracy; overlap_f1: spans count in proportion to their overlap.",
    )
    learned: Learned | None = Field(None, exclude=True)

    @classmethod
    def defaults(cls, document: Document, data: DataPreview | None) -> dict[str, Any]:
        if document.get("task.model") == "hmm":
            return {}
        values: dict[str, Any] = {}
        if data:
            has_spans = are_spans(label for example in data.head for label in example.labels or ())
            values["task.output"] = "crf" if has_spans else "linear"
            first = data.head[0] if data.head else None
            if isinstance(first, VectorSequence) and first.values.ndim == 4:
                values |= {"task.image_encoder.channels": 16}
            if isinstance(first, VectorSequence) and first.target is not None:
                values |= {"task.input_dropout": 0.0, "task.encoder.dropout": 0.0}
        return values | training_defaults(document, data.examples if data else None)

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.model == "hmm" and self.pretrained:
            raise ValueError('model is "hmm", which cannot use pretrained vectors: remove task.pretrained')
        if self.model == "hmm" and self.feature_columns:
            raise ValueError('model is "hmm", which reads words only: remove task.feature_columns')
        if isinstance(self.label_column, tuple) and self.target_type == "class":
            raise ValueError('several label columns hold numbers, but target_type is "class"')
        for key, only in (("model", "neural"), ("output", "linear")):
            if self.target_type == "number" and getattr(self, key) != only:
                raise ValueError(
                    f'{key} is "{getattr(self, key)}", which predicts classes, but target_type is "number"'
                )
        return self
