"""Training examples that are longer than train.max_length."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from seqloom import tasks, training_data
from seqloom.config import ConfigError, Document
from seqloom.data.readers.sentences import Sentence
from seqloom.data.readers.tagged_parts import cut_sequence
from seqloom.data.readers.text_files import DataError, Location
from seqloom.data.readers.vectors import VectorSequence
from seqloom.data.text.tokenizers import TextConfig
from seqloom.run_config import Config


def build(task: str, *changes: str) -> Config:
    return Config.build(Document.empty([f"task.name={task}", "task.train=none", "task.dev_fraction=0", *changes]))


def limited(task: str, data: Sequence[Any], *changes: str) -> tuple[list[Any], str]:
    """The training examples of data in memory, and the note about long ones."""
    config = build(task, *changes)
    readers = training_data.data_readers(config, training_data.Sources(train=data))
    return list(readers.train()), readers.limit.note()


def test_classify_truncates_texts_and_vectors() -> None:
    data = [("a b c", "x"), ("a  b c d e", "y")]
    examples, note = limited("classify", data, "train.max_length=3")
    assert [(example.content, len(example)) for example in examples] == [("a b c", 3), ("a b c", 3)]
    assert note == "input:2: 1 of 2 training examples is longer than 3 (train.max_length) and truncated"
    assert limited("classify", data, "train.max_length=5")[1] == ""
    skipped, note = limited("classify", data, "train.max_length=3", "train.too_long=skip")
    assert [example.label for example in skipped] == ["x"]
    assert note.endswith("and skipped")
    values = np.arange(12.0).reshape(6, 2)
    (vectors,), _ = limited("classify", [(values, "x")], "train.max_length=4")
    assert vectors.content.tolist() == values[:4].tolist()
    assert len(vectors) == 4


def test_a_line_without_blanks_is_as_long_as_it_has_ideographs() -> None:
    text = TextConfig(split="punctuation")
    assert text.measure("我爱 北京, yes") == 6
    assert list(text.cut("我爱 北京, yes", 3)) == ["我爱 北", "京, yes"]
    assert TextConfig().measure("我爱 北京") == 2
    assert list(TextConfig(unit="characters").cut("abcde", 2)) == ["ab", "cd", "e"]
    (example,), _ = limited("classify", [("好" * 50, "x")], "task.text.split=punctuation", "train.max_length=20")
    assert example.content == "好" * 20


def test_tag_splits_between_spans() -> None:
    labels = ("O", "B-x", "I-x", "I-x", "O", "B-y", "O")
    sentence = Sentence(Location("a", 3), tuple("abcdefg"), labels, range(3, 10))
    parts = [part for part in cut_sequence(sentence, 3) if isinstance(part, Sentence)]
    assert ["".join(part.words) for part in parts] == ["a", "bcd", "efg"]
    assert sum((part.labels or () for part in parts), ()) == labels
    assert [part.location.line for part in parts] == [3, 4, 7]
    long_span = Sentence(Location("a", 1), tuple("abcd"), ("B-x", "I-x", "I-x", "I-x"))
    assert [len(part) for part in cut_sequence(long_span, 3)] == [3, 1]
    frames = VectorSequence(Location("a", 1), np.zeros((5, 2), np.float32), labels=tuple("pqrst"))
    assert [part.labels for part in cut_sequence(frames, 2)] == [("p", "q"), ("r", "s"), ("t",)]
    examples, note = limited(
        "tag", [("a b c d e f g", list("1234567"))], "train.max_length=3", "train.too_long=truncate"
    )
    assert [example.labels for example in examples] == [("1", "2", "3")]
    assert note.endswith("and truncated")


def test_language_models_split_lines() -> None:
    changes = ("train.bptt_steps=0", "train.max_length=3", "task.text.unit=words")
    examples, note = limited("language_model", ["a b c d e f g", "h i"], *changes)
    assert [example.text for example in examples] == ["a b c", "d e f", "g", "h i"]
    assert all(len(example) <= 3 for example in examples)
    assert note.endswith("is longer than 3 (train.max_length) and split")
    examples, _ = limited("language_model", ["abcdefg"], *changes[:2], "task.text.unit=characters")
    assert [(example.text, len(example)) for example in examples] == [("ab", 3), ("cd", 3), ("ef", 3), ("g", 2)]


def test_pairs_are_skipped_if_either_side_is_too_long() -> None:
    examples, _ = limited("translate", [("a", "b c d"), ("a", "b")], "train.max_length=2")
    assert [example.target for example in examples] == ["b"]
    with pytest.raises(DataError, match=r"input:1: all 1 examples are longer than 2 \(train\.max_length\)"):
        limited("translate", [("a", "b c d")], "train.max_length=2")


def test_development_data_are_read_whole(tmp_path: Path) -> None:
    file = tmp_path / "train.tsv"
    file.write_text("".join(f"{'xy'[number % 2]}\tone two three {number}\n" for number in range(20)))
    changes = [f"task.train={file}", "task.dev_fraction=0.3", "train.max_length=2", "task.name=classify"]
    config = Config.build(Document.empty(changes))
    readers = training_data.data_readers(config)
    assert {len(example) for example in readers.train()} == {2}
    assert {len(example) for example in readers.dev()} == {4}
    assert len(list(readers.train())) + len(list(readers.dev())) == 20


@pytest.mark.parametrize("name", tasks.names())
def test_the_default_of_each_task_is_one_that_it_can_do(name: str) -> None:
    kind = tasks.find(name)
    assert build(name).train.too_long == kind.too_long[0]
    if "split" not in kind.too_long:
        with pytest.raises(ConfigError, match=f'expected .*"skip" for the task {name}, got "split"'):
            build(name, "train.too_long=split")


@pytest.mark.parametrize(
    ("task", "reason"),
    [("forecast", "task.history"), ("embed", "ten thousand words"), ("language_model", r"train\.bptt_steps = 35 cuts")],
)
def test_a_limit_without_a_meaning_is_refused(task: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=rf"train\.max_length: expected 0, got 9: .*{reason}"):
        build(task, "train.max_length=9")
