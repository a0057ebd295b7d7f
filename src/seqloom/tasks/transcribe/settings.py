"""The configuration of the task transcribe, and what it learns from the training data."""

from collections.abc import Mapping
from typing import Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from seqloom.config import ConfigSection, Document
from seqloom.data.preview import DataPreview
from seqloom.data.readers.recordings import Format
from seqloom.data.size_defaults import DEPENDS_ON_SIZE, training_defaults
from seqloom.data.text.detection import TextSample
from seqloom.data.text.tokenizers import TextConfig, Tokenizer
from seqloom.decoding.frames.best_path import BestPath
from seqloom.decoding.searches import TranscriptSearchConfig
from seqloom.decoding.tokens.search import Search
from seqloom.models.encoder import BidirectionalEncoder, DecoderConfig, PrenetConfig
from seqloom.models.encoder_decoder import AttentionConfig, Bridge
from seqloom.models.scheduled_sampling import ScheduledSampling
from seqloom.models.signals.audio_features import AudioFeatures, AugmentConfig, Normalization
from seqloom.models.signals.equalizer import EqualizerConfig
from seqloom.models.signals.frame_encoder import TimeReductionConfig
from seqloom.models.signals.image_encoder import ImageEncoderConfig
from seqloom.models.signals.line_images import LineImageConfig
from seqloom.models.signals.spectral_encoder import SpectralEncoderConfig
from seqloom.models.signals.statistics import SignalStatistics
from seqloom.models.transcription.recording_defaults import DEPENDS_ON_RECORDINGS, recording_defaults
from seqloom.models.transcription.search_guide import LanguageModelConfig
from seqloom.tasks.task import Task, TextEncoding

Metric = Literal["auto", "cer", "wer", "per", "exact_match", "loss"]

SMALL = 500  # recordings that get a smaller model


class Learned(ConfigSection):
    """The vocabulary of the transcripts and the statistics of the training recordings."""

    text: Tokenizer
    statistics: SignalStatistics
    examples: int  # training examples
    infeasible: int  # training examples with too few frames for their transcript
    tokens_per_frame: float = Field(default=0.0, ge=0)  # of a decoder's outputs, 99.9th percentile


