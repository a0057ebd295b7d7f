from pathlib import Path
from typing import Any

import numpy as np
import pytest

from seqloom.data.readers.kaldi import read_kaldi
from seqloom.data.readers.media import MediaDecoder
from seqloom.data.readers.recordings import RecordingReader
from seqloom.data.readers.text_files import DataError

soundfile = pytest.importorskip("soundfile")


def folder(path: Path, **files: str) -> Path:
    """A data folder; the recordings a and b last one and two seconds."""
    for name, seconds in (("a", 1), ("b", 2)):
        soundfile.write(path / f"{name}.flac", np.full(8000 * seconds, seconds / 8), 8000)
    contents = {"wav.scp": "u1 a.flac\nu2 flac -c -d -s b.flac |\n", "text": "u2 no\nu1 yes yes\n", **files}
    for name, content in contents.items():
        (path / name).write_text(content)
    return path


def test_recordings_and_their_texts(tmp_path: Path) -> None:
    data = folder(tmp_path)
    for source in (data, data / "wav.scp"):
        recordings = list(RecordingReader().read(source))
        rows = [(each.name, each.text, len(each), each.rate) for each in recordings]
        assert rows == [("u1", "yes yes", 8000, 8000), ("u2", "no", 16000, 8000)]
    assert str(recordings[1].location) == f"{data / 'wav.scp'}:2"


def test_paths_may_be_relative_to_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "data").mkdir()
    folder(tmp_path)
    (tmp_path / "data" / "wav.scp").write_text("u1 b.flac\n")
    monkeypatch.chdir(tmp_path)
    (recording,) = RecordingReader().read(Path("data"))
    assert (len(recording), recording.text) == (16000, None)


def test_segments_are_cut_and_a_recording_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    segments = "s1 u2 0.5 1.25\ns2 u2 1.5 -1\ns3 u1 0 1\n"
    data = folder(tmp_path, segments=segments, text="s1 one\ns2 two\ns3 three\n")
    opened: list[str] = []
    decode = MediaDecoder.decode

    def watch(self: MediaDecoder, stream: Any, name: str) -> Any:
        opened.append(name)
        return decode(self, stream, name)

    monkeypatch.setattr(MediaDecoder, "decode", watch)
    rows = [(each.name, each.text, len(each)) for each in RecordingReader().read(data)]
    assert rows == [("s1", "one", 6000), ("s2", "two", 4000), ("s3", "three", 8000)]
    assert opened == ["b.flac", "a.flac"]
    (data / "segments").write_text("s1 u2 2.5 3\n")
    (data / "text").write_text("s1 one\n")
    with pytest.raises(DataError, match=r"segments:1: the recording ends after 2 s, but the part starts at 2\.5 s"):
        list(RecordingReader().read(data))


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"wav.scp": "u1 sox a.flac -t wav - speed 2 |\n"}, "wav.scp:1: commands are not run: 'sox a.flac"),
        ({"wav.scp": "u1 rm -rf a.flac; cat a.flac |\n"}, "wav.scp:1: commands are not run"),
        ({"wav.scp": "u1\n"}, "wav.scp:1: expected a name and a file"),
        ({"wav.scp": "u1 a.flac\nu1 b.flac\n"}, "wav.scp:2: 'u1' occurs a second time"),
        ({"text": "u3 yes\n"}, "text:1: no recording 'u3' in wav.scp"),
        ({"segments": "s1 u9 0 1\n"}, "segments:1: no recording 'u9' in wav.scp"),
        ({"segments": "s1 u1 one\n"}, "segments:1: expected an utterance, a recording"),
        ({"segments": "s1 u1 1 0.5\n"}, "segments:1: expected 0 ≤ start < end, found 1 and 0.5"),
    ],
)
def test_errors_name_the_file_and_the_line(tmp_path: Path, files: dict[str, str], message: str) -> None:
    with pytest.raises(DataError) as error:
        read_kaldi(folder(tmp_path, **files))
    assert message in str(error.value)
