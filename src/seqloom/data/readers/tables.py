"""Tables, records with columns: CSV, TSV, JSON, Parquet and Excel files, and data frames or Python values in memory."""

import csv
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from itertools import chain, islice
from pathlib import Path
from typing import Any

from seqloom.data.readers import excel, parquet, text_files
from seqloom.data.readers.table_header import has_header, repeats
from seqloom.data.readers.table_values import is_missing
from seqloom.data.readers.text_files import STANDARD_INPUT, TABLE, DataError, Location

Record = tuple[Location, list[Any]]
Line = tuple[Location, str]

HEAD = 100  # records that show what the columns hold
SNIFFED_LINES = 30  # lines that show the separator
SEPARATORS = (",", ";", "\t", "|")
DECIMAL_COMMAS = re.compile(r"(?:[^,;]|(?<=\d),(?=\d))*;(?:[^,]|(?<=\d),(?=\d))*")
"""A line with semicolons, in which commas stand only between digits."""
MAX_LEVELS = 8  # of mappings inside of each other whose values are columns
JSON_SUFFIXES = (".json", ".jsonl", ".ndjson")
SUFFIXES = (".csv", ".tsv", ".tab", *JSON_SUFFIXES, ".parquet", ".pq", *excel.SUFFIXES)
"""Suffixes of files that are tables."""
FRAMES = {"pandas", "polars", "pyarrow", "modin", "cudf", "dask", "duckdb", "ibis", "pyspark", "narwhals"}
"""Packages whose data frames are read by way of narwhals."""


@dataclass(frozen=True)
class Table:
    """The records of a source, which can be read once."""

    file: str
    names: tuple[str, ...]  # of the columns; empty: there is no header
    head: tuple[Record, ...]  # the first records
    records: Iterator[Record]  # all records, those of ``head`` included
    separator: str = ""  # of the columns of a text file
    objects: frozenset[str] = frozenset()  # names of mappings in ``head``, whose values are columns: ``outer.inner``

    @property
    def width(self) -> int:
        """The number of columns."""
        return len(self.names) or max((len(values) for _, values in self.head), default=0)

    @property
    def location(self) -> Location | str:
        """Where the table begins, for errors about its columns."""
        return self.head[0][0]._replace(line=1) if self.head and self.file != TABLE else self.file

    def column(self, index: int) -> list[Any]:
        """The values of a column in ``head``, without missing ones."""
        values = (fields[index] for _, fields in self.head if index < len(fields))
        return [value for value in values if not is_missing(value)]

    def inside(self, name: str) -> list[str]:
        """The columns with the values of an object; none: the table has no object of this name."""
        return [column for column in self.names if column.startswith(f"{name}.")] if name in self.objects else []


def read_table(source: Any, *, separator: str = "", encoding: str = "utf-8", header: bool | None = None) -> Table:
    """The table of a file, a data frame, a mapping of columns or a list of mappings.

    ``separator``: of the columns of a text file; empty: ``,``, ``;``, a tab or ``|``, as its first lines show.
    ``header``: whether the first row of a text file or a sheet holds the names of the columns; None: as the rows show.
    """
    if not isinstance(source, Path):
        return _memory_table(source)
    kind = _binary_kind(source)
    if kind == "excel":
        return _excel_table(source, header=header)
    if kind == "parquet":
        return _parquet_table(source)
    return _text_table(source, separator=separator, encoding=encoding, header=header)


def is_table(source: object) -> bool:
    """Whether a value in memory has columns: a data frame, a mapping of columns, or a list of mappings."""
    if isinstance(source, Mapping):
        return True
    if isinstance(source, list | tuple):
        return bool(source) and isinstance(source[0], Mapping)
    return _is_frame(source) or _is_dataset(source)


def suffix(path: Path) -> str:
    """The suffix of a file name in lowercase, without that of a compression."""
    name = path.name.lower().removesuffix(".gz").removesuffix(".zip")
    return Path(name).suffix


def is_binary(path: Path) -> bool:
    """Whether a file is a binary table: Parquet or Excel."""
    return bool(_binary_kind(path))


