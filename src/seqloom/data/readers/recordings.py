"""Audio, features, pen strokes, videos and images of text lines with their transcripts."""

import os.path
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby, islice
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from seqloom.data.preview import DataPreview, preview
from seqloom.data.readers import archives, column_names, file_lists, kaldi, tables, text_files
from seqloom.data.readers.audio_files import Audio
from seqloom.data.readers.columns import Role
from seqloom.data.readers.file_lists import ContentError
from seqloom.data.readers.media import SUFFIXES, MediaDecoder, Signal
from seqloom.data.readers.media_lists import file_column
from seqloom.data.readers.npz import write_arrays
from seqloom.data.readers.parallel import PairReader
from seqloom.data.readers.text_files import STANDARD_INPUT, DataError, Location, Source
from seqloom.data.readers.texted_sequences import VALUE_KEYS, SequenceFormat, TextedSequenceReader

Format = Literal["auto", "columns", "jsonl", "long", "ts", "npz", "sphinx", "kaldi", "folder", "file"]
Values = NDArray[np.float32]
FORMATS: dict[str, Format] = {
    **dict.fromkeys(SUFFIXES, "file"),
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".tsv": "columns",
    ".csv": "columns",
    ".transcription": "sphinx",
}
FILE_KEYS = ("file", "audio", "image", *column_names.FILE)  # JSON keys of a file name
METADATA = ("metadata.csv", "metadata.tsv", "metadata.jsonl")  # lists in a folder of recordings
FILE = Role("file_column", "file name", column_names.FILE)
TEXT = Role("text_column", "text", column_names.TRANSCRIPT)
SPHINX = re.compile(r"\s*(?P<text>.*?)\s*\((?P<name>[^()\s]+)\)\s*")
SENTENCE = re.compile(r"^<s>\s*|\s*</s>$")


@dataclass(frozen=True, slots=True)
class Recording:
    """A sequence of samples or frames with its transcript."""

    location: Location
    name: str  # file name; empty if there is none
    values: Values  # samples (N,), frames (T, D), or the frames of a video (T, H, W, 3)
    rate: int  # samples per second; 0: frames
    text: str | None  # None: unknown
    channel_names: tuple[str, ...] = ()  # of frames; empty: unknown
    equalized: float = 1.0  # share of the difference between its speaker and those of the training, if it is equalised

    def __len__(self) -> int:
        return len(self.values)


class RecordingReference(NamedTuple):
    """A recording that has not been loaded yet."""

    location: Location
    name: str
    text: str | None
    values: Signal | None = None  # instead of a file
    span: tuple[float, float] = (0.0, -1.0)  # the part of an audio file, in seconds; a negative end: the whole rest
    file: str = ""  # if it differs from the name


