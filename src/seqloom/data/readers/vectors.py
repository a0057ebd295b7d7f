"""Sequences of vectors from files: sensors, pen strokes, features; whatever is wrong is named by file and line."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from seqloom.data.readers.npz import read_arrays
from seqloom.data.readers.text_files import DataError, Location, Source, lines

Values = NDArray[np.float32]
Missing = Literal["error", "hold"]
"""What is done about a value that is not there: refuse it, or take the channel's last one (at the start the next)."""
UNKNOWN = ("", "?")
"""What stands where a label is not known."""


@dataclass(frozen=True, slots=True)
class Vectors:
    """A sequence of vectors with its label, or with one for each element."""

    location: Location
    values: Values  # (T, D)
    label: str | None = None  # of the whole
    labels: tuple[str, ...] | None = None  # of the elements

    def __len__(self) -> int:
        return len(self.values)


def ts(source: Source, *, missing: Missing = "error") -> Iterator[Vectors]:
    """A .ts file of the UEA and UCR archives: ``@`` headers, then one case a line, its channels separated by ``:``."""
    header: dict[str, list[str]] = {}
    location, width, begun = Location("input", 1), 0, False
    for location, text in lines(source):
        line = text.strip()
        if not line or line.startswith("#"):
            continue
        if begun:
            case = _case(location, line, header, missing)
            if case.values.shape[1] != (width := width or case.values.shape[1]):
                raise DataError(location, f"found {case.values.shape[1]} channels; {width} wanted")
            yield case
        elif line.startswith("@"):
            name, *words = line[1:].split()
            begun = name.lower() == "data"
            header[name.lower()] = words
            _check_header(location, name, words)
            if name.lower() in ("dimensions", "dimension"):
                width = int(words[0])
        else:
            raise DataError(location, f"found {line[:20]!r} before @data; headers (@name value) are wanted there")
    if not begun:
        raise DataError(location.file, "there is no line @data; it stands before the cases of a .ts file")


def _check_header(location: Location, name: str, words: list[str]) -> None:
    first = words[0].lower() if words else ""
    if name.lower() == "timestamps" and first == "true":
        raise DataError(location, "the values have time stamps; values at equal steps are wanted (@timeStamps false)")
    if name.lower() == "targetlabel" and first == "true":
        raise DataError(location, "the target is a number; a class is wanted (@classLabel true …)")
    if name.lower() in ("dimensions", "dimension") and not (first.isdecimal() and int(first)):
        raise DataError(location, f"found @{name} {first[:20]!r}; a number from 1 is wanted")


def _case(location: Location, line: str, header: dict[str, list[str]], missing: Missing) -> Vectors:
    channels = line.split(":")
    classes = header.get("classlabel", [])
    label = None
    if classes and classes[0].lower() == "true":
        label = known(channels.pop().strip())
        if label is not None and classes[1:] and label not in classes[1:]:
            raise DataError(location, f"the label {label[:40]!r} is not in @classLabel {' '.join(classes[1:])[:80]}")
    if any(channel.lstrip().startswith("(") for channel in channels):
        raise DataError(location, "the values have time stamps; values at equal steps are wanted")
    columns = [numbers(location, channel.split(",") if channel.strip() else []) for channel in channels]
    lengths = sorted({len(column) for column in columns})
    if len(lengths) != 1:
        raise DataError(
            location, f"found channels of {lengths[0] if lengths else 0} and {lengths[-1] if lengths else 0} values"
        )
    return Vectors(location, filled(location, np.stack(columns, axis=1), missing), label)


def csv(
    source: Source,
    *,
    channels: int = 1,  # how many values make one element
    label: int | None = -1,  # the column of the label, counted from 0 or, below it, from the end; None: there is none
    separator: str = ",",
    missing: Missing = "error",
) -> Iterator[Vectors]:
    """One sequence a row: its numbers, element after element, and its label; an empty label or ``?`` is not known.

    A first row without a number is a header. Rows may be of unequal length. With two channels or more, a row whose
    numbers alone fill all elements has no label.
    """
    for position, (location, fields) in enumerate(_records(source, separator)):
        if not fields or (position == 0 and _is_header(fields, label)):
            continue
        name = None
        if label is not None and (channels == 1 or len(fields) % channels):
            name = known(fields.pop(_column(location, label, fields)))
        values = numbers(location, fields)
        if not len(values) or len(values) % channels:
            raise DataError(location, f"found {len(values)} values; a multiple of {channels} (channels) is wanted")
        yield Vectors(location, filled(location, values.reshape(-1, channels), missing), name)


