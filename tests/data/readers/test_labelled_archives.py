"""An archive of label folders is read as the folder that it was packed from."""

import io
import shutil
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from seqloom.data.readers import archives
from seqloom.data.readers.labelled import LabelledReader
from seqloom.data.readers.media import MediaDecoder
from seqloom.data.readers.media_lists import MediaFiles
from seqloom.data.readers.text_files import DataError

Image = pytest.importorskip("PIL.Image", reason="Pillow is not installed")
READER = LabelledReader(media=MediaFiles(MediaDecoder(image_size=4)))


def image(number: int) -> bytes:
    stream = io.BytesIO()
    Image.fromarray(np.random.default_rng(number).integers(0, 255, (4, 4, 3), dtype=np.uint8)).save(stream, "png")
    return stream.getvalue()


def fill(folder: Path, *names: str) -> Path:
    for number, name in enumerate(names):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(image(number) if path.suffix == ".png" else f" text {number} \n\nof {name}\n".encode())
    return folder


def pack(folder: Path, kind: str, *, outer: str = "") -> Path:
    """The archive of a folder, in another order than that of the names, with what macOS adds."""
    archive = folder.with_name(f"{folder.name}.{kind}")
    paths = sorted((path for path in folder.rglob("*") if path.is_file()), reverse=True)
    names = [f"{outer}{path.relative_to(folder).as_posix()}" for path in paths]
    if kind == "zip":
        with zipfile.ZipFile(archive, "w") as zipped:
            for path, name in zip(paths, names, strict=True):
                zipped.write(path, name)
            zipped.writestr("__MACOSX/cat/._1.png", b"")
    else:
        with tarfile.open(archive, "w:gz" if kind == "tar.gz" else "w") as tar:
            for path, name in zip(paths, names, strict=True):
                tar.add(path, f"./{name}")
    return archive


def rows(source: Path) -> list[tuple[Any, ...]]:
    """The examples of a source without their locations."""
    return [
        (each.content if isinstance(each.content, str) else each.content.tolist(), each.label, each.identity)
        for each in READER.read(source)
    ]


@pytest.mark.parametrize("kind", ["tar", "tar.gz", "zip"])
@pytest.mark.parametrize("outer", ["", "data/"])
@pytest.mark.parametrize("suffix", [".png", ".txt"])
def test_an_archive_is_read_as_its_folder(kind: str, outer: str, suffix: str, tmp_path: Path) -> None:
    names = [f"{label}/{number}{suffix}" for label in ("dog", "cat") for number in (10, 2, 1)]
    folder = fill(tmp_path / "data", *names)
    expected = rows(folder)
    assert [label for _, label, _ in expected] == ["cat"] * 3 + ["dog"] * 3
    archive = pack(folder, kind, outer=outer)
    shutil.rmtree(folder)
    assert rows(archive) == expected
    noun = "images, one per file" if suffix == ".png" else "texts"
    assert READER.inspect(archive) == ({}, f"6 {noun}; label from the names of 2 folders")
    assert next(iter(READER.read(archive))).location.file == str(archive / f"{outer}cat/1{suffix}")
    if outer:
        assert rows(archive / "data") == expected


NOTES = ("README.md", "README.txt", "data/notes.txt", "data/about.md", "figures/one.txt", "figures/deep/er/two.md")


@pytest.mark.parametrize("kind", ["tar", "zip"])
@pytest.mark.parametrize("outer", ["data/", "data/v1.0/"])
@pytest.mark.parametrize("suffix", [".png", ".txt"])
def test_notes_beside_the_outer_folder_are_no_labels(kind: str, outer: str, suffix: str, tmp_path: Path) -> None:
    names = [f"{label}/{number}{suffix}" for label in ("dog", "cat") for number in (2, 1)]
    expected = rows(fill(tmp_path / "plain", *names))
    notes = [note for note in NOTES if suffix == ".png" or not note.startswith("figures/")]
    archive = pack(fill(tmp_path / "x", *(f"{outer}{name}" for name in names), *notes), kind)
    assert [row[1:] for row in rows(archive)] == [row[1:] for row in expected]
    assert READER.inspect(archive)[1].endswith(f"label from the names of 2 folders; ignored: {IGNORED[suffix]}")


IGNORED = {
    ".png": "README.md, README.txt, data/about.md and 3 more",
    ".txt": "README.md, README.txt, data/about.md and 1 more",
}


