"""Preparation of data sets: strings of digits consist of the clips and strokes they are made from."""

import gzip
import io
import json
import math
import tarfile
import wave
import zipfile
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from benchmarks import prepare
from seqloom.data import synthetic_speech
from seqloom.models.ngram.arpa import read_arpa

RATE = 8000


def _wav(samples: np.ndarray) -> bytes:
    stream = io.BytesIO()
    with wave.open(stream, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(RATE)
        file.writeframes(samples.astype("<i2").tobytes())
    return stream.getvalue()


def _archive(path: Path, members: dict[str, bytes]) -> Path:
    with tarfile.open(path, "w:gz") as archive:
        for name, content in members.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return path


def test_strings_of_clips(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prepare, "FOLDER", tmp_path)
    clips = {digit: np.full(100 + digit, digit + 1) for digit in range(10)}
    archive = _archive(
        tmp_path / "anna.tar.gz", {f"recordings/{digit}_anna_0.wav": _wav(clip) for digit, clip in clips.items()}
    )
    listed = prepare.write_strings(archive, tmp_path / "fsdd", count=20)
    rows = [row.split("\t") for row in listed.read_text().splitlines()]
    assert len(rows) == 20
    for name, text in rows:
        with wave.open(str(listed.parent / name)) as file:
            samples = np.frombuffer(file.readframes(file.getnframes()), dtype="<i2")
        digits = [int(digit) for digit in text.split()]
        assert 1 <= len(digits) <= 8
        assert (samples[samples != 0] == np.concatenate([clips[digit] for digit in digits])).all()
        assert (samples == 0).sum() <= len(digits) * RATE * 0.2


def test_each_speaker_is_held_out_in_turn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prepare, "FOLDER", tmp_path)
    monkeypatch.setattr(prepare, "SPEAKERS", ("anna", "ben", "carl"))
    monkeypatch.setenv("SEQLOOM_DATA", str(tmp_path))
    (tmp_path / "fsdd").mkdir()
    for name in prepare.SPEAKERS:
        _archive(tmp_path / f"fsdd/{name}.tar.gz", {f"recordings/3_{name}_0.wav": _wav(np.ones(9))})
    prepare.digit_strings()
    rows = {path.stem: path.read_text().splitlines() for path in (tmp_path / "fsdd").glob("*.tsv")}
    assert rows["all"] == rows["anna"] + rows["ben"] + rows["carl"]
    assert rows["without_ben"] == rows["anna"] + rows["carl"]
    assert rows["only_ben"] == rows["ben"][:200]


def test_synthetic_voices_join_the_speakers_for_training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prepare, "FOLDER", tmp_path / "data")
    monkeypatch.setattr(prepare, "SPEAKERS", ("anna", "ben"))
    monkeypatch.setenv("SEQLOOM_DATA", str(tmp_path))
    voices = [synthetic_speech.Voice("en", "Andy", 40, 150), synthetic_speech.Voice("en", "Lee", 50, 160)]
    monkeypatch.setattr(synthetic_speech, "choose_voices", lambda *_, **__: voices)
    monkeypatch.setattr(synthetic_speech, "speak", lambda text, voice, **_: np.full(len(text), voice.pitch / 100))
    (tmp_path / "fsdd").mkdir()
    for name in prepare.SPEAKERS:
        _archive(tmp_path / f"fsdd/{name}.tar.gz", {f"recordings/3_{name}_0.wav": _wav(np.ones(9))})
    prepare.synthetic_digits()
    prepare.synthetic_strings()
    lists = {
        name: (tmp_path / f"data/{name}.tsv").read_text().splitlines()
        for name in (
            "fsdd_digits/without_ben_synthetic",
            "fsdd/without_ben_synthetic",
            "fsdd/without_ben",
            "fsdd/synthetic",
        )
    }
    digits = lists["fsdd_digits/without_ben_synthetic"]
    assert digits[:3] == [
        "file\tlabel",
        "anna.tar.gz/recordings/3_anna_0.wav\t3",
        "synthetic/en+Andy-40-150/0001.wav\t0",
    ]
    assert len(digits) == 2 + 20
    assert lists["fsdd/without_ben_synthetic"] == lists["fsdd/without_ben"][::2] + lists["fsdd/synthetic"]
    assert len(lists["fsdd/synthetic"]) == 2 * prepare.STRINGS_PER_VOICE
    name, text = lists["fsdd/synthetic"][-1].split("\t")
    samples, rate = prepare.read_wav(tmp_path / "data" / "fsdd" / name)
    words = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
    assert rate == RATE
    assert (samples[samples != 0] == int(0.5 * 32767)).all()  # one voice
    assert (samples != 0).sum() == sum(len(words[int(digit)]) for digit in text.split())


def test_strings_of_strokes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prepare, "FOLDER", tmp_path)
    monkeypatch.setenv("SEQLOOM_DATA", str(tmp_path))
    (tmp_path / "pendigits").mkdir()
    random = np.random.default_rng(1)
    shapes = random.integers(0, 101, size=(20, 16))
    lines = [
        ",".join([*map(str, shape), "".join("1" if place == number % 10 else "0" for place in range(10))])
        for number, shape in enumerate(shapes)
    ]
    for name in ("tra", "tes"):
        (tmp_path / f"pendigits/pendigits.{name}.gz").write_bytes(gzip.compress("\n".join(lines).encode()))
    prepare.pen_strings()
    first = json.loads((tmp_path / "pen_test.jsonl").read_text().splitlines()[0])
    strokes, digits = np.array(first["strokes"]), first["text"].split()
    assert strokes.shape == (8 * len(digits), 3)
    assert (np.flatnonzero(strokes[:, 2]) % 8 == 7).all()
    for number, digit in enumerate(digits):
        moved = strokes[8 * number + 1 : 8 * number + 8, :2]
        own = [np.diff(shape.reshape(8, 2) / 100, axis=0) for shape in shapes[int(digit) :: 10]]
        assert any(np.allclose(moved, each, atol=1e-3) for each in own)  # they are rounded to a thousandth


