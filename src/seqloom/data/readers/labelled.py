"""Labelled texts, vectors, sound, images and videos: text lines, tables, lists, folders, .ts and .npz files."""

from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import IO, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from seqloom.data.readers import (
    archives,
    column_names,
    file_lists,
    long_tables,
    media_lists,
    tables,
    text_files,
    text_pairs,
    vectors,
)
from seqloom.data.readers.audio_files import Audio
from seqloom.data.readers.columns import Chosen, Columns, LabelColumn, Role, find_columns
from seqloom.data.readers.decimal_marks import DecimalMark
from seqloom.data.readers.file_lists import ContentError
from seqloom.data.readers.labelled_archives import list_archive
from seqloom.data.readers.labelled_formats import (
    DETECTION_LINES,
    FILE,
    LABEL,
    TEXT,
    VECTORS,
    FolderContent,
    Format,
    describe_ignored,
    detect,
    list_folder,
    vector_column,
)
from seqloom.data.readers.long_tables import Layout
from seqloom.data.readers.media import Kind, Signal
from seqloom.data.readers.media_lists import MediaFiles, is_media
from seqloom.data.readers.missing_values import MissingColumn
from seqloom.data.readers.number_rows import NumberRows
from seqloom.data.readers.numeric_targets import (
    Numbers,
    Target,
    TargetFormat,
    TargetType,
    as_target,
    column_name,
    detect_targets,
    to_number,
)
from seqloom.data.readers.table_values import as_required_text, as_text, is_missing
from seqloom.data.readers.tables import Table
from seqloom.data.readers.text_files import STANDARD_INPUT, DataError, Location, Source
from seqloom.data.readers.vectors import Missing, VectorSequence

LabelType = Literal["text", "integer", "boolean"]


HEAD = 1000  # examples whose labels show whether they are classes or numbers


class Row(NamedTuple):
    """A sequence as it is read."""

    location: Location
    content: str | NDArray[Any]
    label: Target | None
    channel_names: tuple[str, ...] = ()
    identity: str = ""
    rate: int = 0
    missing: tuple[MissingColumn, ...] = ()


Rows = Iterator[Row]


@dataclass(frozen=True, slots=True)
class LabelledSequence:
    """A labelled sequence."""

    location: Location
    content: str | NDArray[Any]  # a text, or the values of a signal: vectors (T, D), sound (N,), an image, a video
    label: str | None  # None: unknown, or numbers
    length: int  # approximate number of elements, for bucketing
    target: Numbers | None = None  # (K,), numbers to predict
    channel_names: tuple[str, ...] = ()  # of the vectors; empty: unknown
    identity: str = ""  # name of the sequence in its table; empty: it has none
    rate: int = 0  # samples per second of sound
    missing: tuple[MissingColumn, ...] = ()  # channels with missing values, which were filled
    equalized: float = 1.0  # share of the difference between its speaker and those of the training, if it is equalised

    def __len__(self) -> int:
        return self.length


