"""Best path: the most probable symbol of each frame; repeats are one, blanks none (Graves et al. 2006)."""

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
    check,
    check_blank,
    check_lag,
    rows,
)


class BestPath(FrameSearch):
    """The symbols of the most probable path; where equal, the lowest symbol wins. It has no room for a guide."""

    name: Literal["best_path"] = "best_path"

    def __call__(
        self,
        log_probabilities: Tensor,  # (B, T, V)
        lengths: Tensor,  # (B,)
        *,
        blank: int = 0,
        guide: Guide | None = None,
    ) -> list[list[Transcript]]:
        """One transcript of each row; none where every path is impossible."""
        _refuse(guide)
        streams = [
            _follow(_Path(blank, frames.shape[1]), frames) for frames in rows(log_probabilities, lengths, blank=blank)
        ]
        return [stream.finish() for stream in streams]

    def stream(self, *, symbols: int, blank: int = 0, guide: Guide | None = None, lag: int = 0) -> Stream:
        check_lag(lag)  # of no use: each frame is decided at once
        _refuse(guide)
        check_blank(blank, symbols=symbols)
        return _Path(blank, symbols)


class _Path(Stream):
    def __init__(self, blank: int, width: int) -> None:
        self.blank, self.width = blank, width
        self.symbols: list[int] = []
        self.frames: list[tuple[int, int]] = []
        self.total, self.length, self.last, self.done = 0.0, 0, blank, False

    def feed(self, frames: Tensor | npt.NDArray[np.floating]) -> None:
        if self.done:
            raise ValueError("the stream is finished, nothing can be fed any more")
        if frames.ndim != 2 or frames.shape[1] != self.width:
            raise ValueError(f"frames have the shape {tuple(frames.shape)}, wanted (T, {self.width})")
        _follow(self, check(frames, name="stream", first=self.length))

    def stable(self) -> Transcript:
        return Transcript(
            list(self.symbols),
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
        self.done = True
        return [self.stable()] if self.total > -np.inf else []


def _follow(path: _Path, frames: Frames) -> _Path:
    best = frames.argmax(axis=1)
    for symbol in best.tolist():
        if symbol != path.blank:
            if symbol == path.last:
                path.frames[-1] = (path.frames[-1][0], path.length)
            else:
                path.symbols.append(symbol)
                path.frames.append((path.length, path.length))
        path.last, path.length = symbol, path.length + 1
    for value in np.take_along_axis(frames, best[:, None], axis=1)[
        :, 0
    ].tolist():  # one by one: pieces are as the whole
        path.total += value
    return path


def _refuse(guide: Guide | None) -> None:
    if guide is not None and (guide.lexicon is not None or guide.language is not None):
        raise ValueError("best_path has no room for a lexicon or a language model: use the search prefix_beam")
