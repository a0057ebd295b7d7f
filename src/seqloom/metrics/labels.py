"""Metrics of labels: of single ones, and of spans written as tags (B-, I-, E-, S-)."""

from collections.abc import Hashable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Counts = NDArray[np.int64]


def accuracy(truth: Sequence[Hashable], predicted: Sequence[Hashable]) -> float:
    """The share of equal labels; 0 where there is none at all."""
    _check(truth, predicted)
    right = sum(wanted == found for wanted, found in zip(truth, predicted, strict=True))
    return right / len(truth) if truth else 0.0


def macro_f1(truth: Sequence[Hashable], predicted: Sequence[Hashable]) -> float:
    """The mean of the F1 of all labels that occur in either; a label that is never right has 0."""
    values = f1(*_counts(truth, predicted)[1])
    return float(values.mean()) if len(values) else 0.0


def per_label(truth: Sequence[Hashable], predicted: Sequence[Hashable]) -> dict[str, dict[str, float]]:
    """Precision, recall, F1 and number of each label that occurs in either, the most frequent first."""
    names, counts = _counts(truth, predicted)
    found = report([str(name) for name in names], counts)
    return dict(sorted(found.items(), key=lambda item: (-item[1]["support"], item[0])))


def confusion(truth: Sequence[Hashable], predicted: Sequence[Hashable], names: Sequence[Hashable]) -> list[list[int]]:
    """How often names[row] was the truth and names[column] was predicted."""
    _check(truth, predicted)
    numbers = {name: number for number, name in enumerate(names)}
    try:
        rows = [numbers[label] for label in truth]
        columns = [numbers[label] for label in predicted]
    except KeyError as error:
        raise ValueError(f"label {error.args[0]!r} is not among the names {list(names)}") from None
    table = np.zeros((len(names), len(names)), dtype=np.int64)
    np.add.at(table, (rows, columns), 1)
    return [[int(count) for count in row] for row in table]


def f1(right: Counts, found: Counts, wanted: Counts) -> NDArray[np.float64]:
    """The harmonic mean of precision (right / found) and recall (right / wanted), 0 where nothing is right."""
    return np.asarray(2 * right / np.maximum(found + wanted, 1))


class Matches(NamedTuple):
    """How many answers were right, found and wanted, for each label, type of span, or sentence."""

    right: Counts
    found: Counts
    wanted: Counts

    @property
    def f1(self) -> float:
        """Over all together."""
        return float(f1(self.right.sum(), self.found.sum(), self.wanted.sum()))


class SpanComparison(NamedTuple):
    """The spans of tagged sentences compared with the true ones; a span is right where type and both ends are."""

    names: list[str]  # of the types, those with the most spans wanted first
    types: Matches  # in the order of the names
    sentences: Matches


def compare_spans(truth: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]) -> SpanComparison:
    """Spans as seqeval reads them by default: what continues nothing begins a span, so I-x after O or after B-y."""
    _check(truth, predicted)
    for number, (wanted, found) in enumerate(zip(truth, predicted, strict=True)):
        if len(wanted) != len(found):
            raise ValueError(f"sentence {number} has {len(wanted)} true tags and {len(found)} predicted ones")
    types: dict[str, int] = {}
    sides = [_spans(truth, types), _spans(predicted, types)]
    right = np.intersect1d(_rows(sides[0]), _rows(sides[1]), assume_unique=True)
    places = np.repeat(np.arange(len(truth)), [len(sentence) + 1 for sentence in truth])
    groups = [right.view(np.int64).reshape(-1, 3), sides[1], sides[0]]  # right, found, wanted
    by_sentence = [np.bincount(places[group[:, 0]], minlength=len(truth)) for group in groups]
    by_type = [np.bincount(group[:, 2], minlength=len(types)) for group in groups]
    occurring = [name for name, number in types.items() if by_type[1][number] or by_type[2][number]]
    names = sorted(occurring, key=lambda name: (-by_type[2][types[name]], name))
    order = np.array([types[name] for name in names], dtype=np.int64)
    return SpanComparison(names, Matches(*(counts[order] for counts in by_type)), Matches(*by_sentence))


def span_f1(truth: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]) -> float:
    return compare_spans(truth, predicted).sentences.f1


def per_type(comparison: SpanComparison) -> dict[str, dict[str, float]]:
    """Precision, recall, F1 and the number of true spans of each type."""
    return report(comparison.names, comparison.types)


def _counts(truth: Sequence[Hashable], predicted: Sequence[Hashable]) -> tuple[list[Hashable], Matches]:
    names = list(dict.fromkeys([*truth, *predicted]))
    table = np.array(confusion(truth, predicted, names), dtype=np.int64).reshape(len(names), len(names))
    return names, Matches(table.diagonal(), table.sum(axis=0), table.sum(axis=1))


def report(names: Sequence[str], counts: Matches) -> dict[str, dict[str, float]]:
    """Precision, recall, F1 and number of each name, in the order of the counts."""
    right, found, wanted = counts
    columns = zip(
        names,
        right / np.maximum(found, 1),
        right / np.maximum(wanted, 1),
        f1(right, found, wanted),
        wanted,
        strict=True,
    )
    return {
        name: {"precision": float(precision), "recall": float(recall), "f1": float(mean), "support": int(support)}
        for name, precision, recall, mean, support in columns
    }


def _spans(sentences: Sequence[Sequence[str]], types: dict[str, int]) -> Counts:
    """The spans of sentences put end to end with an O after each: rows of first place, last place, number of type."""
    numbers: dict[str, int] = {}
    flat = [numbers.setdefault(tag, len(numbers)) for sentence in sentences for tag in (*sentence, "O")]
    if "" in numbers:
        raise ValueError("a tag is empty, wanted O or B-type, I-type, E-type or S-type")
    kinds = np.array([tag[0] for tag in numbers] or ["O"])
    # seqeval's reading of tags: O, too, has a type, and so has a tag that is only B or I.
    names = [tag[1:].split("-", maxsplit=1)[-1] or "_" for tag in numbers]
    codes = np.array([types.setdefault(name, len(types)) for name in names] or [0])
    tags = np.array(flat, dtype=np.int64)
    kind, code = kinds[tags], codes[tags]
    before, code_before = np.roll(kind, 1), np.roll(code, 1)  # the last of all is an O, as if before the first
    changes = code != code_before
    ends = (
        np.isin(before, ["E", "S"])
        | (np.isin(before, ["B", "I"]) & np.isin(kind, ["B", "S", "O"]))
        | (~np.isin(before, ["O", "."]) & changes)
    )
    starts = (
        np.isin(kind, ["B", "S"])
        | (np.isin(before, ["E", "S", "O"]) & np.isin(kind, ["E", "I"]))
        | (~np.isin(kind, ["O", "."]) & changes)
    )
    places = np.arange(len(tags))
    begun = np.maximum.accumulate(np.where(starts, places, 0))
    last = places[ends] - 1
    return np.stack([begun[last], last, code[last]], axis=1)


def _rows(table: Counts) -> NDArray[np.void]:
    """The rows of a table as single values that can be compared and sorted."""
    return np.ascontiguousarray(table).view([("", table.dtype)] * table.shape[1]).ravel()


def _check(truth: Sequence[object], predicted: Sequence[object]) -> None:
    if len(truth) != len(predicted):
        raise ValueError(f"there are {len(truth)} true answers and {len(predicted)} predicted ones, wanted as many")
