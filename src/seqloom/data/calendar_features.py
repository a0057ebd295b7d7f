"""What the calendar says about time steps: hour, weekday and time of the year, as points on circles."""

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqloom.data.readers.series import Numbers, Series
from seqloom.data.readers.text_files import DataError

HOUR, WEEKDAY, YEAR = "hour", "weekday", "time of year"
DAY = 86_400_000_000  # microseconds
MONDAY = 4 * DAY  # 1970-01-05
DAYS_OF_YEAR = 365.2425


def calendar_names(series: Series) -> tuple[str, ...]:
    """The cycles that are longer than the time step of a series; DataError if it has no dates at equal steps."""
    axis = series.axis
    if axis is None or not axis.has_dates or axis.step is None or not axis.step.amount:
        raise DataError(
            series.location, "no dates at equal steps, which task.calendar needs: set task.date, or task.calendar=false"
        )
    if axis.step.unit == "months":
        return (YEAR,) if axis.step.amount < 12 else ()
    days = 1.0 if axis.step.unit == "weekdays" else axis.step.amount / DAY
    return tuple(name for name, period in ((HOUR, 1), (WEEKDAY, 7), (YEAR, DAYS_OF_YEAR)) if days < period)


def circle_features(stamps: NDArray[Any], names: tuple[str, ...]) -> Numbers:  # (T,) → (T, 2 · names)
    """Sine and cosine of the place of each time stamp in each cycle."""
    micros = stamps.astype("M8[us]").astype(np.int64)
    day_of_year = (stamps.astype("M8[D]") - stamps.astype("M8[Y]").astype("M8[D]")).astype(np.float64)
    fractions = {
        HOUR: (micros % DAY) / DAY,
        WEEKDAY: ((micros - MONDAY) % (7 * DAY)) / (7 * DAY),
        YEAR: (day_of_year + (micros % DAY) / DAY) / DAYS_OF_YEAR,
    }
    angles = 2 * np.pi * np.stack([fractions[name] for name in names], axis=1)
    return np.concatenate([np.sin(angles), np.cos(angles)], axis=1)


@lru_cache(maxsize=64)  # all windows of a series share them
def calendar_features(  # (T + further, 2 · names)
    series: Series,
    names: tuple[str, ...],
    further: int,
    *,
    history: int,  # rows at the end that further steps follow; 0: all
) -> Numbers:
    """The features of all rows of a series, and of the steps after it."""
    if not names:
        return np.zeros((len(series.values) + further, 0))
    axis = series.axis
    last = len(series.values) - 1
    following = None if axis is None else axis.following(last, further, within=history or len(series.values))
    if axis is None or axis.stamps is None or following is None or following.dtype.kind != "M":
        raise DataError(series.location, "no dates at equal steps, which the model was trained with (task.calendar)")
    return circle_features(np.concatenate([axis.stamps, following]), names)
