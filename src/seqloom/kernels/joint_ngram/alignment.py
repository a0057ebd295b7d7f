"""Alignments of sources with their targets: each source token stands for a chunk of 0 to B target tokens.

A unit is a source token with its chunk. Their probabilities are estimated by expectation maximisation, by forward and
backward passes over the grid of source and target positions (Bisani and Ney 2008; Jiampojamarn et al. 2007).
"""

import numpy as np
from numpy.typing import NDArray

from seqloom.kernels.joint_ngram import EPSILON
from seqloom.kernels.runtime.numba_jit import jit, jit_inline

Integers = NDArray[np.int64]
Doubles = NDArray[np.float64]

EMPTY = -1
"""A free slot of the table of units."""


TIE = 1e-9
"""Alignments whose log-probabilities differ by less are equal. The one with the longest last chunk is taken, so that
double letters, of which one stands for nothing, are always aligned in the same way."""


@jit_inline
def reachable(position: int, sources: int, targets: int, chunk: int) -> tuple[int, int]:
    """The first and the last number of target tokens that the first ``position`` source tokens can stand for."""
    return max(0, targets - (sources - position) * chunk), min(targets, position * chunk)


@jit
def slot(keys: Integers, key: int) -> int:
    """Where the table holds a key, or has room for it: its size is a power of two, and it is never full."""
    last = len(keys) - 1
    at = ((key * np.int64(-7046029254386353131)) >> 20) & last
    while keys[at] != EMPTY and keys[at] != key:
        at = (at + 1) & last
    return int(at)


@jit
def collect_units(
    sources: Integers,
    source_ends: Integers,  # (N + 1,): source n is sources[source_ends[n] : source_ends[n + 1]]
    target_ends: Integers,  # (N + 1,)
    chunks: Integers,  # (target tokens, B + 1), the number of the chunk of each length that starts there
    chunk_count: int,
    keys: Integers,  # the table, EMPTY
) -> int:
    """Write the key of each possible unit, and return their number; -1 if more than half of the table is used."""
    longest, count = chunks.shape[1] - 1, 0
    for pair in range(len(source_ends) - 1):
        first, begin = source_ends[pair], target_ends[pair]
        length, width = source_ends[pair + 1] - first, target_ends[pair + 1] - begin
        if width > length * longest:
            continue
        for i in range(length):
            low, high = reachable(i, length, width, longest)
            next_low, next_high = reachable(i + 1, length, width, longest)
            for j in range(low, high + 1):
                for end in range(max(j, next_low), min(j + longest, next_high) + 1):
                    chunk = 0 if end == j else chunks[begin + j, end - j]
                    key = sources[first + i] * chunk_count + chunk
                    at = slot(keys, key)
                    if keys[at] == EMPTY:
                        keys[at] = key
                        count += 1
                        if 2 * count > len(keys):
                            return -1
    return count


@jit
def expected_counts(
    sources: Integers,
    source_ends: Integers,
    target_ends: Integers,
    chunks: Integers,
    chunk_count: int,
    keys: Integers,
    probabilities: Doubles,  # of the units in the table
    counts: Doubles,  # how often each is expected in the pairs: written
) -> None:
    """One expectation step."""
    longest = chunks.shape[1] - 1
    counts[:] = 0
    for pair in range(len(source_ends) - 1):
        first, begin = source_ends[pair], target_ends[pair]
        length, width = source_ends[pair + 1] - first, target_ends[pair + 1] - begin
        if width > length * longest:
            continue
        forward = np.zeros((length + 1, width + 1))  # each row divided by its sum, which is its scale
        scales = np.ones(length + 1)
        slots = np.empty((length, width + 1, longest + 1), dtype=np.int64)
        forward[0, 0] = 1
        for i in range(length):
            low, high = reachable(i, length, width, longest)
            next_low, next_high = reachable(i + 1, length, width, longest)
            for j in range(low, high + 1):
                for end in range(max(j, next_low), min(j + longest, next_high) + 1):
                    chunk = 0 if end == j else chunks[begin + j, end - j]
                    at = slot(keys, sources[first + i] * chunk_count + chunk)
                    slots[i, j, end - j] = at
                    forward[i + 1, end] += forward[i, j] * probabilities[at]
            scales[i + 1] = forward[i + 1].sum()
            if scales[i + 1] <= 0:
                break
            forward[i + 1] /= scales[i + 1]
        if forward[length, width] <= 0:  # all its alignments have lost their probability to rounding
            continue
        backward, previous = np.zeros(width + 1), np.zeros(width + 1)
        backward[width] = 1 / forward[length, width]
        for i in range(length - 1, -1, -1):
            low, high = reachable(i, length, width, longest)
            next_low, next_high = reachable(i + 1, length, width, longest)
            previous[:] = 0
            for j in range(low, high + 1):
                for end in range(max(j, next_low), min(j + longest, next_high) + 1):
                    at = slots[i, j, end - j]
                    following = probabilities[at] * backward[end] / scales[i + 1]
                    previous[j] += following
                    counts[at] += forward[i, j] * following
            backward[:] = previous


