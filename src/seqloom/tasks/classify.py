"""One label for a whole sequence: of a question its kind, of a name its language, of a movement what it is."""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar, Literal, Self, cast

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field, model_validator
from torch import Tensor, nn

from seqloom.config import ConfigSection
from seqloom.data.batch import Batch, Padded, pad
from seqloom.data.moments import RunningMoments
from seqloom.data.readers.labelled import Example, Format, Reader
from seqloom.data.readers.text_files import DataError
from seqloom.data.readers.vectors import Missing
from seqloom.data.text.tokenizers import TextConfig, Tokenizer
from seqloom.data.text.vocabulary import Labels
from seqloom.insight.attention_maps import all_heads, mean_of_heads, self_attention
from seqloom.insight.explanation import Explanation, TokenValues
from seqloom.insight.token_names import text_tokens
from seqloom.layers.dropout import Dropout
from seqloom.layers.embedding import Embedding
from seqloom.metrics.confidence import MetricSums, ratio_of_sums, wilson_interval
from seqloom.metrics.labels import Matches, accuracy, confusion, macro_f1, report
from seqloom.models.classifier import Classifier, GaussianNoise, TokenEmbedding
from seqloom.models.encoder import Encoder, PrenetConfig, RecurrenceConfig, build_stack
from seqloom.models.pooling import POOLINGS
from seqloom.models.pretrained.combined import CombinedInput
from seqloom.models.pretrained.pretrained import PretrainedConfig, PretrainedInputs
from seqloom.tasks.task import Loss, Predictions, Task, TextEncoding

UNSEEN = -1
"""Stands for a label that does not occur in the training data."""


class Learned(ConfigSection):
    """What the training examples hold."""

    labels: Labels
    weights: tuple[float, ...]  # of the labels, in the loss
    text: Tokenizer | None = None  # of texts
    vectors: PretrainedInputs | None = None
    means: tuple[float, ...] = ()  # of vectors, for each channel
    deviations: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class Classified:
    """The most probable label."""

    label: str
    probability: float
    probabilities: dict[str, float]  # of all labels

    def __str__(self) -> str:
        return f"{self.label}\t{self.probability:.4f}"


