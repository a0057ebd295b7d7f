"""Vectors with a label, or with numbers, for each of them: CSV, .npz and .ts files."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from seqloom.data.readers import tables
from seqloom.data.readers.columns import LabelColumn, label_columns
from seqloom.data.readers.decimal_marks import DecimalMark
from seqloom.data.readers.text_files import STANDARD_INPUT, DataError, lines, pluralize
from seqloom.data.readers.vectors import Missing, VectorSequence, frames, npz, ts


def read_frames(
    source: Path,
    *,
    labels: LabelColumn | None = None,
    features: int = 0,  # of the trained model: vectors with as many numbers have no labels
    names: Sequence[str] = (),  # of these features; empty: unknown
    numbers: bool = False,  # labels are numbers
    separator: str = ",",
    decimal: DecimalMark = "",
    missing: Missing = "error",  # values of the vectors; a missing target is always an error
) -> Iterator[VectorSequence]:
    """Labelled vectors: rows of a CSV file with empty lines between sequences, a .npz file, or a .ts file."""
    if tables.suffix(source) == ".npz":
        yield from npz(source, missing=missing)
        return
    columns = label_columns(labels) or (-1,)
    if tables.suffix(source) == ".ts":
        targets = [place for place in columns if isinstance(place, int)]
        for sequence in ts(source, missing=missing, targets=targets):
            yield _channels_as_target(sequence, columns, features)
        return
    first = next((line for _, line in lines(source)), "") if source != STANDARD_INPUT else ""
    header = [name.strip().strip('"') for name in first.split(separator)]
    absent = [name for name in columns if isinstance(name, str) and name not in header]
    if absent and not features:
        raise DataError(str(source), f"no column {absent[0]!r}; the first row is {first[:80]!r}")
    by_position = [name for name in columns if isinstance(name, int) and -len(header) <= name < len(header)]
    unlabelled = (features and len(header) == features) or any(header[place] in names for place in by_position)
    if absent or unlabelled:
        yield from frames(source, label=None, separator=separator, decimal=decimal, missing=missing)
        return
    places = [header.index(name) if isinstance(name, str) else name for name in columns]
    if labels is not None and len({place % len(header) for place in places}) == len(header):
        raise DataError(str(source), f"no column is left to predict from: task.label_column takes {first[:80]!r}")
    yield from frames(source, label=places, numbers=numbers, separator=separator, decimal=decimal, missing=missing)


def _channels_as_target(sequence: VectorSequence, columns: Sequence[int | str], features: int) -> VectorSequence:
    """A sequence of a .ts file: some of its channels, by default the last, are the numbers to predict at each step."""
    width = sequence.values.shape[1]
    values = replace(sequence, label=None, target=None)
    if features and width == features:
        return values
    places = [column % width for column in columns if isinstance(column, int) and -width <= column < width]
    if len(places) < len(columns):
        raise DataError(
            sequence.location, f"label_column: expected the indices of channels, 0 to {width - 1}, found {columns}"
        )
    if len(places) >= width:
        channels = pluralize(width, "channel")
        raise DataError(sequence.location, f"expected a channel besides the target, found {channels}")
    rest = [channel for channel in range(width) if channel not in places]
    return replace(values, values=sequence.values[:, rest], target=sequence.values[:, places].astype(np.float64))
