"""The configuration of the task translate, and what it learns from the training data."""

from collections.abc import Mapping
from typing import Any, ClassVar, Literal, Self

from pydantic import Field, model_validator
from torch import Tensor

from seqloom.config import ConfigSection, Document
from seqloom.data.preview import DataPreview
from seqloom.data.readers.columns import TextColumn
from seqloom.data.readers.parallel import Format
from seqloom.data.size_defaults import DEPENDS_ON_SIZE, training_defaults
from seqloom.data.text.detection import MANY_TEXTS, SPLIT_DEFAULT, TextSample
from seqloom.data.text.tokenizers import TextConfig, Tokenizer
from seqloom.data.text.vocabulary import END
from seqloom.decoding.searches import TokenSearchConfig
from seqloom.decoding.tokens.beam import Beam
from seqloom.models.encoder import BidirectionalEncoder, DecoderConfig, PrenetConfig
from seqloom.models.encoder_decoder import AttentionConfig, Bridge
from seqloom.models.joint_ngram.hybrid import TableShapes
from seqloom.models.pretrained.pretrained import PretrainedConfig, PretrainedInputs
from seqloom.models.scheduled_sampling import ScheduledSampling
from seqloom.models.transcription.search_guide import LanguageModelConfig
from seqloom.tasks.task import Task, TextEncoding, require_fitted

MARGIN = 1.5  # maximum length relative to what 99.9 % of the training targets need

LARGEST_FACTOR = 1000.0
"""Target tokens per source token."""


class AlignedPairs(ConfigSection):
    """What a joint n-gram model, also of a hybrid, knows of the training pairs."""

    max_chunk: int = Field(ge=1, le=20)  # target tokens that a source token can stand for
    too_long: int = Field(ge=0)  # pairs that need more
    unknown: int = Field(ge=0)  # other pairs whose target has unknown tokens
    examples: int = Field(ge=1)

    @property
    def reasons(self) -> tuple[str, str]:
        """Why pairs are too long, and why they are unknown."""
        return (
            f"more than {self.max_chunk} target tokens per source token (task.joint_ngram.max_chunk)",
            "unknown target tokens (task.target.min_count)",
        )


class Learned(ConfigSection):
    """Vocabularies of the training texts."""

    source: Tokenizer
    target: Tokenizer | None  # None: the source tokenizer (shared vocabulary)
    vectors: PretrainedInputs | None = None  # pretrained vectors of the source
    ratio: float = Field(ge=0, le=LARGEST_FACTOR)  # target tokens per source token, 99.9th percentile
    aligned: AlignedPairs | None = None  # of a joint n-gram model and a hybrid
    tables: TableShapes | None = None  # of a hybrid


class MaxLength(ConfigSection):
    """Maximum length of an output: factor × source tokens + offset."""

    factor: float = Field(
        0.0,
        ge=0,
        le=LARGEST_FACTOR,
        description="Output tokens per source token (0: 1.5 times the ratio seen in training).",
    )
    offset: int = Field(10, ge=1, le=10_000, description="Additional tokens, including the end token.")


class JointNGramConfig(ConfigSection):
    """Joint n-gram model: each source token stands for a chunk of target tokens, in the same order."""

    order: int = Field(8, ge=1, le=20, description="Maximum length of n-grams, in source tokens.")
    max_chunk: int = Field(
        0,
        ge=0,
        le=20,
        description="Maximum number of target tokens per source token (0: chosen from 2 to 8, to cover 99.5 % of the "
        "training pairs). Training skips pairs that need more.",
    )


Metric = Literal[
    "auto",
    "bleu",
    "bleu_lower",
    "chrf",
    "exact_match",
    "token_error_rate",
    "rouge_1",
    "rouge_2",
    "rouge_l",
    "bracket_f1",
    "execution",
    "loss",
]


