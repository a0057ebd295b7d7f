"""Translation: one sequence of tokens to another, such as sentences, pronunciations, commands or dates."""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, cast

import numpy as np
from pydantic import Field, model_validator
from torch import Tensor, nn

from seqloom.config import ConfigSection, Document
from seqloom.data.batch import Batch, Padded, pad
from seqloom.data.dataset_summary import ExampleSummary
from seqloom.data.preview import DataPreview
from seqloom.data.readers.parallel import Format, Pair, PairReader
from seqloom.data.readers.text_files import DataError, lines, resolve
from seqloom.data.size_defaults import DEPENDS_ON_SIZE, training_defaults
from seqloom.data.text.detection import MANY_TEXTS, SPLIT_DEFAULT, TextSample
from seqloom.data.text.tokenizers import TextConfig, Tokenizer
from seqloom.data.text.vocabulary import END
from seqloom.data.text.words import split_lines
from seqloom.decoding.frames.frame_search import Guide
from seqloom.decoding.searches import TokenSearchConfig
from seqloom.decoding.tokens.beam import Beam
from seqloom.decoding.tokens.greedy import Greedy
from seqloom.decoding.tokens.prefix_tree import PrefixTree
from seqloom.insight.explanation import Explanation
from seqloom.insight.gates import LabelledTrace
from seqloom.insight.search_report import DecoderSource, explain_generation, trace_generation
from seqloom.insight.token_names import text_tokens
from seqloom.layers.embedding import UNKNOWN, Embedding
from seqloom.layers.layer import Memory
from seqloom.metrics import brackets, turtle
from seqloom.metrics import text as metrics
from seqloom.metrics.confidence import MetricSums, bootstrap, quantiles, ratio_of_sums
from seqloom.metrics.learning import constant_answer
from seqloom.metrics.rouge import NAMES as ROUGE
from seqloom.metrics.rouge import rouge_sums
from seqloom.models.baseline import Baseline, most_frequent, quote
from seqloom.models.classifier import TokenEmbedding
from seqloom.models.encoder import BidirectionalEncoder, DecoderConfig, Encoder, PrenetConfig, build_stack
from seqloom.models.encoder_decoder import AttentionConfig, Bridge, EncoderDecoder, build_encoder_decoder
from seqloom.models.ensemble import Ensemble
from seqloom.models.generation import (
    SUPPRESSED,
    Candidate,
    format_nbest,
    generate,
    nbest_candidates,
    teacher_forced_scores,
    teacher_forcing_loss,
)
from seqloom.models.guided_generation import generate_guided
from seqloom.models.pretrained.combined import CombinedInput
from seqloom.models.pretrained.pretrained import PretrainedConfig, PretrainedInputs
from seqloom.models.scheduled_sampling import ScheduledSampling
from seqloom.models.transcription.search_guide import LanguageModelConfig, build_guide
from seqloom.tasks.language_model import load_language_model
from seqloom.tasks.task import Loss, Predictions, Task, TextEncoding, require_fitted, with_readable_tokens

if TYPE_CHECKING:
    from seqloom.onnx.exported import OnnxModel

BASELINE_EXAMPLES = 1000  # on which the better baseline is chosen
MARGIN = 1.5  # maximum length relative to what 99.9 % of the training targets need


@dataclass(frozen=True, slots=True)
class Translation:
    """The best translation."""

    text: str
    score: float
    tokens: list[str]
    log_probabilities: list[float]  # one per token, and one for the end token if the hypothesis is finished
    nbest: list[Candidate]  # the n-best list, best first
    target_log_probabilities: list[float]  # of the reference tokens and the end under teacher forcing
    target_correct: list[bool]  # whether each of them was the most probable one; both are empty without a reference

    unknown: list[str] = field(default_factory=list)  # tokens of the source that the model does not know

    def __str__(self) -> str:
        return format_nbest(self.nbest) if len(self.nbest) > 1 else self.text


LARGEST_FACTOR = 1000.0
"""Target tokens per source token."""


class Learned(ConfigSection):
    """Vocabularies of the training texts."""

    source: Tokenizer
    target: Tokenizer | None  # None: the source tokenizer (shared vocabulary)
    vectors: PretrainedInputs | None = None  # pretrained vectors of the source
    ratio: float = Field(ge=0, le=LARGEST_FACTOR)  # target tokens per source token, 99.9th percentile


class MaxLength(ConfigSection):
    """Maximum length of an output: factor × source tokens + offset."""

    factor: float = Field(
        0.0,
        ge=0,
        le=LARGEST_FACTOR,
        description="Output tokens per source token (0: 1.5 times the ratio seen in training).",
    )
    offset: int = Field(10, ge=1, le=10_000, description="Additional tokens, including the end token.")


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


