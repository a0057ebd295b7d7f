"""Data set summaries, against brute force."""

import gc
import statistics
from collections import Counter
from math import ceil

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seqloom.data.dataset_summary import (
    ContentIndex,
    DatasetSummary,
    LengthSummary,
    all_repeated,
    compare_splits,
    findings,
)
from seqloom.data.readers.captioned_signals import CaptionedSignal
from seqloom.data.readers.labelled import LabelledSequence
from seqloom.data.readers.recordings import Recording
from seqloom.data.readers.sentences import Sentence
from seqloom.data.readers.series import Series, Window
from seqloom.data.readers.text_files import Location
from seqloom.data.readers.vectors import VectorSequence
from seqloom.tasks.caption import Caption
from seqloom.tasks.classify import Classify
from seqloom.tasks.embed import Embed
from seqloom.tasks.forecast import Forecast
from seqloom.tasks.language_model import LanguageModel
from seqloom.tasks.tag import Tag
from seqloom.tasks.task import Task
from seqloom.tasks.transcribe import Transcribe
from seqloom.tasks.translate import Translate

TAG, CLASSIFY, TRANSLATE = Tag(train="x"), Classify(train="x"), Translate(train="x")


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


def summarize(task: Task, *examples: object) -> DatasetSummary:
    actual = DatasetSummary(task.summarize_example, target_name=task.target_name, keep=2)
    for example in examples:
        actual.add(example)
    return actual


def test_tagged_file() -> None:
    actual = summarize(
        TAG,
        sentence(1, "a/O", "b/B-x", "c/I-x"),
        sentence(5, "d/I-y"),
        sentence(7, "a/O", "b/O"),
        sentence(10, "d/I-y"),
    )
    assert (actual.examples, actual.elements) == (4, 7)
    assert actual.labels == {"O": 3, "B-x": 1, "I-x": 1, "I-y": 2}
    assert actual.first == {"O": ("file", 1), "B-x": ("file", 2), "I-x": ("file", 3), "I-y": ("file", 5)}
    assert [each.location.line for each in actual.longest] == [1, 7]
    repeated, disordered = actual.warnings()
    assert repeated == "duplicates of earlier examples: 1 example (file:10 = line 5)"
    assert disordered.startswith(
        "2 labels out of order, first file:5: I-y is the first label, so there is no span to continue, as in IOB1: "
        "task.convert_iob1 = true converts it to BIO"
    )


def test_labels_without_spans_have_no_order() -> None:
    assert list(summarize(TAG, sentence(1, "a/I-x", "b/NOUN")).warnings()) == []


def test_empty_and_unlabelled_examples() -> None:
    actual = summarize(CLASSIFY, *(LabelledSequence(Location("file", line), "", None, 0) for line in range(1, 6)))
    assert actual.unlabelled.total == actual.empty.total == 5
    assert actual.unlabelled.first == actual.empty.first == [Location("file", line) for line in (1, 2, 3)]
    assert list(actual.warnings()) == ["5 examples without elements, first file:1, file:2, file:3, …"]


def test_unbalanced_labels() -> None:
    actual = summarize(
        CLASSIFY,
        *(LabelledSequence(Location("file", line), f"text {line}", "x" if line > 1 else "y", 2) for line in range(20)),
    )
    assert list(actual.warnings()) == []
    actual.add(LabelledSequence(Location("file", 20), "text", "x", 1))
    assert list(actual.warnings()) == ["90.5% of all labels are 'x': always predicting it gives that accuracy"]


def test_length_outlier() -> None:
    short = [LabelledSequence(Location("file", line), f"text {line}", "x", 2) for line in range(1, 40)]
    (warning,) = summarize(CLASSIFY, *short, LabelledSequence(Location("file", 77), "long", "x", 21)).warnings()
    assert warning.startswith("the longest example has 21 elements (file:77), 95 % have at most 2: ")


