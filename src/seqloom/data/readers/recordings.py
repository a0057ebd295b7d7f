"""Sound, features, pen strokes and lines of writing with what they say, from files in the formats of the field."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import IO, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from seqloom.data.readers import audio_files, feature_files, file_lists, parallel, pixels, text_files
from seqloom.data.readers.audio_files import Sound
from seqloom.data.readers.file_lists import BadContent
from seqloom.data.readers.labelled import STANDARD_INPUT
from seqloom.data.readers.npz import read_arrays
from seqloom.data.readers.tar_members import archive
from seqloom.data.readers.text_files import DataError, Location, Source

Format = Literal["auto", "columns", "jsonl", "sphinx", "folder", "npz", "file"]
Values = NDArray[np.float32]
SUFFIXES = audio_files.SUFFIXES + feature_files.SUFFIXES + pixels.SUFFIXES
KINDS: dict[str, Format] = {
    **dict.fromkeys(SUFFIXES, "file"),
    ".npz": "npz",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".tsv": "columns",
    ".csv": "columns",
    ".transcription": "sphinx",
}
PACKED = (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz")
FILES = ("file", "audio", "image")
"""What the name of a file may be called in a JSON object."""
NUMBERS = ("strokes", "values")
"""What the numbers of a sequence may be called in a JSON object."""
SPHINX = re.compile(r"\s*(?P<text>.*?)\s*\((?P<name>[^()\s]+)\)\s*")
SENTENCE = re.compile(r"^<s>\s*|\s*</s>$")


@dataclass(frozen=True, slots=True)
class Recording:
    """A sequence of samples or of frames with what it says."""

    location: Location
    name: str  # of its file; empty where there is none
    values: Values  # samples (N,), or frames (T, D)
    rate: int  # samples in a second; 0: frames
    text: str | None  # None: not known

    def __len__(self) -> int:
        return len(self.values)


class RecordingReference(NamedTuple):
    """A recording that is not yet looked at."""

    location: Location
    name: str
    text: str | None
    found: Sound | None = None  # instead of a file


@dataclass(frozen=True)
class Reader:
    """How files become recordings; tasks/transcribe.py tells what the options mean to a user."""

    format: Format = "auto"
    encoding: str = "utf-8"
    separator: str = ""
    file_column: int | str = ""
    text_column: int | str = ""
    files: str = ""  # folder, tar archive, or folder in one, of the files that a list names
    rate: int = 0  # sound is brought to so many samples in a second; 0: it is left as it is
    coefficients: int = 13  # numbers in a frame of a Sphinx file
    height: int = 32  # pixels of a line of writing

    def read(self, source: Source) -> Iterator[Recording]:
        """The recordings of a list of files, of a folder, of one file, or of Python values."""
        if not isinstance(source, Path):
            yield from self._load(list(self._given(source)), Path())
            return
        kind = self.detect(source)
        if kind == "npz":
            yield from self._npz(source)
            return
        folder = source if kind == "folder" else source.parent
        readers = {"columns": self._columns, "jsonl": self._jsonl, "sphinx": self._sphinx, "folder": self._folder}
        found = (
            [RecordingReference(Location(str(source), 1), source.name, None)]
            if kind == "file"
            else list(readers[kind](source))
        )
        yield from self._load(found, folder)

    def read_inputs(self, source: Source) -> Iterator[Recording]:
        """The same, where texts are not needed; of standard input the name of a file on each line, as it comes."""
        if source != STANDARD_INPUT or self.format != "auto":
            yield from self.read(source)
            return
        for location, line in text_files.lines(source, encoding=self.encoding):
            if line.strip():
                yield from self._load([RecordingReference(location, line.strip(), None)], Path())

    def detect(self, path: Path) -> Format:
        """The format: as it is given, or by the name of a file, or else by its first line; of one recording its own."""
        suffix = Path(path.name.removesuffix(".gz")).suffix.lower()
        if self.format != "auto":
            return "file" if KINDS.get(suffix) == "file" and path.is_file() else self.format
        if path.is_dir() or path.name.lower().endswith(PACKED):
            return "folder"
        if suffix in KINDS:
            return KINDS[suffix]
        if not suffix and archive(path):
            return "folder"
        first = next((line for _, line in islice(text_files.lines(path, encoding=self.encoding), 1)), "")
        if first.startswith("{"):
            return "jsonl"
        return "sphinx" if SPHINX.fullmatch(first) and not self.separator and "\t" not in first else "columns"

    def _columns(self, path: Path) -> Iterator[RecordingReference]:
        names = parallel.Reader(
            "columns",
            encoding=self.encoding,
            separator=self.separator,
            source_column=self.file_column,
            target_column=self.text_column,
        )
        for pair in names.read(path):
            if pair.source:
                yield RecordingReference(pair.location, pair.source, pair.target)

    def _jsonl(self, path: Path) -> Iterator[RecordingReference]:
        keys = (str(self.file_column),) if self.file_column else FILES
        caption = str(self.text_column or "text")
        for location, value in text_files.jsonl(path, encoding=self.encoding):
            text = value.get(caption)
            if text is not None and not isinstance(text, str):
                raise DataError(location, f"found {type(text).__name__} as {caption!r}; a text is wanted")
            text = None if text is None else text.strip()
            if numbers := next((key for key in NUMBERS if key in value), ""):
                yield RecordingReference(location, "", text, self._numbers(location, value[numbers]))
                continue
            name = next((value[key] for key in keys if key in value), None)
            if not isinstance(name, str) or not name:
                wanted = f"the name of a file as {' or '.join(map(repr, keys))}, or 'strokes'"
                raise DataError(location, f"found {', '.join(map(repr, value))[:80] or 'nothing'}; {wanted}, is wanted")
            yield RecordingReference(location, name, text)

    def _sphinx(self, path: Path) -> Iterator[RecordingReference]:
        beside = _listed(path.with_name(f"{path.name.removesuffix('.gz').removesuffix('.transcription')}.fileids"))
        for location, line in text_files.lines(path, encoding=self.encoding):
            if not line.strip():
                continue
            found = SPHINX.fullmatch(line)
            if found is None:
                raise DataError(
                    location, f"found {line[:60]!r}; a text and the name of its file in brackets are wanted"
                )
            name = found["name"]
            yield RecordingReference(location, beside.get(name, name), SENTENCE.sub("", found["text"]).strip())

    def _folder(self, path: Path) -> Iterator[RecordingReference]:
        """Every file of a folder and of those in it; its text is in the file of the same name that ends in .txt."""
        names, texts = file_lists.listed(path, SUFFIXES, beside=".txt", encoding=self.encoding)
        if not names:
            raise DataError(str(path), f"there is no file in the folder that ends in {', '.join(SUFFIXES)}")
        for number, name in enumerate(names, start=1):
            text = texts.get(file_lists.bare(name, SUFFIXES))
            yield RecordingReference(Location(str(path), number), name, text)

    def _npz(self, path: Path) -> Iterator[Recording]:
        """Arrays as ``write_npz`` writes them, or the frames of one recording."""
        arrays = read_arrays(path, ("values", "lengths", "texts", "rate"))
        if "lengths" not in arrays:
            yield from self._load([RecordingReference(Location(str(path), 1), path.name, None)], path.parent)
            return
        for named, found in _sequences(str(path), arrays):
            values, rate = self._brought(found) if found.rate else found
            yield Recording(named.location, named.name, values, rate, named.text)

    def _load(self, found: Sequence[RecordingReference], folder: Path) -> Iterator[Recording]:
        named = [(each.location, each.name) for each in found if each.found is None]
        loaded = file_lists.load(named, self._decode, folder=folder, files=self.files, suffixes=SUFFIXES)
        for each in found:
            values, rate = next(loaded) if each.found is None else each.found
            yield Recording(each.location, each.name, values, rate, each.text)

    def _decode(self, stream: IO[bytes], name: str) -> Sound:
        """What is in a file; frames have the rate 0."""
        suffix = Path(name).suffix.lower()
        if suffix in pixels.SUFFIXES:
            return Sound(pixels.line(stream, height=self.height), 0)
        if suffix in feature_files.SUFFIXES:
            return Sound(feature_files.decode(stream, name, size=self.coefficients), 0)
        return self._brought(audio_files.decode(stream))

    def _brought(self, found: Sound) -> Sound:
        rate = self.rate or found.rate
        return Sound(audio_files.resample(found.samples, found.rate, rate), rate)

    def _numbers(self, location: Location, value: Any) -> Sound:
        """An array, or lists of numbers: samples (N,), frames (T, D), or pixels (H, W) of uint8."""
        try:
            return self._read_array(value)
        except BadContent as error:
            raise DataError(location, f"the recording {error}") from None
        except (TypeError, ValueError, OverflowError):
            raise DataError(location, f"found {type(value).__name__}; numbers (T, D) are wanted") from None

    def _read_array(self, value: Any) -> Sound:
        if isinstance(value, Sound):
            audio_files.check_rate(value.rate)
            return self._brought(Sound(audio_files.checked(_samples(value.samples)), value.rate))
        array = value if isinstance(value, np.ndarray) else np.asarray(value, dtype=np.float64)
        if array.dtype == np.uint8 and array.ndim > 1:
            return Sound(pixels.line_of_array(array, height=self.height), 0)
        if array.ndim == 1 and self.rate:
            return Sound(audio_files.checked(_samples(array)), self.rate)
        if array.ndim != 2:
            raise BadContent(f"is {array.dtype} {array.shape}; frames (T, D), or samples with their rate, are wanted")
        return Sound(feature_files.checked(array), 0)

    def _given(self, values: Sequence[Any]) -> Iterator[RecordingReference]:
        """Python values: names of files, arrays, sounds, or tuples of one of those and its text."""
        if isinstance(values, str):
            raise DataError("input", "found one text; a list of paths or arrays is wanted")
        for number, value in enumerate(values, start=1):
            location = Location("input", number)
            paired = isinstance(value, tuple) and not isinstance(value, Sound) and len(value) == 2
            content, text = value if paired else (value, None)
            if text is not None and not isinstance(text, str):
                raise DataError(location, f"found {type(text).__name__} as the text; a text is wanted")
            text_files.checked(location, text or "")
            if isinstance(content, str | Path):
                yield RecordingReference(location, str(content), text)
            else:
                yield RecordingReference(location, "", text, self._numbers(location, content))


def write_npz(
    path: Path,
    sequences: Sequence[ArrayLike],  # samples (N,), or frames (T, D)
    texts: Sequence[str] | None = None,
    *,
    rate: int = 0,  # of samples
) -> None:
    """Many recordings in one file."""
    values = [np.asarray(sequence, dtype=np.float32) for sequence in sequences]
    if texts is not None and len(texts) != len(values):
        raise ValueError(f"there are {len(texts)} texts for {len(values)} sequences")
    if len({value.shape[1:] for value in values}) > 1 or (values and values[0].ndim == 1) != bool(rate):
        raise ValueError(f"found sequences {values[0].shape} and rate {rate}; (N,) with a rate, or (T, D), are wanted")
    arrays: dict[str, NDArray[Any]] = {
        "values": np.concatenate(values) if values else np.zeros((0, 1), np.float32),
        "lengths": np.array([len(value) for value in values], dtype=np.int64),
    }
    if texts is not None:
        arrays["texts"] = np.array(texts, dtype=np.str_)
    if rate:
        arrays["rate"] = np.array(rate, dtype=np.int64)
    np.savez_compressed(path, allow_pickle=False, **arrays)


def _sequences(file: str, arrays: Mapping[str, NDArray[Any]]) -> Iterator[tuple[RecordingReference, Sound]]:
    values, lengths, texts = arrays.get("values", np.zeros(0)), arrays["lengths"], arrays.get("texts")
    if lengths.ndim != 1 or lengths.dtype.kind not in "iu" or (lengths < 0).any() or lengths.sum() != len(values):
        raise DataError(file, f"lengths {lengths.dtype} {lengths.shape} are not those of values {values.shape}")
    if texts is not None and (texts.dtype.kind != "U" or texts.shape != lengths.shape):
        raise DataError(file, f"texts are {texts.dtype} {texts.shape}; a string for each of {len(lengths)} is wanted")
    rate = arrays.get("rate", np.array(0))
    if rate.shape or rate.dtype.kind not in "iu" or bool(rate) != (values.ndim == 1):
        raise DataError(
            file, f"values are {values.shape}, and rate is {rate}; (total,) with a rate, or (total, D), wanted"
        )
    try:
        audio_files.check_rate(int(rate) or audio_files.SLOWEST)
    except BadContent as error:
        raise DataError(file, str(error)) from None
    start = 0
    for number, length in enumerate(lengths.tolist()):
        location, span = Location(file, number + 1), values[start : start + length]
        text = None if texts is None else str(texts[number]).strip()
        try:
            text_files.checked(location, text or "")
            found = Sound(audio_files.checked(_samples(span)) if rate else feature_files.checked(span), int(rate))
        except BadContent as error:
            raise DataError(location, f"the recording {error}") from None
        yield RecordingReference(location, "", text), found
        start += length


def _samples(values: NDArray[Any]) -> Values:
    """Samples of one channel as they should be: of 16 bits, or between -1 and 1."""
    values = np.asarray(values)
    if values.ndim != 1 or values.dtype.kind not in "fi":
        raise BadContent(f"is {values.dtype} {values.shape}; samples (N,) are wanted")
    scale = 1 / (1 << 8 * values.dtype.itemsize - 1) if values.dtype.kind == "i" else 1
    with np.errstate(over="ignore"):
        return (values * np.float64(scale)).astype(np.float32)


def _listed(path: Path) -> dict[str, str]:
    """The names of a Sphinx list of files, each by its last part."""
    if not path.exists():
        return {}
    return {line.strip().rpartition("/")[2]: line.strip() for _, line in text_files.lines(path) if line.strip()}
