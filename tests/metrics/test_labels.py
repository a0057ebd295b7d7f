"""Labels and spans against scikit-learn and seqeval."""

import random
import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from seqeval.metrics import classification_report, f1_score
from sklearn import metrics as sklearn

from seqloom.metrics.labels import (
    accuracy,
    compare_spans,
    confusions,
    macro_f1,
    overlap_f1,
    overlap_rows,
    per_label,
    per_type,
    span_f1,
)

TAGS = ["O", "B", "I", *[f"{kind}-{name}" for kind in "BIES" for name in ("PER", "LOC", "a-b", "_")]]
PAIRS = st.lists(st.lists(st.tuples(st.sampled_from(TAGS), st.sampled_from(TAGS)), max_size=9), min_size=1, max_size=4)
LABELS = st.lists(st.tuples(st.sampled_from("abcd"), st.sampled_from("abcde")), min_size=1, max_size=30)


def sides(pairs: list[list[tuple[str, str]]]) -> tuple[list[list[str]], list[list[str]]]:
    return [[left for left, _ in row] for row in pairs], [[right for _, right in row] for row in pairs]


@given(pairs=PAIRS)
def test_span_f1_equals_seqeval(pairs: list[list[tuple[str, str]]]) -> None:
    truth, predicted = sides(pairs)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # seqeval warns where there is nothing to divide by
        assert span_f1(truth, predicted) == pytest.approx(f1_score(truth, predicted), abs=1e-12)


@given(pairs=PAIRS)
def test_scores_per_type_equal_seqeval(pairs: list[list[tuple[str, str]]]) -> None:
    truth, predicted = sides(pairs)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            report: dict[str, Any] = classification_report(truth, predicted, output_dict=True)
        except ValueError:  # seqeval cannot average over no types
            report = {}
    expected = {name: row for name, row in report.items() if not name.endswith(" avg")}
    actual = per_type(compare_spans(truth, predicted))
    assert actual.keys() == expected.keys()
    for name, row in actual.items():
        for column, value in row.items():
            assert value == pytest.approx(expected[name]["f1-score" if column == "f1" else column], abs=1e-12)


@given(pairs=PAIRS)
def test_counts_per_sentence_equal_those_of_single_sentences(pairs: list[list[tuple[str, str]]]) -> None:
    truth, predicted = sides(pairs)
    together = compare_spans(truth, predicted).sentences
    for index, (left, right) in enumerate(zip(truth, predicted, strict=True)):
        alone = compare_spans([left], [right]).sentences
        assert [counts[index] for counts in together] == [counts[0] for counts in alone]


def test_spans_by_hand() -> None:
    truth = [["B-a", "I-a", "O", "I-b"], ["O"], ["S-a", "B-b", "E-b"]]
    predicted = [["B-a", "I-a", "O", "B-b"], ["B-a"], ["B-a", "I-b", "O"]]
    comparison = compare_spans(truth, predicted)
    assert np.array(comparison.sentences).tolist() == [[2, 0, 1], [2, 1, 2], [2, 0, 2]]
    assert comparison.sentences.f1 == 2 * 3 / 9
    assert compare_spans([], []).sentences.f1 == 0


@given(pairs=LABELS)
def test_labels_equal_scikit_learn(pairs: list[tuple[str, str]]) -> None:
    truth, predicted = [left for left, _ in pairs], [right for _, right in pairs]
    assert accuracy(truth, predicted) == pytest.approx(sklearn.accuracy_score(truth, predicted))
    expected = sklearn.f1_score(truth, predicted, average="macro", zero_division=0)
    assert macro_f1(truth, predicted) == pytest.approx(expected, abs=1e-12)
    report = sklearn.classification_report(truth, predicted, output_dict=True, zero_division=0)
    for name, row in per_label(truth, predicted).items():
        assert row == pytest.approx({"f1" if key == "f1-score" else key: report[name][key] for key in report[name]})
    table = sklearn.confusion_matrix(truth, predicted, labels=list("abcde"))
    sparse = np.zeros_like(table)
    counts: Any = confusions(truth, predicted)
    for row in counts:
        sparse["abcde".index(row["label"]), "abcde".index(row["predicted"])] = row["count"]
    np.testing.assert_array_equal(sparse, table - np.diag(table.diagonal()))
    assert [row["count"] for row in counts] == sorted((row["count"] for row in counts), reverse=True)


def test_empty_and_invalid_inputs() -> None:
    assert accuracy([], []) == macro_f1([], []) == 0
    assert confusions([], []) == []
    with pytest.raises(ValueError, match="expected 2 predictions, one per true label, found 1"):
        accuracy(["a", "b"], ["a"])
    with pytest.raises(ValueError, match="sentence 1: expected 2 predicted tags, found 1"):
        compare_spans([["O"], ["O", "O"]], [["O"], ["O"]])
    with pytest.raises(ValueError, match="empty tag"):
        compare_spans([[""]], [["O"]])


def test_overlap_of_spans_against_sets_of_words() -> None:
    """Johansson & Moschitti 2010, computed from the sets of the words of each span."""
    draw = random.Random(3)  # noqa: S311
    tags = ["O", "B-x", "I-x", "B-y", "I-y"]
    truth = [[draw.choice(tags) for _ in range(draw.randint(1, 9))] for _ in range(40)]
    predicted = [[draw.choice([tag, *tags]) for tag in sentence] for sentence in truth]
    for true, guess, row in zip(truth, predicted, overlap_rows(truth, predicted), strict=True):
        gold, found = _word_sets(true), _word_sets(guess)
        for spans, others, offset in ((found, gold, 0), (gold, found, 3)):
            shares = [
                sum(len(words & other) for name, other in others if name == kind) / len(words) for kind, words in spans
            ]
            expected = (sum(shares), sum(share > 0 for share in shares), len(spans))
            assert tuple(row[offset : offset + 3]) == pytest.approx(expected)
    same = overlap_rows(truth, truth).sum(axis=0)
    assert overlap_f1(same) == overlap_f1(same, binary=True) == 1
    half = overlap_rows([["B-x", "I-x", "O"]], [["B-x", "O", "O"]]).sum(axis=0)  # precision 1, recall 1/2
    assert overlap_f1(half) == pytest.approx(2 / 3)
    assert overlap_f1(half, binary=True) == 1
    assert overlap_f1(overlap_rows([["O"]], [["O"]])[0]) == 0


def _word_sets(tags: list[str]) -> list[tuple[str, set[int]]]:
    spans: list[tuple[str, set[int]]] = []
    previous = "O"
    for place, tag in enumerate(tags):
        kind = tag[2:]
        if tag != "O":
            if tag.startswith("B") or previous[2:] != kind:
                spans.append((kind, set()))
            spans[-1][1].add(place)
        previous = tag
    return spans
