"""What streams over frames share: the frames heard, where symbols stand in them, what is stable."""

import math
from abc import abstractmethod
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from torch import Tensor

from seqloom.decoding.frames.frame_search import Frames, Stream, Transcript, check
from seqloom.kernels.ctc.viterbi import align_graph, build_graph

Doubles = npt.NDArray[np.float64]
Span = tuple[int, int]
Spellings = list[list[list[int]]]
"""Of each word; where there are no words, of each stretch of symbols, one."""


class UnalignedTranscript(NamedTuple):
    """A transcript without its places in the frames."""

    words: list[int]
    spellings: Spellings
    score: float
    acoustic: float
    language: float


class CommonPrefix(NamedTuple):
    """What all live hypotheses begin with."""

    new: UnalignedTranscript  # what was not told yet; scores are those of the best hypothesis
    rest: Spellings  # of what the best goes on with
    node: int  # where it ends


class Alignment(NamedTuple):
    """The most probable path through some words, or through stretches of symbols."""

    symbols: list[int]
    frames: list[Span]  # of each symbol
    bounds: list[int]  # symbols up to the start of each word, and up to the end of the last


class AligningStream(Stream):
    """A stream that keeps its frames, since symbols are placed in them at the end.

    They are needed to the end: where the most probable path of the whole has its first symbols depends on the last
    frames, even where it is known by then which symbols they are.
    """

    def __init__(self, *, symbols: int, blank: int, best: int, separator: int | None = None) -> None:
        self.width, self.blank, self.count, self.separator = symbols, blank, best, separator
        self.pieces: list[Frames] = []
        self.length, self.done = 0, False
        self.symbols, self.frames, self.words, self.spans = list[int](), list[Span](), list[int](), list[Span]()  # told

    @abstractmethod
    def hear(self, frames: Doubles) -> None:
        """Go on through some frames."""

    @abstractmethod
    def ranked(self, count: int) -> list[UnalignedTranscript]:
        """The best, as if the frames ended here."""

    @abstractmethod
    def shared(self) -> CommonPrefix:
        """What all live hypotheses begin with, behind what was told."""

    @abstractmethod
    def tell(self, node: int) -> None:
        """What is shared up to this node is told now."""

    def feed(self, frames: Tensor | npt.NDArray[np.floating]) -> None:
        if self.done:
            raise ValueError("the stream is finished, nothing can be fed any more")
        if frames.ndim != 2 or frames.shape[1] != self.width:
            raise ValueError(f"frames have the shape {tuple(frames.shape)}, wanted (T, {self.width})")
        self.take(check(frames, name="stream", first=self.length).copy())  # the caller may write others into them

    def take(self, frames: Frames) -> None:
        """Hear frames that are checked, and stay as they are."""
        self.pieces.append(frames)
        self.length += len(frames)
        self.hear(frames.astype(np.float64, copy=False))

    def best(self) -> Transcript | None:
        return next(iter(self._transcripts(1)), None)

    def finish(self) -> list[Transcript]:
        self.done = True
        return self._transcripts(self.count)

    def stable(self) -> Transcript:
        shared = self.shared()
        if shared.new.spellings:
            self._tell(shared)
        return _transcript(shared.new, self.words, self.symbols, self.frames, self.spans)

    def _tell(self, shared: CommonPrefix) -> None:
        """Place what is new behind what was told; where that leaves too little room, it is told when there is more."""
        new, rest, node = shared
        known = [self.symbols[-1:]]  # a blank may be needed behind it
        placed = self._place([known, *new.spellings, *rest], first=self.frames[-1][1] if self.frames else 0)
        if placed is not None:
            begin, *ends = placed.bounds[1 : 2 + len(new.spellings)]
            self.symbols += placed.symbols[begin : ends[-1]]
            self.frames += placed.frames[begin : ends[-1]]
            self.words += new.words
            self.spans += self._spans(new.words, placed._replace(bounds=[begin, *ends]))
            self.tell(node)

    def _frames(self, first: int) -> Frames:  # (T, V)
        """All from the first on."""
        count, start = 0, self.length
        while start > first:
            count += 1
            start -= len(self.pieces[-count])
        if count > 1:
            self.pieces[-count:] = [np.concatenate(self.pieces[-count:])]
        return self.pieces[-1][first - start :] if count else np.empty((0, self.width), np.float32)

    def _transcripts(self, count: int) -> list[Transcript]:
        found = []
        for one in self.ranked(count):
            placed = self._place(one.spellings, loose=self.separator is not None)
            assert placed is not None  # noqa: S101  the search has found a path
            spans = self._spans(one.words, placed)
            found.append(_transcript(one, one.words, placed.symbols, placed.frames, spans))
        return found

    def _place(self, spellings: Spellings, *, first: int = 0, loose: bool = False) -> Alignment | None:
        """The most probable path through the frames from the ``first`` on; None if they are too few."""
        graph = build_graph(spellings, optional_end=loose)
        spans = align_graph(self._frames(first), graph, blank=self.blank)
        if spans is None:
            return None
        passed = spans[:, 0] >= 0
        counts = np.concatenate([[0], np.cumsum(passed)])
        bounds = counts[np.cumsum([0, *(sum(map(len, ways)) for ways in spellings)])]
        frames = [(start, end) for start, end in (spans[passed] + first).tolist()]
        return Alignment(graph.symbols[passed].tolist(), frames, bounds.tolist())

    def _spans(self, words: list[int], placed: Alignment) -> list[Span]:
        """The first and the last frame of each word, without the separator behind it."""
        symbols, frames, bounds = placed
        spans = []
        for start, end in pairwise(bounds if words else []):
            last = end - 1 - (symbols[end - 1] == self.separator)
            spans.append((frames[start][0], frames[last][1]))
        return spans


def _transcript(
    found: UnalignedTranscript, words: list[int], symbols: list[int], frames: list[Span], spans: list[Span]
) -> Transcript:
    return Transcript(
        list(symbols),
        words=list(words),
        score=found.score,
        acoustic=found.acoustic,
        language=found.language,
        frames=list(frames),
        spans=list(spans),
    )


def weighted(weight: float, rewards: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """What is impossible stays so with the weight 0."""
    return np.where(rewards > -math.inf, weight * np.maximum(rewards, -1e30), -math.inf)
