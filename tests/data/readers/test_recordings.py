import io
import json
import struct
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from tests.data.readers.test_audio_files import wav

from seqloom.data.readers.audio_files import Audio
from seqloom.data.readers.media import MediaDecoder
from seqloom.data.readers.recordings import Recording, RecordingReader, write_npz
from seqloom.data.readers.text_files import DataError

TONES = {"low": 100, "middle": 200, "high": 300}  # the value of all its samples


def tone(name: str, length: int = 50) -> bytes:
    return wav(np.full(length, TONES[name], dtype=np.int16).tobytes())


def cepstra(name: str, frames: int = 4) -> bytes:
    return struct.pack(">i", 13 * frames) + np.full(13 * frames, TONES[name], dtype=">f4").tobytes()


def play(folder: Path) -> Path:
    folder.mkdir(exist_ok=True, parents=True)
    for name in TONES:
        (folder / f"{name}.wav").write_bytes(tone(name))
    return folder


def pack(path: Path, files: dict[str, bytes]) -> Path:
    with tarfile.open(path, "w:gz" if path.suffix == ".gz" else "w") as archive:
        for name, data in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
    return path


def read(source: Any, **options: Any) -> list[Recording]:
    names = {"sample_rate": "sample_rate", "n_mfcc": "n_mfcc", "height": "line_height"}
    decoding = {names[name]: options.pop(name) for name in names if name in options}
    decoder = MediaDecoder(**{"line_height": 32} | decoding)
    return list(RecordingReader(**options, decoder=decoder).read(source))


def transcripts(actual: list[Recording]) -> list[tuple[str, str | None]]:
    """The tone and the transcript of each recording."""
    names = {value: name for name, value in TONES.items()}
    return [(names[round(float(each.values.flat[0]) * (32768 if each.rate else 1))], each.text) for each in actual]


def error_message(source: Any, **options: Any) -> str:
    with pytest.raises(DataError) as error:
        read(source, **options)
    return str(error.value)


def test_list_of_files_and_transcripts(tmp_path: Path) -> None:
    play(tmp_path)
    table = tmp_path / "train.tsv"
    table.write_text("low.wav\tda da\nhigh.wav\t\nlow.wav\tagain\n")
    actual = read(table)
    assert transcripts(actual) == [("low", "da da"), ("high", ""), ("low", "again")]
    assert [(each.location, each.rate, len(each)) for each in actual] == [
        ((str(table), n), 8000, 50) for n in (1, 2, 3)
    ]
    assert actual[0].values.shape == (50,)
    assert actual[0].values.dtype == np.float32
    table.write_text("low.wav\nhigh.wav\n")
    assert transcripts(read(table)) == [("low", None), ("high", None)]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("list.txt", "low.wav call me\nhigh.wav no, no\n"),
        ("list.txt", "file text\nlow.wav call me\nhigh.wav no, no\n"),
        ("list.txt", "low call me\nhigh no, no\n"),
        ("list.txt", "low.wav|call me\nhigh.wav|no, no\n"),
        ("list.csv", 'file,text\nlow.wav,call me\nhigh.wav,"no, no"\n'),
        ("list.csv", "sentence;path;up_votes\ncall me;low.wav;2\nno, no;high.wav;0\n"),
        ("list.tsv", "client_id\tpath\tsentence\n7\tlow.wav\tcall me\n7\thigh.wav\tno, no\n"),
        ("list.lst", "low.wav\tcall me\nhigh.wav\tno, no\n"),
        (
            "list.json",
            '[{"audio_filepath": "low.wav", "text": "call me"}, {"audio_filepath": "high.wav", "text": "no, no"}]',
        ),
        (
            "list.jsonl",
            '{"path": "low.wav", "transcription": "call me"}\n{"path": "high.wav", "transcription": "no, no"}\n',
        ),
    ],
)
def test_lists_as_people_have_them(tmp_path: Path, name: str, text: str) -> None:
    for pitch in ("low", "high"):
        (tmp_path / f"{pitch}.wav").write_bytes(tone(pitch))
    (tmp_path / name).write_text(text)
    recordings = list(RecordingReader().read(tmp_path / name))
    assert [each.text for each in recordings] == ["call me", "no, no"]
    assert [Path(each.name).stem for each in recordings] == ["low", "high"]


