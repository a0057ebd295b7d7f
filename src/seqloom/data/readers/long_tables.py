"""Sequences of vectors in long tables: one row per time step, many sequences in a file or one file per sequence."""

import math
from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from seqloom.data.readers import column_names
from seqloom.data.readers.column_names import normalize
from seqloom.data.readers.columns import (
    Chosen,
    Columns,
    LabelColumn,
    Role,
    rereading,
    unclear,
    with_joined_labels,
)
from seqloom.data.readers.decimal_marks import PLAIN, DecimalMark, plain_table
from seqloom.data.readers.numeric_targets import Target, as_target, to_number
from seqloom.data.readers.table_values import as_label, as_number, is_numeric
from seqloom.data.readers.tables import Table, read_table
from seqloom.data.readers.text_files import DataError, Location, pluralize
from seqloom.data.readers.vectors import Missing, Values, VectorSequence, filled_sequence, with_targets

GROUP = Role("group_column", "sequence", column_names.GROUP, optional=True)
TIME = Role("time_column", "time", column_names.TIME, optional=True)
LABEL = Role("label_column", "label", (*column_names.LABEL, "targets", "response"), "label", optional=True)


@dataclass(frozen=True)
class Layout:
    """The columns of a long table."""

    table: Table
    columns: Columns  # of the sequence, the time and the label, as far as there are such
    values: tuple[int, ...]  # columns of the vectors
    ignored: tuple[int, ...]  # columns that are neither numbers nor have a role
    labels_chosen: bool = False  # the columns of labels are configured

    @property
    def channel_names(self) -> tuple[str, ...]:
        return tuple(self.table.names[index] for index in self.values)

    def describe(self, roles: Sequence[Role] = (GROUP, TIME, LABEL)) -> str:
        names, values = self.table.names, self.channel_names
        shown = ", ".join(values[:8]) + (", …" if len(values) > 8 else "")
        parts = [
            self.columns.describe_roles(roles),
            f"{pluralize(len(values), 'channel')}: {shown}",
            self.columns.numbers.note,
        ]
        if self.ignored:
            parts.append(f"ignored: {', '.join(names[index] for index in self.ignored)}")
        return "; ".join(part for part in parts if part)

    def describe_no_values(self) -> str:
        """Why there are no vectors."""
        if not self.labels_chosen:
            return "no column of numbers"
        role = self.columns.describe_roles((LABEL,))
        return f"no column of numbers is left to predict from: {role} (task.label_column)"

    def group_candidates(self) -> list[str]:
        """Columns that may name the sequence of each row, although their names do not say so."""
        columns = {index: self.table.column(index) for index in (*self.ignored, *self.values)}
        return [
            self.table.names[index]
            for index, values in columns.items()
            if _recurs(values) and (index in self.ignored or _are_blocks(values))
        ]


def find_layout(
    source: Any,
    chosen: Chosen,
    *,
    separator: str = "",
    encoding: str = "utf-8",
    decimal: DecimalMark = "",  # where the numbers leave it open
) -> Layout:
    """The layout of a long table, by the names and the content of its columns."""

    def read() -> Table:
        return read_table(source, separator=separator, encoding=encoding)

    table = read()
    if not table.names and table.head:
        raise DataError(table.location, "expected a header: a long table needs the names of its columns")
    return layout_of(table, chosen, decimal=decimal, reopen=rereading(source, read))


def shown_layout(table: Table, chosen: Chosen) -> Layout:
    """The layout that a table seems to have, of which no number is read: no decimal mark is unclear."""
    return layout_of(table, chosen, decimal=".")


