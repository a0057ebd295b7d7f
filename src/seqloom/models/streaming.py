"""Streaming transcription: the recording comes in pieces, the text as soon as it is final."""

from collections.abc import Callable
from typing import Any, Generic, TypeVar

import numpy as np
import torch
from numpy.typing import ArrayLike

from seqloom.decoding.frames.frame_search import Stream, Transcript
from seqloom.models.transcription.transcriber import Transcriber

Answer = TypeVar("Answer")


def refuse(*reasons: tuple[Any, str]) -> None:
    """ValueError with the first reason that holds."""
    for holds, why in reasons:
        if holds:
            raise ValueError(f"{why}: such a model cannot stream, it needs the whole recording")


class StreamingSession(Generic[Answer]):
    """One recording in pieces; ``finish`` gives what a search with the same lag gives for the whole recording."""

    def __init__(
        self,
        model: Transcriber,
        stream: Stream,
        answer: Callable[[list[Transcript]], Answer],
        *,
        grow: Callable[[Transcript], Answer] | None = None,  # the answer so far; None: as ``answer``
        width: int = 0,  # numbers in a frame; 0: samples are read
        rate: int = 0,  # of the samples, in Hz
    ) -> None:
        self.model, self.stream, self.answer = model, stream, answer
        self.grow = grow or (lambda found: answer([found]))
        self.width, self.rate = width, rate
        self.state: Any = None

    def feed(self, values: ArrayLike) -> Answer:  # samples (N,) at ``rate``, or frames (T, width)
        """Read the next piece and return what is final by now: later pieces only add to its text."""
        self._feed(values, more=True)
        return self.grow(self.stream.stable())

    def finish(self) -> Answer:
        """The answer for the whole recording; nothing can be fed afterwards."""
        self._feed(np.zeros((0, self.width) if self.width else 0), more=False)
        return self.answer(self.stream.finish())

    @torch.no_grad()
    def _feed(self, piece: ArrayLike, *, more: bool) -> None:
        values = np.asarray(piece, dtype=np.float32)
        shape = (len(values), self.width) if self.width else (values.size,)
        if values.shape != shape:
            kind = f"frames (T, {self.width})" if self.width else "samples (N,)"
            raise ValueError(f"expected {kind}, found an array of shape {values.shape}")
        if not np.isfinite(values).all():
            raise ValueError("the recording contains NaN or infinity")
        parameter = self.model.output.weight
        inputs = torch.from_numpy(values).to(parameter.device, parameter.dtype).unsqueeze(0)
        mask = torch.ones(inputs.shape[:2], dtype=torch.bool, device=inputs.device)
        logits, real, self.state = self.model(inputs, mask, self.state, more=more)
        self.stream.feed(logits[0][real[0]].log_softmax(dim=-1))
