"""Connectionist temporal classification in logarithms: slower, and right whatever the logits."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqloom.kernels.compiled import compiled

Floats = NDArray[np.floating[Any]]
Numbers = NDArray[np.int64]


@compiled
def logarithmic(
    logits: Floats,  # (T, V)
    gradient: Floats,  # (T, V), written
    target: Numbers,  # (S,)
    blank: int,
) -> float:
    """The same as ``scaled``, slower, whatever the logits; inf where a path would need a logit of -inf."""
    frames, size = logits.shape[0], len(target)
    sums = np.empty(frames)
    for t in range(frames):
        sums[t] = log_sum(logits[t])
    if math.isnan(sums.sum()):
        return math.nan
    blanks, symbols = np.full((frames + 1, size + 1), -np.inf), np.full((frames + 1, size + 1), -np.inf)
    blanks[0, 0] = 0.0
    for t in range(frames):
        for i in range(size + 1):
            blanks[t + 1, i] = log_add(blanks[t, i], symbols[t, i]) + (logits[t, blank] - sums[t])
        for i in range(size):
            reached = log_add(symbols[t, i + 1], blanks[t, i])
            if i and target[i] != target[i - 1]:
                reached = log_add(reached, symbols[t, i])
            symbols[t + 1, i + 1] = reached + (logits[t, target[i]] - sums[t])
    end: float = log_add(blanks[frames, size], symbols[frames, size])
    if end == -np.inf:
        return math.inf
    log_backward(logits, gradient, target, blank, sums, blanks[1:] - end, symbols[1:] - end)
    return -end


@compiled
def log_backward(
    logits: Floats, gradient: Floats, target: Numbers, blank: int, sums: Floats, blanks: Floats, symbols: Floats
) -> None:
    size = len(target)
    blank_on, symbol_on = np.full(size + 2, -np.inf), np.full(size + 2, -np.inf)
    blank_on[size] = 0.0
    if size:
        symbol_on[size - 1] = 0.0
    for t in range(len(logits) - 1, -1, -1):
        for v in range(logits.shape[1]):
            gradient[t, v] = math.exp(logits[t, v] - sums[t])
        of_blanks = 0.0
        for i in range(size + 1):
            of_blanks += math.exp(blanks[t, i] + blank_on[i])
            blank_on[i] += logits[t, blank] - sums[t]
        gradient[t, blank] -= of_blanks
        for i in range(size):
            gradient[t, target[i]] -= math.exp(symbols[t, i + 1] + symbol_on[i])
            symbol_on[i] += logits[t, target[i]] - sums[t]
        for i in range(size + 1):  # upwards: what stands behind a state is still that of the frame behind
            stay = symbol_on[i]
            if i < size:
                symbol_on[i] = log_add(stay, blank_on[i + 1])
            if i + 1 < size and target[i] != target[i + 1]:
                symbol_on[i] = log_add(symbol_on[i], symbol_on[i + 1])
            blank_on[i] = log_add(blank_on[i], stay)


@compiled
def log_sum(row: Floats) -> float:
    highest = -math.inf
    for value in row:
        highest = max(highest, float(value))
    total = 0.0
    for value in row:
        total += math.exp(float(value) - highest)
    return highest + math.log(total)


@compiled
def log_add(x: float, y: float) -> float:
    if x < y:
        x, y = y, x
    if y == -math.inf:
        return x
    return x + math.log1p(math.exp(y - x))
