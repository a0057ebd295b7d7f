"""Data sets in the form in which configurations of benchmarks/ read them, written to benchmarks/data."""

import gzip
import io
import json
import os
import re
import tarfile
import wave
import zipfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqloom.models.ngram.arpa import write_arpa
from seqloom.models.ngram.kneser_ney import estimate

FOLDER = Path("benchmarks/data")
SPEAKERS = ("george", "jackson", "lucas", "nicolas", "yweweler")
Samples = NDArray[np.int16]


def shared(name: str) -> Path:
    """A file of the data sets that SEQLOOM_DATA points to."""
    if "SEQLOOM_DATA" not in os.environ:
        raise SystemExit("SEQLOOM_DATA is not set: it names the folder of the data sets")
    return Path(os.environ["SEQLOOM_DATA"], name)


def _lines(name: str) -> list[str]:
    return [line for line in shared(name).read_text().splitlines() if line.strip()]


def names() -> None:
    """Names by country: a folder with a file for each language."""
    with tarfile.open(shared("names_by_country/names.tar.gz")) as archive:
        archive.extractall(FOLDER, filter="data")


def music() -> None:
    """Polyphonic music: MATLAB's cells as our .npz files."""
    from scipy.io import loadmat

    from seqloom.data.readers.vectors import write_npz

    found = loadmat(shared("poly_music/JSB_Chorales.mat"))
    for split in ("train", "valid", "test"):
        pieces = [piece.astype("float32") for piece in found[f"{split}data"][0]]
        write_npz(FOLDER / f"jsb_{split}.npz", pieces, None)


def speech() -> None:
    """AN4: every tenth speaker of the training data is held out; texts, lists and features beside each other."""
    for part in ("train", "test"):
        with tarfile.open(shared(f"an4_mfcc/an4_{part}_mfc.tar.gz")) as archive:
            archive.extractall(FOLDER / "an4", filter="data")
    texts, files = (
        {part: shared(f"an4_mfcc/an4_{part}.{kind}").read_text().splitlines() for part in ("train", "test")}
        for kind in ("transcription", "fileids")
    )
    speakers = [Path(name).parent.name for name in files["train"]]
    held = set(sorted(set(speakers))[4::10])
    for part, wanted in (("train", False), ("dev", True)):
        chosen = [number for number, speaker in enumerate(speakers) if (speaker in held) is wanted]
        _write(f"an4/{part}.transcription", (texts["train"][number] for number in chosen))
        _write(f"an4/{part}.fileids", (files["train"][number] for number in chosen))
    _write("an4/test.transcription", texts["test"])
    _write("an4/test.fileids", files["test"])
    words = sorted({line.split()[0].partition("(")[0] for line in _lines("an4_mfcc/an4.dic")})
    _write("an4/words.txt", words)
    _language(Path("an4/words.arpa"), words, (FOLDER / "an4/train.transcription").read_text().splitlines())


def _language(name: Path, words: list[str], texts: list[str]) -> None:
    """The 3-gram of texts, each with the name of its recording behind it."""
    names = ["<unk>", "<s>", "</s>", *words]
    numbers = {word: number for number, word in enumerate(names)}
    said = [[numbers.get(word, 0) for word in text.rpartition(" (")[0].split()] for text in texts]
    write_arpa(estimate(said, order=3, start=1, end=2, vocabulary=len(names)), names, FOLDER / name)


def yes_and_no() -> None:
    """Eight words in a recording; its name tells them (1 is yes). The first half is learnt from, the rest for test."""
    with tarfile.open(shared("yesno/waves_yesno.tar.gz")) as archive:
        recordings = sorted(entry.name for entry in archive if entry.name.endswith(".wav"))
    rows = [f"{name}\t{Path(name).stem.replace('_', ' ')}" for name in recordings]
    order = np.random.default_rng(1).permutation(len(rows))
    for part, numbers in (("train", order[:30]), ("test", order[30:])):
        _write(f"yesno_{part}.tsv", (rows[number] for number in sorted(numbers)))


def digit_strings() -> None:
    """Clips of one speaker after each other: of all five speakers, of four of them, of the fifth."""
    for speaker in SPEAKERS:
        strings(shared(f"fsdd/{speaker}.tar.gz"), FOLDER / "fsdd", count=600)
    rows = {speaker: (FOLDER / "fsdd" / f"{speaker}.tsv").read_text().splitlines() for speaker in SPEAKERS}
    _write("fsdd/all.tsv", (row for own in rows.values() for row in own))
    for held in SPEAKERS:
        _write(f"fsdd/without_{held}.tsv", (row for name, own in rows.items() if name != held for row in own))
        _write(f"fsdd/only_{held}.tsv", rows[held][:200])