def test_columns_are_named_and_unclear_ones_explained(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("client_id\tpath\tsentence\n7\tlow.wav\tcall me\n")
    settings, note = RecordingReader().inspect(tmp_path / "a.tsv")
    assert settings == {"file_column": "path", "text_column": "sentence"}
    assert note == "file name from column 2 'path', text from column 3 'sentence'; not read: column 'client_id'"
    (tmp_path / "b.csv").write_text("low.wav\nhigh.wav\n")
    with pytest.raises(DataError, match="expected a column with the file name and a column with the text, found only"):
        RecordingReader().inspect(tmp_path / "b.csv")


def test_a_folder_with_a_list_and_a_table_in_memory(tmp_path: Path) -> None:
    (tmp_path / "low.wav").write_bytes(tone("low"))
    (tmp_path / "metadata.csv").write_text("file_name,transcription\nlow.wav,call me\n")
    (recording,) = RecordingReader().read(tmp_path)
    assert (recording.name, recording.text) == ("low.wav", "call me")
    table = {"audio": [str(tmp_path / "low.wav")], "transcript": ["call me"]}
    (recording,) = RecordingReader().read(table)  # type: ignore[arg-type]
    assert recording.text == "call me"


def test_layout_of_ljspeech(tmp_path: Path) -> None:
    (tmp_path / "wavs").mkdir()
    for name in ("LJ1", "LJ2"):
        (tmp_path / "wavs" / f"{name}.wav").write_bytes(tone("low"))
    (tmp_path / "metadata.csv").write_text('LJ1|"Oh, 2|"Oh, two\nLJ2|no|no\n')
    assert [recording.text for recording in read(tmp_path)] == ['"Oh, 2', "no"]
    note = RecordingReader().inspect(tmp_path)[1]
    assert note == (
        "file name from column 1 (task.file_column = 0), text from column 2 (task.text_column = 1); not read: column 3"
    )


def test_other_columns_and_json(tmp_path: Path) -> None:
    play(tmp_path / "sounds")
    table = tmp_path / "train.csv"
    table.write_text('text,path\n"da, da",low.wav\nta,high.wav\n')
    options = {"file_column": "path", "text_column": "text", "files": str(tmp_path / "sounds")}
    assert transcripts(read(table, **options)) == [("low", "da, da"), ("high", "ta")]
    lines = tmp_path / "train.jsonl"
    objects = [
        {"file": "sounds/low.wav", "text": "a"},
        {"audio": "sounds/high.wav"},
        {"strokes": [[1, 2, 0], [3, 4, 1]], "text": " b "},
    ]
    lines.write_text("".join(json.dumps(each) + "\n" for each in objects))
    actual = read(lines)
    assert transcripts(actual[:2]) == [("low", "a"), ("high", None)]
    np.testing.assert_array_equal(actual[2].values, np.array([[1, 2, 0], [3, 4, 1]], np.float32))
    assert (actual[2].rate, actual[2].text, actual[2].name) == (0, "b", "")


def test_sphinx_layout(tmp_path: Path) -> None:
    (tmp_path / "train.fileids").write_text("all/a/low-a\nall/b/high-b\n")
    list_ = tmp_path / "train.transcription"
    list_.write_text("YES NO (low-a)\n\n<s> NO (REALLY) </s> (high-b)\n")
    files = {"all/b/high-b.mfc": cepstra("high"), "all/c/other.mfc": b"", "all/a/low-a.mfc": cepstra("low")}
    archive = pack(tmp_path / "features.tar.gz", files)
    actual = read(list_, files=str(archive))
    assert transcripts(actual) == [("low", "YES NO"), ("high", "NO (REALLY)")]
    assert [each.location.line for each in actual] == [1, 3]
    assert actual[0].values.shape == (4, 13)
    assert actual[0].rate == 0
    assert transcripts(read(list_, files=str(archive), format="sphinx")) == transcripts(actual)
    assert error_message(list_, files=str(archive), n_mfcc=12) == (
        f"{list_}:1: file all/a/low-a in {archive}: 52 values are not a multiple of 12 features per frame;"
        " set task.audio.n_mfcc"
    )
    assert error_message(list_, files=str(archive / "all")).startswith(
        f"{list_}:1: file all/a/low-a in {archive / 'all'}: no such file in the archive; "
        "did you mean 'all/a/low-a.mfc'?"
    )
    list_.write_text("YES low-a\n")
    assert error_message(list_) == f"{list_}:1: expected a text and its file name in parentheses, found 'YES low-a'"


def test_sphinx_without_fileids(tmp_path: Path) -> None:
    play(tmp_path / "sounds")
    list_ = tmp_path / "texts"
    list_.write_text("a b (low)\nc (high)\n")
    assert transcripts(read(list_, files=str(tmp_path / "sounds"))) == [("low", "a b"), ("high", "c")]
    assert error_message(list_) == f"{list_}:1: no file 'low' in {tmp_path}"


def test_folder_with_text_files(tmp_path: Path) -> None:
    folder = play(tmp_path / "all")
    play(folder / "more")
    (folder / "low.txt").write_text("da\n da \n")
    (folder / "more" / "high.txt").write_text("")
    expected = [("high", None), ("low", "da da"), ("middle", None), ("high", ""), ("low", None), ("middle", None)]
    assert transcripts(read(folder)) == expected
    files = {path.relative_to(tmp_path).as_posix(): path.read_bytes() for path in sorted(folder.rglob("*.*"))}
    archive = pack(tmp_path / "all.tar.gz", files)
    assert transcripts(read(archive)) == expected
    assert [each.name for each in read(archive)][1] == "all/low.wav"
    assert [each.name for each in read(archive / "all" / "more")] == ["high.wav", "low.wav", "middle.wav"]
    (tmp_path / "empty").mkdir()
    assert error_message(tmp_path / "empty").startswith(
        f"{tmp_path / 'empty'}: no recording in the folder; expected files that end in .wav"
    )
    (folder / "low.txt").write_bytes(b"d\xff")
    assert error_message(folder).startswith(
        f"{folder / 'low.txt'}:1: expected UTF-8, found byte 0xff at byte 2 of the line"
    )


def test_archive_is_read_once_in_any_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archives = [pack(tmp_path / f"{n}.tar.gz", {f"a/{name}.wav": tone(name, 50 + n) for name in TONES}) for n in (1, 2)]
    names = [f"{archive.name}/a/{name}.wav" for name in reversed(TONES) for archive in archives]
    (tmp_path / "train.tsv").write_text("".join(f"{name}\tx\n" for name in (*names, *names)))
    opened: list[str] = []
    real: Callable[..., Any] = tarfile.open

    def recording_open(path: Any, *rest: Any, **more: Any) -> Any:
        opened.append(str(path))
        return real(path, *rest, **more)

    monkeypatch.setattr(tarfile, "open", recording_open)
    actual = read(tmp_path / "train.tsv")
    assert [name for name, _ in transcripts(actual)] == 2 * ["high", "high", "middle", "middle", "low", "low"]
    assert [len(each) for each in actual] == [51, 52] * 6
    assert sorted(opened) == sorted(map(str, archives))
    opened.clear()
    assert len(read([tmp_path / name for name in names])) == 6
    assert len(opened) == 2


def test_recordings_are_loaded_lazily(tmp_path: Path) -> None:
    archive = pack(tmp_path / "a.tar", {"low.wav": tone("low"), "high.wav": b"no sound"})
    (tmp_path / "train.tsv").write_text("low.wav\tx\nhigh.wav\ty\n")
    actual = RecordingReader(files=str(archive)).read(tmp_path / "train.tsv")
    assert next(actual).text == "x"
    with pytest.raises(
        DataError, match=r"train\.tsv:2: file high\.wav in .*: expected a WAV, FLAC, Ogg, MP3, AIFF or SPHERE file"
    ):
        next(actual)


def test_single_file(tmp_path: Path) -> None:
    play(tmp_path)
    (tmp_path / "low.mfc").write_bytes(cepstra("low"))
    np.save(tmp_path / "middle.npy", np.full((3, 2), 200))
    for name in ("low.wav", "low.mfc", "middle.npy"):
        (actual,) = RecordingReader().read_inputs(tmp_path / name)
        assert transcripts([actual]) == [(name.partition(".")[0], None)]
    archive = pack(tmp_path / "a.tar.gz", {"x/high.wav": tone("high")})
    assert transcripts(read(archive / "x" / "high.wav")) == [("high", None)]
    assert error_message(tmp_path / "lo.wav") == (
        f"{tmp_path / 'lo.wav'}:1: no file 'lo.wav' in {tmp_path}; did you mean 'low.wav'?"
    )
    assert transcripts(read(tmp_path / "high.wav", format="jsonl")) == [
        ("high", None)
    ]  # a recording is no list of them


def test_text_line_images(tmp_path: Path) -> None:
    pixels = np.full((8, 20), 255, dtype=np.uint8)
    pixels[:, 5:10] = 0
    Image.fromarray(pixels).save(tmp_path / "line.png")
    (actual,) = read(tmp_path / "line.png", height=8)
    assert (actual.values.shape, actual.rate) == ((20, 8), 0)
    np.testing.assert_array_equal(actual.values, pixels.T / np.float32(255))
    (taller,) = read(tmp_path / "line.png", height=16)
    assert taller.values.shape == (40, 16)
    (from_array,) = read([(pixels, "1")], height=8)
    np.testing.assert_array_equal(from_array.values, actual.values)
    assert from_array.text == "1"
    (tmp_path / "line.png").write_bytes(b"\x89PNG")
    assert error_message(tmp_path / "line.png").endswith("line.png: not a PNG or JPEG image")


def test_npz_with_many_recordings(tmp_path: Path) -> None:
    file = tmp_path / "all.npz"
    frames = [np.full((2, 3), 100.0), np.full((1, 3), 300.0)]
    write_npz(file, frames, ["a", "b "])
    actual = read(file)
    assert transcripts(actual) == [("low", "a"), ("high", "b")]
    assert [(each.location.line, each.values.shape, each.rate) for each in actual] == [(1, (2, 3), 0), (2, (1, 3), 0)]
    write_npz(file, [np.full(40, 100 / 32768), np.full(30, 300 / 32768)], rate=8000)
    assert transcripts(read(file)) == [("low", None), ("high", None)]
    assert [(each.rate, len(each)) for each in read(file, sample_rate=16000)] == [(16000, 80), (16000, 60)]
    np.savez(file, values=frames[0])
    assert transcripts(read(file)) == [("low", None)]
    with pytest.raises(ValueError, match="expected a text for each of 2 sequences, found 1"):
        write_npz(file, frames, ["a"])
    with pytest.raises(ValueError, match=r"expected samples \(N,\) and a rate, .*, found \(2, 3\) and rate 8000"):
        write_npz(file, frames, rate=8000)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"lengths": [2, 2]}, r"lengths int64 \(2,\) do not add up to the length of values \(3, 2\)"),
        ({"lengths": [4, -1]}, r"lengths int64 \(2,\) do not add up to the length of values \(3, 2\)"),
        ({"lengths": [1, 2], "texts": ["a"]}, r"texts: expected 2 strings, found <U1 \(1,\)"),
        ({"lengths": [1, 2], "texts": [1, 2]}, r"texts: expected 2 strings, found int64 \(2,\)"),
        ({"lengths": [1, 2], "rate": 8000}, r"expected values .*, found \(3, 2\) and rate 8000"),
        (
            {"lengths": [3], "values": np.ones(3), "rate": -8},
            "all.npz: expected a sample rate from 1000 to 1000000 Hz, found -8",
        ),
        ({"lengths": [3, 0]}, r"all.npz:2: recording: no frames"),
        (
            {"lengths": [1, 2], "values": np.full((3, 2), np.nan)},
            "all.npz:1: recording: frame 1, feature 1: expected a finite number, found nan",
        ),
    ],
)
def test_invalid_arrays_are_errors(tmp_path: Path, arrays: dict[str, Any], message: str) -> None:
    np.savez(tmp_path / "all.npz", **({"values": np.zeros((3, 2))} | arrays))
    with pytest.raises(DataError, match=message):
        read(tmp_path / "all.npz")


