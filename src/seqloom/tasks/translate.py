"""Translation: any sequence of symbols to any other; words of another language, sounds, commands, dates."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Literal, Self, cast

import numpy as np
from pydantic import Field, model_validator
from torch import Tensor, nn

from seqloom.config import ConfigSection
from seqloom.data.batch import Batch, Padded, pad
from seqloom.data.readers.parallel import Format, Pair, Reader
from seqloom.data.readers.text_files import DataError, lines, resolve
from seqloom.data.text.tokenizers import TextConfig, Tokenizer
from seqloom.data.text.vocabulary import END
from seqloom.decoding.searches import TokenSearchConfig
from seqloom.decoding.tokens.greedy import Greedy
from seqloom.decoding.tokens.prefix_tree import PrefixTree
from seqloom.insight.explanation import Explanation
from seqloom.insight.gate_trace import LabelledTrace
from seqloom.insight.generation_report import Source, explain_generation, trace_generation
from seqloom.insight.token_names import text_tokens
from seqloom.layers.embedding import UNKNOWN, Embedding
from seqloom.layers.layer import Memory
from seqloom.metrics import text as metrics
from seqloom.metrics.confidence import MetricSums, ratio_of_sums
from seqloom.models.classifier import TokenEmbedding
from seqloom.models.encoder import Encoder, PrenetConfig, RecurrenceConfig, build_stack
from seqloom.models.encoder_decoder import AttentionConfig, Bridge, EncoderDecoder, build_encoder_decoder
from seqloom.models.ensemble import Ensemble
from seqloom.models.generation import (
    SUPPRESSED,
    Candidate,
    generate,
    nbest_candidates,
    teacher_forced_scores,
    teacher_forcing_loss,
)
from seqloom.models.pretrained.combined import CombinedInput
from seqloom.models.pretrained.pretrained import PretrainedConfig, PretrainedInputs
from seqloom.models.scheduled_sampling import ScheduledSampling
from seqloom.tasks.task import Loss, Predictions, Task, TextEncoding

MARGIN = 1.5  # times as long as 99.9 % of the training data need


@dataclass(frozen=True, slots=True)
class Translated:
    """The best translation."""

    text: str
    score: float
    symbols: list[str]
    log_probabilities: list[float]  # of each symbol, and of the end where it ended
    best: list[Candidate]  # all that the search gives, the best first
    target: list[float]  # log-probabilities of the true symbols and the end, each after the true ones before it
    forced: list[bool]  # whether each of them was the most probable one; both are empty where the target is not known

    def __str__(self) -> str:
        return self.text


class Learned(ConfigSection):
    """The symbols of the training texts."""

    source: Tokenizer
    target: Tokenizer | None  # None: those of the source
    vectors: PretrainedInputs | None = None  # of the source
    ratio: float  # symbols of a target for each of its source: more have but one in a thousand


class BidirectionalEncoder(RecurrenceConfig):
    """Recurrent layers, as a rule from both ends; of a transformer: it sees all of the source."""

    bidirectional: bool = Field(default=True, description="Read in both directions.")


class MaxLength(ConfigSection):
    """How long an answer may be: factor × symbols of the source + offset."""

    factor: float = Field(0.0, ge=0, description="0: 1.5 times what the training data need.")
    offset: int = Field(10, ge=1, description="Symbols besides, the end among them.")


Score = Literal["auto", "bleu", "bleu_lower", "chrf", "exact_match", "symbol_error_rate", "loss"]


class Translate(Task):
    """Translate sequences into other sequences: sentences, pronunciations, commands."""

    searches: ClassVar[bool] = True
    recommended: ClassVar[Mapping[str, Any]] = {
        "task.train": "train.tsv",
        "task.dev": "dev.tsv",
        "task.embedding_size": 256,
        "task.source.min_count": 2,
        "task.target.min_count": 2,
        "task.input_dropout": 0.2,
        "task.encoder.hidden_size": 256,
        "task.encoder.dropout": 0.2,
        "task.decoder.hidden_size": 256,
        "task.decoder.dropout": 0.2,
        "task.label_smoothing": 0.1,
        "train.batch_size": 64,
        "train.learning_rate": 0.001,
        "train.schedule": "plateau",
        "train.patience": 5,
    }
    option_fields: ClassVar[Mapping[str, str]] = {
        "search": "search",
        "constrain": "allowed",
        "format": "format",
        "encoding": "encoding",
    }

    name: Literal["translate"] = "translate"
    format: Format = Field(
        "auto",
        description="columns (TSV, CSV), lines (two files: train.{en,de}), jsonl, scan (IN: … OUT: …); auto: by the "
        "name and the first line.",
    )
    encoding: TextEncoding = Field("utf-8", description="Of the files, such as utf-8, latin-1, cp1252.")
    separator: str = Field("", description="Between columns; empty: a comma in .csv, otherwise a tab.")
    source_column: int | str = Field(
        "", description='Number from 0, or name in the header or JSON object; empty: 0, "source".'
    )
    target_column: int | str = Field("", description='The same for the target; empty: 1, "target".')
    source: TextConfig = Field(default_factory=TextConfig, description="Tokenization of the source.")
    target: TextConfig = Field(default_factory=TextConfig, description="Tokenization of the target.")
    shared_vocab: bool = Field(
        default=False, description="Both sides have the symbols of task.source, and one vector each."
    )
    reverse_source: bool = Field(default=False, description="Read the source backwards (Sutskever et al. 2014).")
    embedding_size: int = Field(128, ge=1, description="Size of a symbol's vector.")
    tie_embeddings: bool = Field(
        default=True, description="The vectors of the target's symbols are also those of the output."
    )
    pretrained: PretrainedConfig = Field(
        default_factory=PretrainedConfig,
        description="Pretrained vectors of the source, in addition to the learned embedding.",
    )
    word_dropout: float = Field(0.0, ge=0, lt=1, description="Share of the source that is unknown in training.")
    input_dropout: float = Field(0.0, ge=0, lt=1, description="Dropout on the vectors of the symbols.")
    prenet: PrenetConfig = Field(
        default_factory=PrenetConfig, description="Feed-forward or convolutional layers before the encoder."
    )
    encoder: BidirectionalEncoder = Field(default_factory=BidirectionalEncoder, description="Encoder.")
    decoder: RecurrenceConfig = Field(default_factory=RecurrenceConfig, description="Decoder.")
    attention: AttentionConfig = Field(
        default_factory=AttentionConfig, description="Attention of the decoder to the source."
    )
    bridge: Bridge = Field("linear", description="How the decoder begins with what the encoder ended with.")
    label_smoothing: float = Field(0.0, ge=0, lt=1, description="Label smoothing: probability spread over all symbols.")
    scheduled_sampling: ScheduledSampling = Field(default_factory=ScheduledSampling, description="Scheduled sampling.")
    search: TokenSearchConfig = Field(default_factory=Greedy, description="Search for the best translation.")
    max_length: MaxLength = Field(default_factory=MaxLength, description="Maximum output length.")
    constrain: str = Field("", description="File of the only answers that there may be, one on each line; empty: any.")
    metric: Score = Field(
        "auto", description="Score of dev by which the best model is chosen; auto: bleu, of characters exact_match."
    )
    learned: Learned | None = Field(None, exclude=True)

    @model_validator(mode="after")
    def _fit_together(self) -> Self:
        if self.shared_vocab and self.target not in (self.source, TextConfig()):
            raise ValueError("shared is true, and task.target differs from task.source, whose symbols both would have")
        return self

    @property
    def main_metric(self) -> str:
        if self.metric != "auto":
            return self.metric
        return "exact_match" if self._said.unit == "characters" else "bleu"

    @property
    def higher_is_better(self) -> bool:
        return self.main_metric not in ("symbol_error_rate", "loss")

    @property
    def _said(self) -> TextConfig:
        return self.source if self.shared_vocab else self.target

    def read(self, source: Path | Sequence[Any]) -> Iterator[Pair]:
        """Of Python values: sources, or tuples of a source and its target."""
        return self._reader().read(source)

    def read_inputs(self, source: Path | Sequence[Any]) -> Iterator[Pair]:
        return self._reader().read_inputs(source)

    def _reader(self) -> Reader:
        names = ("format", "encoding", "separator", "source_column", "target_column")
        return Reader(
            **{name: getattr(self, name) for name in names},
            source_length=_measure(self.source),
            target_length=_measure(self._said),
        )

    def fit(self, examples: Iterable[Pair]) -> Self:
        sources, targets, ratios = [], [], []
        for example in examples:
            if example.target is None:
                raise DataError(example.location, "there is no target; training needs one for each source")
            sources.append(example.source)
            targets.append(example.target)
            ratios.append(example.lengths[1] / max(example.lengths[0], 1))
        if not sources:
            raise DataError(self.train, "there are no examples to learn from")
        language = self.pretrained.language(self.source.unit)
        texts = [*sources, *targets] if self.shared_vocab else sources
        source = self.pretrained.fit(self.source, texts, language, specials=(END,))
        target = None if self.shared_vocab else self.target.fit(targets, specials=(END,))
        ratio = float(np.quantile(ratios, 0.999))
        taken = self.pretrained.take(source.vocabulary.symbols, language)
        learned = Learned(source=source, target=target, vectors=taken, ratio=ratio)
        return self.model_copy(update={"learned": learned})

    def _fitted(self) -> tuple[Tokenizer, Tokenizer]:
        """The symbols of both sides."""
        if self.learned is None:
            raise ValueError("the task has learnt nothing yet: call fit first")
        return self.learned.source, self.learned.target or self.learned.source

    def collate(self, examples: Sequence[Pair]) -> Batch:
        read, said = self._fitted()
        end = said.vocabulary.index(END)
        sources = [read.encode(example.source) for example in examples]
        inputs = pad([np.array([*(text[::-1] if self.reverse_source else text), end]) for text in sources])
        if self.learned is not None and self.learned.vectors is not None:
            rows = [read.written(example.source) for example in examples]
            given = self.learned.vectors.collate(rows, end=True, reverse=self.reverse_source)
            inputs = Padded(cast(Any, CombinedInput(inputs.values, given, inputs.mask)), inputs.mask)
        if any(example.target is None for example in examples):
            return Batch(inputs, None, 0)
        target = pad([np.array([*said.encode(example.target or ""), end]) for example in examples])
        return Batch(inputs, target, int(target.mask.sum()))

    def build_model(self) -> EncoderDecoder:
        read, said = self._fitted()
        embed = Embedding(len(read.vocabulary), self.embedding_size, dropout=self.input_dropout)
        own = None if self.pretrained.replace_own else TokenEmbedding(embed, unknown=self.word_dropout)
        taken = None if self.learned is None else self.learned.vectors
        joined, size = self.pretrained.join(taken, own, size=self.embedding_size)
        reading = build_stack(self.prenet, self.encoder, size)
        encoder = Encoder(joined, reading, dropout=self.encoder.dropout)
        if not self.shared_vocab:
            embed = Embedding(len(said.vocabulary), self.embedding_size, dropout=self.input_dropout)
        return build_encoder_decoder(
            encoder,
            embed,
            self.decoder,
            looks=self.attention,
            reading=reading,
            bridge=self.bridge,
            tied=self.tie_embeddings,
            sampling=self.scheduled_sampling,
        )

    def loss(self, model: Any, batch: Batch) -> Loss:
        if batch.target is None:
            raise ValueError("some examples of the batch have no target: there is no loss")
        end = self._fitted()[1].vocabulary.index(END)
        total = teacher_forcing_loss(
            model, model.start(*batch.inputs), batch.target, end=end, smoothing=self.label_smoothing
        )
        return Loss(total, batch.items)

    def predict(self, model: Any, batch: Batch) -> Predictions:
        memory: Memory = model.encoder(*batch.inputs)
        said = self._fitted()[1]
        end = said.vocabulary.index(END)
        lengths: Tensor | int = self._limits(batch.inputs.lengths)
        tree = None
        if self.constrain:
            tree, lengths = self._tree
        found = generate(model.decoder, memory, self.search, end=end, lengths=lengths, suppress=SUPPRESSED, tree=tree)
        told: list[tuple[list[float], list[bool]]] = [([], [])] * len(found)
        if batch.target is not None:
            told = teacher_forced_scores(model.decoder, memory, batch.target, end=end)
        answers = []
        for hypotheses, (target, right) in zip(found, told, strict=True):
            best = nbest_candidates(hypotheses, said)
            first = best[0]
            answers.append(
                Translated(first.text, first.score, first.symbols, first.log_probabilities, best, target, right)
            )
        return Predictions(answers)

    @cached_property
    def _tree(self) -> tuple[PrefixTree, int]:
        """The answers that are allowed, and the length of the longest with its end."""
        said, path = self._fitted()[1], resolve(self.constrain)
        found = [said.encode(text) for _, text in lines(path, encoding=self.encoding)]
        known = [symbols for symbols in found if UNKNOWN not in symbols]
        if not known:
            raise DataError(str(path), "holds no answer whose symbols occur in the training data")
        return PrefixTree(known, end=said.vocabulary.index(END)), max(map(len, known)) + 1

    def _limits(self, lengths: Tensor) -> Tensor:  # (B,) → (B,)
        """How long the answers may be; the end of a source does not count."""
        factor = self.max_length.factor or MARGIN * (self.learned.ratio if self.learned else 1.0)
        return ((lengths - 1) * factor).ceil().long() + self.max_length.offset

    def score(self, predictions: Sequence[Translated], examples: Sequence[Pair]) -> dict[str, Any]:
        """A source that occurs several times is scored once, and any of its targets counts; not so by BLEU and chrF."""
        said, wanted = self._fitted()[1], self._wanted(examples)
        found = [answer.text for answer in predictions]
        errors = self._errors(found, examples)
        scores: dict[str, Any] = {}
        details: dict[str, Any] = {}
        if self._said.unit != "characters" or self.metric in ("bleu", "bleu_lower", "chrf"):
            for name, corpus in (
                ("bleu", metrics.bleu(found, wanted)),
                ("bleu_lower", metrics.bleu(found, wanted, lower=True)),
                ("chrf", metrics.chrf(found, wanted)),
            ):
                scores[name] = corpus.score
                details |= {f"{name}_interval": list(corpus.interval), f"{name}_signature": corpus.signature}
        free = metrics.edit_errors(
            range(len(wanted)), [answer.symbols for answer in predictions], [said.tokens(text) for text in wanted]
        )
        values = [value for answer in predictions for value in answer.target]
        right = [found for answer in predictions for found in answer.forced[:-1]]
        forced_accuracy = sum(right) / max(len(right), 1)
        return scores | {
            "exact_match": errors.exact_match,
            "symbol_error_rate": errors.symbol_error_rate,
            "loss": -math.fsum(values) / max(len(values), 1),
            "forced_accuracy": forced_accuracy,
            "free_accuracy": 1 - free.symbol_error_rate,
            "gap": forced_accuracy - (1 - free.symbol_error_rate),
            "exact_match_interval": list(errors.exact_match_interval),
            "symbol_error_rate_interval": list(errors.symbol_error_interval),
            **details,
            "examples": len(wanted),
            "sources": len(errors.errors),
        }

    def metric_sums(self, predictions: Sequence[Translated], examples: Sequence[Pair]) -> MetricSums:
        """Of exact matches and errors, the examples are the different sources."""
        found, wanted = [answer.text for answer in predictions], self._wanted(examples)
        if self.main_metric == "chrf":
            return metrics.chrf(found, wanted).sums
        if self.main_metric.startswith("bleu"):
            return metrics.bleu(found, wanted, lower=self.main_metric == "bleu_lower").sums
        if self.main_metric == "loss":
            values = [answer.target for answer in predictions]
            return ratio_of_sums([-math.fsum(each) for each in values], [len(each) for each in values])
        errors = self._errors(found, examples)
        matches = self.main_metric == "exact_match"
        return (
            ratio_of_sums(~errors.wrong, np.ones(len(errors.wrong)))
            if matches
            else ratio_of_sums(errors.errors, errors.symbols)
        )

    @property
    def custom_layer_field(self) -> str:
        return "encoder"

    def ensemble_conflict(self, other: Task) -> str:
        if isinstance(other, Translate) and other.reverse_source != self.reverse_source:
            return "read their sources in different directions"
        return super().ensemble_conflict(other)

    def ensemble(self, models: Sequence[nn.Module]) -> Ensemble:
        return Ensemble(models)

    def _wanted(self, examples: Sequence[Pair]) -> list[str]:
        wanted = []
        for example in examples:
            if example.target is None:
                raise DataError(example.location, "there is no target to compare with")
            wanted.append(example.target.lower() if self._said.lowercase else example.target)
        return wanted

    def _errors(self, found: Sequence[str], examples: Sequence[Pair]) -> metrics.EditErrors:
        cut: Callable[[str], Any] = list if self._said.unit == "characters" else str.split
        sources = [example.source for example in examples]
        return metrics.edit_errors(sources, [*map(cut, found)], [*map(cut, self._wanted(examples))])

    def input_tokens(self, example: Pair) -> list[str]:
        tokens = text_tokens(self._fitted()[0], example.source, [])
        return [*(tokens[::-1] if self.reverse_source else tokens), END]

    def explain(self, model: Any, example: Pair, *, beam: bool = False, heads: bool = False) -> Explanation:
        """The n-best list, and the attention over the source tokens, in the order of the text."""
        notes: list[str] = []
        encoding, target_encoding = self._fitted()
        tokens = text_tokens(encoding, example.source, notes)
        order = [*range(len(tokens))[::-1], len(tokens)] if self.reverse_source else []
        source = Source(example.source, [*tokens, END], order, notes)
        return explain_generation(self, model, example, source=source, encoding=target_encoding, beam=beam, heads=heads)

    def trace_gates(self, model: Any, example: Pair) -> list[LabelledTrace]:
        tokens, target_encoding = self.input_tokens(example), self._fitted()[1]
        return trace_generation(self, model, example, source_tokens=tokens, encoding=target_encoding)


def _measure(text: TextConfig) -> Callable[[str], int]:
    return len if text.unit == "characters" else lambda given: len(given.split())
