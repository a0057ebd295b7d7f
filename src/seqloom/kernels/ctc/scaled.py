"""CTC loss and gradient by products of probabilities, rescaled in each frame: the fast path of ``loss``.

A target of S tokens is a chain of 2 S + 1 states: its tokens, with blanks between and around them. A row of a table
holds the states of one frame: column i of ``…_blank`` is the blank after i tokens, column i of ``…_token`` the i-th
token (column 0 stays zero). α are forward probabilities, β backward ones without the emission of their own frame.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqloom.kernels.runtime.numba_jit import jit, jit_fastmath, jit_inline

Floats = NDArray[np.floating[Any]]
Integers = NDArray[np.int64]

UNDERFLOWS = (1e-140, 1e-300)
"""Products below this count as 0, in the first and in the second attempt: arithmetic on denormal numbers is slow."""
SAFETY = 1e20
"""Σ αβ of a frame must exceed the underflow by this factor; otherwise the products that became 0 might matter."""
FLOAT32_TINY, FLOAT32_SUM = 1.2e-38, 1e-28
"""Float32 probabilities below the first are inexact; Σ αβ must then exceed the second."""
MAX_STEP_WEIGHT = 1e5


@jit
def scaled_loss(
    gradient: Floats,  # (T, V) the softmax; replaced by the gradient for the logits if a loss is returned
    target: Integers,  # (S,)
    blank: int,
    underflow: float,
    workspace: Floats,  # at min_sum ``workspace_size`` elements
) -> float:
    """−log p(target), or -1 if too much may have been lost to underflow; ``gradient`` is untouched then.

    Each step along the chain is weighted by a constant. All paths take equally many steps, so the weight cancels; it
    keeps α and β concentrated near the diagonal, where they overlap, even if all frames are alike.
    """
    frames, size = len(gradient), len(target)
    step = balanced_step_weight(gradient, target, blank)
    skip = np.zeros(size + 1)
    for i in range(1, size):
        if target[i] != target[i - 1]:
            skip[i] = step * step
    length = (frames + 1) * (size + 2)
    alpha_blank = workspace[:length].reshape(frames + 1, size + 2)
    alpha_token = workspace[length : 2 * length].reshape(frames + 1, size + 2)
    emitted = workspace[2 * length : 3 * length].reshape(frames + 1, size + 2)[:frames]
    bands, sums = np.empty((frames, 2), np.int64), np.empty(frames)
    loss, lowest = forward(gradient, target, blank, step, skip, underflow, alpha_blank, alpha_token, emitted, bands)
    if not loss > -math.inf:
        return -1.0 if loss == -math.inf else loss
    min_sum = FLOAT32_SUM if lowest < FLOAT32_TINY and gradient.itemsize == 4 else underflow * SAFETY
    if not backward(step, skip, underflow, min_sum, alpha_blank[1:], alpha_token[1:], emitted, bands, sums):
        return -1.0
    for t in range(frames):
        row, posterior, scale = gradient[t], alpha_token[t + 1], 1 / sums[t]
        row[blank] -= emitted[t, size] * scale
        for i in range(bands[t, 0], bands[t, 1]):
            row[target[i - 1]] -= posterior[i] * scale
    result: float = loss - math.log(sums[frames - 1])
    return max(0.0, result)


@jit
def scaled_value(probabilities: Floats, target: Integers, blank: int) -> float:  # (T, V) in double precision, (S,)
    """−log p(target) without the gradient, or -1 if too much may have been lost to underflow; memory for two frames.

    Steps have no weights. What was lost in a frame is thus at most the underflow, in the scale of the frame, times the
    highest probability that the target and the blank have in each later frame.
    """
    frames, size, underflow = len(probabilities), len(target), UNDERFLOWS[1]
    skip = np.zeros(size + 1)
    for i in range(1, size):
        if target[i] != target[i - 1]:
            skip[i] = 1.0
    blanks, tokens, emitted = np.zeros((2, size + 2)), np.zeros((2, size + 2)), np.empty(size + 1)
    blanks[0, 0] = 1.0
    low, high, total, ended = 0, 1, 1.0, 1.0
    # Logarithms: of the scale of the frame, of the later ones (negative), of their product.
    scale, highest, lost = 0.0, 0.0, -math.inf
    for t in range(frames):
        old_blank, old_token, new_blank, new_token = blanks[t % 2], tokens[t % 2], blanks[1 - t % 2], tokens[1 - t % 2]
        low, high = max(low, size + 1 - frames + t), min(high + 1, size + 1)  # states that can still reach the end
        emit(probabilities[t], target, blank, 1 / total, emitted)
        scale += math.log(total)
        highest -= math.log(max(emitted.max() * total, underflow))
        lost = max(lost, scale + highest)
        total = forward_frame(old_blank, old_token, emitted, 1.0, skip, underflow, low, high, new_blank, new_token)
        if not total > 0:
            return math.nan if math.isnan(total) else -1.0
        low, high = trim_band(new_blank, new_token, low, high)
        ended = new_blank[size] + new_token[size] if high > size else 0.0
    if not ended > 0:
        return -1.0
    result = scale + math.log(ended)
    return max(0.0, -result) if result - (lost - highest) > math.log(underflow * SAFETY) else -1.0


def workspace_size(frames: int, size: int) -> int:
    """Elements of scratch memory for a target of ``size`` tokens."""
    return 3 * (frames + 1) * (size + 2)


@jit
def forward(
    probabilities: Floats,  # (T, V)
    target: Integers,  # (S,)
    blank: int,
    step: float,
    skip: Floats,  # (S + 1,) weight of the step from the token before, over the blank between them
    underflow: float,
    alpha_blank: Floats,  # (T + 1, S + 2) written: before the first frame, and after each frame
    alpha_token: Floats,  # (T + 1, S + 2) written
    emitted: Floats,  # (T, S + 2) written: scaled probability of each token of the target, then of the blank
    bands: Integers,  # (T, 2) written: the columns [low, high) that are not zero
) -> tuple[float, float]:
    """Minus the sum of the logarithms of all scales, -inf where no path is left; the lowest probability seen."""
    frames, size = len(probabilities), len(target)
    loss, total, lowest = 2 * size * math.log(step), 1.0, 1.0
    alpha_blank[0, :2], alpha_token[0, :2] = 0.0, 0.0
    alpha_blank[0, 0] = 1.0
    low, high = 0, 1
    for t in range(frames):
        low, high = max(low, size + 1 - frames + t), min(high + 1, size + 1)  # states that can still reach the end
        lowest = min(lowest, emit(probabilities[t], target, blank, 1 / total, emitted[t]) * total)
        total = forward_frame(
            alpha_blank[t],
            alpha_token[t],
            emitted[t],
            step,
            skip,
            underflow,
            low,
            high,
            alpha_blank[t + 1],
            alpha_token[t + 1],
        )
        if not total > 0:
            return (math.nan if math.isnan(total) else -math.inf), 0.0
        low, high = trim_band(alpha_blank[t + 1], alpha_token[t + 1], low, high)
        bands[t, 0], bands[t, 1] = low, high
        if t < frames - 1:
            loss -= math.log(total)
    return loss, lowest


@jit_inline
def forward_frame(
    old_blank: Floats,  # (S + 2,) α of the frame before
    old_token: Floats,  # (S + 2,)
    emitted: Floats,  # (S + 1,) or wider: as of ``emit``
    step: float,
    skip: Floats,  # (S + 1,)
    underflow: float,
    low: int,
    high: int,  # columns [low, high) that are written, those beside them become zero
    new_blank: Floats,  # (S + 2,) written
    new_token: Floats,  # (S + 2,) written
) -> float:
    """α of one frame; returns its sum."""
    first, before = max(low, 1), max(low - 1, 0)
    new_blank[before], new_token[before] = 0.0, 0.0
    new_blank[high], new_token[high] = 0.0, 0.0
    total: float = forward_blanks(
        old_blank[low:high], old_token[low:high], emitted[len(skip) - 1], step, underflow, new_blank[low:high]
    )
    total += forward_tokens(
        old_blank[first - 1 : high - 1],
        old_token[first - 1 : high],
        emitted[first - 1 : high - 1],
        step,
        skip[first - 1 : high - 1],
        underflow,
        new_token[first:high],
    )
    return total


@jit
def trim_band(blanks: Floats, tokens: Floats, low: int, high: int) -> tuple[int, int]:
    """The band without columns at both ends that are zero."""
    while high > low and blanks[high - 1] == 0 and tokens[high - 1] == 0:
        high -= 1
    while low < high and blanks[low] == 0 and tokens[low] == 0:
        low += 1
    return low, high


@jit_fastmath
def emit(row: Floats, target: Integers, blank: int, scale: float, emitted: Floats) -> float:
    """Scaled probabilities of the target's tokens, then of the blank; returns the lowest."""
    size = len(target)
    for i in range(size):
        emitted[i] = row[target[i]] * scale
    emitted[size] = row[blank] * scale
    lowest: float = emitted[size]
    for i in range(size):
        lowest = min(lowest, emitted[i])
    return lowest


