"""Connectionist temporal classification (Graves et al. 2006): forward-backward, and the most probable path.

A target of S symbols is a chain of 2 S + 1 states: its symbols, and blanks between and around them. Rows hold the
states of one frame: S + 1 blanks; S symbols behind a place that stays zero, so that each finds the one before it.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqloom.kernels.compiled import compiled

Floats = NDArray[np.floating[Any]]
Numbers = NDArray[np.int64]

SMALLEST = 1e-280
"""Where the two directions share less than this at a frame, what fell below the range of float64 might count."""
TINY, SMALL = 1.2e-38, 1e-28
"""The same for probabilities in float32: those below the first are not exact, nor shares below the second then."""
STEEPEST = 1e5
FLOOR = -1e30
"""What -inf and NaN count on a path: every target that fits into the frames has a most probable one."""


@compiled
def scaled(
    gradient: Floats,  # (T, V), probabilities; the gradient toward the logits afterwards, if a loss is returned
    target: Numbers,  # (S,)
    blank: int,
) -> float:
    """Minus the log-likelihood, by products that are scaled at each frame; -1 where they may have lost something.

    Each step along the chain is multiplied by a constant. All paths take as many steps, so that it cancels, and the
    states that each direction finds likely are those near the diagonal even where all frames are alike.
    """
    frames, size = len(gradient), len(target)
    step = tilt(gradient, target, blank)
    skip = np.zeros(size + 1)
    for i in range(1, size):
        if target[i] != target[i - 1]:
            skip[i] = step * step
    blanks, symbols = np.zeros((frames, size + 1)), np.zeros((frames, size + 1))
    emitted = np.zeros(size + 1)

    loss, scale, low = 2 * size * math.log(step), 1.0, False
    for t in range(frames):
        row, of_blank = gradient[t], gradient[t, blank] * scale
        low |= row[blank] < TINY
        for i in range(size):
            low |= row[target[i]] < TINY
            emitted[i] = row[target[i]] * scale
        here, there = blanks[t], symbols[t]
        if t:
            before, above = blanks[t - 1], symbols[t - 1]
            for i in range(size + 1):
                here[i] = (before[i] + step * above[i]) * of_blank
            for i in range(size):
                there[i + 1] = (above[i + 1] + step * before[i] + skip[i] * above[i]) * emitted[i]
        else:
            here[0] = of_blank
            if size:
                there[1] = step * emitted[0]
        total = 0.0
        for i in range(size + 1):
            total += here[i] + there[i]
        if math.isnan(total):
            return math.nan
        if total < SMALLEST:
            return -1.0
        if t < frames - 1:
            scale = 1 / total
            loss -= math.log(total)

    least = SMALL if low and gradient.itemsize == 4 else SMALLEST
    after_blank, after_symbol = np.zeros(size + 2), np.zeros(size + 2)  # what a path from a state on will be
    new_blank, new_symbol = np.zeros(size + 2), np.zeros(size + 2)
    after_blank[size] = 1.0
    if size:
        after_symbol[size - 1] = step
    scale = 1.0
    for t in range(frames - 1, -1, -1):
        row, here, there = gradient[t], blanks[t], symbols[t]
        of_blank = row[blank] * scale
        share, total, in_blank = 0.0, 0.0, 0.0
        for i in range(size):
            emitted[i] = row[target[i]] * scale
        for i in range(size + 1):
            in_blank += here[i] * after_blank[i]
            after_blank[i] *= of_blank
            total += after_blank[i]
        for i in range(size):
            there[i + 1] *= after_symbol[i]
            share += there[i + 1]
            after_symbol[i] *= emitted[i]
            total += after_symbol[i]
        share += in_blank
        if not share >= least or t and not total >= SMALLEST:
            return -1.0
        if t == frames - 1:
            loss -= math.log(share)
        scale = 1 / total
        row[blank] -= in_blank / share
        for i in range(size):
            row[target[i]] -= there[i + 1] / share
        for i in range(size + 1):
            new_blank[i] = after_blank[i] + step * after_symbol[i]
        for i in range(size):
            new_symbol[i] = after_symbol[i] + step * after_blank[i + 1] + skip[i + 1] * after_symbol[i + 1]
        after_blank, new_blank = new_blank, after_blank
        after_symbol, new_symbol = new_symbol, after_symbol
    return loss


@compiled
def tilt(probabilities: Floats, target: Numbers, blank: int) -> float:
    """The weight of a step that makes the middle of the chain likely in the middle of the frames.

    With blanks of probability b and symbols of l in all frames, paths of weight x for a step grow by the larger root of
    r² - (b + l + l x²) r + b l, and take d log r / d log x = 2 l x² / √((b + l + l x²)² - 4 b l) steps a frame.
    """
    frames, size = len(probabilities), len(target)
    if not size:
        return 1.0
    b, l = 0.0, 0.0  # noqa: E741
    for t in range(frames):
        b += probabilities[t, blank] / frames
        l += probabilities[t, target[t * size // frames]] / frames  # noqa: E741
    steps = min(2 * size / frames, 1.99) ** 2
    u = (steps * (b + l) + math.sqrt(steps * steps * (b + l) ** 2 + (4 - steps) * steps * (b - l) ** 2)) / (4 - steps)
    x = math.sqrt(u / l) if l > 0 else STEEPEST
    return min(max(x, 1 / STEEPEST), STEEPEST)


@compiled
def log_add(x: float, y: float) -> float:
    if x < y:
        x, y = y, x
    if y == -math.inf:
        return x
    return x + math.log1p(math.exp(y - x))


@compiled
def logarithmic(
    logits: Floats,  # (T, V)
    gradient: Floats,  # (T, V), written
    target: Numbers,  # (S,)
    blank: int,
) -> float:
    """The same as ``scaled``, slower, whatever the logits; inf where a path would need a logit of -inf."""
    frames, size = logits.shape[0], len(target)
    blanks, symbols = np.full((frames, size + 1), -np.inf), np.full((frames, size + 1), -np.inf)
    sums = np.empty(frames)
    for t in range(frames):
        highest = -np.inf
        for v in range(logits.shape[1]):
            highest = max(highest, np.float64(logits[t, v]))
        total = 0.0
        for v in range(logits.shape[1]):
            total += math.exp(logits[t, v] - highest)
        sums[t] = highest + math.log(total)
        if math.isnan(sums[t]):
            return math.nan
        of_blank = logits[t, blank] - sums[t]
        for i in range(size + 1):
            if t:
                blanks[t, i] = log_add(blanks[t - 1, i], symbols[t - 1, i]) + of_blank
            elif i == 0:
                blanks[t, i] = of_blank
        for i in range(size):
            of_symbol = logits[t, target[i]] - sums[t]
            if t:
                reached = log_add(symbols[t - 1, i + 1], blanks[t - 1, i])
                if i and target[i] != target[i - 1]:
                    reached = log_add(reached, symbols[t - 1, i])
                symbols[t, i + 1] = reached + of_symbol
            elif i == 0:
                symbols[t, 1] = of_symbol
    likelihood = log_add(blanks[frames - 1, size], symbols[frames - 1, size])
    if likelihood == -np.inf:
        return math.inf

    after_blank, after_symbol = np.full(size + 2, -np.inf), np.full(size + 2, -np.inf)
    after_blank[size] = 0.0
    if size:
        after_symbol[size - 1] = 0.0
    for t in range(frames - 1, -1, -1):
        for v in range(logits.shape[1]):
            gradient[t, v] = math.exp(logits[t, v] - sums[t])
        in_blank = 0.0
        for i in range(size + 1):
            in_blank += math.exp(blanks[t, i] + after_blank[i] - likelihood)
            after_blank[i] += logits[t, blank] - sums[t]
        gradient[t, blank] -= in_blank
        for i in range(size):
            gradient[t, target[i]] -= math.exp(symbols[t, i + 1] + after_symbol[i] - likelihood)
            after_symbol[i] += logits[t, target[i]] - sums[t]
        for i in range(size + 1):  # upwards: what is behind a state is still that of the frame behind
            stay, go = after_symbol[i], log_add(after_blank[i], after_symbol[i])
            after_symbol[i] = log_add(stay, after_blank[i + 1])
            if i + 1 < size and target[i] != target[i + 1]:
                after_symbol[i] = log_add(after_symbol[i], after_symbol[i + 1])
            after_blank[i] = go
        after_symbol[size] = -np.inf
    return -likelihood


def loss(logits: Floats, gradient: Floats, target: Numbers, blank: int) -> float:
    """Minus the log-likelihood; inf where there is no path. Where ``gradient`` held the softmax, it is one then."""
    frames = len(logits)
    if frames < frames_needed(target):
        gradient[:] = 0
        return math.inf
    if not frames:
        return 0.0
    found: float = scaled(gradient, target, blank)
    if found < 0:
        found = logarithmic(logits, gradient, target, blank)
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
    found: Numbers = best_path(np.ascontiguousarray(log_probabilities), np.ascontiguousarray(target, np.int64), blank)
    return found


@compiled
def best_path(log_probabilities: Floats, target: Numbers, blank: int) -> Numbers:
    frames, size = log_probabilities.shape[0], len(target)
    states = 2 * size + 1
    back = np.zeros((frames, states), np.uint8)
    score, new = np.full(states, -np.inf), np.full(states, -np.inf)
    for t in range(frames):
        # A state that is not reached yet, or from which the end cannot be reached any more, is left out.
        for s in range(max(0, states - 2 * (frames - t)), min(states, 2 * t + 2)):
            symbol = target[s // 2] if s % 2 else blank
            emitted = np.float64(log_probabilities[t, symbol])
            if not emitted > FLOOR:
                emitted = FLOOR
            best, step = score[s], 0
            if t == 0:
                best = 0.0
            elif s:
                if score[s - 1] > best:
                    best, step = score[s - 1], 1
                if s % 2 and s > 1 and symbol != target[s // 2 - 1] and score[s - 2] > best:
                    best, step = score[s - 2], 2
            new[s], back[t, s] = best + emitted, step
        score, new = new, score
    spans = np.empty((size, 2), np.int64)
    s = states - 1 if score[states - 1] > score[states - 2] else states - 2
    last = -1
    for t in range(frames - 1, -1, -1):
        if s % 2:
            if s != last:
                spans[s // 2, 1] = t
            spans[s // 2, 0] = t
        last = s
        s -= back[t, s]
    return spans
