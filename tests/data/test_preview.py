"""The number of examples is estimated without reading all of them."""

import gzip
import tarfile
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from seqloom.data.preview import preview
from seqloom.data.readers.text_files import Location, lines
from seqloom.tasks.classify import Classify
from seqloom.tasks.tag import Tag
from seqloom.tasks.transcribe import Transcribe


@dataclass
class Line:
    location: Location
    text: str

    def __len__(self) -> int:
        return len(self.text)


def read(path: Path) -> list[Line]:
    return [Line(*line) for line in lines(path)]


@pytest.mark.parametrize("ending", ["\n", ""])
def test_the_lines_of_a_file_are_counted(tmp_path: Path, ending: str) -> None:
    path = tmp_path / "t.txt"
    path.write_text("\n".join(["ab"] * 5000) + ending)
    result = preview(lambda: iter(read(path)), path, limit=10)
    assert (len(result.head), result.examples, result.mean_length) == (10, 5000, 2)


def test_a_file_that_fits_is_counted_exactly(tmp_path: Path) -> None:
    path = tmp_path / "t.txt"
    path.write_text("a\n\nb\n")
    assert preview(lambda: iter(read(path)[::2]), path, limit=10).examples == 2


def test_compressed_files_and_two_parallel_files(tmp_path: Path) -> None:
    for side in ("en", "de"):
        (tmp_path / f"t.{side}.gz").write_bytes(gzip.compress(b"a\n" * 300))
    english = read(tmp_path / "t.en.gz")
    assert preview(lambda: iter(english), tmp_path / "t.{en,de}.gz", limit=10).examples == 300


def test_sentences_of_several_lines_are_estimated(tmp_path: Path) -> None:
    path = tmp_path / "t.conll"
    path.write_text("the DT\ncat NN\n\n" * 2500)
    result = Tag(train="").preview(path)
    assert len(result.head) == 1000
    assert result.examples == pytest.approx(2500, rel=0.01)


def test_values_in_memory_are_counted() -> None:
    values = [("up", "good")] * 1500
    assert Classify(train="").preview(values).examples == 1500


def test_one_file_per_label(tmp_path: Path) -> None:
    for label, names in (("de", 900), ("en", 700)):
        (tmp_path / f"{label}.txt").write_text("Anna\n" * names)
    assert Classify(train="").preview(tmp_path).examples == 1600


def test_a_folder_of_recordings_is_listed_but_not_read(tmp_path: Path) -> None:
    np.save(tmp_path / "0000.npy", np.zeros((5, 3), np.float32))
    for number in range(1, 150):
        (tmp_path / f"{number:04}.npy").write_bytes((tmp_path / "0000.npy").read_bytes() if number < 100 else b"bad")
    for number in range(150):
        (tmp_path / f"{number:04}.txt").write_text("a")
    result = Transcribe(train="").preview(tmp_path)
    assert (len(result.head), result.examples) == (100, 150)


def test_an_archive_of_recordings_is_listed(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.zeros((5, 3), np.float32))
    (tmp_path / "x.txt").write_text("a")
    with tarfile.open(tmp_path / "t.tar", "w") as tar:
        for number in range(120):
            tar.add(tmp_path / "x.npy", f"{number:03}.npy")
            tar.add(tmp_path / "x.txt", f"{number:03}.txt")
    assert Transcribe(train="").preview(tmp_path / "t.tar").examples == 120


def test_one_example_per_file(tmp_path: Path) -> None:
    for number in range(60):
        folder = tmp_path / "ab"[number % 2]
        folder.mkdir(exist_ok=True)
        np.save(folder / f"{number}.npy", np.full((10, 3), 10, np.uint8))  # bytes that are line feeds
    with tarfile.open(tmp_path / "t.tar", "w") as tar:
        for label in "ab":
            tar.add(tmp_path / label, label)
    read = Classify(train="", image_size=4).reader().read
    for source in (tmp_path, tmp_path / "t.tar"):
        assert preview(partial(read, source), source, limit=40).examples == 60


@pytest.mark.parametrize("suffix", ["", ".clip"])
def test_videos_that_are_folders_of_frames(tmp_path: Path, suffix: str) -> None:
    frame = np.zeros((4, 4, 3), np.uint8)
    image = pytest.importorskip("PIL.Image", reason="Pillow is not installed").fromarray(frame)
    for number in range(30):
        clip = tmp_path / "ab"[number % 2] / f"{number}{suffix}"
        clip.mkdir(parents=True)
        for index in range(3):
            image.save(clip / f"{index}.png")
    for hidden in (tmp_path / ".cache" / f"1{suffix}", tmp_path / "a" / f".2{suffix}"):
        hidden.mkdir(parents=True)
        image.save(hidden / "0.png")
    read = Classify(train="", image_size=4).reader().read
    assert preview(partial(read, tmp_path), tmp_path, limit=20).examples == 30


def test_hidden_files_are_not_counted(tmp_path: Path) -> None:
    for label in ("de", "en", ".old"):
        (tmp_path / f"{label}.txt").write_text("Anna\n" * 900)
    assert Classify(train="").preview(tmp_path).examples == 1800