# Each inner loop is a function of its own: with few arrays the compiler can check at run time that they do not
# overlap, and vectorise.


@jit_fastmath
def forward_blanks(
    blanks: Floats, tokens: Floats, emitted: float, step: float, underflow: float, result: Floats
) -> float:
    total = 0.0
    for i in range(len(result)):
        value = (blanks[i] + step * tokens[i]) * emitted
        if value < underflow:
            value = 0.0
        result[i] = value
        total += value
    return total


@jit_fastmath
def forward_tokens(
    blanks: Floats, tokens: Floats, emitted: Floats, step: float, skip: Floats, underflow: float, result: Floats
) -> float:
    total = 0.0
    for i in range(len(result)):
        value = (tokens[i + 1] + step * blanks[i] + skip[i] * tokens[i]) * emitted[i]
        if value < underflow:
            value = 0.0
        result[i] = value
        total += value
    return total


@jit
def backward(
    step: float,
    skip: Floats,  # (S + 1,)
    underflow: float,
    min_sum: float,  # smallest Σ αβ of a frame that is exact
    alpha_blank: Floats,  # (T, S + 2)
    alpha_token: Floats,  # (T, S + 2) replaced by αβ
    emitted: Floats,  # (T, S + 2) column S is replaced by the sum of αβ over the blanks
    bands: Integers,  # (T, 2) replaced by the columns of tokens whose αβ is not zero
    sums: Floats,  # (T,) written: Σ αβ of all states
) -> bool:
    """Whether Σ αβ is large enough to be exact in every frame."""
    frames, size = len(bands), len(skip) - 1
    beta_blank, beta_token = np.zeros(size + 2), np.zeros(size + 2)
    blank_emission, token_emission = np.zeros(size + 2), np.zeros(size + 2)  # β times the state's own emission
    beta_blank[size], beta_token[size] = 1.0, step if size else 0.0
    low, high, total = size, size + 1, 1.0
    for t in range(frames - 1, -1, -1):
        emitted_blank, first = emitted[t, size], max(low, 1)
        start, stop = max(low, bands[t, 0]), min(high, bands[t, 1])
        blank_sum = dot(alpha_blank[t, start:stop], beta_blank[start:stop])
        emitted[t, size] = blank_sum
        bands[t, 0], bands[t, 1] = max(start, 1), stop
        start = bands[t, 0]
        sums[t] = blank_sum + multiply_in_place(alpha_token[t, start:stop], beta_token[start:stop])
        if not sums[t] * min(1.0, total) >= min_sum:
            return False
        total = emit_blanks(beta_blank[low:high], emitted_blank, underflow, blank_emission[low:high])
        emitted_tokens = emitted[t, first - 1 : high - 1]
        total += emit_tokens(beta_token[first:high], emitted_tokens, underflow, token_emission[first:high])
        if t == 0 or not total > 0:
            return t == 0
        blank_emission[high], token_emission[high] = 0.0, 0.0
        if low:
            low -= 1
            blank_emission[low], token_emission[low] = 0.0, 0.0
        high = min(high, t + 1)
        blanks, tokens, first = blank_emission[low:high], token_emission[low : high + 1], max(low, 1)
        backward_blanks(blanks, tokens, 1 / total, step, beta_blank[low:high])
        blanks, tokens = blank_emission[first:high], token_emission[first : high + 1]
        backward_tokens(blanks, tokens, 1 / total, step, skip[first:high], beta_token[first:high])
        low, high = trim_band(beta_blank, beta_token, low, high)
    return True


