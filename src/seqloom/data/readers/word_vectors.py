"""Word vectors in the formats of word2vec, text and binary, and of GloVe: read, and written."""

import re
from collections.abc import Container, Iterable
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from seqloom.data.readers.text_files import DataError, Location, lines, opened

HEAD = re.compile(rb"(\d{1,12}) (\d{1,6})\r?\n")
LONGEST_WORD = 1 << 16  # bytes
LOOKED_AT = 1 << 16  # bytes by which text is told from binary numbers

Found = tuple[list[str], NDArray[np.float32]]


def read_vectors(path: Path, wanted: Container[str] | None = None) -> Found:
    """The words and their vectors (words, D); ``wanted``: only those words.

    In text, each line is a word and its numbers, separated by blanks. A first line of two numbers is how many words
    there are and how many numbers each has (word2vec); without it (GloVe) the first word's numbers are counted. A word
    may have blanks inside; of a word that comes twice the first is taken. In binary, after such a first line each word
    is followed by a blank and its numbers of four bytes, the lowest byte first.
    """
    if path != Path("-") and _is_binary(path):
        return _read_binary(path, wanted)
    words: dict[str, None] = {}
    vectors: list[NDArray[np.float32]] = []
    promised, size, count = -1, 0, 0
    location = Location(str(path), 1)
    for location, text in lines(path):
        line = text.rstrip(" ")
        if location.line == 1 and len(header := line.split(" ")) == 2 and all(field.isdecimal() for field in header):
            promised, size = map(int, header)
            continue
        if not line:
            continue
        size = size or line.count(" ")
        fields = line.rsplit(" ", size) if size else [line]
        if len(fields) != size + 1 or not size:
            raise DataError(location, f"found {len(fields) - 1} numbers after a word; {size or 'at least 1'} wanted")
        count += 1
        word = fields[0]
        if word in words or (wanted is not None and word not in wanted):
            continue
        words[word] = None
        vectors.append(_vector(location, fields[1:]))
    if promised not in (-1, count):
        raise DataError(
            location.file, f"the first line promises {promised} words, and there are {count}: is it cut off?"
        )
    return list(words), np.array(vectors, dtype=np.float32).reshape(len(words), size)


def write_vectors(path: Path, words: Iterable[str], vectors: NDArray[np.float32], *, binary: bool) -> None:
    """Write words and their vectors (words, D) in the format of word2vec; nothing is held in memory."""
    count, size = vectors.shape
    with path.open("wb") as file:
        file.write(f"{count} {size}\n".encode())
        for word, vector in zip(words, vectors, strict=True):
            name = word.encode()
            if re.search(rb"[ \n]", name) or not name:
                raise ValueError(
                    f"{path}: the word {word!r} has a blank inside, or nothing, which the format cannot hold"
                )
            if binary:
                file.write(name + b" " + vector.astype("<f4").tobytes() + b"\n")
            else:
                file.write(name + b" " + " ".join(map(str, vector)).encode() + b"\n")


def _is_binary(path: Path) -> bool:
    """Whether the first line promises words and numbers, and what follows is no line of text with so many."""
    with opened(path, str(path)) as file:
        try:
            start = file.read(LOOKED_AT)
        except (OSError, EOFError):  # told by the read that follows
            return False
    head = HEAD.match(start)
    if not head or head.end() == len(start):
        return False
    line = start[head.end() :].partition(b"\n")[0]
    fields = line.decode(errors="replace").rstrip(" \r").rsplit(" ", int(head[2]))
    if len(fields) == int(head[2]) + 1 and _numbers(fields[1:]):
        return False
    return b"\0" in start or start.decode(errors="replace").count("\ufffd") > len(start) // 50  # no text


def _numbers(fields: list[str]) -> bool:
    try:
        return bool([float(field) for field in fields])
    except ValueError:
        return False


def _read_binary(path: Path, wanted: Container[str] | None) -> Found:
    words: dict[str, None] = {}
    vectors: list[NDArray[np.float32]] = []
    with opened(path, str(path)) as file:
        head = HEAD.fullmatch(file.readline(64))
        if head is None:
            raise DataError(str(path), "the first line is not how many words and numbers there are")
        count, size = int(head[1]), int(head[2])
        for number in range(count):
            word = _word(file, path, number)
            data = file.read(4 * size)
            if len(data) < 4 * size:
                raise DataError(str(path), f"the first line promises {count} words, and word {number + 1} is cut off")
            if word in words or (wanted is not None and word not in wanted):
                continue
            vector = np.frombuffer(data, "<f4").astype(np.float32)
            if not np.isfinite(vector).all():
                raise DataError(str(path), f"a number after the word {word[:40]!r} is infinite or missing")
            words[word] = None
            vectors.append(vector)
    return list(words), np.array(vectors, dtype=np.float32).reshape(len(words), size)


def _word(file: BinaryIO, path: Path, number: int) -> str:
    """Up to a blank; a line feed may stand before it, as word2vec writes one behind the numbers."""
    found = bytearray()
    while (byte := file.read(1)) != b" ":
        if not byte or len(found) > LONGEST_WORD:
            raise DataError(str(path), f"word {number + 1} has no end: is the file cut off, or of another format?")
        if byte != b"\n" or found:
            found += byte
    try:
        return found.decode()
    except UnicodeDecodeError:
        raise DataError(str(path), f"word {number + 1} is not UTF-8: found {bytes(found[:40])!r}") from None


def _vector(location: Location, fields: list[str]) -> NDArray[np.float32]:
    try:
        vector = np.array(fields, dtype=np.float32)
    except ValueError as error:
        raise DataError(location, f"not numbers after the word ({error})") from None
    if not np.isfinite(vector).all():
        raise DataError(location, "a number after the word is infinite or missing")
    return vector
