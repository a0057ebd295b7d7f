import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from seqloom.data.readers.labelled import LabelledReader
from seqloom.data.readers.long_tables import find_layout, read_sequences
from seqloom.data.readers.text_files import DataError

HEADER = "id,time,ax,ay,activity\n"
LONG = HEADER + "7,0.0,1,2,sit\n7,0.1,3,4,sit\n8,0.0,5,6,walk\n8,0.1,7,8,walk\n"
EXPECTED = [([[1, 2], [3, 4]], "sit"), ([[5, 6], [7, 8]], "walk")]


def read(source: Any, **options: Any) -> list[Any]:
    return [(np.asarray(example.content).tolist(), example.label) for example in LabelledReader(**options).read(source)]


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("x.csv", LONG),
        ("x.csv", LONG.replace(",", ";")),
        ("x.tsv", LONG.replace(",", "\t")),
        ("x.csv", "user,activity,timestamp,x,y\n7,sit,1,1,2\n7,sit,2,3,4\n8,walk,1,5,6\n8,walk,2,7,8\n"),
        ("x.csv", "id,ax,ay,activity\n7,1,2,sit\n8,5,6,walk\n7,3,4,sit\n8,7,8,walk\n"),  # rows in any order
        ("x.csv", HEADER + "7,1,3,4,sit\n7,0,1,2,sit\n8,1,7,8,walk\n8,0,5,6,walk\n"),  # sorted by time
        ("x.csv", "time,ax,ay,activity\n0,1,2,sit\n1,3,4,sit\n0,5,6,walk\n1,7,8,walk\n"),  # the time starts again
        ("x.csv", LONG.replace("0.0,", "2026-01-01 00:00:00,").replace("0.1,", "2026-01-01 00:00:01,")),
    ],
)
def test_sequences_of_a_long_table(tmp_path: Path, name: str, text: str) -> None:
    assert read(write(tmp_path / name, text)) == EXPECTED


def test_sequences_have_their_id_and_the_names_of_their_channels(tmp_path: Path) -> None:
    examples = list(LabelledReader().read(write(tmp_path / "x.csv", LONG)))
    assert [example.identity for example in examples] == ["7", "8"]
    assert {example.channel_names for example in examples} == {("ax", "ay")}
    (example,) = LabelledReader().read(write(tmp_path / "y.csv", "time,ax,ay,activity\n0,1,2,sit\n1,3,4,sit\n"))
    assert example.identity == ""


def test_a_recording_without_times_is_known_by_its_channels(tmp_path: Path) -> None:
    path = write(tmp_path / "x.csv", "ay,ax\n2,1\n4,3\n")
    (example,) = LabelledReader(known={"sit"}, kind="vectors", channel_names=("ax", "ay")).read(path)
    assert np.asarray(example.content).tolist() == [[2, 1], [4, 3]]
    assert example.channel_names == ("ay", "ax")


def test_frames_in_memory() -> None:
    columns = {"id": [7, 7, 8, 8], "ax": [1, 3, 5, 7], "ay": [2, 4, 6, 8], "label": ["sit", "sit", "walk", "walk"]}
    assert read(columns) == EXPECTED
    assert read(pytest.importorskip("pandas").DataFrame(columns)) == EXPECTED


def test_description_names_every_column(tmp_path: Path) -> None:
    text = LONG.replace("\n", ",phone one\n").replace("activity,phone one", "activity,device")
    settings, note = LabelledReader().inspect(write(tmp_path / "x.csv", text))
    assert settings == {"group_column": "id", "time_column": "time", "label_column": "activity"}
    assert note == (
        "one row per time step: sequence from column 1 'id', time from column 2 'time', label from column 5 "
        "'activity'; 2 channels: ax, ay; ignored: device"
    )


