"""Word counts and word ids for texts of any size: counted by several threads, stored as a few arrays."""

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from seqloom.data.text.passages import Passage

ROUND = 64  # passages per thread and round
SUGGESTION_WORDS = 100_000  # most frequent words that are searched for a similar spelling
MIN_SIMILARITY = 0.6  # least similarity of a suggested spelling, from 0 to 1


class WordCounts(NamedTuple):
    """Words by decreasing frequency, those of equal frequency in alphabetical order."""

    words: list[str]
    counts: NDArray[np.int64]
    passages: int
    length: int  # sum of the lengths of all passages
    pairs: list[tuple[int, int, int]]  # ids of the first word, the second word and their phrase


class PhraseSettings(NamedTuple):
    """Adjacent words become a phrase if (count - discount) × words / (first × second) ≥ threshold."""

    threshold: float
    discount: int


class WordIndex:
    """Words by id and ids by word, stored as an array of bytes and a hash table."""

    def __init__(self, text: str, *, pairs: Sequence[tuple[int, int, int]] = ()) -> None:  # words on lines
        self.word_bytes = np.frombuffer(text.replace("\n", "").encode(), np.uint8)
        lengths = np.frombuffer(text.encode(), np.uint8)
        ends = np.flatnonzero(np.append(lengths, 10) == 10) if text else np.zeros(0, np.int64)
        self.starts = np.concatenate([[0], ends - np.arange(len(ends))]).astype(np.int64)
        self.pairs = pairs
        if pairs and not 0 <= min(map(min, pairs)) <= max(map(max, pairs)) < len(self):  # kernels do not check
            raise ValueError(f"a phrase contains an id that is no word, expected ids from 0 to {len(self) - 1}")

    def __len__(self) -> int:
        return len(self.starts) - 1

    def __getitem__(self, index: int) -> str:
        start, stop = self.starts[index : index + 2]
        return self.word_bytes[start:stop].tobytes().decode()

    def __iter__(self) -> Iterator[str]:
        return map(self.__getitem__, range(len(self)))

    @cached_property
    def _table(self) -> tuple[Any, ...]:
        from seqloom.kernels.word2vec import word_counts

        slots = np.full(_power_of_two(2 * len(self) + 2), -1, np.int32)
        hashes = np.zeros(len(self), np.uint32)
        duplicate = word_counts.index(slots, hashes, self.starts, self.word_bytes)
        if duplicate >= 0:
            raise ValueError(f"duplicate word {self[duplicate]!r}")
        return slots, hashes, self.starts, self.word_bytes

    @cached_property
    def _phrases(self) -> tuple[Any, ...]:
        from seqloom.kernels.word2vec import word_counts

        pairs = np.array(self.pairs, np.int64).reshape(-1, 3)
        keys = np.full(_power_of_two(2 * len(pairs) + 2), -1, np.int64)
        values = np.zeros(len(keys), np.int32)
        word_counts.insert_pairs(keys, (pairs[:, 0] << 32) + pairs[:, 1], values, pairs[:, 2])
        return keys, values

    def encode(self, text: bytes) -> NDArray[np.int32]:
        """Ids of the known words of a text, and -1 at the end of each line; releases the GIL."""
        from seqloom.kernels.word2vec import word_counts

        ids = np.empty(len(text) + 1, np.int32)
        count = word_counts.encode(np.frombuffer(text, np.uint8), *self._table, ids)
        if self.pairs:
            count = word_counts.merge_pairs(ids[:count], *self._phrases)
        return ids[:count]

    def find(self, word: str) -> int:
        """The id of a word, as written or in lowercase; -1: unknown."""
        for spelling in (word, word.lower()):
            ids = self.encode(spelling.encode())
            if len(ids) == 1 and self[int(ids[0])] == spelling:
                return int(ids[0])
        return -1

    def nearest(self, word: str) -> str:
        """The known word that is spelled most like an unknown one; empty: none is similar."""
        from rapidfuzz import process
        from rapidfuzz.distance import OSA

        known = [self[index] for index in range(min(len(self), SUGGESTION_WORDS))]
        scorer = OSA.normalized_similarity
        match = process.extractOne(word.lower(), known, scorer=scorer, score_cutoff=MIN_SIMILARITY)
        return match[0] if match else ""


def _power_of_two(minimum: int) -> int:
    """The smallest power of two that is not smaller."""
    return 1 << max(minimum - 1, 1).bit_length()


