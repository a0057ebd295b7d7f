"""An n-gram model with back-off as one automaton: contexts are states, a word leads from one to the next."""

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from seqloom.kernels.compiled import compiled

Integers = npt.NDArray[np.int32]
Places = npt.NDArray[np.int64]
Stored = npt.NDArray[np.float32]
Floats = npt.NDArray[np.float64]

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
    most: float  # the greatest bonus
    words: npt.NDArray[np.int32]  # the last word of each n-gram
    first: npt.NDArray[np.int64]  # the first n-gram that is one word longer, of each context
    suffixes: npt.NDArray[
        np.int32
    ]  # the state of an n-gram without its first word, or of its longest part that is known
    log_probabilities: npt.NDArray[np.float32]
    log_backoffs: npt.NDArray[np.float32]
    table: npt.NDArray[np.float64]  # (R, V), log-probabilities of what follows each state, instead of n-grams


@compiled
def follow(words: Integers, first: Places, state: int, word: int) -> int:
    """The n-gram of a context and a word; -1 if it is not known."""
    if state == 0:
        return 1 + word
    low, high = first[state], first[state + 1]
    end = high
    while low < high:
        middle = (low + high) >> 1
        if words[middle] < word:
            low = middle + 1
        else:
            high = middle
    return int(low) if low < end and words[low] == word else -1


@compiled
def score(
    kind: int,
    words: Integers,
    first: Places,
    suffixes: Integers,
    log_probabilities: Stored,
    log_backoffs: Stored,
    table: Floats,
    state: int,
    word: int,
) -> tuple[float, int]:
    """log p(word | state), and the state that follows; -1 where a table does not know it yet.

    The arrays are those of a Scorer, one by one: a call with the whole would count references to all of them.
    """
    if kind == NONE:
        return 0.0, 0
    if word < 0 or (kind == TABLE and state < 0):
        return -math.inf, 0
    if kind == TABLE:
        return table[state, word], -1
    backoff = 0.0
    found = follow(words, first, state, word)
    while found < 0:
        backoff += log_backoffs[state]
        state = suffixes[state]
        found = follow(words, first, state, word)
    following = found if found < len(log_backoffs) else suffixes[found]
    return backoff + log_probabilities[found], following
