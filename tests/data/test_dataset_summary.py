"""Data set summaries, against brute force."""

import gc
import statistics
from collections import Counter
from math import ceil

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seqloom.data.dataset_summary import ContentIndex, DatasetSummary, LengthSummary
from seqloom.data.readers.labelled import Example
from seqloom.data.readers.parallel import Reader
from seqloom.data.readers.series import Series, Window
from seqloom.data.readers.tagged import Sentence
from seqloom.data.readers.text_files import Location
from seqloom.data.readers.vectors import Vectors


@given(st.lists(st.integers(0, 70), min_size=1))
def test_lengths(lengths: list[int]) -> None:
    actual = LengthSummary.of(Counter(lengths))
    assert (actual.minimum, actual.maximum) == (min(lengths), max(lengths))
    assert actual.median == statistics.median(lengths)
    assert actual.mean == pytest.approx(statistics.fmean(lengths))
    assert actual.p95 == sorted(lengths)[ceil(0.95 * len(lengths)) - 1]
    spans = {name: [int(bound) for bound in (name.split("-") * 2)[:2]] for name in actual.histogram}
    for name, (first, last) in spans.items():
        assert actual.histogram[name] == sum(first <= length <= last for length in lengths)
    assert sum(actual.histogram.values()) == len(lengths)


letters = st.lists(st.sampled_from("abcdef"))


@given(letters, letters)
def test_duplicates(here: list[str], there: list[str]) -> None:
    own, other = ContentIndex(), ContentIndex()
    for contents, file, texts in ((own, "here", here), (other, "there", there)):
        for line, text in enumerate(texts, start=1):
            contents.add(text.encode(), b"", Location(file, line))
    rows, firsts = own.duplicates()
    assert list(zip(rows, firsts, strict=True)) == [
        (row, here.index(text)) for row, text in enumerate(here) if text in here[:row]
    ]
    rows, firsts = own.duplicates(other)
    assert list(zip(rows, firsts, strict=True)) == [
        (row, there.index(text)) for row, text in enumerate(here) if text in there
    ]


def test_duplicates_are_described_with_locations_and_labels() -> None:
    contents = ContentIndex()
    for line, (content, label) in enumerate(zip("abaaaa", "xyxzxx", strict=True), start=1):
        contents.add(content.encode(), label.encode(), Location(f"file{line % 2}", line))
    assert contents.describe() == (
        "4 examples, 1 of them with different labels (file1:3 = line 1, file0:4 = file1:1, file1:5 = line 1, …)"
    )
    assert ContentIndex().describe(contents) == contents.describe(ContentIndex()) == ""


def sentence(line: int, *pairs: str) -> Sentence:
    words, labels = zip(*(pair.split("/") for pair in pairs), strict=True)
    return Sentence(Location("file", line), words, labels, range(line, line + len(words)))


def survey(*examples: object, keep: int = 2) -> DatasetSummary:
    actual = DatasetSummary(keep=keep)
    for example in examples:
        actual.add(example)
    return actual


def test_tagged_file() -> None:
    actual = survey(
        sentence(1, "a/O", "b/B-x", "c/I-x"), sentence(5, "d/I-y"), sentence(7, "a/O", "b/O"), sentence(10, "d/I-y")
    )
    assert (actual.examples, actual.elements) == (4, 7)
    assert actual.labels == {"O": 3, "B-x": 1, "I-x": 1, "I-y": 2}
    assert actual.first == {"O": ("file", 1), "B-x": ("file", 2), "I-x": ("file", 3), "I-y": ("file", 5)}
    assert [each.location.line for each in actual.longest] == [1, 7]
    repeated, disordered = actual.remarks()
    assert repeated == "duplicates of earlier examples: 1 example (file:10 = line 5)"
    assert disordered.startswith(
        "2 labels out of order, first file:5: I-y is the first label, so there is no span to continue"
    )


def test_labels_without_spans_have_no_order() -> None:
    assert list(survey(sentence(1, "a/I-x", "b/NOUN")).remarks()) == []


def test_empty_and_unlabelled_examples() -> None:
    actual = survey(*(Example(Location("file", line), "", None, 0) for line in range(1, 6)))
    assert actual.unlabelled.total == actual.empty.total == 5
    assert actual.unlabelled.first == actual.empty.first == [Location("file", line) for line in (1, 2, 3)]
    assert list(actual.remarks()) == ["5 examples without elements, first file:1, file:2, file:3, …"]


def test_unbalanced_labels() -> None:
    actual = survey(
        *(Example(Location("file", line), f"text {line}", "x" if line > 1 else "y", 2) for line in range(20))
    )
    assert list(actual.remarks()) == []
    actual.add(Example(Location("file", 20), "text", "x", 1))
    assert list(actual.remarks()) == ["90.5% of all labels are 'x': always predicting it gives that accuracy"]


def test_length_outlier() -> None:
    short = [Example(Location("file", line), f"text {line}", "x", 2) for line in range(1, 40)]
    (remark,) = survey(*short, Example(Location("file", 77), "long", "x", 21)).remarks()
    assert remark.startswith("the longest example has 21 elements (file:77), 95 % have at most 2: ")


def test_constant_columns() -> None:
    values = np.array([[1.0, 2.0, 3.0], [1.0, 5.0, 3.0]])
    vectors = [Vectors(Location("file", 1), values), Vectors(Location("file", 2), values * [1, 1, 2])]
    assert survey(*vectors).constant == ["1"]
    series = Series(Location("file", 1), values, ("a", "b", "c"), 0, 2)
    actual = survey(Window(series, 0, 1, known=True), Window(series, 1, 2, known=False))
    assert list(actual.remarks()) == ["2 of 3 columns never change: a, c"]


def test_examples_are_not_kept() -> None:
    class Counted(Example):
        __slots__ = ()

    actual = DatasetSummary(keep=3)
    for line in range(500):
        actual.add(Counted(Location("file", line), f"text {line}", "x", line % 7))
    assert sum(type(each) is Counted for each in gc.get_objects()) == 3
    assert [len(example) for example in actual.longest] == [6, 6, 6]


def test_memory_estimate() -> None:
    values = np.zeros((1000, 2), dtype=np.float32)
    actual = survey(*(Vectors(Location("file", line), values.copy(), label="x") for line in range(10)))
    assert 80_000 < actual.size(10) < 90_000
    assert actual.size(5) == actual.size(10) // 2


def test_sides_of_pairs() -> None:
    given = [("a b", "x"), ("", "y z"), ("a b", "x y z"), ("c", ""), ("d", None)]
    reader = Reader(source_length=lambda text: len(text.split()), target_length=lambda text: len(text.split()))
    actual = survey(*reader.read(given))
    assert (actual.examples, actual.elements, actual.unlabelled.total) == (5, 2 + 2 + 3 + 1 + 1, 1)
    facts = actual.split("file", None).sides
    assert {name: (side.empty, side.lengths.maximum) for name, side in facts.items()} == {
        "source": (1, 2),
        "target": (1, 3),
    }
    assert list(actual.remarks()) == [
        "1 source without tokens, first input:2",
        "1 target without tokens, first input:4",
        "duplicates of earlier examples: 1 example, 1 of them with different targets (input:3 = line 1)",
    ]
