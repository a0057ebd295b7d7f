"""Counting and encoding the words of UTF-8 text with an open-addressing hash table in arrays.

A table is ``slots`` (2^n; -1: empty, else a word id), the ``hashes`` of words, and ``starts``, where each word begins
in ``word_bytes``, the UTF-8 bytes of all words; its end is the start of the next one.
"""

from typing import Any

import numpy as np

from seqloom.kernels.runtime.numba_jit import jit

OFFSET, PRIME = np.uint64(14695981039346656037), np.uint64(1099511628211)  # constants of the FNV-1a hash
SHIFT = np.uint64(32)
NEWLINE = 10


@jit
def _whitespace_length(text: Any, at: Any) -> Any:
    """Bytes of the whitespace character (as ``str.isspace``) at a position; 0 if there is none."""
    byte = text[at]
    if byte <= 32:
        return 1 if byte == 32 or 9 <= byte <= 13 or 28 <= byte <= 31 else 0
    if byte == 0xC2 and at + 1 < len(text):  # U+0085, U+00A0
        return 2 if text[at + 1] in (0x85, 0xA0) else 0
    if 0xE1 <= byte <= 0xE3 and at + 2 < len(text):
        middle, last = text[at + 1], text[at + 2]
        if byte == 0xE2 and middle == 0x80:  # U+2000 to U+200A, U+2028, U+2029, U+202F
            return 3 if last <= 0x8A or last in (0xA8, 0xA9, 0xAF) else 0
        other = (byte == 0xE1 and middle == 0x9A) or (byte == 0xE3 and middle == 0x80)  # U+1680, U+3000
        return 3 if (other and last == 0x80) or (byte == 0xE2 and middle == 0x81 and last == 0x9F) else 0
    return 0


@jit
def _fold_hash(code: Any) -> Any:
    return np.uint32((code ^ (code >> SHIFT)) & np.uint64(0xFFFFFFFF))


@jit
def _hash(text: Any, start: Any, stop: Any) -> Any:
    code = OFFSET
    for at in range(start, stop):
        code = (code ^ np.uint64(text[at])) * PRIME
    return _fold_hash(code)


@jit
def _find_slot(
    text: Any, start: Any, stop: Any, code: Any, slots: Any, hashes: Any, starts: Any, word_bytes: Any
) -> Any:
    """The slot of a word, or the empty slot where it belongs."""
    mask = np.int64(len(slots) - 1)
    slot = np.int64(code) & mask
    while slots[slot] >= 0:
        word = slots[slot]
        if hashes[word] == code and starts[word + 1] - starts[word] == stop - start:
            same = True
            begin = starts[word]
            for at in range(stop - start):
                if word_bytes[begin + at] != text[start + at]:
                    same = False
                    break
            if same:
                return slot
        slot = (slot + 1) & mask
    return slot


@jit
def _next_word(text: Any, at: Any) -> Any:
    """The next word: its begin and end, its hash, and whether a line ends before it."""
    ended = False
    while at < len(text):
        byte = text[at]
        if byte == 32:
            at += 1
            continue
        length = _whitespace_length(text, at)
        if not length:
            break
        ended = ended or byte == NEWLINE
        at += length
    stop, code = at, OFFSET
    while stop < len(text):
        byte = text[stop]
        if (byte <= 32 or 0xC2 <= byte <= 0xE3) and _whitespace_length(text, stop):
            break
        code = (code ^ np.uint64(byte)) * PRIME
        stop += 1
    return at, stop, _fold_hash(code), ended


