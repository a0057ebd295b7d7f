"""Calendar features compared with the standard library's calendar."""

from datetime import datetime

import numpy as np
import pytest

from seqloom.data.calendar_features import HOUR, WEEKDAY, YEAR, calendar_features, calendar_names, circle_features
from seqloom.data.readers.series import Series, table
from seqloom.data.readers.text_files import DataError


def series(first: str, step: np.timedelta64, count: int = 40) -> Series:
    stamps = np.datetime64(first) + step * np.arange(count)
    text = [str(stamp).replace("T", " ") for stamp in stamps]
    return table(["date,x", *(f"{stamp},{number % 7}" for number, stamp in enumerate(text))])


def test_cycles_longer_than_the_step() -> None:
    assert calendar_names(series("2024-01-01T00:00", np.timedelta64(1, "h"))) == (HOUR, WEEKDAY, YEAR)
    assert calendar_names(series("2024-01-01", np.timedelta64(1, "D"))) == (WEEKDAY, YEAR)
    assert calendar_names(series("2024-01-01", np.timedelta64(7, "D"))) == (YEAR,)
    assert calendar_names(series("2020-01", np.timedelta64(1, "M"))) == (YEAR,)
    with pytest.raises(DataError, match=r"no dates at equal steps, which task\.calendar needs"):
        calendar_names(table(["x", "1", "2", "4"]))


def test_places_in_the_cycles() -> None:
    known = series("2024-02-26T21:00", np.timedelta64(3, "h"))
    features = calendar_features(known, (HOUR, WEEKDAY, YEAR), 5, history=0)
    assert features.shape == (45, 6)
    for row in range(45):  # the last five are after the end
        stamp = (np.datetime64("2024-02-26T21:00") + np.timedelta64(3, "h") * row).astype(datetime)
        hours = stamp.hour + stamp.minute / 60
        fractions = (
            hours / 24,
            (stamp.weekday() + hours / 24) / 7,
            (stamp.timetuple().tm_yday - 1 + hours / 24) / 365.2425,
        )
        angles = 2 * np.pi * np.array(fractions)
        np.testing.assert_allclose(features[row], [*np.sin(angles), *np.cos(angles)], atol=1e-9)


def test_the_circle_closes() -> None:
    stamps = np.array(["2024-01-01T00:00", "2024-01-07T23:59:59"], "M8[us]")
    monday, sunday = circle_features(stamps, (WEEKDAY,))
    np.testing.assert_allclose(monday, sunday, atol=1e-4)


def test_rows_without_dates_are_refused_where_the_model_needs_them() -> None:
    with pytest.raises(DataError, match=r"which the model was trained with \(task\.calendar\)"):
        calendar_features(table(["x", "1", "2", "4"]), (WEEKDAY,), 2, history=0)
    assert calendar_features(table(["x", "1", "2", "4"]), (), 2, history=0).shape == (5, 0)
