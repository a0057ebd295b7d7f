"""The time axis of a table: columns of dates, Unix times, years or row numbers, and the time stamps that follow."""

from calendar import monthrange
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from seqloom.data.readers import column_names
from seqloom.data.readers.date_formats import DateOrder, Dates, ParsedDates, first_unreadable, parse_dates, with_format
from seqloom.data.readers.table_values import as_number, is_missing

Stamps = NDArray[Any]  # dates or numbers
TimeZone = Literal["", "local", "utc"]
"""How times with an offset from UTC are read: local times as written, or in UTC; empty: as the data show."""

DAY = 86_400_000_000  # microseconds
UNIX_UNITS = ((1e8, 4.2e9, 1e6), (1e11, 4.2e12, 1e3), (1e14, 4.2e15, 1.0), (1e17, 4.2e18, 1e-3))
"""Smallest and largest value of seconds, milli-, micro- and nanoseconds, and the microseconds of one of them."""
USUAL_NAMES = {
    *column_names.TIME,
    *("year", "yr", "years", "month", "week", "day", "hour", "quarter", "period", "ds", "epoch", "unix", "obs"),
    *("row", "no", "nr", "number", "id", "unnamed:_0", "", "datum", "zeit", "decimal_year", "decimal_date", "ts"),
}
"""Names of columns that hold a time or number the rows."""
PARTS = {
    "year": ("year", "yr", "yyyy"),
    "quarter": ("quarter", "qtr", "q"),
    "month": ("month", "mon", "mo", "mm"),
    "day": ("day", "dd", "dom", "mday"),
    "hour": ("hour", "hr", "hh"),
    "minute": ("minute", "min"),
    "second": ("second", "sec"),
}
"""Names of columns that hold a part of a date."""
MOSTLY = 0.95  # share of the steps that go forwards in a column with the name of a time
UNORDERED = 0.1  # share of the steps that go backwards, above which rows are not in the order of time
SHOWN_OFFSETS = 4  # offsets from UTC in a message
GAPS = 0.98  # share of equal steps in row numbers with a few gaps


class Step(NamedTuple):
    """The distance between two time stamps."""

    amount: float  # months, microseconds, or units of a numeric axis
    unit: str  # "months", "weekdays", "time" or "numbers"

    @property
    def season(self) -> int:
        """The usual season in steps: 12 months, 4 quarters, 24 hours, 7 days or 5 weekdays; 0: none."""
        if self.unit == "weekdays":
            return 5
        if self.unit == "numbers":  # decimal years
            return next((count for count in (12, 4) if abs(self.amount * count - 1) < 1e-6), 0)
        return {("months", 1): 12, ("months", 3): 4, ("time", DAY): 7, ("time", DAY / 24): 24}.get(
            (self.unit, self.amount), 0
        )

    def __str__(self) -> str:
        if self.unit == "weekdays":
            return "Monday to Friday"
        if self.unit == "months":
            return next(
                _count(self.amount / size, noun)
                for size, noun in ((12, "year"), (3, "quarter"), (1, "month"))
                if self.amount % size == 0
            )
        if self.unit == "numbers":
            return f"step {self.amount:.6g}"
        sizes = ((7 * DAY, "week"), (DAY, "day"), (DAY / 24, "hour"), (DAY / 1440, "minute"), (1e6, "second"))
        size, noun = next(((size, noun) for size, noun in sizes if self.amount % size == 0), (1e6, "second"))
        return _count(self.amount / size, noun)


def _count(number: float, noun: str) -> str:
    return f"every {noun}" if number == 1 else f"every {number:g} {noun}s"


