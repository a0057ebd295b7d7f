"""Connectionist temporal classification (Graves et al. 2006): forward-backward, and the most probable path.

A target of S symbols is a chain of 2 S + 1 states: its symbols, and blanks between and around them. Rows hold the
states of one frame: S + 1 blanks; S symbols behind a place that stays zero, so that each finds the one before it.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqloom.kernels.compiled import compiled, compiled_sums
from seqloom.kernels.ctc_logarithms import logarithmic

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
    blanks, symbols = np.empty((frames + 1, size + 1)), np.empty((frames + 1, size + 1))
    emitted = np.empty((frames, size + 1))  # of the symbols, then of the blank
    loss, least = forward(gradient, target, blank, step, skip, blanks, symbols, emitted)
    if not loss > -math.inf:
        return -1.0 if loss == -math.inf else loss
    share = backward(gradient, target, blank, step, skip, blanks[1:], symbols[1:], emitted, least)
    return -1.0 if share < 0 else max(0.0, loss - math.log(share))


@compiled
def forward(
    gradient: Floats,  # (T, V)
    target: Numbers,
    blank: int,
    step: float,
    skip: Floats,  # (S + 1,), the weight of the step from the symbol before, over the blank between
    blanks: Floats,  # (T + 1, S + 1), written, as the next two: before the first frame, and after each
    symbols: Floats,  # (T + 1, S + 1)
    emitted: Floats,  # (T, S + 1)
) -> tuple[float, float]:
    """Minus the logarithm of all scales, -inf where nothing is left; and the share that the directions have to have."""
    frames, size = len(gradient), len(target)
    blanks[0], symbols[0], symbols[:, 0] = 0.0, 0.0, 0.0
    blanks[0, 0] = 1.0
    loss, total, lowest = 2 * size * math.log(step), 1.0, 1.0
    for t in range(frames):
        scale = 1 / total
        lowest = min(lowest, emit(gradient[t], target, blank, scale, emitted[t]) * total)
        total = reach_blanks(blanks[t], symbols[t], emitted[t, size], step, blanks[t + 1])
        total += reach_symbols(blanks[t], symbols[t], emitted[t], step, skip, symbols[t + 1])
        if math.isnan(total):
            return math.nan, 0.0
        if total < SMALLEST:
            return -math.inf, 0.0
        if t < frames - 1:
            loss -= math.log(total)
    return loss, SMALL if lowest < TINY and gradient.itemsize == 4 else SMALLEST


@compiled_sums
def emit(row: Floats, target: Numbers, blank: int, scale: float, emitted: Floats) -> float:
    """What a frame gives to each symbol of the target, and to the blank behind them; returns the lowest."""
    size = len(target)
    for i in range(size):
        emitted[i] = row[target[i]] * scale
    emitted[size] = row[blank] * scale
    lowest: float = emitted[size]
    for i in range(size):
        lowest = min(lowest, emitted[i])
    return lowest


# Each loop is a function of its own: with fewer arrays the compiler finds out that they do not overlap.


@compiled_sums
def reach_blanks(before: Floats, above: Floats, of_blank: float, step: float, here: Floats) -> float:
    total = 0.0
    for i in range(len(here)):
        here[i] = (before[i] + step * above[i]) * of_blank
        total += here[i]
    return total


@compiled_sums
def reach_symbols(before: Floats, above: Floats, emitted: Floats, step: float, skip: Floats, there: Floats) -> float:
    total = 0.0
    for i in range(len(emitted) - 1):
        there[i + 1] = (above[i + 1] + step * before[i] + skip[i] * above[i]) * emitted[i]
        total += there[i + 1]
    return total


@compiled
def backward(
    gradient: Floats,  # (T, V), changed
    target: Numbers,
    blank: int,
    step: float,
    skip: Floats,
    blanks: Floats,  # (T, S + 1)
    symbols: Floats,  # (T, S + 1), changed
    emitted: Floats,  # (T, S + 1)
    least: float,
) -> float:
    """What is at the end after the last frame; -1 if at some frame the two directions share too little."""
    frames, size = len(gradient), len(target)
    blank_on, symbol_on = np.zeros(size + 1), np.zeros(size + 1)  # what comes behind a state
    blank_back, symbol_back = np.zeros(size + 1), np.zeros(size + 1)  # with what the state itself emits
    blank_on[size] = 1.0
    if size:
        symbol_on[size - 1] = step
    end: float = blanks[frames - 1] @ blank_on + (symbols[frames - 1, size] * step if size else 0.0)
    for t in range(frames - 1, -1, -1):
        of_blanks, total = meet(blanks[t], blank_on, emitted[t, size], blank_back)
        share, more = meet_symbols(symbols[t], symbol_on, emitted[t], symbol_back)
        share, total = share + of_blanks, total + more
        if not share >= least or not total >= SMALLEST:
            return -1.0
        row, scale = gradient[t], 1 / share
        row[blank] -= of_blanks * scale
        for i in range(size):
            row[target[i]] -= symbols[t, i + 1] * scale
        leave_blanks(blank_back, symbol_back, 1 / total, step, blank_on)
        leave_symbols(blank_back, symbol_back, 1 / total, step, skip, symbol_on)
    return end


@compiled_sums
def meet(here: Floats, on: Floats, of_blank: float, back: Floats) -> tuple[float, float]:
    share, total = 0.0, 0.0
    for i in range(len(here)):
        share += here[i] * on[i]
        back[i] = on[i] * of_blank
        total += back[i]
    return share, total


@compiled_sums
def meet_symbols(there: Floats, on: Floats, emitted: Floats, back: Floats) -> tuple[float, float]:
    share, total = 0.0, 0.0
    for i in range(len(emitted) - 1):
        there[i + 1] *= on[i]
        share += there[i + 1]
        back[i] = on[i] * emitted[i]
        total += back[i]
    return share, total


@compiled_sums
def leave_blanks(blank_back: Floats, symbol_back: Floats, scale: float, step: float, on: Floats) -> None:
    for i in range(len(on)):
        on[i] = (blank_back[i] + step * symbol_back[i]) * scale


@compiled_sums
def leave_symbols(blank_back: Floats, symbol_back: Floats, scale: float, step: float, skip: Floats, on: Floats) -> None:
    for i in range(len(on) - 1):
        on[i] = (symbol_back[i] + step * blank_back[i + 1] + skip[i + 1] * symbol_back[i + 1]) * scale


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
            emitted = float(log_probabilities[t, symbol])
            if not emitted > FLOOR:  # NaN is not
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
