"""Symbols and frames as text, words and times."""

import math

from seqloom.data.tokenizers import Encoding, Text
from seqloom.decoding.frames import Transcript
from seqloom.decoding.lexicon import Lexicon
from seqloom.models.spoken import spoken, transcribed

PLAIN = Text(unit="characters").fit(["ab ba"])


def transcript(encoding: Encoding, text: str, words: list[int] | None = None) -> Transcript:
    symbols = encoding.encode(text)
    frames = [(2 * index, 2 * index) for index in range(len(symbols))]
    return Transcript(symbols, words or [], -1.5, -1.0, -0.5, frames, [(0, 1)] * len(words or []))


def test_words_stand_between_blanks_however_many() -> None:
    found = spoken(transcript(PLAIN, " ab  ba "), PLAIN, None)
    assert (found.text, found.words) == (" ab  ba ", ["ab", "ba"])
    assert found.spans == [(2, 4), (10, 12)]
    assert spoken(transcript(PLAIN, ""), PLAIN, None) == ("", [], [], [])


def test_words_of_a_lexicon_are_joined_as_they_are_written() -> None:
    ab, ba = PLAIN.encode("ab"), PLAIN.encode("ba")
    apart = Lexicon([("AB", ab), ("BA", ba)], separator=PLAIN.numbers[" "])
    assert spoken(transcript(PLAIN, "ba ab", [1, 0]), PLAIN, apart).text == "BA AB"
    together = Lexicon([("AB", ab), ("BA", ba)], separator=None)
    found = spoken(transcript(PLAIN, "baab", [1, 0]), PLAIN, together)
    assert (found.text, found.words, found.spans) == ("BAAB", ["BA", "AB"], [(0, 1), (0, 1)])


def test_an_answer_has_all_candidates_and_times_in_units() -> None:
    found = transcribed([transcript(PLAIN, "ab"), transcript(PLAIN, "b")], PLAIN, None, unit=0.03, name="x", loss=2.0)
    assert (found.text, found.score, found.acoustic, found.language) == ("ab", -1.5, -1.0, -0.5)
    assert found.times == [(0.0, 0.03), (0.06, 0.09)]
    assert found.word_times == [(0.0, 0.09)]
    assert [each.text for each in found.best] == ["ab", "b"]
    assert (found.name, found.loss) == ("x", 2.0)
    nothing = transcribed([], PLAIN, None, unit=1)
    assert (nothing.text, nothing.score, nothing.best) == ("", -math.inf, [])
