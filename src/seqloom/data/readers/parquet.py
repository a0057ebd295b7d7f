"""Records of Parquet files (needs pyarrow), read in batches and never expanded beyond a limit."""

import io
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from seqloom.data.readers import text_files
from seqloom.data.readers.expansion import ExpansionError, check_expansion
from seqloom.data.readers.text_files import DataError, Location

BATCH = 1024  # rows
BYTES = {"BOOLEAN": 1, "INT32": 4, "FLOAT": 4, "INT64": 8, "DOUBLE": 8, "INT96": 12}
"""Size of a value of each physical type; of those that are not listed, at least its length is stored."""
LENGTH = 4
TEXTS = ("STRING", "NONE", "ENUM", "JSON")
"""Logical types of byte arrays that can be read as a dictionary."""


def read_records(path: Path, parquet: Any) -> tuple[list[str], Iterator[tuple[Location, list[Any]]]]:
    """The names of the columns, and the records."""
    errors = (import_module("pyarrow").ArrowException, OSError, ValueError)
    file = str(path)
    try:
        with text_files.open_binary(path, file) as stream:
            source: Any = io.BytesIO(stream.read()) if text_files.enclosing_archive(path) else path
        size = len(source.getbuffer()) if isinstance(source, io.BytesIO) else path.stat().st_size
        plain = parquet.ParquetFile(source)
        check_expansion(size, _announced_bytes(plain.metadata))
        content = parquet.ParquetFile(source, read_dictionary=_text_columns(plain.metadata))
        names, types = [str(name) for name in plain.schema_arrow.names], plain.schema_arrow.types
    except ExpansionError as error:
        raise DataError(file, str(error)) from None
    except errors as error:
        raise DataError(file, f"not a Parquet file, or damaged ({_first_line(error)})") from None

    def records() -> Iterator[tuple[Location, list[Any]]]:
        number = total = 0
        try:
            for batch in content.iter_batches(batch_size=BATCH):
                total += sum(map(_expanded_bytes, batch.columns))
                check_expansion(size, total)
                for values in zip(*map(_to_list, batch.columns, types), strict=True):
                    number += 1
                    yield Location(file, number), list(values)
        except ExpansionError as error:
            raise DataError(file, str(error)) from None
        except errors as error:
            raise DataError(Location(file, number + 1), f"the Parquet file is damaged ({_first_line(error)})") from None

    return names, records()


def _announced_bytes(metadata: Any) -> int:
    """The size of all values according to the header, in which texts count as often as they are stored."""
    total = 0
    for group in range(metadata.num_row_groups):
        for index in range(metadata.num_columns):
            column = metadata.row_group(group).column(index)
            total += max(column.total_uncompressed_size, column.num_values * BYTES.get(column.physical_type, LENGTH))
    return total


def _text_columns(metadata: Any) -> list[str]:
    """Columns that stay dictionaries when they are read: a text that occurs often is in the memory once."""
    columns = map(metadata.schema.column, range(metadata.num_columns))
    return [
        column.path
        for column in columns
        if column.physical_type == "BYTE_ARRAY" and str(column.logical_type.type) in TEXTS
    ]


def _expanded_bytes(array: Any) -> int:
    """The size of the values, with every text as often as it occurs."""
    if hasattr(array, "dictionary"):  # of all rows so far, so that only its used entries are looked at
        texts, used = array.dictionary, array.indices.drop_null().to_numpy()
        width = np.int64 if str(texts.type).startswith("large_") else np.int32
        ends = np.frombuffer(texts.buffers()[1], width)[texts.offset :]
        return int((ends[used + 1] - ends[used]).sum(dtype=np.int64))
    if hasattr(array, "flatten"):  # lists and structures
        parts = array.flatten()
        return sum(map(_expanded_bytes, parts if isinstance(parts, list) else [parts]))
    return int(array.nbytes)


def _to_list(
    array: Any,
    plain: Any,  # its type without dictionaries
) -> list[Any]:
    values: list[Any] = (array if array.type == plain else array.cast(plain)).to_pylist()
    return values


def _first_line(error: BaseException) -> str:
    return str(error).partition("\n")[0][:200]