@dataclass(frozen=True, eq=False)
class TimeAxis:
    """The time stamp of each row."""

    columns: tuple[int, ...]
    names: tuple[str, ...]  # of the columns
    stamps: Stamps | None  # None: names of rows, which are neither dates nor numbers
    step: Step | None  # None: not known
    decimals: int = 0  # of a numeric axis
    order: DateOrder = ""  # of day and month, where the format leaves it open
    is_ambiguous: bool = False  # the dates do not show which of two numbers is the day
    is_index: bool = False  # of a data frame, instead of a column
    unreadable: str = ""  # the first value that is no date, of names of rows that look like dates
    offsets: tuple[str, ...] = ()  # the different offsets from UTC of the rows, such as +02:00; empty for rows without
    is_utc: bool = False  # the times were converted to UTC, instead of being local times as written

    @property
    def has_dates(self) -> bool:
        return self.stamps is not None and self.stamps.dtype.kind == "M"

    def following(self, row: int, count: int, *, within: int = 1) -> Stamps | None:
        """The time stamps after the latest of some rows, of which ``row`` is the last; None if the step is not known.

        Rows that are out of order are followed by times that none of them has.
        """
        if self.stamps is None or self.step is None or not self.step.amount:
            return None
        last, steps = self.stamps[max(row + 1 - within, 0) : row + 1].max(), np.arange(1, count + 1)
        if self.step.unit == "numbers":
            return np.asarray(last + self.step.amount * steps, np.float64)
        if self.step.unit == "months":
            month_ends = _are_month_ends(self.stamps[max(row - 12, 0) : row + 1])
            return _months_after(last, (steps * int(self.step.amount)).tolist(), month_ends=month_ends)
        if self.step.unit == "weekdays":
            days = np.busday_offset(last.astype("M8[D]"), steps, roll="backward")
            return np.asarray(days.astype("M8[us]") + (last - last.astype("M8[D]")))
        return np.asarray(last + (self.step.amount * steps).astype("m8[us]"))

    def write(self, stamps: Stamps) -> list[str]:
        """Time stamps as text: ISO 8601 as far as needed, or numbers as in the file."""
        if stamps.dtype.kind != "M":
            return [f"{stamp:.{self.decimals}f}" for stamp in stamps]
        assert self.stamps is not None  # noqa: S101  there are dates
        both = np.concatenate([self.stamps, stamps])
        if self.step is not None and self.step.unit == "months" and (_days(both) == 1).all():
            unit = "M"
        elif (both == both.astype("M8[D]")).all():
            unit = "D"
        else:
            unit = next((unit for unit in ("m", "s") if (both == both.astype(f"M8[{unit}]")).all()), "us")
        texts = np.datetime_as_string(stamps.astype(f"M8[{unit}]"), unit=unit)  # type: ignore[call-overload]
        offset = "" if unit in ("M", "D") else self._offset
        return [text.replace("T", " ") + offset for text in texts]

    @property
    def _offset(self) -> str:
        """The offset from UTC of all time stamps; empty if there is none."""
        if self.is_utc:
            return "+00:00"
        return self.offsets[0] if len(self.offsets) == 1 else ""

    @property
    def zone_note(self) -> str:
        """How times were changed because of their offsets from UTC; empty if they were not."""
        written = ", ".join(offset or "none" for offset in self.offsets[:SHOWN_OFFSETS])
        written += ", …" if len(self.offsets) > SHOWN_OFFSETS else ""
        if self.is_utc and len(self.offsets) > 1:
            return f"times are read as UTC, since their offsets differ ({written})"
        if self.is_utc and self.offsets != ("+00:00",):
            return f"times with the offset {written} are converted to UTC"
        if len(self.offsets) > 1:
            return f"times are read as local times without their offsets, which differ ({written})"
        return ""

    def zone_difference(self, trained: Sequence[str]) -> str:
        """What the offsets of times change, or how they differ from those of training data; empty: nothing."""
        if self.zone_note or not self.has_dates or self.is_utc or (len(self.offsets) == 1 and len(trained) > 1):
            return self.zone_note
        if self.offsets == tuple(trained):
            return ""
        here, there = (f"the offset {', '.join(each)}" if each else "no offset" for each in (self.offsets, trained))
        return f"times have {here} and are read as written; those of the training data have {there}"

    def step_difference(self, trained: Iterable[Step]) -> str:
        """How the time step differs from those of training data; empty: it is one of them, or cannot be compared."""
        if self.stamps is None or self.step is None or not self.step.amount:
            return ""
        comparable = [step for step in trained if step.amount and (step.unit != "numbers") == self.has_dates]
        # A single working week has the step of a day, and that of working days as well.
        regular = _regular(self.stamps, self.step, self.decimals).mean()
        if not comparable or any(_regular(self.stamps, step, self.decimals).mean() >= regular for step in comparable):
            return ""
        return (
            f"the time step is {self.step}, but the model was trained with {' and '.join(map(str, comparable))}; "
            "forecasts count rows, not time, so that these are probably wrong: give data with the time step of training"
        )

    def describe(self) -> str:
        """``time axis from column 1 'year' (1700 to 1920, step 1), which is neither read nor forecast``."""
        about = ""
        if self.stamps is not None and len(self.stamps):
            first, last = self.write(self.stamps[[0, -1]])
            about = f" ({first} to {last}{'' if self.step is None else f', {self.step}'})"
        order = f"; dates are read as {self.order.replace('_', ' ')}" if self.order else ""
        local = f"times have the offset {self.offsets[0]} and are read as written" if self._offset else ""
        zone = f"; {note}" if (note := self.zone_note or local) else ""
        return f"time axis from {self._source()}{about}, which is neither read nor forecast{order}{zone}"

    def _source(self) -> str:
        """The columns, with their numbers and names."""
        if self.is_index:
            return f"the index {self.names[0]!r}"
        return " and ".join(
            f"column {index + 1}" + (f" {name!r}" if name != str(index + 1) else "")
            for index, name in zip(self.columns, self.names, strict=True)
        )

    def continues(self, other: "TimeAxis") -> bool:
        """Whether the first time stamp is the one that follows the last of another axis."""
        if self.stamps is None or not len(self.stamps) or other.stamps is None or not len(other.stamps):
            return False
        following = other.following(len(other.stamps) - 1, 1)
        if following is None or following.dtype.kind != self.stamps.dtype.kind:
            return False
        if following.dtype.kind == "M":
            return bool(following[0] == self.stamps[0])
        assert other.step is not None  # noqa: S101  otherwise nothing follows
        return bool(abs(following[0] - self.stamps[0]) < 0.15 * other.step.amount)

    def irregularities(self) -> "Irregularities":
        """Steps of the axis that are unlike the others."""
        if self.stamps is None or self.step is None or len(self.stamps) < 3:
            return Irregularities(0, [], [], [], 0)
        repeated = np.flatnonzero(self.stamps[1:] == self.stamps[:-1]) + 1
        backwards = np.flatnonzero(self.stamps[1:] < self.stamps[:-1]) + 1
        expected = _regular(self.stamps, self.step, self.decimals)
        gaps = np.flatnonzero(~expected & (self.stamps[1:] > self.stamps[:-1])) + 1
        longest = max((_steps_between(self.stamps[row - 1], self.stamps[row], self.step) for row in gaps), default=1)
        missing = max(round(longest) - 1, 0)
        return Irregularities(len(self.stamps) - 1, repeated.tolist(), backwards.tolist(), gaps.tolist(), missing)


