import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from seqeval.metrics import classification_report, f1_score
from sklearn import metrics as reference

from seqloom.metrics.labels import accuracy, compare_spans, confusion, macro_f1, per_label, per_type, span_f1

TAGS = ["O", "B", "I", *[f"{kind}-{name}" for kind in "BIES" for name in ("PER", "LOC", "a-b", "_")]]
PAIRS = st.lists(st.lists(st.tuples(st.sampled_from(TAGS), st.sampled_from(TAGS)), max_size=9), min_size=1, max_size=4)
LABELS = st.lists(st.tuples(st.sampled_from("abcd"), st.sampled_from("abcde")), min_size=1, max_size=30)


def sides(pairs: list[list[tuple[str, str]]]) -> tuple[list[list[str]], list[list[str]]]:
    return [[left for left, _ in row] for row in pairs], [[right for _, right in row] for row in pairs]


@given(pairs=PAIRS)
def test_span_f1_is_that_of_seqeval(pairs: list[list[tuple[str, str]]]) -> None:
    truth, predicted = sides(pairs)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # seqeval warns where there is nothing to divide by
        assert span_f1(truth, predicted) == pytest.approx(f1_score(truth, predicted), abs=1e-12)


@given(pairs=PAIRS)
def test_figures_of_each_type_are_those_of_seqeval(pairs: list[list[tuple[str, str]]]) -> None:
    truth, predicted = sides(pairs)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            report: dict[str, Any] = classification_report(truth, predicted, output_dict=True)
        except ValueError:  # its mean of no types at all
            report = {}
    wanted = {name: row for name, row in report.items() if not name.endswith(" avg")}
    found = per_type(compare_spans(truth, predicted))
    assert found.keys() == wanted.keys()
    for name, row in found.items():
        for column, value in row.items():
            assert value == pytest.approx(wanted[name]["f1-score" if column == "f1" else column], abs=1e-12)


@given(pairs=PAIRS)
def test_counts_of_sentences_are_those_of_each_alone(pairs: list[list[tuple[str, str]]]) -> None:
    truth, predicted = sides(pairs)
    together = compare_spans(truth, predicted).sentences
    for number, (wanted, found) in enumerate(zip(truth, predicted, strict=True)):
        alone = compare_spans([wanted], [found]).sentences
        assert [counts[number] for counts in together] == [counts[0] for counts in alone]


def test_spans_by_hand() -> None:
    truth = [["B-a", "I-a", "O", "I-b"], ["O"], ["S-a", "B-b", "E-b"]]
    predicted = [["B-a", "I-a", "O", "B-b"], ["B-a"], ["B-a", "I-b", "O"]]
    comparison = compare_spans(truth, predicted)
    assert np.array(comparison.sentences).tolist() == [[2, 0, 1], [2, 1, 2], [2, 0, 2]]
    assert comparison.sentences.f1 == 2 * 3 / 9
    assert compare_spans([], []).sentences.f1 == 0


@given(pairs=LABELS)
def test_labels_as_scikit_learn(pairs: list[tuple[str, str]]) -> None:
    truth, predicted = [left for left, _ in pairs], [right for _, right in pairs]
    assert accuracy(truth, predicted) == pytest.approx(reference.accuracy_score(truth, predicted))
    wanted = reference.f1_score(truth, predicted, average="macro", zero_division=0)
    assert macro_f1(truth, predicted) == pytest.approx(wanted, abs=1e-12)
    report = reference.classification_report(truth, predicted, output_dict=True, zero_division=0)
    for name, row in per_label(truth, predicted).items():
        assert row == pytest.approx({"f1" if key == "f1-score" else key: report[name][key] for key in report[name]})
    table = reference.confusion_matrix(truth, predicted, labels=list("abcde"))
    assert confusion(truth, predicted, list("abcde")) == table.tolist()


def test_nothing_and_what_does_not_fit() -> None:
    assert accuracy([], []) == macro_f1([], []) == 0
    assert confusion([], [], ["a", "b"]) == [[0, 0], [0, 0]]
    with pytest.raises(ValueError, match="2 true answers and 1 predicted"):
        accuracy(["a", "b"], ["a"])
    with pytest.raises(ValueError, match="'c' is not among"):
        confusion(["c"], ["a"], ["a", "b"])
    with pytest.raises(ValueError, match="sentence 1 has 2 true tags and 1 predicted"):
        compare_spans([["O"], ["O", "O"]], [["O"], ["O"]])
    with pytest.raises(ValueError, match="a tag is empty"):
        compare_spans([[""]], [["O"]])