def frames(
    source: Source,
    *,
    label: int | None = -1,  # the column of each element's label; None: there is none
    identity: int
    | None = None,  # the column that says which sequence an element belongs to; None: a blank line ends it
    separator: str = ",",
    missing: Missing = "error",
) -> Iterator[Vectors]:
    """One element a row, its numbers and its label; a first row without a number is a header."""
    records = enumerate(_records(source, separator))
    rows = (record for position, record in records if position or not _is_header(record[1], label, identity))
    width = 0
    number = 0

    def sequence_of(row: tuple[Location, list[str]]) -> Any:
        nonlocal number
        if not row[1]:
            number += 1
            return None
        return number if identity is None else row[1][_column(row[0], identity, row[1])]

    for key, group in groupby(rows, sequence_of):
        if key is None:
            continue
        elements = [_element(location, fields, label, identity) for location, fields in group]
        for location, values, name in elements:
            if len(values) != (width := width or len(values)):
                raise DataError(location, f"found {len(values)} values; the rows before have {width}")
            if (name is None) != (elements[0][2] is None):
                raise DataError(location, "the label is missing; elements of this sequence have one")
        location = elements[0][0]
        names = tuple(name for _, _, name in elements if name is not None) or None
        values = filled(location, np.stack([values for _, values, _ in elements]), missing, step=1)
        yield Vectors(location, values, labels=names)


def _element(
    location: Location, fields: list[str], label: int | None, identity: int | None
) -> tuple[Location, Values, str | None]:
    apart = {_column(location, column, fields): column == label for column in (identity, label) if column is not None}
    name = next((known(fields[column]) for column, is_label in apart.items() if is_label), None)
    values = numbers(location, [field for column, field in enumerate(fields) if column not in apart])
    if not len(values):
        raise DataError(location, "there are no values")
    return location, values, name


def npz(source: Path, *, missing: Missing = "error") -> Iterator[Vectors]:
    """A .npz file of NumPy in one of two layouts.

    ``values`` (total, D) and ``lengths`` (N,): the sequences one behind the other; ``labels`` (N,) are theirs, or
    (total,) those of the elements. Or ``x`` (N, T, D), all of one length, with ``y`` (N,) or (N, T). Labels are
    strings or integers and may be left out; without a last dimension, D is one. Arrays of objects are refused. The
    line in a location is the number of the sequence.
    """
    file = str(source)
    arrays = read_arrays(source, ("values", "lengths", "labels", "x", "y"))
    if "x" in arrays:
        x = _numeric(file, "x", arrays["x"], 3)
        values, lengths = x.reshape(-1, x.shape[2]), np.full(len(x), x.shape[1])
        labels = arrays["y"].reshape(-1) if "y" in arrays else None
    elif {"values", "lengths"} <= arrays.keys():
        values, lengths = _numeric(file, "values", arrays["values"], 2), arrays["lengths"]
        if lengths.ndim != 1 or lengths.dtype.kind not in "iu" or (lengths < 0).any():
            raise DataError(file, f"lengths is {_describe(lengths)}; integers (N,) from 0 are wanted")
        labels = arrays.get("labels")
    else:
        raise DataError(file, f"found the arrays {', '.join(arrays) or 'none'}; values and lengths, or x, are wanted")
    if int(lengths.sum()) != len(values):
        raise DataError(file, f"lengths add up to {int(lengths.sum())}, and values has {len(values)} rows")
    names = None if labels is None else _names(file, labels)
    if names is not None and len(names) not in (len(lengths), len(values)):
        raise DataError(file, f"found {len(names)} labels for {len(lengths)} sequences of {len(values)} elements")
    start = 0
    for number, length in enumerate(lengths.tolist()):
        span, location = slice(start, start + length), Location(file, number + 1)
        case = Vectors(location, filled(location, values[span].astype(np.float32), missing))
        if names is not None and len(names) == len(lengths):
            case = replace(case, label=known(names[number]))
        if names is not None and len(names) == len(values):
            case = replace(case, labels=tuple(names[span]))
        yield case
        start += length