class Irregularities(NamedTuple):
    """Rows whose time stamp does not follow that of the row before as usual."""

    steps: int
    repeated: list[int]
    backwards: list[int]
    gaps: list[int]
    missing: int  # rows in the longest gap

    @property
    def is_descending(self) -> bool:
        return 2 * len(self.backwards) > self.steps

    @property
    def is_unordered(self) -> bool:
        return len(self.backwards) > UNORDERED * self.steps

    def describe(self, line: Callable[[int], object]) -> str:
        """One sentence, with the place of the first row of each kind; empty if all steps are equal."""
        kinds = (("repeated", self.repeated), ("out of order", self.backwards), ("after a gap", self.gaps))
        longest = f"; {self.missing:,} missing in the longest" if self.missing else ""
        parts = [
            f"{len(rows):,} {name} (first {line(rows[0])}{longest if rows is self.gaps else ''})"
            for name, rows in kinds
            if rows
        ]
        if not parts:
            return ""
        return f"irregular time stamps: {', '.join(parts)}; forecasts count rows, not time"


def find_time_axis(
    names: Sequence[str],
    columns: Sequence[Sequence[Any]],  # the values of each column, in the order of the rows
    *,
    chosen: Sequence[str] = (),  # names of the columns that are the axis; empty: search
    taken: Iterable[str] = (),  # names of columns that are read, so that they cannot be the axis
    order: DateOrder = "",  # of day and month, where the format leaves it open; empty: as the dates show
    zone: TimeZone = "",  # of times with an offset from UTC
) -> tuple[TimeAxis | None, list[int]]:
    """The time axis, and further columns that only number the rows or hold dates."""
    if chosen:
        indices = tuple(names.index(name) for name in chosen)
        chosen_axis = _axis(indices, names, columns, certain=True, order=order, zone=zone)
        return chosen_axis or _names_axis(indices, names, columns), []
    used_names = set(taken)
    free = [index for index, name in enumerate(names) if name not in used_names]
    joined = _date_parts(names, free)
    axis = _axis(joined, names, columns, certain=True, order=order, zone=zone) if len(joined) > 1 else None
    used = set(axis.columns) if axis else set()
    candidates = [
        candidate
        for index in free
        if index not in used
        and (candidate := _axis((index,), names, columns, certain=False, order=order, zone=zone)) is not None
    ]
    if axis is None and candidates:
        axis = min(candidates, key=lambda candidate: not candidate.has_dates)
    others = [candidate.columns[0] for candidate in candidates if candidate is not axis]
    if axis is None and 0 in free and _name_rows(columns[0]):
        axis = _names_axis((0,), names, columns)
    return axis, others


