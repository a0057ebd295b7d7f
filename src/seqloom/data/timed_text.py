"""A text with the times of its words and tokens, as files for other programs: TextGrid, CTM, SRT, WebVTT, TSV."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple, Self

MAX_CUE = 42  # characters of a subtitle
MAX_CUE_SECONDS = 7.0
MIN_PAUSE = 0.6
"""Seconds of silence that end a subtitle."""


class Timed(NamedTuple):
    """A word or a token."""

    text: str
    start: float  # seconds
    end: float


@dataclass(frozen=True)
class TimedText:
    """A transcript with times in seconds."""

    name: str  # of the recording
    duration: float  # of the recording; 0: unknown
    words: Sequence[Timed]
    tokens: Sequence[Timed]

    @classmethod
    def within(cls, duration: float, words: Sequence[Timed], tokens: Sequence[Timed], *, name: str) -> Self:
        """The words and tokens of frames, the last of which may reach beyond the end of the recording: it is cut."""
        return cls(name, duration, [_cut(each, duration) for each in words], [_cut(each, duration) for each in tokens])

    @property
    def end(self) -> float:
        """The end of the recording, or of the last word."""
        return max([self.duration, *(each.end for each in (*self.words, *self.tokens))])


def _cut(part: Timed, duration: float) -> Timed:
    """A word or token without what lies after the end of the recording, if that is known."""
    return part._replace(end=duration) if part.start < duration < part.end else part


def to_tsv(text: TimedText) -> str:
    """Start, end, kind (word or token) and text on each line; a word stands before its tokens."""
    rows = [(each.start, 0, each) for each in text.words] + [(each.start, 1, each) for each in text.tokens]
    rows.sort(key=lambda row: row[:2])
    return "".join(
        f"{each.start:.3f}\t{each.end:.3f}\t{('word', 'token')[kind]}\t{_one_line(each.text)}\n"
        for _, kind, each in rows
    )


def to_ctm(text: TimedText) -> str:
    """A line for each word, as NIST sclite and Kaldi read it: recording, channel, start, duration, word."""
    name = _one_word(text.name) or "recording"
    return "".join(
        f"{name} 1 {each.start:.3f} {each.end - each.start:.3f} {_one_word(each.text)}\n"
        for each in text.words
        if each.text.strip()
    )


def to_textgrid(text: TimedText) -> str:
    """The tiers ``words`` and ``tokens`` of intervals that cover the whole recording, as Praat reads them."""
    end = text.end
    lines = [
        'File type = "ooTextFile"',
        'Object class = "TextGrid"',
        "",
        "xmin = 0",
        f"xmax = {_number(end)}",
        "tiers? <exists>",
        "size = 2",
        "item []:",
    ]
    for number, (name, parts) in enumerate((("words", text.words), ("tokens", text.tokens)), start=1):
        intervals = _covering(parts, end)
        lines += [
            f"    item [{number}]:",
            '        class = "IntervalTier"',
            f'        name = "{name}"',
            "        xmin = 0",
            f"        xmax = {_number(end)}",
            f"        intervals: size = {len(intervals)}",
        ]
        for index, each in enumerate(intervals, start=1):
            quoted = _one_line(each.text).replace('"', '""')
            lines += [
                f"        intervals [{index}]:",
                f"            xmin = {_number(each.start)}",
                f"            xmax = {_number(each.end)}",
                f'            text = "{quoted}"',
            ]
    return "\n".join([*lines, ""])


def to_srt(text: TimedText) -> str:
    """Numbered subtitles (SubRip)."""
    return "\n".join(
        f"{number}\n{_clock(cue[0].start, ',')} --> {_clock(cue[-1].end, ',')}\n{cue_text(cue)}\n"
        for number, cue in enumerate(cues(text.words), start=1)
    )


def to_vtt(text: TimedText) -> str:
    """Subtitles for the web (WebVTT), in which each word but the first of a line has a time stamp."""
    blocks = ["WEBVTT\n"]
    for cue in cues(text.words):
        first, *rest = cue
        words = [_escape(first.text), *(f"<{_clock(word.start, '.')}>{_escape(word.text)}" for word in rest)]
        blocks.append(f"{_clock(first.start, '.')} --> {_clock(cue[-1].end, '.')}\n{' '.join(words)}\n")
    return "\n".join(blocks)


FORMATS = {"tsv": to_tsv, "textgrid": to_textgrid, "ctm": to_ctm, "srt": to_srt, "vtt": to_vtt}
"""How a timed text is written, by the name of the format."""
SUFFIXES = {"tsv": ".tsv", "textgrid": ".TextGrid", "ctm": ".ctm", "srt": ".srt", "vtt": ".vtt"}


def cues(words: Sequence[Timed]) -> list[list[Timed]]:
    """The words of each subtitle: it ends at a pause, or before it gets too long."""
    result: list[list[Timed]] = []
    for word in (word for word in words if word.text.strip()):
        cue = result[-1] if result else []
        if (
            not cue
            or word.start - cue[-1].end >= MIN_PAUSE
            or len(cue_text([*cue, word])) > MAX_CUE
            or word.end - cue[0].start > MAX_CUE_SECONDS
        ):
            result.append([])
        result[-1].append(word)
    return result


def cue_text(cue: Sequence[Timed]) -> str:
    """The text of a cue in one line."""
    return " ".join(_one_line(word.text).strip() for word in cue)


def _covering(parts: Sequence[Timed], end: float) -> list[Timed]:
    """The parts, with empty ones between them, so that they cover everything from 0 to the end."""
    edges = [Timed("", 0.0, 0.0), *parts, Timed("", end, end)]
    covering = []
    for previous, following in pairwise(edges):
        if following.start > previous.end:
            covering.append(Timed("", previous.end, following.start))
        if following.end > following.start:
            covering.append(following)
    return covering


def _clock(seconds: float, separator: str) -> str:
    """A time as 00:01:02,345."""
    whole, milliseconds = divmod(round(seconds * 1000), 1000)
    minutes, whole = divmod(whole, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours:02}:{minutes:02}:{whole:02}{separator}{milliseconds:03}"


def _number(seconds: float) -> str:
    return f"{seconds:.6f}".rstrip("0").rstrip(".") or "0"


def _one_line(text: str) -> str:
    return re.sub(r"[\t\r\n]+", " ", text)


def _one_word(text: str) -> str:
    return re.sub(r"\s+", "_", text.strip())


def _escape(text: str) -> str:
    return _one_line(text).strip().replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
