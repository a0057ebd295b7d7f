"""What a model answers to each of many examples, with its score and the labels that it confuses."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from seqloom.comparison.disagreement import scores_by_example, shortened
from seqloom.tasks.task import Task

MAX_ERRORS = 50  # of an example that are listed


@dataclass(frozen=True)
class LabelError:
    """A wrong label in an example."""

    element: str  # the word, or the number of the frame
    label: str
    predicted: str


@dataclass(frozen=True)
class AnswerRow:
    """An example and its answer."""

    example: int  # its number among the examples, from 0
    place: str  # file and line
    input: str
    target: str
    answer: str  # empty: answers are not those of single examples
    score: float | None  # the main metric on this example alone
    length: float  # of the input
    confidence: float | None = None  # the probability of the answer, of a classifier
    pairs: tuple[int, ...] = ()  # numbers of the label pairs that occur in it
    errors: tuple[LabelError, ...] = ()  # the first ones, of a sequence of labels
    wrong: int = 0  # how many labels are wrong


@dataclass(frozen=True)
class LabelPair:
    """How often a label was predicted for a true label."""

    label: str
    predicted: str
    count: int


@dataclass(frozen=True)
class AnswerTable:
    """All examples with their answers."""

    metric: str
    higher_is_better: bool
    score: float | None  # of all examples together; None: the task has no sums of its main metric
    length_unit: str
    rows: list[AnswerRow]
    labels: list[str]  # the most frequent one first; empty: the answers are not labels
    pairs: list[LabelPair]


def tabulate(task: Task, predictions: Sequence[Any], examples: Sequence[Any]) -> AnswerTable:
    """A table of examples; ``predictions`` as ``evaluation.predict_all`` returns them."""
    sums = task.metric_sums(predictions, examples)
    scores = scores_by_example(sums).tolist() if sums is not None and len(sums.rows) == len(examples) else []
    single = len(predictions) == len(examples)  # not of chunks
    numbers: dict[tuple[str, str], int] = {}
    counts: Counter[tuple[str, str]] = Counter()
    rows = []
    for row, example in enumerate(examples):
        labels = task.label_pairs(predictions[row], example) if single else ()
        counts.update(labels)
        value = scores[row] if scores else math.nan
        text, target = task.example_texts(example)
        errors = _errors(labels, text)
        rows.append(
            AnswerRow(
                row,
                str(example.location),
                shortened(text),
                shortened(target),
                shortened(task.answer_text(predictions[row])) if single else "",
                value if math.isfinite(value) else None,
                task.input_length(example),
                _confidence(task.to_json(predictions[row])) if single else None,
                tuple(sorted({numbers.setdefault(pair, len(numbers)) for pair in labels})),
                tuple(errors[:MAX_ERRORS]) if len(labels) > 1 or "\t" in text else (),
                len(errors),
            )
        )
    frequency = Counter[str]()
    for (label, predicted), count in counts.items():
        frequency[label] += count
        frequency[predicted] += 0
    return AnswerTable(
        task.main_metric,
        task.higher_is_better,
        None if sums is None or not math.isfinite(sums.whole) else sums.whole,
        task.length_unit,
        rows,
        [label for label, _ in sorted(frequency.items(), key=lambda item: (-item[1], item[0]))],
        [LabelPair(*pair, counts[pair]) for pair in numbers],
    )


def _confidence(prediction: Mapping[str, Any]) -> float | None:
    """The probability that a classifier gives to its answer."""
    probabilities = prediction.get("probabilities")
    value = probabilities.get(prediction.get("label")) if isinstance(probabilities, Mapping) else None
    return None if value is None else float(value)


def _errors(labels: Sequence[tuple[str, str]], text: str) -> list[LabelError]:
    """The labels that are wrong; elements of a text are its words, others are numbered from 1."""
    words = text.split("\t")
    names = words if len(words) == len(labels) else [str(number) for number in range(1, len(labels) + 1)]
    return [
        LabelError(name, label, predicted)
        for name, (label, predicted) in zip(names, labels, strict=True)
        if label != predicted
    ]
