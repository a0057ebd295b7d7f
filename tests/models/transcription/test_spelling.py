"""Words that a lexicon lacks, against all texts that can be made of its words."""

from itertools import product

import pytest

from seqloom.models.transcription.spelling import LexiconVocabulary

WORDS = ["a", "ba", "cab"]


@pytest.mark.parametrize("joined", [False, True])
def test_out_of_vocabulary_words(joined: bool) -> None:
    vocabulary = LexiconVocabulary(WORDS)
    sequences = {"".join(words) for count in range(7) for words in product(WORDS, repeat=count)}
    for length in range(7):
        for letters in product("abc", repeat=length):
            text = "".join(letters)
            known = text in (sequences if joined else ["", *WORDS])
            assert vocabulary.out_of_vocabulary(text, joined=joined) == ([] if known else [text])


def test_words_with_spaces_between_them_are_not_joined() -> None:
    assert LexiconVocabulary(WORDS).out_of_vocabulary("aba  cab x a x", joined=True) == ["aba", "x", "x"]
    assert LexiconVocabulary([]).out_of_vocabulary("", joined=True) == []
