import gzip
import io
import json
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from seqloom.data.readers.captioned_signals import CaptionedSignal, CaptionedSignalReader
from seqloom.data.readers.media import MediaDecoder
from seqloom.data.readers.media_lists import MediaFiles
from seqloom.data.readers.text_files import DataError

COLOURS = {"red": (255, 0, 0), "green": (0, 255, 0), "blue": (0, 0, 255)}


def read(source: Any, **options: Any) -> list[CaptionedSignal]:
    return list(reader(**{"measure": lambda text: len(text.split()), **options}).read(source))


def reader(*, images: str = "", **options: Any) -> CaptionedSignalReader:
    media = MediaFiles(MediaDecoder(image_size=4), images, key="images")
    return CaptionedSignalReader(media=media, **options)


def summaries(pictures: list[CaptionedSignal]) -> list[tuple[str, tuple[str, ...], str]]:
    """Name, captions and colour of each image."""
    names = {colour: name for name, colour in COLOURS.items()}
    return [(each.name, each.captions, names[tuple(each.content[0, 0].tolist())]) for each in pictures]


def error_message(source: Any, **options: Any) -> str:
    with pytest.raises(DataError) as error:
        read(source, **options)
    return str(error.value)


def png(colour: str) -> bytes:
    stream = io.BytesIO()
    Image.new("RGB", (6, 5), COLOURS[colour]).save(stream, "PNG")
    return stream.getvalue()


def paint(folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    for name in COLOURS:
        (folder / f"{name}.png").write_bytes(png(name))
    return folder


def pack(path: Path, start: str = "", **more: bytes) -> Path:
    """A tar archive of the images, in a different order from any list."""
    with tarfile.open(path, "w:gz" if path.suffix == ".gz" else "w") as archive:
        for name, data in {**{name: png(name) for name in ("blue", "red", "green")}, **more}.items():
            entry = tarfile.TarInfo(f"{start}{name}.png")
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
    return path


def test_a_single_image_needs_no_list(tmp_path: Path) -> None:
    paint(tmp_path)
    assert summaries(read(tmp_path / "green.png")) == [("green.png", (), "green")]
    assert "no file 'grey.png'" in error_message(tmp_path / "grey.png")


def test_captions_of_an_image_are_merged(tmp_path: Path) -> None:
    paint(tmp_path)
    file = tmp_path / "train.tsv"
    file.write_text("red.png\ta red wall\nblue.png\tthe sea\nred.png\tblood\n")
    actual = read(file)
    assert summaries(actual) == [("red.png", ("a red wall", "blood"), "red"), ("blue.png", ("the sea",), "blue")]
    assert [(each.location, len(each)) for each in actual] == [((str(file), 1), 4), ((str(file), 2), 2)]
    assert actual[0].content.dtype == np.uint8
    assert actual[0].content.shape == (4, 4, 3)


def test_other_columns_and_json(tmp_path: Path) -> None:
    paint(tmp_path / "images")
    table = tmp_path / "captions.csv"
    table.write_text('caption,file\n"red, all red",red.png\nsky,blue.png\n')
    expected = [("red.png", ("red, all red",), "red"), ("blue.png", ("sky",), "blue")]
    options = {"image_column": "file", "caption_column": "caption", "images": str(tmp_path / "images")}
    assert summaries(read(table, **options)) == expected
    lines = tmp_path / "captions.jsonl"
    objects = [
        {"image": "images/red.png", "caption": ["a", "b"]},
        {"image": "images/blue.png", "caption": "c"},
        {"image": "images/red.png", "caption": "d"},
    ]
    lines.write_text("".join(json.dumps(each) + "\n" for each in objects))
    assert summaries(read(lines)) == [
        ("images/red.png", ("a", "b", "d"), "red"),
        ("images/blue.png", ("c",), "blue"),
    ]


def test_captions_in_a_separate_file(tmp_path: Path) -> None:
    """The layout of Flickr8k: numbered captions, a list for each split, compressed files."""
    captions = tmp_path / "tokens.txt.gz"
    rows = ["red.png#0\ta red wall .", "red.png#1\tred", "green.png#0\tgrass", "blue.png#0\tsea", "blue.png#1\tsky"]
    captions.write_bytes(gzip.compress("\n".join(rows).encode()))
    names = tmp_path / "train.txt"
    names.write_text("red.png\ngreen.png\n")
    archive = pack(tmp_path / "images.tar.gz")
    options = {"captions": str(captions), "images": str(archive)}
    assert summaries(read(names, **options)) == [
        ("red.png", ("a red wall .", "red"), "red"),
        ("green.png", ("grass",), "green"),
    ]
    names.write_text("red.png\nyellow.png\n")
    assert error_message(names, captions=str(captions), images=str(pack(tmp_path / "more.tar", yellow=png("red")))) == (
        f"{names}:2: no caption for yellow.png in {captions}"
    )
    inputs = reader(captions=str(captions), images=str(archive)).read_inputs(names)
    assert next(inputs).captions == ()
    assert sorted(path.name for path in tmp_path.iterdir()) == [  # nothing is unpacked to the disk
        *("images.tar.gz", "more.tar", "tokens.txt.gz", "train.txt"),
    ]


def test_folder_in_an_archive(tmp_path: Path) -> None:
    file = tmp_path / "train.tsv"
    file.write_text("green.png\tgrass\n")
    archive = pack(tmp_path / "all.tar", start="./a/b/")
    assert summaries(read(file, images=str(archive / "a" / "b"))) == [("green.png", ("grass",), "green")]
    assert error_message(file, images=str(archive)) == (
        f"{file}:1: file green.png in {archive}: no such file in the archive; did you mean 'a/b/green.png'?"
    )


def test_image_beside_the_list_takes_precedence(tmp_path: Path) -> None:
    paint(tmp_path)
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "red.png").write_bytes(png("blue"))
    (tmp_path / "kept" / "other.png").write_bytes(png("green"))
    file = tmp_path / "train.tsv"
    file.write_text(f"red.png\tx\nother.png\ty\n{tmp_path / 'green.png'}\tz\n")
    assert [colour for _, _, colour in summaries(read(file, images=str(tmp_path / "kept")))] == [
        "red",
        "green",
        "green",
    ]