@dataclass(frozen=True)
class LabelledReader:
    """Reads labelled examples from files; tasks/classify.py documents the options."""

    format: Format = "auto"
    separator: str = ""
    label_column: LabelColumn = ""
    text_column: int | str = ""
    second_text_column: int | str = ""  # of pairs of texts; empty: there are none
    group_column: int | str = ""
    time_column: int | str = ""
    label_separator: str = ""
    lowercase_labels: bool = False
    target_type: TargetType = "auto"
    decimal: DecimalMark = ""  # of numbers that are text; empty: as they show
    channels: int = 1
    missing: Missing = "error"
    encoding: str = "utf-8"  # encoding of text files
    measure: Callable[[str], int] = len  # length of a text
    known: Container[str] | None = None  # labels of the trained model; None: before training, where labels are required
    kind: Kind | None = None  # of the trained model's signals; None: texts, or before training
    channel_names: tuple[str, ...] = ()  # of the trained model; empty: unknown
    media: MediaFiles = field(default_factory=MediaFiles)

    def read(self, source: Source) -> Iterator[LabelledSequence]:
        for location, content, label, names, identity, rate, missing in self._rows(source):
            length = self.measure(content) if isinstance(content, str) else len(content)
            example = LabelledSequence(
                location, content, None, length, channel_names=names, identity=identity, rate=rate, missing=missing
            )
            if label is None or (isinstance(label, str) and not label):
                yield example
            elif isinstance(label, str) and self.target_type != "number":
                yield replace(example, label=self._first_label(label))
            elif self.target_type == "class":
                raise DataError(location, 'expected a class, found numbers; task.target_type is "class"')
            else:
                yield replace(example, target=to_number(location, label, name=self._target_name, decimal=self.decimal))

    @property
    def _target_name(self) -> str:
        return column_name(self.label_column)

    def target_format(self, source: Source) -> TargetFormat:
        """What the labels of a source are, and how their numbers are written, as the first ones show."""
        reader = replace(self, target_type="auto")
        labels = (
            (example.location, example.label if example.target is None else example.target)
            for example in reader.read(source)
        )
        return detect_targets(
            islice(labels, HEAD),
            name=column_name(self.label_column, LABEL.noun),
            target_type=self.target_type,
            decimal=self.decimal,
        )

    def detect(self, source: Source) -> Format:
        """The configured format, or else the one that the name and the first lines of a file show."""
        if self.format == "auto":
            named = isinstance(self.text_column, str) and self.text_column
            if named and isinstance(source, Path) and tables.suffix(source) in tables.SUFFIXES:
                return "columns"
            kind = detect(source, self.separator, kind=self.kind, encoding=self.encoding)
            return "long" if kind in ("numbers", "columns") and self._has_channels(source) else kind
        return self.format

    def listed_files(self, source: Source) -> list[Path]:
        """The files of sound, images or videos that a list names."""
        if not isinstance(source, Path) or source == STANDARD_INPUT or self.detect(source) not in ("columns", "jsonl"):
            return []
        if self._file_column(source) is None:
            return []
        return self.media.locate([(location, name) for location, name, _ in self._names(source)], source.parent)

    def _has_channels(self, source: Source) -> bool:
        """Whether columns have the names of channels, so that rows are time steps."""
        if not self.channel_names or (isinstance(source, Path) and source == STANDARD_INPUT):
            return False
        table = tables.read_table(source, separator=self.separator, encoding=self.encoding)
        return not set(self.channel_names).isdisjoint(table.names)

    @property
    def reads_pairs(self) -> bool:
        """Whether an example is a pair of texts."""
        return self.second_text_column != ""

    def inspect(self, source: Source) -> tuple[dict[str, int | str], str]:
        """The columns that a source shows, as configuration, and a sentence about them; both may be empty."""
        if not isinstance(source, Path) and not tables.is_table(source):
            if not self.reads_pairs and len(source) and text_pairs.is_labelled_pair(source[0]):
                return {
                    "text_column": 0,
                    "second_text_column": 1,
                    "label_column": 2,
                }, "pairs of texts with a label each"
            return {}, ""
        if isinstance(source, Path) and source == STANDARD_INPUT:
            return {}, ""
        kind = self.detect(source)
        if kind == "long":
            layout = self._layout(source)
            return layout.columns.settings(), f"one row per time step: {layout.describe()}"
        if kind == "numbers":
            return self._number_rows.inspect(source)
        if kind == "lines":
            return {}, "label from the first word of each line, text from the rest"
        if kind == "folder" and isinstance(source, Path):
            return {}, self._describe_folder(source)
        if kind == "npz" and isinstance(source, Path):
            return {}, vectors.describe_npz(source)
        if kind not in ("columns", "jsonl"):
            return {}, ""
        table, columns, role = self._find_content(source)
        note = columns.describe()
        if table.separator not in ("", ",", "\t") and not self.separator:
            note += f"; columns separated by {table.separator!r}"
        settings = columns.settings()
        if role is VECTORS:  # a column that other files of vectors, such as .npz, do not have
            settings.pop(VECTORS.key)
        return settings, note

    def labels_are_names(self, source: Source) -> bool:
        """Whether the labels are the names of folders or files, not in the data."""
        if not isinstance(source, Path) or source == STANDARD_INPUT or self.detect(source) != "folder":
            return False
        if not source.is_dir():
            return archives.is_packed_folder(source)
        content = list_folder(source)
        return bool(content.folders or content.texts)

    def label_type(self, source: Source) -> LabelType:
        """The type of the labels in memory, by the first ones; those of files are texts."""
        if isinstance(source, Path):
            return "text"
        if tables.is_table(source):
            is_text = self.detect(source) in ("columns", "jsonl")
            table, columns = self._find_content(source)[:2] if is_text else self._find(source, None)
            labels = [columns.value(location, fields, LABEL.key) for location, fields in table.head]
        else:
            values = enumerate(islice(source, tables.HEAD), start=1)
            labels = [self._with_label(Location("input", number), value)[1] for number, value in values]
        known = [label for label in labels if not is_missing(label)]
        if known and all(isinstance(label, bool | np.bool_) for label in known):
            return "boolean"
        whole = all(
            isinstance(label, int | np.integer | float | np.floating) and label == int(label) for label in known
        )
        return "integer" if known and whole else "text"

    def _rows(self, source: Source) -> Rows:
        if not isinstance(source, Path) and not tables.is_table(source):
            return self._python_values(source)
        kind = self.detect(source)
        if kind == "long":
            return self._long(source)
        if kind == "file" and isinstance(source, Path):
            return self._file_names(source) if source == STANDARD_INPUT else self._file(source, None)
        if kind in ("columns", "jsonl"):
            return self._columns(source)
        if not isinstance(source, Path):
            return _labelled_vectors(self._number_rows.read(source))
        if kind == "ts":
            return _labelled_vectors(vectors.ts(source, missing=self.missing))
        if kind == "npz":
            return _labelled_vectors(vectors.npz(source, missing=self.missing))
        if kind == "numbers":
            return _labelled_vectors(self._number_rows.read(source))
        return self._folder(source) if kind == "folder" else self._lines(source)

    # Tables.

    @property
    def _chosen(self) -> Chosen:
        keys = ("text_column", "second_text_column", "label_column", "group_column", "time_column")
        return {key: getattr(self, key) for key in keys}

    def _find(
        self, source: Source, text: Role | None = TEXT, *, column: int | str | None = None
    ) -> tuple[Table, Columns]:
        """A table and its columns of the content and the labels; ``column``: that of the content, if it is known."""
        label = LABEL if self.known is None else Role(LABEL.key, LABEL.noun, LABEL.names, LABEL.holds, optional=True)
        roles: tuple[Role, ...] = (label,) if text is None else (text, label)
        chosen = self._chosen if column is None else {**self._chosen, TEXT.key: column}
        if text is TEXT and (pair := self._pair_columns(source)) is not None:
            roles = (TEXT, text_pairs.SECOND_TEXT, label)
            chosen = {**chosen, TEXT.key: pair[0], text_pairs.SECOND_TEXT.key: pair[1]}
        if self.known is not None:
            roles = tuple(replace(role, trained=True) for role in roles)
        return find_columns(
            source, roles, chosen, separator=self.separator, encoding=self.encoding, decimal=self.decimal
        )

    def _pair_columns(self, source: Source) -> tuple[int | str, int | str] | None:
        """The columns of the two texts of pairs: as configured, or before training by their names; None: no pairs."""
        if not self.reads_pairs and (self.known is not None or self.text_column != ""):
            return None
        table = tables.read_table(source, separator=self.separator, encoding=self.encoding)
        if not self.reads_pairs:
            return text_pairs.named_columns(table.names)
        header = table.names or tuple(str(value).strip() for _, fields in table.head[:1] for value in fields)
        named = [name for name in (self.text_column, self.second_text_column) if isinstance(name, str)]
        if named and table.width == 2 and not table.names and not set(named) & set(header):
            return 0, 1  # two texts without a header, in their order
        return (self.text_column, self.second_text_column) if table.width > 1 else None

    def _find_content(self, source: Source) -> tuple[Table, Columns, Role]:
        """A table of files, vectors or texts, the columns of these and of their labels, and which of the three."""
        if self._is_list(source):
            return *self._find_files(source), FILE
        if column := self._vector_column(source):
            return *self._find(source, VECTORS, column=column), VECTORS
        return *self._find(source), TEXT

    def _vector_column(self, source: Source) -> str:
        """The column with a list of vectors in each row; empty: there is none."""
        if self.reads_pairs or (isinstance(source, Path) and source == STANDARD_INPUT):
            return ""
        table = tables.read_table(source, separator=self.separator, encoding=self.encoding)
        return vector_column(table, self.text_column)

    def _find_files(self, source: Source) -> tuple[Table, Columns]:
        """A list of files and the columns of their names and labels."""
        return self._find(source, FILE, column=self._file_column(source))

    def _columns(self, source: Source) -> Rows:
        if isinstance(source, Path) and self._is_list(source):
            yield from self._listed(source, named=True)
            return
        table, columns, role = self._find_content(source)
        if role is VECTORS:
            yield from self._listed_vectors(table, columns)
            return
        text, label = columns.name(TEXT.key), columns.name(LABEL.key)
        second = text_pairs.SECOND_TEXT.key
        for location, fields in table.records:
            if len(fields) == 1 and not table.names:
                yield Row(location, self._typed(location, as_text(location, fields[0], name=text)), None)
                continue
            as_part = as_required_text if second in columns.indices else as_text
            content = as_part(location, columns.value(location, fields, TEXT.key), name=text)
            if second in columns.indices:
                other = as_part(location, columns.value(location, fields, second), name=columns.name(second))
                content = text_pairs.join_texts(content, other)
            yield Row(location, content, as_target(location, columns.value(location, fields, LABEL.key), name=label))

    def _listed_vectors(self, table: Table, columns: Columns) -> Rows:
        """The vectors in each row of a table, with their label."""
        name, label = columns.name(VECTORS.key), columns.name(LABEL.key)
        for location, fields in table.records:
            content = columns.value(location, fields, VECTORS.key)
            sequence = vectors.listed_sequence(location, content, self.missing, name=name)
            yield _row(sequence, as_target(location, columns.value(location, fields, LABEL.key), name=label))

    def _layout(self, source: Source) -> Layout:
        return long_tables.find_layout(
            source, self._chosen, separator=self.separator, encoding=self.encoding, decimal=self.decimal
        )

    def _long(self, source: Source) -> Rows:
        layout, numbers = self._layout(source), self.target_type == "number"
        unnamed = {long_tables.GROUP.key, long_tables.TIME.key}.isdisjoint(layout.columns.indices)
        # A recording without times, for a model of one file per recording.
        whole = unnamed and bool(self.channel_names) and self.group_column == ""
        for sequence in long_tables.read_sequences(
            layout, missing=self.missing, whole=whole, numbers=numbers, decimal=self.decimal
        ):
            yield _row(sequence, long_tables.one_label(sequence))

    @property
    def _number_rows(self) -> NumberRows:
        return NumberRows(
            self.separator,
            self.label_column,
            self.channels,
            self.missing,
            self.encoding,
            self.known is not None,
            self.decimal,
        )

    # Text lines and folders.

    def _lines(self, source: Path) -> Rows:
        if not self._has_labels(source):
            yield from self._texts(source)
            return
        for location, label, text in text_files.labelled(source, encoding=self.encoding):
            if location.line == 1 and _is_header_line(label, text):
                continue
            yield Row(location, text, label)

    def _has_labels(self, source: Path) -> bool:
        """Whether lines start with a label: always before training, later if most start with a known one.

        Standard input, which cannot be read twice, has no labels.
        """
        if self.known is None or source == STANDARD_INPUT:
            return self.known is None
        first = islice(text_files.lines(source, encoding=self.encoding), DETECTION_LINES)
        words = [line.split(maxsplit=1)[0] for _, line in first if line.strip()]
        if any(word.startswith("__label__") for word in words):
            return True
        return 2 * sum(self._first_label(word) in self.known for word in words) > len(words)

    def _folder(self, source: Path) -> Rows:
        """Files named after labels, folders named after labels, or recordings with a table of labels."""
        if archives.is_packed_folder(source):
            yield from self._archive(source)
            return
        if not source.is_dir():
            yield from self._texts(source)
            return
        content = list_folder(source)
        if content.folders:
            for folder in content.folders:
                for item in media_lists.items(folder):
                    yield from self._file(item, folder.name)
        elif content.texts:
            for file in content.texts:
                for location, text, *_ in self._texts(file):
                    yield Row(location, text, Path(file.name.removesuffix(".gz")).stem)
        elif content.labels:
            yield from self._listed(content.labels[0])
        else:
            for file in content.recordings:
                yield from self._file(file, None)

    def _archive(self, source: Path) -> Rows:
        """The recordings, images or texts in an archive, in a folder for each label."""
        files, _ = list_archive(source)
        names = [(Location(str(source / file.name), 1), file.name) for file in files]
        if files[0].is_text:
            texts = file_lists.load(names, self._decode_text, folder=source)
            for (location, _), file, text in zip(names, files, texts, strict=True):
                yield Row(location, text, file.label)
            return
        for (location, name), file, signal in zip(names, files, self.media.load(names, source), strict=True):
            yield Row(location, signal.values, file.label, identity=Path(name).name, rate=signal.rate)

    def _decode_text(self, stream: IO[bytes], name: str) -> str:
        """The lines of a file in an archive as one text."""
        lines = enumerate(stream.read().splitlines(), start=1)
        rows = (text_files.decode_line(Location(name, number), row, encoding=self.encoding) for number, row in lines)
        return " ".join(filter(None, map(str.strip, rows)))

    def _describe_folder(self, source: Path) -> str:
        if archives.is_packed_folder(source):
            files, ignored = list_archive(source)
            paths = [source / file.name for file in files]
            what = text_files.pluralize(len(files), "text") if files[0].is_text else media_lists.describe_items(paths)
            labels = {file.label for file in files if file.label is not None}
            label = f"label from the {_names_of(len(labels), 'folder')}" if labels else ""
            return "; ".join(filter(None, (what, label, describe_ignored(ignored))))
        if not source.is_dir():
            return ""
        content = list_folder(source)
        ignored = [path.name for path in content.ignored]
        return "; ".join(filter(None, (self._describe_content(content), describe_ignored(ignored))))

    def _describe_content(self, content: FolderContent) -> str:
        if content.texts:
            return f"label from the {_names_of(len(content.texts), 'file')}"
        if content.folders:
            files = [item for folder in content.folders for item in media_lists.items(folder)]
            recordings = [file for file in files if tables.suffix(file) in tables.SUFFIXES or is_media(file)]
            label = f"label from the {_names_of(len(content.folders), 'folder')}"
        else:
            recordings = content.recordings
            label = f"label from {content.labels[0].name}" if content.labels else "label from a column of each file"
        if not recordings:
            return label
        if is_media(recordings[0]):
            return f"{media_lists.describe_items(recordings)}; {label}"
        layout = self._layout(recordings[0])
        in_file = not content.folders and not content.labels and long_tables.LABEL.key in layout.columns.indices
        columns = layout.describe((long_tables.TIME, long_tables.LABEL) if in_file else (long_tables.TIME,))
        parts = [f"{text_files.pluralize(len(recordings), 'recording')}, one per file", *[label][in_file:], columns]
        return "; ".join(parts)

    def _file(self, file: Path, label: Target | None) -> Rows:
        """The text, the recording, the image or the video that a file holds."""
        if tables.suffix(file) == ".txt":
            lines = [line.strip() for _, line in text_files.lines(file, encoding=self.encoding)]
            yield Row(Location(str(file), 1), " ".join(filter(None, lines)), label)
        elif tables.suffix(file) in tables.SUFFIXES:
            chosen = self._chosen if label is None else {**self._chosen, "label_column": ""}
            sequence = long_tables.recording(
                file,
                chosen,
                separator=self.separator,
                encoding=self.encoding,
                missing=self.missing,
                numbers=self.target_type == "number",
                decimal=self.decimal,
            )
            yield _row(sequence, long_tables.one_label(sequence) if label is None else label)
        elif is_media(file):
            location = Location(str(file), 1)
            (signal,) = self.media.load([(location, file.name)], file.parent)
            yield Row(location, signal.values, label, identity=file.name, rate=signal.rate)
        elif not file.name.startswith((".", "README", "LICENSE")):
            raise DataError(
                str(file), f"expected a .txt file, a table ({', '.join(tables.SUFFIXES)}), sound, an image or a video"
            )

    def _file_names(self, source: Path) -> Rows:
        """The files that standard input names, one per line."""
        for location, line in text_files.lines(source, encoding=self.encoding):
            if name := line.strip():
                (signal,) = self.media.load([(location, name)], Path())
                yield Row(location, signal.values, None, identity=name, rate=signal.rate)

    def _file_column(self, source: Source) -> int | None:
        """The column of a table that names files of sound, images or videos; None: there is none."""
        if not isinstance(source, Path) or source == STANDARD_INPUT:
            return None
        table = tables.read_table(source, separator=self.separator, encoding=self.encoding)
        chosen = self.text_column
        if isinstance(chosen, str) and chosen and chosen in table.names:
            chosen = table.names.index(chosen)
        column = media_lists.file_column(table, source.parent)
        return column if chosen in ("", column) else None

    def _is_list(self, source: Source) -> bool:
        """Whether a table names files of recordings instead of holding texts."""
        if not isinstance(source, Path) or source == STANDARD_INPUT:
            return False
        if self._file_column(source) is not None:
            return True
        table = tables.read_table(source, separator=self.separator, encoding=self.encoding)
        for index, name in enumerate(table.names):
            values = [str(value) for value in table.column(index)[:1]]
            if column_names.normalize(name) in FILE.names and values:
                path = source.parent / values[0]
                return path.suffix.lower() in tables.SUFFIXES and path.is_file()
        return False

    def _listed(self, source: Path, *, named: bool = False) -> Rows:
        """The recordings that a table names, with their labels; ``named``: their ids are these names."""
        entries = list(self._names(source))
        if self._file_column(source) is not None:
            signals = self.media.load([(location, name) for location, name, _ in entries], source.parent)
            for (location, name, label), signal in zip(entries, signals, strict=True):
                yield Row(location, signal.values, label, identity=name, rate=signal.rate)
            return
        for location, name, label in entries:
            path = source.parent / name
            matches = [path, *(Path(f"{path}{suffix}") for suffix in tables.SUFFIXES)]
            file = next((match for match in matches if match.is_file()), None)
            if file is None:
                raise DataError(location, f"no file {name!r} in {source.parent}")
            for row in self._file(file, label):
                yield row._replace(identity=name) if named else row

    def _names(self, source: Path) -> Iterator[tuple[Location, str, Target | None]]:
        """The files of a list, and their labels."""
        table, columns = self._find_files(source)
        for location, fields in table.records:
            value = columns.value(location, fields, FILE.key)
            name = as_required_text(location, value, name=columns.name(FILE.key))
            yield (
                location,
                name,
                as_target(location, columns.value(location, fields, LABEL.key), name=columns.name(LABEL.key)),
            )

    def _texts(self, source: Path) -> Rows:
        """Each line as a text without a label; empty ones only of standard input, where each line has an answer."""
        for location, line in text_files.lines(source, encoding=self.encoding):
            if line.strip() or source == STANDARD_INPUT:
                yield Row(location, self._typed(location, line), None)

    def _typed(self, location: Location, text: str) -> str:
        """A text as it is stored; of pairs, with a tab between the two."""
        return text_pairs.typed_pair(location, text) if self.reads_pairs else text.strip()

    def _with_label(self, location: Location, value: Any) -> tuple[Any, Any]:
        """The content and the label of a Python value."""
        return text_pairs.python_pair(location, value) if self.reads_pairs else _pair(value)

    def _python_values(self, values: Sequence[Any]) -> Rows:
        """Python values: strings, arrays, paths or audio, or pairs (value, label)."""
        if isinstance(values, str):
            raise DataError("input", "expected a list of strings, found a single string")
        for number, value in enumerate(values, start=1):
            location = Location("input", number)
            content, label = self._with_label(location, value)
            label = as_target(location, label, name="label")
            if isinstance(content, str):
                text_files.check_text(location, content)
                yield Row(location, content if self.reads_pairs else content.strip(), label)
                continue
            if is_missing(content) and self._are_texts(values):
                yield Row(location, "", label)
                continue
            if self.known is not None and self.kind is None and not isinstance(content, Path):
                raise DataError(location, f"expected a text, found {type(content).__name__}")
            if is_missing(content):
                raise DataError(location, f"expected a string or numbers (T, D), found a missing value ({content})")
            if isinstance(content, Path | Audio) or (isinstance(content, np.ndarray) and _is_pixels(content)):
                signal = self._signal(location, content)
                name = str(content) if isinstance(content, Path) else ""
                yield Row(location, signal.values, label, identity=name, rate=signal.rate)
            else:
                sequence = self._vectors(location, content)
                yield Row(location, sequence.values, label, missing=sequence.missing)

    def _are_texts(self, values: Sequence[Any]) -> bool:
        """Whether Python values are texts, as far as they are not missing."""
        pairs = (self._with_label(Location("input", number), value) for number, value in enumerate(values, start=1))
        first = next((content for content, _ in pairs if not is_missing(content)), None)
        return isinstance(first, str) or (first is None and self.known is not None and self.kind is None)

    def _signal(self, location: Location, content: Path | Audio | NDArray[Any]) -> Signal:
        """A signal in memory: pixels of uint8, audio, or the path of a file."""
        if isinstance(content, Path):
            return next(self.media.load([(location, str(content))], Path()))
        try:
            decoder = self.media.decoder
            return decoder.from_audio(content) if isinstance(content, Audio) else decoder.from_array(content)
        except ContentError as error:
            raise DataError(location, str(error)) from None

    def _vectors(self, location: Location, content: Any) -> VectorSequence:
        """Vectors (T, D) or (T,) in memory."""
        try:
            array = np.asarray(content, dtype=np.float64)
        except (TypeError, ValueError):
            raise DataError(location, f"expected a string or numbers (T, D), found {type(content).__name__}") from None
        array = array[:, np.newaxis] if array.ndim == 1 else array
        if array.ndim != 2:
            shape = f"shape {array.shape}" if array.ndim else f"the single number {content}"
            raise DataError(location, f"expected numbers (T, D), found {shape}")
        return vectors.filled_sequence(location, array, self.missing)

    def _first_label(self, label: str) -> str:
        first = label.split(self.label_separator, maxsplit=1)[0] if self.label_separator else label
        return " ".join(first.lower().split()) if self.lowercase_labels else str(first)