def test_python_values(tmp_path: Path) -> None:
    low = play(tmp_path) / "low.wav"
    samples = np.full(20, 100 / 32768)
    actual = read([low, (str(low), "x"), (Audio(samples.astype(np.float32), 4000), "y"), ([[100, 1]], "z")])
    assert transcripts(actual) == [("low", None), ("low", "x"), ("low", "y"), ("low", "z")]
    assert [each.rate for each in actual] == [8000, 8000, 4000, 0]
    assert [each.location for each in actual] == [("input", n) for n in (1, 2, 3, 4)]
    whole = read([samples, np.full(20, 100, dtype=np.int16)], sample_rate=8000)
    assert transcripts(whole) == [("low", None), ("low", None)]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (np.zeros(3), "recording: expected frames (T, D), or samples with their rate, found float64 (3,)"),
        (
            np.zeros((2, 3, 4)),
            "recording: expected frames (T, D), or samples with their rate, found float64 (2, 3, 4)",
        ),
        (np.array([["a"]]), "recording: expected numbers (frames, features), found <U1 (1, 1)"),
        ([[1, 2], [3]], "expected numbers (T, D), found list"),
        (None, "recording: expected frames (T, D), or samples with their rate, found float64 ()"),
        (([[1.0]], 3), "transcript: expected a string, found int"),
        (([[1.0]], "a\0"), "found a NUL character"),
        (np.array([[1.0, np.inf]]), "recording: frame 1, feature 2: expected a finite number, found inf"),
        (Audio(np.zeros(0, np.float32), 8000), "recording: no samples"),
        (
            Audio(np.zeros(5, np.float32), 0),
            "recording: expected a sample rate from 1000 to 1000000 Hz, found 0",
        ),
        ("missing.wav", "no file 'missing.wav' in ."),
        ("", "file .: no frames in the folder; expected files that end in .png, .jpg, .jpeg"),
    ],
    ids=str,
)
def test_invalid_values_are_errors(value: Any, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert error_message([value]) == f"input:1: {message}"


def test_single_string_is_an_error() -> None:
    assert error_message("a.wav") == "input: expected a list of paths or arrays, found a single string"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"text": "a"}', "expected a file name as 'file' or 'audio' or 'image', or 'values', found 'text'"),
        ('{"file": 3}', "expected a file name as 'file' or 'audio' or 'image', or 'values', found 'file'"),
        ('{"file": "low.wav", "text": 3}', "'text': expected a string, found int"),
        ('{"strokes": [[1, 2], [3]]}', "expected numbers (T, D), found list"),
        ('{"strokes": []}', "the drawing has no strokes"),
        ('{"values": []}', "recording: no frames"),
        ('{"strokes": {"a": 1}}', "expected numbers (T, D), found dict"),
        ('{"strokes": [[1, 1e60]]}', "recording: frame 1, feature 2: expected a finite number, found inf"),
        ('{"strokes": [[1, 1' + 400 * "0" + "]]}", "expected numbers (T, D), found list"),
        ("{", "invalid JSON"),
    ],
)
def test_invalid_json_objects_are_errors(line: str, message: str, tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    file.write_text(f'{{"strokes": [[1, 2]]}}\n{line}\n')
    assert error_message(file).startswith(f"{file}:2: {message}")


def test_audio_is_resampled(tmp_path: Path) -> None:
    low = play(tmp_path) / "low.wav"
    (actual,) = read(low, sample_rate=4000)
    assert (actual.rate, len(actual)) == (4000, 25)


def test_fuzzed_lists_are_read_or_rejected(tmp_path: Path) -> None:
    play(tmp_path)
    random = np.random.default_rng(0)
    lists = {
        "a.tsv": b"low.wav\ta text\nhigh.wav\tb\n",
        "a.csv": b'low.wav,"a, text"\nhigh.wav,b\n',
        "a.jsonl": b'{"file": "low.wav", "text": "a"}\n{"strokes": [[1, 2, 0]], "text": "b"}\n',
        "a.transcription": b"A TEXT (low)\nB (high)\n",
        "plain": b"low.wav\ta text\n",
    }
    for name, data in lists.items():
        for _ in range(150):
            changed = bytearray(data)
            for location in random.integers(0, len(data), size=int(random.integers(1, 4))):
                changed[location] = random.integers(256)
            (tmp_path / name).write_bytes(bytes(changed[: random.integers(1, len(data) + 1)]))
            try:
                actual = read(tmp_path / name)
            except DataError as error:
                assert str(tmp_path) in str(error)  # noqa: PT017  either way is right
            else:
                assert all(len(each) for each in actual)


def test_file_names_from_standard_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(play(tmp_path))

    class Typed(io.BytesIO):
        buffer = property(lambda self: self)

    monkeypatch.setattr("sys.stdin", Typed(b"low.wav\n\nhigh.wav\n"))
    assert transcripts(list(RecordingReader().read_inputs(Path("-")))) == [("low", None), ("high", None)]


def test_damaged_archives_and_missing_folders(tmp_path: Path) -> None:
    table = tmp_path / "train.tsv"
    table.write_text("low.wav\tx\n")
    archive = pack(tmp_path / "a.tar.gz", {"low.wav": tone("low")})
    archive.write_bytes(archive.read_bytes()[:60])
    assert error_message(table, files=str(archive)).startswith(f"{archive}: not a tar or zip archive, or damaged (")
    assert error_message(archive).startswith(f"{archive}: not a tar or zip archive, or damaged (")
    assert error_message(table, files=str(tmp_path / "b.tar.gz")).startswith(
        f"{tmp_path / 'b.tar.gz'}: no such file; did you mean {archive}?"
    )


def test_file_names_in_the_second_column_are_found(tmp_path: Path) -> None:
    path = tmp_path / "list.tsv"
    path.write_text("zero\ta.wav\none\tb.wav\n")
    settings, note = RecordingReader().inspect(path)
    assert settings == {"file_column": 1, "text_column": 0}
    assert note.startswith("file name from column 2 (task.file_column = 1), text from column 1 ")
    path.write_text("a.wav\tzero\n")
    assert RecordingReader().inspect(path)[0] == {"file_column": 0, "text_column": 1}