def test_folder_of_images(tmp_path: Path) -> None:
    folder = paint(tmp_path / "images")
    (folder / "notes.txt").write_text("not an image")
    (folder / "UPPER.PNG").write_bytes(png("red"))
    names = [picture.name for picture in reader().read_inputs(folder)]
    assert names == ["UPPER.PNG", "blue.png", "green.png", "red.png"]
    captions = tmp_path / "captions.tsv"
    captions.write_text("".join(f"{name}\ta caption\n" for name in names))
    assert [picture.captions for picture in read(folder, captions=str(captions))] == [("a caption",)] * 4
    (tmp_path / "empty").mkdir()
    assert error_message(tmp_path / "empty") == f"{tmp_path / 'empty'}: no image, video or sound in the folder"


def test_standard_input_is_a_stream_of_image_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(paint(tmp_path))

    class Typed(io.BytesIO):
        buffer = property(lambda self: self)

    monkeypatch.setattr("sys.stdin", Typed(b"red.png\n\nblue.png\n"))
    pictures = reader().read_inputs(Path("-"))
    assert [(each.name, each.location.line) for each in pictures] == [("red.png", 1), ("blue.png", 3)]
    monkeypatch.setattr("sys.stdin", Typed(b"red.png\ta\nred.png\tb\n"))
    assert [each.captions for each in read(Path("-"))] == [("a", "b")]


def test_sequences_of_vectors(tmp_path: Path) -> None:
    file = tmp_path / "frames.jsonl"
    file.write_text('{"vector": [[1, 2.5], [3, 4], [5, 6]], "caption": "x"}\n')
    (example,) = read(file)
    assert example.content.tolist() == [[1, 2.5], [3, 4], [5, 6]]
    for damaged, problem in (
        ("[[1, 2], [3]]", "expected a list of numbers, or a list of such lists of equal length, found [[1, 2], [3]]"),
        ("[[1, 2], [3, null]]", "element 2 of channel 2 is missing"),
        ("[[[1]]]", "found shape (1, 1, 1)"),
    ):
        file.write_text(f'{{"vector": {damaged}, "caption": "x"}}\n')
        assert problem in error_message(file)


def test_vectors(tmp_path: Path) -> None:
    file = tmp_path / "train.jsonl"
    file.write_text('{"vector": [1, 2.5], "caption": "x"}\n{"vector": [1, 2.5], "caption": ["y", "z"]}\n')
    first, second = read(file)  # the same numbers, and yet two examples
    assert (first.content.tolist(), first.captions, second.captions) == ([[1, 2.5]], ("x",), ("y", "z"))
    table = tmp_path / "vectors.npz"
    np.savez(table, names=np.array(["a", "b"]), vectors=np.array([[1, 2, 3], [4, 5, 6]]))
    names = tmp_path / "names.tsv"
    names.write_text("b\tlater\na\tfirst\n")
    assert [each.content.tolist() for each in read(names, images=str(table))] == [[[4, 5, 6]], [[1, 2, 3]]]
    names.write_text("b\tx\nbb\ty\n")
    assert error_message(names, images=str(table)) == f"{names}:2: no vector 'bb' in {table}; did you mean 'b'?"
    np.savez(table, names=np.array(["a", "b"]), vectors=np.zeros(3))
    assert "expected names (N,) and numbers vectors (N, D), found names (2,) and vectors float64 (3,)" in error_message(
        names, images=str(table)
    )
    np.savez(table, x=np.zeros((2, 3)))
    assert error_message(names, images=str(table)) == f"{table}: expected the arrays names and vectors, found x"


