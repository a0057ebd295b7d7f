"""Streaming transcription: a recording arrives in chunks, and its text is returned as soon as it is final."""

from collections.abc import Callable
from typing import Any, Generic, TypeVar

import numpy as np
import torch
from numpy.typing import ArrayLike

from seqloom.data.readers.audio_files import to_samples
from seqloom.decoding.frames.frame_search import Stream, Transcript
from seqloom.models.transcription.transcriber import FrameTranscriber

Result = TypeVar("Result")


def require_streamable(*obstacles: tuple[Any, str]) -> None:
    """Raise for the first (condition, reason) whose condition holds."""
    for condition, reason in obstacles:
        if condition:
            raise ValueError(f"{reason}: this model needs the whole recording and cannot stream")


class StreamingSession(Generic[Result]):
    """One recording in chunks; ``finish`` returns what a search with the same lag returns for the whole recording."""

    def __init__(
        self,
        model: FrameTranscriber,
        stream: Stream,
        convert: Callable[[list[Transcript]], Result],  # the transcripts of a search, the best first
        *,
        convert_stable: Callable[[Transcript], Result] | None = None,  # the final part; None: as ``convert``
        frame_size: int = 0,  # features of a frame; 0: the input is samples
        rate: int = 0,  # samples per second
    ) -> None:
        self.model, self.stream, self.convert = model, stream, convert
        self.convert_stable = convert_stable or (lambda transcript: convert([transcript]))
        self.frame_size, self.rate = frame_size, rate
        self.state: Any = None

    def feed(self, values: ArrayLike) -> Result:  # samples (N,) at ``rate``, or frames (T, frame_size)
        """Process the next chunk and return what is final: later chunks only append to its text.

        Samples are between -1 and 1; those of an integer array are scaled, as ``predict`` does.
        """
        self._feed(values, more=True)
        return self.convert_stable(self.stream.stable())

    def finish(self) -> Result:
        """The result for the whole recording; nothing can be fed afterwards."""
        self._feed(np.zeros((0, self.frame_size) if self.frame_size else 0), more=False)
        return self.convert(self.stream.finish())

    @torch.no_grad()
    def _feed(self, chunk: ArrayLike, *, more: bool) -> None:
        values = np.asarray(chunk, dtype=np.float32)
        if not self.frame_size and values.ndim == 1:
            values = to_samples(chunk)
        shape = (len(values), self.frame_size) if self.frame_size else (values.size,)
        if values.shape != shape:
            expected = f"frames (T, {self.frame_size})" if self.frame_size else "samples (N,)"
            raise ValueError(f"expected {expected}, found an array of shape {values.shape}")
        if not np.isfinite(values).all():
            raise ValueError("the recording contains NaN or infinity")
        parameter = self.model.output.weight
        inputs = torch.from_numpy(values).to(parameter.device, parameter.dtype).unsqueeze(0)
        mask = torch.ones(inputs.shape[:2], dtype=torch.bool, device=inputs.device)
        logits, real, self.state = self.model(inputs, mask, self.state, more=more)
        self.stream.feed(logits[0][real[0]].log_softmax(dim=-1))
