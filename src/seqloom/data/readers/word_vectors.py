"""Word vectors in the formats of word2vec (text and binary) and GloVe."""

import re
from collections.abc import Container, Iterable
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from seqloom import files
from seqloom.data.readers.text_files import STANDARD_INPUT, DataError, Location, lines, open_binary

HEADER = re.compile(rb"(\d{1,12}) (\d{1,6})\r?\n")
LONGEST_WORD = 1 << 16  # bytes
DETECTION_BYTES = 1 << 16  # bytes that show whether a file is text or binary

WordVectors = tuple[list[str], NDArray[np.float32]]


def read_vectors(path: Path, vocabulary: Container[str] | None = None) -> WordVectors:
    """The words and their vectors (words, D); ``vocabulary``: only these words.

    In a text file each line is a word and its numbers, separated by spaces. A first line of two numbers is the count of
    words and the size of the vectors (word2vec); without it (GloVe) the first line shows the size. Words may contain
    spaces; the first of duplicate words counts. A binary file has the same first line; then each word is followed by a
    space and its numbers as little-endian float32.
    """
    if path != STANDARD_INPUT and _is_binary(path):
        return _read_binary(path, vocabulary)
    words: dict[str, None] = {}
    vectors: list[NDArray[np.float32]] = []
    announced, size, count = -1, 0, 0
    location = Location(str(path), 1)
    for location, text in lines(path):
        line = text.rstrip(" ")
        if location.line == 1 and len(header := line.split(" ")) == 2 and all(field.isdecimal() for field in header):
            announced, size = map(int, header)
            continue
        if not line:
            continue
        size = size or line.count(" ")
        fields = line.rsplit(" ", size) if size else [line]
        if len(fields) != size + 1 or not size:
            raise DataError(
                location, f"expected {size or 'at least 1'} numbers after the word, found {len(fields) - 1}"
            )
        count += 1
        word = fields[0]
        if word in words or (vocabulary is not None and word not in vocabulary):
            continue
        words[word] = None
        vectors.append(_vector(location, fields[1:]))
    if announced not in (-1, count):
        raise DataError(
            location.file,
            f"expected {announced} words according to the first line, found {count}; is the file truncated?",
        )
    return list(words), np.array(vectors, dtype=np.float32).reshape(len(words), size)


def write_vectors(path: Path, words: Iterable[str], vectors: NDArray[np.float32], *, binary: bool) -> None:
    """Write words and their vectors (words, D) in the format of word2vec, one by one."""
    count, size = vectors.shape
    with files.replacing(path) as file:
        file.write(f"{count} {size}\n".encode())
        for word, vector in zip(words, vectors, strict=True):
            name = word.encode()
            if re.search(rb"[ \n]", name) or not name:
                raise ValueError(
                    f"{path}: word {word!r} is empty or contains whitespace, which the format does not allow"
                )
            if binary:
                file.write(name + b" " + vector.astype("<f4").tobytes() + b"\n")
            else:
                file.write(name + b" " + " ".join(map(str, vector)).encode() + b"\n")


def _is_binary(path: Path) -> bool:
    """Whether a word2vec header is followed by something other than a line of text."""
    with open_binary(path, str(path)) as file:
        try:
            start = file.read(DETECTION_BYTES)
        except (OSError, EOFError):  # reported by the next read
            return False
    header = HEADER.match(start)
    if not header or header.end() == len(start):
        return False
    line = start[header.end() :].partition(b"\n")[0]
    fields = line.decode(errors="replace").rstrip(" \r").rsplit(" ", int(header[2]))
    if len(fields) == int(header[2]) + 1 and _are_numbers(fields[1:]):
        return False
    return b"\0" in start or start.decode(errors="replace").count("\ufffd") > len(start) // 50  # not text


def _are_numbers(fields: list[str]) -> bool:
    try:
        return bool([float(field) for field in fields])
    except ValueError:
        return False


def _read_binary(path: Path, vocabulary: Container[str] | None) -> WordVectors:
    words: dict[str, None] = {}
    vectors: list[NDArray[np.float32]] = []
    with open_binary(path, str(path)) as file:
        header = HEADER.fullmatch(file.readline(64))
        if header is None:
            raise DataError(str(path), "expected the number of words and the vector size on the first line")
        count, size = int(header[1]), int(header[2])
        for number in range(count):
            word = _word(file, path, number)
            data = file.read(4 * size)
            if len(data) < 4 * size:
                raise DataError(
                    str(path),
                    f"the file is truncated: expected {count} words, the vector of word {number + 1} is incomplete",
                )
            if word in words or (vocabulary is not None and word not in vocabulary):
                continue
            vector = np.frombuffer(data, "<f4").astype(np.float32)
            if not np.isfinite(vector).all():
                raise DataError(str(path), f"the vector of {word[:40]!r} contains NaN or infinity")
            words[word] = None
            vectors.append(vector)
    return list(words), np.array(vectors, dtype=np.float32).reshape(len(words), size)


def _word(file: BinaryIO, path: Path, number: int) -> str:
    """The bytes up to a space, after the line feed that word2vec writes at the end of a vector."""
    word = bytearray()
    while (byte := file.read(1)) != b" ":
        if not byte or len(word) > LONGEST_WORD:
            raise DataError(str(path), f"no end of word {number + 1}; is the file truncated, or in another format?")
        if byte != b"\n" or word:
            word += byte
    try:
        return word.decode()
    except UnicodeDecodeError:
        raise DataError(str(path), f"word {number + 1}: expected UTF-8, found {bytes(word[:40])!r}") from None


def _vector(location: Location, fields: list[str]) -> NDArray[np.float32]:
    try:
        vector = np.array(fields, dtype=np.float32)
    except ValueError as error:
        raise DataError(location, f"expected numbers after the word ({error})") from None
    if not np.isfinite(vector).all():
        raise DataError(location, "the vector contains NaN or infinity")
    return vector
