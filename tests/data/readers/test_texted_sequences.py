"""Sequences of vectors with a text each: the same arrays from every file format, and errors with file and line."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from seqloom.data.readers.captioned_signals import CaptionedSignalReader
from seqloom.data.readers.recordings import RecordingReader, write_npz
from seqloom.data.readers.text_files import DataError

RANDOM = np.random.default_rng(0)
SEQUENCES = [RANDOM.normal(size=(4, 3)).round(3), RANDOM.normal(size=(4, 3)).round(3)]
TEXTS = ["up and down", "left"]


def long_table(columns: tuple[int, ...] = (0, 1, 2), *, text: bool = True) -> str:
    names = ["id", "time", *(f"c{column}" for column in columns), *(["text"] if text else [])]
    rows = [
        [number, step, *(values[step][column] for column in columns), *([said] if text else [])]
        for step in range(4)  # the rows of the sequences alternate
        for number, (values, said) in enumerate(zip(SEQUENCES, TEXTS, strict=True))
    ]
    return "".join(",".join(map(str, row)) + "\n" for row in [names, *rows])


def write_ts(path: Path) -> None:
    lines = [":".join(",".join(map(str, channel)) for channel in values.T) for values in SEQUENCES]
    path.write_text("@classLabel true\n@data\n" + "".join(f"{a}:{b}\n" for a, b in zip(lines, TEXTS, strict=True)))


def write_objects(path: Path, key: str) -> None:
    rows = zip(SEQUENCES, TEXTS, strict=True)
    path.write_text("".join(json.dumps({key: values.tolist(), "text": text}) + "\n" for values, text in rows))


WRITERS: dict[str, Callable[[Path], object]] = {
    "a.npz": lambda path: write_npz(path, SEQUENCES, TEXTS),
    "labels.npz": lambda path: np.savez(
        path, values=np.concatenate(SEQUENCES), lengths=np.array([4, 4]), labels=np.array(TEXTS)
    ),
    "x.npz": lambda path: np.savez(path, x=np.stack(SEQUENCES), y=np.array(TEXTS)),
    "a.csv": lambda path: path.write_text(long_table()),
    "a.ts": write_ts,
    "values.jsonl": lambda path: write_objects(path, "values"),
    "vector.jsonl": lambda path: write_objects(path, "vector"),
}


@pytest.mark.parametrize("name", WRITERS)
def test_captions_and_transcripts_read_the_same_files(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    WRITERS[name](path)
    captioned, recordings = list(CaptionedSignalReader().read(path)), list(RecordingReader().read(path))
    assert [signal.captions for signal in captioned] == [(text,) for text in TEXTS]
    assert [recording.text for recording in recordings] == TEXTS
    for values, signal, recording in zip(SEQUENCES, captioned, recordings, strict=True):
        np.testing.assert_allclose(signal.content, values, rtol=1e-6)  # single precision
        np.testing.assert_allclose(recording.values, values, rtol=1e-6)
        names = ("c0", "c1", "c2") if name == "a.csv" else ()
        assert signal.channel_names == recording.channel_names == names


def test_the_columns_of_a_long_table_are_named(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text(long_table())
    settings, note = RecordingReader().inspect(path)
    assert settings == {"group_column": "id", "time_column": "time", "text_column": "text"}
    assert note.startswith("one row per time step: ")
    assert "3 channels: c0, c1, c2" in note
    assert CaptionedSignalReader().inspect(path)[0]["caption_column"] == "text"
    path.write_text(long_table(text=False))  # for predictions
    assert [recording.text for recording in RecordingReader().read(path)] == [None, None]


def test_lists_of_files_are_no_long_tables(tmp_path: Path) -> None:
    path = tmp_path / "list.csv"
    np.save(tmp_path / "a.npy", SEQUENCES[0])
    path.write_text("file,start,text\na.npy,0,up\na.npy,1,down\na.npy,2,down\n")
    assert [recording.text for recording in RecordingReader().read(path)] == ["up", "down", "down"]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv", "id,c,text\n1,0.5,up\n1,0.6,down\n1,0.1,up\n", "a.csv:2: the text changes from 'up' to 'down'"),
        ("a.ts", "@targetLabel true\n@data\n1,2:3.5\n", "a.ts:3: expected a text as the text, found numbers"),
        ("a.npz", {"x": np.zeros((2, 3)), "y": np.array(TEXTS)}, r"x: expected numbers \(N, T, D\)"),
        ("a.npz", {"values": np.zeros((4, 1)), "lengths": np.array([2, 1])}, "do not add up"),
        ("a.npz", {"x": np.zeros((2, 3, 1)), "y": np.zeros(2)}, "texts: expected 2 strings"),
    ],
)
def test_errors_name_file_and_line(tmp_path: Path, name: str, content: Any, message: str) -> None:
    path = tmp_path / name
    if isinstance(content, str):
        path.write_text(content)
    else:
        np.savez(path, **content)
    with pytest.raises(DataError, match=message):
        list(RecordingReader().read(path))