def _build(
    file: str,
    records: Iterable[Record],
    *,
    names: Sequence[str] | None = None,  # None: of the first record, if that is a header
    header: bool | None = None,
    separator: str = "",
    objects: frozenset[str] = frozenset(),
) -> Table:
    iterator = iter(records) if separator else _checked(records)  # lines of text are checked when they are read
    head = list(islice(iterator, HEAD + 1))
    if names is None:
        if header is None:
            header = has_header([values for _, values in head])
        if header and head:
            location, values = head.pop(0)
            names = [str("" if value is None else value).strip() for value in values]
            check_names(location, names)
            if len(names) > 1:
                rest = _without_header(chain(head, iterator), names, location)
                head = list(islice(rest, HEAD + 1))
                iterator = rest
    return Table(file, tuple(names or ()), tuple(head[:HEAD]), chain(head, iterator), separator, objects)


def _without_header(records: Iterable[Record], names: Sequence[str], first: Location) -> Iterator[Record]:
    """The same records; DataError for one that repeats the header, which is no example."""
    for location, values in records:
        if values and values[0] == names[0] and repeats(values, names):
            raise DataError(
                location, f"repeats the header of line {first.line}, as if files had been joined: remove this line"
            )
        yield location, values


def _checked(records: Iterable[Record]) -> Iterator[Record]:
    """The same records, without strings that cannot be written to a text file."""
    for location, values in records:
        for value in values:
            if isinstance(value, str):
                text_files.check_text(location, value)
        yield location, values


def check_names(location: Location | str, names: Sequence[str]) -> None:
    repeated = [name for name, count in Counter(names).items() if count > 1 and name]
    if repeated:
        raise DataError(location, f"duplicate column names: {', '.join(repeated)}")


# Text files: separated columns and JSON.


def _text_table(path: Path, *, separator: str, encoding: str, header: bool | None) -> Table:
    file = "standard input" if path == STANDARD_INPUT else str(path)
    lines = text_files.lines(path, encoding=encoding)
    first: list[Line] = []
    for location, line in lines:
        first.append((location, line))
        if line.strip():
            break
    lines = chain(first, lines)
    start = first[-1][1].lstrip() if first else ""
    if start.startswith("{") and not separator:
        return _json_lines(file, lines) if _is_json(start) or suffix(path) != ".json" else _json_document(file, lines)
    if start.startswith("[") and not separator and (suffix(path) in JSON_SUFFIXES or start[1:].lstrip()[:1] in "[{"):
        return _json_document(file, lines)
    first = list(islice(lines, SNIFFED_LINES))
    texts = [line for _, line in first]
    separator = separator or sniff_separator(texts, default="," if suffix(path) == ".csv" else "\t")
    return _build(file, split_columns(chain(first, lines), separator), header=header, separator=separator)


def split_columns(lines: Iterator[Line], separator: str) -> Iterator[Record]:
    """The columns of text lines; quotes have a meaning unless the separator is whitespace or several characters."""
    if separator == "|":
        yield from _split_at_bars(lines)
    elif len(separator) == 1 and not separator.isspace():
        yield from text_files.split_records(lines, separator=separator)
    else:
        for location, line in lines:
            if line.strip():
                yield location, list(line.split(separator))


def _split_at_bars(lines: Iterator[Line]) -> Iterator[Record]:
    """Columns separated by ``|``, each line a record: quotes are removed around whole fields and kept elsewhere.

    Lists of transcripts such as that of LJSpeech have quotes that are opened in one line and never closed.
    """
    width = 0
    for location, line in lines:
        if not line.strip():
            continue
        fields = line.split("|")
        if '"' in line:
            with suppress(csv.Error):
                quoted = next(csv.reader([line], delimiter="|", strict=True))
                fields = quoted if len(quoted) == (width or len(quoted)) else fields
        width = width or len(fields)
        text_files.check_width(location, fields, width)
        yield location, fields


def sniff_separator(lines: Sequence[str], *, default: str = ",") -> str:
    """The separator that cuts all lines into the same number of columns, at least two; else the default."""
    candidates = [default, *(separator for separator in SEPARATORS if separator != default)]
    filled = [line for line in lines if line.strip()]
    if default == "," and filled and all(DECIMAL_COMMAS.fullmatch(line) for line in filled):
        candidates = [";", *candidates]
    for separator in candidates:
        widths = _widths(filled, separator)
        if len(set(widths)) == 1 and widths[0] > 1:
            return separator
    everywhere = (separator for separator in candidates if filled and all(separator in line for line in filled))
    return next(everywhere, default)


