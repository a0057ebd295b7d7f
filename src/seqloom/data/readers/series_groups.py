"""A table with several series below each other (long form), divided by the column that names them."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from seqloom.data.readers.row_ranges import Range, split_range
from seqloom.data.readers.series import TableGroup, column_positions, open_table
from seqloom.data.readers.table_values import is_missing
from seqloom.data.readers.tables import Record
from seqloom.data.readers.text_files import DataError, Location


def table_groups(
    source: Any,  # a file, lines of text, or a table in memory
    column: str,  # that names the series of each row
    *,
    separator: str = "",  # of a text file; empty: as its first lines show
    encoding: str = "utf-8",
) -> Iterator[TableGroup]:
    """The series of a table, in the order of their first rows; a range selects rows of each of them."""
    path, range_ = split_range(source) if isinstance(source, Path) else (source, Range("input", "", ""))
    names, records, separator = open_table(path, range_.text, separator, encoding=encoding)
    if column not in names:
        raise DataError(
            Location(range_.text, 1), f"no column {column!r} (task.group_column); the file has {', '.join(names)}"
        )
    place = column_positions(names)[column]
    groups: dict[str, list[Record]] = {}
    for location, fields in records:
        name = "" if is_missing(fields[place]) else str(fields[place]).strip()
        if not name:
            raise DataError(location, f"column {column}: expected the name of a series, found nothing")
        groups.setdefault(name, []).append((location, [*fields[:place], *fields[place + 1 :]]))
    if not groups:
        raise DataError(Location(range_.text, 1), "no rows after the header")
    others = [*names[:place], *names[place + 1 :]]
    for name, rows in groups.items():
        yield TableGroup(name, others, rows, range_, separator)
