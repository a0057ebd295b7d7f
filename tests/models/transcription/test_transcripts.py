"""Tokens and frames as text, words and times."""

import math
from collections.abc import Iterable
from dataclasses import replace

import pytest

from seqloom.data.text.tokenizers import TextConfig, Tokenizer
from seqloom.data.text.vocabulary import Vocabulary
from seqloom.decoding.frames.frame_search import Transcript
from seqloom.decoding.frames.lexicon import Lexicon
from seqloom.models.transcription.transcripts import IncrementalTranscript, to_transcription, to_word_transcript

PLAIN = TextConfig(unit="characters").fit(["ab ba"])
SENTENCES = ["the cat sat on the mat", "a cat  and an élan", "thesis that then than"]
UNITS = {
    "characters": TextConfig(unit="characters"),
    "words": TextConfig(unit="words"),
    "bpe": TextConfig(unit="subwords", vocab_size=300),
    "unigram": TextConfig(unit="subwords", algorithm="unigram", vocab_size=40),
}


def transcript(encoding: Tokenizer, text: str, words: list[int] | None = None) -> Transcript:
    tokens = encoding.encode(text)
    frames = [(2 * index, 2 * index) for index in range(len(tokens))]
    return Transcript(tokens, words or [], -1.5, -1.0, -0.5, frames, [(0, 1)] * len(words or []))


def test_words_are_separated_by_any_number_of_spaces() -> None:
    result = to_word_transcript(transcript(PLAIN, " ab  ba "), PLAIN, None)
    assert (result.text, result.words) == (" ab  ba ", ["ab", "ba"])
    assert result.spans == [(2, 4), (10, 12)]
    assert to_word_transcript(transcript(PLAIN, ""), PLAIN, None) == ("", [], [], [], 0)


def test_surrounding_spaces_are_stripped() -> None:
    result = to_transcription([transcript(PLAIN, " ab  ba "), transcript(PLAIN, " ")], PLAIN, None, frame_duration=1)
    assert (result.text, [candidate.text for candidate in result.nbest]) == ("ab  ba", ["ab  ba", ""])
    assert result.tokens == list(" ab  ba ")
    bytewise = UNITS["bpe"].fit(SENTENCES)
    assert to_transcription([transcript(bytewise, " the cat")], bytewise, None, frame_duration=1).text == "the cat"


@pytest.mark.parametrize("name", UNITS)
def test_incremental_conversion_matches_the_whole(name: str) -> None:
    encoding = UNITS[name].fit(SENTENCES)
    whole = transcript(encoding, "  ".join(SENTENCES))
    for step in (1, 2, 5):
        convert = IncrementalTranscript(encoding, None, frame_duration=0.5)
        for end in [*range(0, len(whole.tokens), step), len(whole.tokens), len(whole.tokens)]:
            part = replace(whole, tokens=whole.tokens[:end], frames=whole.frames[:end], score=-end)
            assert convert(part) == to_transcription([part], encoding, None, frame_duration=0.5)


@pytest.mark.parametrize("separated", [True, False])
def test_incremental_words_of_a_lexicon(*, separated: bool) -> None:
    lexicon = Lexicon(
        [("AB", PLAIN.encode("ab")), ("BA", PLAIN.encode("ba"))], separator=PLAIN.ids[" "] if separated else None
    )
    convert, words = IncrementalTranscript(PLAIN, lexicon, frame_duration=2.0), [0, 1, 1, 0]
    for count in (0, 1, 1, 3, 4):
        part = transcript(
            PLAIN, (" " if separated else "").join(lexicon.words[word].lower() for word in words[:count]), words[:count]
        )
        assert convert(part) == to_transcription([part], PLAIN, lexicon, frame_duration=2.0)


def test_settled_tokens_are_not_converted_again(monkeypatch: pytest.MonkeyPatch) -> None:
    convert, decoded = IncrementalTranscript(PLAIN, None, frame_duration=1.0), 0
    decode = type(PLAIN.vocabulary).decode

    def count(vocabulary: Vocabulary, ids: Iterable[int]) -> list[str]:
        nonlocal decoded
        result = decode(vocabulary, ids)
        decoded += len(result)
        return result

    monkeypatch.setattr(type(PLAIN.vocabulary), "decode", count)
    for words in range(200):
        convert(transcript(PLAIN, "ab ba " * words))
    assert decoded < 200 * 6 * 10


def test_words_of_a_lexicon_are_joined_with_the_separator() -> None:
    ab, ba = PLAIN.encode("ab"), PLAIN.encode("ba")
    apart = Lexicon([("AB", ab), ("BA", ba)], separator=PLAIN.ids[" "])
    assert to_word_transcript(transcript(PLAIN, "ba ab", [1, 0]), PLAIN, apart).text == "BA AB"
    together = Lexicon([("AB", ab), ("BA", ba)], separator=None)
    result = to_word_transcript(transcript(PLAIN, "baab", [1, 0]), PLAIN, together)
    assert (result.text, result.words, result.spans) == ("BAAB", ["BA", "AB"], [(0, 1), (0, 1)])


def test_a_transcription_has_the_nbest_and_times() -> None:
    result = to_transcription(
        [transcript(PLAIN, "ab"), transcript(PLAIN, "b")], PLAIN, None, frame_duration=0.03, name="x", loss=2.0
    )
    assert (result.text, result.score, result.acoustic, result.language) == ("ab", -1.5, -1.0, -0.5)
    assert result.times == [(0.0, 0.03), (0.06, 0.09)]
    assert result.word_times == [(0.0, 0.09)]
    assert [candidate.text for candidate in result.nbest] == ["ab", "b"]
    assert (result.name, result.loss) == ("x", 2.0)
    nothing = to_transcription([], PLAIN, None, frame_duration=1)
    assert (nothing.text, nothing.score, nothing.nbest) == ("", -math.inf, [])
