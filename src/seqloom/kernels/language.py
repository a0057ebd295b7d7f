"""An n-gram model with back-off as one automaton: contexts are states, a word leads from one to the next."""

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from seqloom.kernels.compiled import compiled

NONE, NGRAM, TABLE = 0, 1, 2


class Scorer(NamedTuple):
    """What a kernel reads of a language model.

    State 0 is the empty context, state 1 + w the context of the single word w; then come the n-grams of two words, and
    so on, sorted: those that go on from one context stand together.
    """

    kind: int
    weight: float
    start: int  # state before the first word
    end: int  # number of the end, -1 if it is not scored
    numbers: npt.NDArray[np.int32]  # of the searched words or symbols in the vocabulary; -1: impossible
    gains: npt.NDArray[np.float64]  # bonus of each of them
    words: npt.NDArray[np.int32]  # the last word of each n-gram
    first: npt.NDArray[np.int64]  # the first n-gram that is one word longer, of each context
    suffixes: npt.NDArray[
        np.int32
    ]  # the state of an n-gram without its first word, or of its longest part that is known
    log_probabilities: npt.NDArray[np.float32]
    log_backoffs: npt.NDArray[np.float32]
    table: npt.NDArray[np.float64]  # (R, V), log-probabilities of what follows each state, instead of n-grams


@compiled
def follow(scorer: Scorer, state: int, word: int) -> int:
    """The n-gram of a context and a word; -1 if it is not known."""
    if state == 0:
        return 1 + word
    low, high = scorer.first[state], scorer.first[state + 1]
    end = high
    while low < high:
        middle = (low + high) >> 1
        if scorer.words[middle] < word:
            low = middle + 1
        else:
            high = middle
    return low if low < end and scorer.words[low] == word else -1


@compiled
def score(scorer: Scorer, state: int, word: int) -> tuple[float, int]:
    """log p(word | state), and the state that follows; -1 where a table does not know it yet."""
    if scorer.kind == NONE:
        return 0.0, 0
    if word < 0:
        return -math.inf, 0
    if scorer.kind == TABLE:
        return scorer.table[state, word], -1
    backoff = 0.0
    found = follow(scorer, state, word)
    while found < 0:
        backoff += scorer.log_backoffs[state]
        state = scorer.suffixes[state]
        found = follow(scorer, state, word)
    following = found if found < len(scorer.log_backoffs) else scorer.suffixes[found]
    return backoff + scorer.log_probabilities[found], following
