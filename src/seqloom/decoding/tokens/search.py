"""Search: from a step function to the most probable token sequences, independent of any model."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt
from torch import Tensor

from seqloom.config import ConfigSection
from seqloom.decoding.tokens.prefix_tree import PrefixTree
from seqloom.decoding.tokens.search_record import Doubles, Integers, SearchRecord

Step = Callable[[Tensor, Any], tuple[Tensor, Any]]
"""The last tokens (B,) and a state → log-probabilities of the next tokens (B, V), and the next state."""


@runtime_checkable
class ChoosingStep(Protocol):
    """A step that can also choose the most probable tokens of several steps, in one call of compiled code."""

    def __call__(self, tokens: Tensor, state: Any, /) -> tuple[Tensor, Any]: ...

    def choose(
        self,
        tokens: Tensor,  # (B,), the last ones
        state: Any,
        *,
        end: int,  # stop after the step in which a row chooses this token
        suppressed: Tensor,  # (N,), tokens that are not chosen
        highest: float,  # stop after a step whose largest log-probability is above it, NaN or -inf
        steps: int,  # at most
    ) -> tuple[Tensor, Tensor, Any] | None:  # tokens (T, B), their log-probabilities (T, B), the next state
        """The first of ties is chosen. None: not this decoder, or not this state."""


@runtime_checkable
class RestrictedStep(Protocol):
    """A step that gives -inf to the tokens that a lexicon excludes."""

    def __call__(self, tokens: Tensor, state: Any, /) -> tuple[Tensor, Any]: ...

    def unrestricted(self, tokens: Tensor, state: Any, /) -> Tensor | None:
        """The log-probabilities (B, V) if it excluded none; None: it excludes none."""


Coverage = Callable[[Any], Tensor | None]
"""A state → the attention that each source position has received so far (B, S), 1 at padding; None: no attention."""

MaxGain = Callable[[Integers], Doubles]
"""Numbers of further tokens → upper bounds of the score that they add: 0 without word scores."""


def no_gain(tokens: Integers) -> Doubles:
    """The bound of log-probabilities."""
    return np.zeros(np.shape(tokens))


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """A sequence returned by a search."""

    tokens: list[int]  # without the start and the end token
    score: float  # what hypotheses are ranked by, with all penalties; those that ended come first
    log_probability: float  # the sum of the scores of its tokens, before any penalty; includes word scores
    log_probabilities: list[float]  # of each token, and of the end token if it ended
    ended: bool  # with the end token; False: truncated at the maximum length


class Search(ConfigSection, ABC):
    """A way to find probable sequences: configuration and function in one."""

    @property
    def needs_coverage(self) -> bool:
        """Whether ``coverage`` has to be given."""
        return False

    def length_divisor(self, length: int) -> float:  # noqa: ARG002
        """What the log-probability of a hypothesis of this length, end included, is divided by."""
        return 1.0

    @abstractmethod
    def __call__(
        self,
        step: Step,
        state: Any,
        start: Tensor,  # (B,), the token before the first one
        end: int,
        *,
        lengths: Tensor | int,  # (B,), maximum tokens of each row, the end token included
        suppress: tuple[int, ...] = (),  # tokens that are never generated
        tree: PrefixTree | None = None,  # the only sequences that are allowed
        coverage: Coverage | None = None,
        max_gain: MaxGain = no_gain,  # of the scores that ``step`` returns
        record: SearchRecord | None = None,  # filled with all candidates
    ) -> list[list[Hypothesis]]:
        """The hypotheses of each row, the best first; an empty list where no sequence is possible."""


def unrestricted(step: Step, tokens: Tensor, state: Any) -> Tensor | None:
    """The log-probabilities that a step would return if a lexicon excluded no token; None if there is no lexicon."""
    return step.unrestricted(tokens, state) if isinstance(step, RestrictedStep) else None


def max_lengths(lengths: Tensor | int, start: Tensor) -> npt.NDArray[np.int64]:  # (B,)
    """The maximum length of each row, checked."""
    if start.dim() != 1:
        raise ValueError(f"start has shape {tuple(start.shape)}, expected one token per row: (B,)")
    values = np.asarray(lengths.cpu() if isinstance(lengths, Tensor) else lengths)
    if values.shape not in ((), (len(start),)) or values.dtype.kind not in "iu":
        raise ValueError(f"lengths is {lengths}, expected an integer or a tensor of {len(start)} integers")
    if values.size and values.min() < 0:
        raise ValueError(f"the maximum length of a row is {values.min()}, expected at least 0")
    return np.broadcast_to(values.astype(np.int64), (len(start),))
