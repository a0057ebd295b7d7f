"""Skip-gram and CBOW with negative sampling or hierarchical softmax (Mikolov et al. 2013), a piece of text at a time.

The output rows of a prediction (a word and its negative samples) are chosen one prediction ahead, and prefetched.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqloom.kernels.runtime.numba_jit import jit
from seqloom.kernels.word2vec.row_products import GROUP, dot_rows, prefetch, update_rows

SIGMOID_RANGE, SIGMOID_STEPS = 8, 64  # tabulated from -8 to 8, 64 values in a unit
_grid = np.arange(-SIGMOID_RANGE * SIGMOID_STEPS, SIGMOID_RANGE * SIGMOID_STEPS + 2) / SIGMOID_STEPS
SIGMOID = np.stack([1 / (1 + np.exp(-_grid)), np.log1p(np.exp(-_grid))]).astype(np.float32)
"""σ and -log σ, to be interpolated linearly; the error is below 4e-6."""

LCG_A, LCG_C = np.uint64(6364136223846793005), np.uint64(1442695040888963407)
"""Knuth's linear congruential generator x ← A x + C; the upper half of its bits is used."""
HALF, LOWER = np.uint64(32), np.uint64(0xFFFFFFFF)


def alias_tables(weights: NDArray[np.float64]) -> tuple[NDArray[np.uint32], NDArray[np.int32]]:
    """Tables for sampling in proportion to weights (Walker's alias method): thresholds, aliases."""
    count = len(weights)
    scaled = weights * (count / weights.sum())
    aliases = np.arange(count, dtype=np.int32)
    _fill_aliases(scaled, aliases)
    return np.minimum(np.rint(scaled * 2.0**32), 2.0**32 - 1).astype(np.uint32), aliases


@jit
def _fill_aliases(scaled: Any, aliases: Any) -> None:
    count = len(scaled)
    queue = np.empty(count, np.int32)
    small, large = 0, count
    for index in range(count):
        if scaled[index] < 1:
            queue[small] = index
            small += 1
        else:
            large -= 1
            queue[large] = index
    while small and large < count:
        small -= 1
        low, high = queue[small], queue[large]
        aliases[low] = high
        scaled[high] -= 1 - scaled[low]
        if scaled[high] < 1:
            large += 1
            queue[small] = high
            small += 1
    for index in range(small):  # left over by rounding
        scaled[queue[index]] = 1
    for index in range(large, count):
        scaled[queue[index]] = 1


@jit
def sample(state: Any, thresholds: Any, aliases: Any) -> Any:
    """The next random state, and a sample from the tables of ``alias_tables``."""
    state = state * LCG_A + LCG_C
    product = (state >> HALF) * np.uint64(len(thresholds))
    drawn = np.int64(product >> HALF)
    if (product & LOWER) >= np.uint64(thresholds[drawn]):
        drawn = np.int64(aliases[drawn])
    return state, drawn


@jit
def huffman(counts: Any) -> Any:
    """Huffman tree of words sorted by descending count: parents of words and inner nodes; which are second children."""
    words = len(counts)
    parents = np.zeros(2 * words - 1, np.int32)
    second = np.zeros(2 * words - 1, np.uint8)
    weights = np.zeros(2 * words - 1, np.int64)
    weights[:words] = counts
    word, node = words - 1, words  # next leaf and next inner node, rarest first
    for made in range(words, 2 * words - 1):
        for side in range(2):
            if word >= 0 and (node >= made or weights[word] <= weights[node]):
                chosen = word
                word -= 1
            else:
                chosen = node
                node += 1
            weights[made] += weights[chosen]
            parents[chosen] = made
            second[chosen] = side
    return parents, second


@jit
def tree_depth(parents: Any) -> Any:
    """Depth of a tree."""
    depths = np.zeros(len(parents), np.int64)
    most = 1
    for node in range(len(parents) - 2, -1, -1):  # parents have higher numbers
        depths[node] = depths[parents[node]] + 1
        most = max(most, depths[node])
    return most


