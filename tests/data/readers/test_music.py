"""Music: folders and lists of MIDI files, JSON lines, .npz files, and errors in them."""

import json
import tarfile
from pathlib import Path

import numpy as np
import pytest

from seqloom.data.readers.midi import KEYS, LOWEST, write_midi
from seqloom.data.readers.music import MusicReader
from seqloom.data.readers.text_files import DataError, resolve

FRAMES = np.zeros((6, KEYS), dtype=np.uint8)
FRAMES[:, 60 - LOWEST] = 1
FRAMES[3:, 64 - LOWEST] = 1


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "songs" / "more").mkdir(parents=True)
    for name, length in (("b.mid", 4), ("more/a.MID", 6)):
        write_midi(tmp_path / "songs" / name, FRAMES[:length], frames_per_beat=2, tempo=100)
    return tmp_path


def test_a_folder_an_archive_a_list_and_a_file(folder: Path) -> None:
    with tarfile.open(folder / "songs.tar.gz", "w:gz") as archive:
        archive.add(folder / "songs", arcname="songs")
    (folder / "list.tsv").write_text("file\tcomposer\nsongs/more/a.MID\tBach\n\nsongs/b\tBach\n")
    reader = MusicReader(frames_per_beat=2)
    read = {name: list(reader.read(folder / name)) for name in ("songs", "songs.tar.gz", "list.tsv", "songs/b.mid")}
    assert {name: [len(piece) for piece in pieces] for name, pieces in read.items()} == {
        "songs": [4, 6],
        "songs.tar.gz": [4, 6],
        "list.tsv": [6, 4],
        "songs/b.mid": [4],
    }
    assert np.array_equal(read["songs"][1].frames, FRAMES)
    assert read["songs"][1].tempo == pytest.approx(100, rel=1e-5)
    assert reader.listed_files(folder / "list.tsv") == [folder / "songs/more/a.MID", folder / "songs/b.mid"]
    preview = reader.preview(folder / "songs", limit=1)
    assert (len(preview.head), preview.examples) == (1, 2)


def test_frames_without_midi_files(tmp_path: Path) -> None:
    pitches = [[60]] * 3 + [[64, 60]] * 3
    (tmp_path / "t.jsonl").write_text(json.dumps({"notes": pitches}) + "\n" + json.dumps({"notes": [[]]}) + "\n")
    np.savez(tmp_path / "t.npz", values=np.concatenate([FRAMES, FRAMES[:1]]), lengths=[6, 1])
    for source in (tmp_path / "t.jsonl", tmp_path / "t.npz", [pitches, [[]]], [FRAMES, FRAMES[:1] * 0]):
        first, second = MusicReader().read(source)
        assert np.array_equal(first.frames, FRAMES)
        assert len(second) == 1


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("t.mid", b"hello", r"t\.mid: not a MIDI file"),
        ("t.jsonl", b'{"notes": [[60], [5]]}', r"t\.jsonl:1: frame 2: expected MIDI numbers from 21 to 108, found 5"),
        ("t.jsonl", b'{"notes": [60]}', "frame 1: expected a list of MIDI numbers, found 60"),
        ("t.jsonl", b'{"chords": []}', "expected 'notes', found 'chords'"),
        ("t.txt", b"none.mid\n", r"t\.txt:1: no file 'none\.mid'"),
    ],
)
def test_errors_name_their_place(name: str, content: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=message):
        list(MusicReader().read(tmp_path / name))


def test_other_arrays_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "t.npz"
    for arrays, message in (
        ({"values": FRAMES}, "no array 'lengths'"),
        ({"values": FRAMES, "lengths": [5]}, "do not add up to the 6 rows"),
        ({"values": FRAMES[:, :9], "lengths": [6]}, "expected frames of 88 keys .* found 6 × 9 values"),
        ({"values": FRAMES * 2, "lengths": [6]}, "frame 1: expected 0 and 1 only"),
    ):
        np.savez(path, **arrays)
        with pytest.raises(DataError, match=message):
            list(MusicReader().read(path))


def test_a_folder_without_music(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"no music in the folder; expected files that end in \.mid"):
        list(MusicReader().read(resolve(str(tmp_path))))
