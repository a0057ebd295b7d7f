"""Building blocks of the beam searches: sums of log-probabilities, partial sorting, hash tables, trees in arrays.

A tree is an array of parents: node 0 is the root, and a parent has a lower number than its children. A second array
holds the label (a token or a word) on the edge to each node, and a hash table finds a child by its label.
"""

import math

import numpy as np
import numpy.typing as npt

from seqloom.kernels.runtime.numba_jit import jit, jit_inline

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int32]

MULTIPLIER = np.int64(-7046029254386353131)  # 2^64 / golden ratio as a signed number (Fibonacci hashing)

LARGEST_GAP = 1e12  # between scores above -inf
KNOTS, RANGE = 64, 37  # spline pieces in a unit of x; log(1 + e^-37) is less than half the machine epsilon


def _spline() -> Floats:  # (RANGE · KNOTS, 4)
    """Coefficients of a cubic Hermite spline of log(1 + e^-x) on [0, RANGE]; its error is at most 2e-11."""
    knots = np.arange(RANGE * KNOTS + 1) / KNOTS
    value, slope = np.log1p(np.exp(-knots)), -1 / (1 + np.exp(knots)) / KNOTS
    rise = np.diff(value)
    parts = [value[:-1], slope[:-1], 3 * rise - 2 * slope[:-1] - slope[1:], slope[:-1] + slope[1:] - 2 * rise]
    return np.stack(parts, axis=1)


SPLINE = _spline()


@jit
def log_add(x: float, y: float) -> float:
    """log(exp x + exp y), by table: exact to 2e-11."""
    high, low = (x, y) if x > y else (y, x)
    if not high - low < RANGE:  # also where both are -inf
        return high
    position = (high - low) * KNOTS
    piece = int(position)
    t = position - piece
    a, b, c, d = SPLINE[piece, 0], SPLINE[piece, 1], SPLINE[piece, 2], SPLINE[piece, 3]
    return float(high + (a + t * (b + t * (c + t * d))))


@jit
def merge(x: float, y: float, viterbi: bool) -> float:  # noqa: FBT001  numba
    """The log-probability of two sets of paths together: their sum, or the better one."""
    return max(x, y) if viterbi else log_add(x, y)


@jit_inline
def count_from(scores: Floats, count: int, lowest: float) -> int:
    """How many of the first ``count`` scores are at least ``lowest``; vectorised."""
    result = 0
    for index in range(count):
        result += scores[index] >= lowest
    return result


@jit
def keep_best(scores: Floats, payload: Integers, count: int, kept: int) -> None:
    """Move the ``kept`` best of the first ``count`` scores, with their rows of the payload (C, P), to the front.

    A score between those that are kept and the others is found by bisection: to count in every step takes less time
    than the mispredicted branches of a quickselect.
    """
    if kept >= count:
        return
    top = maximum(scores, count)
    low, high, step = top, math.inf, 1.0
    at_low = count_from(scores, count, low)
    while at_low < kept and low > -math.inf:
        low, high, step = top - step if step < LARGEST_GAP else -math.inf, low, 2 * step
        at_low = count_from(scores, count, low)
    while at_low > kept:
        middle = low + (high - low) / 2 if high < math.inf else math.inf
        if not low < middle < high:
            break  # the scores at ``low`` are equal
        at_middle = count_from(scores, count, middle)
        if at_middle >= kept:
            low, at_low = middle, at_middle
        else:
            high = middle
    ties = kept if at_low == kept else kept - count_from(scores, count, high)  # from low to high that are kept
    front, index = 0, 0
    while front < kept and index < count:
        value = scores[index]
        if value >= low:
            if at_low > kept and value < high:
                ties -= 1
            if ties >= 0 or value >= high:
                scores[index], scores[front] = scores[front], value
                for part in range(payload.shape[1]):
                    payload[index, part], payload[front, part] = payload[front, part], payload[index, part]
                front += 1
        index += 1


@jit
def minimum(values: Floats, count: int) -> float:
    """The smallest of the first ``count`` values."""
    result = math.inf
    for index in range(count):
        result = min(result, values[index])
    return result


@jit_inline
def maximum(values: Floats, count: int) -> float:
    """The largest of the first ``count`` values."""
    result = -math.inf
    for index in range(count):
        result = max(result, values[index])
    return result


