import struct
from pathlib import Path

import numpy as np
import pytest

from seqloom.data.readers.text_files import DataError
from seqloom.data.readers.word_vectors import read_vectors, write_vectors


def write(folder: Path, *lines: str) -> Path:
    path = folder / "vectors.txt"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


@pytest.mark.parametrize("first", [[], ["3 2"]])
def test_words_and_vectors_with_and_without_a_header(tmp_path: Path, first: list[str]) -> None:
    words, vectors = read_vectors(write(tmp_path, *first, "the 1 2", "Straße 0.5 -1e-3", ". . 3 4 "))
    assert words == ["the", "Straße", ". ."]
    np.testing.assert_array_equal(vectors, np.array([[1, 2], [0.5, -1e-3], [3, 4]], dtype=np.float32))


def test_vocabulary_filter_and_duplicates(tmp_path: Path) -> None:
    words, vectors = read_vectors(write(tmp_path, "4 1", "a 1", "b 2", "a 3", "c 4"), {"a", "c", "d"})
    assert words == ["a", "c"]
    assert vectors.tolist() == [[1], [4]]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["a 1 2", "b 1"], "vectors.txt:2: expected 2 numbers after the word, found 1"),
        (["a 1 2", "b 1 x"], "vectors.txt:2: expected numbers after the word"),
        (["a 1 nan"], "vectors.txt:1: the vector contains NaN or infinity"),
        (["a"], "vectors.txt:1: expected at least 1 numbers after the word, found 0"),
        (["3 1", "a 1", "b 2"], "vectors.txt: expected 3 words according to the first line, found 2"),
    ],
)
def test_errors_name_the_line(tmp_path: Path, lines: list[str], message: str) -> None:
    with pytest.raises(DataError) as error:
        read_vectors(write(tmp_path, *lines))
    assert message in str(error.value)


def binary(*entries: tuple[str, list[float]], end: bytes = b"\n") -> bytes:
    size = len(entries[0][1])
    parts = [name.encode() + b" " + struct.pack(f"<{size}f", *numbers) + end for name, numbers in entries]
    return f"{len(entries)} {size}\n".encode() + b"".join(parts)


@pytest.mark.parametrize("end", [b"\n", b""])  # word2vec writes a line feed behind the numbers, others do not
def test_binary_format_byte_by_byte(tmp_path: Path, end: bytes) -> None:
    path = tmp_path / "vectors.bin"
    path.write_bytes(binary(("the", [1.5, -2.0, 1e-7]), ("été", [0.0, 0.25, 3.0]), ("the", [9.0, 9.0, 9.0]), end=end))
    words, vectors = read_vectors(path)
    assert words == ["the", "été"]
    np.testing.assert_array_equal(vectors, np.array([[1.5, -2.0, 1e-7], [0.0, 0.25, 3.0]], np.float32))
    assert read_vectors(path, {"été"})[0] == ["été"]


@pytest.mark.parametrize("is_binary", [False, True])
def test_round_trip(tmp_path: Path, is_binary: bool) -> None:
    words = ["the", "naïve", "3.5", "-", "</s>"]
    vectors = np.random.default_rng(0).normal(size=(5, 7)).astype(np.float32)
    write_vectors(tmp_path / "vectors", words, vectors, binary=is_binary)
    actual, numbers = read_vectors(tmp_path / "vectors")
    assert actual == words
    np.testing.assert_array_equal(numbers, vectors)


def test_binary_output_matches_word2vec(tmp_path: Path) -> None:
    write_vectors(tmp_path / "vectors", ["a", "b"], np.array([[1, 2], [3, 4]], np.float32), binary=True)
    assert (tmp_path / "vectors").read_bytes() == binary(("a", [1, 2]), ("b", [3, 4]))


def test_gensim_reads_our_files(tmp_path: Path) -> None:
    gensim = pytest.importorskip("gensim")
    vectors = np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32)
    for is_binary in (False, True):
        write_vectors(tmp_path / "vectors", ["a", "ß", "c"], vectors, binary=is_binary)
        actual = gensim.models.KeyedVectors.load_word2vec_format(str(tmp_path / "vectors"), binary=is_binary)
        assert actual.index_to_key == ["a", "ß", "c"]
        np.testing.assert_array_equal(actual.vectors, vectors)
        actual.save_word2vec_format(str(tmp_path / "theirs"), binary=is_binary)
        np.testing.assert_allclose(read_vectors(tmp_path / "theirs")[1], vectors)


def test_words_with_whitespace_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="'a b' is empty or contains whitespace"):
        write_vectors(tmp_path / "vectors", ["a b"], np.zeros((1, 2), np.float32), binary=True)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (binary(("a", [1.0, 2.0]), ("b", [3.0, 4.0]))[:-4], "word 2 is incomplete"),
        (binary(("a", [1.0, 2.0])).replace(b"1 2\n", b"2 2\n"), "no end of word 2"),
        (binary(("a", [float("nan"), 2.0])), "contains NaN or infinity"),
        (binary(("a", [1.0, 2.0])).replace(b"a ", b"\xff "), "word 1: expected UTF-8"),
    ],
)
def test_errors_in_binary_files(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "vectors").write_bytes(content)
    with pytest.raises(DataError, match=message):
        read_vectors(tmp_path / "vectors")


def test_a_failed_write_keeps_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "vectors.txt"
    path.write_text("before")
    with pytest.raises(ValueError, match="contains whitespace"):
        write_vectors(path, ["a", "b c"], np.zeros((2, 3), np.float32), binary=False)
    assert [file.read_text() for file in tmp_path.iterdir()] == ["before"]
