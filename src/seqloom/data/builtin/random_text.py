"""Choosing words at random, for generated sentences."""

import zlib
from collections.abc import Iterable, Iterator
from typing import TypeVar

import numpy as np

from seqloom.data.builtin.held_out import belongs_to

T = TypeVar("T")
Random = np.random.Generator


def generator(split: str, seed: int) -> Random:
    """Random numbers of one file of a data set."""
    return np.random.default_rng([seed, zlib.crc32(split.encode())])


def choose(random: Random, values: Iterable[T]) -> T:
    known = list(values)
    return known[int(random.integers(len(known)))]


def other_than(random: Random, values: Iterable[T], known: T) -> T:
    return choose(random, (value for value in values if value != known))


def distinct(size: int, split: str, rows: Iterator[tuple[str, T]]) -> Iterator[T]:
    """The first ``size`` rows of a file: those whose key belongs to it, each only once."""
    seen: set[T] = set()
    while len(seen) < size:
        key, row = next(rows)
        if belongs_to(split, key) and row not in seen:
            seen.add(row)
            yield row