def _names_axis(indices: tuple[int, ...], names: Sequence[str], columns: Sequence[Sequence[Any]]) -> TimeAxis:
    unreadable = first_unreadable(columns[indices[0]]) if len(indices) == 1 else None
    shown = "" if unreadable is None else str(unreadable)
    return TimeAxis(indices, tuple(names[index] for index in indices), None, None, unreadable=shown)


def _name_rows(values: Sequence[Any]) -> bool:
    """Whether a column names each row: texts, all of them different."""
    texts = [str(value) for value in values if as_number(value) is None]
    return bool(texts) and len(texts) == len(values) == len(set(texts))


def _date_parts(names: Sequence[str], free: Sequence[int]) -> tuple[int, ...]:
    """The columns that are a date together: year and quarter or month …, or date and time."""
    normal = {column_names.normalize(names[index]): index for index in reversed(free)}
    parts = {part: next((normal[name] for name in known if name in normal), None) for part, known in PARTS.items()}
    if parts["year"] is not None and (parts["month"] is not None or parts["quarter"] is not None):
        if parts["month"] is not None:
            parts["quarter"] = None
        return tuple(index for index in parts.values() if index is not None)
    if "date" in normal and "time" in normal:
        return normal["date"], normal["time"]
    return ()


def _axis(
    indices: tuple[int, ...],
    names: Sequence[str],
    columns: Sequence[Sequence[Any]],
    *,
    certain: bool,
    order: DateOrder,
    zone: TimeZone,
) -> TimeAxis | None:
    chosen_names = tuple(names[index] for index in indices)
    if len(indices) > 1:
        parsed = _joined_dates(chosen_names, [columns[index] for index in indices])
    else:
        values = columns[indices[0]]
        if not values or any(map(is_missing, values)):
            return None
        if all(as_number(value) is not None for value in values):
            stamps, decimals = _parse_numbers(values, chosen_names[0], certain=certain)
            if stamps is None:
                return None
            return TimeAxis(indices, chosen_names, stamps, _infer_step(stamps, decimals), decimals)
        parsed = parse_dates(values)
    if not parsed:
        return None
    best, is_ambiguous = _choose_order([reading for each in parsed for reading in _readings(each, zone)], order)
    return TimeAxis(
        indices,
        chosen_names,
        best.dates,
        _infer_step(best.dates, 0),
        order=best.order,
        is_ambiguous=is_ambiguous and not order,
        offsets=() if best.offsets is None else tuple(map(_offset_text, np.unique(best.offsets))),
        is_utc=best.is_utc,
    )