@dataclass(frozen=True)
class RecordingReader:
    """Reads recordings from files; tasks/transcribe documents the options."""

    format: Format = "auto"
    encoding: str = "utf-8"
    separator: str = ""
    file_column: int | str = ""
    text_column: int | str = ""
    group_column: int | str = ""
    time_column: int | str = ""
    files: str = ""  # folder, archive, or folder in one, that holds the listed files
    decoder: MediaDecoder = field(default_factory=lambda: MediaDecoder(line_height=32))

    def read(self, source: Source) -> Iterator[Recording]:
        """The recordings of a list of files, of a folder, of one file, or of Python values."""
        if not isinstance(source, Path):
            yield from self._load(list(self._python_values(source)), Path())
            return
        if format_ := self._sequence_format(source):
            for location, signal, text, names, name in self._sequences.read(source, format_):
                yield Recording(location, name, signal.values, signal.rate, text, names)
            return
        yield from self._load(*self._references(source))

    @property
    def _sequences(self) -> TextedSequenceReader:
        names = ("text_column", "group_column", "time_column", "separator", "encoding", "decoder")
        return TextedSequenceReader(TEXT, **{name: getattr(self, name) for name in names})

    def _sequence_format(self, source: Path) -> SequenceFormat | None:
        """How a file holds many recordings; None: it lists files, or is one recording."""
        own = source.name.lower().endswith(f".{self.format}")
        if self.format != "auto" and not own and self.detect(source) == "file":  # one recording beside such files
            return None
        return self._sequences.detect(source, self.format)

    def preview(self, source: Source, *, limit: int) -> DataPreview:
        """The first recordings and the number of all; no other file of a list is opened."""
        if not isinstance(source, Path) or self._sequence_format(source):
            return preview(lambda: self.read(source), source, limit=limit)
        references, folder = self._references(source)
        return DataPreview(tuple(self._load(references[:limit], folder)), len(references))

    def listed_files(self, source: Source) -> list[Path]:
        """The audio, feature or image files that a list names."""
        if not isinstance(source, Path) or source == STANDARD_INPUT or self._sequence_format(source):
            return []
        references, folder = self._references(source)
        names = [(reference.location, _file_name(reference)) for reference in references if reference.values is None]
        return file_lists.existing_files(file_lists.locate(names, folder=folder, files=self.files, suffixes=SUFFIXES))

    def inspect(self, source: Source) -> tuple[dict[str, int | str], str]:
        """The columns of a list, as configuration, and a sentence about them; both may be empty."""
        if isinstance(source, Path):
            source = _metadata(source) or source
            if format_ := self._sequence_format(source):
                return self._sequences.inspect(source, format_)
            if self.detect(source) != "columns" or self._separator(source) == " ":
                return {}, ""
        elif not tables.is_table(source):
            return {}, ""
        rows = self._rows(source)
        if isinstance(source, Path) and self.file_column == "":
            table = tables.read_table(source, separator=rows.separator, encoding=self.encoding)
            if not table.names and (column := file_column(table, source.parent)):  # not the first
                rows = replace(rows, source_column=column)
        return rows.inspect(source)

    def _references(self, source: Path) -> tuple[list[RecordingReference], Path]:
        """The listed recordings, and the folder that their names are relative to."""
        format_ = self.detect(source)
        if format_ == "folder" and (metadata := _metadata(source)):
            return self._references(metadata)
        folder = source if format_ == "folder" or (format_ == "kaldi" and source.is_dir()) else source.parent
        readers = {
            "columns": self._columns,
            "jsonl": self._jsonl,
            "sphinx": self._sphinx,
            "kaldi": self._kaldi,
            "folder": self._folder,
        }
        references = (
            [RecordingReference(Location(str(source), 1), source.name, None)]
            if format_ == "file"
            else list(readers[format_](source))
        )
        return references, folder

    def read_inputs(self, source: Source) -> Iterator[Recording]:
        """As ``read``, but transcripts are optional, and standard input is a stream of file names, one per line."""
        if not isinstance(source, Path) or source != STANDARD_INPUT or self.format != "auto":
            yield from self.read(source)
            return
        for location, line in text_files.lines(source, encoding=self.encoding):
            if line.strip():
                yield from self._load([RecordingReference(location, line.strip(), None)], Path())

    def detect(self, path: Path) -> Format:
        """The configured format, or else the one that the name or the first line of the file shows."""
        suffix = Path(path.name.removesuffix(".gz")).suffix.lower()
        if self.format != "auto":
            return "file" if FORMATS.get(suffix) == "file" and path.is_file() else self.format
        if kaldi.is_kaldi(path):
            return "kaldi"
        if path.is_dir() or archives.is_packed_folder(path):
            return "folder"
        if suffix in FORMATS:
            return FORMATS[suffix]
        first = next((line for _, line in islice(text_files.lines(path, encoding=self.encoding), 1)), "")
        if first.startswith("{"):
            return "jsonl"
        if first.startswith("[{"):
            return "columns"
        return "sphinx" if SPHINX.fullmatch(first) and not self.separator and "\t" not in first else "columns"

    def _columns(self, source: Source) -> Iterator[RecordingReference]:
        if isinstance(source, Path) and self._separator(source) == " ":
            yield from self._words(source)
            return
        for pair in self._rows(source).read(source):
            if pair.source:
                yield RecordingReference(pair.location, pair.source, pair.target)

    def _rows(self, source: Source) -> PairReader:
        return PairReader(
            "columns",
            encoding=self.encoding,
            separator=self._separator(source) if isinstance(source, Path) else "",
            source_column=self.file_column,
            target_column=self.text_column,
            roles=(FILE, TEXT),
        )

    def _separator(self, path: Path) -> str:
        """The configured separator, or else the one that follows the file name on the first lines; empty: unclear."""
        if self.separator or tables.suffix(path) in tables.SUFFIXES or path == STANDARD_INPUT:
            return self.separator
        first = [line for _, line in islice(text_files.lines(path, encoding=self.encoding), 2)]
        if any("\t" in line for line in first):
            return "\t"
        for separator in (*tables.SEPARATORS, " "):
            fields = [line.strip().split(None if separator == " " else separator, 1) for line in first]
            if all(len(each) == 2 for each in fields) and fields and self._names_file(path.parent, fields[-1][0]):
                return separator
        return ""

    def _names_file(self, folder: Path, name: str) -> bool:
        """Whether a field looks like the name of a recording, or is one with a suffix."""
        name = name.strip().strip('"')
        if Path(name).suffix.lower() in SUFFIXES:
            return True
        return any(os.path.isfile(folder / f"{name}{suffix}") for suffix in SUFFIXES)  # noqa: PTH113

    def _words(self, path: Path) -> Iterator[RecordingReference]:
        """Lines of a file name, a space and the text; a header may precede them."""
        for location, line in text_files.lines(path, encoding=self.encoding):
            name, *text = line.split(maxsplit=1)[:2] or [""]
            header = location.line == 1 and column_names.normalize(name) in column_names.FILE
            if name and not (header and text and column_names.normalize(text[0]) in column_names.TRANSCRIPT):
                yield RecordingReference(location, name, text[0].strip() if text else None)

    def _jsonl(self, path: Path) -> Iterator[RecordingReference]:
        keys = (self.file_column,) if self.file_column and isinstance(self.file_column, str) else FILE_KEYS
        text_keys = (
            (self.text_column,) if self.text_column and isinstance(self.text_column, str) else column_names.TRANSCRIPT
        )
        for location, value in text_files.jsonl(path, encoding=self.encoding):
            text_key = next((key for key in text_keys if key in value), text_keys[0])
            text = value.get(text_key)
            if text is not None and not isinstance(text, str):
                raise DataError(location, f"{text_key!r}: expected a string, found {type(text).__name__}")
            text = None if text is None else text.strip()
            if values_key := next((key for key in VALUE_KEYS if key in value), ""):
                if values_key == "strokes" and value[values_key] == []:
                    raise DataError(location, "the drawing has no strokes")
                yield RecordingReference(location, "", text, self._check_values(location, value[values_key]))
                continue
            name = next((value[key] for key in keys if key in value), None)
            if not isinstance(name, str) or not name:
                expected = f"a file name as {' or '.join(map(repr, keys[:3]))}, or 'values'"
                raise DataError(location, f"expected {expected}, found {', '.join(map(repr, value))[:80] or 'no key'}")
            yield RecordingReference(location, name, text)

    def _sphinx(self, path: Path) -> Iterator[RecordingReference]:
        file_ids = _read_file_ids(
            path.with_name(f"{path.name.removesuffix('.gz').removesuffix('.transcription')}.fileids")
        )
        for location, line in text_files.lines(path, encoding=self.encoding):
            if not line.strip():
                continue
            match = SPHINX.fullmatch(line)
            if match is None:
                raise DataError(location, f"expected a text and its file name in parentheses, found {line[:60]!r}")
            name = match["name"]
            yield RecordingReference(location, file_ids.get(name, name), SENTENCE.sub("", match["text"]).strip())

    def _kaldi(self, path: Path) -> Iterator[RecordingReference]:
        for each in kaldi.read_kaldi(path, encoding=self.encoding):
            yield RecordingReference(each.location, each.name, each.text, None, (each.start, each.end), each.file)

    def _folder(self, path: Path) -> Iterator[RecordingReference]:
        """Every file of a folder and its subfolders; its text is in the .txt file of the same name."""
        names, texts = file_lists.list_folder(path, SUFFIXES, text_suffix=".txt", encoding=self.encoding)
        if not names:
            raise DataError(str(path), f"no recording in the folder; expected files that end in {', '.join(SUFFIXES)}")
        for name in names:
            text = texts.get(file_lists.without_suffix(name, SUFFIXES))
            yield RecordingReference(Location(str(path / name), 1), name, text)

    def _load(self, references: Sequence[RecordingReference], folder: Path) -> Iterator[Recording]:
        # Successive parts of one file are cut from what is read once.
        groups = [list(group) for _, group in groupby(references, key=_group_key)]
        names = [(group[0].location, _file_name(group[0])) for group in groups if group[0].values is None]
        loaded = file_lists.load(
            names,
            self.decoder.decode,
            folder=folder,
            files=self.files,
            suffixes=SUFFIXES,
            read_folder=self.decoder.read_folder,
        )
        for group in groups:
            values, rate = next(loaded) if group[0].values is None else group[0].values
            for reference in group:
                part = _cut(reference, values, rate)
                yield Recording(reference.location, reference.name, part, rate, reference.text)

    def _check_values(self, location: Location, value: Any) -> Signal:
        """An array, or lists of numbers: samples (N,), frames (T, D), or pixels of uint8."""
        try:
            return self._read_array(value)
        except ContentError as error:
            raise DataError(location, f"recording: {error}") from None
        except (TypeError, ValueError, OverflowError):
            raise DataError(location, f"expected numbers (T, D), found {type(value).__name__}") from None

    def _read_array(self, value: Any) -> Signal:
        if isinstance(value, Audio):
            return self.decoder.from_audio(value)
        array = value if isinstance(value, np.ndarray) else np.asarray(value, dtype=np.float64)
        if array.shape == (0,):
            raise ContentError("no frames")
        is_samples, is_pixels = array.ndim == 1 and self.decoder.sample_rate, array.dtype == np.uint8 and array.ndim > 1
        if array.ndim != 2 and not is_samples and not is_pixels:
            raise ContentError(f"expected frames (T, D), or samples with their rate, found {array.dtype} {array.shape}")
        return self.decoder.from_array(array)

    def _python_values(self, values: Sequence[Any]) -> Iterator[RecordingReference]:
        """Python values: file names, arrays, Audio objects, or tuples of these with a transcript."""
        if tables.is_table(values):
            yield from self._columns(values)
            return
        if isinstance(values, str):
            raise DataError("input", "expected a list of paths or arrays, found a single string")
        for number, value in enumerate(values, start=1):
            location = Location("input", number)
            paired = isinstance(value, tuple) and not isinstance(value, Audio) and len(value) == 2
            content, text = value if paired else (value, None)
            if text is not None and not isinstance(text, str):
                raise DataError(location, f"transcript: expected a string, found {type(text).__name__}")
            text_files.check_text(location, text or "")
            if isinstance(content, str | Path):
                yield RecordingReference(location, str(content), text)
            else:
                yield RecordingReference(location, "", text, self._check_values(location, content))


