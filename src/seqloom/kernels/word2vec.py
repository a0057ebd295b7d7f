"""Skip-gram and CBOW with negative sampling or hierarchical softmax (Mikolov et al. 2013), a piece of text at a time.

The rows of the output that a word of the text is to be told from are chosen once and serve all words of its window
(Ji et al. 2016): they stay in the nearest cache, and the next ones are fetched meanwhile.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqloom.kernels.compiled import compiled
from seqloom.kernels.rows import TOGETHER, fetch, products, pull

REACH, STEPS = 8, 64  # the sigmoid is tabulated from -REACH to REACH, STEPS times in one
_grid = np.arange(-REACH * STEPS, REACH * STEPS + 2) / STEPS
SIGMOID = np.stack([1 / (1 + np.exp(-_grid)), np.log1p(np.exp(-_grid))]).astype(np.float32)
"""σ and -log σ, between whose values a line is drawn: off by less than 4e-6."""

A, C = np.uint64(6364136223846793005), np.uint64(1442695040888963407)  # Knuth's: x ← A x + C; the upper half is used
HALF, LOWER = np.uint64(32), np.uint64(0xFFFFFFFF)


def chances(weights: NDArray[np.float64]) -> tuple[NDArray[np.uint32], NDArray[np.int32]]:
    """Tables from which a number is drawn in proportion to its weight (Walker's aliases): thresholds, others."""
    count = len(weights)
    shares = weights * (count / weights.sum())
    others = np.arange(count, dtype=np.int32)
    _aliases(shares, others)
    return np.minimum(np.rint(shares * 2.0**32), 2.0**32 - 1).astype(np.uint32), others


@compiled
def _aliases(shares: Any, others: Any) -> None:
    count = len(shares)
    waiting = np.empty(count, np.int32)
    small, large = 0, count
    for index in range(count):
        if shares[index] < 1:
            waiting[small] = index
            small += 1
        else:
            large -= 1
            waiting[large] = index
    while small and large < count:
        small -= 1
        low, high = waiting[small], waiting[large]
        others[low] = high
        shares[high] -= 1 - shares[low]
        if shares[high] < 1:
            large += 1
            waiting[small] = high
            small += 1
    for index in range(small):  # what rounding has left over
        shares[waiting[index]] = 1
    for index in range(large, count):
        shares[waiting[index]] = 1


@compiled
def draw(state: Any, thresholds: Any, others: Any) -> Any:
    """The next state of the random numbers, and a number from the tables of ``chances``."""
    state = state * A + C
    product = (state >> HALF) * np.uint64(len(thresholds))
    found = np.int64(product >> HALF)
    if (product & LOWER) >= np.uint64(thresholds[found]):
        found = np.int64(others[found])
    return state, found


@compiled
def huffman(counts: Any) -> Any:
    """The tree of words, from the most frequent on: parents of words and nodes, and whether each is a second child."""
    words = len(counts)
    parents = np.zeros(2 * words - 1, np.int32)
    second = np.zeros(2 * words - 1, np.uint8)
    weights = np.zeros(2 * words - 1, np.int64)
    weights[:words] = counts
    word, node = words - 1, words  # the next of each kind, the rarest first
    for made in range(words, 2 * words - 1):
        for turn in range(2):
            if word >= 0 and (node >= made or weights[word] <= weights[node]):
                chosen = word
                word -= 1
            else:
                chosen = node
                node += 1
            weights[made] += weights[chosen]
            parents[chosen] = made
            second[chosen] = turn
    return parents, second


@compiled
def depth(parents: Any) -> Any:
    """Nodes above the deepest word of a tree."""
    depths = np.zeros(len(parents), np.int64)
    most = 1
    for node in range(len(parents) - 2, -1, -1):  # parents have higher numbers
        depths[node] = depths[parents[node]] + 1
        most = max(most, depths[node])
    return most


@compiled
def _targets(word: Any, rows: Any, wanted: Any, negative: Any, tables: Any, state: Any) -> Any:
    """Choose the rows of the output that tell what the word is, and what each should say: how many, and the state."""
    thresholds, others, parents, second = tables
    words = len(thresholds)
    if negative:
        rows[0], wanted[0], count = word, 1, 1
        for _ in range(negative):
            state, found = draw(state, thresholds, others)
            if found != word:
                rows[count], wanted[count] = found, 0
                count += 1
        return count, state
    count, node, root = 0, np.int64(word), len(parents) - 1
    while node != root:
        rows[count] = parents[node] - words
        wanted[count] = 1 - second[node]
        node = np.int64(parents[node])
        count += 1
    return count, state


@compiled
def _slopes(scores: Any, wanted: Any, slopes: Any, count: Any, rate: Any, table: Any) -> Any:
    """The rate times what is wanted less what is said; the loss."""
    loss = np.float32(0)
    for index in range(count):
        score = min(max(scores[index], np.float32(-REACH)), np.float32(REACH))
        place = (score + np.float32(REACH)) * np.float32(STEPS)
        low = np.int64(place)
        place -= np.float32(low)
        said = table[0, low] + place * (table[0, low + 1] - table[0, low])
        lost = table[1, low] + place * (table[1, low + 1] - table[1, low])
        slopes[index] = (wanted[index] - said) * rate
        loss += lost + (np.float32(1) - wanted[index]) * score
    return loss


@compiled
def _fetch_row(matrix: Any, row: Any, width: Any) -> None:
    begin = matrix + np.int64(row) * width * 4
    for byte in range(0, width * 4, 64):
        fetch(begin + byte)


@compiled
def _read(text: Any, begin: Any, keep: Any, kept: Any, state: Any) -> Any:
    """The words of a line that are seen: where it ends, how many they are, the state of the random numbers."""
    length, here = 0, begin
    while here < len(text) and text[here] >= 0:
        word = text[here]
        here += 1
        state = state * A + C
        if (state >> HALF) <= np.uint64(keep[word]):
            kept[length] = word
            length += 1
    return here, length, state


@compiled
def _mean(inputs: Any, kept: Any, low: Any, high: Any, place: Any, found: Any) -> None:
    found[:] = 0
    for other in range(low, high):
        if other != place:
            word = kept[other]
            for index in range(len(found)):
                found[index] += inputs[word, index]
    share = np.float32(1) / np.float32(high - low - 1)
    for index in range(len(found)):
        found[index] *= share


@compiled
def _from_mean(
    inputs: Any,
    outputs: Any,
    kept: Any,
    low: Any,
    high: Any,
    place: Any,
    rows: Any,
    wanted: Any,
    count: Any,
    rate: Any,
    table: Any,
    scores: Any,
    slopes: Any,
    centre: Any,
    change: Any,
) -> Any:
    """Predict a word from the mean of its window, and learn: the loss, the predictions."""
    width = np.int64(inputs.shape[1])
    _mean(inputs, kept, low, high, place, centre)
    change[:] = 0
    at, rows_at = outputs.ctypes.data, rows.ctypes.data
    products(centre.ctypes.data, at, rows_at, count, width, scores.ctypes.data)
    loss = _slopes(scores, wanted, slopes, count, rate, table)
    pull(centre.ctypes.data, change.ctypes.data, at, rows_at, count, width, slopes.ctypes.data)
    for other in range(low, high):
        if other != place:
            word = kept[other]
            for index in range(width):
                inputs[word, index] += change[index]
    return loss, 1


@compiled
def _from_each(
    inputs: Any,
    outputs: Any,
    kept: Any,
    low: Any,
    high: Any,
    place: Any,
    rows: Any,
    wanted: Any,
    count: Any,
    rate: Any,
    table: Any,
    scores: Any,
    slopes: Any,
    centre: Any,
) -> Any:
    """Predict a word from each one of its window, and learn: the loss, the predictions."""
    width = np.int64(inputs.shape[1])
    at, rows_at = outputs.ctypes.data, rows.ctypes.data
    loss = np.float32(0)
    for other in range(low, high):
        if other != place:
            vector = inputs.ctypes.data + np.int64(kept[other]) * width * 4
            products(vector, at, rows_at, count, width, scores.ctypes.data)
            loss += _slopes(scores, wanted, slopes, count, rate, table)
            if count == TOGETHER:
                pull(vector, vector, at, rows_at, count, width, slopes.ctypes.data)
            else:
                centre[:] = inputs[kept[other]]
                pull(centre.ctypes.data, vector, at, rows_at, count, width, slopes.ctypes.data)
    return loss, high - low - 1


@compiled
def train(
    text: Any,  # (T,) int32, numbers of words; -1 at the end of a line
    inputs: Any,  # (V, D) float32, changed in place, as
    outputs: Any,  # (V, D), or (V - 1, D) of nodes
    keep: Any,  # (V,) uint32, the chance of each word to be seen
    thresholds: Any,  # (V,) and
    others: Any,  # (V,) of the negatives, see chances
    parents: Any,  # (2 V - 1,) and
    second: Any,  # (2 V - 1,) of the tree, see huffman; where negative is 0
    table: Any,  # SIGMOID
    first_rate: Any,  # float32, at the beginning of the text
    last_rate: Any,  # float32, at its end
    window: Any,
    negative: Any,
    deepest: Any,  # rows that a word has at most
    mean: Any,  # CBOW: one prediction from the mean of the window, instead of one from each word
    seed: Any,  # uint64
) -> Any:
    """Learn from a text: the summed loss, the predictions made, the words read."""
    width = np.int64(inputs.shape[1])
    state = np.uint64(seed)
    kept = np.empty(len(text), np.int32)
    rows, wanted = np.empty((2, deepest), np.int64), np.empty((2, deepest), np.float32)
    counts = np.zeros(2, np.int64)
    scores, slopes = np.empty(deepest, np.float32), np.empty(deepest, np.float32)
    centre, change = np.empty(width, np.float32), np.empty(width, np.float32)
    loss, predictions, words, begin = 0.0, 0, 0, 0
    tables = thresholds, others, parents, second
    while begin < len(text):
        rate = np.float32(first_rate + (last_rate - first_rate) * np.float32(begin / len(text)))
        here, length, state = _read(text, begin, keep, kept, state)
        words += here - begin
        begin = here + 1
        if length < 2:
            continue
        counts[0], state = _targets(kept[0], rows[0], wanted[0], negative, tables, state)
        for place in range(length):
            now, later = place & 1, 1 - (place & 1)
            if place + 1 < length:  # while this word is learnt from, the rows of the next one come nearer
                counts[later], state = _targets(kept[place + 1], rows[later], wanted[later], negative, tables, state)
                for index in range(counts[later]):
                    _fetch_row(outputs.ctypes.data, rows[later, index], width)
                if place + window + 1 < length:
                    _fetch_row(inputs.ctypes.data, kept[place + window + 1], width)
            state = state * A + C
            reach = window - np.int64(((state >> HALF) * np.uint64(window)) >> HALF)
            low, high = max(0, place - reach), min(length, place + reach + 1)
            if mean:
                lost, made = _from_mean(
                    inputs,
                    outputs,
                    kept,
                    low,
                    high,
                    place,
                    rows[now],
                    wanted[now],
                    counts[now],
                    rate,
                    table,
                    scores,
                    slopes,
                    centre,
                    change,
                )
            else:
                lost, made = _from_each(
                    inputs,
                    outputs,
                    kept,
                    low,
                    high,
                    place,
                    rows[now],
                    wanted[now],
                    counts[now],
                    rate,
                    table,
                    scores,
                    slopes,
                    centre,
                )
            loss += lost
            predictions += made
    return loss, predictions, words
