"""Units of source tokens and the target tokens they stand for, learned from pairs without an alignment."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from seqloom.kernels.joint_ngram import EPSILON
from seqloom.layers.embedding import UNKNOWN
from seqloom.models.ngram.ngram import Integers

ITERATIONS = 12  # of expectation maximisation; later ones hardly change the alignments
SHORTEST_CHUNK, LONGEST_CHUNK = 2, 8
"""Bounds of the number of target tokens per source token that is chosen automatically."""
COVERED = 0.995
"""Fraction of the pairs that this number has to be large enough for."""
MAX_UNITS = 1 << 23
"""Possible units. A table has twice as many slots of 8 bytes, and up to five tables are needed: 700 MB in training."""


@dataclass(frozen=True, eq=False)
class Alignment:
    """The best alignment of each pair as a sequence of units."""

    units: Integers  # (U, 1 + B): a source token, and its target tokens followed by EPSILON
    log_probabilities: NDArray[np.float64]  # (U,)
    texts: list[Integers]  # of each pair that can be aligned, the index of the unit of each source token


def needed_chunk(lengths: Iterable[tuple[int, int]]) -> int:
    """How many target tokens a source token has to stand for, given the lengths of sources and targets."""
    needed = [-(-target // source) for source, target in lengths if source]
    if not needed:
        return SHORTEST_CHUNK
    return min(max(int(np.quantile(needed, COVERED, method="inverted_cdf")), SHORTEST_CHUNK), LONGEST_CHUNK)


def align(
    pairs: Iterable[tuple[Sequence[int], Sequence[int]]],  # ids of the source and of the target
    *,
    longest_chunk: int,  # B, target tokens that a source token can stand for
) -> Alignment:
    """Align pairs by expectation maximisation: all units are equally probable at first.

    Pairs with unknown target tokens are skipped, as those that need longer chunks.
    """
    from seqloom.kernels.joint_ngram import alignment as kernel  # importing numba takes 0.5 s

    known, longest = [pair for pair in pairs if UNKNOWN not in pair[1]], longest_chunk
    sources, source_ends = _flatten([source for source, _ in known])
    targets, target_ends = _flatten([target for _, target in known])
    chunks, contents = _number_chunks(targets, target_ends, longest)
    grid = sources, source_ends, target_ends, chunks, len(contents)
    size, count = 1 << 12, -1
    while count < 0:
        if 4 * size > 2 * MAX_UNITS:
            raise ValueError(
                f"the training pairs have more than {MAX_UNITS:,} possible units of source and target tokens: a joint "
                "n-gram model is for short pairs in the same order, such as words and their pronunciations"
            )
        size *= 4
        keys = np.full(size, kernel.EMPTY, dtype=np.int64)
        count = kernel.collect_units(*grid, keys)
    if not count:
        raise ValueError(f"no pair can be aligned: all targets have more than {longest} tokens per source token")
    probabilities = np.where(keys == kernel.EMPTY, 0.0, 1 / count)
    counts = np.empty_like(probabilities)
    for _ in range(ITERATIONS):
        kernel.expected_counts(*grid, keys, probabilities, counts)
        probabilities = counts / counts.sum()
    best = np.empty_like(sources)
    with np.errstate(divide="ignore"):
        log_probabilities = np.log(probabilities)
    kernel.best_alignments(*grid, keys, log_probabilities, best)
    used, units = np.unique(best[best != kernel.EMPTY], return_inverse=True)
    numbered = np.full(len(best), EPSILON, dtype=np.int64)
    numbered[best != kernel.EMPTY] = units
    rows = np.split(numbered, source_ends[1:-1])
    texts = [row for row in rows if row.size and row[0] != EPSILON]
    tokens, spelled = np.divmod(used, len(contents))
    at = [kernel.slot(keys, key) for key in used]
    return Alignment(np.column_stack([tokens, contents[spelled]]), log_probabilities[at], texts)


def _flatten(texts: Sequence[Sequence[int]]) -> tuple[Integers, Integers]:
    """All texts concatenated, and the end of each, after a 0."""
    ends = np.cumsum([0, *map(len, texts)], dtype=np.int64)
    return np.concatenate([np.zeros(0, dtype=np.int64), *(np.asarray(text, dtype=np.int64) for text in texts)]), ends


def _number_chunks(targets: Integers, ends: Integers, longest: int) -> tuple[Integers, Integers]:
    """The number of the chunk of each length that starts at each target token, and what each chunk consists of.

    Chunk 0 is empty. A chunk of b tokens is numbered by its first b - 1 tokens, as a chunk, and the last one.
    """
    base = int(targets.max(initial=0)) + 1
    numbers = np.zeros((len(targets), longest + 1), dtype=np.int64)
    contents = [np.full((1, longest), EPSILON, dtype=np.int64)]
    remaining = np.repeat(ends[1:], np.diff(ends)) - np.arange(len(targets))  # tokens from here to the end of the text
    count = 1
    for size in range(1, longest + 1):
        (at,) = np.nonzero(remaining >= size)
        last = targets[at + size - 1]
        unique, numbered = np.unique(numbers[at, size - 1] * base + last, return_inverse=True)
        numbers[at, size] = count + numbered
        shorter, token = np.divmod(unique, base)
        content = np.concatenate(contents)[shorter]
        content[:, size - 1] = token
        contents.append(content)
        count += len(unique)
    return numbers, np.concatenate(contents)