def layout_of(
    table: Table,
    chosen: Chosen,
    *,
    decimal: DecimalMark | None = "",  # where the numbers leave it open; None: only plain numbers are read
    reopen: Callable[[], Table] | None = None,  # reads the table once more
) -> Layout:
    """The layout of a table with named columns."""
    targets = chosen.get(LABEL.key)
    kept = {
        _find(table, role, chosen.get(role.key), fits, used=set()) for role, fits in ((GROUP, _recurs), (LABEL, bool))
    }
    numbers = [index for index in range(table.width) if index not in kept]
    number_format = PLAIN
    if decimal is not None:
        table, number_format = plain_table(table, numbers, reopen, decimal=decimal)
    table, chosen = with_joined_labels(table, chosen, required=False)
    indices: dict[str, int] = {}
    roles = ((GROUP, _recurs), (TIME, _is_time), (LABEL, bool))
    for role, fits in sorted(roles, key=lambda pair: chosen.get(pair[0].key) in ("", None)):  # configured ones first
        index = _find(table, role, chosen.get(role.key), fits, used=set(indices.values()))
        if index is not None:
            indices[role.key] = index
    free = [index for index in range(table.width) if index not in indices.values() and table.names[index]]
    numeric = {index: is_numeric(table.column(index)) for index in free}
    values = [index for index in free if numeric[index]]
    others = [index for index in free if not numeric[index]]
    if LABEL.key not in indices and len(others) == 1 and chosen.get(LABEL.key) in ("", None):
        indices[LABEL.key] = others.pop()
    joined = targets if isinstance(targets, tuple) and LABEL.key in indices else ()
    columns = Columns((GROUP, TIME, LABEL), indices, table.names, table.width, targets=joined, numbers=number_format)
    labels_chosen = LABEL.key in indices and targets not in ("", None)
    return Layout(table, columns, tuple(values), tuple(others), labels_chosen)


def _find(table: Table, role: Role, column: LabelColumn | None, fits: Any, *, used: set[int]) -> int | None:
    if column not in ("", None):
        if isinstance(column, str) and column in table.names:
            index = table.names.index(column)
        elif isinstance(column, int) and -table.width <= column < table.width:
            index = column % table.width
        else:
            return None
        if index in used:
            raise DataError(
                table.location, f"task.{role.key}: the column {table.names[index]!r} already has another role"
            )
        return index
    names = [normalize(name) for name in table.names]
    plain = [name.strip().casefold() for name in table.names]
    for name in role.names:
        for index in range(table.width):
            if name in (names[index], plain[index]) and index not in used and fits(table.column(index)):
                return index
    return None


def _recurs(values: Sequence[Any]) -> bool:
    return bool(values) and 3 * len(set(map(str, values))) <= 2 * len(values)


def _are_blocks(values: Sequence[Any]) -> bool:
    """Whether values are whole numbers that stay the same for several rows."""
    numbers = [as_number(value) for value in values]
    if any(number is None or number != number // 1 for number in numbers):
        return False
    changes = sum(before != after for before, after in pairwise(numbers))
    return changes > 0 and 3 * (changes + 1) <= len(numbers) and len(set(numbers)) == changes + 1


def _is_time(values: Sequence[Any]) -> bool:
    return bool(values) and all(_time(value) is not None for value in values)


def _time(value: Any) -> float | None:
    """A point in time as a number; None if the value is no time."""
    if isinstance(value, datetime):
        return value.timestamp()
    if isinstance(value, date):
        return float(value.toordinal())
    number = as_number(value)
    if number is not None:
        return number
    try:
        return datetime.fromisoformat(str(value).strip()).timestamp()
    except ValueError:
        return None


def is_long(layout: Layout) -> bool:
    """Whether rows are time steps: a column repeats the name of a sequence, or there is a time, and numbers besides.

    The numbers may all be chosen as labels, which ``read_sequences`` reports.
    """
    indices = layout.columns.indices
    return (
        (bool(layout.values) or layout.labels_chosen)
        and (GROUP.key in indices or TIME.key in indices)
        and len(layout.ignored) <= len(layout.values)
    )


@dataclass
class _Rows:
    """The rows of one sequence."""

    location: Location
    identity: str
    values: "array[float]" = field(default_factory=lambda: array("d"))
    times: list[float] = field(default_factory=list)
    labels: list[Target | None] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)


