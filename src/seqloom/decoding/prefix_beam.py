"""Prefix beam search: a prefix is the sum of its paths; the best live on (Graves 2012, Hannun et al. 2014)."""

from typing import Literal

import numpy as np
import numpy.typing as npt
from pydantic import Field
from torch import Tensor

from seqloom.decoding.frames import Frames, FrameSearch, Guide, Stream, Transcript, check, check_blank, rows

Prefix = tuple[int, ...]


class PrefixBeam(FrameSearch):
    """Follows the best prefixes, each with the sums of its paths that end in a blank and in its symbol."""

    name: Literal["prefix_beam"] = "prefix_beam"
    size: int = Field(64, ge=1, description="Prefixes that live on at each frame.")
    per_node: int = Field(0, ge=0, description="At most so many new extensions of a prefix in a frame; 0: all.")
    token_threshold: float = Field(
        0.0, ge=0, lt=1, description="Symbols less probable than this in a frame are impossible there; 0: none is."
    )
    threshold: float = Field(
        0.0, ge=0, description="Drop what is this much below the best at its frame (natural logarithm); 0: nothing."
    )
    best: int = Field(1, ge=1, description="Transcripts that are returned.")

    def __call__(
        self,
        log_probabilities: Tensor,  # (B, T, V)
        lengths: Tensor,  # (B,)
        *,
        blank: int = 0,
        guide: Guide | None = None,
    ) -> list[list[Transcript]]:
        """At most ``best`` transcripts of each row."""
        found = []
        for frames in rows(log_probabilities, lengths, blank=blank):
            stream = self.stream(symbols=frames.shape[1], blank=blank, guide=guide)
            stream.feed(frames)
            found.append(stream.finish())
        return found

    def stream(self, *, symbols: int, blank: int = 0, guide: Guide | None = None) -> Stream:
        check_blank(blank, symbols=symbols)
        if guide is not None and (guide.lexicon is not None or guide.language is not None):
            raise NotImplementedError("prefix_beam has no guide yet")
        return _Beam(self, blank, symbols)


class _Beam(Stream):
    def __init__(self, search: PrefixBeam, blank: int, width: int) -> None:
        self.search, self.blank, self.width, self.done = search, blank, width, False
        self.beam: dict[Prefix, tuple[float, float]] = {(): (0.0, -np.inf)}
        self.heard: list[Frames] = []

    def feed(self, frames: Tensor | npt.NDArray[np.floating]) -> None:
        if self.done:
            raise ValueError("the stream is finished, nothing can be fed any more")
        if frames.ndim != 2 or frames.shape[1] != self.width:
            raise ValueError(f"frames have the shape {tuple(frames.shape)}, wanted (T, {self.width})")
        values = check(frames, name="stream", first=sum(map(len, self.heard)))
        self.heard.append(values)
        for frame in values:
            self._hear(frame)

    def _hear(self, frame: npt.NDArray[np.float64]) -> None:
        new: dict[Prefix, list[float]] = {}
        for prefix, (blank, symbol) in self.beam.items():
            total = np.logaddexp(blank, symbol)
            here = new.setdefault(prefix, [-np.inf, -np.inf])
            here[0] = np.logaddexp(here[0], total + frame[self.blank])
            if prefix:
                here[1] = np.logaddexp(here[1], symbol + frame[prefix[-1]])
            for other in range(self.width):
                if other != self.blank:
                    there = new.setdefault((*prefix, other), [-np.inf, -np.inf])
                    source = blank if prefix and prefix[-1] == other else total
                    there[1] = np.logaddexp(there[1], source + frame[other])
        ranked = sorted(new.items(), key=lambda item: -np.logaddexp(item[1][0], item[1][1]))[: self.search.size]
        self.beam = {prefix: (both[0], both[1]) for prefix, both in ranked if max(both) > -np.inf}

    def _transcripts(self, count: int) -> list[Transcript]:
        ranked = [(prefix, float(np.logaddexp(*both))) for prefix, both in self.beam.items()][:count]
        return [Transcript(list(prefix), [], total, total, 0.0, [(0, 0)] * len(prefix), []) for prefix, total in ranked]

    def stable(self) -> Transcript:
        shared: list[int] = []
        for several in zip(*self.beam, strict=False):
            if len(set(several)) > 1:
                break
            shared.append(several[0])
        best = self.best()
        score = best.score if best else -np.inf
        return Transcript(shared, [], score, score, 0.0, [(0, 0)] * len(shared), [])

    def best(self) -> Transcript | None:
        return next(iter(self._transcripts(1)), None)

    def finish(self) -> list[Transcript]:
        self.done = True
        return self._transcripts(self.search.best)
