"""Tables with several series below each other (panel data in long form), which need task.group_column."""

import json
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqloom.data.readers.text_files import DataError, Location

SHOWN = 8  # columns in a message
MIN_ROWS = 3  # of each series, on average
TIMES = {"hour", "minute", "second", "time", "day", "weekday", "month", "quarter", "week", "year"}
"""Names of columns that are a part of the time, and do not number series."""
AMOUNT = re.compile(r"[-+]?([^\w\s.,+-]|[A-Z]{3})\s?[-+]?\d[\d.,]*|[-+]?\d[\d.,]*\s?([^\w\s.,]|[A-Za-z]{1,3}|°[CF])")
"""A number with a unit before or after it: $52.34, EUR 3, 40 %, 12 kg."""
APART = "set task.group_column to its name"


def refuse_names(
    location: Location,
    name: str,
    values: Sequence[Any],  # of the column, or the first ones
    others: Sequence[str],  # the columns that can be read
) -> None:
    """DataError for a column of names among columns of numbers."""
    different = list(dict.fromkeys(map(str, values)))
    shown = ", ".join(map(repr, different[:3])) + (", …" if len(different) > 3 else "")
    amounts = [AMOUNT.fullmatch(value.strip()) for value in different]
    units = {amount[1] or amount[2] for amount in amounts if amount}
    if all(amounts) and len(units) == 1:
        raise DataError(
            location, f"column {name!r} holds numbers with a unit ({shown}); remove {units.pop()!r} from its values"
        )
    raise DataError(
        location,
        f"column {name!r} holds names ({shown}), not numbers; if they name several series below each other, {APART}; "
        f"otherwise leave the column out: {_only(others)}",
    )


def refuse_dates(
    location: Location,
    name: str,
    values: Sequence[Any],  # of the column, or the first ones
    others: Sequence[str],  # the columns that can be read
    *,
    key: str,  # of the configuration, which names the column; empty: none does
) -> None:
    """DataError for a column of dates that is to be read or forecast."""
    remedy = f"set {key} to columns of numbers" if key else _only(others)
    suitable = f" ({', '.join(others[:SHOWN])}{', …' if len(others) > SHOWN else ''})" if key and others else ""
    raise DataError(
        location,
        f"column {name!r} holds dates ({values[0]!r}, …), which are the time axis and are neither read as numbers nor "
        f"forecast: {remedy}{suitable}",
    )


def refuse_numbered_series(
    location: Location,
    stamps: NDArray[Any],  # (T,), times
    columns: Mapping[str, NDArray[np.float64]],  # (T,) each
    taken: Collection[str],  # columns that were chosen by name
) -> None:
    """DataError if time restarts or stands still, and goes on only within each value of a column, such as an id."""
    if len(stamps) < 2 or (stamps[1:] > stamps[:-1]).all():
        return
    for name, values in columns.items():
        if name in taken or name.strip().lower() in TIMES or not (values == np.round(values)).all():
            continue
        different = np.unique(values)
        if not 2 <= len(different) <= len(values) // MIN_ROWS:
            continue
        order = np.argsort(values, kind="stable")
        same = values[order][1:] == values[order][:-1]
        if (stamps[order][1:] > stamps[order][:-1])[same].all():
            shown = ", ".join(f"{value:g}" for value in different[:3]) + (", …" if len(different) > 3 else "")
            others = [other for other in columns if other != name]
            raise DataError(
                location,
                f"column {name!r} seems to number {len(different):,} series ({shown}): the time advances only within "
                f"each of them; {APART}, or read all rows as one series: {_only(others)}",
            )


def _only(columns: Sequence[str]) -> str:
    return f"task.columns = {json.dumps(list(columns), ensure_ascii=False)}" if columns else "set task.columns"
