"""Language models of a search over frames: n-gram tables that kernels read, or the step function of a decoder."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from seqloom.decoding.tokens.search import Step

if TYPE_CHECKING:
    from seqloom.kernels.frame_beam.ngram_scorer import Scorer

Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float32]
Doubles = npt.NDArray[np.float64]


class BackoffModel(Protocol):
    """An n-gram model with back-off, such as ``models.ngram.ngram.NGram``, which documents the fields."""

    @property
    def vocabulary(self) -> int: ...
    @property
    def start(self) -> int: ...
    @property
    def end(self) -> int: ...
    @property
    def keys(self) -> tuple[Integers, ...]: ...
    @property
    def log_probabilities(self) -> tuple[Floats, ...]: ...
    @property
    def log_backoffs(self) -> tuple[Floats, ...]: ...
    def start_state(self, batch: int = 1) -> Integers: ...
    def advance(self, state: Integers, words: Integers) -> Integers: ...
    def next(self, state: Integers) -> Doubles: ...
    def log_probability(self, words: Integers, contexts: Integers) -> Doubles: ...


class Automaton(NamedTuple):
    """The fields are those of ``kernels.frame_beam.ngram_scorer.Scorer``."""

    ngram_words: npt.NDArray[np.int32]
    first_children: Integers
    backoff_states: npt.NDArray[np.int32]
    log_probs: Floats
    log_backoffs: Floats


class NGramLM:
    """An n-gram model of words, or of tokens.

    ``vocabulary_ids`` are the ids of the lexicon's words (without a lexicon: of the tokens) in the model's vocabulary,
    -1 for unknown ones. These count as ``unknown``, the model's unknown word; without one they are impossible.
    """

    def __init__(
        self, model: BackoffModel, *, vocabulary_ids: Sequence[int] | Integers, unknown: int | None = None
    ) -> None:
        self.model, self.vocabulary_ids, self.unknown = model, np.asarray(vocabulary_ids, dtype=np.int64), unknown
        self.automaton = build_automaton(model)


class NeuralLM:
    """Any decoder, as a step function; ``state`` is that of one row before ``start`` is read.

    ``vocabulary_ids`` and ``unknown`` are as for an n-gram model.
    """

    def __init__(
        self,
        step: Step,
        state: Any,
        *,
        start: int,
        end: int,
        vocabulary_ids: Sequence[int] | Integers,
        unknown: int | None = None,
        decoder: Any = None,  # the module that computes the step; None: not known
    ) -> None:
        self.step, self.state, self.start, self.end, self.decoder = step, state, start, end, decoder
        self.vocabulary_ids, self.unknown = np.asarray(vocabulary_ids, dtype=np.int64), unknown


LM = NGramLM | NeuralLM


def word_bonuses(lm: LM | None, *, count: int, word_score: float, unk_score: float) -> Doubles:  # (count,)
    """What each word, or token, adds to a score: word_score, and unk_score if the language model does not know it."""
    if not (-np.inf < word_score < np.inf and -np.inf < unk_score < np.inf):
        raise ValueError(f"word_score is {word_score} and unk_score is {unk_score}, expected finite numbers")
    bonuses = np.full(count, float(word_score))
    if lm is None:
        return bonuses
    if lm.vocabulary_ids.shape != (count,):
        raise ValueError(
            f"vocabulary_ids of the language model has shape {lm.vocabulary_ids.shape}, expected ({count},)"
        )
    bonuses[lm.vocabulary_ids < 0] += unk_score
    return bonuses


def build_scorer(lm: LM | None, *, count: int, weight: float, word_score: float, unk_score: float) -> "Scorer":
    """The language model and scores as kernels read them, for ``count`` words, or tokens."""
    from seqloom.kernels.frame_beam.ngram_scorer import NGRAM, NONE, TABLE, Scorer

    if not weight >= 0:
        raise ValueError(f"the weight of the language model is {weight}, expected at least 0")
    no_integers, no_floats = np.zeros(0, np.int32), np.zeros(0, np.float32)
    bonuses = word_bonuses(lm, count=count, word_score=word_score, unk_score=unk_score)
    scorer = Scorer(
        kind=NONE,
        weight=float(weight),
        start=0,
        end=-1,
        vocabulary_ids=np.zeros(count, np.int32),
        bonuses=bonuses,
        max_bonus=float(bonuses.max()),
        ngram_words=no_integers,
        first_children=np.zeros(0, np.int64),
        backoff_states=no_integers,
        log_probs=no_floats,
        log_backoffs=no_floats,
        table=np.zeros((0, 0)),
    )
    if lm is None:
        return scorer
    ids = lm.vocabulary_ids
    known = np.where(ids < 0, -1 if lm.unknown is None else lm.unknown, ids).astype(np.int32)
    if isinstance(lm, NeuralLM):
        return scorer._replace(kind=TABLE, end=lm.end, vocabulary_ids=known)
    if known.max() >= lm.model.vocabulary:
        raise ValueError(
            f"vocabulary_ids of the language model contains {known.max()}, expected ids below {lm.model.vocabulary}"
        )
    return scorer._replace(
        kind=NGRAM,
        start=1 + lm.model.start if lm.model.keys else 0,
        end=lm.model.end,
        vocabulary_ids=known,
        **lm.automaton._asdict(),
    )


def build_automaton(model: BackoffModel) -> Automaton:
    """The contexts of an n-gram model as states."""
    size = model.vocabulary
    words, suffixes = [np.zeros(1, np.int64), np.arange(size)], [np.zeros(1, np.int64), np.zeros(size, np.int64)]
    first, offsets = [np.ones(1, np.int64)], [0, 1]  # of the n-grams of each order
    known = {1: np.arange(size)}
    for order, keys in enumerate(model.keys, start=2):
        rows, last = np.divmod(keys, size)
        shorter, offset = suffixes[order - 1][rows], offsets[order - 1]
        offsets.append(offset + len(words[order - 1]))
        first.append(offsets[order] + np.searchsorted(rows, np.arange(len(words[order - 1]))))
        words.append(last)
        known[order] = keys
        suffixes.append(_suffixes(known, offsets, suffixes, shorter=shorter, last=last, size=size))
    total = offsets[-1] + len(words[-1])
    return Automaton(
        ngram_words=np.concatenate(words).astype(np.int32),
        first_children=np.concatenate([*first, [total]]),
        backoff_states=np.concatenate(suffixes).astype(np.int32),
        log_probs=np.concatenate([np.zeros(1, np.float32), *model.log_probabilities]),
        log_backoffs=np.concatenate([np.zeros(1, np.float32), *model.log_backoffs]),
    )


def _suffixes(
    known: dict[int, Integers],
    offsets: list[int],
    suffixes: list[Integers],
    *,
    shorter: Integers,  # states of the n-grams without their first and last word
    last: Integers,
    size: int,
) -> Integers:
    """The states of n-grams without their first word, or of their longest known suffix."""
    all_suffixes = np.concatenate(suffixes)
    result, left = 1 + last, np.flatnonzero(shorter > 0)
    states = shorter.copy()
    while left.size:
        order = np.searchsorted(offsets, states[left], side="right") - 1  # of the contexts, at least 1
        resolved = np.zeros(left.size, bool)
        for context in np.unique(order).tolist():
            group = np.flatnonzero(order == context)
            keys = known[context + 1]
            targets = (states[left[group]] - offsets[context]) * size + last[left[group]]
            at = np.searchsorted(keys, targets).clip(max=max(len(keys) - 1, 0))
            hits = keys[at] == targets if len(keys) else np.zeros(len(group), bool)
            result[left[group[hits]]] = offsets[context + 1] + at[hits]
            resolved[group[hits]] = True
        left = left[~resolved]
        states[left] = all_suffixes[states[left]]
        left = left[states[left] > 0]
    return result
