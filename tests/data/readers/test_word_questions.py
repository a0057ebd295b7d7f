"""Questions about words, and test files of analogies and similarities."""

from pathlib import Path

import pytest

from seqloom.data.readers.text_files import DataError, Location
from seqloom.data.readers.word_questions import detect, parse_question, read_questions, read_test

HERE = Location("input", 1)


@pytest.mark.parametrize(
    ("text", "kind", "words", "signs"),
    [
        ("king", "neighbours", ("king",), (1,)),
        ("king - man + woman", "analogy", ("king", "man", "woman"), (1, -1, 1)),
        ("- man + king", "analogy", ("man", "king"), (-1, 1)),
        ("cat dog", "similarity", ("cat", "dog"), (1, 1)),
        ("cat dog car", "odd", ("cat", "dog", "car"), (1, 1, 1)),
        ("-", "neighbours", ("-",), (1,)),
        ("king - - man", "unclear", (), ()),
        ("king man + woman", "unclear", (), ()),
        ("king +", "unclear", (), ()),
        ("  ", "unclear", (), ()),
    ],
)
def test_parse_question(text: str, kind: str, words: tuple[str, ...], signs: tuple[int, ...]) -> None:
    actual = parse_question(HERE, text)
    assert (actual.kind, actual.words, actual.signs) == (kind, words, signs)
    assert next(read_questions([text])) == actual


def test_analogies() -> None:
    first, second, third = read_test(
        [": capitals", "Athens Greece Oslo Norway", "", ": plural", "a as b bs", "c cs d ds"]
    )
    assert (first.words, first.signs, first.truth, first.group) == (
        ("Athens", "Greece", "Oslo"),
        (-1, 1, 1),
        "Norway",
        "capitals",
    )
    assert (second.group, third.truth, third.location.line) == ("plural", "ds", 6)
    with pytest.raises(DataError, match=r"input:2: expected four words, .* found 3 words"):
        list(read_test([": group", "a b c"]))


@pytest.mark.parametrize(
    "lines",
    [
        ["# a comment", "love\tsex\t6.77", "tiger\tcat\t7.35"],  # WordSim
        ["Word 1,Word 2,Human (mean)", "love,sex,6.77", "tiger,cat,7.35"],
        ["word1\tword2\tPOS\tSimLex999\tconc", "love\tsex\tN\t6.77\t2.3", "tiger\tcat\tN\t7.35\t2.3"],  # SimLex
        ["love sex 6.77", "tiger cat 7.35"],
        ["love;sex;6.77;x", "tiger;cat;7.35;x"],
    ],
)
def test_similarity_pairs(lines: list[str]) -> None:
    assert detect(lines) == "pairs"
    actual = [(*each.words, each.human) for each in read_test(lines)]
    assert actual == [("love", "sex", 6.77), ("tiger", "cat", 7.35)]
    with pytest.raises(DataError, match="two words and a number"):
        list(read_test([*lines, "what"]))


def test_plain_text_is_detected(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("one two three four\nfive six 7\n: eight\n")
    assert detect(tmp_path / "text") == "text"
    assert detect([]) == "text"
    assert detect(tmp_path) == "text"
