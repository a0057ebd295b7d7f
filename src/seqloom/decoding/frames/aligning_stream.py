"""What beam searches over frames share: the frames so far, the alignment of tokens to them, the stable part."""

import math
from abc import abstractmethod
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from torch import Tensor

from seqloom.decoding.frames.frame_search import Frames, Stream, Transcript, check_frames
from seqloom.kernels.ctc.viterbi import align_graph, build_graph

Doubles = npt.NDArray[np.float64]
Span = tuple[int, int]
Spellings = list[list[list[int]]]
"""The spellings of each word; without a lexicon, one spelling for each piece, that is, sequence of tokens."""


class UnalignedTranscript(NamedTuple):
    """A transcript that has not been aligned to the frames."""

    words: list[int]
    spellings: Spellings
    score: float
    acoustic: float
    language: float


class CommonPrefix(NamedTuple):
    """The prefix that all live hypotheses share."""

    new: UnalignedTranscript  # the part not committed yet; its scores are those of the best hypothesis
    rest: Spellings  # of the best hypothesis, after the prefix
    node: int  # of the prefix tree, where the prefix ends


class Alignment(NamedTuple):
    """The most probable path through words or pieces."""

    tokens: list[int]
    frames: list[Span]  # of each token
    bounds: list[int]  # index of each word's first token, then the number of tokens


class AligningStream(Stream):
    """A stream that keeps its frames, since tokens are aligned to them at the end.

    Later frames can move the boundaries of earlier tokens, even of certain ones, so all frames are kept.
    """

    def __init__(self, *, vocab_size: int, blank: int, nbest: int, separator: int | None = None) -> None:
        self.vocab_size, self.blank, self.nbest, self.separator = vocab_size, blank, nbest, separator
        self.chunks: list[Frames] = []
        self.length, self.finished = 0, False
        # What has been committed:
        self.tokens, self.frames, self.words, self.spans = list[int](), list[Span](), list[int](), list[Span]()

    @abstractmethod
    def process(self, frames: Doubles) -> None:
        """Extend the hypotheses by some frames."""

    @abstractmethod
    def best_hypotheses(self, count: int) -> list[UnalignedTranscript]:
        """The best hypotheses as if the recording ended here."""

    @abstractmethod
    def common_prefix(self) -> CommonPrefix:
        """The prefix that all live hypotheses share, after what has been committed."""

    @abstractmethod
    def commit(self, node: int) -> None:
        """Mark the common prefix up to this node as committed."""

    def feed(self, frames: Tensor | npt.NDArray[np.floating]) -> None:
        if self.finished:
            raise ValueError("the stream is finished: no more frames can be fed")
        if frames.ndim != 2 or frames.shape[1] != self.vocab_size:
            raise ValueError(f"frames have shape {tuple(frames.shape)}, expected (T, {self.vocab_size})")
        checked = check_frames(frames, name="stream", first=self.length)
        self.feed_checked(checked.copy())  # the caller may reuse the memory

    def feed_checked(self, frames: Frames) -> None:
        """Process frames that have been checked and that nobody modifies."""
        self.chunks.append(frames)
        self.length += len(frames)
        self.process(frames.astype(np.float64, copy=False))

    def best(self) -> Transcript | None:
        return next(iter(self.aligned(self.best_hypotheses(1))), None)

    def finish(self) -> list[Transcript]:
        self.finished = True
        return self.aligned(self.best_hypotheses(self.nbest))

    def stable(self) -> Transcript:
        """What is certain so far; it is committed."""
        prefix = self.common_prefix()
        if prefix.new.spellings:
            self._commit(prefix)
        return _transcript(prefix.new, self.words, self.tokens, self.frames, self.spans)

    def _commit(self, prefix: CommonPrefix) -> None:
        """Align the new part after what is committed; if the frames are too few for that, commit it later."""
        new, rest, node = prefix
        last = [self.tokens[-1:]]  # a blank must separate it from an equal next token
        alignment = self._align([last, *new.spellings, *rest], first=self.frames[-1][1] if self.frames else 0)
        if alignment is not None:
            start, *ends = alignment.bounds[1 : 2 + len(new.spellings)]
            self.tokens += alignment.tokens[start : ends[-1]]
            self.frames += alignment.frames[start : ends[-1]]
            self.words += new.words
            self.spans += self._word_spans(new.words, alignment._replace(bounds=[start, *ends]))
            self.commit(node)

    def _frames_from(self, first: int) -> Frames:  # (T, V)
        """All frames from ``first`` on."""
        count, start = 0, self.length
        while start > first:
            count += 1
            start -= len(self.chunks[-count])
        if count > 1:
            self.chunks[-count:] = [np.concatenate(self.chunks[-count:])]
        return self.chunks[-1][first - start :] if count else np.empty((0, self.vocab_size), np.float32)

    def aligned(self, hypotheses: Sequence[UnalignedTranscript]) -> list[Transcript]:
        """The hypotheses with the frames of their tokens."""
        transcripts = []
        for hypothesis in hypotheses:
            alignment = self._align(hypothesis.spellings, optional_end=self.separator is not None)
            assert alignment is not None  # noqa: S101  the search has found a path
            spans = self._word_spans(hypothesis.words, alignment)
            transcripts.append(_transcript(hypothesis, hypothesis.words, alignment.tokens, alignment.frames, spans))
        return transcripts

    def _align(self, spellings: Spellings, *, first: int = 0, optional_end: bool = False) -> Alignment | None:
        """The most probable path through the frames from ``first`` on; None if they are too few."""
        graph = build_graph(spellings, optional_end=optional_end)
        spans = align_graph(self._frames_from(first), graph, blank=self.blank)
        if spans is None:
            return None
        visited = spans[:, 0] >= 0
        counts = np.concatenate([[0], np.cumsum(visited)])
        bounds = counts[np.cumsum([0, *(sum(map(len, variants)) for variants in spellings)])]
        frames = [(start, end) for start, end in (spans[visited] + first).tolist()]
        return Alignment(graph.tokens[visited].tolist(), frames, bounds.tolist())

    def _word_spans(self, words: list[int], alignment: Alignment) -> list[Span]:
        """The first and the last frame of each word, without the separator after it."""
        tokens, frames, bounds = alignment
        spans = []
        for start, end in pairwise(bounds if words else []):
            last = end - 1 - (tokens[end - 1] == self.separator)
            spans.append((frames[start][0], frames[last][1]))
        return spans


def _transcript(
    scores: UnalignedTranscript, words: list[int], tokens: list[int], frames: list[Span], spans: list[Span]
) -> Transcript:
    return Transcript(
        list(tokens),
        words=list(words),
        score=scores.score,
        acoustic=scores.acoustic,
        language=scores.language,
        frames=list(frames),
        spans=list(spans),
    )


def weighted(weight: float, log_probs: Doubles) -> Doubles:
    """``weight * log_probs``, in which -inf stays -inf even if the weight is 0."""
    return np.where(log_probs > -math.inf, weight * np.maximum(log_probs, -1e30), -math.inf)