def test_python_values(tmp_path: Path) -> None:
    paint(tmp_path)
    pixels = np.full((9, 7, 3), COLOURS["green"], np.uint8)
    actual = read([str(tmp_path / "red.png"), (tmp_path / "blue.png", "sea"), (pixels, ["a", "b"])])
    assert [(each[1], each[2]) for each in summaries(actual)] == [
        ((), "red"),
        (("sea",), "blue"),
        (("a", "b"), "green"),
    ]
    (vector,) = read([([0.5, 1.0], "x")])
    assert vector.content.tolist() == [[0.5, 1]]
    assert error_message("red.png") == "input: expected a list of paths or arrays, found a single string"
    assert error_message([np.zeros((3, 3, 3))]).startswith(
        "input:1: image, video or sound: expected numbers (frames, features), found float64 (3, 3, 3)"
    )
    assert error_message([([1, float("nan")], "x")]).startswith("input:1: ")
    assert error_message([([1.0], [3])]) == "input:1: caption: expected a string, found int"


def test_tables_in_memory(tmp_path: Path) -> None:
    paint(tmp_path)
    red, blue = (str(tmp_path / f"{name}.png") for name in ("red", "blue"))
    frame = pd.DataFrame({"caption": ["sun", "sea", "fire"], "image": [red, blue, red]})
    assert [(each[1], each[2]) for each in summaries(read(frame))] == [(("sun", "fire"), "red"), (("sea",), "blue")]
    settings, note = CaptionedSignalReader().inspect(frame)
    assert settings == {"image_column": "image", "caption_column": "caption"}
    assert note == "image from column 2 'image', caption from column 1 'caption'"
    pixels = np.full((9, 7, 3), COLOURS["green"], np.uint8)
    table = {"photo": [pixels, pixels], "says": [["a", "b"], "c"]}
    actual = read(table, image_column="photo", caption_column="says")
    assert [each.captions for each in actual] == [("a", "b"), ("c",)]
    assert [each.captions for each in read({"image": [blue]})] == [()]


def test_errors_name_file_and_line(tmp_path: Path) -> None:
    paint(tmp_path)
    file = tmp_path / "train.tsv"
    file.write_text("2513260012.jpeg\tx\n")
    assert error_message(file).endswith(
        f"no file '2513260012.jpeg' in {tmp_path}; if the files are elsewhere, set task.images"
    )
    file.write_text("red.png\tx\nreed.png\ty\n")
    assert error_message(file) == f"{file}:2: no file 'reed.png' in {tmp_path}; did you mean 'red.png'?"
    noise = io.BytesIO()
    Image.fromarray(np.random.default_rng(1).integers(0, 256, size=(50, 50, 3), dtype=np.uint8)).save(noise, "PNG")
    (tmp_path / "reed.png").write_bytes(noise.getvalue()[:1000])
    assert error_message(file).startswith(f"{file}:2: file {tmp_path / 'reed.png'}: damaged image (")
    archive = pack(tmp_path / "images.tar.gz", bad=b"no image")
    file.write_text("green.png\tx\nbad.png\ty\n")
    assert error_message(file, images=str(archive)) == (f"{file}:2: file bad.png in {archive}: not a PNG or JPEG image")
    cut = tmp_path / "cut.tar.gz"
    cut.write_bytes(archive.read_bytes()[:200])
    (tmp_path / "green.png").unlink()
    assert error_message(file, images=str(cut)).startswith(f"{cut}: not a tar or zip archive, or damaged (")
    assert "no such file" in error_message(file, images=str(tmp_path / "nowhere"))
    lines = tmp_path / "train.jsonl"
    for text, why in (
        ('{"caption": "x"}', "'image': expected a file name (or a key 'values'), found NoneType"),
        ('{"image": 3}', "'image': expected a file name (or a key 'values'), found int"),
        ('{"image": "red.png", "caption": [1]}', "'caption': expected a string or a list of strings, found [1]"),
        ('{"vector": ["a"], "caption": "x"}', "vector: expected a list of numbers, or a list of such lists"),
        ('{"vector": [], "caption": "x"}', "vector: expected a list of numbers, or a list of such lists"),
    ):
        lines.write_text(text + "\n")
        assert error_message(lines).startswith(f"{lines}:1: {why}")


def test_columns_of_a_list_are_named(tmp_path: Path) -> None:
    path = tmp_path / "list.tsv"
    path.write_text("a.png\ta dog\n")
    note = CaptionedSignalReader().inspect(path)[1]
    assert note == "file from column 1 (task.image_column = 0), caption from column 2 (task.caption_column = 1)"
    assert CaptionedSignalReader(captions="x.json").inspect(path) == ({}, "")
