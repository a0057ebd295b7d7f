"""Search over frames: from the log-probabilities of a CTC model (Graves et al. 2006) to the best transcripts."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from seqloom.config import ConfigSection
from seqloom.decoding.frames.language_models import Language
from seqloom.decoding.frames.lexicon import Lexicon

Frames = npt.NDArray[np.floating[Any]]
"""(T, V), log-probabilities of the symbols, the blank among them, in single or double precision."""


@dataclass(frozen=True, slots=True)
class Transcript:
    """What a search found in the frames of one recording."""

    symbols: list[int]  # without blanks
    words: list[int]  # numbers of the lexicon's words; empty without a lexicon
    score: float  # what transcripts are ranked by: acoustic + weight × language + bonus × words + …
    acoustic: float  # log p(symbols | frames), summed over the paths that the search kept
    language: float  # log p by the language model, the end included, not weighted; 0 without one
    frames: list[tuple[int, int]]  # first and last frame of each symbol, by its most probable path
    spans: list[tuple[int, int]]  # first and last frame of each word


class Guide(NamedTuple):
    """What a search knows beside the frames.

    Without a lexicon the language model scores symbols, with one it scores words.
    """

    lexicon: Lexicon | None = None  # of the only words that are allowed
    language: Language | None = None
    weight: float = 1.0  # of the language model
    bonus: float = 0.0  # for each word, or for each symbol where there is no lexicon
    unknown: float = 0.0  # for each word that the language model does not know


class Stream(ABC):
    """A recording that is heard piece by piece; at its end the transcripts are those of the whole with the same lag."""

    @abstractmethod
    def feed(self, frames: Tensor | npt.NDArray[np.floating]) -> None:  # (T, V)
        """Hear some more log-probabilities."""

    @abstractmethod
    def stable(self) -> Transcript:
        """What will not change any more, whatever comes: it only grows. Its scores are those of ``best``."""

    @abstractmethod
    def best(self) -> Transcript | None:
        """The best so far, as if the recording ended here; None where nothing is possible."""

    @abstractmethod
    def finish(self) -> list[Transcript]:
        """The best of the whole recording, as the search with this lag gives them; nothing can be fed afterwards."""


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
        """The transcripts of each row, the best first; none where no transcript is possible."""

    @abstractmethod
    def stream(self, *, symbols: int, blank: int = 0, guide: Guide | None = None, lag: int = 0) -> Stream:
        """The same search, over frames of so many ``symbols`` (V) that come in pieces.

        Where the search sets no limit of its own to the frames that may stay undecided, ``lag`` does; 0: there is none.
        """


def rows(log_probabilities: Tensor, lengths: Tensor, *, blank: int) -> list[Frames]:
    """The real frames of each row, checked."""
    if log_probabilities.dim() != 3 or not log_probabilities.is_floating_point():
        shape, kind = tuple(log_probabilities.shape), log_probabilities.dtype
        raise ValueError(f"log_probabilities have the shape {shape} and type {kind}, wanted (B, T, V), floating point")
    batch, time, symbols = log_probabilities.shape
    given = lengths.detach().cpu().numpy()
    if given.shape != (batch,) or given.dtype.kind not in "iu":
        raise ValueError(f"lengths have the shape {given.shape} and type {given.dtype}, wanted {batch} whole numbers")
    if batch and not 0 <= given.min() <= given.max() <= time:
        raise ValueError(
            f"lengths go from {given.min()} to {given.max()}, wanted 0 to {time}, the frames that there are"
        )
    check_blank(blank, symbols=symbols)
    values = log_probabilities.detach().cpu()
    return [
        check(row[:length], name=f"row {number}")
        for number, (row, length) in enumerate(zip(values, given.tolist(), strict=True))
    ]


def check_blank(blank: int, *, symbols: int) -> None:
    if not 0 <= blank < symbols:
        raise ValueError(f"blank is {blank}, wanted one of the {symbols} symbols, 0 to {symbols - 1}")


def check_lag(lag: float) -> None:
    if not lag >= 0:
        raise ValueError(f"lag is {lag}, wanted 0 or more; 0: nothing is decided before the end")


def check(frames: Tensor | npt.NDArray[np.floating], *, name: str, first: int = 0) -> Frames:
    """Frames (T, V), at least in single precision; an error names the frame that holds what is no log-probability."""
    given = frames.detach().cpu() if isinstance(frames, Tensor) else torch.from_numpy(np.asarray(frames))
    kind = torch.float32 if given.is_floating_point() and given.element_size() <= 4 else torch.float64
    values: Frames = given.to(kind).contiguous().numpy()
    if not (values < np.inf).all():
        frame, symbol = np.argwhere(~(values < np.inf))[0].tolist()
        raise ValueError(
            f"{name}, frame {first + frame}: symbol {symbol} has the log-probability {values[frame, symbol]}, "
            "wanted a number, or minus infinity"
        )
    return values
