"""What a classifier predicts: one class, or numbers, for a whole sequence."""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from seqloom.data.readers.labelled import LabelledSequence
from seqloom.data.text.vocabulary import Labels
from seqloom.metrics.confidence import MetricSums, ratio_of_sums
from seqloom.metrics.learning import constant_answer
from seqloom.models.baseline import Baseline, most_frequent
from seqloom.models.classifier import log_odds
from seqloom.tasks.targets.classes import Classification, LabelProbabilities, score_classes
from seqloom.tasks.targets.numbers import MAIN_METRIC, Numbers, NumberTargets, Regression

UNSEEN = -1
"""Id of all labels that do not occur in the training data."""

Score = Callable[[Tensor], Tensor]
"""Outputs of a model (B, outputs) to what an attribution explains (B,)."""


Predict = Callable[[Sequence[Any]], list[Any]]
"""Examples to predictions."""


class SequenceTargets(ABC):
    """Classes or numbers; the outputs of the model are (B, outputs)."""

    main_metric: str
    outputs: int

    @abstractmethod
    def of(self, example: LabelledSequence) -> Any:
        """The target of an example; None: it has none."""

    @abstractmethod
    def collate(self, examples: Sequence[LabelledSequence]) -> tuple[Tensor | None, int]:
        """The targets of a batch, None if some are not known, and the number of those in the loss."""

    @abstractmethod
    def loss(self, outputs: Tensor, target: Tensor) -> Tensor:
        """The loss, summed over the batch."""

    @abstractmethod
    def answers(self, outputs: Tensor) -> list[Any]:
        """The predictions of a batch."""

    @abstractmethod
    def score(self, predictions: Sequence[Any], examples: Sequence[LabelledSequence]) -> dict[str, Any]:
        """Metrics by name."""

    @abstractmethod
    def metric_sums(self, predictions: Sequence[Any], examples: Sequence[LabelledSequence]) -> MetricSums:
        """The sums of the main metric."""

    @abstractmethod
    def degenerate(self, predictions: Sequence[Any], examples: Sequence[LabelledSequence]) -> str:
        """A sentence if all predictions are the same, while the targets are not; else empty."""

    @abstractmethod
    def fit_baseline(self, counts: Counter[str]) -> Baseline | None:
        """The trivial model; ``counts``: of the labels in the training data."""

    @abstractmethod
    def baseline_sums(self, baseline: Baseline, examples: Sequence[LabelledSequence]) -> MetricSums:
        """The sums of its main metric."""

    @abstractmethod
    def score_baseline(self, baseline: Baseline, examples: Sequence[LabelledSequence]) -> dict[str, float]:
        """Its metrics."""

    @abstractmethod
    def explained(self, name: str, prediction: Any) -> tuple[str, Score]:
        """The label or number of this name, or else the predicted one, and the score that an attribution explains."""

    @abstractmethod
    def draw(self, predict: Predict, examples: Sequence[LabelledSequence], folder: Path) -> None:
        """Draw the predictions into a folder, if there is a picture of them."""


@dataclass(frozen=True)
class ClassTargets(SequenceTargets):
    """One of several labels."""

    labels: Labels
    weights: tuple[float, ...]  # of each label in the loss
    label_smoothing: float = 0.0
    main_metric = "accuracy"

    @property
    def outputs(self) -> int:  # type: ignore[override]
        return len(self.labels)

    def of(self, example: LabelledSequence) -> Any:
        return example.label

    def collate(self, examples: Sequence[LabelledSequence]) -> tuple[Tensor | None, int]:
        ids = [self.labels.ids.get(example.label, UNSEEN) for example in examples if example.label is not None]
        target = torch.tensor(ids) if len(ids) == len(examples) else None
        return target, len(ids) - ids.count(UNSEEN)

    def loss(self, outputs: Tensor, target: Tensor) -> Tensor:
        scores = outputs.log_softmax(dim=1)
        seen = target != UNSEEN
        target = target.clamp(min=0)
        losses = -(1 - self.label_smoothing) * scores.gather(1, target.unsqueeze(1)).squeeze(1)
        losses = losses - self.label_smoothing * scores.mean(dim=1)
        weights = scores.new_tensor(self.weights)[target] * seen
        return (weights * losses).sum()

    def answers(self, outputs: Tensor) -> list[Any]:
        answers = []
        for row in outputs.softmax(dim=1).cpu().numpy():
            probabilities, label = LabelProbabilities(self.labels.ids, row.copy()), self.labels.names[int(row.argmax())]
            answers.append(Classification(label, probabilities[label], probabilities))
        return answers

    def score(self, predictions: Sequence[Any], examples: Sequence[LabelledSequence]) -> dict[str, Any]:
        return score_classes(predictions, [str(example.label) for example in examples], self.labels.names)

    def metric_sums(self, predictions: Sequence[Any], examples: Sequence[LabelledSequence]) -> MetricSums:
        pairs = zip(predictions, examples, strict=True)
        return ratio_of_sums([answer.label == example.label for answer, example in pairs], [1] * len(examples))

    def degenerate(self, predictions: Sequence[Any], examples: Sequence[LabelledSequence]) -> str:
        label = constant_answer([answer.label for answer in predictions], [example.label for example in examples])
        return "" if label is None else f"Every prediction is the label {label!r}"

    def fit_baseline(self, counts: Counter[str]) -> Baseline | None:
        if not counts:
            return None
        label, total = most_frequent(counts), counts.total()
        probabilities = {name: times / total for name, times in counts.items()}
        return Baseline(name=f"most frequent label, {label!r}", answer=label, probabilities=probabilities)

    def baseline_sums(self, baseline: Baseline, examples: Sequence[LabelledSequence]) -> MetricSums:
        return self.metric_sums([_baseline_answer(baseline)] * len(examples), examples)

    def score_baseline(self, baseline: Baseline, examples: Sequence[LabelledSequence]) -> dict[str, float]:
        scores = self.score([_baseline_answer(baseline)] * len(examples), examples)
        return {name: scores[name] for name in ("accuracy", "macro_f1", "loss")}

    def explained(self, name: str, prediction: Any) -> tuple[str, Score]:
        label = name or getattr(prediction, "label", "")
        index = self.labels.index(label, location="target")
        return label, lambda outputs: log_odds(outputs, index)

    def draw(self, predict: Predict, examples: Sequence[LabelledSequence], folder: Path) -> None:
        """Nothing: confusions are drawn from the scores."""


