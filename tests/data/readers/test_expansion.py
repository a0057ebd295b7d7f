"""Small files that become large when they are decompressed are refused before they fill the memory."""

import gzip
import io
import sys
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import openpyxl
import pyarrow as pa
import pytest
import soundfile
from PIL import Image
from pyarrow import parquet

from seqloom.data.readers import audio_files, expansion, file_lists, npz, pixels
from seqloom.data.readers.tables import read_table
from seqloom.data.readers.text_files import DataError, Location, lines
from seqloom.data.text.passages import passages

SIZE = 1 << 21  # decompressed bytes; some thousand when they are compressed
BOMB = b"a" * SIZE


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expansion, "FREE_BYTES", 1 << 18)


def write_gzip(folder: Path) -> Path:
    path = folder / "text.gz"
    path.write_bytes(gzip.compress(BOMB))
    return path


def write_zip(folder: Path) -> Path:
    path = folder / "text.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("text.txt", BOMB)
    return path


def write_tar(folder: Path) -> Path:
    path = folder / "files.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        member = tarfile.TarInfo("text.txt")
        member.size = SIZE
        archive.addfile(member, io.BytesIO(BOMB))
    return path


def write_npz(folder: Path) -> Path:
    path = folder / "x.npz"
    np.savez_compressed(path, x=np.zeros(SIZE))
    return path


def write_png(folder: Path) -> Path:
    path = folder / "x.png"
    Image.fromarray(np.zeros((2000, 2000, 3), np.uint8)).save(path)
    return path


def write_flac(folder: Path) -> Path:
    path = folder / "x.flac"
    soundfile.write(path, np.zeros(SIZE, np.int16), 16000)
    return path


def write_texts(folder: Path) -> Path:
    """One text, stored once, in a thousand rows."""
    path = folder / "texts.parquet"
    parquet.write_table(pa.table({"x": ["a" * 10_000] * 1000}), path)
    return path


def write_lists(folder: Path) -> Path:
    path = folder / "lists.parquet"
    parquet.write_table(pa.table({"x": [["a" * 10_000] * 1000]}), path)
    return path


def write_numbers(folder: Path) -> Path:
    path = folder / "numbers.parquet"
    parquet.write_table(pa.table({"x": [[0.0] * SIZE]}), path)
    return path


def write_workbook(folder: Path, *, column: str = "A") -> Path:
    path = folder / "x.xlsx"
    book = openpyxl.Workbook()
    for row in range(1, 101):
        book.active[f"{column}{row}"] = row
    book.save(path)
    return path


def write_member(folder: Path) -> Path:
    path = write_workbook(folder)
    with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("xl/media/x.txt", BOMB)
    return path


def read_rows(path: Path) -> Iterator[Any]:
    return read_table(path).records


def read_listed(path: Path) -> Iterator[bytes]:
    names = [(Location("list.tsv", 1), "text.txt")]
    return file_lists.load(names, lambda stream, _: stream.read(), folder=path.parent, files=str(path))


def decode(path: Path) -> Iterator[Any]:
    with path.open("rb") as stream:
        yield pixels.decode(stream, size=8)


BOMBS: dict[str, tuple[Callable[[Path], Path], Callable[[Path], Any]]] = {
    "gzip": (write_gzip, lines),
    "gzip, words": (write_gzip, lambda path: passages(path, encoding="utf-8")),
    "zip": (write_zip, lines),
    "member of a zip": (write_zip, lambda path: lines(path / "text.txt")),
    "member of a tar": (write_tar, lambda path: lines(path / "text.txt")),
    "listed in a tar": (write_tar, read_listed),
    "npz": (write_npz, lambda path: iter(npz.read_arrays(path, ["x"]))),
    "png": (write_png, decode),
    "flac": (write_flac, lambda path: iter(audio_files.read_audio(path))),
    "parquet, one text in many rows": (write_texts, read_rows),
    "parquet, one text in a list": (write_lists, read_rows),
    "parquet, numbers": (write_numbers, read_rows),
    "excel, member": (write_member, read_rows),
    "excel, cells far to the right": (lambda folder: write_workbook(folder, column="XFD"), read_rows),
}


@pytest.mark.parametrize("name", BOMBS)
def test_bombs_are_refused_with_the_key(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write, read = BOMBS[name]
    path = write(tmp_path)
    with pytest.raises((DataError, pixels.ImageError), match=r"bytes become more than .* SEQLOOM_MAX_EXPANSION=10000"):
        list(read(path))
    if name != "gzip, words":  # one word of this length is refused anyway
        monkeypatch.setenv("SEQLOOM_MAX_EXPANSION", "0")
        assert list(read(path))


def test_ordinary_files_are_read(tmp_path: Path) -> None:
    draw = np.random.default_rng(1)
    text = b"\n".join(b"%d" % number for number in draw.integers(0, 10**6, 80_000))
    path = tmp_path / "text.gz"
    path.write_bytes(gzip.compress(text))
    assert len(text) > expansion.FREE_BYTES
    assert "\n".join(line for _, line in lines(path)).encode() == text


def test_standard_input_is_limited_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    class Input:
        buffer = io.BytesIO(gzip.compress(BOMB))

    monkeypatch.setattr(sys, "stdin", Input)
    with pytest.raises(DataError, match=r"standard input: .* bytes become more than"):
        list(lines(Path("-")))


def test_a_book_that_claims_more_rows_than_it_has_is_read(tmp_path: Path) -> None:
    path = tmp_path / "claims.xlsx"
    with zipfile.ZipFile(write_workbook(tmp_path)) as archive, zipfile.ZipFile(path, "w") as copy:
        for name in archive.namelist():
            copy.writestr(name, archive.read(name).replace(b'ref="A1:A100"', b'ref="A1:XFD1048576"'))
    assert [values for _, values in read_table(path).records] == [[row] for row in range(1, 101)]