class TranslateSettings(Task):
    """The keys of [task]."""

    uses_search: ClassVar[bool] = True
    target_name: ClassVar[str] = "target"
    input_name: ClassVar[str] = "source"
    example_files: ClassVar[tuple[str, str]] = ("train.tsv", "dev.tsv")
    depends_on_data: ClassVar[Mapping[str, str]] = (
        DEPENDS_ON_SIZE
        | {
            f"task.{side}.{key}": reason
            for side in ("source", "target")
            for key, reason in (
                ("unit", "characters for single words, subwords for 10,000 sentences or more, otherwise words"),
                ("split", SPLIT_DEFAULT),
                ("min_count", "2 for the words of 10,000 pairs or more, otherwise 1"),
            )
        }
        | {"task.metric": "exact_match for targets of few recurring words, such as phones or commands, otherwise auto"}
    )
    prediction_files: ClassVar[Mapping[str, str]] = {"constrain": "constrain", "lexicon": "lexicon", "lm": "lm"}
    option_fields: ClassVar[Mapping[str, str]] = {
        "search": "search",
        "constrain": "constrain",
        "lexicon": "lexicon",
        "lm": "lm",
        "format": "format",
        "encoding": "encoding",
    }

    name: Literal["translate"] = "translate"
    format: Format = Field(
        "auto",
        description="File format: columns (TSV, CSV, Excel, Parquet), lines (two parallel files: train.{en,de}), "
        "jsonl, scan (IN: … OUT: …); auto: by suffix and first line.",
    )
    encoding: TextEncoding = Field("utf-8", description="Text encoding of the files, such as utf-8, latin-1, cp1252.")
    separator: str = Field(
        "", description="Column separator (empty: as the first lines of .csv files show, otherwise a tab)."
    )
    source_column: TextColumn = Field(
        "", description="Column with the sources: name, or index from 0 (empty: by name, or else the first)."
    )
    target_column: TextColumn = Field(
        "", description="Column with the targets: name or index (empty: by name, or else the second)."
    )
    model: Literal["neural", "joint_ngram", "hybrid"] = Field(
        "neural",
        description="neural: an encoder-decoder; joint_ngram: an n-gram model of source tokens with their target "
        "tokens, for monotonic pairs such as words and their pronunciations, which trains in seconds; hybrid: that "
        "model combined with a network (task.encoder).",
    )
    joint_ngram: JointNGramConfig = Field(
        default_factory=JointNGramConfig, description="Joint n-gram model, used if model is joint_ngram or hybrid."
    )
    source: TextConfig = Field(default_factory=TextConfig, description="Tokenisation of the source.")
    target: TextConfig = Field(default_factory=TextConfig, description="Tokenisation of the target.")
    shared_vocab: bool = Field(
        default=False,
        description="Use one vocabulary and one embedding for both sides, tokenised by the settings of task.source.",
    )
    bpe_dropout: float = Field(
        0.0,
        ge=0,
        lt=1,
        description="BPE-dropout: probability of skipping each merge when a training text is split into subwords, so "
        "that words are split in other ways each time; 0.1 is usual (0: off).",
    )
    reverse_source: bool = Field(default=False, description="Read the source backwards (Sutskever et al. 2014).")
    embedding_size: int = Field(256, ge=1, description="Size of the token embeddings.")
    tie_embeddings: bool = Field(default=True, description="Use the target embedding matrix as the output matrix, too.")
    pretrained: PretrainedConfig = Field(
        default_factory=PretrainedConfig,
        description="Pretrained vectors of the source, in addition to the learned embedding.",
    )
    word_dropout: float = Field(0.0, ge=0, lt=1, description="Fraction of source tokens replaced by <unk> in training.")
    input_dropout: float = Field(0.2, ge=0, lt=1, description="Dropout on the token embeddings.")
    prenet: PrenetConfig = Field(
        default_factory=PrenetConfig, description="Feed-forward or convolutional layers before the encoder."
    )
    encoder: BidirectionalEncoder = Field(
        default_factory=BidirectionalEncoder, description="Encoder: recurrent or Transformer layers."
    )
    decoder: DecoderConfig = Field(
        default_factory=DecoderConfig, description="Decoder: recurrent or Transformer layers."
    )
    attention: AttentionConfig = Field(
        default_factory=AttentionConfig, description="Attention of the decoder to the source."
    )
    bridge: Bridge = Field(
        "linear",
        description="Initial decoder state. linear: a projection of the encoder's last state; copy: that state; "
        "zero: zeros.",
    )
    label_smoothing: float = Field(
        0.1, ge=0, lt=1, description="Probability mass spread over all tokens (0 disables label smoothing)."
    )
    scheduled_sampling: ScheduledSampling = Field(
        default_factory=ScheduledSampling,
        description="Scheduled sampling: in training, feed some of the decoder's own tokens back.",
    )
    search: TokenSearchConfig = Field(default_factory=Beam, description="Search for the best translation.")
    max_length: MaxLength = Field(default_factory=MaxLength, description="Maximum output length.")
    constrain: str = Field("", description="File with the allowed outputs, one per line (empty: no constraint).")
    lexicon: str = Field("", description="File with the allowed words of the target, one per line (empty: any words).")
    lm: LanguageModelConfig = Field(
        default_factory=LanguageModelConfig, description="External language model of the target."
    )
    metric: Metric = Field(
        "auto",
        description="Dev metric that selects the best checkpoint; auto: bleu, or exact_match for characters. Computed "
        "only if chosen: rouge_1, rouge_2, rouge_l (summaries), bracket_f1 (parse trees), execution (turtle programs).",
    )
    learned: Learned | None = Field(None, exclude=True)

    @classmethod
    def defaults(cls, document: Document, data: DataPreview | None) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for side in ("source",) if document.get("task.shared_vocab") else ("source", "target"):
            unit = document.get(f"task.{side}.unit")
            sample = TextSample.of(getattr(pair, side) or "" for pair in data.head) if data else None
            if unit is None and data and sample:
                unit = values[f"task.{side}.unit"] = sample.unit(data.examples)
            if unit in (None, "words"):
                if sample:
                    values[f"task.{side}.split"] = sample.split
                if side == "target" and sample and sample.closed_vocabulary:
                    values["task.metric"] = "exact_match"
                values[f"task.{side}.min_count"] = 2 if data is None or data.examples >= MANY_TEXTS else 1
        model = document.get("task.model")
        if model == "joint_ngram":
            return values
        if model == "hybrid":
            values |= {"task.encoder.layers": 2, "task.embedding_size": 64}
        values |= {"task.encoder.hidden_size": 256, "task.encoder.dropout": 0.3}
        values |= {"task.decoder.hidden_size": 256, "task.decoder.dropout": 0.3}
        return values | training_defaults(
            document,
            data.examples if data else None,
            batch_size=64,
            updates=5000,
        )

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.shared_vocab and self.target not in (self.source, TextConfig()):
            raise ValueError("shared_vocab is true, but task.target differs from task.source: remove task.target")
        if self.bpe_dropout and not any(text.is_bpe for text in (self.source, self._target_text)):
            raise ValueError(
                'bpe_dropout needs subwords: set unit = "subwords" and algorithm = "bpe" in task.source or task.target'
            )
        if self.bpe_dropout and (self.pretrained.file or self.pretrained.run):
            raise ValueError("bpe_dropout cannot be combined with pretrained vectors, which belong to whole tokens")
        if self.model != "neural":
            self._check_aligned()
        self.lm.check(self.search)
        if self.constrain and (self.lexicon or self.lm.model):
            raise ValueError("constrain lists whole outputs and cannot be combined with a lexicon or a language model")
        return self

    def _check_aligned(self) -> None:
        for key, wrong, reason in (
            ("pretrained", bool(self.pretrained.file or self.pretrained.run), "cannot use pretrained vectors"),
            ("bpe_dropout", self.bpe_dropout, "counts each pair once"),
            ("reverse_source", self.reverse_source, "reads the source in the order of the target"),
            ("scheduled_sampling", self.scheduled_sampling.schedule != "none", "has no neural decoder"),
        ):
            if wrong:
                raise ValueError(f'model is "{self.model}", which {reason}: remove task.{key}')

    @property
    def main_metric(self) -> str:
        if self.metric != "auto":
            return self.metric
        return "exact_match" if self._target_text.unit == "characters" else "bleu"

    @property
    def higher_is_better(self) -> bool:
        return self.main_metric not in ("token_error_rate", "loss")

    @property
    def _target_text(self) -> TextConfig:
        return self.source if self.shared_vocab else self.target

    @property
    def fitted(self) -> Learned:
        return require_fitted(self.learned)

    @property
    def _target_tokenizer(self) -> Tokenizer:
        return self.fitted.target or self.fitted.source

    @property
    def _end(self) -> int:
        """The id of the end token, the same in both vocabularies."""
        return self._target_tokenizer.vocabulary.index(END)

    def _max_lengths(self, lengths: Tensor) -> Tensor:  # (B,) → (B,)
        """The maximum length of each output; the end token of the source does not count."""
        factor = self.max_length.factor or MARGIN * self.fitted.ratio
        return ((lengths - 1) * factor).ceil().long() + self.max_length.offset
