"""Sequences of vectors (sensor data, pen strokes, features): .ts, CSV and .npz files."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, groupby
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from seqloom.data.feature_statistics import compact
from seqloom.data.readers import column_names
from seqloom.data.readers.decimal_marks import DecimalMark, to_point, writes_number
from seqloom.data.readers.missing_values import MissingColumn, MissingValueError, missing_columns
from seqloom.data.readers.npz import array_names, array_shapes, no_arrays, read_arrays, write_arrays
from seqloom.data.readers.numeric_targets import Numbers, Target, as_numbers, finite, to_number
from seqloom.data.readers.table_values import MINUS, with_hyphen_minus
from seqloom.data.readers.text_files import DataError, Location, Source, lines, no_such_column

Values = NDArray[np.floating[Any]]
Missing = Literal["error", "hold"]
"""A missing value is an error, or repeats the last value of its channel (at the start the next one)."""
Filling = Literal[Missing, "keep"]
"""The same, or a missing value stays NaN."""
HOLD_ADVICE = 'task.missing = "hold" repeats the previous one'
UNKNOWN = ("", "?")  # an unknown label or a missing value


@dataclass(frozen=True, slots=True)
class VectorSequence:
    """A sequence of vectors with one label, or with one for each element; numbers take the place of labels."""

    location: Location
    values: Values  # (T, D); of a video (T, S, S, 3)
    label: str | None = None  # label of the whole sequence
    labels: tuple[str, ...] | None = None  # label of each element
    target: Numbers | None = None  # (K,), numbers of the whole sequence, or (T, K), of each element
    channel_names: tuple[str, ...] = ()  # of a header; empty: unknown
    identity: str = ""  # name of the sequence in its table; empty: it has none
    step_seconds: float = 0.0  # time from one element to the next; 0: unknown
    missing: tuple[MissingColumn, ...] = ()  # channels with missing values, which were filled

    def __len__(self) -> int:
        return len(self.values)


def ts(
    source: Source,
    *,
    missing: Filling = "error",
    targets: Sequence[int] = (),  # channels in which a gap is always an error
) -> Iterator[VectorSequence]:
    """A .ts file of the UEA and UCR archives: ``@`` headers, then a sequence per line, channels separated by ``:``."""
    header: dict[str, list[str]] = {}
    location, width, in_data = Location("input", 1), 0, False
    for location, text in lines(source):
        line = text.strip()
        if not line or line.startswith("#"):
            continue
        if in_data:
            sequence = _ts_sequence(location, line, header, missing, targets)
            if sequence.values.shape[1] != (width := width or sequence.values.shape[1]):
                raise DataError(location, f"expected {width} channels, found {sequence.values.shape[1]}")
            yield sequence
        elif line.startswith("@"):
            name, *words = line[1:].split()
            in_data = name.lower() == "data"
            header[name.lower()] = words
            _check_header(location, name, words)
            if name.lower() in ("dimensions", "dimension"):
                width = int(words[0])
        else:
            raise DataError(location, f"expected a header (@name value) before @data, found {line[:20]!r}")
    if not in_data:
        raise DataError(location.file, "no line @data, which precedes the sequences of a .ts file")


def _check_header(location: Location, name: str, words: list[str]) -> None:
    first = words[0].lower() if words else ""
    if name.lower() == "timestamps" and first == "true":
        raise DataError(location, "time stamps are not supported; expected values at equal steps (@timeStamps false)")
    if name.lower() in ("dimensions", "dimension") and not (first.isdecimal() and int(first)):
        raise DataError(location, f"@{name}: expected a positive integer, found {first[:20]!r}")


def _ts_sequence(
    location: Location, line: str, header: dict[str, list[str]], missing: Filling, targets: Sequence[int]
) -> VectorSequence:
    channels = line.split(":")
    classes = header.get("classlabel", [])
    label, target = None, None
    if _is_true(header, "targetlabel"):
        target = as_numbers(location, [channels.pop().strip()])
    elif _is_true(header, "classlabel"):
        label = known_label(channels.pop().strip())
        if label is not None and classes[1:] and label not in classes[1:]:
            raise DataError(location, f"the label {label[:40]!r} is not in @classLabel {' '.join(classes[1:])[:80]}")
    if any(channel.lstrip().startswith("(") for channel in channels):
        raise DataError(location, "time stamps are not supported; expected values at equal steps")
    columns = [parse_numbers(location, channel.split(",") if channel.strip() else []) for channel in channels]
    lengths = sorted({len(column) for column in columns})
    if len(lengths) != 1:
        raise DataError(
            location,
            f"expected channels of equal length, found {lengths[0]} and {lengths[-1]} values"
            if lengths
            else "no channels",
        )
    sequence = filled_sequence(location, np.stack(columns, axis=1), missing, required=targets)
    return replace(sequence, label=label, target=target)


def _is_true(header: dict[str, list[str]], name: str) -> bool:
    return header.get(name, [""])[:1] in (["true"], ["True"], ["TRUE"])


def csv(
    source: Source,
    *,
    channels: int = 1,  # values per element
    label: int | Sequence[int] | None = -1,  # label column, negative from the end; several: numbers; None: no labels
    skip: Sequence[int] = (),  # indices of columns that are not read
    header: bool | None = None,  # whether the first row is a header; None: if it has no numbers
    separator: str = ",",
    missing: Missing = "error",
    decimal: DecimalMark = "",  # of the values
) -> Iterator[VectorSequence]:
    """One sequence per row: its values, element after element, and its label; empty or ``?`` is an unknown label.

    Rows may differ in length. With two or more channels, a row whose number of fields is a multiple of the channels
    has no label.
    """
    labels = _without_skipped(label, skip)
    for position, (location, cells) in enumerate(_records(source, separator)):
        fields = [field for column, field in enumerate(cells) if column not in skip] if skip else cells
        if not fields or (position == 0 and (_is_header(fields, *labels) if header is None else header)):
            continue
        target = None
        if labels and (channels == 1 or len(fields) % channels or len(labels) % channels == 0):
            target, fields = _take_target(location, labels, fields, decimal)
        values = parse_numbers(location, fields, decimal=decimal)
        if not len(values) or len(values) % channels:
            raise DataError(
                location,
                f"expected a positive multiple of {channels} values (channels = {channels}), found {len(values)}",
            )
        yield labelled(filled_sequence(location, values.reshape(-1, channels), missing), target)


def _without_skipped(label: int | Sequence[int] | None, skip: Sequence[int]) -> list[int]:
    """The label columns, counted without the columns that are not read."""
    columns = [] if label is None else [label] if isinstance(label, int) else list(label)
    return [column - sum(other < column for other in skip) if column >= 0 else column for column in columns]


def _take_target(
    location: Location, columns: Sequence[int], fields: Sequence[str], decimal: DecimalMark
) -> tuple[Target | None, list[str]]:
    """The label of a row, or its numbers if there are several columns of them, and the other fields."""
    places = [_column(location, column, fields) for column in columns]
    rest = [field for place, field in enumerate(fields) if place not in places]
    if len(places) == 1:
        return known_label(fields[places[0]]), rest
    numbers = as_numbers(location, [fields[place] for place in places], decimal=decimal) if places else None
    return numbers, rest


def labelled(sequence: VectorSequence, target: Target | None) -> VectorSequence:
    """A sequence with a label, or with numbers."""
    if target is None or isinstance(target, str):
        return replace(sequence, label=target)
    return replace(sequence, target=target)


def frames(
    source: Source,
    *,
    label: int | Sequence[int] | None = -1,  # column of each element's label; several: numbers; None: no labels
    identity: int | None = None,  # column of the sequence's id; None: sequences are separated by empty lines
    separator: str = ",",
    missing: Missing = "error",
    numbers: bool = False,  # labels are numbers
    decimal: DecimalMark = "",
) -> Iterator[VectorSequence]:
    """One element per row, its values and its label; a first row without numbers is a header."""
    labels = _without_skipped(label, ())
    rows = _records(source, separator)
    header = next(rows, None)
    if header is not None and not (header[1] and _is_header(header[1], *labels, identity)):
        rows, header = chain([header], rows), None
    names = _channel_names(header[1], labels, identity) if header is not None else ()
    width = 0
    number = 0

    def sequence_of(row: tuple[Location, list[str]]) -> Any:
        nonlocal number
        if not row[1]:
            number += 1
            return None
        return number if identity is None else row[1][_column(row[0], identity, row[1])]

    empty = True
    for key, group in groupby(rows, sequence_of):
        if key is None:
            continue
        empty = False
        elements = [
            _element(location, fields, labels, identity, numbers=numbers, decimal=decimal) for location, fields in group
        ]
        for location, values, name in elements:
            if len(values) != (width := width or len(values)):
                raise DataError(location, f"expected {width} values as in the rows above, found {len(values)}")
            if (name is None) != (elements[0][2] is None):
                raise DataError(location, "the label is missing, but other elements of this sequence have one")
        location, places = elements[0][0], [place.line for place, _, _ in elements]
        stacked = np.stack([values for _, values, _ in elements])
        sequence = filled_sequence(location, stacked, missing, lines=places)
        sequence = replace(sequence, channel_names=names if len(names) == width else ())
        yield with_targets(sequence, [target for _, _, target in elements])
    if empty and header is not None:
        shown = ",".join(header[1])[:40]
        raise DataError(header[0], f"expected rows of numbers, found only {shown!r}")


def _channel_names(header: Sequence[str], labels: Sequence[int], identity: int | None) -> tuple[str, ...]:
    """The names of the columns that are neither labels nor ids; none if they do not identify the channels."""
    special = {column % len(header) for column in (*labels, identity) if column is not None}
    names = tuple(name for column, name in enumerate(header) if column not in special)
    return names if all(names) and len(set(names)) == len(names) else ()


def with_targets(sequence: VectorSequence, targets: Sequence[Target | None]) -> VectorSequence:
    """A sequence with a label, or with numbers, for each element; if one is missing, all are."""
    if any(target is None for target in targets):
        return sequence
    if all(isinstance(target, str) for target in targets):
        return replace(sequence, labels=tuple(target for target in targets if isinstance(target, str)) or None)
    return replace(sequence, target=np.stack([np.asarray(target, np.float64) for target in targets]))


def _element(
    location: Location,
    fields: list[str],
    labels: Sequence[int],
    identity: int | None,
    *,
    numbers: bool,
    decimal: DecimalMark,
) -> tuple[Location, Values, Target | None]:
    if identity is not None:
        place = _column(location, identity, fields)
        labels = [_column(location, label, fields) for label in labels]
        labels = [label - (label > place) for label in labels if label != place]
        fields = [field for column, field in enumerate(fields) if column != place]
    target, rest = _take_target(location, labels, fields, decimal)
    values = parse_numbers(location, rest, decimal=decimal)
    if not len(values):
        raise DataError(location, "no values")
    if numbers and target is not None:
        target = to_number(location, target, decimal=decimal)
    return location, values, target


NPZ_ARRAYS = ("values", "lengths", "labels", "x", "y")


def npz(source: Path, *, missing: Filling = "error") -> Iterator[VectorSequence]:
    """A NumPy .npz file in one of two layouts.

    ``values`` (total, D) and ``lengths`` (N,): concatenated sequences; ``labels`` is (N,), one per sequence, or
    (total,), one per element. Or ``x`` (N, T, D), sequences of equal length, with ``y`` (N,) or (N, T). Labels are
    optional: strings, integers, or real numbers, of which there may be several, (…, K). Without a last dimension, D is
    1. Arrays of objects are rejected. The line of a location is the number of the sequence.
    """
    file = str(source)
    arrays = read_arrays(source, NPZ_ARRAYS)
    if "x" in arrays:
        x = _numeric(file, "x", arrays["x"], 3)
        values, lengths = x.reshape(-1, x.shape[2]), np.full(len(x), x.shape[1])
        labels = _flat_labels(arrays["y"], x.shape[1]) if "y" in arrays else None
    elif {"values", "lengths"} <= arrays.keys():
        values, lengths = _numeric(file, "values", arrays["values"], 2), arrays["lengths"]
        if lengths.ndim != 1 or lengths.dtype.kind not in "iu" or (lengths < 0).any():
            raise DataError(file, f"lengths: expected non-negative integers (N,), found {_describe(lengths)}")
        labels = arrays.get("labels")
    else:
        raise no_arrays(source, "values and lengths, or x", NPZ_ARRAYS)
    if int(lengths.sum()) != len(values):
        raise DataError(file, f"lengths add up to {int(lengths.sum())}, but values has {len(values)} rows")
    numeric = labels is not None and (labels.dtype.kind == "f" or (labels.dtype.kind in "iu" and labels.ndim == 2))
    if labels is not None and labels.ndim > 2:
        raise DataError(file, f"labels: expected (N,), (N, K) or one row per element, found {_describe(labels)}")
    names = None if labels is None else labels if numeric else _names(file, labels)
    if names is not None and len(names) not in (len(lengths), len(values)):
        raise DataError(
            file, f"expected {len(lengths)} labels (sequences) or {len(values)} (elements), found {len(names)}"
        )
    start = 0
    for number, length in enumerate(lengths.tolist()):
        span, location = slice(start, start + length), Location(file, number + 1)
        sequence = filled_sequence(location, values[span].astype(np.float64), missing)
        if names is not None and numeric:
            part = names[number : number + 1] if len(names) == len(lengths) else names[span]
            target = finite(location, np.reshape(part, (len(part), -1)))
            sequence = replace(sequence, target=target[0] if len(names) == len(lengths) else target)
        elif names is not None and len(names) == len(lengths):
            sequence = replace(sequence, label=known_label(names[number]))
        elif names is not None:
            sequence = replace(sequence, labels=tuple(names[span]))
        yield sequence
        start += length


def describe_npz(source: Path) -> str:
    """The arrays that ``npz`` reads, with their shapes, and those that it does not; empty: it cannot read the file.

    ``sequences from x (60, 12, 3), labels from y (60,); not read: z``.
    """
    shapes = array_shapes(source, NPZ_ARRAYS)
    inputs, target = (("x",), "y") if "x" in shapes else (("values", "lengths"), "labels")
    if not shapes.keys() >= set(inputs):
        return ""
    used = [*inputs, *([target] if target in shapes else [])]
    parts = [f"sequences from {' and '.join(f'{name} {shapes[name]}' for name in inputs)}"]
    if target in shapes:
        parts.append(f"labels from {target} {shapes[target]}")
    unread = sorted(array_names(source).difference(used))
    return ", ".join(parts) + (f"; not read: {', '.join(unread)}" if unread else "")


def write_npz(
    path: Path,
    sequences: Sequence[ArrayLike],  # each (T, D) or (T,)
    labels: Sequence[str] | Sequence[Sequence[str]] | None = None,  # one per sequence, or one per element of each
) -> None:
    """Write a file for ``npz`` to read."""
    given = [np.asarray(sequence, dtype=np.float64) for sequence in sequences]
    values = [compact(value.reshape(-1, 1) if value.ndim == 1 else value) for value in given]
    arrays: dict[str, NDArray[Any]] = {
        "values": np.concatenate(values) if values else np.zeros((0, 1), np.float32),
        "lengths": np.array([len(value) for value in values], dtype=np.int64),
    }
    if labels is not None:
        if len(labels) != len(values):
            raise ValueError(f"expected labels for {len(values)} sequences, found {len(labels)}")
        flat = [name for part in labels for name in ([part] if isinstance(part, str) else part)]
        arrays["labels"] = np.array(flat, dtype=np.str_)
    write_arrays(path, arrays)


def parse_numbers(location: Location, fields: Sequence[str], *, decimal: DecimalMark = "") -> Values:
    """Numbers from text; a missing value (empty, ``?``, ``NaN``) is NaN."""
    if decimal or any(MINUS in field for field in fields):
        fields = [to_point(field, decimal) for field in fields]
    try:
        values = np.array(
            [field.strip() if field.strip() not in UNKNOWN else "nan" for field in fields], dtype=np.float64
        )
    except ValueError:
        index = next(index for index, field in enumerate(fields) if not is_number(field))
        raise DataError(
            location, f"value {index + 1}: expected a number, found {fields[index].strip()[:40]!r}"
        ) from None
    return values


def is_number(field: str) -> bool:
    try:
        float(with_hyphen_minus(field.strip()) if field.strip() not in UNKNOWN else "nan")
    except ValueError:
        return False
    return True


def fill_missing(
    location: Location,
    values: Values,  # (T, D)
    missing: Filling,
    *,
    lines: Sequence[int] = (),  # line of each element; empty: all are on that of the location
    names: Sequence[str] = (),  # of the channels; empty: unknown
    required: Sequence[int] = (),  # channels that are targets, in which a gap is always an error
) -> Values:
    """The values without gaps unless they are kept, or an error."""
    values = compact(values)
    if np.isfinite(values).all() or (missing == "keep" and not np.isinf(values).any()):
        return values
    if missing == "error" or np.isinf(values).any():
        advice = f"; {HOLD_ADVICE}"
        error = not_finite(location, values, advice=advice, lines=lines, names=names)
        raise error if np.isinf(values).any() else MissingValueError(error.location, error.message, {"missing": "hold"})
    targets = np.isin(np.arange(values.shape[1]), np.array(required, dtype=int) % values.shape[1])
    if np.isnan(values[:, targets]).any():
        raise not_finite(
            location, np.where(targets, values, 0), advice=", and it is a target", lines=lines, names=names
        )
    steps = np.where(np.isnan(values), -1, np.arange(len(values))[:, None])
    last = np.maximum.accumulate(steps, axis=0)  # (T, D), step of the last known value of each channel
    first = np.where(steps < 0, len(values), steps).min(axis=0)  # (D,), step of the first known value
    held = np.take_along_axis(values, np.where(last < 0, np.minimum(first, len(values) - 1), last), axis=0)
    return np.nan_to_num(held, nan=0.0)


def filled_sequence(
    location: Location,
    values: Values,  # (T, D)
    missing: Filling,
    *,
    lines: Sequence[int] = (),
    names: Sequence[str] = (),
    required: Sequence[int] = (),
) -> VectorSequence:
    """A sequence without gaps, which says what was filled; or an error. The arguments are those of fill_missing."""
    sequence = VectorSequence(
        location, fill_missing(location, values, missing, lines=lines, names=names, required=required)
    )
    mask = np.isnan(values)
    if not mask.any() or missing == "keep":
        return sequence
    channels = names or [f"channel {number + 1}" for number in range(values.shape[1])]
    gaps = missing_columns(mask, channels, lambda row: location._replace(line=lines[row]) if lines else location)
    return replace(sequence, missing=gaps)


def listed_sequence(location: Location, content: Any, missing: Missing, *, name: str) -> VectorSequence:
    """The sequence of a list of vectors in a column. Numbers in their place are one-dimensional vectors.

    In a column called ``vector``, numbers are a single vector.
    """
    expected = f"{name!r}: expected a list of numbers, or of vectors of equal length"
    try:
        values = np.asarray(list(content), dtype=np.float64)
    except (TypeError, ValueError):
        raise DataError(location, f"{expected}, found {content!r:.60}") from None
    if values.ndim not in (1, 2) or not values.size:
        raise DataError(location, f"{expected}, found {f'shape {values.shape}' if values.size else 'no number'}")
    if values.ndim == 1:
        values = values[np.newaxis if column_names.normalize(name) == column_names.VECTOR else (..., np.newaxis)]
    return filled_sequence(location, values, missing)


def not_finite(
    location: Location, values: Values, *, advice: str = "", lines: Sequence[int] = (), names: Sequence[str] = ()
) -> DataError:
    """The error of an infinite value, or of a missing one, with advice about it."""
    infinite = np.isinf(values)
    wrong = infinite if infinite.any() else np.isnan(values)
    row, column = np.argwhere(wrong)[0].tolist()
    channel = f"column {names[column]!r}" if names else f"channel {column + 1}"
    what = "infinite or too large" if infinite.any() else f"missing{advice}"
    at = location._replace(line=lines[row]) if lines else location
    return DataError(at, f"element {row + 1} of {channel} is {what}")


def known_label(label: str) -> str | None:
    return None if label in UNKNOWN else label


def _records(source: Source, separator: str) -> Iterator[tuple[Location, list[str]]]:
    for location, line in lines(source):
        fields = [field.strip().strip('"') for field in line.split(separator)]
        yield location, fields if any(fields) else []


def _is_header(fields: list[str], *special: int | None) -> bool:
    columns = {column % len(fields) for column in special if column is not None} if fields else set()
    return not any(
        is_number(field) or writes_number(field) for column, field in enumerate(fields) if column not in columns
    )


def _column(location: Location, column: int, fields: Sequence[str]) -> int:
    if not -len(fields) <= column < len(fields):
        raise no_such_column(location, column, len(fields), key="label_column")
    return column % len(fields)


def _numeric(file: str, name: str, array: NDArray[Any], dimensions: int) -> NDArray[Any]:
    if array.ndim == dimensions - 1:
        array = array[..., np.newaxis]
    if array.ndim != dimensions or array.dtype.kind not in "fiub" or not array.shape[-1]:
        expected = "(N, T, D)" if dimensions == 3 else "(total, D)"
        raise DataError(file, f"{name}: expected numbers {expected}, found {_describe(array)}")
    return array


def _flat_labels(labels: NDArray[Any], length: int) -> NDArray[Any]:  # (N,), (N, K), (N, T) or (N, T, K)
    """One row per sequence or per element."""
    per_element = labels.ndim > 1 and labels.shape[1] == length
    return labels.reshape(-1, *labels.shape[2:]) if per_element else labels


def _names(file: str, labels: NDArray[Any]) -> list[str]:
    if labels.ndim != 1 or labels.dtype.kind not in "iuUSb":
        raise DataError(file, f"labels: expected strings or numbers, found {_describe(labels)}")
    try:
        return [name.decode() if isinstance(name, bytes) else str(name) for name in labels.tolist()]
    except UnicodeDecodeError as error:
        raise DataError(file, f"a label is not UTF-8: {error}") from None


def _describe(array: NDArray[Any]) -> str:
    return f"{array.dtype} {array.shape}"