def test_configured_columns(tmp_path: Path) -> None:
    path = write(tmp_path / "x.csv", "a,b,c,d\n7,0,1,sit\n7,1,3,sit\n8,0,5,walk\n")
    options = {"format": "long", "group_column": "a", "time_column": "b", "label_column": "d"}
    assert read(path, **options) == [([[1], [3]], "sit"), ([[5]], "walk")]
    with pytest.raises(DataError, match=r"task\.time_column: the column 'a' already has another role"):
        read(path, **{**options, "time_column": "a"})
    with pytest.raises(DataError, match=r"cannot tell which column holds the sequence: set task\.group_column"):
        read(path, format="long")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("7,0.1,3,4,sit", "7,0.1,3,4,walk", r"x\.csv:2: the label changes from 'sit' to 'walk' within the sequence"),
        ("7,0.1,3,4,sit", "7,0.1,3,4,", r"x\.csv:3: the label is missing"),
        ("7,0.1,3,4,sit", ",0.1,3,4,sit", r"x\.csv:3: no value in the column 'id'"),
        ("7,0.1,3,4,sit", "7,0.1,,4,sit", r"x\.csv:3: element 2 of column 'ax' is missing; task\.missing"),
    ],
)
def test_errors_name_the_line(tmp_path: Path, old: str, new: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        read(write(tmp_path / "x.csv", LONG.replace(old, new)))


def test_values_after_the_first_rows_are_checked(tmp_path: Path) -> None:
    rows = "".join(f"1,{step},1,2,sit\n" for step in range(200))
    path = write(tmp_path / "x.csv", HEADER + rows + "1,200,x,2,sit\n")
    with pytest.raises(DataError, match=r"x\.csv:202: column 'ax': expected a number, found 'x'"):
        read(path)


def test_order_of_rows_does_not_matter() -> None:
    rows = [
        {"id": group, "time": step, "ax": 10 * group + step, "label": "ab"[group % 2]}
        for group in range(5)
        for step in range(6)
    ]
    expected = {tuple(map(tuple, values)): label for values, label in read(rows)}
    random.Random(1).shuffle(rows)  # noqa: S311
    assert {tuple(map(tuple, values)): label for values, label in read(rows)} == expected


RECORDING = "time,ax,ay\n0,{0},2\n1,3,4\n"


def test_folder_of_recordings_named_by_label(tmp_path: Path) -> None:
    write(tmp_path / "d" / "sit" / "a.csv", RECORDING.format(1))
    write(tmp_path / "d" / "walk" / "b.csv", RECORDING.format(5))
    assert read(tmp_path / "d") == [([[1, 2], [3, 4]], "sit"), ([[5, 2], [3, 4]], "walk")]
    assert LabelledReader().inspect(tmp_path / "d") == (
        {},
        "2 recordings, one per file; label from the names of 2 folders; time from column 1 'time'; 2 channels: ax, ay",
    )


def test_folder_of_recordings_with_a_table_of_labels(tmp_path: Path) -> None:
    for name, value in (("a", 1), ("b", 5)):
        write(tmp_path / "d" / f"{name}.csv", RECORDING.format(value))
    listed = write(tmp_path / "d" / "labels.csv", "file,label\nb.csv,walk\na.csv,sit\n")
    expected = [([[5, 2], [3, 4]], "walk"), ([[1, 2], [3, 4]], "sit")]
    assert read(tmp_path / "d") == read(listed) == expected
    note = "2 recordings, one per file; label from labels.csv; time from column 1 'time'; 2 channels: ax, ay"
    assert LabelledReader().inspect(tmp_path / "d") == ({}, note)
    listed.write_text("file,label\nb,walk\na,sit\n")  # names without a suffix
    assert read(tmp_path / "d") == expected
    listed.write_text("file,label\na,walk\nc,sit\n")
    with pytest.raises(DataError, match=r"labels\.csv:3: no file 'c' in"):
        read(tmp_path / "d")


def test_folder_of_recordings_with_a_label_column(tmp_path: Path) -> None:
    for name, label in (("a", "sit"), ("b", "walk")):
        write(tmp_path / "d" / f"{name}.csv", f"time,ax,activity\n0,1,{label}\n1,2,{label}\n")
    assert read(tmp_path / "d") == [([[1], [2]], "sit"), ([[1], [2]], "walk")]
    note = "2 recordings, one per file; time from column 1 'time', label from column 3 'activity'; 1 channel: ax"
    assert LabelledReader().inspect(tmp_path / "d") == ({}, note)


def test_folder_of_texts_named_by_label(tmp_path: Path) -> None:
    write(tmp_path / "d" / "neg" / "1.txt", "too long\n\nand dull\n")
    write(tmp_path / "d" / "pos" / "1.txt", "funny\n")
    assert read(tmp_path / "d") == [("too long and dull", "neg"), ("funny", "pos")]
    write(tmp_path / "d" / "pos" / "2.exe", "")
    with pytest.raises(DataError, match=r"2\.exe: expected a \.txt file, a table .*, sound, an image or a video"):
        read(tmp_path / "d")
    write(tmp_path / "d" / "urls.txt", "")
    with pytest.raises(DataError, match=r"found files such as urls\.txt and folders such as neg; expected either"):
        read(tmp_path / "d")


def test_long_table_without_rows(tmp_path: Path) -> None:
    path = write(tmp_path / "x.csv", "id,time,ax\n")
    assert list(read_sequences(find_layout(path, {}))) == []


def test_recordings_win_over_notes_beside_them(tmp_path: Path) -> None:
    for label in ("sit", "walk"):
        write(tmp_path / "d" / label / "1.csv", "time,ax\n0,1\n1,2\n")
    write(tmp_path / "d" / "notes.txt", "recorded on Monday\n")
    assert [label for _, label in read(tmp_path / "d")] == ["sit", "walk"]
    note = LabelledReader().inspect(tmp_path / "d")[1]
    assert note.startswith("2 recordings, one per file; label from the names of 2 folders")
    assert note.endswith("; ignored: notes.txt")
    write(tmp_path / "e" / "labels.csv", "file,label\n1.csv,sit\n")
    write(tmp_path / "e" / "1.csv", "time,ax\n0,1\n1,2\n")
    write(tmp_path / "e" / "readme.txt", "recorded on Monday\n")
    assert [label for _, label in read(tmp_path / "e")] == ["sit"]
    assert LabelledReader().inspect(tmp_path / "e")[1].endswith("; ignored: readme.txt")
    write(tmp_path / "f" / "pos.txt", "funny\n")
    write(tmp_path / "f" / "neg.txt", "dull\n")
    write(tmp_path / "f" / "table.csv", "a,b\n1,2\n")
    assert read(tmp_path / "f") == [("dull", "neg"), ("funny", "pos")]
    assert LabelledReader().inspect(tmp_path / "f")[1] == "label from the names of 2 files; ignored: table.csv"


def test_filled_values_are_counted(tmp_path: Path) -> None:
    path = write(tmp_path / "x.csv", "id,time,ax,ay\na,0,1,2\na,1,,3\na,2,,\n")
    (sequence,) = read_sequences(find_layout(path, {}), missing="hold")
    assert [(each.name, each.total, each.longest, each.first.line) for each in sequence.missing] == [
        ("ax", 2, 2, 3),
        ("ay", 1, 1, 4),
    ]
