"""The configuration of the task caption, and what it learns from the training data."""

from collections.abc import Mapping
from typing import Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from seqloom.config import ConfigSection, Document
from seqloom.data.preview import DataPreview
from seqloom.data.readers.captioned_signals import CaptionedSignal, Format
from seqloom.data.readers.media import Kind, kind_of
from seqloom.data.readers.pixels import Resize
from seqloom.data.size_defaults import DEPENDS_ON_SIZE, training_defaults
from seqloom.data.text.detection import SPLIT_DEFAULT, TextSample
from seqloom.data.text.tokenizers import TextConfig, Tokenizer
from seqloom.decoding.searches import TokenSearchConfig
from seqloom.decoding.tokens.beam import Beam
from seqloom.models.encoder import BidirectionalEncoder, DecoderConfig, PrenetConfig
from seqloom.models.encoder_decoder import AttentionConfig, Bridge
from seqloom.models.scheduled_sampling import ScheduledSampling
from seqloom.models.signals.audio_features import AudioFeatures, AugmentConfig
from seqloom.models.signals.frame_encoder import TimeReductionConfig
from seqloom.models.signals.image_encoder import ImageEncoderConfig
from seqloom.models.signals.inputs import DEPENDS_ON_KIND, encoder_defaults
from seqloom.models.signals.spectral_encoder import SpectralEncoderConfig
from seqloom.models.signals.statistics import SignalStatistics
from seqloom.tasks.task import Task, TextEncoding

LONGEST_CAPTION = 10_000
"""Tokens: a model that never ends its captions has to stop somewhere."""


SIGNAL_DEFAULTS: Mapping[Kind, Mapping[str, Any]] = {
    "vectors": {},
    "sound": {"task.encoder.layers": 1, "task.encoder.dropout": 0.3},
    "image": {},
    "video": {"task.encoder.layers": 1, "task.encoder.dropout": 0.3, "task.image_encoder.depth": 1},
}


class Learned(ConfigSection):
    """The vocabulary of the training captions, and the kind and scale of the signals."""

    text: Tokenizer
    signal: SignalStatistics
    length_limit: int = Field(ge=0, le=LONGEST_CAPTION)  # tokens of a caption, 99.9th percentile


class SignalEncoder(BidirectionalEncoder):
    """Layers that read in both directions; images and single vectors need none."""

    layers: int = Field(default=0, ge=0, le=1000, description="Number of stacked layers.")


Metric = Literal["bleu", "bleu_1", "exact_match", "loss"]


