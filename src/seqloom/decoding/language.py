"""Language models as a search sees them: n-gram tables that kernels read, or a step of any decoder."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

from seqloom.decoding.search import Step

if TYPE_CHECKING:
    from seqloom.kernels.language import Scorer

Integers = npt.NDArray[np.int64]
Stored = npt.NDArray[np.float32]


class BackOff(Protocol):
    """An n-gram model with back-off; what its fields hold is said by ``models.ngram.NGram``, which is one."""

    @property
    def vocabulary(self) -> int: ...
    @property
    def start(self) -> int: ...
    @property
    def end(self) -> int: ...
    @property
    def keys(self) -> tuple[Integers, ...]: ...
    @property
    def log_probabilities(self) -> tuple[Stored, ...]: ...
    @property
    def log_backoffs(self) -> tuple[Stored, ...]: ...


class NGramLanguage:
    """An n-gram model of words, or of symbols.

    ``numbers`` are those of the lexicon's words (without a lexicon: of the symbols) in the model's vocabulary, -1 where
    it does not know one: that counts as ``unknown``, the model's own word for such; if it has none, impossible.
    """

    def __init__(self, model: BackOff, *, numbers: Sequence[int] | Integers, unknown: int | None = None) -> None:
        self.model, self.numbers, self.unknown = model, np.asarray(numbers, dtype=np.int64), unknown


class StepLanguage:
    """Any decoder, as a step from symbol to symbol; ``state`` is that of one row, before ``start`` is read.

    ``numbers`` and ``unknown`` as for an n-gram model.
    """

    def __init__(
        self,
        step: Step,
        state: Any,
        *,
        start: int,
        end: int,
        numbers: Sequence[int] | Integers,
        unknown: int | None = None,
    ) -> None:
        self.step, self.state, self.start, self.end = step, state, start, end
        self.numbers, self.unknown = np.asarray(numbers, dtype=np.int64), unknown


Language = NGramLanguage | StepLanguage


def scorer(guide: Any, *, count: int) -> "Scorer":
    """What a kernel reads of the guide's language model and bonuses, for so many words or symbols."""
    from seqloom.kernels.language import NONE, Scorer

    nothing = np.zeros(0, np.int32)
    return Scorer(
        kind=NONE,
        weight=guide.weight,
        start=0,
        end=-1,
        numbers=nothing,
        gains=np.full(count, guide.bonus),
        words=nothing,
        first=np.zeros(0, np.int64),
        suffixes=nothing,
        log_probabilities=np.zeros(0, np.float32),
        log_backoffs=np.zeros(0, np.float32),
        table=np.zeros((0, 0)),
    )
