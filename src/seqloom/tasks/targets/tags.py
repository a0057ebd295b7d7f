"""A label for each element of a sequence: predictions, scores and the baseline."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from seqloom import html
from seqloom.metrics.confidence import MetricSums, bootstrap, bootstrap_f1, quantiles, wilson_interval
from seqloom.metrics.labels import (
    accuracy,
    compare_spans,
    confusions,
    overlap_f1,
    overlap_rows,
    per_label,
    per_type,
)
from seqloom.models.baseline import Baseline, most_frequent


@dataclass(frozen=True, slots=True)
class TagPrediction:
    """The predicted labels of a sequence."""

    words: list[str]  # empty for frames
    labels: list[str]
    probabilities: list[float]  # probability of each predicted label

    def __str__(self) -> str:
        columns = zip(self.words, self.labels, strict=True) if self.words else zip(self.labels, strict=True)
        return "".join("\t".join(row) + "\n" for row in columns)

    def _repr_html_(self) -> str:
        words = self.words or [str(number) for number in range(1, len(self.labels) + 1)]
        return html.labelled_words(words, self.labels)


@dataclass(frozen=True, slots=True)
class SegmentPrediction(TagPrediction):
    """The predicted labels of the frames of sound, which it shows as segments with times."""

    segments: list[tuple[float, float, str]]  # start and end in seconds, label

    def __str__(self) -> str:
        return "".join(f"{start:.2f}\t{end:.2f}\t{label}\n" for start, end, label in self.segments)


def tag_prediction(
    words: list[str],
    labels: list[str],
    probabilities: list[float],
    *,
    step_seconds: float = 0.0,  # from one frame of sound to the next; 0: no times
) -> TagPrediction:
    """The labels of words or frames; those of sound with the segments of equal labels."""
    if not step_seconds:
        return TagPrediction(words, labels, probabilities)
    segments, start = [], 0
    for label, group in groupby(labels):
        end = start + len(list(group))
        segments.append((round(start * step_seconds, 6), round(end * step_seconds, 6), label))
        start = end
    return SegmentPrediction(words, labels, probabilities, segments)


def score_tags(
    reference: Sequence[Sequence[str]],
    predicted: Sequence[Sequence[str]],
    *,
    spans: bool,
    overlap: bool = False,  # also F1 of spans that are right in part
) -> dict[str, Any]:
    """Metrics by name, those of spans first; tables come last."""
    truth = [label for labels in reference for label in labels]
    guesses = [label for labels in predicted for label in labels]
    correct = sum(left == right for left, right in zip(truth, guesses, strict=True))
    scores: dict[str, Any] = {"accuracy": accuracy(truth, guesses)}
    details: dict[str, Any] = {"accuracy_interval": list(wilson_interval(correct, len(truth)))}
    if spans:
        compared = compare_spans(reference, predicted)
        scores = {"span_f1": compared.sentences.f1, **scores}
        interval = list(bootstrap_f1(*compared.sentences))
        details = {"span_f1_interval": interval, **details, "per_type": per_type(compared)}
        if overlap:
            sums = MetricSums(overlap_rows(reference, predicted), overlap_f1)
            binary = overlap_f1(sums.rows.sum(axis=0), binary=True)
            scores = {"overlap_f1": sums.whole, "binary_overlap_f1": binary, **scores}
            details = {"overlap_f1_interval": list(quantiles(bootstrap(sums))), **details}
    else:
        details["per_label"] = per_label(truth, guesses)
    return {**scores, **details, "confusions": confusions(truth, guesses)}


def known_and_unknown(
    reference: Sequence[Sequence[str]],
    predicted: Sequence[Sequence[str]],
    known: Sequence[bool],  # of each element: whether its word occurs in the training data
) -> dict[str, float]:
    """The accuracy on words of the training data and on all others."""
    truth = [label for labels in reference for label in labels]
    guesses = [label for labels in predicted for label in labels]
    scores = {}
    for name, group in (("known_accuracy", True), ("unknown_accuracy", False)):
        indices = [index for index, is_known in enumerate(known) if is_known is group]
        scores[name] = accuracy([truth[index] for index in indices], [guesses[index] for index in indices])
    return {**scores, "unknown_words": list(known).count(False)}


def tag_baseline(counts: Counter[tuple[str, str]], *, words: bool) -> Baseline | None:
    """The most frequent label of each word; None if there are no labels."""
    labels: Counter[str] = Counter()
    by_word: dict[str, Counter[str]] = defaultdict(Counter)
    for (word, label), times in counts.items():
        labels[label] += times
        by_word[word][label] += times
    if not labels:
        return None
    usual = most_frequent(labels)
    answers = {word: most_frequent(each) for word, each in by_word.items()}
    answers = {word: label for word, label in answers.items() if label != usual}
    name = f"most frequent label{' of each word' if words else ''}"
    return Baseline(name=f"{name}, {usual!r} for {'others' if answers else 'all'}", answer=usual, answers=answers)
