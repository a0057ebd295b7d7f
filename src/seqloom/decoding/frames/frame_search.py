"""Search over frames: from the log-probabilities of a CTC model (Graves et al. 2006) to the best transcripts."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from seqloom.config import ConfigSection
from seqloom.decoding.frames.language_models import LM
from seqloom.decoding.frames.lexicon import Lexicon

Frames = npt.NDArray[np.floating[Any]]
"""(T, V), log-probabilities of all tokens including the blank, in single or double precision."""


@dataclass(frozen=True, slots=True)
class Transcript:
    """A hypothesis of a search over the frames of one recording."""

    tokens: list[int]  # without blanks
    words: list[int]  # indices of the lexicon's words; empty without a lexicon
    score: float  # what transcripts are ranked by: acoustic + weight × language + word_score × words + …
    acoustic: float  # log p(tokens | frames), summed over the paths that the search kept
    language: float  # log-probability by the language model, end included, without its weight; 0 without one
    frames: list[tuple[int, int]]  # first and last frame of each token on its most probable path
    spans: list[tuple[int, int]]  # first and last frame of each word


class Guide(NamedTuple):
    """The lexicon and the language model of a search.

    With a lexicon, the language model scores words; without one, tokens.
    """

    lexicon: Lexicon | None = None  # the only words that are allowed
    lm: LM | None = None
    weight: float = 1.0  # of the language model's log-probabilities
    word_score: float = 0.0  # added for each word, or for each token without a lexicon
    unk_score: float = 0.0  # added for each word that the language model does not know
    rescore: bool = False  # use the language model and the word scores after the search, to reorder its n-best
    notes: tuple[str, ...] = ()  # for the user, such as words of the lexicon that cannot be found

    @property
    def rescores(self) -> bool:
        """Whether the language model and the word scores reorder the n-best of a search."""
        return self.rescore and self.lm is not None and self.weight > 0

    @property
    def in_search(self) -> "Guide":
        """What the search itself uses."""
        return Guide(self.lexicon) if self.rescores else self


class Stream(ABC):
    """A search over frames that arrive in chunks; the result is that of a search over all frames with the same lag."""

    @abstractmethod
    def feed(self, frames: Tensor | npt.NDArray[np.floating]) -> None:  # (T, V)
        """Process the next log-probabilities."""

    @abstractmethod
    def stable(self) -> Transcript:
        """The part that no later frame can change: it only grows. Its scores are those of ``best``."""

    @abstractmethod
    def best(self) -> Transcript | None:
        """The best transcript as if the recording ended here; None if none is possible."""

    @abstractmethod
    def finish(self) -> list[Transcript]:
        """The best transcripts of the whole recording; nothing can be fed afterwards."""


class FrameSearch(ConfigSection, ABC):
    """A way to find probable transcripts: configuration and function in one."""

    @abstractmethod
    def __call__(
        self,
        log_probabilities: Tensor,  # (B, T, V)
        lengths: Tensor,  # (B,), frames of each row
        *,
        blank: int = 0,
        guide: Guide | None = None,
    ) -> list[list[Transcript]]:
        """The transcripts of each row, the best first; an empty list where no transcript is possible."""

    @abstractmethod
    def stream(self, *, vocab_size: int, blank: int = 0, guide: Guide | None = None, lag: int = 0) -> Stream:
        """The same search over frames (T, vocab_size) that arrive in chunks.

        ``lag`` limits the frames that may stay undecided if the search has no limit of its own (0: no limit).
        """


def unpad_frames(log_probabilities: Tensor, lengths: Tensor, *, blank: int) -> list[Frames]:
    """The real frames of each row, checked."""
    if log_probabilities.dim() != 3 or not log_probabilities.is_floating_point():
        shape, dtype = tuple(log_probabilities.shape), log_probabilities.dtype
        raise ValueError(f"log_probabilities has shape {shape} and type {dtype}, expected (B, T, V) in floating point")
    batch, time, vocab_size = log_probabilities.shape
    counts = lengths.detach().cpu().numpy()
    if counts.shape != (batch,) or counts.dtype.kind not in "iu":
        raise ValueError(f"lengths has shape {counts.shape} and type {counts.dtype}, expected {batch} integers")
    if batch and not 0 <= counts.min() <= counts.max() <= time:
        raise ValueError(f"lengths range from {counts.min()} to {counts.max()}, expected 0 to {time} (the frames)")
    check_blank(blank, vocab_size=vocab_size)
    values = _as_array(log_probabilities.detach().cpu())
    rows = [row[:length] for row, length in zip(values, counts.tolist(), strict=True)]
    for index, row in enumerate(rows):
        _check_values(row, name=f"row {index}")
    return rows


def check_blank(blank: int, *, vocab_size: int) -> None:
    if not 0 <= blank < vocab_size:
        raise ValueError(f"blank is {blank}, expected a token id from 0 to {vocab_size - 1}")


def check_lag(lag: float) -> None:
    if not lag >= 0:
        raise ValueError(f"lag is {lag}, expected at least 0 (0: decide nothing before the end)")


def check_frames(frames: Tensor | npt.NDArray[np.floating], *, name: str, first: int = 0) -> Frames:
    """Frames (T, V) in single or double precision; an error names the frame with an invalid log-probability."""
    values = _as_array(frames.detach().cpu() if isinstance(frames, Tensor) else torch.from_numpy(np.asarray(frames)))
    _check_values(values, name=name, first=first)
    return values


def _as_array(frames: Tensor) -> Frames:
    """The same numbers in single or double precision, without gaps."""
    dtype = torch.float32 if frames.is_floating_point() and frames.element_size() <= 4 else torch.float64
    values: Frames = frames.to(dtype).contiguous().numpy()
    return values


def _check_values(values: Frames, *, name: str, first: int = 0) -> None:
    if not (values < np.inf).all():
        frame, token = np.argwhere(~(values < np.inf))[0].tolist()
        raise ValueError(
            f"{name}, frame {first + frame}: token {token} has log-probability {values[frame, token]}, "
            "expected a number below infinity"
        )