def test_speakers_are_held_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prepare, "FOLDER", tmp_path)
    monkeypatch.setenv("SEQLOOM_DATA", str(tmp_path))
    source = tmp_path / "an4_mfcc"
    source.mkdir()
    names = [f"an4/{chr(97 + speaker)}/{number}" for speaker in range(20) for number in range(3)]
    for part, own in (("train", names[3:]), ("test", names[:3])):
        (source / f"an4_{part}.fileids").write_text("".join(f"{name}\n" for name in own))
        (source / f"an4_{part}.transcription").write_text("".join(f"YES ({name})\n" for name in own))
        _archive(source / f"an4_{part}_mfc.tar.gz", {f"{name}.mfc": name.encode() for name in own})
    (source / "an4.dic").write_text("A  AH\nA(2)  EY\n\nYES  Y EH S\n")
    prepare.speech()
    parts = [(tmp_path / f"an4/{part}.fileids").read_text().split() for part in ("train", "dev", "test")]
    train, dev, test = ({name.split("/")[1] for name in part} for part in parts)
    assert (len(train), len(dev), len(test)) == (17, 2, 1)
    assert not train & dev | train & test | dev & test
    assert sorted(name for part in parts for name in part) == sorted(names)
    assert (tmp_path / "an4/dev.transcription").read_text().splitlines()[0] == f"YES ({parts[1][0]})"
    assert (tmp_path / f"an4/{parts[1][0]}.mfc").read_text() == parts[1][0]
    assert (tmp_path / "an4/words.txt").read_text().split() == ["A", "YES"]
    ngram, known = read_arpa(tmp_path / "an4/words.arpa")
    yes, unseen = (math.exp(ngram.score([[known.index(word)]])[0][0]) for word in ("YES", "A"))
    assert yes > 0.7 > 0.1 > unseen > 0


def test_sentences_of_three_sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prepare, "FOLDER", tmp_path)
    monkeypatch.setenv("SEQLOOM_DATA", str(tmp_path))
    for name, text in (
        ("wikitext2/train.txt", " = A title = \n \n In 1 @,@ 000 years . A role @-@ play ? Then\n"),
        ("ptb/ptb.train.txt", " no capitals here \n" * 197 + " a test sentence \n" * 2),
    ):
        (tmp_path / name).parent.mkdir()
        (tmp_path / f"{name}.gz").write_bytes(gzip.compress(text.encode()))
    (tmp_path / "brown").mkdir()
    with zipfile.ZipFile(tmp_path / "brown/brown.zip", "w") as archive:
        archive.writestr("brown/ca01", "\n\tThe/at 1/2/cd end/nn ./.\n")
        archive.writestr("brown/README", "not/a text/of it\n")
    monkeypatch.setattr(prepare, "CONLL2000_TEST", 2)
    prepare.plain_text()
    train, dev = ((tmp_path / f"text/{part}.txt").read_text().splitlines() for part in ("train", "dev"))
    assert dev == ["= A title =", "no capitals here", "no capitals here"]  # every hundredth of 202
    assert train[:3] == ["In 1,000 years .", "A role - play ?", "Then"]
    assert train[3:-1] == ["no capitals here"] * 195
    assert train[-1] == "The 1/2 end ."


def test_unseen_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "cmudict_g2p").mkdir()
    for part, text in ((20, "A  AH\nBE  B IY\n"), (1, "A  EY\nBEE  B IY\nBEE  B EH\n")):
        path = tmp_path / f"cmudict_g2p/cmudict-0.7b.train-dev-{part}-21.gz"
        path.write_bytes(gzip.compress(text.encode()))
    monkeypatch.setenv("SEQLOOM_DATA", str(tmp_path))
    monkeypatch.setattr(prepare, "FOLDER", tmp_path)
    prepare.pronunciations()
    assert (tmp_path / "cmudict_unseen.txt").read_text() == "BEE  B IY\nBEE  B EH\n"


def test_phrases_of_a_tree() -> None:
    assert list(prepare.labelled_phrases("(3 (2 a) (4 (3 big) (2 joy)))")) == [
        ("a", 2), ("big", 3), ("joy", 2), ("big joy", 4), ("a big joy", 3),
    ]  # fmt: skip


def test_letters_are_joined_to_words() -> None:
    """Each letter is a line of its own: the pen is lifted at its end, and the next one starts to the right."""
    letters = {"a": [np.array([[0.0, 0.0], [1.0, 1.0]])], "b": [np.array([[5.0, 2.0], [5.5, 0.0], [5.0, 1.0]])]}
    rows = [json.loads(line) for line in prepare._joined_letters(letters, "train", 30, np.random.default_rng(1))]
    assert len(rows) == 30
    for row in rows:
        strokes = np.array(row["strokes"])
        lengths = [{"a": 2, "b": 3}[letter] for letter in row["text"]]
        ends = np.cumsum(lengths)
        assert np.flatnonzero(strokes[:, 2]).tolist() == (ends - 1).tolist()
        path = np.cumsum(strokes[:, :2], axis=0)
        lines = np.split(path, ends[:-1])
        for line, letter in zip(lines, row["text"], strict=True):
            assert np.allclose(np.diff(line, axis=0), np.diff(letters[letter][0], axis=0), atol=2e-3)  # rounded
        assert all(one[:, 0].max() < two[:, 0].min() for one, two in pairwise(lines))