def _readings(parsed: ParsedDates, zone: TimeZone) -> list[ParsedDates]:
    """Times with different offsets from UTC as local times and in UTC, of which the steps show the better one."""
    if parsed.offsets is None or zone == "local" or (not zone and len(np.unique(parsed.offsets)) == 1):
        return [parsed]
    shift = np.where(np.isnat(parsed.offsets), np.timedelta64(0, "us"), parsed.offsets)
    utc = parsed._replace(dates=parsed.dates - shift, is_utc=True)
    return [utc] if zone else [parsed, utc]


def _offset_text(offset: np.timedelta64) -> str:
    """``+02:00``; empty for NaT."""
    if np.isnat(offset):
        return ""
    minutes = round(offset / np.timedelta64(1, "m"))
    return f"{'-' if minutes < 0 else '+'}{abs(minutes) // 60:02}:{abs(minutes) % 60:02}"


def _choose_order(parsed: Sequence[ParsedDates], preferred: DateOrder) -> tuple[ParsedDates, bool]:
    """Of 03/04/2020 as March or April, the one whose dates are in order and regular; and whether both or none are.

    Of several readings of the same order, the most regular one, or else the first.
    """
    ranked = sorted(parsed, key=lambda each: (each.order == preferred, _regularity(each.dates)), reverse=True)
    best = ranked[0]
    others = [each for each in ranked[1:] if each.order != best.order and (each.dates != best.dates).any()]
    if not others:
        return best, False
    (in_order, regular), (other_in_order, other_regular) = map(_regularity, (best.dates, others[0].dates))
    is_clear = in_order > other_in_order or (regular == 1 and other_regular < 1)
    return best, not is_clear


def _regularity(dates: Dates) -> tuple[bool, float]:
    """Whether all dates are in order, and the share of equal steps."""
    if len(dates) < 3:
        return True, 0.0
    dates = dates[::-1] if dates[-1] < dates[0] else dates
    step = _infer_step(dates, 0)
    return bool((dates[1:] >= dates[:-1]).all()), 0.0 if step is None else float(_regular(dates, step, 0).mean())


def _parse_numbers(values: Sequence[Any], name: str, *, certain: bool) -> tuple[Stamps | None, int]:
    """The time stamps of a column of numbers, and their decimals; None if it is not a time axis."""
    array = np.array([as_number(value) for value in values], np.float64)
    if not np.isfinite(array).all():
        return None, 0
    compact = _compact_dates(array)
    usual = certain or _is_usual(name)
    is_axis = certain or _counts_up(array, usual=usual)
    if compact is None and not is_axis:  # as almost all columns: their decimals need not be counted
        return None, 0
    decimals = max((_decimals(value) for value in values), default=0)
    if compact is not None and not decimals:
        return compact, 0
    if not is_axis:
        return None, 0
    for smallest, largest, unit in UNIX_UNITS:
        if array.min() >= smallest and array.max() <= largest:
            step = float(np.median(np.diff(array))) if len(array) > 1 else 0.0
            if usual or step * unit % 60e6 == 0:
                return (array * unit).astype("M8[us]"), 0
    return array, decimals


def _is_usual(name: str) -> bool:
    normal = column_names.normalize(name)
    return normal in USUAL_NAMES or bool({normal.rpartition("_")[2], normal.partition("_")[0]} & {"time", "date"})


