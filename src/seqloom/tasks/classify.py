"""Classification: one label for a whole text or sequence of vectors."""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar, Literal, Self, cast

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field, model_validator
from torch import Tensor, nn

from seqloom.config import ConfigSection, Document
from seqloom.data.batch import Batch, Padded, pad
from seqloom.data.dataset_summary import ExampleSummary
from seqloom.data.feature_statistics import RunningMoments
from seqloom.data.length_limit import TooLong
from seqloom.data.preview import DataPreview
from seqloom.data.readers.labelled import Format, LabelledReader, LabelledSequence, LabelType
from seqloom.data.readers.text_files import DataError
from seqloom.data.readers.vectors import Missing
from seqloom.data.size_defaults import DEPENDS_ON_SIZE, training_defaults
from seqloom.data.text.detection import SPLIT_DEFAULT, TextSample
from seqloom.data.text.tokenizers import TextConfig, Tokenizer
from seqloom.data.text.vocabulary import Labels, labels_problem
from seqloom.formats import format_percent
from seqloom.insight.attention_maps import all_heads, mean_of_heads, self_attention
from seqloom.insight.attribution import Attribution, attribute
from seqloom.insight.explanation import Explanation, TokenValues
from seqloom.insight.token_names import text_tokens, word_groups
from seqloom.layers.dropout import Dropout
from seqloom.layers.embedding import Embedding
from seqloom.metrics.confidence import MetricSums, ratio_of_sums, wilson_interval
from seqloom.metrics.labels import accuracy, confusions, count_matches, macro_f1, report
from seqloom.metrics.learning import constant_answer
from seqloom.models.baseline import Baseline, most_frequent
from seqloom.models.classifier import Classifier, GaussianNoise, TokenEmbedding, log_odds
from seqloom.models.encoder import BidirectionalEncoder, Encoder, PrenetConfig, build_stack
from seqloom.models.pooling import POOLINGS
from seqloom.models.pretrained.combined import CombinedInput
from seqloom.models.pretrained.pretrained import PretrainedConfig, PretrainedInputs
from seqloom.tasks.task import Loss, Predictions, Task, TextEncoding, require_fitted

UNSEEN = -1
"""Id of all labels that do not occur in the training data."""


class Learned(ConfigSection):
    """Labels, and the vocabulary or the scales of the training data."""

    labels: Labels
    weights: tuple[float, ...]  # weight of each label in the loss
    text: Tokenizer | None = None  # None: the inputs are vectors
    vectors: PretrainedInputs | None = None
    means: tuple[float, ...] = ()  # one per channel of the vectors
    deviations: tuple[float, ...] = ()


class LabelProbabilities(Mapping[str, float]):
    """The probability of each label in little memory: thousands of labels for thousands of examples fit."""

    __slots__ = ("_ids", "_row")

    def __init__(self, ids: dict[str, int], row: NDArray[np.float64]) -> None:
        self._ids, self._row = ids, row  # ids are shared by all examples

    def __getitem__(self, label: str) -> float:
        return float(self._row[self._ids[label]])

    def __iter__(self) -> Iterator[str]:
        return iter(self._ids)

    def __len__(self) -> int:
        return len(self._ids)

    def __repr__(self) -> str:
        return repr(dict(self))

    def __deepcopy__(self, memo: object) -> dict[str, float]:
        """A plain dictionary, which ``asdict`` takes for JSON."""
        return dict(self)


@dataclass(frozen=True, slots=True)
class Classification:
    """The most probable label."""

    label: Any  # a text, or as task.label_type says
    probability: float
    probabilities: Mapping[Any, float]  # probability of every label

    def __str__(self) -> str:
        return f"{self.label}\t{self.probability:.4f}"


