"""What a search over frames found, as text and words."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from seqloom.data.tokenizers import Encoding
from seqloom.decoding.frames import Transcript
from seqloom.decoding.lexicon import Lexicon

BEGINNINGS = ("Ġ", "▁")
"""Of a subword that begins a word: a blank, as bpe and unigram write it."""


Times = list[tuple[float, float]]
"""Where things begin and end: in seconds of sound, otherwise in frames as they were given."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """One of the best transcripts."""

    text: str
    score: float  # acoustic + weight × language + bonuses
    acoustic: float  # log-probability by the recording
    language: float  # log-probability by the language model, not weighted


@dataclass(frozen=True, slots=True)
class Transcribed:
    """The best transcript."""

    text: str
    score: float
    acoustic: float
    language: float
    symbols: list[str]
    times: Times  # of the symbols
    words: list[str]
    word_times: Times
    best: list[Candidate]  # all that the search gives, the best first
    name: str  # of the file
    loss: float | None  # minus the log-probability of the true transcript; None: not known, or impossible

    def __str__(self) -> str:
        return self.text


class Spoken(NamedTuple):
    """A transcript in words."""

    text: str
    symbols: list[str]
    words: list[str]
    spans: list[tuple[int, int]]  # first and last frame of each word


def spoken(found: Transcript, encoding: Encoding, lexicon: Lexicon | None) -> Spoken:
    """The words are those of the lexicon; where there is none, what stands between blanks."""
    symbols = encoding.vocabulary.decode(found.symbols)
    if lexicon is not None:
        words = [lexicon.words[number] for number in found.words]
        joint = "" if encoding.unit == "characters" and lexicon.separator is None else " "
        return Spoken(joint.join(words), symbols, words, found.spans)
    text = encoding.decode(found.symbols)
    words, spans = [], []
    for first, last in _groups(symbols, encoding.unit):
        words.append(encoding.decode(found.symbols[first : last + 1]).strip())
        spans.append((found.frames[first][0], found.frames[last][1]))
    return Spoken(text, symbols, words, spans)


def transcribed(
    found: list[Transcript],  # the best first
    encoding: Encoding,
    lexicon: Lexicon | None,
    *,
    unit: float,  # what a frame of the search is long
    name: str = "",
    loss: float | None = None,
) -> Transcribed:
    """The answer of a search; an empty text where nothing is possible."""
    if not found:
        return Transcribed("", -math.inf, -math.inf, 0.0, [], [], [], [], [], name, loss)
    said = [spoken(each, encoding, lexicon) for each in found]
    rows = zip(said, found, strict=True)
    best = [Candidate(one.text, each.score, each.acoustic, each.language) for one, each in rows]
    text, symbols, words, spans = said[0]
    return Transcribed(
        text,
        score=best[0].score,
        acoustic=best[0].acoustic,
        language=best[0].language,
        symbols=symbols,
        times=_times(found[0].frames, unit),
        words=words,
        word_times=_times(spans, unit),
        best=best,
        name=name,
        loss=loss,
    )


def _times(spans: Sequence[tuple[int, int]], unit: float) -> Times:
    return [(round(first * unit, 6), round((last + 1) * unit, 6)) for first, last in spans]


def _groups(symbols: list[str], unit: str) -> list[tuple[int, int]]:
    """The first and the last symbol of each word."""
    groups: list[tuple[int, int]] = []
    apart = True
    for index, symbol in enumerate(symbols):
        if unit == "characters" and symbol.isspace():
            apart = True
            continue
        if apart or unit == "words" or (unit == "subwords" and symbol.startswith(BEGINNINGS)):
            groups.append((index, index))
        else:
            groups[-1] = (groups[-1][0], index)
        apart = False
    return groups
