"""Polyphonic music as frames of the 88 keys of a piano: MIDI files, JSON lines and .npz files."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Literal

import numpy as np
from numpy.typing import NDArray

from seqloom.data.preview import DataPreview, preview
from seqloom.data.readers import archives, file_lists, text_files
from seqloom.data.readers.midi import KEYS, LOWEST, SUFFIXES, Frames, parse_midi, to_frames
from seqloom.data.readers.npz import read_arrays
from seqloom.data.readers.text_files import STANDARD_INPUT, DataError, Location, Source

Format = Literal["auto", "midi", "list", "jsonl", "npz"]
FILE_COLUMN = "file"  # header of a list of files


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece of music."""

    location: Location
    name: str  # file name; empty if there is none
    frames: Frames  # (T, 88), 1 where a key sounds
    tempo: float = 0.0  # quarter notes per minute; 0: unknown

    def __len__(self) -> int:
        return len(self.frames)


@dataclass(frozen=True)
class MusicReader:
    """Reads pieces from files; tasks/music documents the options."""

    format: Format = "auto"
    encoding: str = "utf-8"
    frames_per_beat: int = 4

    def read(self, source: Source) -> Iterator[Piece]:
        """The pieces of a MIDI file, of a folder or list of such files, of a JSON lines or .npz file, or of arrays."""
        if not isinstance(source, Path):
            yield from self._python_values(source)
            return
        format_ = self.detect(source)
        if format_ == "jsonl":
            for location, value in text_files.jsonl(source, encoding=self.encoding):
                if "notes" not in value:
                    raise DataError(location, f"expected 'notes', found {', '.join(map(repr, value)) or 'no key'}")
                yield Piece(location, "", _frames_of_pitches(location, value["notes"]))
        elif format_ == "npz":
            yield from _read_npz(source)
        else:
            names, folder = self._listed(source)
            loaded = file_lists.load(names, self._decode, folder=folder, suffixes=SUFFIXES)
            for (location, name), (frames, tempo) in zip(names, loaded, strict=True):
                yield Piece(location, name, frames, tempo)

    def preview(self, source: Source, *, limit: int) -> DataPreview:
        """The first pieces and the number of all; no other file of a list is opened."""
        if not isinstance(source, Path) or self.detect(source) in ("jsonl", "npz"):
            return preview(lambda: self.read(source), source, limit=limit)
        names, folder = self._listed(source)
        head = self.read([folder / name for _, name in names[:limit]]) if source.is_dir() else self.read(source)
        return DataPreview(tuple(piece for piece, _ in zip(head, names[:limit], strict=False)), len(names))

    def listed_files(self, source: Source) -> list[Path]:
        """The MIDI files that a list names."""
        if not isinstance(source, Path) or source == STANDARD_INPUT or self.detect(source) != "list":
            return []
        names, folder = self._listed(source)
        return file_lists.existing_files(file_lists.locate(names, folder=folder, suffixes=SUFFIXES))

    def detect(self, path: Path) -> Format:
        """The configured format, or else the one that the name of the file shows."""
        if self.format != "auto":
            return self.format
        name = path.name.lower()
        is_folder = path.is_dir() or archives.is_packed_folder(path)
        if is_folder or name.endswith(SUFFIXES) or text_files.enclosing_archive(path):
            return "midi"
        suffix = Path(name.removesuffix(".gz")).suffix
        return {".jsonl": "jsonl", ".ndjson": "jsonl", ".npz": "npz"}.get(suffix, "list")  # type: ignore[return-value]

    def _listed(self, source: Path) -> tuple[list[tuple[Location, str]], Path]:
        """MIDI files, and the folder that their names are relative to."""
        if self.detect(source) == "list":
            names = []
            for location, line in text_files.lines(source, encoding=self.encoding):
                name = line.split("\t")[0].strip()
                if name and not (location.line == 1 and name.lower() == FILE_COLUMN):
                    names.append((location, name))
            return names, source.parent
        if source.name.lower().endswith(SUFFIXES) and not source.is_dir():
            return [(Location(str(source), 1), source.name)], source.parent
        paths, _ = file_lists.list_folder(source, SUFFIXES, text_suffix=".txt", encoding=self.encoding)
        if not paths:
            raise DataError(str(source), f"no music in the folder; expected files that end in {', '.join(SUFFIXES)}")
        return [(Location(str(source / name), 1), name) for name in paths], source

    def _decode(self, stream: IO[bytes], name: str) -> tuple[Frames, float]:  # noqa: ARG002
        song = parse_midi(stream.read())
        return to_frames(song, self.frames_per_beat), song.tempo

    def _python_values(self, values: Sequence[Any]) -> Iterator[Piece]:
        """Paths of MIDI files, arrays (T, 88), or lists with the MIDI numbers of each frame."""
        for number, value in enumerate(values, start=1):
            location = Location("input", number)
            if isinstance(value, str | Path):
                yield from self.read(text_files.resolve(str(value)))
            elif isinstance(value, np.ndarray):
                yield Piece(location, "", _check_frames(location, value))
            else:
                yield Piece(location, "", _frames_of_pitches(location, value))


def _frames_of_pitches(location: Location, notes: Any) -> Frames:
    """Frames as lists of MIDI numbers."""
    if not isinstance(notes, list | tuple):
        raise DataError(location, f"expected a list of frames, found {type(notes).__name__}")
    frames = np.zeros((len(notes), KEYS), dtype=np.uint8)
    for row, pitches in enumerate(notes):
        if not isinstance(pitches, list | tuple):
            raise DataError(location, f"frame {row + 1}: expected a list of MIDI numbers, found {pitches!r:.40}")
        for pitch in pitches:
            if not isinstance(pitch, int) or not LOWEST <= pitch < LOWEST + KEYS:
                allowed = f"MIDI numbers from {LOWEST} to {LOWEST + KEYS - 1}"
                raise DataError(location, f"frame {row + 1}: expected {allowed}, found {pitch!r:.40}")
            frames[row, pitch - LOWEST] = 1
    return frames


def _check_frames(location: Location | str, values: NDArray[Any]) -> Frames:
    if values.ndim != 2 or values.shape[1] != KEYS:
        shape = " × ".join(map(str, values.shape))
        raise DataError(location, f"expected frames of {KEYS} keys (T × {KEYS}), found {shape} values")
    if not np.isin(values, (0, 1)).all():
        row = int((~np.isin(values, (0, 1))).any(axis=1).argmax())
        raise DataError(location, f"frame {row + 1}: expected 0 and 1 only")
    return values.astype(np.uint8)


def _read_npz(path: Path) -> Iterator[Piece]:
    """The arrays ``values`` (all frames) and ``lengths`` (frames of each piece)."""
    arrays = read_arrays(path, ("values", "lengths"))
    if missing := [name for name in ("values", "lengths") if name not in arrays]:
        raise DataError(str(path), f"no array {missing[0]!r}; expected values (frames) and lengths (of the pieces)")
    values, lengths = arrays["values"], arrays["lengths"]
    if lengths.ndim != 1 or lengths.dtype.kind not in "iu" or (lengths < 0).any() or lengths.sum() != len(values):
        raise DataError(str(path), f"the lengths do not add up to the {len(values):,} rows of values")
    start = 0
    for number, length in enumerate(lengths.tolist(), start=1):
        location = Location(str(path), number)
        yield Piece(location, "", _check_frames(location, values[start : start + length]))
        start += length