def write_npz(
    path: Path,
    sequences: Sequence[ArrayLike],  # samples (N,), or frames (T, D)
    texts: Sequence[str] | None = None,
    *,
    rate: int = 0,  # samples per second; 0: frames
) -> None:
    """Write many recordings to one file."""
    values = [np.asarray(sequence, dtype=np.float32) for sequence in sequences]
    if texts is not None and len(texts) != len(values):
        raise ValueError(f"expected a text for each of {len(values)} sequences, found {len(texts)}")
    if len({value.shape[1:] for value in values}) > 1 or (values and values[0].ndim == 1) != bool(rate):
        raise ValueError(
            f"expected samples (N,) and a rate, or frames (T, D) without, found {values[0].shape} and rate {rate}"
        )
    arrays: dict[str, NDArray[Any]] = {
        "values": np.concatenate(values) if values else np.zeros((0, 1), np.float32),
        "lengths": np.array([len(value) for value in values], dtype=np.int64),
    }
    if texts is not None:
        arrays["texts"] = np.array(texts, dtype=np.str_)
    if rate:
        arrays["rate"] = np.array(rate, dtype=np.int64)
    write_arrays(path, arrays)


def _metadata(folder: Path) -> Path | None:
    """The list in a folder of recordings, if it has one."""
    if not folder.is_dir():
        return None
    return next((folder / name for name in METADATA if (folder / name).is_file()), None)


def _file_name(reference: RecordingReference) -> str:
    return reference.file or reference.name


def _group_key(reference: RecordingReference) -> Any:
    """Equal for parts of one file that follow each other; otherwise the location."""
    return reference.location if reference.values is not None or not reference.file else reference.file


def _cut(reference: RecordingReference, values: Values, rate: int) -> Values:
    start, end = reference.span
    if not start and end < 0:
        return values
    if not rate:
        raise DataError(reference.location, "only audio can be cut by seconds, but the file holds frames")
    part = values[round(start * rate) : round(end * rate) if end >= 0 else None]
    if not len(part):
        raise DataError(
            reference.location, f"the recording ends after {len(values) / rate:g} s, but the part starts at {start:g} s"
        )
    return part


def _read_file_ids(path: Path) -> dict[str, str]:
    """The paths of a Sphinx .fileids list, by file name."""
    if not path.exists():
        return {}
    return {line.strip().rpartition("/")[2]: line.strip() for _, line in text_files.lines(path) if line.strip()}
