"""Best path: the most probable token of each frame; repeats are merged and blanks removed (Graves et al. 2006)."""

from typing import Literal

import numpy as np
import numpy.typing as npt
from torch import Tensor

from seqloom.decoding.frames.frame_search import (
    Frames,
    FrameSearch,
    Guide,
    Stream,
    Transcript,
    check_blank,
    check_frames,
    check_lag,
    unpad_frames,
)


class BestPath(FrameSearch):
    """The tokens of the most probable path; ties go to the lowest token id. It uses no lexicon or language model."""

    name: Literal["best_path"] = "best_path"

    def __call__(
        self,
        log_probabilities: Tensor,  # (B, T, V)
        lengths: Tensor,  # (B,)
        *,
        blank: int = 0,
        guide: Guide | None = None,
    ) -> list[list[Transcript]]:
        """One transcript per row; none where every path is impossible."""
        _check_unguided(guide)
        transcripts = []
        for frames in unpad_frames(log_probabilities, lengths, blank=blank):
            stream = _PathStream(blank, frames.shape[1])
            stream.advance(frames)
            transcripts.append(stream.finish())
        return transcripts

    def stream(self, *, vocab_size: int, blank: int = 0, guide: Guide | None = None, lag: int = 0) -> Stream:
        check_lag(lag)  # has no effect: each frame is decided at once
        _check_unguided(guide)
        check_blank(blank, vocab_size=vocab_size)
        return _PathStream(blank, vocab_size)


class _PathStream(Stream):
    def __init__(self, blank: int, vocab_size: int) -> None:
        self.blank, self.vocab_size = blank, vocab_size
        self.tokens: list[int] = []
        self.frames: list[tuple[int, int]] = []
        self.total, self.length, self.last, self.finished = 0.0, 0, blank, False

    def feed(self, frames: Tensor | npt.NDArray[np.floating]) -> None:
        if self.finished:
            raise ValueError("the stream is finished: no more frames can be fed")
        if frames.ndim != 2 or frames.shape[1] != self.vocab_size:
            raise ValueError(f"frames have shape {tuple(frames.shape)}, expected (T, {self.vocab_size})")
        self.advance(check_frames(frames, name="stream", first=self.length))

    def advance(self, frames: Frames) -> None:
        """Append checked frames to the path."""
        best = frames.argmax(axis=1)
        for token in best.tolist():
            if token != self.blank:
                if token == self.last:
                    self.frames[-1] = (self.frames[-1][0], self.length)
                else:
                    self.tokens.append(token)
                    self.frames.append((self.length, self.length))
            self.last, self.length = token, self.length + 1
        values = np.take_along_axis(frames, best[:, None], axis=1)[:, 0]
        for value in values.tolist():  # one by one, so that chunks do not change the rounding
            self.total += value

    def stable(self) -> Transcript:
        return Transcript(
            list(self.tokens),
            words=[],
            score=self.total,
            acoustic=self.total,
            language=0.0,
            frames=list(self.frames),
            spans=[],
        )

    def best(self) -> Transcript | None:
        return self.stable() if self.total > -np.inf else None

    def finish(self) -> list[Transcript]:
        self.finished = True
        return [self.stable()] if self.total > -np.inf else []


def _check_unguided(guide: Guide | None) -> None:
    if guide is not None and (guide.lexicon is not None or guide.lm is not None):
        raise ValueError("best_path uses no lexicon or language model: use the search prefix_beam")