def _decimals(value: Any) -> int:
    text = value.strip() if isinstance(value, str) else f"{value:.9g}" if isinstance(value, float) else ""
    digits = text.partition(".")[2] if "e" not in text.lower() else ""
    return len(digits.rstrip("0")) if not isinstance(value, str) else len(digits)


def _counts_up(array: NDArray[np.float64], *, usual: bool) -> bool:
    """Whether numbers only count up: evenly, or almost always if the column has the name of a time."""
    steps = np.diff(array)
    if not len(steps) or steps.max() <= 0:
        return False
    if usual:
        return bool((steps >= 0).mean() >= MOSTLY)
    if len(steps) < 2 or steps.min() <= 0:
        return False
    median = float(np.median(steps))
    if np.abs(steps - median).max() <= 1e-9 * max(np.abs(array).max(), 1.0):
        return True
    if _is_decimal_year(array):
        even = array[0] + np.arange(len(array)) * (array[-1] - array[0]) / len(steps)
        return bool(np.abs(array - even).max() < 0.02)
    whole = bool((array == np.round(array)).all())
    return whole and len(steps) >= 50 and bool((steps == median).mean() >= GAPS)


def _is_decimal_year(array: NDArray[np.float64]) -> bool:
    return bool(array.min() > 1000 and array.max() < 2300 and (array != np.round(array)).any())


def _compact_dates(array: NDArray[np.float64]) -> Dates | None:
    """19580329, 195803 (months without a gap), 195803290130, and the same with seconds."""
    texts = {len(str(int(number))) for number in array[[0, -1]]}
    if len(texts) != 1 or array.min() <= 0 or (array != np.round(array)).any():
        return None
    (width,) = texts
    formats = {8: "%Y%m%d", 6: "%Y%m", 10: "%Y%m%d%H", 12: "%Y%m%d%H%M", 14: "%Y%m%d%H%M%S"}
    if width not in formats or not 1500 <= int(str(int(array[0]))[:4]) <= 2200:
        return None
    dates = with_format([str(int(number)) for number in array], formats[width])
    if dates is None or not 1500 <= int(str(dates[-1])[:4]) <= 2200:
        return None
    forwards = len(dates) < 2 or bool((dates[1:] >= dates[:-1]).mean() >= 0.5) or bool((dates[1:] < dates[:-1]).all())
    if width == 6:
        months = dates.astype("M8[M]").astype(np.int64)
        return dates if len(dates) > 2 and len(set(np.diff(months).tolist())) == 1 and months[1] > months[0] else None
    return dates if forwards else None