@jit
def sort_descending(values: Floats, order: Integers, count: int) -> None:
    """Sort the first ``count`` indices of ``order`` by their values (Shell sort)."""
    gap = 1
    while 3 * gap + 1 < count:
        gap = 3 * gap + 1
    while gap:
        for index in range(gap, count):
            item = order[index]
            value, back = values[item], index - gap
            while back >= 0 and values[order[back]] < value:
                order[back + gap] = order[back]
                back -= gap
            order[back + gap] = item
        gap //= 3


@jit_inline
def hash_key(key: int, mask: int) -> int:
    """The first slot to probe for a key in a table of ``mask`` + 1 slots."""
    return int(((key * MULTIPLIER) >> 32) & mask)


@jit_inline
def find_key(keys: npt.NDArray[np.int64], key: int) -> int:
    """The slot of a key in an open-addressing table (-1: empty), or the slot where it belongs."""
    mask = len(keys) - 1
    at = hash_key(key, mask)
    while keys[at] >= 0 and keys[at] != key:
        at = (at + 1) & mask
    return int(at)


@jit
def load_frame(frame: Floats, log_probs: Floats, blank: int, floor: float) -> None:
    """Copy a frame; tokens below ``floor`` become impossible, except the blank and the most probable token."""
    best = 0
    for token in range(len(frame)):
        log_probs[token] = frame[token]
        if frame[token] > frame[best]:
            best = token
    if floor > -math.inf:
        for token in range(len(frame)):
            if log_probs[token] < floor and token not in (blank, best):
                log_probs[token] = -math.inf


@jit_inline
def find_child(table: Integers, parents: Integers, labels: Integers, parent: int, label: int) -> int:
    """The slot of a node's child in the hash table of a tree, or the slot where it belongs."""
    mask = len(table) - 1
    at = hash_key((np.int64(parent) << 20) ^ label, mask)
    while table[at] >= 0 and (parents[table[at]] != parent or labels[table[at]] != label):
        at = (at + 1) & mask
    return int(at)


@jit
def fill_child_table(table: Integers, parents: Integers, labels: Integers, count: int) -> None:
    """Build the hash table of the first ``count`` nodes of a tree."""
    for at in range(len(table)):
        table[at] = -1
    for node in range(1, count):
        table[find_child(table, parents, labels, parents[node], labels[node])] = node


@jit
def mark_ancestors(parents: Integers, nodes: Integers) -> npt.NDArray[np.bool_]:  # (N,)
    """True for the given nodes, all their ancestors and the root."""
    marked = np.zeros(len(parents), np.bool_)
    marked[0] = True
    for node in nodes:
        at = node
        while not marked[at]:
            marked[at], at = True, parents[at]
    return marked


@jit
def path_between(parents: Integers, node: int, ancestor: int) -> Integers:
    """The nodes on the path from an ancestor (excluded) down to a node (included)."""
    length, at = 0, node
    while at != ancestor:
        length, at = length + 1, parents[at]
    path = np.empty(length, np.int32)
    for index in range(length - 1, -1, -1):
        path[index], node = node, parents[node]
    return path


@jit
def common_ancestor(parents: Integers, nodes: Integers) -> int:
    """The lowest common ancestor of the nodes."""
    result = nodes[0] if len(nodes) else 0
    for node in nodes:
        at = node
        while at != result:
            if at > result:
                at = parents[at]
            else:
                result = parents[result]
    return int(result)


@jit
def descends_from(parents: Integers, node: int, ancestor: int) -> bool:
    """Whether a node is the other one or a descendant of it."""
    while node > ancestor:
        node = parents[node]
    return bool(node == ancestor)


@jit_inline
def node_before_lag(
    parents: Integers, nodes: Integers, scores: Floats, count: int, backpointers: Integers, frame: int
) -> int:
    """The tree node that the best of the first ``count`` hypotheses was at before the last L frames.

    Follows its most probable path back through ``backpointers`` (L, K), a ring buffer over the last L frames up to
    ``frame``: 2 · (beam slot in the frame before) + 1 if a label was added in this frame.
    """
    slot, top = 0, -math.inf
    for other in range(count):
        if scores[other] > top:
            slot, top = other, scores[other]
    node = nodes[slot]
    for past in range(len(backpointers)):
        pointer = backpointers[(frame - past) % len(backpointers), slot]
        slot = pointer >> 1
        if pointer & 1:
            node = parents[node]
    return int(node)
