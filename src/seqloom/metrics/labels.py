"""Accuracy and F1 of labels, and of spans encoded as tags (B-, I-, E-, S-)."""

from collections import Counter
from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Counts = NDArray[np.int64]


def accuracy(truth: Sequence[Hashable], predicted: Sequence[Hashable]) -> float:
    """The fraction of correct labels; 0 if there are none."""
    _check(truth, predicted)
    correct = sum(left == right for left, right in zip(truth, predicted, strict=True))
    return correct / len(truth) if truth else 0.0


def macro_f1(truth: Sequence[Hashable], predicted: Sequence[Hashable]) -> float:
    """The mean F1 over all labels that occur in either sequence."""
    values = f1(*_counts(truth, predicted)[1])
    return float(values.mean()) if len(values) else 0.0


def per_label(truth: Sequence[Hashable], predicted: Sequence[Hashable]) -> dict[str, dict[str, float]]:
    """Precision, recall, F1 and support of each label that occurs in either sequence, the most frequent first."""
    names, counts = _counts(truth, predicted)
    table = report([str(name) for name in names], counts)
    return dict(sorted(table.items(), key=lambda item: (-item[1]["support"], item[0])))


def confusions(truth: Sequence[str], predicted: Sequence[str]) -> list[dict[str, Any]]:
    """The confusion matrix without its diagonal and its zeros, the most frequent confusions first.

    A dense matrix of many labels would be larger than the data.
    """
    _check(truth, predicted)
    counts = Counter((left, right) for left, right in zip(truth, predicted, strict=True) if left != right)
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return [{"label": left, "predicted": right, "count": count} for (left, right), count in ordered]


def f1(correct: Counts, predicted: Counts, reference: Counts) -> NDArray[np.float64]:
    """The harmonic mean of precision (correct / predicted) and recall (correct / reference)."""
    return np.asarray(2 * correct / np.maximum(predicted + reference, 1))


class Matches(NamedTuple):
    """The number of correct, predicted and reference items, for each label, span type, or sentence."""

    correct: Counts
    predicted: Counts
    reference: Counts

    @property
    def f1(self) -> float:
        """Micro-averaged F1."""
        return float(f1(self.correct.sum(), self.predicted.sum(), self.reference.sum()))


class SpanComparison(NamedTuple):
    """Predicted and reference spans compared; a span is correct if its type and both ends are."""

    names: list[str]  # span types, the most frequent in the reference first
    types: Matches  # per span type, in the order of the names
    sentences: Matches  # per sentence


def compare_spans(truth: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]) -> SpanComparison:
    """Compare spans as seqeval does by default: a tag that continues no span starts one, such as I-x after O or B-y."""
    _check(truth, predicted)
    for index, (left, right) in enumerate(zip(truth, predicted, strict=True)):
        if len(left) != len(right):
            raise ValueError(f"sentence {index}: expected {len(left)} predicted tags, found {len(right)}")
    types: dict[str, int] = {}
    sides = [_spans(truth, types), _spans(predicted, types)]
    correct = np.intersect1d(_rows(sides[0]), _rows(sides[1]), assume_unique=True)
    sentence_of = np.repeat(np.arange(len(truth)), [len(sentence) + 1 for sentence in truth])
    groups = [correct.view(np.int64).reshape(-1, 3), sides[1], sides[0]]  # correct, predicted, reference
    by_sentence = [np.bincount(sentence_of[group[:, 0]], minlength=len(truth)) for group in groups]
    by_type = [np.bincount(group[:, 2], minlength=len(types)) for group in groups]
    occurring = [name for name, index in types.items() if by_type[1][index] or by_type[2][index]]
    names = sorted(occurring, key=lambda name: (-by_type[2][types[name]], name))
    order = np.array([types[name] for name in names], dtype=np.int64)
    return SpanComparison(names, Matches(*(counts[order] for counts in by_type)), Matches(*by_sentence))


def overlap_rows(truth: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]) -> NDArray[np.float64]:  # (N, 6)
    """The overlap of predicted and true spans of each sentence (Johansson & Moschitti 2010).

    Columns: predicted spans, each by its share that lies in true spans of its type; those that touch one; all; then the
    same of true spans and how much of them is predicted.
    """
    _check(truth, predicted)
    types: dict[str, int] = {}
    sides = [_spans(predicted, types), _spans(truth, types)]
    sentence_of = np.repeat(np.arange(len(truth)), [len(sentence) + 1 for sentence in truth])
    covered = [np.zeros((len(sentence_of), max(len(types), 1)), dtype=bool) for _ in sides]
    for side, table in zip(sides, covered, strict=True):
        for first, last, kind in side:
            table[first : last + 1, kind] = True
    rows = np.zeros((len(truth), 6))
    for offset, side, other in ((0, sides[0], covered[1]), (3, sides[1], covered[0])):
        for first, last, kind in side:
            share = float(other[first : last + 1, kind].mean())
            rows[sentence_of[first], offset : offset + 3] += share, share > 0, 1
    return rows