class Translate(Task):
    """Translate sequences into other sequences: sentences, pronunciations, commands."""

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
    source_column: int | str = Field(
        "", description="Column with the sources: name, or index from 0 (empty: by name, or else the first)."
    )
    target_column: int | str = Field(
        "", description="Column with the targets: name or index (empty: by name, or else the second)."
    )
    source: TextConfig = Field(default_factory=TextConfig, description="Tokenisation of the source.")
    target: TextConfig = Field(default_factory=TextConfig, description="Tokenisation of the target.")
    shared_vocab: bool = Field(
        default=False,
        description="Use one vocabulary and one embedding for both sides, tokenised by the settings of task.source.",
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
        self.lm.check(self.search)
        if self.constrain and (self.lexicon or self.lm.model):
            raise ValueError("constrain lists whole outputs and cannot be combined with a lexicon or a language model")
        return self

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

    def read(self, source: Path | Sequence[Any]) -> Iterator[Pair]:
        """Read a file, or Python values: sources, or tuples of a source and its target."""
        return self._reader().read(source)

    def read_inputs(self, source: Path | Sequence[Any]) -> Iterator[Pair]:
        return self._reader().read_inputs(source)

    def resolve(self, source: Path | Sequence[Any]) -> tuple[Self, tuple[str, ...]]:
        settings, note = self._reader().inspect(source)
        return self.model_copy(update=settings), (note,) if note else ()

    def _reader(self) -> PairReader:
        names = ("format", "encoding", "separator", "source_column", "target_column")
        return PairReader(
            **{name: getattr(self, name) for name in names},
            source_length=self.source.measure,
            target_length=self._target_text.measure,
        )

    def fit(self, examples: Iterable[Pair]) -> Self:
        sources, targets, ratios = [], [], []
        for example in examples:
            if example.target is None:
                advice = "separate them by a tab, set task.separator, or give two files as train.{en,de}.txt"
                raise DataError(example.location, f"no target; training needs a target for each source: {advice}")
            sources.append(example.source)
            targets.append(example.target)
            ratios.append(example.lengths[1] / max(example.lengths[0], 1))
        if not sources:
            raise self._no_examples()
        if not any(targets):
            raise DataError(self.train, "all targets are empty; set task.separator, or task.target_column")
        language = self.pretrained.language(self.source.unit)
        texts = [*sources, *targets] if self.shared_vocab else sources
        source = self.pretrained.fit(self.source, texts, language, specials=(END,))
        target = None if self.shared_vocab else self.target.fit(targets, specials=(END,))
        ratio = float(np.quantile(ratios, 0.999))
        vectors = self.pretrained.load(source.vocabulary.tokens, language)
        learned = Learned(source=source, target=target, vectors=vectors, ratio=ratio)
        return self.model_copy(update={"learned": learned})

    def input_text(self, example: Pair) -> str:
        return example.source

    def with_predicted_target(self, example: Pair, prediction: Translation) -> Pair:
        return replace(example, target=prediction.text)

    def input_length(self, example: Pair) -> int:
        return example.lengths[0]

    @property
    def length_unit(self) -> str:
        return self.source.measured_unit

    def summarize_example(self, example: Pair) -> ExampleSummary:
        sides = zip(("source", "target"), (example.source, example.target), example.lengths, strict=True)
        return ExampleSummary(
            content=example.source.encode(),
            target=example.target or "",
            labelled=example.target is not None,
            lengths=[(name, length) for name, text, length in sides if text is not None],
        )

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

    def collate(self, examples: Sequence[Pair]) -> Batch:
        learned, end = self.fitted, self._end
        sources = [learned.source.encode(example.source) for example in examples]
        inputs = pad([np.array([*(text[::-1] if self.reverse_source else text), end]) for text in sources])
        if learned.vectors is not None:
            rows = [learned.source.cased_tokens(example.source) for example in examples]
            pretrained = learned.vectors.collate(rows, end=True, reverse=self.reverse_source)
            inputs = Padded(cast(Any, CombinedInput(inputs.values, pretrained, inputs.mask)), inputs.mask)
        if any(example.target is None for example in examples):
            return Batch(inputs, None, 0, examples=tuple(examples))
        target = pad([np.array([*self._target_tokenizer.encode(example.target or ""), end]) for example in examples])
        return Batch(inputs, target, int(target.mask.sum()), examples=tuple(examples))

    def build_model(self) -> EncoderDecoder:
        learned = self.fitted
        embed = Embedding(len(learned.source.vocabulary), self.embedding_size, dropout=self.input_dropout)
        tokens = None if self.pretrained.replace_embeddings else TokenEmbedding(embed, dropout=self.word_dropout)
        inputs, size = self.pretrained.build_embedding(learned.vectors, tokens, size=self.embedding_size)
        encoder_layer = build_stack(self.prenet, self.encoder, size)
        encoder = Encoder(inputs, encoder_layer, dropout=self.encoder.dropout)
        if not self.shared_vocab:
            vocabulary = self._target_tokenizer.vocabulary
            embed = Embedding(len(vocabulary), self.embedding_size, dropout=self.input_dropout)
        return build_encoder_decoder(
            encoder,
            embed,
            self.decoder,
            attention=self.attention,
            encoder_layer=encoder_layer,
            bridge=self.bridge,
            tied=self.tie_embeddings,
            scheduled_sampling=self.scheduled_sampling,
        )

    def loss(self, model: Any, batch: Batch) -> Loss:
        self._require_target(batch)
        total = teacher_forcing_loss(
            model, model.start(*batch.inputs), batch.target, end=self._end, smoothing=self.label_smoothing
        )
        return Loss(total, batch.items)

    def encode(self, model: Any, batch: Batch) -> Memory:
        """Of the source; the end token is an element, too."""
        memory: Memory = model.encoder(*batch.inputs)
        return memory

    def predict(self, model: Any, batch: Batch) -> Predictions:
        memory: Memory = model.encoder(*batch.inputs)
        end = self._end
        lengths: Tensor | int = self._max_lengths(batch.inputs.lengths)
        tree = None
        if self.constrain:
            tree, lengths = self._constraints
        guided = generate_guided(
            model.decoder,
            memory,
            self.search,
            guide=self._guide,
            vocab_size=len(self._target_tokenizer.vocabulary),
            end=end,
            lengths=lengths,
            suppress=SUPPRESSED,
            tree=tree,
        )
        nbest = [[hypothesis for hypothesis, *_ in row] for row in guided]
        forced: list[tuple[list[float], list[bool]]] = [([], [])] * len(nbest)
        if batch.target is not None:
            forced = teacher_forced_scores(model.decoder, memory, batch.target, end=end)
        answers = []
        unknown = [self.fitted.source.unknown_tokens(example.source) for example in batch.examples]
        for hypotheses, (target, correct), tokens in zip(nbest, forced, unknown, strict=True):
            candidates = nbest_candidates(hypotheses, self._target_tokenizer)
            best = candidates[0]
            fields = (best.text, best.score, best.tokens, best.log_probabilities, candidates, target, correct)
            answers.append(Translation(*fields, tokens))
        return Predictions(answers)

    def onnx_model(self, model: Any) -> "OnnxModel":
        """The encoder-decoder with greedy search, and its parts for beam search."""
        from seqloom.onnx.encoder_decoder import Limits
        from seqloom.onnx.inputs import token_input
        from seqloom.onnx.search import ModelInput, feed_tokens, generator

        if self.pretrained or self._guide != Guide() or self.constrain:
            raise ValueError(
                "a translator with task.pretrained, task.constrain, task.lexicon or task.lm cannot be exported to "
                "ONNX; train one without them, or serve its run (seqloom serve)"
            )

        def greedy(examples: Sequence[Pair]) -> tuple[Any, Any]:
            inputs = self.collate(examples).inputs
            lengths = self._max_lengths(inputs.lengths)
            options: dict[str, Any] = {"end": self._end, "lengths": lengths, "suppress": SUPPRESSED}
            return generate(model.decoder, model.encoder(*inputs), Greedy(), **options), lengths

        source, target = (text.model_dump(mode="json") for text in (self.fitted.source, self._target_tokenizer))
        entry = ModelInput(
            partial(token_input, embed=model.encoder.embed),
            {"kind": "source", "tokenizer": source, "reverse": self.reverse_source, "end": self._end},
            partial(feed_tokens, self.collate),
        )
        output = {"kind": "tokens", "tokenizer": target, "search": self.search.model_dump(mode="json")}
        return generator(
            model,
            entry,
            limits=Limits(self.max_length.factor or MARGIN * self.fitted.ratio, self.max_length.offset, shift=1),
            end=self._end,
            suppress=SUPPRESSED,
            generate=greedy,
            description={"task": self.name, "output": output},
        )

    def to_json(self, prediction: Translation) -> dict[str, Any]:
        return with_readable_tokens(asdict(prediction), self._target_tokenizer)

    @cached_property
    def _guide(self) -> Guide:
        """The lexicon and the language model of the search."""
        options: dict[str, Any] = {"search": self.search, "file_encoding": self.encoding}
        text, load_run = self._target_tokenizer, load_language_model
        return build_guide(text, self.lexicon, self.lm, load_run=load_run, **options) or Guide()

    @property
    def prediction_notes(self) -> tuple[str, ...]:
        return self._guide.notes

    @cached_property
    def _constraints(self) -> tuple[PrefixTree, int]:
        """The allowed outputs as a tree, and the length of the longest including the end token."""
        path = resolve(self.constrain)
        outputs = [self._target_tokenizer.encode(text) for _, text in lines(path, encoding=self.encoding)]
        known = [tokens for tokens in outputs if UNKNOWN not in tokens]
        if not known:
            raise DataError(str(path), "contains no output whose tokens all occur in the training data")
        return PrefixTree(known, end=self._end), max(map(len, known)) + 1

    def _max_lengths(self, lengths: Tensor) -> Tensor:  # (B,) → (B,)
        """The maximum length of each output; the end token of the source does not count."""
        factor = self.max_length.factor or MARGIN * self.fitted.ratio
        return ((lengths - 1) * factor).ceil().long() + self.max_length.offset

    def score(self, predictions: Sequence[Translation], examples: Sequence[Pair]) -> dict[str, Any]:
        """Error rates score a repeated source once, against its nearest target; BLEU and chrF score every pair."""
        references = self._references(examples)
        hypotheses = [answer.text for answer in predictions]
        errors = self._errors(hypotheses, examples)
        scores: dict[str, Any] = {}
        details: dict[str, Any] = {}
        if self._target_text.unit != "characters" or self.metric in ("bleu", "bleu_lower", "chrf"):
            for name, corpus in (
                ("bleu", metrics.bleu(hypotheses, references)),
                ("bleu_lower", metrics.bleu(hypotheses, references, lowercase=True)),
                ("chrf", metrics.chrf(hypotheses, references)),
            ):
                scores[name] = corpus.score
                details |= {f"{name}_interval": list(corpus.interval), f"{name}_signature": corpus.signature}
        for name, sums in self._chosen_sums(hypotheses, references).items():
            scores = {name: sums.whole, **scores}
            details[f"{name}_interval"] = list(quantiles(bootstrap(sums)))
        free = metrics.edit_errors(
            range(len(references)),
            [answer.tokens for answer in predictions],
            [self._target_tokenizer.tokens(text) for text in references],
        )
        values = [value for answer in predictions for value in answer.target_log_probabilities]
        correct = [hit for answer in predictions for hit in answer.target_correct[:-1]]
        forced_accuracy = sum(correct) / max(len(correct), 1)
        return scores | {
            "exact_match": errors.exact_match,
            "token_error_rate": errors.token_error_rate,
            "loss": -math.fsum(values) / max(len(values), 1),
            "forced_accuracy": forced_accuracy,
            "free_accuracy": 1 - free.token_error_rate,
            "gap": forced_accuracy - (1 - free.token_error_rate),
            "exact_match_interval": list(errors.exact_match_interval),
            "token_error_rate_interval": list(errors.token_error_interval),
            **details,
            "examples": len(references),
            "sources": len(errors.errors),
        }

    def _chosen_sums(self, hypotheses: Sequence[str], references: Sequence[str]) -> dict[str, MetricSums]:
        """The metrics of summaries, trees or programs, if one of them is chosen; the main metric last."""
        chosen = self.main_metric
        if chosen == "bracket_f1":
            return {chosen: brackets.bracket_sums(hypotheses, references)}
        if chosen == "execution":
            return {chosen: turtle.execution_sums(hypotheses, references)}
        if chosen in ROUGE:
            names = [*(name for name in reversed(ROUGE) if name != chosen), chosen]
            return {name: rouge_sums(hypotheses, references, name) for name in names}
        return {}

    def check_targets(self, examples: Sequence[Pair]) -> None:
        """A metric of trees or programs needs targets that are some."""
        for example in examples:
            if example.target is None:
                continue
            if self.main_metric == "bracket_f1" and brackets.parse(example.target) is None:
                raise DataError(example.location, f'the metric "bracket_f1" needs trees, found {quote(example.target)}')
            if self.main_metric == "execution":
                try:
                    turtle.run(example.target)
                except turtle.ProgramError as error:
                    raise DataError(
                        example.location, f'the metric "execution" needs turtle programs: {error}'
                    ) from error

    def degenerate_predictions(self, predictions: Sequence[Translation], examples: Sequence[Pair]) -> str:
        text = constant_answer([answer.text for answer in predictions], [example.target for example in examples])
        return "" if text is None else f"Every translation is {quote(text)}"

    def baseline_targets(self, example: Pair) -> Iterable[str]:
        return () if example.target is None else (example.target,)

    def fit_baseline(self, counts: Counter[str], examples: Sequence[Pair]) -> Baseline | None:
        if not counts or self.main_metric == "loss":
            return None
        answer = most_frequent(counts)
        copying = Baseline(name="copy of the source", copies=True)
        constant = Baseline(name=f"most frequent target, {quote(answer)}", answer=answer)
        sign = 1 if self.higher_is_better else -1
        examples = examples[:BASELINE_EXAMPLES]
        if not examples:
            return copying
        return max(copying, constant, key=lambda each: sign * self.score_baseline(each, examples)[self.main_metric])

    def score_baseline(self, baseline: Baseline, examples: Sequence[Pair]) -> dict[str, float]:
        hypotheses = [example.source if baseline.copies else baseline.answer for example in examples]
        if self._target_text.lowercase:
            hypotheses = [text.lower() for text in hypotheses]
        answers = [Translation(text, 0.0, [], [], [], [], []) for text in hypotheses]
        return {self.main_metric: self.metric_sums(answers, examples).whole}

    def metric_sums(self, predictions: Sequence[Translation], examples: Sequence[Pair]) -> MetricSums:
        """For exact matches and errors there is one row per distinct source."""
        hypotheses, references = [answer.text for answer in predictions], self._references(examples)
        if chosen := self._chosen_sums(hypotheses, references):
            return chosen[self.main_metric]
        if self.main_metric == "chrf":
            return metrics.chrf(hypotheses, references).sums
        if self.main_metric.startswith("bleu"):
            return metrics.bleu(hypotheses, references, lowercase=self.main_metric == "bleu_lower").sums
        if self.main_metric == "loss":
            values = [answer.target_log_probabilities for answer in predictions]
            return ratio_of_sums([-math.fsum(row) for row in values], [len(row) for row in values])
        errors = self._errors(hypotheses, examples)
        if self.main_metric == "exact_match":
            return ratio_of_sums(~errors.wrong, np.ones(len(errors.wrong)))
        return ratio_of_sums(errors.errors, errors.tokens)

    @property
    def custom_layer_field(self) -> str:
        return "encoder"

    def ensemble_conflict(self, other: Task) -> str:
        if isinstance(other, Translate) and other.reverse_source != self.reverse_source:
            return "read their sources in different directions"
        return super().ensemble_conflict(other)

    def ensemble(self, models: Sequence[nn.Module]) -> Ensemble:
        return Ensemble(models)

    def _references(self, examples: Sequence[Pair]) -> list[str]:
        references = []
        for example in examples:
            if example.target is None:
                raise self._missing_target(example, "evaluation")
            references.append(example.target.lower() if self._target_text.lowercase else example.target)
        return references

    def _errors(self, hypotheses: Sequence[str], examples: Sequence[Pair]) -> metrics.EditErrors:
        split: Callable[[str], Any] = list if self._target_text.unit == "characters" else str.split
        if self._target_text.unit == "words" and self._target_text.split == "lines":
            split = split_lines
        sources = [example.source for example in examples]
        return metrics.edit_errors(sources, [*map(split, hypotheses)], [*map(split, self._references(examples))])

    def input_tokens(self, example: Pair) -> list[str]:
        tokens = text_tokens(self.fitted.source, example.source, [])
        return [*(tokens[::-1] if self.reverse_source else tokens), END]

    def explain(self, model: Any, example: Pair, *, beam: bool = False, heads: bool = False) -> Explanation:
        """The n-best list, and the attention over the source tokens, in the order of the text."""
        notes: list[str] = []
        tokens = text_tokens(self.fitted.source, example.source, notes)
        order = [*range(len(tokens))[::-1], len(tokens)] if self.reverse_source else []
        source = DecoderSource(example.source, [*tokens, END], order, notes)
        encoding = self._target_tokenizer
        return explain_generation(self, model, example, source=source, encoding=encoding, beam=beam, heads=heads)

    def trace_gates(self, model: Any, example: Pair) -> list[LabelledTrace]:
        tokens = self.input_tokens(example)
        return trace_generation(self, model, example, source_tokens=tokens, encoding=self._target_tokenizer)
