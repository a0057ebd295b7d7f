from pathlib import Path

import numpy as np
import pytest

from seqloom.data.formats import BadData
from seqloom.data.pretrained import read_vectors


def written(folder: Path, *lines: str) -> Path:
    path = folder / "vectors.txt"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


@pytest.mark.parametrize("first", [[], ["3 2"]])
def test_words_and_vectors_with_and_without_a_header(tmp_path: Path, first: list[str]) -> None:
    words, vectors = read_vectors(written(tmp_path, *first, "the 1 2", "Straße 0.5 -1e-3", ". . 3 4 "))
    assert words == ["the", "Straße", ". ."]
    np.testing.assert_array_equal(vectors, np.array([[1, 2], [0.5, -1e-3], [3, 4]], dtype=np.float32))


def test_only_what_is_wanted_and_the_first_of_two(tmp_path: Path) -> None:
    words, vectors = read_vectors(written(tmp_path, "4 1", "a 1", "b 2", "a 3", "c 4"), {"a", "c", "d"})
    assert words == ["a", "c"]
    assert vectors.tolist() == [[1], [4]]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["a 1 2", "b 1"], "vectors.txt:2: found 1 numbers after a word; 2 wanted"),
        (["a 1 2", "b 1 x"], "vectors.txt:2: not numbers after the word"),
        (["a 1 nan"], "vectors.txt:1: a number after the word is infinite or missing"),
        (["a"], "vectors.txt:1: found 0 numbers after a word; at least 1 wanted"),
        (["3 1", "a 1", "b 2"], "vectors.txt: the first line promises 3 words, and there are 2"),
    ],
)
def test_what_is_wrong_is_named_by_line(tmp_path: Path, lines: list[str], message: str) -> None:
    with pytest.raises(BadData) as error:
        read_vectors(written(tmp_path, *lines))
    assert message in str(error.value)
