"""What streams over frames share: the frames heard, where symbols stand in them, what is stable."""

import math
from abc import abstractmethod
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from torch import Tensor

from seqloom.decoding.frames import Frames, Stream, Transcript, check
from seqloom.kernels.ctc import frames_needed, viterbi

Span = tuple[int, int]


class Found(NamedTuple):
    """A transcript without its places in the frames."""

    symbols: list[int]
    words: list[int]
    ends: list[int]  # symbols up to the end of each word
    starts: list[int]  # symbols before the start of each word
    score: float
    acoustic: float
    language: float


class Listening(Stream):
    """A stream that keeps its frames, since symbols are placed in them at the end."""

    def __init__(self, *, symbols: int, blank: int, best: int) -> None:
        self.width, self.blank, self.count = symbols, blank, best
        self.pieces: list[Frames] = []
        self.length, self.done = 0, False
        self.placed: list[Span] = []  # the frames of all symbols that are stable
        self.marks = [(0, 0)]  # symbols that were stable at some time, and the frame behind the last of them

    @abstractmethod
    def hear(self, frames: Frames) -> None:
        """Go on through some frames."""

    @abstractmethod
    def ranked(self, count: int) -> list[Found]:
        """The best, as if the frames ended here."""

    @abstractmethod
    def shared(self) -> tuple[Found, list[int]]:
        """What all live hypotheses begin with; and all symbols of one of them, the best."""

    def feed(self, frames: Tensor | npt.NDArray[np.floating]) -> None:
        if self.done:
            raise ValueError("the stream is finished, nothing can be fed any more")
        if frames.ndim != 2 or frames.shape[1] != self.width:
            raise ValueError(f"frames have the shape {tuple(frames.shape)}, wanted (T, {self.width})")
        values = check(frames, name="stream", first=self.length)
        self.pieces.append(values)
        self.length += len(values)
        self.hear(values)

    def best(self) -> Transcript | None:
        return next(iter(self._transcripts(1)), None)

    def finish(self) -> list[Transcript]:
        self.done = True
        return self._transcripts(self.count)

    def stable(self) -> Transcript:
        found, symbols = self.shared()
        told = len(self.placed)
        if len(found.symbols) > told:
            while self.length - self.marks[-1][1] < frames_needed(np.array(symbols[self.marks[-1][0] :], np.int64)):
                self.marks.pop()  # another hypothesis is the best by now, and needs more room
            start, frame = self.marks[-1]
            spans = self._align(symbols[start:], first=frame)
            self.placed += spans[told - start : len(found.symbols) - start]
            self.marks.append((len(found.symbols), self.placed[-1][1] + 1))
        return _placed(found, list(self.placed))

    def _frames(self) -> Frames:  # (T, V)
        if len(self.pieces) != 1:
            self.pieces = [np.concatenate([np.empty((0, self.width)), *self.pieces])]
        return self.pieces[0]

    def _transcripts(self, count: int) -> list[Transcript]:
        return [_placed(found, self._align(found.symbols)) for found in self.ranked(count)]

    def _align(self, symbols: list[int], first: int = 0) -> list[Span]:
        """The first and the last frame of each symbol, none of them before the ``first``."""
        spans = viterbi(self._frames()[first:], np.array(symbols, np.int64), self.blank) + first
        return [(start, end) for start, end in spans.tolist()]


def _placed(found: Found, frames: list[Span]) -> Transcript:
    return Transcript(
        found.symbols,
        words=found.words,
        score=found.score,
        acoustic=found.acoustic,
        language=found.language,
        frames=frames,
        spans=[(frames[start][0], frames[end - 1][1]) for start, end in zip(found.starts, found.ends, strict=True)],
    )


def weighted(weight: float, rewards: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """What is impossible stays so with the weight 0."""
    return np.where(rewards > -math.inf, weight * np.maximum(rewards, -1e30), -math.inf)
