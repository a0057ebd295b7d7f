"""The configuration of the task language_model, and what it learns from the training text."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from seqloom.config import Document
from seqloom.data.length_limit import TooLong
from seqloom.data.preview import DataPreview
from seqloom.data.readers.columns import TextColumn
from seqloom.data.readers.text_files import Location
from seqloom.data.size_defaults import DEPENDS_ON_SIZE, training_defaults
from seqloom.data.text.detection import SPLIT_DEFAULT, TextSample
from seqloom.data.text.tokenizers import TextConfig, Tokenizer
from seqloom.models.character_encoder import CharacterConfig
from seqloom.models.encoder import TRANSFORMER, BidirectionalEncoder, DecoderConfig, PrenetConfig
from seqloom.models.pretrained.contextual import LMVocabulary
from seqloom.tasks.task import Task, TextEncoding, require_fitted

SMALL_TEXT = 2_000_000  # characters of a text up to which characters are better tokens than words


@dataclass(frozen=True, slots=True)
class TextLine:
    """One line of text."""

    location: Location
    text: str
    tokens: int  # approximate number, for bucketing

    def __len__(self) -> int:
        return self.tokens


def default_unit(data: DataPreview, *, needs_words: bool) -> tuple[Literal["characters", "words"], str]:
    """The tokens that suit a text, and for what kind of text or model they are the default."""
    sample = TextSample.of(line.text for line in data.head)
    if sample.single_words:
        return "characters", "lines of a single word"
    if needs_words:
        return "words", "such a model"
    size = sample.characters * data.examples / max(len(data.head), 1)
    limit = f"{SMALL_TEXT // 1_000_000} million characters"
    return ("characters", f"texts below {limit}") if size < SMALL_TEXT else ("words", f"texts of {limit} and more")


class Learned(LMVocabulary):
    """The vocabulary of the training text."""


class LanguageModelSettings(Task):
    """The fields of a language model."""

    higher_is_better: ClassVar[bool] = False
    sequential: ClassVar[bool] = True
    example_files: ClassVar[tuple[str, str]] = ("train.txt", "valid.txt")
    depends_on_data: ClassVar[Mapping[str, str]] = DEPENDS_ON_SIZE | {
        "task.text.unit": "characters for single words and for texts below 2 million characters, otherwise words, "
        'and always words for model = "ngram", direction = "both" and objective = "masked"',
        "task.text.split": SPLIT_DEFAULT,
        "task.text.min_count": "2 for words, otherwise 1",
        "task.embedding_size": "256, for characters 64",
        "task.tie_embeddings": "true, for characters false",
        "task.input_dropout": "0.2, for characters 0",
        "task.decoder.dropout": "0.3, for characters 0.2",
        "train.bptt_steps": "35, for characters 64",
    }
    option_fields: ClassVar[Mapping[str, str]] = {"encoding": "encoding"}
    too_long: ClassVar[tuple[TooLong, ...]] = ("split", "truncate", "skip")

    name: Literal["language_model"] = "language_model"
    model: Literal["neural", "window", "ngram"] = Field(
        "neural",
        description="neural: recurrent or Transformer layers; window: a feed-forward network over the last tokens; "
        "ngram: Kneser-Ney n-gram counts.",
    )
    objective: Literal["causal", "masked"] = Field(
        "causal",
        description="causal: predict each token from those before it; masked: predict hidden tokens from both sides "
        "(BERT), with the layers of task.encoder.",
    )
    direction: Literal["forward", "both"] = Field(
        "forward",
        description="forward: predict the next token; both: also the previous one, which gives contextual word "
        "vectors for other tasks (task.pretrained).",
    )
    mask_rate: float = Field(
        0.15, gt=0, lt=1, description='Fraction of the tokens to predict at a time, for objective = "masked" only.'
    )
    encoding: TextEncoding = Field("utf-8", description="Text encoding of the files, such as utf-8, latin-1, cp1252.")
    text_column: TextColumn = Field(
        "",
        description="Column with the texts of a table (CSV, JSON lines, Parquet …): name, or index from 0, negative "
        "from the end (empty: by name and content).",
    )
    arpa: str = Field(
        "", description="n-gram models only: ARPA file to import instead of training on task.train (empty: train)."
    )
    order: int = Field(
        5, ge=1, description="window and ngram models: n-gram length, that is the predicted token and its context."
    )
    text: TextConfig = Field(default_factory=TextConfig, description="Tokenisation.")
    embedding_size: int = Field(256, ge=1, description="Size of the token embeddings.")
    tie_embeddings: bool = Field(default=True, description="Use the embedding matrix as the output matrix, too.")
    input_dropout: float = Field(0.2, ge=0, lt=1, description="Dropout on the token embeddings.")
    sampled_softmax: int = Field(
        0,
        ge=0,
        description="Tokens sampled for the softmax in training, in addition to those of the batch (0: full softmax).",
    )
    label_smoothing: float = Field(
        0.0, ge=0, lt=1, description="Probability mass spread over all tokens (0 disables label smoothing)."
    )
    characters: CharacterConfig = Field(
        default_factory=partial(CharacterConfig, layers=0),
        description='Character-level word vectors, for direction = "both" or objective = "masked" only.',
    )
    prenet: PrenetConfig = Field(
        default_factory=PrenetConfig, description="Feed-forward or convolutional layers before the others."
    )
    decoder: DecoderConfig = Field(
        default_factory=DecoderConfig, description="Decoder: recurrent or Transformer layers."
    )
    encoder: BidirectionalEncoder = Field(
        default_factory=BidirectionalEncoder,
        description='Encoder, for objective = "masked" only: recurrent or Transformer layers that read both sides.',
    )
    learned: Learned | None = Field(None, exclude=True)
    fills_masks: bool = Field(default=False, exclude=True)
    """Whether a masked model answers as users want, instead of being evaluated on hidden tokens; see for_prediction."""

    @classmethod
    def defaults(cls, document: Document, data: DataPreview | None) -> dict[str, Any]:
        sample = TextSample.of(line.text for line in data.head) if data else None
        share = data.examples / max(len(data.head), 1) if data else 0.0
        unit = document.get("task.text.unit")
        values: dict[str, Any] = {}
        masked = document.get("task.objective") == "masked"
        whole_lines = masked or document.get("task.direction") == "both"
        if unit is None and data and data.head:
            needs_words = whole_lines or document.get("task.model") == "ngram"
            unit, _ = default_unit(data, needs_words=needs_words)
            values["task.text.unit"] = unit
        if unit in (None, "words"):
            values["task.text.min_count"] = 2
            if sample:
                values["task.text.split"] = sample.split
        if document.get("task.model") == "ngram":
            return values
        characters = unit == "characters"
        values |= {"task.embedding_size": 64} if characters else {}
        values |= {"task.tie_embeddings": False} if characters else {}
        values |= {"task.input_dropout": 0.0 if characters else 0.1 if masked else 0.2}
        if masked:
            cell = document.get("task.encoder.cell")
            layers = 4 if cell in (None, TRANSFORMER) else 2
            values |= {"task.encoder.hidden_size": 256, "task.encoder.dropout": 0.1}
            values |= {} if cell else {"task.encoder.cell": TRANSFORMER}
            values |= {} if isinstance(cell, list) else {"task.encoder.layers": layers}
            learning_rate = 0.002 if cell else 0.001  # half for the Transformer that the document does not name
            return values | training_defaults(
                document, data.examples if data else None, learning_rate=learning_rate, layers="task.encoder"
            )
        values |= {"task.decoder.hidden_size": 256, "task.decoder.dropout": 0.2 if characters else 0.3}
        steps = document.get("train.bptt_steps")
        if steps is None and not whole_lines:
            steps = values["train.bptt_steps"] = 64 if characters else 35
        amount: float | None = None
        if data and sample:
            tokens = share * ((sample.characters if characters else sample.words) + sample.texts)
            amount = tokens / steps if isinstance(steps, int) and steps > 0 else data.examples
        return values | training_defaults(document, amount, batch_size=32 if characters else 20, layers="task.decoder")

    @model_validator(mode="before")
    @classmethod
    def _import_arpa(cls, values: Any) -> Any:
        if isinstance(values, dict) and values.get("arpa") and not values.get("train"):
            return {**values, "train": values["arpa"], "dev_fraction": 0.0}
        return values

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.arpa and self.model != "ngram":
            raise ValueError(f'arpa needs model = "ngram", but model is "{self.model}"')
        if self.arpa and self.text.unit == "subwords":
            raise ValueError('arpa needs text.unit = "words" or "characters": an ARPA file has no subword tokenizer')
        if self.direction == "both" and self.model != "neural":
            raise ValueError(f'direction = "both" needs model = "neural", but model is "{self.model}"')
        self._check_objective()
        reads_characters = self.direction == "both" or self.objective == "masked"
        if self.characters.layers and not (reads_characters and self.text.unit == "words"):
            raise ValueError(
                f'characters.layers is {self.characters.layers}, which needs direction = "both" or objective = '
                f'"masked", and text.unit = "words", but they are "{self.direction}", "{self.objective}" and '
                f'"{self.text.unit}"'
            )
        return self

    def _check_objective(self) -> None:
        """Refuse settings that the objective would ignore."""
        fields = type(self).model_fields
        if self.objective == "causal":
            if self.encoder != fields["encoder"].get_default(call_default_factory=True):
                raise ValueError('encoder is set, but objective is "causal": set decoder, or objective = "masked"')
            if self.mask_rate != fields["mask_rate"].default:
                raise ValueError(f'mask_rate is {self.mask_rate}, but objective is "causal": nothing is masked')
            return
        if self.model != "neural":
            raise ValueError(f'objective = "masked" needs model = "neural", but model is "{self.model}"')
        if self.direction != "forward":
            raise ValueError(
                f'direction is "{self.direction}", but objective is "masked", which reads both sides at once: remove '
                "direction"
            )
        if self.decoder != fields["decoder"].get_default(call_default_factory=True):
            raise ValueError('decoder is set, but objective is "masked": its layers are those of encoder')
        if not self.encoder.bidirectional:
            raise ValueError('encoder.bidirectional is false, but objective = "masked" reads both sides')

    @property
    def fitted(self) -> Learned:
        return require_fitted(self.learned)

    @property
    def tokenizer(self) -> Tokenizer:
        return self.fitted.text