@jit_fastmath
def dot(alpha: Floats, beta: Floats) -> float:
    total = 0.0
    for i in range(len(alpha)):
        total += alpha[i] * beta[i]
    return total


@jit_fastmath
def multiply_in_place(alpha: Floats, beta: Floats) -> float:
    """α becomes αβ; returns its sum."""
    total = 0.0
    for i in range(len(alpha)):
        alpha[i] *= beta[i]
        total += alpha[i]
    return total


@jit_fastmath
def emit_blanks(beta: Floats, emitted: float, underflow: float, result: Floats) -> float:
    total = 0.0
    for i in range(len(beta)):
        value = beta[i] * emitted
        if value < underflow:
            value = 0.0
        result[i] = value
        total += value
    return total


@jit_fastmath
def emit_tokens(beta: Floats, emitted: Floats, underflow: float, result: Floats) -> float:
    total = 0.0
    for i in range(len(beta)):
        value = beta[i] * emitted[i]
        if value < underflow:
            value = 0.0
        result[i] = value
        total += value
    return total


@jit_fastmath
def backward_blanks(blanks: Floats, tokens: Floats, scale: float, step: float, beta: Floats) -> None:
    for i in range(len(beta)):
        beta[i] = (blanks[i] + step * tokens[i + 1]) * scale


@jit_fastmath
def backward_tokens(blanks: Floats, tokens: Floats, scale: float, step: float, skip: Floats, beta: Floats) -> None:
    for i in range(len(beta)):
        beta[i] = (tokens[i] + step * blanks[i] + skip[i] * tokens[i + 1]) * scale


@jit
def balanced_step_weight(probabilities: Floats, target: Integers, blank: int) -> float:
    """The weight of a step that makes the middle of the chain likely in the middle of the frames.

    With blanks of probability b and tokens of probability l in all frames, paths with the weight x for a step grow by
    the larger root of r² - (b + l + l x²) r + b l, and take d log r / d log x = 2 l x² / √((b + l + l x²)² - 4 b l)
    steps per frame.
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
    x = math.sqrt(u / l) if l > 0 else MAX_STEP_WEIGHT
    return min(max(x, 1 / MAX_STEP_WEIGHT), MAX_STEP_WEIGHT)