def _widths(lines: Sequence[str], separator: str) -> list[int]:
    """The numbers of columns of some lines; the last record may be incomplete and does not count."""
    if separator == "\t":
        return [line.count("\t") + 1 for line in lines]
    if separator == "|":
        with suppress(DataError):
            return [len(fields) for _, fields in _split_at_bars((Location("", 0), line) for line in lines)]
        return []
    try:
        records = [len(fields) for fields in csv.reader((line + "\n" for line in lines), delimiter=separator) if fields]
    except csv.Error:
        return []
    return records[:-1] if len(records) > 1 and len(lines) >= SNIFFED_LINES else records


def _is_json(line: str) -> bool:
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        return False
    return True


def _json_lines(file: str, lines: Iterator[Line]) -> Table:
    objects = ((location, text_files.parse_json_object(location, line)) for location, line in lines if line.strip())
    return _objects_table(file, objects)


def _json_document(file: str, lines: Iterator[Line]) -> Table:
    """The table of a whole JSON file: an array of objects, or an object of columns; lines count its records."""
    text = "\n".join(line for _, line in lines)
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        raise DataError(Location(file, error.lineno), f"invalid JSON: {error.msg} at character {error.colno}") from None
    except (ValueError, RecursionError) as error:
        raise DataError(file, f"invalid JSON: {error}") from None
    if isinstance(value, dict):
        lists = [name for name, part in value.items() if isinstance(part, list)]
        if not lists or any(not isinstance(part, list) for part in value.values()):
            keys = ", ".join(map(str, value))[:100]
            raise DataError(file, f"expected JSON lines or an array of objects, found one object with the keys {keys}")
        return _columns_table(file, value)
    return _objects_table(file, ((Location(file, number), part) for number, part in enumerate(value, start=1)))


def _objects_table(file: str, objects: Iterable[tuple[Location, Any]]) -> Table:
    """The table of mappings; its columns are the keys of the first ones, those of inner mappings as ``outer.inner``."""
    iterator = iter(objects)
    first = list(islice(iterator, HEAD))
    rows = ((location, _flat_object(location, value)) for location, value in chain(first, iterator))
    head = list(islice(rows, HEAD))
    names = list(dict.fromkeys(name for _, row in head for name in row))
    nested = frozenset(name for _, value in first for name in _object_names(value))
    records = ((location, [row.get(name) for name in names]) for location, row in chain(head, rows))
    return _build(file, records, names=names, objects=nested)


def _flat_object(location: Location, value: object, *, levels: int = MAX_LEVELS) -> dict[str, Any]:
    """The values of a mapping, and of the mappings inside of it, by their names."""
    if not isinstance(value, Mapping):
        raise DataError(location, f"expected an object with named values, found {type(value).__name__}")
    flat: dict[str, Any] = {}
    for name, part in value.items():
        if isinstance(part, Mapping) and levels > 1:
            inner = _flat_object(location, part, levels=levels - 1)
            flat |= {f"{name}.{key}": each for key, each in inner.items()}
        else:
            flat[str(name)] = part
    return flat


def _object_names(value: Mapping[Any, Any], *, levels: int = MAX_LEVELS) -> Iterator[str]:
    """The names of the mappings inside of a mapping."""
    for name, part in value.items():
        if isinstance(part, Mapping) and levels > 1:
            yield str(name)
            yield from (f"{name}.{inner}" for inner in _object_names(part, levels=levels - 1))


# Parquet and Excel.


def _binary_kind(path: Path) -> str:
    """``parquet``, ``excel``, or empty for a text file."""
    if path == STANDARD_INPUT:
        return ""
    if excel.workbook(path)[0] is not None:
        return "excel"
    with text_files.open_binary(path, str(path)) as stream:
        try:
            start = stream.read(4)
        except (OSError, EOFError):  # reported by the next read
            return ""
    return "parquet" if start == b"PAR1" else ""