@jit
def best_alignments(
    sources: Integers,
    source_ends: Integers,
    target_ends: Integers,
    chunks: Integers,
    chunk_count: int,
    keys: Integers,
    log_probabilities: Doubles,  # of the units in the table
    units: Integers,  # (source tokens,), the key of the unit of each; EMPTY where a pair has no alignment: written
) -> None:
    """The most probable alignment of each pair."""
    longest = chunks.shape[1] - 1
    units[:] = EMPTY
    for pair in range(len(source_ends) - 1):
        first, begin = source_ends[pair], target_ends[pair]
        length, width = source_ends[pair + 1] - first, target_ends[pair + 1] - begin
        if width > length * longest:
            continue
        scores = np.full((length + 1, width + 1), -np.inf)
        sizes = np.zeros((length + 1, width + 1), dtype=np.int64)  # of the best last chunk
        scores[0, 0] = 0
        for i in range(length):
            low, high = reachable(i, length, width, longest)
            next_low, next_high = reachable(i + 1, length, width, longest)
            for j in range(low, high + 1):
                for end in range(max(j, next_low), min(j + longest, next_high) + 1):
                    chunk = 0 if end == j else chunks[begin + j, end - j]
                    at = slot(keys, sources[first + i] * chunk_count + chunk)
                    score = scores[i, j] + log_probabilities[at]
                    if score > scores[i + 1, end] + TIE:
                        scores[i + 1, end] = score
                        sizes[i + 1, end] = end - j
        if scores[length, width] == -np.inf:
            continue
        end = width
        for i in range(length, 0, -1):
            size = sizes[i, end]
            chunk = 0 if size == 0 else chunks[begin + end - size, size]
            units[first + i - 1] = sources[first + i - 1] * chunk_count + chunk
            end -= size


@jit
def align_units(
    source: Integers,  # (S,)
    target: Integers,  # (T,)
    first_units: Integers,  # (V + 1,): the units of source token v are units first_units[v] to first_units[v + 1] - 1
    chunks: Integers,  # (U, B), the target tokens of each unit, followed by EPSILON
    log_probabilities: Doubles,  # (U,)
    units: Integers,  # (S,), of the best alignment; EMPTY at tokens without units, or if there is none: written
) -> bool:
    """Whether a target can be aligned with its source by known units."""
    length, width = len(source), len(target)
    scores = np.full((length + 1, width + 1), -np.inf)
    sizes = np.zeros((length + 1, width + 1), dtype=np.int64)  # of the best last chunk
    best = np.full((length + 1, width + 1), EMPTY)
    scores[0, 0] = 0
    units[:] = EMPTY
    for i in range(length):
        low, high = first_units[source[i]], first_units[source[i] + 1]
        if low == high:
            scores[i + 1] = scores[i]
        for unit in range(low, high):
            size = 0
            while size < chunks.shape[1] and chunks[unit, size] != EPSILON:
                size += 1
            for j in range(width - size + 1):
                score, other = scores[i, j] + log_probabilities[unit], scores[i + 1, j + size]
                is_better = score > other + TIE or (score > other - TIE and size > sizes[i + 1, j + size])
                if is_better and np.all(chunks[unit, :size] == target[j : j + size]):
                    scores[i + 1, j + size] = score
                    sizes[i + 1, j + size] = size
                    best[i + 1, j + size] = unit
    if scores[length, width] == -np.inf:
        return False
    end = width
    for i in range(length, 0, -1):
        units[i - 1] = best[i, end]
        end -= sizes[i, end]
    return True