@jit
def _choose_outputs(word: Any, rows: Any, labels: Any, negative: Any, tables: Any, state: Any) -> Any:
    """Choose the output rows of a word and their labels (1 or 0); their number, and the next random state."""
    thresholds, aliases, parents, second = tables
    words = len(thresholds)
    if negative:
        rows[0], labels[0], count = word, 1, 1
        for _ in range(negative):
            state, drawn = sample(state, thresholds, aliases)
            if drawn != word:
                rows[count], labels[count] = drawn, 0
                count += 1
        return count, state
    count, node, root = 0, np.int64(word), len(parents) - 1
    while node != root:
        rows[count] = parents[node] - words
        labels[count] = 1 - second[node]
        node = np.int64(parents[node])
        count += 1
    return count, state


@jit
def _gradients(scores: Any, labels: Any, gradients: Any, count: Any, rate: Any, table: Any) -> Any:
    """learning rate · (label - σ(score)) for each row; returns the loss."""
    loss = np.float32(0)
    for index in range(count):
        score = min(max(scores[index], np.float32(-SIGMOID_RANGE)), np.float32(SIGMOID_RANGE))
        fraction = (score + np.float32(SIGMOID_RANGE)) * np.float32(SIGMOID_STEPS)
        low = np.int64(fraction)
        fraction -= np.float32(low)
        probability = table[0, low] + fraction * (table[0, low + 1] - table[0, low])
        term = table[1, low] + fraction * (table[1, low + 1] - table[1, low])
        gradients[index] = (labels[index] - probability) * rate
        loss += term + (np.float32(1) - labels[index]) * score
    return loss


@jit
def _prefetch_row(matrix: Any, row: Any, width: Any) -> None:
    begin = matrix + np.int64(row) * width * 4
    for byte in range(0, width * 4, 64):
        prefetch(begin + byte)


@jit
def _subsample(text: Any, begin: Any, keep: Any, kept: Any, state: Any) -> Any:
    """Subsample the words of a line: its end, the number of words kept, and the next random state."""
    length, end = 0, begin
    while end < len(text) and text[end] >= 0:
        word = text[end]
        end += 1
        state = state * LCG_A + LCG_C
        if (state >> HALF) <= np.uint64(keep[word]):
            kept[length] = word
            length += 1
    return end, length, state


@jit
def _mean(inputs: Any, kept: Any, low: Any, high: Any, position: Any, mean: Any) -> None:
    mean[:] = 0
    for other in range(low, high):
        if other != position:
            word = kept[other]
            for index in range(len(mean)):
                mean[index] += inputs[word, index]
    scale = np.float32(1) / np.float32(high - low - 1)
    for index in range(len(mean)):
        mean[index] *= scale


@jit
def _update_cbow(
    inputs: Any,
    outputs: Any,
    kept: Any,
    low: Any,
    high: Any,
    position: Any,
    rows: Any,
    labels: Any,
    count: Any,
    rate: Any,
    table: Any,
    scores: Any,
    gradients: Any,
    centre: Any,
    change: Any,
) -> Any:
    """CBOW: an update with the mean of the window; the loss, and the number of predictions."""
    width = np.int64(inputs.shape[1])
    _mean(inputs, kept, low, high, position, centre)
    change[:] = 0
    at, rows_at = outputs.ctypes.data, rows.ctypes.data
    dot_rows(centre.ctypes.data, at, rows_at, count, width, scores.ctypes.data)
    loss = _gradients(scores, labels, gradients, count, rate, table)
    update_rows(centre.ctypes.data, change.ctypes.data, at, rows_at, count, width, gradients.ctypes.data)
    for other in range(low, high):
        if other != position:
            word = kept[other]
            for index in range(width):
                inputs[word, index] += change[index]
    return loss, 1


@jit
def _update_skip_gram(
    inputs: Any,
    outputs: Any,
    kept: Any,
    low: Any,
    high: Any,
    position: Any,
    rows: Any,  # (4, outputs): the first prediction reads one of the first two, others the last two in turn
    labels: Any,
    now: Any,
    count: Any,
    negative: Any,
    tables: Any,
    state: Any,
    rate: Any,
    table: Any,
    scores: Any,
    gradients: Any,
    centre: Any,
) -> Any:
    """Skip-gram: an update with each word of the window, with negative samples of its own.

    Returns the loss, the number of predictions, and the next random state.
    """
    width = np.int64(inputs.shape[1])
    at, last = outputs.ctypes.data, high - 1 - (position == high - 1)
    loss = np.float32(0)
    for other in range(low, high):
        if other != position:
            following, later = count, now
            if negative and other < last:
                later = 3 if now == 2 else 2
                following, state = _choose_outputs(kept[position], rows[later], labels[later], negative, tables, state)
                for index in range(1, following):
                    _prefetch_row(at, rows[later, index], width)
            rows_at = rows[now].ctypes.data
            vector = inputs.ctypes.data + np.int64(kept[other]) * width * 4
            dot_rows(vector, at, rows_at, count, width, scores.ctypes.data)
            loss += _gradients(scores, labels[now], gradients, count, rate, table)
            if count == GROUP:
                update_rows(vector, vector, at, rows_at, count, width, gradients.ctypes.data)
            else:
                centre[:] = inputs[kept[other]]
                update_rows(centre.ctypes.data, vector, at, rows_at, count, width, gradients.ctypes.data)
            now, count = later, following
    return loss, high - low - 1, state