def test_constant_columns() -> None:
    values = np.array([[1.0, 2.0, 3.0], [1.0, 5.0, 3.0]])
    vectors = [VectorSequence(Location("file", 1), values), VectorSequence(Location("file", 2), values * [1, 1, 2])]
    assert summarize(TAG, *vectors).values.constant == ["1"]
    series = Series(Location("file", 1), values, ("a", "b", "c"), 0, 2)
    actual = summarize(Forecast(train="x"), Window(series, 0, 1, known=True), Window(series, 1, 2, known=False))
    assert list(actual.warnings()) == ["2 of 3 columns never change: a, c"]


def test_examples_are_not_kept() -> None:
    class Counted(LabelledSequence):
        __slots__ = ()

    actual = DatasetSummary(CLASSIFY.summarize_example, keep=3)
    for line in range(500):
        actual.add(Counted(Location("file", line), f"text {line}", "x", line % 7))
    assert sum(type(each) is Counted for each in gc.get_objects()) == 3
    assert [len(example) for example in actual.longest] == [6, 6, 6]


def test_memory_estimate() -> None:
    values = np.zeros((1000, 2), dtype=np.float32)
    actual = summarize(TAG, *(VectorSequence(Location("file", line), values.copy(), label="x") for line in range(10)))
    assert 80_000 < actual.size(10) < 90_000
    assert actual.size(5) == actual.size(10) // 2


def test_sides_of_pairs() -> None:
    pairs = [("a b", "x"), ("", "y z"), ("a b", "x y z"), ("c", ""), ("d", None)]
    actual = summarize(TRANSLATE, *TRANSLATE.read(pairs))
    assert (actual.examples, actual.elements, actual.unlabelled.total) == (5, 2 + 2 + 3 + 1 + 1, 1)
    sides = actual.split("file", None).sides
    assert {name: (side.empty, side.lengths.maximum) for name, side in sides.items()} == {
        "source": (1, 2),
        "target": (1, 3),
    }
    assert list(actual.warnings()) == [
        "1 source without tokens, first input:2",
        "1 target without tokens, first input:4",
        "duplicates of earlier examples: 1 example, 1 of them with different targets (input:3 = line 1)",
    ]


def test_captions_are_a_side_and_images_the_content() -> None:
    image, other = np.zeros((2, 2, 3), np.uint8), np.ones((2, 2, 3), np.uint8)
    examples = [
        CaptionedSignal(Location("file", line), "", pixels, captions, tuple(len(text.split()) for text in captions))
        for line, (pixels, captions) in enumerate([(image, ("a b", "c")), (other, ()), (image, ("d",))], start=1)
    ]
    actual = summarize(Caption(train="x"), *examples)
    assert actual.unlabelled.first == [Location("file", 2)]
    assert actual.sides["caption"].lengths == {2: 1, 1: 2}
    (warning,) = (text for text in actual.warnings() if "duplicates" in text)
    assert warning.endswith("1 example, 1 of them with different captions (file:3 = line 1)")


def test_transcripts_are_a_side_and_frames_have_columns() -> None:
    frames = np.array([[1, 2], [1, 3]], np.float32)
    examples = [
        Recording(Location("file", 1), "a", frames, 0, "ab c"),
        Recording(Location("file", 2), "b", frames, 0, None),
    ]
    actual = summarize(Transcribe(train="x"), *examples)
    assert actual.unlabelled.first == [Location("file", 2)]
    assert actual.sides["text"].lengths == {4: 1}
    assert actual.values.constant == ["1"]
    assert "1 of them with different texts" in actual.contents.describe()


def test_lines_and_questions_have_content_but_no_labels() -> None:
    for task, texts in (
        (LanguageModel(train="x"), ["a b", "a b"]),
        (Embed(train="x"), [": group", "a b c d", "a b c d"]),
    ):
        actual = summarize(task, *task.read(texts))
        assert (len(actual.contents.duplicates()[0]), actual.unlabelled.total, actual.labels) == (1, 0, {})
    assert len(summarize(Embed(train="x"), *Embed(train="x").read(["a text", "a text"])).contents) == 0


