"""CTC loss (Graves et al. 2006) of one sequence, with its gradient. ``naive`` is the readable reference.

The products of probabilities in ``scaled`` are fast. Where they underflow, the loss is computed again in log space,
which is slower, and exact for any logits.
"""

import math
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from seqloom.kernels.ctc.scaled import UNDERFLOWS, scaled_loss, scaled_value, workspace_size
from seqloom.kernels.ctc.viterbi import frames_needed
from seqloom.kernels.runtime.buffers import borrow
from seqloom.kernels.runtime.numba_jit import jit

Floats = NDArray[np.floating[Any]]
Integers = NDArray[np.int64]
NEGLIGIBLE = 45.0
"""exp(-45) is no part of a float64 beside 1."""
FLOAT64 = torch.empty(0, dtype=torch.float64)


def loss(
    logits: Floats,  # (T, V)
    gradient: Floats,  # (T, V) the softmax of the logits; replaced by the gradient for the logits
    target: Integers,  # (S,) without blanks
    blank: int,
) -> float:
    """−log p(target); inf where there are too few frames for the target."""
    frames = len(logits)
    if frames < frames_needed(target):
        gradient[:] = 0
        return math.inf
    if not frames:
        return 0.0
    result = -1.0
    with borrow(workspace_size(frames, len(target)), FLOAT64) as workspace:
        for underflow in UNDERFLOWS:
            if result < 0:
                result = scaled_loss(gradient, target, blank, underflow, workspace.numpy())
    if result < 0:
        result = log_space_loss(np.ascontiguousarray(logits), gradient, target, blank)
    if not math.isfinite(result):
        gradient[:] = math.nan if math.isnan(result) else 0
    return result


def loss_value(
    logits: Floats,  # (T, V)
    target: Integers,  # (S,) without blanks
    blank: int,
    probabilities: NDArray[np.float64] | None = None,  # the softmax of the logits, with which it is faster
) -> float:
    """The same as ``loss`` without the gradient: memory for a few frames only, for long recordings."""
    if len(logits) < frames_needed(target):
        return math.inf
    if probabilities is not None:
        result = float(scaled_value(probabilities, target, blank))
        if not result < 0:
            return result
    return float(log_space_value(np.ascontiguousarray(logits), target, blank))


@jit
def log_space_value(logits: Floats, target: Integers, blank: int) -> float:  # (T, V), (S,)
    """−log p(target); inf where every path needs a logit of -inf."""
    frames, size = logits.shape[0], len(target)
    alpha_blank, alpha_token = np.full(size + 1, -np.inf), np.full(size + 1, -np.inf)
    alpha_blank[0] = 0.0
    for t in range(frames):
        normalizer = log_sum_exp(logits[t])
        if math.isnan(normalizer):
            return math.nan
        blank_score = logits[t, blank] - normalizer
        for i in range(min(size, t + 1), -1, -1):  # descending: earlier states are still those of the frame before
            alpha_blank[i] = log_add(alpha_blank[i], alpha_token[i]) + blank_score
            if i:
                arriving = log_add(alpha_token[i], alpha_blank[i - 1])
                if i > 1 and target[i - 1] != target[i - 2]:
                    arriving = log_add(arriving, alpha_token[i - 1])
                alpha_token[i] = arriving + (logits[t, target[i - 1]] - normalizer)
    total: float = log_add(alpha_blank[size], alpha_token[size])
    return -total


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
    # α: log p of the paths after t frames that end in the blank after i tokens, or in the i-th token
    alpha_blank, alpha_token = np.full((frames + 1, size + 1), -np.inf), np.full((frames + 1, size + 1), -np.inf)
    alpha_blank[0, 0] = 0.0
    for t in range(frames):
        for i in range(size + 1):
            arriving = log_add(alpha_blank[t, i], alpha_token[t, i])
            alpha_blank[t + 1, i] = arriving + (logits[t, blank] - normalizers[t])
        for i in range(size):
            arriving = log_add(alpha_token[t, i + 1], alpha_blank[t, i])
            if i and target[i] != target[i - 1]:
                arriving = log_add(arriving, alpha_token[t, i])
            alpha_token[t + 1, i + 1] = arriving + (logits[t, target[i]] - normalizers[t])
    total: float = log_add(alpha_blank[frames, size], alpha_token[frames, size])
    if total == -np.inf:
        return math.inf
    log_space_gradient(logits, gradient, target, blank, normalizers, alpha_blank[1:] - total, alpha_token[1:] - total)
    return -total


@jit
def log_space_gradient(
    logits: Floats,
    gradient: Floats,  # (T, V) written
    target: Integers,
    blank: int,
    normalizers: Floats,  # (T,)
    alpha_blank: Floats,  # (T, S + 1) relative to log p(target)
    alpha_token: Floats,  # (T, S + 1)
) -> None:
    """Softmax minus posterior; β is kept for one frame only."""
    size = len(target)
    beta_blank, beta_token = np.full(size + 2, -np.inf), np.full(size + 2, -np.inf)
    beta_blank[size] = 0.0
    if size:
        beta_token[size - 1] = 0.0
    for t in range(len(logits) - 1, -1, -1):
        for v in range(logits.shape[1]):
            gradient[t, v] = math.exp(logits[t, v] - normalizers[t])
        blank_posterior = 0.0
        for i in range(size + 1):
            blank_posterior += math.exp(alpha_blank[t, i] + beta_blank[i])
            beta_blank[i] += logits[t, blank] - normalizers[t]
        gradient[t, blank] -= blank_posterior
        for i in range(size):
            gradient[t, target[i]] -= math.exp(alpha_token[t, i + 1] + beta_token[i])
            beta_token[i] += logits[t, target[i]] - normalizers[t]
        for i in range(size + 1):  # ascending: later states are still those of the next frame
            stay = beta_token[i]
            if i < size:
                beta_token[i] = log_add(stay, beta_blank[i + 1])
            if i + 1 < size and target[i] != target[i + 1]:
                beta_token[i] = log_add(beta_token[i], beta_token[i + 1])
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
    if y < x - NEGLIGIBLE or y == -math.inf:
        return x
    return x + math.log1p(math.exp(y - x))