def test_a_figure_does_not_hide_texts(tmp_path: Path) -> None:
    archive = pack(fill(tmp_path / "a", "data/pos/1.txt", "data/neg/1.txt", "data/logo.png"), "zip")
    assert [label for _, label, _ in rows(archive)] == ["neg", "pos"]
    archive = pack(fill(tmp_path / "b", "pos/1.txt", "neg/1.txt", "logo.png"), "zip")
    assert [label for _, label, _ in rows(archive)] == ["neg", "pos"]


@pytest.mark.parametrize("outer", ["", "data/"])
@pytest.mark.parametrize("suffix", [".png", ".txt"])
def test_parts_of_the_data_are_no_labels(outer: str, suffix: str, tmp_path: Path) -> None:
    parts = ("test", "train", "dev")
    names = [f"{part}/{label}/{number}{suffix}" for part in parts for label in ("dog", "cat") for number in (1, 2)]
    folder = fill(tmp_path / "x", *names)
    archive = pack(folder, "zip", outer=outer)
    for source in (folder, archive / outer if outer else archive):
        message = "the folders train, dev and test hold parts of the data, not labels: name one of them, such as "
        with pytest.raises(DataError) as caught:
            rows(archive if source != folder else folder)
        assert str(caught.value) == f"{source}: {message}{source / 'train'}"
        assert [label for _, label, _ in rows(source / "train")] == ["cat", "cat", "dog", "dog"]


def test_a_folder_in_an_archive_may_have_a_dot_in_its_name(tmp_path: Path) -> None:
    for kind in ("tar", "zip"):
        archive = pack(fill(tmp_path / "a", "v1.0/cat/1.png", "v1.0/dog/1.png", "v2.0/cat/1.png", "x.csv"), kind)
        assert [label for _, label, _ in rows(archive / "v1.0")] == ["cat", "dog"]
        folders = ("v1.0", "v2.0", "v2.0/cat")
        assert all(archives.is_packed_folder(archive / name) for name in folders)
        assert not any(archives.is_packed_folder(archive / name) for name in ("x.csv", "v1", "v3.0", "v2.0/cat/1.png"))
    assert not archives.is_packed_folder(tmp_path / "v1.0")


def test_images_without_folders_have_no_label_and_other_files_are_named(tmp_path: Path) -> None:
    archive = pack(fill(tmp_path / "a", "1.png", "2.png", "notes.txt"), "tar")
    assert [label for _, label, _ in rows(archive)] == [None, None]
    assert READER.inspect(archive)[1] == "2 images, one per file; ignored: notes.txt"
    archive = pack(fill(tmp_path / "b", "cat/1.png", "dog/1.png", "dog/source.txt", "9.png"), "zip")
    assert [label for _, label, _ in rows(archive)] == ["cat", "dog"]
    assert READER.inspect(archive)[1].endswith("label from the names of 2 folders; ignored: 9.png, dog/source.txt")


def test_archives_that_cannot_be_read_are_one_line(tmp_path: Path) -> None:
    archive = pack(fill(tmp_path / "a", "cat/clip/1.png", "dog/clip/1.png"), "tar")
    with pytest.raises(DataError, match=r"a\.tar.cat.clip.1\.png: a video as a folder of frames cannot be read"):
        rows(archive)
    archive = pack(fill(tmp_path / "b", "x.csv", "y.csv"), "tar")
    with pytest.raises(
        DataError, match=r"found an archive of 2 files without .*: unpack it, or .*, for example .*x\.csv$"
    ):
        rows(archive)
    for name in ("c.tar", "c.zip"):
        (tmp_path / name).write_bytes(b"PK\x03\x04 nonsense")
        with pytest.raises(DataError) as caught:
            rows(tmp_path / name)
        assert "\n" not in str(caught.value)
        assert "damaged" in str(caught.value)
    (tmp_path / "d.tar").write_bytes(b"nonsense")
    with pytest.raises(DataError) as caught:
        rows(tmp_path / "d.tar")
    expected = "not a tar or zip archive, or damaged (file could not be opened successfully)"
    assert str(caught.value) == f"{tmp_path / 'd.tar'}: {expected}"
    archive = pack(fill(tmp_path / "e", "cat/1.png", "dog/1.png"), "tar")
    broken = bytearray(archive.read_bytes())
    broken[broken.index(b"PNG")] = 0
    archive.write_bytes(bytes(broken))
    with pytest.raises(DataError, match=r"e\.tar.dog.1\.png: "):
        rows(archive)


def test_a_zip_archive_of_one_text_file_is_that_file(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "x.csv.zip", "w") as zipped:
        zipped.writestr("x.csv", "text,label\ngood film,pos\nbad film,neg\n")
    assert [row[:2] for row in rows(tmp_path / "x.csv.zip")] == [("good film", "pos"), ("bad film", "neg")]