def overlap_f1(sums: NDArray[np.float64], *, binary: bool = False) -> float:
    """F1 from the sums of ``overlap_rows``, with spans in proportion to their overlap, or counted if they touch."""
    column = 1 if binary else 0
    precision, recall = sums[column] / max(sums[2], 1), sums[3 + column] / max(sums[5], 1)
    return float(2 * precision * recall / (precision + recall)) if precision + recall else 0.0


def span_f1(truth: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]) -> float:
    return compare_spans(truth, predicted).sentences.f1


def per_type(comparison: SpanComparison) -> dict[str, dict[str, float]]:
    """Precision, recall, F1 and support of each span type."""
    return report(comparison.names, comparison.types)


def _counts(truth: Sequence[Hashable], predicted: Sequence[Hashable]) -> tuple[list[Hashable], Matches]:
    names = list(dict.fromkeys([*truth, *predicted]))
    return names, count_matches(truth, predicted, names)


def count_matches(truth: Sequence[Hashable], predicted: Sequence[Hashable], names: Sequence[Hashable]) -> Matches:
    """The correct, predicted and true occurrences of each name, in the order of the names."""
    _check(truth, predicted)
    correct = Counter(left for left, right in zip(truth, predicted, strict=True) if left == right)
    counts = (correct, Counter(predicted), Counter(truth))
    return Matches(*(np.array([count[name] for name in names], np.int64) for count in counts))


def report(names: Sequence[str], counts: Matches) -> dict[str, dict[str, float]]:
    """Precision, recall, F1 and support of each name, in the order of the counts."""
    correct, predicted, reference = counts
    columns = zip(
        names,
        correct / np.maximum(predicted, 1),
        correct / np.maximum(reference, 1),
        f1(correct, predicted, reference),
        reference,
        strict=True,
    )
    return {
        name: {"precision": float(precision), "recall": float(recall), "f1": float(mean), "support": int(support)}
        for name, precision, recall, mean, support in columns
    }


def _spans(sentences: Sequence[Sequence[str]], types: dict[str, int]) -> Counts:
    """The spans of the concatenated sentences, with an O after each: rows of first position, last position, type id."""
    ids: dict[str, int] = {}
    flat = [ids.setdefault(tag, len(ids)) for sentence in sentences for tag in (*sentence, "O")]
    if "" in ids:
        raise ValueError("empty tag, expected O or B-type, I-type, E-type, S-type")
    prefixes = np.array([tag[0] for tag in ids] or ["O"])
    # As in seqeval, O has a type, too, and so has a tag that is only B or I.
    names = [tag[1:].split("-", maxsplit=1)[-1] or "_" for tag in ids]
    type_ids = np.array([types.setdefault(name, len(types)) for name in names] or [0])
    tags = np.array(flat, dtype=np.int64)
    prefix, type_id = prefixes[tags], type_ids[tags]
    previous, previous_type = np.roll(prefix, 1), np.roll(type_id, 1)  # the very last tag is an O
    changes = type_id != previous_type
    ends = (
        np.isin(previous, ["E", "S"])
        | (np.isin(previous, ["B", "I"]) & np.isin(prefix, ["B", "S", "O"]))
        | (~np.isin(previous, ["O", "."]) & changes)
    )
    starts = (
        np.isin(prefix, ["B", "S"])
        | (np.isin(previous, ["E", "S", "O"]) & np.isin(prefix, ["E", "I"]))
        | (~np.isin(prefix, ["O", "."]) & changes)
    )
    positions = np.arange(len(tags))
    first = np.maximum.accumulate(np.where(starts, positions, 0))
    last = positions[ends] - 1
    return np.stack([first[last], last, type_id[last]], axis=1)


def _rows(table: Counts) -> NDArray[np.void]:
    """The rows of a table as scalars that can be compared and sorted."""
    return np.ascontiguousarray(table).view([("", table.dtype)] * table.shape[1]).ravel()


def _check(truth: Sequence[object], predicted: Sequence[object]) -> None:
    if len(truth) != len(predicted):
        raise ValueError(f"expected {len(truth)} predictions, one per true label, found {len(predicted)}")
