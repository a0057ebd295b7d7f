"""The table of units, and expected counts against the sum over all alignments."""

import itertools
import math

import numpy as np

from seqloom.kernels.joint_ngram import alignment as kernel

LONGEST = 2


def test_keys_find_their_slot_even_if_the_table_is_half_full() -> None:
    keys = np.full(256, kernel.EMPTY, dtype=np.int64)
    chosen = np.random.default_rng(1).choice(2**62, 128, replace=False)
    for key in chosen:
        keys[kernel.slot(keys, key)] = key
    assert sorted(keys[keys != kernel.EMPTY]) == sorted(chosen)
    assert [keys[kernel.slot(keys, key)] for key in chosen] == chosen.tolist()


def test_expected_counts() -> None:
    source, target = np.array([1, 0, 1]), np.array([2, 3, 2, 2])
    chunks = np.array([[0, 1, 2], [0, 3, 4], [0, 1, 5], [0, 1, 0]])  # numbers of ∅, 2, 23, 3, 32, 22
    count, keys = 6, np.full(64, kernel.EMPTY, dtype=np.int64)
    grid = source, np.array([0, 3]), np.array([0, 4]), chunks, count
    possible = kernel.collect_units(*grid, keys)
    probabilities = np.random.default_rng(2).random(64) * (keys != kernel.EMPTY)
    expected, total, found = np.zeros(64), 0.0, set()
    paths = [sizes for sizes in itertools.product(range(LONGEST + 1), repeat=3) if sum(sizes) == len(target)]
    for sizes in paths:
        begins = np.cumsum([0, *sizes[:-1]])
        numbers = [int(chunks[begin, size]) if size else 0 for begin, size in zip(begins, sizes, strict=True)]
        slots = [
            kernel.slot(keys, int(letter) * count + number) for letter, number in zip(source, numbers, strict=True)
        ]
        weight = math.prod(probabilities[slots])
        total += weight
        found.update(slots)
        np.add.at(expected, slots, weight)
    counts = np.zeros(64)
    kernel.expected_counts(*grid, keys, probabilities, counts)
    assert possible == len(found)
    np.testing.assert_allclose(counts, expected / total)