class TranscribeSettings(Task):
    """The configuration of the task transcribe."""

    uses_search: ClassVar[bool] = True
    target_name: ClassVar[str] = "text"
    target_place: ClassVar[str] = (
        "write it to a .txt file of the same name beside it, or list file and text of each in metadata.csv"
    )
    input_name: ClassVar[str] = "recording"
    example_files: ClassVar[tuple[str, str]] = ("train.tsv", "dev.tsv")
    depends_on_data: ClassVar[Mapping[str, str]] = DEPENDS_ON_SIZE | DEPENDS_ON_RECORDINGS
    prediction_files: ClassVar[Mapping[str, str]] = {"lexicon": "lexicon", "lm": "lm"}
    data_files: ClassVar[Mapping[str, str]] = {"folder": "folder"}
    option_fields: ClassVar[Mapping[str, str]] = {
        "search": "search",
        "lexicon": "lexicon",
        "lm": "lm",
        "folder": "folder",
        "format": "format",
        "encoding": "encoding",
    }

    name: Literal["transcribe"] = "transcribe"
    format: Format = Field(
        "auto",
        description="File format: columns (TSV, CSV: file name and text), jsonl, long (one row per time step), ts, "
        "npz, sphinx (TEXT (file)), kaldi (wav.scp and text), folder (a .txt file next to each recording), file (one "
        "recording); auto: by suffix and first line.",
    )
    encoding: TextEncoding = Field("utf-8", description="Text encoding of the files, such as utf-8, latin-1, cp1252.")
    separator: str = Field("", description="Column separator (empty: as the first lines show).")
    file_column: int | str = Field(
        "",
        description="Column with the file names: name in the header or JSON object, or index from 0 (empty: by name, "
        "or else the first).",
    )
    text_column: int | str = Field(
        "", description="Column with the texts: name or index (empty: by name, or else the second)."
    )
    group_column: int | str = Field(
        "", description="long format: column that names the sequence of each row (empty: by name)."
    )
    time_column: int | str = Field(
        "", description="long format: column with the time, which is not part of the vectors (empty: by name)."
    )
    folder: str = Field(
        "", description="Folder, tar or zip archive of the listed recordings (empty: that of the list)."
    )
    text: TextConfig = Field(
        default_factory=lambda: TextConfig(unit="characters"), description="Tokenisation of the transcripts."
    )
    spelling: Literal["text", "phones", "lexicon"] = Field(
        "text",
        description="What the transcripts contain: text; phones: phones separated by spaces, scored by PER; lexicon: "
        "words, trained as the first pronunciation of each word in task.lexicon.",
    )
    model: Literal["ctc", "attention", "joint"] = Field(
        "ctc",
        description="ctc: tokens frame by frame, without a decoder; attention: a decoder that attends to the encoded "
        "recording; joint: both, with one encoder.",
    )
    ctc_weight: float = Field(
        0.3,
        gt=0,
        lt=1,
        description='Model "joint": weight of CTC in the loss and in the beam search; the decoder has the rest.',
    )
    audio: AudioFeatures = Field(default_factory=AudioFeatures, description="Audio features.")
    normalize: Normalization = Field(
        "global",
        description="How features are scaled to mean 0 and standard deviation 1. global: over the training data; "
        "utterance: over the recording; level: over the recording, all features together; streaming: over the "
        "recording so far; none: no scaling.",
    )
    equalizer: EqualizerConfig = Field(default_factory=EqualizerConfig, description="Equalisation of sound by speaker.")
    augment: AugmentConfig = Field(
        default_factory=AugmentConfig, description="Data augmentation of recordings, in training only."
    )
    image_encoder: LineImageConfig = Field(
        default_factory=LineImageConfig,
        description="Convolutions, or two-dimensional LSTM layers, over images of text lines.",
    )
    image_size: int = Field(
        32, ge=4, le=4096, description="Height and width to which the frames of videos are resized, in pixels."
    )
    video_encoder: ImageEncoderConfig = Field(
        default_factory=ImageEncoderConfig, description="Convolutions over each frame of a video."
    )
    spectral_encoder: SpectralEncoderConfig = Field(
        default_factory=SpectralEncoderConfig,
        description="Convolutions over time and frequency of log mel energies, before the prenet.",
    )
    prenet: PrenetConfig = Field(
        default_factory=PrenetConfig, description="Feed-forward or convolutional layers before the encoder."
    )
    time_reduction: TimeReductionConfig = Field(
        default_factory=TimeReductionConfig, description="Reduction of the frame rate."
    )
    encoder: BidirectionalEncoder = Field(
        default_factory=BidirectionalEncoder, description="Encoder: recurrent or Transformer layers."
    )
    decoder: DecoderConfig = Field(
        default_factory=DecoderConfig,
        description='Models "attention" and "joint": recurrent or Transformer layers of the decoder.',
    )
    attention: AttentionConfig = Field(
        default_factory=AttentionConfig, description="Attention of the decoder to the recording."
    )
    bridge: Bridge = Field(
        "linear",
        description="Initial decoder state. linear: a projection of the encoder's last state; copy: that state; "
        "zero: zeros.",
    )
    embedding_size: int = Field(128, ge=1, description="Size of the token embeddings of the decoder.")
    tie_embeddings: bool = Field(
        default=True, description="Use the embedding matrix of the decoder as its output matrix, too."
    )
    input_dropout: float = Field(0.1, ge=0, lt=1, description="Dropout on the token embeddings of the decoder.")
    label_smoothing: float = Field(
        0.1,
        ge=0,
        lt=1,
        description="Loss of the decoder: probability mass spread over all tokens (0 disables label smoothing).",
    )
    scheduled_sampling: ScheduledSampling = Field(
        default_factory=ScheduledSampling,
        description="Scheduled sampling: in training, feed some of the decoder's own tokens back.",
    )
    search: TranscriptSearchConfig = Field(
        default_factory=BestPath,
        description="Search for the best transcript: best_path or prefix_beam over the frames of CTC, greedy or beam "
        "with a decoder.",
    )
    lexicon: str = Field(
        "",
        description="File with the allowed words, one per line, with or without pronunciation: WORD  P R O N (empty: "
        "any words).",
    )
    lm: LanguageModelConfig = Field(
        default_factory=LanguageModelConfig,
        description="External language model of the search: prefix_beam, greedy or beam.",
    )
    metric: Metric = Field(
        "auto",
        description="Dev metric that selects the best checkpoint; auto: cer, wer or per, depending on the tokens.",
    )
    learned: Learned | None = Field(None, exclude=True)

    @classmethod
    def defaults(cls, document: Document, data: DataPreview | None) -> dict[str, Any]:
        values: dict[str, Any] = {"task.encoder.dropout": 0.2}
        if document.get("task.model") in ("attention", "joint"):
            values |= {"task.search.name": "beam", "task.decoder.hidden_size": 256, "task.decoder.dropout": 0.2}
        elif document.get("task.lm.model") or (
            document.get("task.lexicon") and document.get("task.spelling") != "lexicon"
        ):
            values["task.search.name"] = "prefix_beam"
        if document.get("task.spelling") in ("phones", "lexicon"):
            values["task.text.unit"] = "words"
        elif data:
            texts = TextSample.of(recording.text or "" for recording in data.head)
            values["task.text.unit"] = "words" if texts.closed_vocabulary else "characters"
        if document.get("task.encoder.bidirectional") is not False:  # otherwise the model can stream
            values["task.normalize"] = "utterance"
        small = data is not None and data.examples < SMALL
        values["task.encoder.hidden_size"] = 128 if small else 192
        if not isinstance(document.get("task.encoder.cell"), list):
            values["task.encoder.layers"] = 2
        values |= recording_defaults(document, data.head[0] if data and data.head else None)
        return values | training_defaults(
            document,
            data.examples if data else None,
            batch_size=16,
            updates=3000,
        )

    @model_validator(mode="after")
    def _check(self) -> Self:
        self.spectral_encoder.check(bidirectional=self.encoder.bidirectional)
        if self.spelling != "text" and self.text.unit != "words":
            raise ValueError(f'spelling = "{self.spelling}" needs text.unit = "words", but it is "{self.text.unit}"')
        if self.spelling == "lexicon" and not self.lexicon:
            raise ValueError('spelling = "lexicon" needs a lexicon file: set task.lexicon')
        decodes = isinstance(self.search, Search)
        if decodes and self.model == "ctc":
            raise ValueError(
                f'search "{self.search.name}" needs a decoder, but model is "ctc": use "best_path" or "prefix_beam"'
            )
        if not decodes and self.model == "attention":
            raise ValueError(
                f'search "{self.search.name}" needs the frames of CTC, but model is "attention": use "greedy" or "beam"'
            )
        if isinstance(self.search, BestPath) and (self.lm.model or (self.lexicon and self.spelling != "lexicon")):
            unused = "language model" if self.lm.model else "lexicon"
            raise ValueError(f'search "best_path" cannot use a {unused}: use "prefix_beam"')
        self.lm.check(self.search)
        allowed = ("auto", *self.error_rates, "exact_match", "loss")
        if self.metric not in allowed:
            raise ValueError(
                f'metric "{self.metric}" is not available for these tokens (allowed: {", ".join(allowed)})'
            )
        return self

    @property
    def has_ctc(self) -> bool:
        """Whether the model predicts tokens frame by frame, so that a transcript has to fit into its frames."""
        return self.model != "attention"

    @property
    def error_rates(self) -> tuple[str, ...]:
        """The error rates that can be computed; the first is the default metric."""
        if self.spelling == "lexicon":
            return ("per",) if isinstance(self.search, BestPath) else ("wer", "per")
        if self.spelling == "phones":
            return ("wer", "per") if self.lexicon else ("per",)
        return {"characters": ("cer", "wer"), "words": ("wer",), "subwords": ("wer", "cer")}[self.text.unit]

    @property
    def main_metric(self) -> str:
        return self.error_rates[0] if self.metric == "auto" else self.metric

    @property
    def higher_is_better(self) -> bool:
        return self.main_metric == "exact_match"
