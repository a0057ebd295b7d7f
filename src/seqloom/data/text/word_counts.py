"""The words of a text of any size: counted by several threads, kept as a few arrays, found again by their spelling."""

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from seqloom.data.text.passages import Passage

ROUND = 64  # passages that are handed out to the threads at a time
NEAR = 100_000  # of the most frequent words, among which a similar spelling is looked for
ALIKE = 0.6  # share of the letters from which on a spelling is similar


class WordCounts(NamedTuple):
    """Words from the most to the least frequent, those of equal frequency in the order of the alphabet."""

    words: list[str]
    counts: NDArray[np.int64]
    passages: int
    length: int  # of all passages together, as they know it
    pairs: list[tuple[int, int, int]]  # words that became one: the first, the second, the one


class PhraseSettings(NamedTuple):
    """When two words that stand side by side become one: (count - discount) × words / (first × second) ≥ threshold."""

    threshold: float
    discount: int


class WordIndex:
    """Words by number, and numbers by word, of any size: letters and a table of hashes."""

    def __init__(self, text: str, *, pairs: Sequence[tuple[int, int, int]] = ()) -> None:  # separated by line feeds
        self.letters = np.frombuffer(text.replace("\n", "").encode(), np.uint8)
        lengths = np.frombuffer(text.encode(), np.uint8)
        ends = np.flatnonzero(np.append(lengths, 10) == 10) if text else np.zeros(0, np.int64)
        self.starts = np.concatenate([[0], ends - np.arange(len(ends))]).astype(np.int64)
        self.pairs = pairs

    def __len__(self) -> int:
        return len(self.starts) - 1

    def __getitem__(self, number: int) -> str:
        start, stop = self.starts[number : number + 2]
        return self.letters[start:stop].tobytes().decode()

    def __iter__(self) -> Iterator[str]:
        return map(self.__getitem__, range(len(self)))

    @cached_property
    def _table(self) -> tuple[Any, ...]:
        from seqloom.kernels.word2vec import word_counts

        slots = np.full(_power(2 * len(self) + 2), -1, np.int32)
        hashes = np.zeros(len(self), np.uint32)
        twice = word_counts.index(slots, hashes, self.starts, self.letters)
        if twice >= 0:
            raise ValueError(f"the word {self[twice]!r} is there twice")
        return slots, hashes, self.starts, self.letters

    @cached_property
    def _joined(self) -> tuple[Any, ...]:
        from seqloom.kernels.word2vec import word_counts

        given = np.array(self.pairs, np.int64).reshape(-1, 3)
        keys = np.full(_power(2 * len(given) + 2), -1, np.int64)
        values = np.zeros(len(keys), np.int32)
        word_counts.insert_pairs(keys, (given[:, 0] << 32) + given[:, 1], values, given[:, 2])
        return keys, values

    def encode(self, text: bytes) -> NDArray[np.int32]:
        """The numbers of the words of a text that are known, -1 at the end of a line. Other threads run meanwhile."""
        from seqloom.kernels.word2vec import word_counts

        found = np.empty(len(text) + 1, np.int32)
        count = word_counts.encode(np.frombuffer(text, np.uint8), *self._table, found)
        if self.pairs:
            count = word_counts.merge_pairs(found[:count], *self._joined)
        return found[:count]

    def find(self, word: str) -> int:
        """The number of a word, as it is written or in small letters; -1: it is not known."""
        for spelt in (word, word.lower()):
            found = self.encode(spelt.encode())
            if len(found) == 1 and self[int(found[0])] == spelt:
                return int(found[0])
        return -1

    def nearest(self, word: str) -> str:
        """The known word whose spelling is most like that of one that is not; empty: none is like it."""
        from rapidfuzz import process
        from rapidfuzz.distance import OSA

        known = [self[number] for number in range(min(len(self), NEAR))]
        found = process.extractOne(word.lower(), known, scorer=OSA.normalized_similarity, score_cutoff=ALIKE)
        return found[0] if found else ""


def _power(least: int) -> int:
    """The power of two that is not smaller."""
    return 1 << max(least - 1, 1).bit_length()


