"""Prefix beam search: a prefix is the sum of its paths; the best live on (Graves 2012, Hannun et al. 2014)."""

import math
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor

from seqloom.decoding.frames import Frames, FrameSearch, Guide, Stream, Transcript, check_blank, rows


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
        made = rows(log_probabilities, lengths, blank=blank)
        run = partial(self._run, blank=blank, guide=guide)
        threads = min(torch.get_num_threads(), len(made))
        if threads <= 1:
            return [run(frames) for frames in made]
        with ThreadPoolExecutor(threads) as pool:
            return list(pool.map(run, made))

    def _run(self, frames: Frames, *, blank: int, guide: Guide | None) -> list[Transcript]:
        stream = self.stream(symbols=frames.shape[1], blank=blank, guide=guide)
        stream.feed(frames)
        return stream.finish()

    def stream(self, *, symbols: int, blank: int = 0, guide: Guide | None = None) -> Stream:
        check_blank(blank, symbols=symbols)
        from seqloom.decoding.prefixes import PrefixStream  # numba takes half a second
        from seqloom.kernels.prefix_beam import Limits

        limits = Limits(
            size=self.size,
            per_node=self.per_node,
            floor=math.log(self.token_threshold) if self.token_threshold else -math.inf,
            threshold=self.threshold or math.inf,
            blank=blank,
        )
        return PrefixStream(limits, symbols=symbols, guide=guide, best=self.best)
