"""Search: from a step function to the best sequences; it knows no model."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from torch import Tensor

from seqloom.config import ConfigSection
from seqloom.decoding.tokens.prefix_tree import PrefixTree
from seqloom.decoding.tokens.search_record import SearchRecord

Step = Callable[[Tensor, Any], tuple[Tensor, Any]]
"""The last symbols (B,) and a state → log-probabilities of the next ones (B, V), and the following state."""

Coverage = Callable[[Any], Tensor | None]
"""A state → the attention that each source position has received so far (B, S); 1 where there is no source."""


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """A sequence that a search has found."""

    tokens: list[int]  # without the start and the end symbol
    score: float  # what hypotheses are ranked by, with all penalties; those that ended come first
    log_probability: float
    log_probabilities: list[float]  # of each symbol, and of the end symbol where it ended
    ended: bool  # with the end symbol; otherwise it was cut at its greatest length


class Search(ConfigSection, ABC):
    """A way to find probable sequences: configuration and function in one."""

    @abstractmethod
    def __call__(
        self,
        step: Step,
        state: Any,
        start: Tensor,  # (B,), the symbol before the first one
        end: int,
        *,
        lengths: Tensor | int,  # (B,), the most symbols of each row, the end symbol included
        never: tuple[int, ...] = (),  # symbols that are not chosen
        tree: PrefixTree | None = None,  # of the only sequences that are allowed
        coverage: Coverage | None = None,
        record: SearchRecord | None = None,  # is told what becomes of every candidate
    ) -> list[list[Hypothesis]]:
        """The hypotheses of each row, the best first; none where no sequence is possible."""


def limits(lengths: Tensor | int, start: Tensor) -> npt.NDArray[np.int64]:  # (B,)
    """The most symbols of each row."""
    if start.dim() != 1:
        raise ValueError(f"start has the shape {tuple(start.shape)}, wanted one symbol for each row: (B,)")
    given = np.asarray(lengths.cpu() if isinstance(lengths, Tensor) else lengths)
    if given.shape not in ((), (len(start),)) or given.dtype.kind not in "iu":
        raise ValueError(f"lengths are {lengths}, wanted a whole number, or a tensor of {len(start)} of them")
    if given.size and given.min() < 0:
        raise ValueError(f"the greatest length of a row is {given.min()}, wanted at least 0")
    return np.broadcast_to(given.astype(np.int64), (len(start),))