class CaptionSettings(Task):
    """The keys of [task]."""

    uses_search: ClassVar[bool] = True
    target_name: ClassVar[str] = "caption"
    input_name: ClassVar[str] = "image, video or recording"
    example_files: ClassVar[tuple[str, str]] = ("train.tsv", "dev.tsv")
    depends_on_data: ClassVar[Mapping[str, str]] = {
        **DEPENDS_ON_SIZE,
        **DEPENDS_ON_KIND,
        "task.text.split": SPLIT_DEFAULT,
        "task.image_encoder.depth": "2, for videos 1",
        "task.prenet.layers": "1 for sound, otherwise 0",
        "task.prenet.size": "128 for sound",
        "task.prenet.window": "5 for sound",
        "task.encoder.layers": "1 for videos and sound, otherwise 0",
        "task.encoder.dropout": "0.3 for videos and sound",
    }
    data_files: ClassVar[Mapping[str, str]] = {"folder": "images", "captions": "captions"}
    option_fields: ClassVar[Mapping[str, str]] = {
        **data_files,
        **{name: name for name in ("search", "format", "encoding")},
    }

    name: Literal["caption"] = "caption"
    format: Format = Field(
        "auto",
        description="File format: columns (TSV, CSV) or jsonl; of vectors also long (one row per time step), ts, npz; "
        "auto: by suffix and first line.",
    )
    encoding: TextEncoding = Field("utf-8", description="Text encoding of the files, such as utf-8, latin-1, cp1252.")
    separator: str = Field("", description="Column separator (empty: a comma in .csv files, otherwise a tab).")
    image_column: int | str = Field(
        "",
        description="Column with the names of the image, video or sound files: index from 0, or name in the header or "
        'JSON object (empty: 0, in JSON "image").',
    )
    caption_column: int | str = Field(
        "", description='Column with the captions: index or name (empty: 1, in JSON "caption").'
    )
    group_column: int | str = Field(
        "", description="long format: column that names the sequence of each row (empty: by name)."
    )
    time_column: int | str = Field(
        "", description="long format: column with the time, which is not part of the vectors (empty: by name)."
    )
    captions: str = Field(
        "", description="Captions file, if train and dev only list images (empty: they contain the captions)."
    )
    images: str = Field(
        "",
        description="Folder, tar or zip archive of the listed files, or .npz file of vectors (empty: the folder of the "
        "list).",
    )
    image_size: int = Field(
        64, ge=4, le=4096, description="Height and width to which images and frames are resized, in pixels."
    )
    resize: Resize = Field(
        "crop", description="Images that are not square: crop keeps the centre, pad adds grey borders."
    )
    text: TextConfig = Field(default_factory=TextConfig, description="Tokenisation of the captions.")
    image_encoder: ImageEncoderConfig = Field(
        default_factory=ImageEncoderConfig, description="Convolutions over an image, or over each frame of a video."
    )
    image_pooling: Literal["none", "mean"] = Field(
        "none", description="none: the decoder attends to every image region; mean: it sees only their mean."
    )
    audio: AudioFeatures = Field(default_factory=AudioFeatures, description="Audio features.")
    augment: AugmentConfig = Field(
        default_factory=AugmentConfig, description="Data augmentation of sound, in training only."
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
    encoder: SignalEncoder = Field(
        default_factory=SignalEncoder,
        description="Recurrent or Transformer layers over frames, vectors, or the cells of an image.",
    )
    embedding_size: int = Field(256, ge=1, description="Size of the token embeddings.")
    tie_embeddings: bool = Field(default=True, description="Use the embedding matrix as the output matrix, too.")
    input_dropout: float = Field(0.3, ge=0, lt=1, description="Dropout on the token embeddings.")
    decoder: DecoderConfig = Field(
        default_factory=DecoderConfig, description="Decoder: recurrent or Transformer layers."
    )
    attention: AttentionConfig = Field(
        default_factory=AttentionConfig,
        description="Attention of the decoder to the cells of the image, or to the frames.",
    )
    bridge: Bridge = Field(
        "linear",
        description="Initial decoder state. linear: a projection of the mean of all image regions; copy: that mean; "
        "zero: zeros.",
    )
    label_smoothing: float = Field(
        0.0, ge=0, lt=1, description="Probability mass spread over all tokens (0 disables label smoothing)."
    )
    word_loss: float = Field(
        0.0,
        ge=0,
        description="Weight of a second loss, by which the encoder learns which tokens occur in the captions of an "
        "image; the loss of the decoder says little about the image at first (0 disables it).",
    )
    scheduled_sampling: ScheduledSampling = Field(
        default_factory=ScheduledSampling,
        description="Scheduled sampling: in training, feed some of the decoder's own tokens back.",
    )
    search: TokenSearchConfig = Field(default_factory=Beam, description="Search for the best caption.")
    max_length: int = Field(
        0,
        ge=0,
        le=LONGEST_CAPTION,
        description="Maximum length of a caption in tokens (0: that of the training captions).",
    )
    metric: Metric = Field("bleu", description="Dev metric that selects the best checkpoint.")
    learned: Learned | None = Field(None, exclude=True)

    @classmethod
    def defaults(cls, document: Document, data: DataPreview | None) -> dict[str, Any]:
        captions = [caption for image in data.head for caption in image.captions] if data else []
        split = {"task.text.split": TextSample.of(captions).split} if captions else {}
        first = next((example for example in data.head if isinstance(example, CaptionedSignal)), None) if data else None
        kind = "image" if first is None else kind_of(first.content, first.rate)
        frames = (
            {"task.encoder.layers": 1} if first is not None and kind == "vectors" and len(first.content) > 1 else {}
        )
        return (
            split
            | {
                "task.text.lowercase": True,
                "task.text.min_count": 3,
                "task.image_encoder.depth": 2,
                "task.image_encoder.dropout": 0.3,
                "task.decoder.cell": "gru",
                "task.decoder.hidden_size": 256,
                "task.decoder.dropout": 0.3,
            }
            | {**encoder_defaults(kind, document), **SIGNAL_DEFAULTS[kind], **frames}
            | training_defaults(
                document,
                data.examples if data else None,
                batch_size=16,
                learning_rate=0.001,
                layers="task.decoder",
            )
        )

    @model_validator(mode="after")
    def _check(self) -> Self:
        self.spectral_encoder.check(bidirectional=self.encoder.bidirectional)
        if self.image_encoder.side(self.image_size) < 2:
            raise ValueError(
                f"image_encoder.layers is {self.image_encoder.layers}, which reduces an image of {self.image_size} × "
                f"{self.image_size} pixels to one cell: use fewer layers or a larger task.image_size"
            )
        return self
