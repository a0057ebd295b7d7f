"""The transcripts of a search over frames as text and words, at once or incrementally."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import NamedTuple

from seqloom.data.text.tokenizers import Tokenizer
from seqloom.decoding.frames.frame_search import Transcript
from seqloom.decoding.frames.lexicon import Lexicon
from seqloom.decoding.tokens.search import Hypothesis
from seqloom.models.generation import format_nbest

WORD_STARTS = ("Ġ", "▁")
"""First character of a subword that starts a word, as written by BPE and unigram models."""


Times = list[tuple[float, float]]
"""Start and end: in seconds for audio, otherwise in input frames."""


@dataclass(frozen=True, slots=True)
class TranscriptCandidate:
    """One of the n-best transcripts."""

    text: str
    score: float  # acoustic + weight × language + word scores
    acoustic: float  # log-probability by the transcriber
    language: float  # log-probability by the language model, without its weight


@dataclass(frozen=True, slots=True)
class DecodedCandidate(TranscriptCandidate):
    """One of the n-best transcripts of a decoder."""

    tokens: list[str]
    log_probabilities: list[float]  # of each token, and of the end token if it ended, with all weights

    @property
    def log_probability(self) -> float:
        return math.fsum(self.log_probabilities)

    @property
    def score_parts(self) -> list[tuple[str, float]]:
        """The parts of the score with their names; none without a language model."""
        return [("acoustic", self.acoustic), ("language model", self.language)] if self.language else []


@dataclass(frozen=True, slots=True)
class Transcription:
    """The best transcript of a recording."""

    text: str
    score: float
    acoustic: float
    language: float
    tokens: list[str]
    times: Times  # of the tokens; empty without CTC
    words: list[str]
    word_times: Times
    nbest: list[TranscriptCandidate]  # the best first
    name: str  # of the file
    loss: float | None  # -log p of the reference transcript; None: no reference, or an impossible one

    def __str__(self) -> str:
        return format_nbest(self.nbest) if len(self.nbest) > 1 else self.text


class WordTranscript(NamedTuple):
    """A transcript split into words."""

    text: str
    tokens: list[str]
    words: list[str]
    spans: list[tuple[int, int]]  # first and last frame of each word
    settled: int  # tokens before the last word, which may still grow; with a lexicon, all tokens


def to_word_transcript(transcript: Transcript, tokenizer: Tokenizer, lexicon: Lexicon | None) -> WordTranscript:
    """The words of the lexicon; without one, the text between spaces."""
    tokens = tokenizer.vocabulary.decode(transcript.tokens)
    if lexicon is not None:
        words = [lexicon.words[index] for index in transcript.words]
        text = _word_joiner(tokenizer, lexicon).join(words)
        return WordTranscript(text, tokens, words, transcript.spans, len(tokens))
    words, spans, settled = [], [], len(tokens)
    for settled, last in _word_groups(tokens, tokenizer.unit):
        words.append(tokenizer.decode(transcript.tokens[settled : last + 1]).strip())
        if transcript.frames:
            spans.append((transcript.frames[settled][0], transcript.frames[last][1]))
    text = tokenizer.decode(transcript.tokens) if tokenizer.unit == "characters" else " ".join(filter(None, words))
    return WordTranscript(text, tokens, words, spans, settled)


def _word_joiner(tokenizer: Tokenizer, lexicon: Lexicon | None) -> str:
    """The text between two words; empty if spaces are tokens."""
    return "" if tokenizer.unit == "characters" and (lexicon is None or lexicon.separator is None) else " "


def to_transcription(
    transcripts: list[Transcript],  # the best first
    tokenizer: Tokenizer,
    lexicon: Lexicon | None,
    *,
    frame_duration: float,
    name: str = "",
    loss: float | None = None,
) -> Transcription:
    """The result of a search; its text is empty if no transcript is possible."""
    if not transcripts:
        return Transcription("", -math.inf, -math.inf, 0.0, [], [], [], [], [], name, loss)
    in_words = [to_word_transcript(transcript, tokenizer, lexicon) for transcript in transcripts]
    nbest = [
        TranscriptCandidate(words.text.strip(), transcript.score, transcript.acoustic, transcript.language)
        for words, transcript in zip(in_words, transcripts, strict=True)
    ]
    _, tokens, words, spans, _ = in_words[0]
    return Transcription(
        nbest[0].text,
        score=nbest[0].score,
        acoustic=nbest[0].acoustic,
        language=nbest[0].language,
        tokens=tokens,
        times=_times(transcripts[0].frames, frame_duration),
        words=words,
        word_times=_times(spans, frame_duration),
        nbest=nbest,
        name=name,
        loss=loss,
    )


def decoded_candidates(
    candidates: Sequence[TranscriptCandidate], hypotheses: Sequence[Hypothesis], tokenizer: Tokenizer
) -> list[TranscriptCandidate]:
    """The candidates with the tokens and log-probabilities of their hypotheses."""
    return [
        DecodedCandidate(
            candidate.text,
            candidate.score,
            candidate.acoustic,
            candidate.language,
            tokenizer.vocabulary.decode(hypothesis.tokens),
            hypothesis.log_probabilities,
        )
        for candidate, hypothesis in zip(candidates, hypotheses, strict=True)
    ]


def with_spelled_words(answer: Transcription, counts: Sequence[tuple[str, int]]) -> Transcription:
    """The same tokens as words, given with their numbers of tokens."""
    ends = list(accumulate(count for _, count in counts))
    spans = [
        (answer.times[end - count][0], answer.times[end - 1][1]) for end, (_, count) in zip(ends, counts, strict=True)
    ]
    words = [word for word, _ in counts]
    text = " ".join(words)
    nbest = [replace(candidate, text=text) for candidate in answer.nbest]
    return replace(answer, text=text, words=words, word_times=spans, nbest=nbest)


class IncrementalTranscript:
    """The transcription of a transcript that only grows: only its last word and what follows are converted again."""

    def __init__(self, tokenizer: Tokenizer, lexicon: Lexicon | None, *, frame_duration: float) -> None:
        self.tokenizer, self.lexicon, self.frame_duration = tokenizer, lexicon, frame_duration
        self.result = to_transcription([], tokenizer, lexicon, frame_duration=frame_duration)
        self.text, self.tokens, self.words = "", 0, 0  # settled: the text, and the numbers of tokens and words

    def __call__(self, transcript: Transcript) -> Transcription:
        previous, tokens, words = self.result, self.tokens, self.words
        rest = replace(
            transcript,
            tokens=transcript.tokens[tokens:],
            words=transcript.words[words:],
            frames=transcript.frames[tokens:],
            spans=transcript.spans[words:],
        )
        new = to_word_transcript(rest, self.tokenizer, self.lexicon)
        joiner = _word_joiner(self.tokenizer, self.lexicon)
        text = joiner.join(filter(None, (self.text, new.text))).strip()
        self.result = Transcription(
            text,
            score=transcript.score,
            acoustic=transcript.acoustic,
            language=transcript.language,
            tokens=previous.tokens[:tokens] + new.tokens,
            times=previous.times[:tokens] + _times(rest.frames, self.frame_duration),
            words=previous.words[:words] + new.words,
            word_times=previous.word_times[:words] + _times(new.spans, self.frame_duration),
            nbest=[TranscriptCandidate(text, transcript.score, transcript.acoustic, transcript.language)],
            name="",
            loss=None,
        )
        self.tokens += new.settled
        self.words = len(self.result.words) - (self.tokens < len(self.result.tokens))
        settled = new.words[: self.words - words]
        if self.lexicon is None and self.tokenizer.unit == "characters":
            settled = [self.tokenizer.decode(rest.tokens[: new.settled])]
        self.text = joiner.join(filter(None, (self.text, *settled)))
        return self.result


def _times(spans: Sequence[tuple[int, int]], frame_duration: float) -> Times:
    return [(round(first * frame_duration, 6), round((last + 1) * frame_duration, 6)) for first, last in spans]


def _word_groups(tokens: list[str], unit: str) -> list[tuple[int, int]]:
    """The indices of the first and the last token of each word."""
    groups: list[tuple[int, int]] = []
    after_space = True
    for index, token in enumerate(tokens):
        if unit == "characters" and token.isspace():
            after_space = True
            continue
        if after_space or unit == "words" or (unit == "subwords" and token.startswith(WORD_STARTS)):
            groups.append((index, index))
        else:
            groups[-1] = (groups[-1][0], index)
        after_space = False
    return groups