class Classify(Task):
    """Assign one label to each text or sequence of vectors."""

    depends_on_data: ClassVar[Mapping[str, str]] = DEPENDS_ON_SIZE | {
        "task.text.unit": "characters if the texts are single words such as names, otherwise words",
        "task.text.split": SPLIT_DEFAULT,
        "task.embedding_size": "128, for characters 64",
        "task.input_dropout": "0.3, for characters 0.1, for vectors 0",
        "task.word_dropout": "0.1 for words, otherwise 0",
        "task.noise": "0.1 for vectors, 0 for texts",
        "task.prenet.layers": "1 for vectors, 0 for texts",
        "task.prenet.size": "64 for vectors",
        "task.prenet.window": "5 for vectors",
    }
    option_fields: ClassVar[Mapping[str, str]] = {"format": "format", "encoding": "encoding"}
    too_long: ClassVar[tuple[TooLong, ...]] = ("truncate", "skip")

    name: Literal["classify"] = "classify"
    format: Format = Field(
        default="auto",
        description="File format: lines (label, whitespace, text; also fastText), columns (CSV, TSV, Excel, Parquet), "
        "jsonl, folder (one .txt file or one folder per label), numbers (a sequence per row), long (a time step per "
        "row), ts, npz; auto: by suffix and first lines.",
    )
    encoding: TextEncoding = Field(
        default="utf-8", description="Text encoding of the files, such as utf-8, latin-1, cp1252."
    )
    separator: str = Field(
        default="", description="Column separator (empty: comma, semicolon, tab or |, as the first lines show)."
    )
    text_column: int | str = Field(
        default="",
        description="Column with the texts: name, or index from 0, negative from the end (empty: by name and content).",
    )
    label_column: int | str = Field(
        default="", description="Column with the labels: name or index (empty: by name and content)."
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
    text: TextConfig = Field(default_factory=TextConfig, description="Tokenisation.")
    embedding_size: int = Field(default=128, ge=1, description="Size of the token embeddings.")
    pretrained: PretrainedConfig = Field(
        default_factory=PretrainedConfig, description="Pretrained vectors, in addition to the learned embedding."
    )
    word_dropout: float = Field(
        default=0.0, ge=0, lt=1, description="Fraction of tokens replaced by <unk> in training."
    )
    input_dropout: float = Field(default=0.0, ge=0, lt=1, description="Dropout on the input vectors.")
    normalize: bool = Field(
        default=True, description="Scale each channel to mean 0 and standard deviation 1 over the training data."
    )
    noise: float = Field(
        default=0.0, ge=0, description="Standard deviation of Gaussian noise added to the channels in training."
    )
    prenet: PrenetConfig = Field(
        default_factory=PrenetConfig, description="Feed-forward or convolutional layers before the encoder."
    )
    encoder: BidirectionalEncoder = Field(
        default_factory=BidirectionalEncoder, description="Encoder: recurrent or Transformer layers."
    )
    pooling: Literal["last", "ends", "mean", "max", "attention"] = Field(
        default="max",
        description="How the vectors of all time steps become one; ends: the final states of both directions.",
    )
    class_weights: Literal["none", "balanced"] | dict[str, float] = Field(
        default="none",
        description="Weights of the labels in the loss; balanced: inversely proportional to their frequency; a table: "
        "{ label = weight, … }, 1 for labels that are not listed.",
    )
    label_smoothing: float = Field(
        default=0.0, ge=0, lt=1, description="Probability mass spread over all labels (0 disables label smoothing)."
    )

    learned: Learned | None = Field(default=None, exclude=True)

    @classmethod
    def defaults(cls, document: Document, data: DataPreview | None) -> dict[str, Any]:
        values: dict[str, Any] = {"task.encoder.dropout": 0.4}
        content = data.head[0].content if data and data.head else ""
        if isinstance(content, str):
            texts = TextSample.of(str(example.content) for example in data.head) if data else None
            unit = document.get("task.text.unit") or ("characters" if texts and texts.single_words else "words")
            if unit == "words" and texts:
                values["task.text.split"] = texts.split
            values |= {"task.text.unit": unit, "task.input_dropout": 0.1 if unit == "characters" else 0.3}
            if unit == "characters":
                values["task.embedding_size"] = 64
            else:
                values["task.word_dropout"] = 0.1
        else:
            values |= {"task.noise": 0.1, "task.prenet.layers": 1, "task.prenet.size": 64, "task.prenet.window": 5}
        return values | training_defaults(document, data.examples if data else None)

    @model_validator(mode="after")
    def _check(self) -> Self:
        custom = self.encoder.custom_layer or self.encoder.layer_factory
        if self.pooling == "ends" and not self.encoder.bidirectional and not custom:
            raise ValueError('pooling "ends" needs encoder.bidirectional = true; use "last" for one direction')
        return self

    @property
    def main_metric(self) -> str:
        return "accuracy"

    def read(self, source: Path | Sequence[Any]) -> Iterator[LabelledSequence]:
        """Read a file, or Python values: texts or arrays (T, D), or tuples of one of these and its label."""
        return self._reader().read(source)

    def resolve(self, source: Path | Sequence[Any]) -> tuple[Self, tuple[str, ...]]:
        settings, note = self._reader().inspect(source)
        if not isinstance(source, Path) and self.label_type == "text":
            settings["label_type"] = self._reader().label_type(source)
        return self.model_copy(update=settings), (note,) if note else ()

    def as_given(self, answer: Classification) -> Classification:
        if self.label_type == "text":
            return answer
        convert: Callable[[str], Any] = int if self.label_type == "integer" else "True".__eq__
        probabilities = {convert(label): value for label, value in answer.probabilities.items()}
        return replace(answer, label=convert(answer.label), probabilities=probabilities)

    def input_text(self, example: LabelledSequence) -> str:
        return example.content if isinstance(example.content, str) else ""

    def _reader(self) -> LabelledReader:
        names = ("format", "encoding", "separator", "label_column", "text_column", "group_column", "time_column")
        learned = self.learned
        return LabelledReader(
            **{name: getattr(self, name) for name in names},
            label_separator=self.label_separator,
            channels=self.channels,
            missing=self.missing,
            measure=self.text.measure,
            known=None if learned is None else learned.labels.ids,
            numeric=learned is not None and learned.text is None,
        )

    def fit(self, examples: Iterable[LabelledSequence]) -> Self:
        counts: Counter[str] = Counter()
        checked = self._checked(examples, counts)
        first = next(checked, None)
        if first is None:
            raise self._no_examples()
        rest = chain([first], checked)
        if isinstance(first.content, str):
            language = self.pretrained.language(self.text.unit)
            text = self.pretrained.fit(self.text, (str(example.content) for example in rest), language)
            parts: dict[str, Any] = {"text": text}
            parts["vectors"] = self.pretrained.load(text.vocabulary.tokens, language)
        else:
            if self.pretrained:
                raise DataError(first.location, "found vectors; task.pretrained works with texts only")
            means, deviations = _moments(rest)
            if not self.normalize:
                means, deviations = (0.0,) * len(means), (1.0,) * len(means)
            parts = {"means": means, "deviations": deviations}
        if self.check_labels and (problem := labels_problem(counts)):
            column = f" (task.label_column = {self.label_column!r})" if self.label_column != "" else ""
            raise DataError(
                self.train, f"{problem}{column}; is it the right column? task.check_labels = false trains nevertheless"
            )
        labels = Labels.of(counts)
        learned = Learned(labels=labels, weights=self._weights(labels, counts), **parts)
        return self.model_copy(update={"learned": learned})

    def _checked(self, examples: Iterable[LabelledSequence], counts: Counter[str]) -> Iterator[LabelledSequence]:
        """Yield the examples, count their labels, and check that all have a label and are of the same kind."""
        texts = None
        for example in examples:
            if example.label is None:
                raise self._missing_target(example, "training")
            texts = isinstance(example.content, str) if texts is None else texts
            if isinstance(example.content, str) is not texts:
                raise DataError(example.location, "found both texts and vectors; expected one of them")
            counts[example.label] += 1
            yield example

    def _weights(self, labels: Labels, counts: Counter[str]) -> tuple[float, ...]:
        if self.class_weights == "balanced":
            return tuple(counts.total() / (len(labels) * counts[name]) for name in labels.names)
        table = self.class_weights if isinstance(self.class_weights, dict) else {}
        for name, weight in table.items():
            labels.index(name, location="class_weights")
            if not 0 <= weight < math.inf:
                raise DataError("class_weights", f"the weight of {name!r} is {weight}, expected a finite number ≥ 0")
        return tuple(table.get(name, 1.0) for name in labels.names)

    def shorten(self, example: LabelledSequence, length: int, action: TooLong) -> Iterator[LabelledSequence]:  # noqa: ARG002
        content = example.content
        start = next(self.text.cut(content, length)) if isinstance(content, str) else content[:length]
        yield replace(example, content=start, length=length)

    def summarize_example(self, example: LabelledSequence) -> ExampleSummary:
        content, label = example.content, example.label
        values = None if isinstance(content, str) else content
        return ExampleSummary(
            content=content.encode() if isinstance(content, str) else content.tobytes(),
            target=label or "",
            labelled=label is not None,
            labels=() if label is None else (label,),
            values=values,
        )

    @property
    def fitted(self) -> Learned:
        return require_fitted(self.learned)

    def collate(self, examples: Sequence[LabelledSequence]) -> Batch:
        learned = self.fitted
        inputs = pad([self._elements(example, learned) for example in examples])
        if learned.vectors is not None and learned.text is not None:
            pretrained = learned.vectors.collate(
                [learned.text.cased_tokens(str(example.content)) for example in examples]
            )
            inputs = Padded(cast(Any, CombinedInput(inputs.values, pretrained, inputs.mask)), inputs.mask)
        labels = [learned.labels.ids.get(example.label, UNSEEN) for example in examples if example.label is not None]
        complete = len(labels) == len(examples)
        return Batch(inputs, torch.tensor(labels) if complete else None, len(labels) - labels.count(UNSEEN))

    def _elements(self, example: LabelledSequence, learned: Learned) -> NDArray[Any]:
        content = example.content
        if isinstance(content, str):
            if learned.text is None:
                raise DataError(example.location, "found a text; the model was trained on vectors")
            return np.array(learned.text.encode(content), dtype=np.int64)
        if learned.text is not None:
            raise DataError(example.location, "found vectors; the model was trained on texts")
        if content.shape[1] != len(learned.means):
            raise DataError(example.location, f"expected {len(learned.means)} channels, found {content.shape[1]}")
        scaled: NDArray[Any] = (content - np.array(learned.means)) / np.array(learned.deviations)
        return scaled.astype(np.float32)

    def build_model(self) -> Classifier:
        learned = self.fitted
        embed: nn.Module
        if learned.text is not None:
            size = self.embedding_size
            embedding = Embedding(len(learned.text.vocabulary), size, dropout=self.input_dropout)
            tokens = (
                None if self.pretrained.replace_embeddings else TokenEmbedding(embedding, dropout=self.word_dropout)
            )
            embed, size = self.pretrained.build_embedding(learned.vectors, tokens, size=size)
        else:
            size = len(learned.means)
            embed = nn.Sequential(GaussianNoise(self.noise), Dropout(self.input_dropout))
        encoder = Encoder(embed, build_stack(self.prenet, self.encoder, size))
        pooling = POOLINGS[self.pooling](encoder.size)
        return Classifier(encoder, pooling, labels=len(learned.labels), dropout=self.encoder.dropout)

    def loss(self, model: nn.Module, batch: Batch) -> Loss:
        self._require_target(batch)
        scores: Tensor = model(*batch.inputs).log_softmax(dim=1)
        seen = batch.target != UNSEEN
        target = batch.target.clamp(min=0)
        losses = -(1 - self.label_smoothing) * scores.gather(1, target.unsqueeze(1)).squeeze(1)
        losses = losses - self.label_smoothing * scores.mean(dim=1)
        weights = scores.new_tensor(self.fitted.weights)[target] * seen
        return Loss((weights * losses).sum(), batch.items)

    def predict(self, model: nn.Module, batch: Batch) -> Predictions:
        labels = self.fitted.labels
        rows = model(*batch.inputs).detach().double().softmax(dim=1).cpu().numpy()
        answers = []
        for row in rows:
            probabilities, label = LabelProbabilities(labels.ids, row.copy()), labels.names[int(row.argmax())]
            answers.append(Classification(label, probabilities[label], probabilities))
        return Predictions(answers)

    @property
    def custom_layer_field(self) -> str:
        return "encoder"

    def score(self, predictions: Sequence[Classification], examples: Sequence[LabelledSequence]) -> dict[str, Any]:
        """Labels that do not occur in the training data count as errors, but not in the loss."""
        truth, names = [], list(self.fitted.labels.names)
        for example in examples:
            if example.label is None:
                raise self._missing_target(example, "evaluation")
            truth.append(example.label)
        predicted = [answer.label for answer in predictions]
        losses = [
            -math.log(max(answer.probabilities[label], 1e-300))
            for label, answer in zip(truth, predictions, strict=True)
            if label in answer.probabilities
        ]
        names += sorted(set(truth) - set(names))
        correct = sum(left == right for left, right in zip(truth, predicted, strict=True))
        return {
            "accuracy": accuracy(truth, predicted),
            "macro_f1": macro_f1(truth, predicted),
            "loss": sum(losses) / max(len(losses), 1),
            "accuracy_interval": list(wilson_interval(correct, len(truth))),
            "examples": len(truth),
            "unseen": len(truth) - len(losses),
            "per_label": report(names, count_matches(truth, predicted, names)),
            "confusions": confusions(truth, predicted),
        }

    def degenerate_predictions(
        self, predictions: Sequence[Classification], examples: Sequence[LabelledSequence]
    ) -> str:
        label = constant_answer([answer.label for answer in predictions], [example.label for example in examples])
        return "" if label is None else f"Every prediction is the label {label!r}"

    def baseline_targets(self, example: LabelledSequence) -> Iterable[str]:
        return () if example.label is None else (example.label,)

    def fit_baseline(self, counts: Counter[str], examples: Sequence[LabelledSequence]) -> Baseline | None:  # noqa: ARG002
        if not counts:
            return None
        label, total = most_frequent(counts), counts.total()
        probabilities = {name: times / total for name, times in counts.items()}
        return Baseline(name=f"most frequent label, {label!r}", answer=label, probabilities=probabilities)

    def score_baseline(self, baseline: Baseline, examples: Sequence[LabelledSequence]) -> dict[str, float]:
        probability = baseline.probabilities.get(baseline.answer, 1.0)
        answer = Classification(baseline.answer, probability, baseline.probabilities)
        scores = self.score([answer] * len(examples), examples)
        return {name: scores[name] for name in ("accuracy", "macro_f1", "loss")}

    def share_learned(self, other: Self) -> Self:
        """The labels are those of the new data."""
        own = {name: getattr(self.fitted, name) for name in ("labels", "weights")}
        return self.model_copy(update={"learned": other.fitted.model_copy(update=own)})

    def check_targets(self, examples: Sequence[LabelledSequence]) -> None:
        labels = [(example.location, example.label) for example in examples if example.label is not None]
        self.fitted.labels.check_known(labels)

    def metric_sums(self, predictions: Sequence[Classification], examples: Sequence[LabelledSequence]) -> MetricSums:
        pairs = zip(predictions, examples, strict=True)
        return ratio_of_sums([answer.label == example.label for answer, example in pairs], [1] * len(examples))

    @property
    def inputs_are_files(self) -> bool:
        return self.fitted.text is None

    def input_tokens(self, example: LabelledSequence) -> list[str]:
        return [] if self.inputs_are_files else self._element_names(example, [])

    def _element_names(self, example: LabelledSequence, notes: list[str]) -> list[str]:
        """The tokens of a text, or the numbers of the time steps, counted from 1."""
        encoding = self.fitted.text
        if encoding is not None and isinstance(example.content, str):
            return text_tokens(encoding, example.content, notes)
        return [str(number) for number in range(1, len(example.content) + 1)]

    def explain(
        self,
        model: nn.Module,
        example: LabelledSequence,
        *,
        beam: bool = False,  # noqa: ARG002
        heads: bool = False,
    ) -> Explanation:
        """The label probabilities, and the pooling weight of each element or the attention that it receives."""
        batch = self.collate([example])
        predictions, layers, pooling = self_attention(model, lambda: self.predict(model, batch))
        (prediction,) = predictions.answers
        notes: list[str] = []
        tokens = self._element_names(example, notes)
        attention, token_values = mean_of_heads(layers, tokens, tokens), None
        if pooling is not None:
            token_values = TokenValues("pooling weight", tokens, pooling, 0.0)
        elif attention is not None:
            received = np.mean(attention.weights, axis=0).tolist()
            token_values = TokenValues(f"attention received, {attention.name}", tokens, received, 0.0)
        return Explanation(
            task=self.name,
            source=example.content if isinstance(example.content, str) else "",
            prediction=prediction,
            title=f"{prediction.label}, {format_percent(prediction.probability, 1)}",
            attention=attention,
            heads=all_heads(layers, tokens, tokens) if heads else [],
            token_values=token_values,
            label_probabilities=dict(sorted(prediction.probabilities.items(), key=lambda pair: -pair[1])),
            notes=notes,
        )

    @property
    def can_attribute(self) -> bool:
        return True

    def attribute(
        self,
        model: Any,
        example: LabelledSequence,
        *,
        prediction: Classification,
        method: str,
        target: str = "",
        word: str | int = "",
    ) -> Attribution:
        """How much each word, or each channel at each time step, raises or lowers the log-odds of a label."""
        if word != "":
            raise ValueError("word: a classifier gives the whole input one label; choose the label with target")
        label = target or prediction.label
        index = self.fitted.labels.index(label, location="target")
        inputs = self.collate([example]).inputs

        def score(vectors: Tensor) -> Tensor:
            memory = model.encoder.encode(vectors, inputs.mask.expand(len(vectors), -1))
            return log_odds(model.logits(memory), index)

        content, encoding = example.content, self.fitted.text
        return attribute(
            score,
            model.encoder.embed(inputs.values)[0],
            method=method,
            target=label,
            tokens=self._element_names(example, []),
            words=word_groups(encoding, content) if isinstance(content, str) and encoding is not None else (),
            signal=None if isinstance(content, str) else content,
        )


def _moments(examples: Iterable[LabelledSequence]) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and standard deviation of each channel."""
    moments = RunningMoments()
    for example in examples:
        values = np.asarray(example.content)
        if moments.size and values.shape[1] != moments.size:
            raise DataError(
                example.location, f"expected {moments.size} channels as in the first example, found {values.shape[1]}"
            )
        moments.add(values)
    return moments.means(), moments.deviations()
