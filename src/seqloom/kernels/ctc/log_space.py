"""CTC loss and gradient in log space: slower than ``scaled``, and exact for any logits."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqloom.kernels.runtime.numba_jit import jit

Floats = NDArray[np.floating[Any]]
Integers = NDArray[np.int64]


@jit
def log_space_loss(
    logits: Floats,  # (T, V)
    gradient: Floats,  # (T, V) written
    target: Integers,  # (S,)
    blank: int,
) -> float:
    """−log p(target); inf where every path needs a logit of -inf."""
    frames, size = logits.shape[0], len(target)
    normalizers = np.empty(frames)
    for t in range(frames):
        normalizers[t] = log_sum_exp(logits[t])
    if math.isnan(normalizers.sum()):
        return math.nan
    # α: log p of the paths after t frames that end in the blank behind i symbols, or in the i-th symbol
    alpha_blank, alpha_symbol = np.full((frames + 1, size + 1), -np.inf), np.full((frames + 1, size + 1), -np.inf)
    alpha_blank[0, 0] = 0.0
    for t in range(frames):
        for i in range(size + 1):
            arriving = log_add(alpha_blank[t, i], alpha_symbol[t, i])
            alpha_blank[t + 1, i] = arriving + (logits[t, blank] - normalizers[t])
        for i in range(size):
            arriving = log_add(alpha_symbol[t, i + 1], alpha_blank[t, i])
            if i and target[i] != target[i - 1]:
                arriving = log_add(arriving, alpha_symbol[t, i])
            alpha_symbol[t + 1, i + 1] = arriving + (logits[t, target[i]] - normalizers[t])
    total: float = log_add(alpha_blank[frames, size], alpha_symbol[frames, size])
    if total == -np.inf:
        return math.inf
    backward(logits, gradient, target, blank, normalizers, alpha_blank[1:] - total, alpha_symbol[1:] - total)
    return -total


@jit
def backward(
    logits: Floats,
    gradient: Floats,  # (T, V) written
    target: Integers,
    blank: int,
    normalizers: Floats,  # (T,)
    alpha_blank: Floats,  # (T, S + 1) relative to log p(target)
    alpha_symbol: Floats,  # (T, S + 1)
) -> None:
    """Softmax minus posterior; β is kept for one frame only."""
    size = len(target)
    beta_blank, beta_symbol = np.full(size + 2, -np.inf), np.full(size + 2, -np.inf)
    beta_blank[size] = 0.0
    if size:
        beta_symbol[size - 1] = 0.0
    for t in range(len(logits) - 1, -1, -1):
        for v in range(logits.shape[1]):
            gradient[t, v] = math.exp(logits[t, v] - normalizers[t])
        blank_posterior = 0.0
        for i in range(size + 1):
            blank_posterior += math.exp(alpha_blank[t, i] + beta_blank[i])
            beta_blank[i] += logits[t, blank] - normalizers[t]
        gradient[t, blank] -= blank_posterior
        for i in range(size):
            gradient[t, target[i]] -= math.exp(alpha_symbol[t, i + 1] + beta_symbol[i])
            beta_symbol[i] += logits[t, target[i]] - normalizers[t]
        for i in range(size + 1):  # upwards: the states behind are still those of the next frame
            stay = beta_symbol[i]
            if i < size:
                beta_symbol[i] = log_add(stay, beta_blank[i + 1])
            if i + 1 < size and target[i] != target[i + 1]:
                beta_symbol[i] = log_add(beta_symbol[i], beta_symbol[i + 1])
            beta_blank[i] = log_add(beta_blank[i], stay)


@jit
def log_sum_exp(row: Floats) -> float:
    highest = -math.inf
    for value in row:
        highest = max(highest, float(value))
    total = 0.0
    for value in row:
        total += math.exp(float(value) - highest)
    return highest + math.log(total)


@jit
def log_add(x: float, y: float) -> float:
    if x < y:
        x, y = y, x
    if y == -math.inf:
        return x
    return x + math.log1p(math.exp(y - x))