def _baseline_answer(baseline: Baseline) -> Classification:
    probability = baseline.probabilities.get(baseline.answer, 1.0)
    return Classification(baseline.answer, probability, baseline.probabilities)


@dataclass(frozen=True)
class SequenceNumbers(SequenceTargets):
    """One or several numbers."""

    numbers: NumberTargets
    main_metric = MAIN_METRIC

    @property
    def outputs(self) -> int:  # type: ignore[override]
        return len(self.numbers.scale)

    def of(self, example: LabelledSequence) -> Any:
        return example.target

    def collate(self, examples: Sequence[LabelledSequence]) -> tuple[Tensor | None, int]:
        targets = self.numbers.collate([example.target for example in examples])
        return None if targets is None else torch.from_numpy(np.stack(targets)), len(examples)

    def loss(self, outputs: Tensor, target: Tensor) -> Tensor:
        return self.numbers.loss(outputs, target)

    def answers(self, outputs: Tensor) -> list[Any]:
        return [self.numbers.answer(row) for row in self.numbers.restore(outputs)]

    def score(self, predictions: Sequence[Any], examples: Sequence[LabelledSequence]) -> dict[str, Any]:
        return self.numbers.score(_pairs(predictions, examples)) | {"examples": len(examples)}

    def metric_sums(self, predictions: Sequence[Any], examples: Sequence[LabelledSequence]) -> MetricSums:
        return self.numbers.metric_sums(_pairs(predictions, examples))

    def degenerate(self, predictions: Sequence[Any], examples: Sequence[LabelledSequence]) -> str:
        return self.numbers.degenerate(_pairs(predictions, examples))

    def fit_baseline(self, counts: Counter[str]) -> Baseline | None:  # noqa: ARG002
        return self.numbers.fit_baseline(Counter())

    def baseline_sums(self, baseline: Baseline, examples: Sequence[LabelledSequence]) -> MetricSums:
        truths = [example.target[np.newaxis] for example in examples if example.target is not None]
        return self.numbers.baseline_sums(baseline, truths, [()] * len(truths))

    def score_baseline(self, baseline: Baseline, examples: Sequence[LabelledSequence]) -> dict[str, float]:
        truths = [example.target[np.newaxis] for example in examples if example.target is not None]
        return self.numbers.score_baseline(baseline, truths, [()] * len(truths))

    def explained(self, name: str, prediction: Any) -> tuple[str, Score]:  # noqa: ARG002
        column = self.numbers.column(name)
        return self.numbers.scale.names[column], lambda outputs: self.numbers.value(outputs, column)

    def draw(self, predict: Predict, examples: Sequence[LabelledSequence], folder: Path) -> None:
        """predicted.png: predicted against true numbers."""
        self.numbers.draw(_pairs(predict(examples), examples), folder, steps=False)


def _pairs(
    predictions: Sequence[Regression], examples: Sequence[LabelledSequence]
) -> list[tuple[Numbers, Numbers]]:  # of each example (1, K)
    """The true and the predicted numbers."""
    return [
        (example.target[np.newaxis], np.array([list(answer.values.values())]))
        for answer, example in zip(predictions, examples, strict=True)
        if example.target is not None
    ]
