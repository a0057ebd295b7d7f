"""The formats of labelled sequences, by file names, first lines and folders."""

from collections.abc import Collection, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from seqloom.data.readers import archives, column_names, long_tables, tables, text_files, vectors
from seqloom.data.readers.columns import Role
from seqloom.data.readers.decimal_marks import writes_number
from seqloom.data.readers.media import Kind
from seqloom.data.readers.media_lists import SUFFIXES, is_media
from seqloom.data.readers.table_values import is_numeric, is_prose
from seqloom.data.readers.tables import Table
from seqloom.data.readers.text_files import STANDARD_INPUT, DataError, Source

Format = Literal["auto", "lines", "columns", "jsonl", "folder", "file", "numbers", "long", "ts", "npz"]
TEXT = Role("text_column", "text", column_names.TEXT, "text")
LABEL = Role("label_column", "label", column_names.LABEL, "label")
FILE = Role("text_column", "file", column_names.FILE)
VECTORS = Role("text_column", "vectors", (*column_names.VALUES, column_names.VECTOR, "strokes"))
MANY_NUMBERS, MOST = (
    8,
    0.8,
)  # number and share of numeric columns from which on a row is a sequence, whatever others hold
DETECTION_LINES = 20  # lines that decide whether a file has labels


class FolderContent(NamedTuple):
    """What a folder of labelled data consists of; one of the first three is not empty, and no other is read."""

    folders: list[Path]  # named after labels
    texts: list[Path]  # named after labels
    recordings: list[Path]  # one sequence each
    labels: list[Path]  # tables with the labels of the recordings
    ignored: list[Path]  # what lies beside them


SHOWN = 3  # ignored files that are named


def describe_ignored(names: Sequence[str]) -> str:
    """The files and folders that are not read; empty: there are none."""
    more = f" and {len(names) - SHOWN:,} more" if len(names) > SHOWN else ""
    return f"ignored: {', '.join(names[:SHOWN])}{more}" if names else ""


def list_folder(folder: Path) -> FolderContent:
    """What a folder holds; recordings and images win over .txt files that lie beside them, such as notes."""
    paths = sorted(path for path in folder.iterdir() if not path.name.startswith("."))
    texts = [path for path in paths if path.is_file() and tables.suffix(path) == ".txt"]
    folders = [path for path in paths if path.is_dir() and (not texts or _holds_data(path))]
    if folders and texts and any(any(path.glob("*.txt")) for path in folders):
        shown = f"files such as {texts[0].name} and folders such as {folders[0].name}"
        raise DataError(str(folder), f"found {shown}; expected either a .txt file or a folder for each label")
    check_label_folders(folder, [path.name for path in folders])
    files = [path for path in paths if path.is_file() and (tables.suffix(path) in tables.SUFFIXES or is_media(path))]
    labels = [path for path in files if path.name.partition(".")[0].lower() in LABEL_FILES]
    recordings = [path for path in files if path not in labels]
    if folders:
        return FolderContent(folders, [], [], [], [path for path in paths if path not in folders])
    if texts and (recordings if labels else len(recordings) > len(texts)):
        return FolderContent([], [], recordings, labels, texts)
    if not (texts or folders or recordings):
        raise DataError(
            str(folder),
            "no .txt file, table, sound or image in the folder; expected a file or a folder for each label",
        )
    unread = [path for path in paths if path.is_dir() or path in (*recordings, *labels)] if texts else []
    return FolderContent([], texts, [] if texts else recordings, [] if texts else labels, unread)


def check_label_folders(source: Path, names: Collection[str]) -> None:
    """DataError if the folders in a source are parts of the data instead of labels."""
    if len(names) > 1 and all(name.casefold() in SPLITS for name in names):
        folders = sorted(names, key=lambda name: SPLITS.index(name.casefold()))
        raise DataError(
            str(source),
            f"the folders {', '.join(folders[:-1])} and {folders[-1]} hold parts of the data, not labels: name one of "
            f"them, such as {source / folders[0]}",
        )


def _holds_data(folder: Path) -> bool:
    """Whether a folder may be that of a label: it holds texts, tables, sound, images or videos."""
    known = (".txt", *tables.SUFFIXES)
    return any(tables.suffix(path) in known or is_media(path) for path in folder.iterdir())


