"""Words that a lexicon lacks, against all texts that can be made of its words."""

from itertools import product

import pytest

from seqloom.models.transcription.spelling import ListedWords

WORDS = ["a", "ba", "cab"]


@pytest.mark.parametrize("joined", [False, True])
def test_missing_words(joined: bool) -> None:
    listed = ListedWords(WORDS)
    sequences = {"".join(words) for count in range(7) for words in product(WORDS, repeat=count)}
    for length in range(7):
        for letters in product("abc", repeat=length):
            text = "".join(letters)
            known = text in (sequences if joined else ["", *WORDS])
            assert listed.missing(text, joined=joined) == ([] if known else [text])


def test_words_with_spaces_between_them_are_not_joined() -> None:
    assert ListedWords(WORDS).missing("aba  cab x a x", joined=True) == ["aba", "x", "x"]
    assert ListedWords([]).missing("", joined=True) == []
