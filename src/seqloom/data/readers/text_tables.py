"""Texts in a column of a table, for tasks that read nothing else: CSV, JSON lines, Parquet and data frames."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from seqloom.data.readers import column_names, tables
from seqloom.data.readers.columns import Columns, Role, find_columns
from seqloom.data.readers.data_parts import are_parts
from seqloom.data.readers.table_values import as_text
from seqloom.data.readers.tables import Table
from seqloom.data.readers.text_files import DataError, Location, Source, lines, pluralize

KEY = "text_column"


def is_text_table(source: Source) -> bool:
    """Whether texts are in a column of a source: a table in memory, or a file whose name says that it is one."""
    if not isinstance(source, Path):
        return tables.is_table(source)
    return tables.suffix(source) in tables.SUFFIXES and not source.is_dir()


def text_files_of(folder: Path) -> list[Path]:
    """The texts of a folder, in the order of their names; hidden ones are skipped."""
    files = sorted(path for path in folder.iterdir() if path.is_file() and not path.name.startswith("."))
    if not files:
        raise DataError(str(folder), "there are no files in this folder")
    if are_parts(files):
        names = ", ".join(path.name for path in files[:5])
        raise DataError(str(folder), f"these are parts of one data set ({names}): name one of them")
    return files


def texts(source: Source, *, column: int | str = "", encoding: str = "utf-8") -> Iterator[tuple[Location, str]]:
    """The lines of a text or of all texts in a folder, or the texts in a column of a table, with their locations."""
    if isinstance(source, Path) and source.is_dir():
        for file in text_files_of(source):
            yield from lines(file, encoding=encoding)
        return
    if not is_text_table(source):
        yield from lines(source, encoding=encoding)
        return
    table, columns = _find(source, column, encoding)
    name = columns.name(KEY) if KEY in columns.indices else ""
    for location, fields in table.records:
        yield location, as_text(location, columns.value(location, fields, KEY), name=name)


def detect_column(
    source: Source, *, column: int | str = "", encoding: str = "utf-8"
) -> tuple[dict[str, int | str], tuple[str, ...]]:
    """The setting that names the column with the texts, and a note about it; nothing if the source is no table."""
    if isinstance(source, Path) and source.is_dir():
        return {}, (f"the text of {pluralize(len(text_files_of(source)), 'file')}, in the order of their names",)
    if not is_text_table(source):
        return {}, ()
    table, columns = _find(source, column, encoding)
    return columns.settings(), (columns.describe(),) if table.width else ()


def _find(source: Any, column: int | str, encoding: str) -> tuple[Table, Columns]:
    role = Role(KEY, "text", column_names.TEXT, "text")
    try:
        return find_columns(source, [role], {KEY: column}, encoding=encoding)
    except DataError as error:
        if isinstance(source, Path):
            raise DataError(
                error.location, f"{error.message}. A file with plain text has another suffix, such as .txt"
            ) from None
        names = tables.read_table(source).names
        if column not in ("", *names):
            raise
        listed = ", ".join(map(repr, names))[:200]
        raise DataError(
            "input", f"cannot tell which column holds the text: name it, text=…; columns: {listed}"
        ) from None
