"""Words of UTF-8 text counted, and looked up: a table of hashes with open addressing, in arrays alone.

A table is ``slots`` (a power of two; -1: free, else the number of a word), ``hashes`` of words, and ``starts``, where
each word begins in ``letters``; its end is the start of the next one.
"""

from typing import Any

import numpy as np

from seqloom.kernels.compiled import compiled

OFFSET, PRIME = np.uint64(14695981039346656037), np.uint64(1099511628211)  # of the hash FNV-1a
SHIFT = np.uint64(32)
LINE = 10  # what ends a line


@compiled
def _blank(text: Any, at: Any) -> Any:
    """How many bytes the white space that begins here has, as Python knows it; 0 where there is none."""
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


@compiled
def _folded(code: Any) -> Any:
    return np.uint32((code ^ (code >> SHIFT)) & np.uint64(0xFFFFFFFF))


@compiled
def _hash(text: Any, start: Any, stop: Any) -> Any:
    code = OFFSET
    for at in range(start, stop):
        code = (code ^ np.uint64(text[at])) * PRIME
    return _folded(code)


@compiled
def _slot(text: Any, start: Any, stop: Any, code: Any, slots: Any, hashes: Any, starts: Any, letters: Any) -> Any:
    """Where a word stands in the table, or would."""
    mask = np.int64(len(slots) - 1)
    slot = np.int64(code) & mask
    while slots[slot] >= 0:
        number = slots[slot]
        if hashes[number] == code and starts[number + 1] - starts[number] == stop - start:
            same = True
            begin = starts[number]
            for at in range(stop - start):
                if letters[begin + at] != text[start + at]:
                    same = False
                    break
            if same:
                return slot
        slot = (slot + 1) & mask
    return slot


@compiled
def _word(text: Any, at: Any) -> Any:
    """Where the word that begins at or after a place begins and ends, its hash, and whether a line ends before it."""
    ended = False
    while at < len(text):
        byte = text[at]
        if byte == 32:
            at += 1
            continue
        blank = _blank(text, at)
        if not blank:
            break
        ended = ended or byte == LINE
        at += blank
    stop, code = at, OFFSET
    while stop < len(text):
        byte = text[stop]
        if (byte <= 32 or 0xC2 <= byte <= 0xE3) and _blank(text, stop):
            break
        code = (code ^ np.uint64(byte)) * PRIME
        stop += 1
    return at, stop, _folded(code), ended


@compiled
def count(
    text: Any, begin: Any, slots: Any, hashes: Any, starts: Any, letters: Any, counts: Any, used: Any, numbers: Any
) -> Any:
    """Count the words from a place on: where it ended, since a table was full, or the length of the text.

    ``used`` holds how many words there are. With ``numbers`` (T,) they are written down, -1 between lines: how many
    is put into used[1].
    """
    at, noted = begin, 0
    while True:
        start, stop, code, ended = _word(text, at)
        if start == stop:
            used[1] = noted
            return len(text)
        if len(numbers) and ended and noted:
            numbers[noted] = -1
            noted += 1
        slot = _slot(text, start, stop, code, slots, hashes, starts, letters)
        number = np.int64(slots[slot])
        if number < 0:
            number = np.int64(used[0])
            room = starts[number] + stop - start <= len(letters)
            if not room or 2 * (number + 1) > len(slots) or number >= len(counts):
                used[1] = noted
                return at
            letters[starts[number] : starts[number] + stop - start] = text[start:stop]
            starts[number + 1] = starts[number] + stop - start
            hashes[number] = code
            slots[slot] = number
            used[0] = number + 1
        counts[number] += 1
        if len(numbers):
            numbers[noted] = number
            noted += 1
        at = stop


@compiled
def index(slots: Any, hashes: Any, starts: Any, letters: Any) -> Any:
    """Fill the slots, and the hashes, of words that are known; the number of one that is there twice, or -1."""
    for number in range(len(hashes)):
        code = _hash(letters, starts[number], starts[number + 1])
        hashes[number] = code
        slot = _slot(letters, starts[number], starts[number + 1], code, slots, hashes, starts, letters)
        if slots[slot] >= 0:
            return number
        slots[slot] = number
    return -1


@compiled
def encode(text: Any, slots: Any, hashes: Any, starts: Any, letters: Any, found: Any) -> Any:
    """Write down the numbers of the words that are known, -1 between lines: how many there are."""
    at, noted = 0, 0
    while True:
        start, stop, code, ended = _word(text, at)
        if ended and noted and found[noted - 1] >= 0:
            found[noted] = -1
            noted += 1
        if start == stop:
            return noted
        slot = _slot(text, start, stop, code, slots, hashes, starts, letters)
        if slots[slot] >= 0:
            found[noted] = slots[slot]
            noted += 1
        at = stop


@compiled
def pairs(numbers: Any, keys: Any, counts: Any, used: Any) -> Any:
    """Count words that stand side by side; False where the table, (first << 32) + second, is too small to go on."""
    mask = np.int64(len(keys) - 1)
    for at in range(len(numbers) - 1):
        first, second = np.int64(numbers[at]), np.int64(numbers[at + 1])
        if first >= 0 and second >= 0:
            key = (first << 32) + second
            slot = _scatter(key) & mask
            while keys[slot] >= 0 and keys[slot] != key:
                slot = (slot + 1) & mask
            if keys[slot] < 0:
                keys[slot] = key
                used[0] += 1
            counts[slot] += 1
    return 2 * used[0] < len(keys)


@compiled
def _scatter(key: Any) -> Any:
    return np.int64((np.uint64(key) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(20))


@compiled
def place(keys: Any, given: Any, values: Any, joined: Any) -> None:
    """Put pairs and what stands for them into a table for ``join``."""
    mask = np.int64(len(keys) - 1)
    for at in range(len(given)):
        slot = _scatter(given[at]) & mask
        while keys[slot] >= 0:
            slot = (slot + 1) & mask
        keys[slot], values[slot] = given[at], joined[at]


@compiled
def join(numbers: Any, keys: Any, values: Any) -> Any:
    """Put one number in the place of each pair that has one, from left to right, in place: how many are left."""
    mask = np.int64(len(keys) - 1)
    at, noted = 0, 0
    while at < len(numbers):
        found = numbers[at]
        if at + 1 < len(numbers) and found >= 0 and numbers[at + 1] >= 0:
            key = (np.int64(found) << 32) + np.int64(numbers[at + 1])
            slot = _scatter(key) & mask
            while keys[slot] >= 0 and keys[slot] != key:
                slot = (slot + 1) & mask
            if keys[slot] == key:
                found = values[slot]
                at += 1
        numbers[noted] = found
        noted += 1
        at += 1
    return noted