def read_sequences(
    layout: Layout,
    *,
    missing: Missing = "error",
    whole: bool = False,  # all rows are one sequence
    numbers: bool = False,  # labels are numbers
    decimal: DecimalMark = "",  # of these
) -> Iterator[VectorSequence]:
    """The sequences of a long table, each in the order of time."""
    columns, groups = layout.columns, dict[str, _Rows]()
    if layout.table.head and not layout.values:
        raise DataError(layout.table.location, layout.describe_no_values())
    if layout.table.head and not whole and {GROUP.key, TIME.key}.isdisjoint(columns.indices):
        raise unclear(layout.table, (replace(GROUP, optional=False),), (GROUP,))
    named = GROUP.key in columns.indices and not whole
    target = columns.name(LABEL.key)
    number, before = 0, -math.inf
    for location, fields in layout.table.records:
        time = -math.inf
        if TIME.key in columns.indices:
            time = _time_at(location, columns.value(location, fields, TIME.key), columns.name(TIME.key))
        if named:
            name = as_label(location, columns.value(location, fields, GROUP.key), name="sequence")
        else:  # a sequence ends where the time starts again
            number, before = number + (time < before and not whole), time
            name = str(number)
        if name is None:
            raise DataError(location, f"no value in the column {columns.name(GROUP.key)!r}, which names the sequence")
        rows = groups.setdefault(name, _Rows(location, name if named else ""))
        for index in layout.values:
            value = as_number(fields[index])
            if value is None:
                raise DataError(
                    location,
                    f"column {layout.table.names[index]!r}: expected a number, found {str(fields[index])[:40]!r}",
                )
            rows.values.append(value)
        label = as_target(location, columns.value(location, fields, LABEL.key), name="label")
        rows.labels.append(
            to_number(location, label, name=target, decimal=decimal) if numbers and label is not None else label
        )
        rows.lines.append(location.line)
        rows.times.append(time)
    for rows in groups.values():
        yield _vectors(rows, layout.channel_names, missing)


def _time_at(location: Location, value: Any, name: str) -> float:
    time = _time(value)
    if time is None:
        raise DataError(location, f"column {name!r}: expected a number or a date, found {str(value)[:40]!r}")
    return time


def _vectors(rows: _Rows, names: tuple[str, ...], missing: Missing) -> VectorSequence:
    values: Values = np.array(rows.values, dtype=np.float64).reshape(-1, len(names))
    labels, lines, location = rows.labels, rows.lines, rows.location
    if any(later < earlier for earlier, later in zip(rows.times, rows.times[1:], strict=False)):
        order = np.argsort(np.array(rows.times), kind="stable")
        values, labels, lines = values[order], [labels[index] for index in order], [lines[index] for index in order]
    unknown = [index for index, label in enumerate(labels) if label is None]
    if unknown and len(unknown) < len(labels):
        at = location._replace(line=lines[unknown[0]])
        raise DataError(at, "the label is missing, but other rows of this sequence have one")
    sequence = filled_sequence(location, values, missing, lines=lines, names=names)
    return with_targets(replace(sequence, channel_names=names, identity=rows.identity), labels)


def one_label(sequence: VectorSequence) -> Target | None:
    """The label, or the numbers, that all elements of a sequence have."""
    if sequence.target is not None:
        changes = np.flatnonzero((sequence.target != sequence.target[0]).any(axis=1))
        if len(changes):
            before, after = (", ".join(map(str, sequence.target[row].tolist())) for row in (0, changes[0]))
            raise _changing(sequence.location, before, after)
        return np.asarray(sequence.target[0])
    if not sequence.labels:
        return sequence.label
    first = sequence.labels[0]
    other = next((label for label in sequence.labels if label != first), None)
    if other is not None:
        raise _changing(sequence.location, repr(first), repr(other))
    return first


def _changing(location: Location, first: str, other: str) -> DataError:
    return DataError(
        location,
        f"the label changes from {first} to {other} within the sequence that begins here; for a label per row "
        "use the task tag, or set task.group_column to the column that names a sequence",
    )


def recording(
    path: Path,
    chosen: Chosen,
    *,
    separator: str = "",
    encoding: str = "utf-8",
    missing: Missing = "error",
    numbers: bool = False,
    decimal: DecimalMark = "",
) -> VectorSequence:
    """The sequence of a file that holds one recording; the time and the label columns are not part of the vectors."""
    layout = find_layout(path, chosen, separator=separator, encoding=encoding, decimal=decimal)
    sequences = read_sequences(layout, missing=missing, whole=True, numbers=numbers, decimal=decimal)
    sequence = next(sequences, None)
    if sequence is None:
        raise DataError(str(path), "no rows")
    return sequence