class _WordTable:
    """A growing hash table of words and their counts, optionally with counts of adjacent pairs."""

    def __init__(self, *, pairs: bool) -> None:
        self.slots = np.full(1 << 14, -1, np.int32)
        self.hashes, self.counts = np.zeros(1 << 13, np.uint32), np.zeros(1 << 13, np.int64)
        self.starts, self.word_bytes = np.zeros((1 << 13) + 1, np.int64), np.zeros(1 << 17, np.uint8)
        self.used = np.zeros(2, np.int64)
        self.keys = np.full(1 << 16 if pairs else 0, -1, np.int64)
        self.pair_counts = np.zeros(len(self.keys), np.int64)
        self.pairs = np.zeros(1, np.int64)  # number of pairs

    def add(self, text: bytes) -> None:
        from seqloom.kernels.word2vec import word_counts

        data = np.frombuffer(text, np.uint8)
        word_ids = np.empty(len(data) + 2 if len(self.keys) else 0, np.int32)
        at = 0
        while at < len(data):
            table = (self.slots, self.hashes, self.starts, self.word_bytes, self.counts)
            at = word_counts.count(data, at, *table, self.used, word_ids)
            if len(self.keys) and not word_counts.count_pairs(
                word_ids[: self.used[1]], self.keys, self.pair_counts, self.pairs
            ):
                self._grow_pairs()
            if at < len(data):
                self._grow(len(data))

    def _grow(self, longest: int) -> None:
        from seqloom.kernels.word2vec import word_counts

        count = int(self.used[0])
        self.hashes = np.zeros(2 * len(self.hashes), np.uint32)
        self.counts = np.concatenate([self.counts, np.zeros_like(self.counts)])
        self.starts = np.concatenate([self.starts, np.zeros(len(self.starts), np.int64)])
        self.word_bytes = np.concatenate([self.word_bytes, np.zeros(len(self.word_bytes) + longest, np.uint8)])
        self.slots = np.full(2 * len(self.slots), -1, np.int32)
        word_counts.index(self.slots, self.hashes[:count], self.starts, self.word_bytes)

    def _grow_pairs(self) -> None:
        from seqloom.kernels.word2vec import word_counts

        used = self.keys >= 0
        keys, counts = self.keys[used], self.pair_counts[used]
        self.keys = np.full(4 * len(self.keys), -1, np.int64)
        values = np.zeros(len(self.keys), np.int64)
        word_counts.insert_pairs(self.keys, keys, values, counts)
        self.pair_counts = values

    def word(self, index: int) -> str:
        start, stop = self.starts[index : index + 2]
        return self.word_bytes[start:stop].tobytes().decode()

    def merge(self, other: "_WordTable") -> None:
        """Add the word counts of another table."""
        from seqloom.kernels.word2vec import word_counts

        size = int(other.used[0])
        word_bytes, starts = other.word_bytes[: other.starts[size]], other.starts[1:size]
        text = np.insert(word_bytes, starts, 32)  # each word once, in order
        word_ids = np.empty(len(text) + 2, np.int32)
        at = done = 0
        while at < len(text):
            table = (self.slots, self.hashes, self.starts, self.word_bytes, self.counts)
            at = word_counts.count(text, at, *table, self.used, word_ids)
            ids = word_ids[: self.used[1]]
            self.counts[ids] += other.counts[done : done + len(ids)] - 1  # each was counted once just now
            done += len(ids)
            if at < len(text):
                self._grow(len(text))


def count_words(
    passages: Iterable[Passage],
    *,
    min_count: int = 1,
    max_words: int = 0,  # 0: all
    threads: int = 1,
    phrases: PhraseSettings | None = None,  # needs a single thread
) -> WordCounts:
    """Count the words of a text in one pass."""
    tables = [_WordTable(pairs=phrases is not None) for _ in range(1 if phrases else max(threads, 1))]
    read = iter(passages)
    number = length = 0
    with ThreadPoolExecutor(len(tables), thread_name_prefix="seqloom-words") as executor:
        while chunk := list(islice(read, ROUND * len(tables))):
            number += len(chunk)
            length += sum(map(len, chunk))
            parts = [(table, chunk[index :: len(tables)]) for index, table in enumerate(tables)]
            if len(tables) == 1:
                _count_all(*parts[0])
            else:
                list(executor.map(lambda part: _count_all(*part), parts))
    whole = tables[0]
    for other in tables[1:]:
        whole.merge(other)
    return _rank(whole, number, length, min_count=min_count, max_words=max_words, phrases=phrases)


def _count_all(table: _WordTable, passages: Sequence[Passage]) -> None:
    for passage in passages:
        table.add(passage.data)


def _rank(
    table: _WordTable, passages: int, length: int, *, min_count: int, max_words: int, phrases: PhraseSettings | None
) -> WordCounts:
    counts = table.counts[: table.used[0]]
    total = int(counts.sum())
    frequent = np.flatnonzero(counts >= min_count).tolist()
    names = {index: table.word(index) for index in frequent}
    joined: dict[str, tuple[int, int, int]] = {}  # first word, second word and count of each phrase
    if phrases:
        for key, count in zip(table.keys.tolist(), table.pair_counts.tolist(), strict=True):
            first, second = key >> 32, key & 0xFFFFFFFF
            if count < max(min_count, phrases.discount + 1) or first not in names or second not in names:
                continue
            score = (count - phrases.discount) * total / (int(counts[first]) * int(counts[second]))
            if score >= phrases.threshold:
                joined[f"{names[first]}_{names[second]}"] = (first, second, count)
    remaining = {index: int(counts[index]) for index in frequent}  # occurrences outside of phrases
    for first, second, count in joined.values():
        remaining[first], remaining[second] = max(remaining[first] - count, 1), max(remaining[second] - count, 1)
    ranked = [(-remaining[index], names[index]) for index in frequent]
    single_words = set(names.values()) if joined else set()
    ranked += [(-count, phrase) for phrase, (_, _, count) in joined.items() if phrase not in single_words]
    ranked.sort()
    if max_words:
        ranked = ranked[:max_words]
    ids = {word: index for index, (_, word) in enumerate(ranked)} if joined else {}
    pairs = [
        (ids[names[first]], ids[names[second]], ids[phrase])
        for phrase, (first, second, _) in joined.items()
        if phrase in ids and names[first] in ids and names[second] in ids
    ]
    values = np.array([-count for count, _ in ranked], np.int64)
    return WordCounts([word for _, word in ranked], values, passages, length, sorted(pairs))
