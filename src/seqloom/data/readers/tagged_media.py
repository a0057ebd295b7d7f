"""Sound and videos with a label for each frame: lists of files, each with its labels or with a file of them."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from seqloom.data.readers import column_names, label_files, media_lists, tables
from seqloom.data.readers.columns import Chosen, Columns
from seqloom.data.readers.media import Signal
from seqloom.data.readers.media_lists import MediaFiles, is_media
from seqloom.data.readers.numeric_targets import as_target
from seqloom.data.readers.table_values import is_missing
from seqloom.data.readers.text_files import DataError, Location, no_such_column, pluralize
from seqloom.data.readers.vectors import VectorSequence, with_targets

LABEL_COLUMN = "label_column"


class Frames(NamedTuple):
    """A signal as the frames that get labels."""

    values: NDArray[Any]  # (T, D), or the images of a video (T, S, S, 3)
    step: float = 0.0  # seconds from one frame to the next; 0: unknown
    first: float = 0.0  # seconds from the start to the centre of the first frame

    def centres(self) -> list[float]:
        return [self.first + self.step * index for index in range(len(self.values))]


def plain_frames(signal: Signal) -> Frames:
    """Vectors and videos as they are; sound has no frames of its own."""
    return Frames(signal.values)


@dataclass(frozen=True)
class TaggedMedia:
    """Reads sound and videos with a label, or numbers, for each frame."""

    files: MediaFiles = field(default_factory=MediaFiles)
    to_frames: Callable[[Signal], Frames] = plain_frames
    encoding: str = "utf-8"

    def read(self, source: Path, chosen: Chosen) -> Iterator[VectorSequence]:
        """A list of files with their labels, or one file without."""
        if is_media(source):
            yield self._sequence(Location(str(source), 1), source.name, None, source.parent)
            return
        table, file, label = self._columns(source, chosen)
        for location, fields in table.records:
            name = str(fields[file]).strip()
            yield self._sequence(location, name, None if label is None else fields[label], source.parent)

    def rates(self, source: Path, chosen: Chosen) -> Iterator[int]:
        """The sampling rates of the files; 0: no sound."""
        table, file, _ = self._columns(source, chosen)
        names = [(location, str(fields[file]).strip()) for location, fields in table.records]
        return (signal.rate for signal in self.files.load(names, source.parent))

    def describe(self, source: Path, chosen: Chosen) -> str:
        table, file, label = self._columns(source, chosen)
        places = [("file", file)] + ([] if label is None else [("labels", label)])
        read = ", ".join(
            f"{noun} from column {index + 1}" + (f" {table.names[index]!r}" if table.names else "")
            for noun, index in places
        )
        unread = Columns((), dict(places), table.names, table.width).describe_unread()
        return "; ".join(filter(None, (read, unread)))

    def listed_files(self, source: Path, chosen: Chosen) -> list[Path]:
        """The files that a list names, and their files of labels."""
        if is_media(source):
            return []
        table, file, label = self._columns(source, chosen)
        rows = [(location, fields) for location, fields in table.records]
        located = self.files.locate([(location, str(fields[file]).strip()) for location, fields in rows], source.parent)
        if label is None:
            return located
        labels = [path for _, fields in rows if (path := _label_file(fields[label], source.parent)) is not None]
        return [*located, *labels]

    def _columns(self, source: Path, chosen: Chosen) -> tuple[tables.Table, int, int | None]:
        """The table, the column of the files, and that of the labels, if there is one."""
        table = tables.read_table(source, encoding=self.encoding)
        file = media_lists.file_column(table, source.parent)
        if file is None:
            raise DataError(str(source), "no column with the names of recordings or videos")
        others = [index for index in range(table.width) if index != file]
        column = chosen.get(LABEL_COLUMN)
        if isinstance(column, tuple):
            raise DataError(
                str(source), "label_column: expected one column for the labels of a recording, found several"
            )
        if isinstance(column, str) and column:
            if column not in table.names:
                raise DataError(str(source), f"no column {column!r}; columns: {', '.join(map(repr, table.names))}")
            return table, file, table.names.index(column)
        if isinstance(column, int):
            if not -table.width <= column < table.width:
                raise no_such_column(Location(str(source), 1), column, table.width, key=LABEL_COLUMN)
            return table, file, column % table.width
        usual = [index for index in others if table.names and _is_label_name(table.names[index])]
        labels = usual or others
        if len(labels) > 1:
            shown = ", ".join(repr(table.names[index]) if table.names else str(index + 1) for index in labels)
            raise DataError(str(source), f"cannot tell which column holds the labels ({shown}): set task.label_column")
        return table, file, labels[0] if labels else None

    def _sequence(self, location: Location, name: str, labels: Any, folder: Path) -> VectorSequence:
        (signal,) = self.files.load([(location, name)], folder)
        if signal.kind == "image":
            raise DataError(location, f"{name} is an image; tag reads sound, videos, vectors and words")
        frames = self.to_frames(signal)
        sequence = VectorSequence(location, frames.values, identity=name, step_seconds=frames.step)
        if labels is None or (not isinstance(labels, list) and is_missing(labels)):
            return sequence
        frame_labels = _read_labels(location, labels, folder, frames, encoding=self.encoding)
        if len(frame_labels) != len(frames.values):
            count = f"{name} has {pluralize(len(frames.values), 'frame')}, but {pluralize(len(frame_labels), 'label')}"
            advice = "; for sound, name a file of segments (start, end, label) instead" if frames.step else ""
            raise DataError(location, f"{count}{advice}")
        targets = [as_target(location, label, name="label") for label in frame_labels]
        unknown = [number for number, target in enumerate(targets, start=1) if target is None]
        if unknown:
            raise DataError(location, f"label {unknown[0]} of {name} is missing")
        return with_targets(sequence, targets)


def lists_media(source: Path, first: Sequence[str], *, encoding: str) -> bool:
    """Whether a table names recordings or videos; ``first`` are its first lines."""
    shown = " ".join(first[:3]).lower()
    if not any(suffix in shown for suffix in media_lists.SUFFIXES):
        return False
    table = tables.read_table(source, encoding=encoding)
    return bool(table.head) and media_lists.file_column(table, source.parent) is not None


def _read_labels(location: Location, value: Any, folder: Path, frames: Frames, *, encoding: str) -> Sequence[Any]:
    """The label of each frame: a list, labels separated by spaces, or the name of a file."""
    if isinstance(value, list | tuple | np.ndarray):
        return list(value)
    path = _label_file(value, folder)
    if path is None:
        return str(value).split()
    if not path.is_file():
        raise DataError(location, f"no file of labels {str(value)!r} in {folder}")
    labels = label_files.read_segments(path, encoding=encoding)
    segments = [each for each in labels if not isinstance(each, str)]
    if not segments:
        return labels
    if not frames.step:
        raise DataError(
            location, f"{value}: segments with times need sound; give a video or vectors a label for each frame"
        )
    return label_files.frame_labels(location, segments, frames.centres())


def _label_file(value: Any, folder: Path) -> Path | None:
    """The file that a value names; None: it holds the labels themselves."""
    if not isinstance(value, str) or not value.strip().lower().endswith(label_files.SUFFIXES):
        return None
    return folder / value.strip()


def _is_label_name(name: str) -> bool:
    return column_names.normalize(name) in (*column_names.WORD_LABEL, *column_names.LABEL)
