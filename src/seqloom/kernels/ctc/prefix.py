"""CTC prefix probabilities (Graves 2008; Watanabe et al. 2017): of all label sequences that start with a prefix.

n(t) and b(t) are the log-probabilities of the paths over the first t frames that read as the prefix and end in its
last token, or in a blank. φ(t, c) = b(t) + n(t), without n(t) where c repeats the last token, so that

    n'(t + 1) = (n'(t) + φ(t, c)) p(c, t)    b'(t + 1) = (b'(t) + n'(t)) p(blank, t)    ψ(prefix c) = Σ φ(t, c) p(c, t)
"""

import numpy as np
import numpy.typing as npt

from seqloom.kernels.ctc.loss import log_add
from seqloom.kernels.runtime.numba_jit import jit

Doubles = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]


@jit
def extend(
    log_probs: Doubles,  # (B, T, V)
    lengths: Integers,  # (B,), frames
    rows: Integers,  # (R,), recording of each prefix
    tokens: Integers,  # (R,), appended to the prefixes
    last: Integers,  # (R,), last tokens of the prefixes; -1: they are empty
    nonblank: Doubles,  # (R, T + 1), n
    blanks: Doubles,  # (R, T + 1), b
    blank: int,
    new_nonblank: Doubles,  # (R, T + 1), written
    new_blanks: Doubles,  # (R, T + 1), written
    totals: Doubles,  # (R,), written: log ψ of the extended prefixes
) -> None:
    """n and b after one more token."""
    for r in range(len(rows)):
        frames, token, repeats = log_probs[rows[r]], tokens[r], tokens[r] == last[r]
        new_nonblank[r, 0] = new_blanks[r, 0] = totals[r] = -np.inf
        for t in range(lengths[rows[r]]):
            arriving = blanks[r, t] if repeats else log_add(blanks[r, t], nonblank[r, t])
            totals[r] = log_add(totals[r], arriving + frames[t, token])
            new_nonblank[r, t + 1] = log_add(new_nonblank[r, t], arriving) + frames[t, token]
            new_blanks[r, t + 1] = log_add(new_blanks[r, t], new_nonblank[r, t]) + frames[t, blank]


@jit
def extension_log_probs(
    log_probs: Doubles,  # (B, T, V)
    probs: Doubles,  # (B, T, V), their exponentials
    lengths: Integers,  # (B,)
    rows: Integers,  # (R,)
    last: Integers,  # (R,)
    nonblank: Doubles,  # (R, T + 1)
    blanks: Doubles,  # (R, T + 1)
    blank: int,
    end: int,
    scores: Doubles,  # (R, V), written
) -> None:
    """log ψ of each prefix with each token; at ``end``, the log-probability of the prefix as the whole transcript."""
    size = log_probs.shape[2]
    arriving = np.empty(log_probs.shape[1] + 1)
    sums = np.empty(size)
    for r in range(len(rows)):
        row, length = rows[r], lengths[rows[r]]
        largest = -np.inf
        for t in range(length):
            arriving[t] = log_add(blanks[r, t], nonblank[r, t])
            largest = max(largest, arriving[t])
        # Products of probabilities are fast; where all of them underflow, the sum is computed in log space.
        sums[:] = 0.0
        if largest > -np.inf:
            for t in range(length):
                weight = np.exp(arriving[t] - largest)
                for token in range(size):
                    sums[token] += weight * probs[row, t, token]
        for token in range(size):
            if sums[token] > 0.0 and token != last[r]:
                scores[r, token] = largest + np.log(sums[token])
                continue
            total = -np.inf
            for t in range(length):
                before = blanks[r, t] if token == last[r] else arriving[t]
                total = log_add(total, before + log_probs[row, t, token])
            scores[r, token] = total
        scores[r, blank] = -np.inf
        scores[r, end] = log_add(blanks[r, length], nonblank[r, length])