def strings(archive: Path, folder: Path, *, count: int) -> Path:
    """Strings of 1 to 8 of the digits in an archive of one speaker's clips: .wav files, and a list of them."""
    speaker = archive.name.removesuffix(".tar.gz")
    clips, rate = _clips(archive)
    random = np.random.default_rng(sum(map(ord, speaker)))
    (folder / speaker).mkdir(parents=True, exist_ok=True)
    rows = []
    for number in range(count):
        chosen = random.integers(len(clips), size=random.integers(1, 9))
        pieces: list[Samples] = []
        for each in chosen:
            pieces += [np.zeros(int(rate * random.uniform(0, 0.2)), dtype=np.int16), clips[each][1]]
        name = f"{speaker}/{number:03}.wav"
        with wave.open(str(folder / name), "wb") as file:
            file.setnchannels(1)
            file.setsampwidth(2)
            file.setframerate(rate)
            file.writeframes(np.concatenate(pieces).astype("<i2").tobytes())
        rows.append(f"{name}\t{' '.join(clips[each][0] for each in chosen)}")
    return _write(f"{folder.name}/{speaker}.tsv", rows)


def _clips(archive: Path) -> tuple[list[tuple[str, Samples]], int]:
    """All clips by the digit that is said, and their rate."""
    found, rate = [], 0
    with tarfile.open(archive) as entries:
        for entry in sorted(entries, key=lambda each: each.name):
            stream = entries.extractfile(entry) if entry.name.endswith(".wav") else None
            if stream is not None:
                with wave.open(io.BytesIO(stream.read())) as clip:
                    rate = clip.getframerate()
                    samples = np.frombuffer(clip.readframes(clip.getnframes()), dtype="<i2")
                found.append((Path(entry.name).name[0], samples))
    return found, rate


def pen_strings() -> None:
    """Digits written with a pen, beside each other, as strokes: dx, dy and whether the pen is lifted then."""
    for part, file, count in (("train", "tra", 6000), ("test", "tes", 1000)):
        random = np.random.default_rng(len(part))
        with gzip.open(shared(f"pendigits/pendigits.{file}.gz"), "rt") as stream:
            digits = [_digit(line) for line in stream]
        if part == "train":  # the writers come one after the other
            last = int(0.9 * len(digits))
            _write("pen_dev.jsonl", _strokes(digits[last:], 500, random))
            digits = digits[:last]
        _write(f"pen_{part}.jsonl", _strokes(digits, count, random))


def _digit(line: str) -> tuple[NDArray[np.float64], str]:  # (8, 2), the digit
    *numbers, marks = line.strip().split(",")
    return np.array(numbers, dtype=float).reshape(8, 2) / 100, str(marks.index("1"))


def _strokes(digits: list[tuple[NDArray[np.float64], str]], count: int, random: np.random.Generator) -> Iterator[str]:
    for _ in range(count):
        chosen = random.integers(len(digits), size=random.integers(3, 9))
        points, right = [], 0.0
        for each in chosen:
            points.append(digits[each][0] + [right, 0.0])
            right += float(random.uniform(1.1, 1.4))
        path = np.concatenate(points)
        moved = np.diff(path, axis=0, prepend=path[:1])
        lifted = np.arange(1, len(path) + 1) % 8 == 0
        rows = [[round(x, 3), round(y, 3), int(up)] for (x, y), up in zip(moved.tolist(), lifted, strict=True)]
        yield json.dumps({"strokes": rows, "text": " ".join(digits[each][1] for each in chosen)})


def plain_text() -> None:
    """Sentences of three sources; every hundredth is held out."""
    sentences = [sentence for line in running_text() for sentence in re.split(r"(?<= [.?!]) ", _joined(line))]
    _write("text/train.txt", (sentence for number, sentence in enumerate(sentences) if number % 100))
    _write("text/dev.txt", sentences[::100])


def _joined(line: str) -> str:
    """A line of wikitext with its numbers in one piece, and hyphens as other texts have them."""
    return line.replace(" @,@ ", ",").replace(" @.@ ", ".").replace(" @-@ ", " - ")


def questions() -> None:
    """TREC with a tenth of its questions to learn from, and another tenth to choose by."""
    lines = gzip.decompress(shared("trec/TREC.train.gz").read_bytes()).decode("latin-1").splitlines()
    _write("trec_tenth/train.txt", lines[0::10])
    _write("trec_tenth/dev.txt", lines[5::10])


def running_text() -> Iterator[str]:
    """The lines of wikitext2, PTB and Brown, their tokens split by blanks; capitals as they are there."""
    for name in ("wikitext2/train.txt.gz", "ptb/ptb.train.txt.gz"):
        with gzip.open(shared(name), "rt", encoding="utf-8") as file:
            yield from (" ".join(words) for line in file if (words := line.split()))
    with zipfile.ZipFile(shared("brown/brown.zip")) as archive:
        for name in sorted(archive.namelist()):
            if re.fullmatch(r"brown/c[a-r]\d\d", name):
                for line in archive.read(name).decode().splitlines():
                    if words := [each.rpartition("/")[0] for each in line.split()]:
                        yield " ".join(words)


def _write(name: str, rows: Iterable[Any]) -> Path:
    path = FOLDER / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{row}\n" for row in rows), encoding="utf-8")
    return path


PREPARE: dict[str, Callable[[], None]] = {
    "names": names,
    "jsb": music,
    "an4": speech,
    "yesno": yes_and_no,
    "fsdd": digit_strings,
    "pen_digits": pen_strings,
    "trec_tenth": questions,
    "text_static": plain_text,
    "text_contextual": plain_text,
}
"""By the name of the configuration that reads them."""