class _Table:
    """Words and their counts, as far as they were read; it grows."""

    def __init__(self, *, pairs: bool) -> None:
        self.slots = np.full(1 << 14, -1, np.int32)
        self.hashes, self.counts = np.zeros(1 << 13, np.uint32), np.zeros(1 << 13, np.int64)
        self.starts, self.letters = np.zeros((1 << 13) + 1, np.int64), np.zeros(1 << 17, np.uint8)
        self.used = np.zeros(2, np.int64)
        self.keys = np.full(1 << 16 if pairs else 0, -1, np.int64)
        self.times = np.zeros(len(self.keys), np.int64)
        self.known = np.zeros(1, np.int64)  # how many pairs

    def add(self, text: bytes) -> None:
        from seqloom.kernels.word2vec import word_counts

        data = np.frombuffer(text, np.uint8)
        numbers = np.empty(len(data) + 2 if len(self.keys) else 0, np.int32)
        at = 0
        while at < len(data):
            table = (self.slots, self.hashes, self.starts, self.letters, self.counts)
            at = word_counts.count(data, at, *table, self.used, numbers)
            if len(self.keys) and not word_counts.count_pairs(
                numbers[: self.used[1]], self.keys, self.times, self.known
            ):
                self._more_pairs()
            if at < len(data):
                self._grow(len(data))

    def _grow(self, longest: int) -> None:
        from seqloom.kernels.word2vec import word_counts

        count = int(self.used[0])
        self.hashes = np.zeros(2 * len(self.hashes), np.uint32)
        self.counts = np.concatenate([self.counts, np.zeros_like(self.counts)])
        self.starts = np.concatenate([self.starts, np.zeros(len(self.starts), np.int64)])
        self.letters = np.concatenate([self.letters, np.zeros(len(self.letters) + longest, np.uint8)])
        self.slots = np.full(2 * len(self.slots), -1, np.int32)
        word_counts.index(self.slots, self.hashes[:count], self.starts, self.letters)

    def _more_pairs(self) -> None:
        from seqloom.kernels.word2vec import word_counts

        kept = self.keys >= 0
        given, times = self.keys[kept], self.times[kept]
        self.keys = np.full(4 * len(self.keys), -1, np.int64)
        values = np.zeros(len(self.keys), np.int64)
        word_counts.insert_pairs(self.keys, given, values, times)
        self.times = values

    def word(self, number: int) -> str:
        start, stop = self.starts[number : number + 2]
        return self.letters[start:stop].tobytes().decode()

    def merge(self, other: "_Table") -> None:
        """Add what another one has counted; of words only."""
        from seqloom.kernels.word2vec import word_counts

        size = int(other.used[0])
        letters, starts = other.letters[: other.starts[size]], other.starts[1:size]
        text = np.insert(letters, starts, 32)  # each word once, in their order
        numbers = np.empty(len(text) + 2, np.int32)
        at = done = 0
        while at < len(text):
            table = (self.slots, self.hashes, self.starts, self.letters, self.counts)
            at = word_counts.count(text, at, *table, self.used, numbers)
            found = numbers[: self.used[1]]
            self.counts[found] += other.counts[done : done + len(found)] - 1  # it was counted once just now
            done += len(found)
            if at < len(text):
                self._grow(len(text))


def count(
    passages: Iterable[Passage],
    *,
    minimum: int = 1,
    size: int = 0,  # at most so many; 0: all
    threads: int = 1,
    phrases: PhraseSettings | None = None,  # counted by one thread
) -> WordCounts:
    """Count the words of a text, read once."""
    tables = [_Table(pairs=phrases is not None) for _ in range(1 if phrases else max(threads, 1))]
    read = iter(passages)
    number = length = 0
    with ThreadPoolExecutor(len(tables), thread_name_prefix="seqloom-words") as executor:
        while some := list(islice(read, ROUND * len(tables))):
            number += len(some)
            length += sum(map(len, some))
            parts = [(table, some[index :: len(tables)]) for index, table in enumerate(tables)]
            if len(tables) == 1:
                _count_all(*parts[0])
            else:
                list(executor.map(lambda part: _count_all(*part), parts))
    whole = tables[0]
    for other in tables[1:]:
        whole.merge(other)
    return _rank(whole, number, length, minimum=minimum, size=size, phrases=phrases)


def _count_all(table: _Table, passages: Sequence[Passage]) -> None:
    for passage in passages:
        table.add(passage.data)


def _rank(
    table: _Table, passages: int, length: int, *, minimum: int, size: int, phrases: PhraseSettings | None
) -> WordCounts:
    counts = table.counts[: table.used[0]]
    total = int(counts.sum())
    frequent = np.flatnonzero(counts >= minimum).tolist()
    names = {number: table.word(number) for number in frequent}
    joined: dict[str, tuple[int, int, int]] = {}  # by its spelling: first, second, count
    if phrases:
        for key, times in zip(table.keys.tolist(), table.times.tolist(), strict=True):
            first, second = key >> 32, key & 0xFFFFFFFF
            if times < max(minimum, phrases.discount + 1) or first not in names or second not in names:
                continue
            score = (times - phrases.discount) * total / (int(counts[first]) * int(counts[second]))
            spelt = f"{names[first]}_{names[second]}"
            if score >= phrases.threshold:
                joined[spelt] = (first, second, times)
    left = {number: int(counts[number]) for number in frequent}
    for first, second, times in joined.values():
        left[first], left[second] = max(left[first] - times, 1), max(left[second] - times, 1)
    found = [(-left[number], names[number]) for number in frequent]
    spelt_apart = set(names.values()) if joined else set()
    found += [(-times, spelt) for spelt, (_, _, times) in joined.items() if spelt not in spelt_apart]
    found.sort()
    if size:
        found = found[:size]
    order = {word: number for number, (_, word) in enumerate(found)} if joined else {}
    pairs = [
        (order[names[first]], order[names[second]], order[spelt])
        for spelt, (first, second, _) in joined.items()
        if spelt in order and names[first] in order and names[second] in order
    ]
    values = np.array([-count for count, _ in found], np.int64)
    return WordCounts([word for _, word in found], values, passages, length, sorted(pairs))