@jit
def count(
    text: Any, begin: Any, slots: Any, hashes: Any, starts: Any, word_bytes: Any, counts: Any, used: Any, ids: Any
) -> Any:
    """Count the words from ``begin`` on; the position where a table was full, or the length of the text.

    ``used[0]`` is the number of words in the table. If ``ids`` (T,) is not empty, the word ids are written to it,
    -1 between lines, and their number to ``used[1]``.
    """
    at, written = begin, 0
    while True:
        start, stop, code, ended = _next_word(text, at)
        if start == stop:
            used[1] = written
            return len(text)
        if len(ids) and ended and written:
            ids[written] = -1
            written += 1
        slot = _find_slot(text, start, stop, code, slots, hashes, starts, word_bytes)
        word = np.int64(slots[slot])
        if word < 0:
            word = np.int64(used[0])
            fits = starts[word] + stop - start <= len(word_bytes)
            if not fits or 2 * (word + 1) > len(slots) or word >= len(counts):
                used[1] = written
                return at
            word_bytes[starts[word] : starts[word] + stop - start] = text[start:stop]
            starts[word + 1] = starts[word] + stop - start
            hashes[word] = code
            slots[slot] = word
            used[0] = word + 1
        counts[word] += 1
        if len(ids):
            ids[written] = word
            written += 1
        at = stop


@jit
def index(slots: Any, hashes: Any, starts: Any, word_bytes: Any) -> Any:
    """Fill the slots and hashes of given words; the id of a duplicate, or -1."""
    for word in range(len(hashes)):
        code = _hash(word_bytes, starts[word], starts[word + 1])
        hashes[word] = code
        slot = _find_slot(word_bytes, starts[word], starts[word + 1], code, slots, hashes, starts, word_bytes)
        if slots[slot] >= 0:
            return word
        slots[slot] = word
    return -1


@jit
def encode(text: Any, slots: Any, hashes: Any, starts: Any, word_bytes: Any, ids: Any) -> Any:
    """Write the ids of known words, -1 between lines; their number."""
    at, written = 0, 0
    while True:
        start, stop, code, ended = _next_word(text, at)
        if ended and written and ids[written - 1] >= 0:
            ids[written] = -1
            written += 1
        if start == stop:
            return written
        slot = _find_slot(text, start, stop, code, slots, hashes, starts, word_bytes)
        if slots[slot] >= 0:
            ids[written] = slots[slot]
            written += 1
        at = stop


@jit
def count_pairs(ids: Any, keys: Any, counts: Any, used: Any) -> Any:
    """Count pairs of adjacent words, keyed by (first << 32) + second; False if the table needs to grow."""
    mask = np.int64(len(keys) - 1)
    for at in range(len(ids) - 1):
        first, second = np.int64(ids[at]), np.int64(ids[at + 1])
        if first >= 0 and second >= 0:
            key = (first << 32) + second
            slot = _hash_pair(key) & mask
            while keys[slot] >= 0 and keys[slot] != key:
                slot = (slot + 1) & mask
            if keys[slot] < 0:
                keys[slot] = key
                used[0] += 1
            counts[slot] += 1
    return 2 * used[0] < len(keys)


@jit
def _hash_pair(key: Any) -> Any:
    return np.int64((np.uint64(key) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(20))


@jit
def insert_pairs(keys: Any, pairs: Any, values: Any, pair_values: Any) -> None:
    """Insert pairs and their values into a hash table."""
    mask = np.int64(len(keys) - 1)
    for at in range(len(pairs)):
        slot = _hash_pair(pairs[at]) & mask
        while keys[slot] >= 0:
            slot = (slot + 1) & mask
        keys[slot], values[slot] = pairs[at], pair_values[at]


@jit
def merge_pairs(ids: Any, keys: Any, values: Any) -> Any:
    """Replace pairs that have a value by it, from left to right, in place; the new length."""
    mask = np.int64(len(keys) - 1)
    at, written = 0, 0
    while at < len(ids):
        word = ids[at]
        if at + 1 < len(ids) and word >= 0 and ids[at + 1] >= 0:
            key = (np.int64(word) << 32) + np.int64(ids[at + 1])
            slot = _hash_pair(key) & mask
            while keys[slot] >= 0 and keys[slot] != key:
                slot = (slot + 1) & mask
            if keys[slot] == key:
                word = values[slot]
                at += 1
        ids[written] = word
        written += 1
        at += 1
    return written