SPLITS = ("train", "training", "dev", "development", "valid", "validation", "val", "test", "testing")
"""Names of folders with the parts of data."""
LABEL_FILES = ("labels", "label", "classes", "annotations", "metadata")
"""Names of the table with the labels of a folder of recordings."""


def detect(source: Source, separator: str = "", *, kind: Kind | None = None, encoding: str = "utf-8") -> Format:
    """The format of a source, by its name or else by its first lines; ``kind``: of the trained model's signals."""
    if not isinstance(source, Path):
        return _table_format(source, separator, encoding)
    if source == STANDARD_INPUT:
        return "lines" if kind is None else "numbers" if kind == "vectors" else "file"
    if source.is_dir():
        return "file" if kind == "video" and is_media(source) else "folder"
    if archives.is_packed_folder(source):
        return "folder"
    if source.suffix.lower() in SUFFIXES:
        return "file"
    suffix = tables.suffix(source)
    if suffix in (".ts", ".npz"):
        return "ts" if suffix == ".ts" else "npz"
    if tables.is_binary(source):
        return _table_format(source, separator, encoding)
    first = [line for _, line in islice(text_files.lines(source, encoding=encoding), DETECTION_LINES) if line.strip()]
    if not first:
        return "columns" if suffix in tables.SUFFIXES else "lines"
    if first[0].lstrip().startswith(("{", "[{", "[[")) or suffix in tables.JSON_SUFFIXES:
        return _table_format(source, separator, encoding)
    used = separator or tables.sniff_separator(first, default="," if suffix in (".csv", "") else "\t")
    texts = {column_names.normalize(name) for name in first[0].split(used)} & set(TEXT.names[:-2])
    if _are_numbers(first[1 if len(first) > 1 else 0].split(used)) and not texts:
        named = not any(vectors.is_number(field) or writes_number(field) for field in first[0].split(used))
        return "long" if named and _table_format(source, used, encoding) == "long" else "numbers"
    if suffix in tables.SUFFIXES or _is_separated(first, used):
        return _table_format(source, separator, encoding)
    return "lines"


def _are_numbers(fields: Sequence[str]) -> bool:
    """Whether a row has at least two numbers, and only its first or its last field may be something else."""
    numbers = [vectors.is_number(field) or writes_number(field) for field in fields]
    return len(fields) > 2 and all(numbers[1:-1]) and (numbers[0] or numbers[-1])


def _is_separated(lines: Sequence[str], separator: str) -> bool:
    """Whether lines have columns where the suffix does not say so: all have a tab, or the first one is a header."""
    if any(line.startswith("__label__") for line in lines):
        return False
    if separator == "\t":
        return all("\t" in line for line in lines)
    names = [column_names.normalize(name) for name in lines[0].split(separator)]
    return len(names) > 1 and any(name in TEXT.names for name in names) and any(name in LABEL.names for name in names)


def vector_column(table: Table, chosen: int | str) -> str:
    """The column with a list of vectors, or of numbers, in each row: the configured one, or else one with a usual name.

    Empty: there is none.
    """
    names = {column_names.normalize(name): name for name in reversed(table.names)}
    usual = [names[name] for name in VECTORS.names if name in names]
    candidates = usual if chosen == "" else table.names[chosen:][:1] if isinstance(chosen, int) else (chosen,)
    known = (name for name in candidates if name in table.names)
    return next((name for name in known if _are_vectors(table.column(table.names.index(name)))), "")


def _are_vectors(values: Sequence[Any]) -> bool:
    lists = [value for value in values if isinstance(value, list | tuple | np.ndarray)]
    return (
        bool(lists) and len(lists) == len(values) and not any(len(each) and isinstance(each[0], str) for each in lists)
    )


def _table_format(source: Source, separator: str, encoding: str) -> Format:
    """Whether a table holds texts, sequences of numbers in its rows, or one element of a sequence per row."""
    table = tables.read_table(source, separator=separator, encoding=encoding)
    if not table.names or not table.head:
        return "columns"
    columns = [table.column(index) for index in range(table.width)]
    if any(TEXT.names[0] == column_names.normalize(name) for name in table.names) or any(map(is_prose, columns)):
        return "columns"
    layout = long_tables.shown_layout(table, {})
    if long_tables.is_long(layout):
        return "long"
    numbers = sum(map(is_numeric, columns))
    are_most = numbers >= MANY_NUMBERS and numbers >= MOST * table.width
    return "numbers" if (numbers >= 2 and numbers >= table.width - 1) or are_most else "columns"