def _joined_dates(names: Sequence[str], columns: Sequence[Sequence[Any]]) -> list[ParsedDates]:
    """Dates from columns for year, quarter or month, day …, or for date and time."""
    normal = [column_names.normalize(name) for name in names]
    if normal == ["date", "time"]:
        return parse_dates([f"{day} {time}".strip() for day, time in zip(*columns, strict=True)])
    fields: dict[str, list[int]] = {}
    for name, column in zip(normal, columns, strict=True):
        part = next((part for part, known in PARTS.items() if name in known), None)
        numbers = [as_number(value) for value in column]
        if part is None or not all(number is not None and number == number // 1 for number in numbers):
            return []
        fields[part] = [int(number) for number in numbers if number is not None]
    if "year" not in fields:
        return []
    if "quarter" in fields:
        fields["month"] = [3 * quarter - 2 for quarter in fields.pop("quarter")]
    parts = [fields.get(part, [1] * len(columns[0])) for part in ("year", "month", "day")]
    parts += [fields.get(part, [0] * len(columns[0])) for part in ("hour", "minute", "second")]
    try:
        return [ParsedDates(np.array([datetime(*row) for row in zip(*parts, strict=True)], "M8[us]"))]  # noqa: DTZ001
    except ValueError:
        return []


def _days(dates: Dates) -> NDArray[np.int64]:
    """The day of the month of each date."""
    days: NDArray[np.int64] = (dates.astype("M8[D]") - dates.astype("M8[M]")).astype(np.int64) + 1
    return days


def _months(dates: Dates) -> NDArray[np.int64]:
    return dates.astype("M8[M]").astype(np.int64)


def _are_month_ends(dates: Dates) -> bool:
    return bool((_days(dates + np.timedelta64(1, "D")) == 1).all())


def _months_after(start: np.datetime64, months: Sequence[int], *, month_ends: bool) -> Dates:
    """The same day of later months, or their last days."""
    first = start.astype("M8[D]").astype(object)
    clock = start - start.astype("M8[D]")
    days = []
    for count in months:
        year, month = divmod(first.year * 12 + first.month - 1 + count, 12)
        last = monthrange(year, month + 1)[1]
        days.append(f"{year:04}-{month + 1:02}-{last if month_ends else min(first.day, last):02}")
    return np.asarray(np.array(days, "M8[us]") + clock)


def _infer_step(stamps: Stamps, decimals: int) -> Step | None:
    """The most frequent step, as far as there is one."""
    if len(stamps) < 2:
        return None
    if stamps.dtype.kind != "M":
        steps = np.diff(stamps)
        forwards = steps[steps > 0] if (steps > 0).any() else np.abs(steps)
        even = float(stamps[-1] - stamps[0]) / len(steps)
        median = float(np.median(forwards))
        close = decimals and abs(even - median) < 0.1 * median  # 2008.25, 2008.33, 2008.42: twelve a year
        return Step(_nice(even) if close else median, "numbers")
    steps = np.abs(np.diff(stamps).astype(np.int64))
    same_day = len(set(_days(stamps).tolist())) == 1 or _are_month_ends(stamps)
    if same_day and float(np.median(steps)) >= 28 * DAY:
        months = np.abs(np.diff(_months(stamps)))
        return Step(float(_mode(months[months > 0] if (months > 0).any() else months)), "months")
    amount = _mode(steps[steps > 0] if (steps > 0).any() else steps)
    if amount == DAY and len(stamps) > 5:
        weekdays = np.is_busday(stamps.astype("M8[D]"))
        if weekdays.all() and (stamps[-1] - stamps[0]) >= np.timedelta64(7, "D"):
            return Step(1.0, "weekdays")
    return Step(float(amount), "time")


def _nice(step: float) -> float:
    """The part of a year that is close to a step, such as 1/12."""
    parts = (1 / 365.25, 1 / 52, 1 / 24, 1 / 12, 1 / 4, 1 / 2)
    return next((part for part in parts if abs(part - step) < 0.02 * part), step)


def _mode(values: NDArray[np.int64]) -> int:
    unique, counts = np.unique(values, return_counts=True)
    return int(unique[counts.argmax()])


def _steps_between(before: Any, after: Any, step: Step) -> float:
    """The distance between two time stamps, in steps."""
    if step.unit == "numbers":
        return float((after - before) / step.amount)
    if step.unit == "months":
        return float((after.astype("M8[M]") - before.astype("M8[M]")).astype(np.int64) / step.amount)
    if step.unit == "weekdays":
        return float(np.busday_count(before.astype("M8[D]"), after.astype("M8[D]")))
    return float((after - before).astype(np.int64) / step.amount)


def _regular(stamps: Stamps, step: Step, decimals: int) -> NDArray[np.bool_]:
    """Whether each time stamp but the first is one step after the previous one."""
    if step.unit == "numbers":
        tolerance = 0.15 * step.amount if decimals else 1e-6 * step.amount
        regular: NDArray[np.bool_] = np.abs(np.diff(stamps) - step.amount) <= tolerance
        return regular
    if step.unit == "months":
        return np.asarray(np.diff(_months(stamps)) == step.amount)
    if step.unit == "weekdays":
        days = stamps.astype("M8[D]")
        return np.asarray(np.busday_count(days[:-1], days[1:]) == 1)
    return np.asarray(np.diff(stamps).astype(np.int64) == step.amount)
