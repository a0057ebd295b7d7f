"""A transcriber that hears a recording while it is made: text as soon as it is certain."""

from collections.abc import Callable
from typing import Any, Generic, TypeVar

import numpy as np
import torch
from numpy.typing import ArrayLike

from seqloom.decoding.frames.frame_search import Stream, Transcript
from seqloom.models.transcription.transcriber import Transcriber

Answer = TypeVar("Answer")


def refuse(*reasons: tuple[Any, str]) -> None:
    """ValueError by the first of the reasons that holds."""
    for holds, why in reasons:
        if holds:
            raise ValueError(f"{why}: such a model needs the whole of a recording before it says anything")


class StreamingSession(Generic[Answer]):
    """One recording in pieces; in the end its answer is that to the whole, by a search with the lag of the stream."""

    def __init__(
        self,
        model: Transcriber,
        stream: Stream,
        answer: Callable[[list[Transcript]], Answer],
        *,
        grow: Callable[[Transcript], Answer]
        | None = None,  # the answer to what is certain; ``answer`` if none is given
        width: int = 0,  # numbers in a frame; 0: samples are heard
        rate: int = 0,  # of the samples, in a second
    ) -> None:
        self.model, self.stream, self.answer = model, stream, answer
        self.grow = grow or (lambda found: answer([found]))
        self.width, self.rate = width, rate
        self.state: Any = None

    def feed(self, values: ArrayLike) -> Answer:  # samples (N,) at ``rate``, or frames (T, width)
        """Hear some more. What is certain by now: whatever follows, its text only grows."""
        self._hear(values, more=True)
        return self.grow(self.stream.stable())

    def finish(self) -> Answer:
        """The answer to the whole recording; nothing can be fed afterwards."""
        self._hear(np.zeros((0, self.width) if self.width else 0), more=False)
        return self.answer(self.stream.finish())

    @torch.no_grad()
    def _hear(self, given: ArrayLike, *, more: bool) -> None:
        values = np.asarray(given, dtype=np.float32)
        wanted = (len(values), self.width) if self.width else (values.size,)
        if values.shape != wanted:
            kind = f"frames (T, {self.width})" if self.width else "samples (N,)"
            raise ValueError(f"found numbers {values.shape}; {kind} are wanted")
        if not np.isfinite(values).all():
            raise ValueError("found what is not a number among the values of a recording")
        parameter = self.model.output.weight
        heard = torch.from_numpy(values).to(parameter.device, parameter.dtype).unsqueeze(0)
        mask = torch.ones(heard.shape[:2], dtype=torch.bool, device=heard.device)
        logits, real, self.state = self.model(heard, mask, self.state, more=more)
        self.stream.feed(logits[0][real[0]].log_softmax(dim=-1))
