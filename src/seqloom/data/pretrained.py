"""Word vectors that were trained elsewhere, in the text format of word2vec or GloVe."""

from collections.abc import Container
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from seqloom.data.formats import BadData, Place, lines


def read_vectors(path: Path, wanted: Container[str] | None = None) -> tuple[list[str], NDArray[np.float32]]:
    """The words and their vectors (words, D); ``wanted``: only those words.

    Each line is a word and its numbers, separated by blanks. A first line of two numbers is how many words there are
    and how many numbers each has (word2vec); without it (GloVe) the first word's numbers are counted. A word may have
    blanks inside; of a word that comes twice the first is taken.
    """
    words: dict[str, None] = {}
    vectors: list[NDArray[np.float32]] = []
    promised, size, count = -1, 0, 0
    place = Place(str(path), 1)
    for place, text in lines(path):
        line = text.rstrip(" ")
        if place.line == 1 and len(header := line.split(" ")) == 2 and all(field.isdecimal() for field in header):
            promised, size = map(int, header)
            continue
        if not line:
            continue
        size = size or line.count(" ")
        fields = line.rsplit(" ", size) if size else [line]
        if len(fields) != size + 1 or not size:
            raise BadData(place, f"found {len(fields) - 1} numbers after a word; {size or 'at least 1'} wanted")
        count += 1
        word = fields[0]
        if word in words or (wanted is not None and word not in wanted):
            continue
        words[word] = None
        vectors.append(_vector(place, fields[1:]))
    if promised not in (-1, count):
        raise BadData(place.file, f"the first line promises {promised} words, and there are {count}: is it cut off?")
    return list(words), np.array(vectors, dtype=np.float32).reshape(len(words), size)


def _vector(place: Place, fields: list[str]) -> NDArray[np.float32]:
    try:
        vector = np.array(fields, dtype=np.float32)
    except ValueError as error:
        raise BadData(place, f"not numbers after the word ({error})") from None
    if not np.isfinite(vector).all():
        raise BadData(place, "a number after the word is infinite or missing")
    return vector