def test_examples_of_a_task_without_a_summary_are_only_counted() -> None:
    example = LabelledSequence(Location("file", 1), "a text", None, 2)
    actual = DatasetSummary(lambda each: Task.summarize_example(TAG, each), keep=1)
    actual.add(example)
    actual.add(example)
    assert (actual.examples, actual.elements, len(actual.contents), actual.unlabelled.total) == (2, 4, 0, 0)
    assert list(actual.warnings()) == []


def labelled(*pairs: tuple[str, str], file: str = "t") -> DatasetSummary:
    examples = (
        LabelledSequence(Location(file, line), text, label, len(text.split()))
        for line, (label, text) in enumerate(pairs, start=1)
    )
    return summarize(CLASSIFY, *examples)


def test_labels_that_differ_only_in_case_or_whitespace() -> None:
    summary = labelled(("spam", "a"), ("Spam", "b"), ("very  bad", "c"), ("Very bad", "d"), ("spam", "e"), ("ham", "f"))
    assert summary.similar_labels() == [["spam", "Spam"], ["very  bad", "Very bad"]]
    (warning,) = summary.warnings()
    assert warning == (
        "labels that differ only in case or whitespace: 'spam' (2) and 'Spam' (1), 'very  bad' (1) and 'Very bad' (1); "
        "if they mean the same, write them alike"
    )
    summary.merges_labels = True
    (warning,) = summary.warnings()
    assert warning.endswith("; if they mean the same, task.lowercase_labels=true makes them one")


def test_splits_are_compared() -> None:
    train = labelled(("spam", "a b"), ("ham", "c d"))
    dev = labelled(("spam", "a b"), ("Spam", "e"), ("news", "f"), file="d")
    overlap, unseen = compare_splits(train, dev)
    assert overlap == "dev: some of its content also occurs in train: 1 example (d:1 = t:1)"
    labels = "'Spam' (1 time, first d:2; train has 'spam'), 'news' (1 time, first d:3)"
    assert unseen == f"dev: 2 labels not in train, which cannot be predicted: {labels}"
    assert [all_repeated(train, other) for other in (dev, train, labelled())] == [False, True, False]


def test_training_warns_of_labels_with_a_single_example() -> None:
    rows = [("ham" if number % 2 else "spam", f"text {number}") for number in range(20)]
    assert findings(labelled(*rows), None) == []
    (line,) = findings(labelled(*rows, ("mixed", "both")), None)
    assert line.startswith("warning: train: 1 label with a single example: 'mixed' (")


def test_training_prints_a_few_findings() -> None:
    train = labelled(("spam", "a b"), ("ham", "c d"), ("ham", "c d"))
    assert findings(train, None) == []  # a harmless duplicate
    assert findings(labelled(("spam", "a b"), ("ham", "a b")), None) == [
        "warning: train: duplicates of earlier examples: 1 example, 1 of them with different labels (t:2 = line 1)"
    ]
    many = labelled(*(("spam", f"word {number}") for number in range(200)))
    few = labelled(*(("spam", f"other {number}") for number in range(200)), ("spam", "word 1"))
    assert findings(many, few) == []
    wrong = labelled(("spam", ""), ("Spam", ""), ("a", "x"), ("a", "x y " * 90), ("b", "x"), ("SPAM", "x"))
    lines = findings(labelled(("a", ""), ("A", "x"), ("A", "x y " * 90), ("a", "x")), wrong)
    assert len(lines) == 6
    assert lines[0].startswith("warning: dev: all of its content also occurs in train: ")
    assert lines[1].startswith("warning: dev: 4 labels not in train, ")
    assert lines[-1] == "warning: 3 more; seqloom check shows all"


def test_labels_that_differ_in_case_are_reported_once() -> None:
    train = labelled(("spam", "a b"), ("Spam", "c d"), ("ham", "x"))
    dev = labelled(("spam", "e"), ("Spam", "f"), ("ham", "g"), file="d")
    assert sum("differ only in case" in line for line in findings(train, dev)) == 1
    new = labelled(("new", "e"), ("New", "f"), file="d")
    assert "dev: labels that differ only in case or whitespace: 'new' (1) and 'New' (1)" in "\n".join(
        findings(train, new)
    )
