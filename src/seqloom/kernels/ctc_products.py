"""Connectionist temporal classification by products of probabilities that are scaled at each frame.

A target of S symbols is a chain of 2 S + 1 states: its symbols, and blanks between and around them. Rows hold the
states of one frame: S + 1 blanks; S symbols behind a place that stays zero, so that each finds the one before it.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqloom.kernels.compiled import compiled, compiled_sums

Floats = NDArray[np.floating[Any]]
Numbers = NDArray[np.int64]

DROPPED = (1e-140, 1e-300)
"""What counts as nothing, in the quick way and in the exact one: products of less are slow, as they underflow."""
SAFETY = 1e20
"""Where the two directions share less than this times what is dropped at a frame, what was dropped might count."""
TINY, SMALL = 1.2e-38, 1e-28
"""The same for probabilities in float32: those below the first are not exact, nor are shares below the second then."""
STEEPEST = 1e5


@compiled
def scaled(
    gradient: Floats,  # (T, V), probabilities; the gradient toward the logits afterwards, if a loss is returned
    target: Numbers,  # (S,)
    blank: int,
    dropped: float,
    memory: Floats,  # at least ``memory_needed``
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
    length = (frames + 1) * (size + 2)
    blanks = memory[:length].reshape(frames + 1, size + 2)
    symbols = memory[length : 2 * length].reshape(frames + 1, size + 2)
    emitted = memory[2 * length : 3 * length].reshape(frames + 1, size + 2)[:frames]
    bands, shares = np.empty((frames, 2), np.int64), np.empty(frames)
    loss, lowest = forward(gradient, target, blank, step, skip, dropped, blanks, symbols, emitted, bands)
    if not loss > -math.inf:
        return -1.0 if loss == -math.inf else loss
    least = SMALL if lowest < TINY and gradient.itemsize == 4 else dropped * SAFETY
    if not backward(step, skip, dropped, least, blanks[1:], symbols[1:], emitted, bands, shares):
        return -1.0
    for t in range(frames):
        row, there, scale = gradient[t], symbols[t + 1], 1 / shares[t]
        row[blank] -= emitted[t, size] * scale
        for i in range(bands[t, 0], bands[t, 1]):
            row[target[i - 1]] -= there[i] * scale
    found: float = loss - math.log(shares[frames - 1])
    return max(0.0, found)


def memory_needed(frames: int, size: int) -> int:
    return 3 * (frames + 1) * (size + 2)


@compiled
def forward(
    gradient: Floats,  # (T, V)
    target: Numbers,
    blank: int,
    step: float,
    skip: Floats,  # (S + 1,), the weight of the step from the symbol before, over the blank between
    dropped: float,
    blanks: Floats,  # (T + 1, S + 2), written, as the next two: before the first frame, and after each
    symbols: Floats,  # (T + 1, S + 2)
    emitted: Floats,  # (T, S + 2), written: for each symbol, then for the blank
    bands: Numbers,  # (T, 2), written: from which place to which there is something
) -> tuple[float, float]:
    """Minus the logarithm of all scales, -inf where nothing is left; and the lowest probability of a symbol."""
    frames, size = len(gradient), len(target)
    loss, total, lowest = 2 * size * math.log(step), 1.0, 1.0
    blanks[0, :2], symbols[0, :2] = 0.0, 0.0
    blanks[0, 0] = 1.0
    low, high = 0, 1
    for t in range(frames):
        low, high = max(low, size + 1 - frames + t), min(high + 1, size + 1)  # or the end cannot be reached
        first = max(low, 1)
        lowest = min(lowest, emit(gradient[t], target, blank, 1 / total, emitted[t]) * total)
        before, above, here, there = blanks[t], symbols[t], blanks[t + 1], symbols[t + 1]
        of_blank, of_symbols = emitted[t, size], emitted[t, first - 1 : high - 1]
        here[max(low - 1, 0)], there[max(low - 1, 0)] = 0.0, 0.0
        here[high], there[high] = 0.0, 0.0
        total = reach_blanks(before[low:high], above[low:high], of_blank, step, dropped, here[low:high])
        before, above, skips = before[first - 1 : high - 1], above[first - 1 : high], skip[first - 1 : high - 1]
        total += reach_symbols(before, above, of_symbols, step, skips, dropped, there[first:high])
        if not total > 0:
            return (math.nan if math.isnan(total) else -math.inf), 0.0
        low, high = trim(here, there, low, high)
        bands[t, 0], bands[t, 1] = low, high
        if t < frames - 1:
            loss -= math.log(total)
    return loss, lowest


@compiled
def trim(blanks: Floats, symbols: Floats, low: int, high: int) -> tuple[int, int]:
    """Without the places at both ends where there is nothing."""
    while high > low and blanks[high - 1] == 0 and symbols[high - 1] == 0:
        high -= 1
    while low < high and blanks[low] == 0 and symbols[low] == 0:
        low += 1
    return low, high


@compiled_sums
def emit(row: Floats, target: Numbers, blank: int, scale: float, emitted: Floats) -> float:
    """What a frame gives to each symbol, and to the blank; returns the lowest."""
    size = len(target)
    for i in range(size):
        emitted[i] = row[target[i]] * scale
    emitted[size] = row[blank] * scale
    lowest: float = emitted[size]
    for i in range(size):
        lowest = min(lowest, emitted[i])
    return lowest


# Each loop is a function of its own: with fewer arrays the compiler can see to it that they do not overlap.


@compiled_sums
def reach_blanks(before: Floats, above: Floats, of_blank: float, step: float, dropped: float, here: Floats) -> float:
    total = 0.0
    for i in range(len(here)):
        value = (before[i] + step * above[i]) * of_blank
        if value < dropped:
            value = 0.0
        here[i] = value
        total += value
    return total


@compiled_sums
def reach_symbols(
    before: Floats, above: Floats, emitted: Floats, step: float, skip: Floats, dropped: float, there: Floats
) -> float:
    total = 0.0
    for i in range(len(there)):
        value = (above[i + 1] + step * before[i] + skip[i] * above[i]) * emitted[i]
        if value < dropped:
            value = 0.0
        there[i] = value
        total += value
    return total


@compiled
def backward(
    step: float,
    skip: Floats,
    dropped: float,
    least: float,
    blanks: Floats,  # (T, S + 2)
    symbols: Floats,  # (T, S + 2); written: multiplied with what comes behind
    emitted: Floats,  # (T, S + 2); written: the same, summed over the blanks, stands at S
    bands: Numbers,  # (T, 2); written: of the symbols for which both directions have something
    shares: Floats,  # (T,), written: the sums of all states
) -> bool:
    """Whether the two directions share enough at every frame."""
    frames, size = len(bands), len(skip) - 1
    blank_on, symbol_on = np.zeros(size + 2), np.zeros(size + 2)  # what comes behind a state
    blank_back, symbol_back = np.zeros(size + 2), np.zeros(size + 2)  # with what the state itself emits
    blank_on[size], symbol_on[size] = 1.0, step if size else 0.0
    low, high, total = size, size + 1, 1.0
    for t in range(frames - 1, -1, -1):
        of_blank, first = emitted[t, size], max(low, 1)
        start, stop = max(low, bands[t, 0]), min(high, bands[t, 1])
        share = meet(blanks[t, start:stop], blank_on[start:stop])
        emitted[t, size] = share
        bands[t, 0], bands[t, 1] = max(start, 1), stop
        start = bands[t, 0]
        shares[t] = share + meet_symbols(symbols[t, start:stop], symbol_on[start:stop])
        if not shares[t] * min(1.0, total) >= least:
            return False
        total = give_blanks(blank_on[low:high], of_blank, dropped, blank_back[low:high])
        of_symbols = emitted[t, first - 1 : high - 1]
        total += give_symbols(symbol_on[first:high], of_symbols, dropped, symbol_back[first:high])
        if t == 0 or not total > 0:
            return t == 0
        blank_back[high], symbol_back[high] = 0.0, 0.0
        if low:
            low -= 1
            blank_back[low], symbol_back[low] = 0.0, 0.0
        high = min(high, t + 1)
        behind, after, first = blank_back[low:high], symbol_back[low : high + 1], max(low, 1)
        leave_blanks(behind, after, 1 / total, step, blank_on[low:high])
        behind, after = blank_back[first:high], symbol_back[first : high + 1]
        leave_symbols(behind, after, 1 / total, step, skip[first:high], symbol_on[first:high])
        low, high = trim(blank_on, symbol_on, low, high)
    return True


@compiled_sums
def meet(here: Floats, on: Floats) -> float:
    share = 0.0
    for i in range(len(here)):
        share += here[i] * on[i]
    return share


@compiled_sums
def meet_symbols(there: Floats, on: Floats) -> float:
    share = 0.0
    for i in range(len(there)):
        there[i] *= on[i]
        share += there[i]
    return share


@compiled_sums
def give_blanks(on: Floats, of_blank: float, dropped: float, back: Floats) -> float:
    total = 0.0
    for i in range(len(on)):
        value = on[i] * of_blank
        if value < dropped:
            value = 0.0
        back[i] = value
        total += value
    return total


@compiled_sums
def give_symbols(on: Floats, emitted: Floats, dropped: float, back: Floats) -> float:
    total = 0.0
    for i in range(len(on)):
        value = on[i] * emitted[i]
        if value < dropped:
            value = 0.0
        back[i] = value
        total += value
    return total


@compiled_sums
def leave_blanks(behind: Floats, after: Floats, scale: float, step: float, on: Floats) -> None:
    for i in range(len(on)):
        on[i] = (behind[i] + step * after[i + 1]) * scale


@compiled_sums
def leave_symbols(behind: Floats, after: Floats, scale: float, step: float, skip: Floats, on: Floats) -> None:
    for i in range(len(on)):
        on[i] = (after[i] + step * behind[i] + skip[i] * after[i + 1]) * scale


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