def write_npz(
    path: Path,
    sequences: Sequence[ArrayLike],  # each (T, D) or (T,)
    labels: Sequence[str] | Sequence[Sequence[str]] | None = None,  # of the sequences, or of the elements of each
) -> None:
    """Write what ``npz`` reads."""
    values = [np.asarray(sequence, dtype=np.float32) for sequence in sequences]
    values = [value.reshape(-1, 1) if value.ndim == 1 else value for value in values]
    arrays: dict[str, NDArray[Any]] = {
        "values": np.concatenate(values) if values else np.zeros((0, 1), np.float32),
        "lengths": np.array([len(value) for value in values], dtype=np.int64),
    }
    if labels is not None:
        if len(labels) != len(values):
            raise ValueError(f"there are {len(labels)} labels for {len(values)} sequences")
        flat = [name for part in labels for name in ([part] if isinstance(part, str) else part)]
        arrays["labels"] = np.array(flat, dtype=np.str_)
    np.savez_compressed(path, allow_pickle=False, **arrays)


def numbers(location: Location, fields: Sequence[str]) -> Values:
    """Numbers from text; what is missing (nothing, ``?``, ``NaN``) is NaN."""
    try:
        found = np.array(
            [field.strip() if field.strip() not in UNKNOWN else "nan" for field in fields], dtype=np.float64
        )
    except ValueError:
        index = next(index for index, field in enumerate(fields) if not is_number(field))
        raise DataError(
            location, f"found {fields[index].strip()[:40]!r} as value {index + 1}; a number is wanted"
        ) from None
    with np.errstate(over="ignore"):
        return found.astype(np.float32)


def is_number(field: str) -> bool:
    try:
        float(field.strip() if field.strip() not in UNKNOWN else "nan")
    except ValueError:
        return False
    return True


def filled(location: Location, values: Values, missing: Missing, *, step: int = 0) -> Values:
    """The values (T, D) without gaps, or an error; ``step`` is how many lines further each element stands."""
    if np.isfinite(values).all():
        return values
    row, column = np.argwhere(~np.isfinite(values))[0].tolist()
    at = location._replace(line=location.line + step * row)
    if np.isinf(values).any():
        row, column = np.argwhere(np.isinf(values))[0].tolist()
        at = location._replace(line=location.line + step * row)
        raise DataError(at, f"element {row + 1} of channel {column + 1} is infinite or too large; a number is wanted")
    if missing == "error":
        raise DataError(
            at, f'element {row + 1} of channel {column + 1} is missing; missing = "hold" repeats the last one'
        )
    steps = np.where(np.isnan(values), -1, np.arange(len(values))[:, None])
    before = np.maximum.accumulate(steps, axis=0)
    first = np.where(steps < 0, len(values), steps).min(axis=0)  # of each channel the first that is there
    held = np.take_along_axis(values, np.where(before < 0, np.minimum(first, len(values) - 1), before), axis=0)
    return np.nan_to_num(held, nan=0.0)


def known(label: str) -> str | None:
    return None if label in UNKNOWN else label


def _records(source: Source, separator: str) -> Iterator[tuple[Location, list[str]]]:
    for location, line in lines(source):
        fields = [field.strip().strip('"') for field in line.split(separator)]
        yield location, fields if any(fields) else []


def _is_header(fields: list[str], *apart: int | None) -> bool:
    columns = {column % len(fields) for column in apart if column is not None} if fields else set()
    return not any(is_number(field) for column, field in enumerate(fields) if column not in columns)


def _column(location: Location, column: int, fields: list[str]) -> int:
    if not -len(fields) <= column < len(fields):
        raise DataError(location, f"found {len(fields)} columns; there is no column {column}")
    return column % len(fields)


def _numeric(file: str, name: str, array: NDArray[Any], dimensions: int) -> NDArray[Any]:
    if array.ndim == dimensions - 1:
        array = array[..., np.newaxis]
    if array.ndim != dimensions or array.dtype.kind not in "fiub" or not array.shape[-1]:
        wanted = "(N, T, D)" if dimensions == 3 else "(total, D)"
        raise DataError(file, f"{name} is {_describe(array)}; numbers {wanted} are wanted")
    return array


def _names(file: str, labels: NDArray[Any]) -> list[str]:
    if labels.ndim != 1 or labels.dtype.kind not in "iuUSb":
        raise DataError(file, f"the labels are {_describe(labels)}; one string or integer each is wanted")
    try:
        return [name.decode() if isinstance(name, bytes) else str(name) for name in labels.tolist()]
    except UnicodeDecodeError as error:
        raise DataError(file, f"a label is not UTF-8: {error}") from None


def _describe(array: NDArray[Any]) -> str:
    return f"{array.dtype} {array.shape}"