def _is_header_line(label: str, text: str) -> bool:
    """Whether a line is ``label text`` itself, or the like."""
    return label.casefold() in LABEL.names and text.casefold() in TEXT.names


def _names_of(count: int, noun: str) -> str:
    return f"{'name' if count == 1 else 'names'} of {text_files.pluralize(count, noun)}"


def _row(sequence: VectorSequence, label: Target | None) -> Row:
    row = Row(sequence.location, sequence.values, label, sequence.channel_names, sequence.identity)
    return row._replace(missing=sequence.missing)


def _labelled_vectors(sequences: Iterable[VectorSequence]) -> Rows:
    for sequence in sequences:
        per_element = sequence.target is not None and sequence.target.ndim > 1
        if per_element or (sequence.labels is not None and sequence.label is None):
            raise DataError(sequence.location, "expected one label for the sequence, found one for each element")
        yield _row(sequence, sequence.label if sequence.target is None else sequence.target)


def _is_pixels(values: NDArray[Any]) -> bool:
    """Whether an array is an image (H, W, 3) or a video (T, H, W, 3)."""
    return values.dtype == np.uint8 and values.ndim in (3, 4)


def _pair(value: Any) -> tuple[Any, Any]:
    """The content and the label of a pair; a list is one only if it starts with a text."""
    paired = (isinstance(value, tuple) and not isinstance(value, Audio)) or (
        isinstance(value, list) and value and isinstance(value[0], str)
    )
    content, label = value if paired and len(value) == 2 else (value, None)
    return content, label