@jit
def train(
    text: Any,  # (T,) int32, word ids; -1 at the end of a line
    inputs: Any,  # (V, D) float32, updated in place
    outputs: Any,  # (V, D), or (V - 1, D) for hierarchical softmax; updated in place
    keep: Any,  # (V,) uint32, probability of keeping each word · 2^32
    thresholds: Any,  # (V,)
    aliases: Any,  # (V,) tables for negative sampling, see alias_tables
    parents: Any,  # (2 V - 1,)
    second: Any,  # (2 V - 1,) Huffman tree, see huffman; used if negative is 0
    table: Any,  # SIGMOID
    first_rate: Any,  # float32, learning rate at the start of the text
    last_rate: Any,  # float32, learning rate at its end
    window: Any,
    negative: Any,  # negative samples, 0: hierarchical softmax
    max_outputs: Any,  # largest number of output rows of a word
    cbow: Any,  # whether to train CBOW instead of skip-gram
    seed: Any,  # uint64
) -> Any:
    """Train on a text: the summed loss, the number of predictions, the number of words."""
    width = np.int64(inputs.shape[1])
    state = np.uint64(seed)
    kept = np.empty(len(text), np.int32)
    rows, labels = np.empty((4, max_outputs), np.int64), np.empty((4, max_outputs), np.float32)
    counts = np.zeros(2, np.int64)
    scores, gradients = np.empty(max_outputs, np.float32), np.empty(max_outputs, np.float32)
    centre, change = np.empty(width, np.float32), np.empty(width, np.float32)
    loss, predictions, words, start = 0.0, 0, 0, 0
    tables = thresholds, aliases, parents, second
    while start < len(text):
        rate = np.float32(first_rate + (last_rate - first_rate) * np.float32(start / len(text)))
        end, length, state = _subsample(text, start, keep, kept, state)
        words += end - start
        start = end + 1
        if length < 2:
            continue
        counts[0], state = _choose_outputs(kept[0], rows[0], labels[0], negative, tables, state)
        for position in range(length):
            now, later = position & 1, 1 - (position & 1)
            if position + 1 < length:  # prefetch the rows of the next word
                counts[later], state = _choose_outputs(
                    kept[position + 1], rows[later], labels[later], negative, tables, state
                )
                for index in range(counts[later]):
                    _prefetch_row(outputs.ctypes.data, rows[later, index], width)
                if position + window + 1 < length:
                    _prefetch_row(inputs.ctypes.data, kept[position + window + 1], width)
            state = state * LCG_A + LCG_C
            reach = window - np.int64(((state >> HALF) * np.uint64(window)) >> HALF)
            low, high = max(0, position - reach), min(length, position + reach + 1)
            # Passed one by one: numba would count references to all arrays of a tuple at each call.
            if cbow:
                term, new_predictions = _update_cbow(
                    inputs,
                    outputs,
                    kept,
                    low,
                    high,
                    position,
                    rows[now],
                    labels[now],
                    counts[now],
                    rate,
                    table,
                    scores,
                    gradients,
                    centre,
                    change,
                )
            else:
                term, new_predictions, state = _update_skip_gram(
                    inputs,
                    outputs,
                    kept,
                    low,
                    high,
                    position,
                    rows,
                    labels,
                    now,
                    counts[now],
                    negative,
                    tables,
                    state,
                    rate,
                    table,
                    scores,
                    gradients,
                    centre,
                )
            loss += term
            predictions += new_predictions
    return loss, predictions, words
