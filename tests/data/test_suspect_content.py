"""Texts and labels that are probably not what was meant."""

from collections import Counter

import pytest

from seqloom.data.suspect_content import SuspectContent


def warnings(*examples: tuple[str, str, list[str]]) -> list[str]:
    suspect, labels = SuspectContent(), Counter[str]()
    for content, target, of_words in examples:
        suspect.add(content.encode(), target, of_words)
        labels.update(of_words)
    return list(suspect.warnings(labels))


def test_texts_that_are_numbers() -> None:
    assert warnings(*((str(number), "a", ["a"]) for number in range(12))) == [
        "all texts are numbers: is it the right column?"
    ]
    assert not warnings(*((f"{number} days", "a", ["a"]) for number in range(12)))
    assert not warnings(*((str(number), "a", ["a"]) for number in range(9)))  # too few to tell


def test_pairs_of_equal_texts() -> None:
    same: list[tuple[str, str, list[str]]] = [(f"word {number}", f"word {number}", []) for number in range(18)]
    assert warnings(*same, ("a", "b", []), ("c", "d", [])) == [
        "input and target are equal in 18 of 20 examples: is a column or a file read twice?"
    ]
    assert not warnings(*same, *((f"{number}", "b", []) for number in range(3)))


def test_exchanged_words_and_labels() -> None:
    words, labels = ["the", "cat", "a", "dog", "sleeps"], ["DET", "NOUN", "DET", "NOUN", "VERB"]
    assert not warnings(*[("\t".join(words), "\t".join(labels), labels)] * 3)
    (warning,) = warnings(*[("\t".join(labels), "\t".join(words), words)] * 3)
    assert warning.startswith("there are more different labels (5) than different words (3): are the columns exchanged")


@pytest.mark.parametrize("label", ["nan", "NA", "n/a", "null", "<NA>"])
def test_labels_that_stand_for_missing_values(label: str) -> None:
    (warning,) = warnings(("good", "pos", ["pos"]), *[("so so", label, [label])] * 3)
    assert warning == f"the label {label!r} (3 times) usually stands for a missing value: remove these examples"


@pytest.mark.parametrize(
    ("labels", "named"),
    [
        (["B-PER", "I-PER", "0"], "'0'"),
        (["b-per", "i-per", "o"], "'b-per'"),
        (["B-PER", "L-PER", "O", "U-LOC"], "'L-PER'"),
    ],
)
def test_labels_that_are_nearly_spans(labels: list[str], named: str) -> None:
    (warning,) = warnings(("\t".join(f"w{index}" for index in range(len(labels))), "", labels))
    assert warning.startswith(f"the label {named} is not read as a part of a span")


@pytest.mark.parametrize(
    "labels", [["B-PER", "I-PER", "O"], ["NOUN", "DET", "O"], ["pos", "none"], ["B-PER", "NOUN", "0"]]
)
def test_usual_labels_are_not_suspect(labels: list[str]) -> None:
    assert not warnings(("\t".join(f"w{index}" for index in range(len(labels))), "", labels))
