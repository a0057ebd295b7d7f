"""Data in memory: lists, series, arrays and tensors as the sources that readers take, and pairs with their targets."""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np

from seqloom.data.readers import tables
from seqloom.data.readers.text_files import DataError, Location, pluralize
from seqloom.formats import describe_type

IN_MEMORY = "(in memory)"
"""What a configuration says in place of the name of a file."""

EXPECTED = "a path, a data frame, a dict of columns, a list of texts, arrays or pairs, or an array"


def as_source(data: Any) -> Any:
    """A path or a table unchanged; anything else in memory as a list of Python values, or an array of numbers."""
    if isinstance(data, Path) or tables.is_table(data):
        return data
    if isinstance(data, str | bytes) or data is None:
        raise DataError("input", f"expected {EXPECTED}, found {_describe(data)}")
    if isinstance(data, list | tuple):
        return list(data)
    if isinstance(data, set | frozenset):
        raise DataError("input", f"expected {EXPECTED}, found a set, which has no order")
    if _is_time_series(data):
        return data.to_frame("1" if data.name is None else str(data.name))
    values = _array_or_list(data)
    if values is None:
        raise DataError("input", f"expected {EXPECTED}, found {_describe(data)}")
    return values


def _is_time_series(data: Any) -> bool:
    """Whether a value is a series of pandas with numbers and an index of times."""
    index = type(getattr(data, "index", None)).__name__
    numeric = getattr(getattr(data, "dtype", None), "kind", "") in ("f", "i", "u")
    return index in ("DatetimeIndex", "PeriodIndex") and numeric and hasattr(data, "to_frame")


def _array_or_list(data: Any) -> Any | None:
    """An array of numbers, or a list; None for a value that holds no others."""
    for name in ("to_list", "to_pylist"):  # a series of pandas or polars, a column of Arrow
        if hasattr(data, name):
            return list(getattr(data, name)())
    if hasattr(data, "detach") and hasattr(data, "cpu"):  # a tensor
        data = data.detach().cpu().numpy()
    if isinstance(data, np.ndarray):
        if data.ndim == 0:
            return None
        return data if data.dtype.kind in "fiu" else data.tolist()
    if isinstance(data, Iterator | Sequence) or (hasattr(data, "__len__") and hasattr(data, "__getitem__")):
        return list(data)
    return None


def with_targets(data: Any, targets: Any, *, noun: str) -> list[tuple[Any, Any]]:
    """Pairs of inputs and the targets that were given apart from them."""
    inputs, targets = as_source(data), as_source(targets)
    if isinstance(inputs, Path) or tables.is_table(inputs):
        raise DataError("input", f"{noun}: expected the name of a column of the data, found {_describe(targets)}")
    if len(inputs) != len(targets):
        raise DataError(
            "input", f"expected a {noun} for each of {pluralize(len(inputs), 'input')}, found {len(targets)}"
        )
    return list(zip(inputs, targets, strict=True))


def splits(data: Any) -> tuple[Any, Any]:
    """The training and the development data of a dict of tables, such as a DatasetDict; None: there are none."""
    if not isinstance(data, Mapping) or not data or not all(map(tables.is_table, data.values())):
        return data, None
    dev = next((data[name] for name in ("dev", "validation", "valid", "val") if name in data), None)
    if "train" not in data:
        return data, None
    return data["train"], dev


def digest(examples: Iterable[Any]) -> str:
    """A hash of examples that changes when their content does; what several of them share is hashed once."""
    total = hashlib.sha256()
    shared: dict[int, Any] = {}
    for example in examples:
        for field in fields(example):
            for part in _parts(getattr(example, field.name), shared):
                total.update(part)
    return total.hexdigest()


def _parts(value: Any, shared: dict[int, Any]) -> Iterator[bytes]:
    if isinstance(value, np.ndarray) or is_dataclass(value):
        if id(value) in shared:
            return
        shared[id(value)] = value  # kept, so that its id stays its own
    if isinstance(value, np.ndarray):
        yield f"{value.dtype} {value.shape} ".encode()
        yield np.ascontiguousarray(value).tobytes()
    elif is_dataclass(value):
        for field in fields(value):
            yield from _parts(getattr(value, field.name), shared)
    elif isinstance(value, list | tuple) and not isinstance(value, Location):
        for item in value:
            yield from _parts(item, shared)
    else:
        yield f"{value!r} ".encode(errors="backslashreplace")


def _describe(data: Any) -> str:
    if data is None:
        return "None"
    if isinstance(data, str):
        return f"the text {data[:40]!r}"
    return describe_type(data)
