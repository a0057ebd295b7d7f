"""One class for a whole sequence: predictions, weights and scores."""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from seqloom.data.readers.text_files import DataError
from seqloom.data.text.vocabulary import Labels
from seqloom.metrics.confidence import wilson_interval
from seqloom.metrics.labels import accuracy, confusions, count_matches, macro_f1, report


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


ClassWeights = Literal["none", "balanced"] | dict[str, float]


def class_weights(setting: ClassWeights, labels: Labels, counts: Counter[str]) -> tuple[float, ...]:
    """The weight of each label in the loss."""
    if setting == "balanced":
        return tuple(counts.total() / (len(labels) * counts[name]) for name in labels.names)
    table = setting if isinstance(setting, dict) else {}
    for name, weight in table.items():
        labels.index(name, location="class_weights")
        if not 0 <= weight < math.inf:
            raise DataError("class_weights", f"the weight of {name!r} is {weight}, expected a finite number ≥ 0")
    return tuple(table.get(name, 1.0) for name in labels.names)


def score_classes(predictions: Sequence[Classification], truth: Sequence[str], labels: Sequence[str]) -> dict[str, Any]:
    """Metrics by name; labels that do not occur in the training data count as errors, but not in the loss."""
    names = list(labels)
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
