"""Connectionist temporal classification (Graves et al. 2006): the loss and its gradient, and the most probable path."""

import math
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from seqloom.kernels.buffers import borrow
from seqloom.kernels.compiled import compiled, compiled_sums
from seqloom.kernels.ctc_logarithms import logarithmic
from seqloom.kernels.ctc_products import DROPPED, memory_needed, scaled

Floats = NDArray[np.floating[Any]]
Numbers = NDArray[np.int64]
Bytes = NDArray[np.uint8]
DOUBLE, BYTE = torch.empty(0, dtype=torch.float64), torch.empty(0, dtype=torch.uint8)

FLOOR = -1e30
"""What -inf and NaN count on a path: every target that fits into the frames has a most probable one."""


def loss(logits: Floats, gradient: Floats, target: Numbers, blank: int) -> float:
    """Minus the log-likelihood; inf where there is no path. Where ``gradient`` held the softmax, it is one then."""
    frames = len(logits)
    if frames < frames_needed(target):
        gradient[:] = 0
        return math.inf
    if not frames:
        return 0.0
    found = -1.0
    with borrow(memory_needed(frames, len(target)), DOUBLE) as memory:
        for dropped in DROPPED:
            if found < 0:
                found = scaled(gradient, target, blank, dropped, memory.numpy())
    if found < 0:
        found = logarithmic(np.ascontiguousarray(logits), gradient, target, blank)
    if not math.isfinite(found):
        gradient[:] = math.nan if math.isnan(found) else 0
    return found


def frames_needed(target: Numbers) -> int:
    """Without a blank between them, equal neighbours would be one symbol."""
    return len(target) + int(np.count_nonzero(target[1:] == target[:-1]))


def viterbi(
    log_probabilities: Floats,  # (T, V), float32 or float64
    target: Numbers,  # (S,), without blanks
    blank: int,
) -> Numbers:  # (S, 2)
    """The first and the last frame of each symbol on the most probable path."""
    needed = frames_needed(target)
    if len(log_probabilities) < needed:
        raise ValueError(
            f"an alignment of these {len(target)} symbols needs {needed} frames, not {len(log_probabilities)}"
        )
    if not len(target):
        return np.zeros((0, 2), np.int64)
    table, symbols = np.ascontiguousarray(log_probabilities), np.ascontiguousarray(target, np.int64)
    with borrow(len(table) * (2 * len(symbols) + 2), BYTE) as memory:
        found: Numbers = best_path(table, symbols, blank, memory.numpy())
    return found


@compiled
def best_path(log_probabilities: Floats, target: Numbers, blank: int, memory: Bytes) -> Numbers:
    """Rows as in ``ctc_products``, in logarithms; ``memory`` has room for how each state was reached."""
    frames, size = log_probabilities.shape[0], len(target)
    steps = memory[: 2 * frames * (size + 1)].reshape(frames, 2, size + 1)
    skip = np.full(size, -np.inf)
    for i in range(1, size):
        if target[i] != target[i - 1]:
            skip[i] = 0.0
    blanks, symbols = np.full((2, size + 1), -np.inf), np.full((2, size + 1), -np.inf)
    blanks[1, 0] = 0.0
    emitted = np.empty(size + 1)
    for t in range(frames):
        emit_floored(log_probabilities[t], target, blank, emitted)
        before, above, here, there = blanks[1 - t % 2], symbols[1 - t % 2], blanks[t % 2], symbols[t % 2]
        better_blanks(before, above, emitted[size], here, steps[t, 0])
        better_symbols(before, above, emitted, skip, there, steps[t, 1])
    last = (frames - 1) % 2
    spans = np.empty((size, 2), np.int64)
    place, on_symbol, fresh = size, symbols[last, size] >= blanks[last, size], True
    for t in range(frames - 1, -1, -1):
        if on_symbol:
            if fresh:
                spans[place - 1, 1] = t
            spans[place - 1, 0] = t
        step = steps[t, 1 if on_symbol else 0, place]
        fresh = step > 0
        if step == 2 or (on_symbol and step == 1):
            place -= 1
        if step == 1:
            on_symbol = not on_symbol
    return spans


@compiled_sums
def emit_floored(row: Floats, target: Numbers, blank: int, emitted: Floats) -> None:
    size = len(target)
    for i in range(size):
        emitted[i] = row[target[i]]
    emitted[size] = row[blank]
    for i in range(size + 1):
        emitted[i] = max(FLOOR, emitted[i])  # in this order it is FLOOR for NaN


@compiled_sums
def better_blanks(before: Floats, above: Floats, of_blank: float, here: Floats, steps: Bytes) -> None:
    for i in range(len(here)):
        stay, come = before[i], above[i]
        here[i] = max(stay, come) + of_blank
        steps[i] = 1 if come > stay else 0


@compiled_sums
def better_symbols(before: Floats, above: Floats, emitted: Floats, skip: Floats, there: Floats, steps: Bytes) -> None:
    for i in range(len(skip)):
        stay, come, jump = above[i + 1], before[i], above[i] + skip[i]
        best = max(stay, come)
        step = 1 if come > stay else 0
        there[i + 1] = max(best, jump) + emitted[i]
        steps[i + 1] = 2 if jump > best else step