def _excel_table(path: Path, *, header: bool | None) -> Table:
    rows = excel.read_sheet(path, _import("openpyxl", "reading Excel files"))
    width = max(map(len, rows), default=0)
    records = (
        (Location(str(path), number), ["" if cell is None else cell for cell in (*row, *[None] * (width - len(row)))])
        for number, row in enumerate(rows, start=1)
        if row
    )
    return _build(str(path), records, header=header)


def _parquet_table(path: Path) -> Table:
    names, records = parquet.read_records(path, _import("pyarrow.parquet", "reading Parquet files"))
    return _build(str(path), records, names=names)


def _import(module: str, purpose: str) -> Any:
    package = module.partition(".")[0]
    try:
        return import_module(module)
    except ModuleNotFoundError:
        raise ModuleNotFoundError(f"{purpose} needs {package}: pip install 'seqloom[tables]'", name=package) from None


# Tables in memory.


def _memory_table(source: Any) -> Table:
    if isinstance(source, Mapping):
        tables = [str(name) for name, part in source.items() if isinstance(part, Mapping) or is_table(part)]
        if tables:
            raise DataError(TABLE, f"expected one table, found several: {', '.join(tables)}; give one of them")
        return _columns_table(TABLE, source)
    if _is_frame(source):
        return _frame_table(source)
    if _is_dataset(source):
        return _dataset_table(source)
    return _objects_table(TABLE, ((Location(TABLE, number), part) for number, part in enumerate(source, start=1)))


def _columns_table(file: str, columns: Mapping[Any, Any]) -> Table:
    lengths = {}
    for name, values in columns.items():
        if isinstance(values, str) or not hasattr(values, "__len__"):
            raise DataError(file, f"column {name!r}: expected a list, found {type(values).__name__}")
        lengths[str(name)] = len(values)
    if len(set(lengths.values())) > 1:
        shown = ", ".join(f"{name} {length:,}" for name, length in lengths.items())
        raise DataError(file, f"expected columns of equal length, found {shown}")
    rows = zip(*columns.values(), strict=True)
    return _build(file, _numbered(file, rows), names=list(lengths))


def _numbered(file: str, rows: Iterable[Iterable[Any]]) -> Iterator[Record]:
    for number, row in enumerate(rows, start=1):
        yield Location(file, number), list(row)


def _is_frame(source: object) -> bool:
    kind = type(source)
    package = kind.__module__.partition(".")[0]
    return package in FRAMES and (hasattr(kind, "columns") or hasattr(kind, "column_names"))


def _is_dataset(source: object) -> bool:
    """Whether a value is a data set of Hugging Face: columns with features, and rows that are dictionaries."""
    return hasattr(source, "column_names") and hasattr(source, "features") and hasattr(source, "__iter__")


def _frame_table(frame: Any) -> Table:
    import narwhals

    try:
        wrapped = narwhals.from_native(frame)
        eager = wrapped.collect() if isinstance(wrapped, narwhals.LazyFrame) else wrapped
    except (TypeError, ValueError, narwhals.exceptions.NarwhalsError) as error:
        first_line = str(error).partition("\n")[0][:200]
        raise DataError(TABLE, f"cannot read a {type(frame).__name__} ({first_line})") from None
    names = [str(name) for name in eager.columns]
    return _build(TABLE, _numbered(TABLE, eager.iter_rows(named=False, buffer_size=1024)), names=names)


def _dataset_table(dataset: Any) -> Table:
    """A data set of Hugging Face; classes that are stored as numbers get their names."""
    names = [str(name) for name in dataset.column_names]
    classes = {name: _class_names(dataset.features, name) for name in names}

    def value(row: Mapping[str, Any], name: str) -> Any:
        number, labels = row[name], classes[name]
        if labels is None:
            return number
        if isinstance(number, list | tuple):
            return [labels[part] for part in number]
        return labels[number] if number is not None and number >= 0 else None  # -1: unknown

    return _build(TABLE, _numbered(TABLE, ([value(row, name) for name in names] for row in dataset)), names=names)


def _class_names(features: Any, name: str) -> Sequence[str] | None:
    feature = features[name] if features and name in features else None
    feature = getattr(feature, "feature", feature)  # of a sequence
    names = getattr(feature, "names", None)
    return names if isinstance(names, list | tuple) else None
