"""Passages preserve the text, and errors name file and line."""

import gzip
import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seqloom.data.readers.text_files import DataError
from seqloom.data.text.passages import LONGEST, passages

SIZE = 1 << 12  # bytes, so that small texts have many passages


@pytest.fixture(autouse=True, scope="module")
def small() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("seqloom.data.text.passages.SIZE", SIZE)
        yield


@given(st.lists(st.integers(0, 3 * SIZE // 8), max_size=12), st.booleans())
def test_passages_preserve_the_text(tmp_path_factory: pytest.TempPathFactory, lengths: list[int], ended: bool) -> None:
    path = tmp_path_factory.mktemp("text") / "text"
    text = "\n".join("word é " * length for length in lengths) + "\n" * ended
    path.write_bytes(text.encode())
    actual = list(passages(path))
    assert b"".join(each.data for each in actual).decode() == text
    for before, after in itertools.pairwise(actual):
        assert after.location.line == before.location.line + before.data.count(b"\n")
    words = sum(map(len, actual))
    assert len(text.split()) <= words <= len(text.split()) + len(lengths) + 1


def test_encodings_gzip_and_folders(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes("Été\r\n".encode("latin-1"))
    (tmp_path / "b.gz").write_bytes(gzip.compress("Là\n".encode("latin-1")))
    actual = [each.data.decode() for each in passages(tmp_path, encoding="latin-1", lowercase=True)]
    assert actual == ["été\r\n", "là\n"]
    (tmp_path / "mark").write_bytes(b"\xef\xbb\xbfone two")
    assert [each.data for each in passages(tmp_path / "mark")] == [b"one two"]
    (tmp_path / "mark").write_text("one été", encoding="utf-16")
    assert [each.data.decode() for each in passages(tmp_path / "mark", encoding="latin-1")] == ["one été"]
    assert next(iter(passages(["Ab\ncd"], lowercase=True))).data == b"ab\ncd"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"ok\n" * 9000 + b"bad \xff byte\n", r"text:9001: expected UTF-8, found byte 0xff at byte 5 of the line"),
        (b"ok\nnul\0\n", r"text:2: expected text, found a NUL byte"),
        (b"\xff\xfeo\0k", "text: the byte order mark is that of UTF-16, but the text is not valid: truncated data"),
        (b"x" * (LONGEST + SIZE + 1), "without whitespace"),
        (gzip.compress(b"word " * 99999)[:-9], "damaged or truncated"),
    ],
)
def test_errors_name_the_line(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "text").write_bytes(content)
    with pytest.raises(DataError, match=message):
        list(passages(tmp_path / "text"))


def test_list_of_strings() -> None:
    with pytest.raises(DataError, match="input:2: expected a string, found int"):
        list(passages(["a", 3]))