class Classify(Task):
    """Assign one label to each text or sequence of vectors."""

    option_fields: ClassVar[Mapping[str, str]] = {"format": "format", "encoding": "encoding"}

    name: Literal["classify"] = "classify"
    format: Format = Field(
        default="auto",
        description="lines (label, blank, text; also fastText), columns (TSV, CSV), jsonl, folder (one .txt file for "
        "each label, an example on each line), numbers (CSV), ts, npz; auto: by the name and the first lines.",
    )
    encoding: TextEncoding = Field(default="utf-8", description="Of texts, such as utf-8, latin-1, cp1252.")
    separator: str = Field(
        default="", description="Between columns; empty: a comma in .csv and numbers, otherwise a tab."
    )
    label_column: int | str = Field(
        default="",
        description="Column of the label: its number from 0 (below: from the end), or its name in the header or in the "
        'JSON object; empty: 0 of columns, -1 of numbers, "label" of JSON.',
    )
    text_column: int | str = Field(
        default="", description='The same for the text; empty: 1 of columns, "text" of JSON.'
    )
    label_separator: str = Field(
        default="", description='What ends a label: with ":", DESC:manner is DESC. Empty: nothing.'
    )
    channels: int = Field(default=1, ge=1, description="How many numbers of a row make one element (numbers).")
    missing: Missing = Field(
        default="error", description="A value that is missing is an error, or held: as the one before."
    )
    text: TextConfig = Field(default_factory=TextConfig, description="Tokenization.")
    embedding_size: int = Field(default=128, ge=1, description="Size of a symbol's vector.")
    pretrained: PretrainedConfig = Field(
        default_factory=PretrainedConfig, description="Pretrained vectors, in addition to the learned embedding."
    )
    word_dropout: float = Field(default=0.0, ge=0, lt=1, description="Share of symbols that are unknown in training.")
    input_dropout: float = Field(default=0.0, ge=0, lt=1, description="Dropout on the vectors that are read.")
    normalize: bool = Field(default=True, description="Each channel gets mean 0 and deviation 1, by the training data.")
    noise: float = Field(default=0.0, ge=0, description="Deviation of the noise on channels in training.")
    prenet: PrenetConfig = Field(
        default_factory=PrenetConfig, description="Feed-forward or convolutional layers before the encoder."
    )
    encoder: RecurrenceConfig = Field(default_factory=RecurrenceConfig, description="Encoder.")
    pooling: Literal["last", "ends", "mean", "max", "attention"] = Field(
        default="max",
        description="How the vectors of all elements become one; ends: both last states of two directions.",
    )
    class_weights: Literal["none", "balanced"] | dict[str, float] = Field(
        default="none", description="Weights in the loss: balanced (as much for each label), or { label = weight, … }."
    )
    label_smoothing: float = Field(
        default=0.0, ge=0, lt=1, description="Label smoothing: probability spread over all labels."
    )

    learned: Learned | None = Field(default=None, exclude=True)

    @model_validator(mode="after")
    def _fit_together(self) -> Self:
        recurrence = self.encoder
        if (
            self.pooling == "ends"
            and not recurrence.bidirectional
            and not (recurrence.custom_layer or recurrence.given)
        ):
            raise ValueError('pooling is "ends": that needs encoder.bidirectional = true; "last" takes the end of one')
        return self

    @property
    def main_metric(self) -> str:
        return "accuracy"

    def read(self, source: Path | Sequence[Any]) -> Iterator[Example]:
        """Of Python values: texts or arrays (T, D), or tuples (text or array, label)."""
        learned = self.learned
        options = {
            name: getattr(self, name) for name in ("format", "encoding", "separator", "label_column", "text_column")
        }
        reader = Reader(
            **options,
            label_separator=self.label_separator,
            channels=self.channels,
            missing=self.missing,
            measure=len if self.text.unit == "characters" else lambda text: len(text.split()),
            known=None if learned is None else learned.labels.numbers,
            numeric=learned is not None and learned.text is None,
        )
        return reader.read(source)

    def fit(self, examples: Iterable[Example]) -> Self:
        counts: Counter[str] = Counter()
        checked = _checked(examples, counts)
        first = next(checked, None)
        if first is None:
            raise DataError(self.train, "there are no examples to learn from")
        rest = chain([first], checked)
        if isinstance(first.content, str):
            language = self.pretrained.language(self.text.unit)
            text = self.pretrained.fit(self.text, (str(example.content) for example in rest), language)
            parts: dict[str, Any] = {"text": text}
            parts["vectors"] = self.pretrained.take(text.vocabulary.symbols, language)
        else:
            if self.pretrained:
                raise DataError(first.location, "found vectors; task.pretrained is for texts")
            means, deviations = _moments(rest)
            if not self.normalize:
                means, deviations = (0.0,) * len(means), (1.0,) * len(means)
            parts = {"means": means, "deviations": deviations}
        labels = Labels.of(counts)
        learned = Learned(labels=labels, weights=self._weights(labels, counts), **parts)
        return self.model_copy(update={"learned": learned})

    def _weights(self, labels: Labels, counts: Counter[str]) -> tuple[float, ...]:
        if self.class_weights == "balanced":
            return tuple(counts.total() / (len(labels) * counts[name]) for name in labels.names)
        table = self.class_weights if isinstance(self.class_weights, dict) else {}
        for name, weight in table.items():
            labels.index(name, location="class_weights")
            if not 0 <= weight < math.inf:
                raise DataError("class_weights", f"the weight of {name!r} is {weight}; a number from 0 is wanted")
        return tuple(table.get(name, 1.0) for name in labels.names)

    def _fitted(self) -> Learned:
        if self.learned is None:
            raise ValueError("the task has learnt nothing yet: call fit first")
        return self.learned

    def collate(self, examples: Sequence[Example]) -> Batch:
        learned = self._fitted()
        inputs = pad([self._elements(example, learned) for example in examples])
        if learned.vectors is not None and learned.text is not None:
            given = learned.vectors.collate([learned.text.written(str(example.content)) for example in examples])
            inputs = Padded(cast(Any, CombinedInput(inputs.values, given, inputs.mask)), inputs.mask)
        numbers = [
            learned.labels.numbers.get(example.label, UNSEEN) for example in examples if example.label is not None
        ]
        complete = len(numbers) == len(examples)
        return Batch(inputs, torch.tensor(numbers) if complete else None, len(numbers) - numbers.count(UNSEEN))

    def _elements(self, example: Example, learned: Learned) -> NDArray[Any]:
        content = example.content
        if isinstance(content, str):
            if learned.text is None:
                raise DataError(example.location, "found a text; the model reads vectors")
            return np.array(learned.text.encode(content), dtype=np.int64)
        if learned.text is not None:
            raise DataError(example.location, "found vectors; the model reads texts")
        if content.shape[1] != len(learned.means):
            raise DataError(
                example.location, f"found {content.shape[1]} channels; the model reads {len(learned.means)}"
            )
        scaled: NDArray[Any] = (content - np.array(learned.means)) / np.array(learned.deviations)
        return scaled.astype(np.float32)

    def build_model(self) -> Classifier:
        learned = self._fitted()
        embed: nn.Module
        if learned.text is not None:
            size = self.embedding_size
            embedding = Embedding(len(learned.text.vocabulary), size, dropout=self.input_dropout)
            own = None if self.pretrained.replace_own else TokenEmbedding(embedding, unknown=self.word_dropout)
            embed, size = self.pretrained.join(learned.vectors, own, size=size)
        else:
            size = len(learned.means)
            embed = nn.Sequential(GaussianNoise(self.noise), Dropout(self.input_dropout))
        encoder = Encoder(embed, build_stack(self.prenet, self.encoder, size))
        pooling = POOLINGS[self.pooling](encoder.size)
        return Classifier(encoder, pooling, labels=len(learned.labels), dropout=self.encoder.dropout)

    def loss(self, model: nn.Module, batch: Batch) -> Loss:
        if batch.target is None:
            raise ValueError("some examples of the batch have no label: there is no loss")
        scores: Tensor = model(*batch.inputs).log_softmax(dim=1)
        seen = batch.target != UNSEEN
        target = batch.target.clamp(min=0)
        losses = -(1 - self.label_smoothing) * scores.gather(1, target.unsqueeze(1)).squeeze(1)
        losses = losses - self.label_smoothing * scores.mean(dim=1)
        weights = scores.new_tensor(self._fitted().weights)[target] * seen
        return Loss((weights * losses).sum(), batch.items)

    def predict(self, model: nn.Module, batch: Batch) -> Predictions:
        names = self._fitted().labels.names
        rows = model(*batch.inputs).double().softmax(dim=1).tolist()
        answers = []
        for row in rows:
            probabilities = dict(zip(names, row, strict=True))
            label = max(probabilities, key=probabilities.__getitem__)
            answers.append(Classified(label, probabilities[label], probabilities))
        return Predictions(answers)

    @property
    def custom_layer_field(self) -> str:
        return "encoder"

    def score(self, predictions: Sequence[Classified], examples: Sequence[Example]) -> dict[str, Any]:
        """A label that does not occur in the training data counts as wrong, and has no part in the loss."""
        truth, names = [], list(self._fitted().labels.names)
        for example in examples:
            if example.label is None:
                raise DataError(example.location, "there is no label to compare with")
            truth.append(example.label)
        found = [answer.label for answer in predictions]
        losses = [
            -math.log(max(answer.probabilities[label], 1e-300))
            for label, answer in zip(truth, predictions, strict=True)
            if label in answer.probabilities
        ]
        names += sorted(set(truth) - set(names))
        right = sum(label == answer for label, answer in zip(truth, found, strict=True))
        table = np.array(confusion(truth, found, names))
        return {
            "accuracy": accuracy(truth, found),
            "macro_f1": macro_f1(truth, found),
            "loss": sum(losses) / max(len(losses), 1),
            "accuracy_interval": list(wilson_interval(right, len(truth))),
            "examples": len(truth),
            "unseen": len(truth) - len(losses),
            "per_label": report(names, Matches(table.diagonal(), table.sum(axis=0), table.sum(axis=1))),
            "confusion": {"labels": names, "counts": table.tolist()},
        }

    def metric_sums(self, predictions: Sequence[Classified], examples: Sequence[Example]) -> MetricSums:
        pairs = zip(predictions, examples, strict=True)
        return ratio_of_sums([answer.label == example.label for answer, example in pairs], [1] * len(examples))

    @property
    def inputs_are_files(self) -> bool:
        return self._fitted().text is None

    def input_tokens(self, example: Example) -> list[str]:
        return [] if self.inputs_are_files else self._element_names(example, [])

    def _element_names(self, example: Example, notes: list[str]) -> list[str]:
        """The tokens of a text, or the numbers of the elements of a sequence of vectors."""
        encoding = self._fitted().text
        if encoding is not None and isinstance(example.content, str):
            return text_tokens(encoding, example.content, notes)
        return [str(number) for number in range(1, len(example.content) + 1)]

    def explain(self, model: nn.Module, example: Example, *, beam: bool = False, heads: bool = False) -> Explanation:  # noqa: ARG002
        """The label probabilities, and how much each element counts: its pooling weight or the attention received."""
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
        else:
            notes.append('the model has no attention; task.pooling = "attention" shows the weight of each element')
        return Explanation(
            task=self.name,
            source=example.content if isinstance(example.content, str) else "",
            prediction=prediction,
            title=f"{prediction.label}, {prediction.probability:.1%}",
            attention=attention,
            heads=all_heads(layers, tokens, tokens) if heads else [],
            token_values=token_values,
            label_probabilities=dict(sorted(prediction.probabilities.items(), key=lambda pair: -pair[1])),
            notes=notes,
        )


def _checked(examples: Iterable[Example], counts: Counter[str]) -> Iterator[Example]:
    """The same examples: each has a label, which is counted, and all are texts or none is."""
    kind = None
    for example in examples:
        if example.label is None:
            raise DataError(example.location, "there is no label; training needs one for each example")
        if isinstance(example.content, str) is not (kind := isinstance(example.content, str) if kind is None else kind):
            raise DataError(example.location, "found texts and vectors; one or the other is wanted")
        counts[example.label] += 1
        yield example


def _moments(examples: Iterable[Example]) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and deviation of each channel."""
    moments = RunningMoments()
    for example in examples:
        values = np.asarray(example.content)
        if moments.size and values.shape[1] != moments.size:
            raise DataError(
                example.location, f"found {values.shape[1]} channels; the examples before have {moments.size}"
            )
        moments.add(values)
    return moments.means(), moments.deviations()
