"""Language models as a search sees them: n-gram tables that kernels read, or a step of any decoder."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from seqloom.decoding.tokens.search import Step

if TYPE_CHECKING:
    from seqloom.kernels.frame_beam.ngram_scorer import Scorer

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


class Automaton(NamedTuple):
    """See ``kernels.frame_beam.ngram_scorer.Scorer``."""

    ngram_words: npt.NDArray[np.int32]
    first_children: Integers
    backoff_states: npt.NDArray[np.int32]
    log_probs: Stored
    log_backoffs: Stored


class NGramLanguage:
    """An n-gram model of words, or of symbols.

    ``numbers`` are those of the lexicon's words (without a lexicon: of the symbols) in the model's vocabulary, -1 where
    it does not know one: that counts as ``unknown``, the model's own word for such; if it has none, impossible.
    """

    def __init__(self, model: BackOff, *, numbers: Sequence[int] | Integers, unknown: int | None = None) -> None:
        self.model, self.numbers, self.unknown = model, np.asarray(numbers, dtype=np.int64), unknown
        self.automaton = automaton(model)


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


def scorer(language: Language | None, *, count: int, weight: float, bonus: float, unknown: float) -> "Scorer":
    """What a kernel reads of a language model and bonuses, for so many words, or symbols."""
    from seqloom.kernels.frame_beam.ngram_scorer import NGRAM, NONE, TABLE, Scorer

    if not weight >= 0:
        raise ValueError(f"the language model has the weight {weight}, wanted 0 or more")
    if not (-np.inf < bonus < np.inf and -np.inf < unknown < np.inf):
        raise ValueError(f"the bonus is {bonus} and that of an unknown word {unknown}, wanted finite numbers")
    nothing, none = np.zeros(0, np.int32), np.zeros(0, np.float32)
    gains = np.full(count, float(bonus))
    made = Scorer(
        kind=NONE,
        weight=float(weight),
        start=0,
        end=-1,
        vocabulary_ids=np.zeros(count, np.int32),
        bonuses=gains,
        max_bonus=float(bonus),
        ngram_words=nothing,
        first_children=np.zeros(0, np.int64),
        backoff_states=nothing,
        log_probs=none,
        log_backoffs=none,
        table=np.zeros((0, 0)),
    )
    if language is None:
        return made
    numbers = language.numbers
    if numbers.shape != (count,):
        raise ValueError(f"the language model has numbers for {numbers.shape} words or symbols, wanted {count}")
    gains[numbers < 0] += unknown
    made = made._replace(max_bonus=float(gains.max()))
    known = np.where(numbers < 0, -1 if language.unknown is None else language.unknown, numbers).astype(np.int32)
    if isinstance(language, StepLanguage):
        return made._replace(kind=TABLE, end=language.end, vocabulary_ids=known)
    if known.max() >= language.model.vocabulary:
        raise ValueError(f"number {known.max()} is not below the {language.model.vocabulary} of the language model")
    start = 0 if not language.model.keys else 1 + language.model.start
    return made._replace(
        kind=NGRAM,
        start=start,
        end=language.model.end,
        vocabulary_ids=known,
        **language.automaton._asdict(),
    )


def automaton(model: BackOff) -> Automaton:
    """An n-gram model's contexts as states."""
    size = model.vocabulary
    words, suffixes = [np.zeros(1, np.int64), np.arange(size)], [np.zeros(1, np.int64), np.zeros(size, np.int64)]
    first, begin = [np.ones(1, np.int64)], [0, 1]  # where the n-grams of each order begin
    known = {1: np.arange(size)}
    for order, keys in enumerate(model.keys, start=2):
        rows, last = np.divmod(keys, size)
        shorter, shift = suffixes[order - 1][rows], begin[order - 1]
        begin.append(shift + len(words[order - 1]))
        first.append(begin[order] + np.searchsorted(rows, np.arange(len(words[order - 1]))))
        words.append(last)
        known[order] = keys
        suffixes.append(_suffixes(known, begin, suffixes, shorter=shorter, last=last, size=size))
    total = begin[-1] + len(words[-1])
    return Automaton(
        ngram_words=np.concatenate(words).astype(np.int32),
        first_children=np.concatenate([*first, [total]]),
        backoff_states=np.concatenate(suffixes).astype(np.int32),
        log_probs=np.concatenate([np.zeros(1, np.float32), *model.log_probabilities]),
        log_backoffs=np.concatenate([np.zeros(1, np.float32), *model.log_backoffs]),
    )


def _suffixes(
    known: dict[int, Integers],
    begin: list[int],
    suffixes: list[Integers],
    *,
    shorter: Integers,  # states of the n-grams without their first and their last word
    last: Integers,
    size: int,
) -> Integers:
    """The states of n-grams without their first word, or of the longest part of it that is known."""
    every = np.concatenate(suffixes)
    found, left = 1 + last, np.flatnonzero(shorter > 0)
    states = shorter.copy()
    while left.size:
        order = np.searchsorted(begin, states[left], side="right") - 1  # of the contexts; 1 or more
        hit = np.zeros(left.size, bool)
        for each in np.unique(order).tolist():
            mine = np.flatnonzero(order == each)
            wanted = (states[left[mine]] - begin[each]) * size + last[left[mine]]
            at = np.searchsorted(known[each + 1], wanted).clip(max=max(len(known[each + 1]) - 1, 0))
            there = known[each + 1][at] == wanted if len(known[each + 1]) else np.zeros(len(mine), bool)
            found[left[mine[there]]] = begin[each + 1] + at[there]
            hit[mine[there]] = True
        left = left[~hit]
        states[left] = every[states[left]]
        left = left[states[left] > 0]
    return found
