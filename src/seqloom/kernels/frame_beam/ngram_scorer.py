"""Look-up in a back-off n-gram language model that is stored as one automaton.

Contexts are states, and each word leads from one state to the next. ``naive.ngram_log_prob`` is the readable
reference.
"""

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from seqloom.kernels.runtime.numba_jit import jit

Int32s = npt.NDArray[np.int32]
Int64s = npt.NDArray[np.int64]
Float32s = npt.NDArray[np.float32]
Float64s = npt.NDArray[np.float64]

NONE, NGRAM, TABLE = 0, 1, 2
"""Kinds of language model: none, n-gram automaton, table of log-probabilities computed by a neural model."""


class Scorer(NamedTuple):
    """The language model and the bonuses of a search, as kernels read them.

    State 0 is the empty context, state 1 + w the context of the single word w; then come the n-grams of two words, of
    three words and so on. N-grams are sorted, so that those that extend one context are neighbours.
    """

    weight: float
    start: int  # state before the first word
    end: int  # vocabulary id of the end-of-sentence token, -1 if it is not scored
    vocabulary_ids: Int32s  # (W,) id of each searched word (or token) in the language model; -1: impossible
    bonuses: Float64s  # (W,) added to the score for each of them
    max_bonus: float
    kind: int  # NONE, NGRAM or TABLE
    ngram_words: Int32s  # (S,) last word of each n-gram
    first_children: Int64s  # (S + 1,) first n-gram that extends each context by a word
    backoff_states: Int32s  # (S,) n-gram without its first word, or its longest known suffix
    log_probs: Float32s  # (S,)
    log_backoffs: Float32s  # (contexts,) shorter than S: n-grams of the highest order are no contexts
    table: Float64s  # (R, V) log-probabilities of what follows each state, for kind TABLE


@jit
def find_ngram(ngram_words: Int32s, first_children: Int64s, state: int, word: int) -> int:
    """The n-gram that extends a context by a word; -1 if the model does not contain it."""
    if state == 0:
        return 1 + word
    low, high = first_children[state], first_children[state + 1]
    end = high
    while low < high:
        middle = (low + high) >> 1
        if ngram_words[middle] < word:
            low = middle + 1
        else:
            high = middle
    return int(low) if low < end and ngram_words[low] == word else -1


@jit
def score(
    kind: int,
    ngram_words: Int32s,
    first_children: Int64s,
    backoff_states: Int32s,
    log_probs: Float32s,
    log_backoffs: Float32s,
    table: Float64s,
    state: int,
    word: int,
) -> tuple[float, int]:
    """log p(word | state) and the state that follows; -1 where the table has no row for it yet.

    Callers take the fields of a Scorer out before their loops and pass them one by one: numba would count references to
    all arrays of a tuple at each call, which makes the prefix search with an n-gram model a quarter slower.
    """
    if kind == NONE:
        return 0.0, 0
    if word < 0 or (kind == TABLE and state < 0):
        return -math.inf, 0
    if kind == TABLE:
        return table[state, word], -1
    backoff = 0.0
    ngram = find_ngram(ngram_words, first_children, state, word)
    while ngram < 0:
        backoff += log_backoffs[state]
        state = backoff_states[state]
        ngram = find_ngram(ngram_words, first_children, state, word)
    next_state = ngram if ngram < len(log_backoffs) else backoff_states[ngram]
    return backoff + log_probs[ngram], next_state
