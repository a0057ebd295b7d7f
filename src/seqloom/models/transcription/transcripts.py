"""What a search over frames found, as text and words."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from seqloom.data.text.tokenizers import Tokenizer
from seqloom.decoding.frames.frame_search import Transcript
from seqloom.decoding.frames.lexicon import Lexicon

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
class Transcription:
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


class WordTranscript(NamedTuple):
    """A transcript in words."""

    text: str
    symbols: list[str]
    words: list[str]
    spans: list[tuple[int, int]]  # first and last frame of each word
    settled: int  # symbols before the last word, which may grow; with a lexicon all symbols


def to_word_transcript(found: Transcript, encoding: Tokenizer, lexicon: Lexicon | None) -> WordTranscript:
    """The words are those of the lexicon; where there is none, what stands between blanks."""
    symbols = encoding.vocabulary.decode(found.symbols)
    if lexicon is not None:
        words = [lexicon.words[number] for number in found.words]
        return WordTranscript(_joint(encoding, lexicon).join(words), symbols, words, found.spans, len(symbols))
    words, spans, settled = [], [], len(symbols)
    for settled, last in _groups(symbols, encoding.unit):
        words.append(encoding.decode(found.symbols[settled : last + 1]).strip())
        spans.append((found.frames[settled][0], found.frames[last][1]))
    text = encoding.decode(found.symbols) if encoding.unit == "characters" else " ".join(filter(None, words))
    return WordTranscript(text, symbols, words, spans, settled)


def _joint(encoding: Tokenizer, lexicon: Lexicon | None) -> str:
    """What is put between two words; nothing where blanks are symbols."""
    return "" if encoding.unit == "characters" and (lexicon is None or lexicon.separator is None) else " "


def to_transcript(
    found: list[Transcript],  # the best first
    encoding: Tokenizer,
    lexicon: Lexicon | None,
    *,
    unit: float,  # what a frame of the search is long
    name: str = "",
    loss: float | None = None,
) -> Transcription:
    """The answer of a search; an empty text where nothing is possible."""
    if not found:
        return Transcription("", -math.inf, -math.inf, 0.0, [], [], [], [], [], name, loss)
    said = [to_word_transcript(each, encoding, lexicon) for each in found]
    rows = zip(said, found, strict=True)
    best = [Candidate(one.text.strip(), each.score, each.acoustic, each.language) for one, each in rows]
    _, symbols, words, spans, _ = said[0]
    return Transcription(
        best[0].text,
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


class IncrementalTranscript:
    """The answer to a transcript that only grows: of what was written, no more than the last word is read again."""

    def __init__(self, encoding: Tokenizer, lexicon: Lexicon | None, *, unit: float) -> None:
        self.encoding, self.lexicon, self.unit = encoding, lexicon, unit
        self.text, self.answer = "", to_transcript([], encoding, lexicon, unit=unit)  # what is settled of the text
        self.symbols, self.words = 0, 0  # that are settled

    def __call__(self, found: Transcript) -> Transcription:
        past, symbols, words = self.answer, self.symbols, self.words
        new = replace(
            found,
            symbols=found.symbols[symbols:],
            words=found.words[words:],
            frames=found.frames[symbols:],
            spans=found.spans[words:],
        )
        said, joint = to_word_transcript(new, self.encoding, self.lexicon), _joint(self.encoding, self.lexicon)
        text = joint.join(filter(None, (self.text, said.text))).strip()
        self.answer = Transcription(
            text,
            score=found.score,
            acoustic=found.acoustic,
            language=found.language,
            symbols=past.symbols[:symbols] + said.symbols,
            times=past.times[:symbols] + _times(new.frames, self.unit),
            words=past.words[:words] + said.words,
            word_times=past.word_times[:words] + _times(said.spans, self.unit),
            best=[Candidate(text, found.score, found.acoustic, found.language)],
            name="",
            loss=None,
        )
        self.symbols += said.settled
        self.words = len(self.answer.words) - (self.symbols < len(self.answer.symbols))
        settled = said.words[: self.words - words]
        if self.lexicon is None and self.encoding.unit == "characters":
            settled = [self.encoding.decode(new.symbols[: said.settled])]
        self.text = joint.join(filter(None, (self.text, *settled)))
        return self.answer


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
