"""Symbols and frames as text, words and times."""

import math
from collections.abc import Iterable
from dataclasses import replace

import pytest

from seqloom.data.text.tokenizers import TextConfig, Tokenizer
from seqloom.data.text.vocabulary import Vocabulary
from seqloom.decoding.frames.frame_search import Transcript
from seqloom.decoding.frames.lexicon import Lexicon
from seqloom.models.transcription.transcripts import IncrementalTranscript, to_transcript, to_word_transcript

PLAIN = TextConfig(unit="characters").fit(["ab ba"])
SENTENCES = ["the cat sat on the mat", "a cat  and an élan", "thesis that then than"]
UNITS = {
    "characters": TextConfig(unit="characters"),
    "words": TextConfig(unit="words"),
    "bpe": TextConfig(unit="subwords", vocab_size=300),
    "unigram": TextConfig(unit="subwords", algorithm="unigram", vocab_size=40),
}


def transcript(encoding: Tokenizer, text: str, words: list[int] | None = None) -> Transcript:
    symbols = encoding.encode(text)
    frames = [(2 * index, 2 * index) for index in range(len(symbols))]
    return Transcript(symbols, words or [], -1.5, -1.0, -0.5, frames, [(0, 1)] * len(words or []))


def test_words_stand_between_blanks_however_many() -> None:
    found = to_word_transcript(transcript(PLAIN, " ab  ba "), PLAIN, None)
    assert (found.text, found.words) == (" ab  ba ", ["ab", "ba"])
    assert found.spans == [(2, 4), (10, 12)]
    assert to_word_transcript(transcript(PLAIN, ""), PLAIN, None) == ("", [], [], [], 0)


def test_a_text_begins_and_ends_with_a_word() -> None:
    found = to_transcript([transcript(PLAIN, " ab  ba "), transcript(PLAIN, " ")], PLAIN, None, unit=1)
    assert (found.text, [each.text for each in found.best]) == ("ab  ba", ["ab  ba", ""])
    assert found.symbols == list(" ab  ba ")
    bytewise = UNITS["bpe"].fit(SENTENCES)
    assert to_transcript([transcript(bytewise, " the cat")], bytewise, None, unit=1).text == "the cat"


@pytest.mark.parametrize("name", UNITS)
def test_what_grows_is_what_is_written_at_once(name: str) -> None:
    encoding = UNITS[name].fit(SENTENCES)
    whole = transcript(encoding, "  ".join(SENTENCES))
    for step in (1, 2, 5):
        grow = IncrementalTranscript(encoding, None, unit=0.5)
        for end in [*range(0, len(whole.symbols), step), len(whole.symbols), len(whole.symbols)]:
            part = replace(whole, symbols=whole.symbols[:end], frames=whole.frames[:end], score=-end)
            assert grow(part) == to_transcript([part], encoding, None, unit=0.5)


@pytest.mark.parametrize("apart", [True, False])
def test_words_of_a_lexicon_that_come_one_by_one(*, apart: bool) -> None:
    lexicon = Lexicon(
        [("AB", PLAIN.encode("ab")), ("BA", PLAIN.encode("ba"))], separator=PLAIN.numbers[" "] if apart else None
    )
    grow, said = IncrementalTranscript(PLAIN, lexicon, unit=2.0), [0, 1, 1, 0]
    for count in (0, 1, 1, 3, 4):
        part = transcript(
            PLAIN, (" " if apart else "").join(lexicon.words[word].lower() for word in said[:count]), said[:count]
        )
        assert grow(part) == to_transcript([part], PLAIN, lexicon, unit=2.0)


def test_what_was_written_is_not_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    grow, read = IncrementalTranscript(PLAIN, None, unit=1.0), 0
    decode = type(PLAIN.vocabulary).decode

    def count(vocabulary: Vocabulary, numbers: Iterable[int]) -> list[str]:
        nonlocal read
        found = decode(vocabulary, numbers)
        read += len(found)
        return found

    monkeypatch.setattr(type(PLAIN.vocabulary), "decode", count)
    for words in range(200):
        grow(transcript(PLAIN, "ab ba " * words))
    assert read < 200 * 6 * 10


def test_words_of_a_lexicon_are_joined_as_they_are_written() -> None:
    ab, ba = PLAIN.encode("ab"), PLAIN.encode("ba")
    apart = Lexicon([("AB", ab), ("BA", ba)], separator=PLAIN.numbers[" "])
    assert to_word_transcript(transcript(PLAIN, "ba ab", [1, 0]), PLAIN, apart).text == "BA AB"
    together = Lexicon([("AB", ab), ("BA", ba)], separator=None)
    found = to_word_transcript(transcript(PLAIN, "baab", [1, 0]), PLAIN, together)
    assert (found.text, found.words, found.spans) == ("BAAB", ["BA", "AB"], [(0, 1), (0, 1)])


def test_an_answer_has_all_candidates_and_times_in_units() -> None:
    found = to_transcript([transcript(PLAIN, "ab"), transcript(PLAIN, "b")], PLAIN, None, unit=0.03, name="x", loss=2.0)
    assert (found.text, found.score, found.acoustic, found.language) == ("ab", -1.5, -1.0, -0.5)
    assert found.times == [(0.0, 0.03), (0.06, 0.09)]
    assert found.word_times == [(0.0, 0.09)]
    assert [each.text for each in found.best] == ["ab", "b"]
    assert (found.name, found.loss) == ("x", 2.0)
    nothing = to_transcript([], PLAIN, None, unit=1)
    assert (nothing.text, nothing.score, nothing.best) == ("", -math.inf, [])
