"""Time axes: which columns are one, their steps, the time stamps that follow, and irregularities."""

from collections.abc import Sequence
from datetime import date, datetime, timedelta
from typing import Any

import numpy as np
import pytest

from seqloom.data.readers.time_axis import TimeAxis, find_time_axis


def axis_of(values: Sequence[Any], name: str = "x") -> TimeAxis | None:
    return find_time_axis([name], [values])[0]


def days(format_: str, count: int = 20, *, step: int = 1) -> list[str]:
    return [f"{datetime(2019, 12, 20) + timedelta(days=step * day):{format_}}" for day in range(count)]  # noqa: DTZ001


@pytest.mark.parametrize(
    ("values", "following", "step"),
    [
        (days("%Y-%m-%d"), ["2020-01-09", "2020-01-10"], "every day"),
        (days("%Y-%m-%dT%H:%M:%SZ"), ["2020-01-09", "2020-01-10"], "every day"),
        (days("%d.%m.%Y"), ["2020-01-09", "2020-01-10"], "every day"),
        (days("%m/%d/%Y"), ["2020-01-09", "2020-01-10"], "every day"),
        (days("%d/%m/%Y"), ["2020-01-09", "2020-01-10"], "every day"),
        (days("%b-%d-%Y"), ["2020-01-09", "2020-01-10"], "every day"),
        (days("%Y%m%d", step=7), ["2020-05-08", "2020-05-15"], "every week"),
        ([int(day) for day in days("%Y%m%d", step=7)], ["2020-05-08", "2020-05-15"], "every week"),
        (
            ["2020-01-01 00:00", "2020-01-01 00:15", "2020-01-01 00:30"],
            ["2020-01-01 00:45", "2020-01-01 01:00"],
            "every 15 minutes",
        ),
        (["1949-01", "1949-02", "1949-03"], ["1949-04", "1949-05"], "every month"),
        (["199911", "199912", "200001", "200002"], ["2000-03", "2000-04"], "every month"),
        (["2019-11-30", "2019-12-31", "2020-01-31"], ["2020-02-29", "2020-03-31"], "every month"),
        (["1959Q3", "1959Q4", "1960Q1"], ["1960-04", "1960-07"], "every quarter"),
        (
            [date(2020, 1, day) for day in (6, 7, 8, 9, 10, 13, 14, 15)],
            ["2020-01-16", "2020-01-17"],
            "Monday to Friday",
        ),
        (
            ["2020-01-09", "2020-01-10", "2020-01-13", "2020-01-14", "2020-01-15", "2020-01-16", "2020-01-17"],
            ["2020-01-20", "2020-01-21"],
            "Monday to Friday",
        ),
        ([str(year) for year in range(1700, 1720)], ["1720", "1721"], "step 1"),
        (["2008.25", "2008.33", "2008.42", "2008.50"], ["2008.58", "2008.67"], "step 0.0833333"),
        ([1577836800 + 3600 * hour for hour in range(5)], ["2020-01-01 05:00", "2020-01-01 06:00"], "every hour"),
        (
            [1577836800000 + 60000 * minute for minute in range(5)],
            ["2020-01-01 00:05", "2020-01-01 00:06"],
            "every minute",
        ),
        ([0, 1, 2, 3], ["4", "5"], "step 1"),
        ([0.0, 0.02, 0.04, 0.06], ["0.08", "0.10"], "step 0.02"),
    ],
)
def test_time_axes_and_what_follows(values: list[Any], following: list[str], step: str) -> None:
    axis = axis_of(values)
    assert axis is not None
    stamps = axis.following(len(values) - 1, 2)
    assert stamps is not None
    assert axis.write(stamps) == following
    assert str(axis.step) == step
    assert not axis.irregularities().describe(str)


@pytest.mark.parametrize(
    "values",
    [
        ["1.5", "2.5", "2.4", "3.5"],
        [3, 2, 1, 0],
        [1, 1, 1, 1],
        [1, 2],  # too few to tell
        [1, 2, 4, 7, 9],
        [21000101, 99999999, 21000103],
        ["10", "12", "14", "15"],
        ["abc", "2020-01-01", "abc"],
        [12.5, None, 14.5],
    ],
)
def test_other_columns(values: list[Any]) -> None:
    axis = axis_of(values, "load")
    assert axis is None or axis.stamps is None


def test_a_name_makes_an_irregular_column_the_axis() -> None:
    values = [1, 2, 4, 7, 9]
    axis = axis_of(values, "time")
    assert axis is not None
    assert axis.irregularities().gaps == [1, 3]  # the usual step is 2
    assert axis_of([20, 21, 19, 18], "t") is None  # a temperature


def test_columns_that_are_a_date_together() -> None:
    names = ["year", "quarter", "gdp"]
    axis, others = find_time_axis(names, [[1959, 1959, 1959, 1959, 1960], [1, 2, 3, 4, 1], [5, 4, 6, 5, 7]])
    assert axis is not None
    assert axis.names == ("year", "quarter")
    assert axis.write(axis.stamps) == ["1959-01", "1959-04", "1959-07", "1959-10", "1960-01"]  # type: ignore[arg-type]
    assert not others
    axis, _ = find_time_axis(
        ["Date", "Time", "x"], [["10/03/2004"] * 3, ["18.00.00", "19.00.00", "20.00.00"], [1, 3, 2]]
    )
    assert axis is not None
    assert str(axis.step) == "every hour"
    assert "column 1 'Date' and column 2 'Time'" in axis.describe()


def test_irregular_time_stamps_are_described() -> None:
    values = ["2020-01-01", "2020-01-02", "2020-01-02", "2020-01-03", "2020-01-07", "2020-01-06", "2020-01-07"]
    axis = axis_of(values)
    assert axis is not None
    irregular = axis.irregularities()
    assert (irregular.repeated, irregular.backwards, irregular.gaps) == ([2], [5], [4])
    assert irregular.describe(lambda row: f"row {row}") == (
        "irregular time stamps: 1 repeated (first row 2), 1 out of order (first row 5), 1 after a gap (first row 4; "
        "3 missing in the longest); forecasts count rows, not time"
    )
    assert not irregular.is_descending
    descending = axis_of([*values[:2][::-1], "2019-12-31", "2019-12-30"])
    assert descending is not None
    assert descending.irregularities().is_descending


def test_whether_one_axis_continues_another() -> None:
    first, second = axis_of(days("%Y-%m-%d")), axis_of(["2020-01-09", "2020-01-10", "2020-01-11"])
    later = axis_of(["2020-01-10", "2020-01-11", "2020-01-12"])
    assert first is not None
    assert second is not None
    assert later is not None
    assert second.continues(first)
    assert not later.continues(first)
    assert not first.continues(second)


def test_descriptions_name_the_column_and_its_range() -> None:
    axis, others = find_time_axis(["a", "year"], [[3, 1, 2], [1700, 1701, 1702]])
    assert axis is not None
    assert (
        axis.describe() == "time axis from column 2 'year' (1700 to 1702, step 1), which is neither read nor forecast"
    )
    assert find_time_axis(["a", "year"], [[3, 1, 2], [1700, 1701, 1702]], taken=("year",)) == (None, [])
    both, others = find_time_axis(["id", "day"], [[1, 2, 3], ["2020-01-01", "2020-01-02", "2020-01-03"]])
    assert both is not None
    assert both.names == ("day",)
    assert others == [0]
    np.testing.assert_array_equal(both.stamps, np.array(["2020-01-01", "2020-01-02", "2020-01-03"], "M8[us]"))


def test_day_and_month_are_told_apart_by_regular_steps() -> None:
    months = [f"01/{month:02}/{year}" for year in (2020, 2021) for month in range(1, 13)]
    axis = axis_of(months)
    assert axis is not None
    assert (axis.order, axis.is_ambiguous, str(axis.step)) == ("day_first", False, "every month")
    assert axis.describe().endswith("; dates are read as day first")
    american = axis_of([f"{month:02}/01/{year}" for year in (2020, 2021) for month in range(1, 13)])
    assert american is not None
    assert (american.order, str(american.step)) == ("month_first", "every month")
    descending = axis_of(months[::-1])
    assert descending is not None
    assert (descending.order, descending.is_ambiguous) == ("day_first", False)


def test_dates_that_are_regular_both_ways_or_neither_are_ambiguous() -> None:
    both = [f"{day:02}/02/2020" for day in range(1, 11)]
    for values in (both, [f"01/{month:02}/2020" for month in (1, 2, 4, 5, 9, 10)]):
        axis = axis_of(values)
        assert axis is not None
        assert axis.is_ambiguous
    chosen, _ = find_time_axis(["day"], [both], order="day_first")
    assert chosen is not None
    assert (chosen.is_ambiguous, str(chosen.step)) == (False, "every day")
    chosen, _ = find_time_axis(["day"], [both], order="month_first")
    assert chosen is not None
    assert str(chosen.step) == "every month"


@pytest.mark.parametrize(
    ("values", "season"),
    [
        ([f"2020-{month:02}-01" for month in range(1, 13)], 12),
        (["2020-01-01", "2020-04-01", "2020-07-01", "2020-10-01"], 4),
        ([f"2020-01-01 {hour:02}:00" for hour in range(24)], 24),
        ([f"2020-01-{day:02}" for day in range(1, 20)], 7),
        (["2008.25", "2008.33", "2008.42", "2008.50"], 12),
        ([str(year) for year in range(1700, 1720)], 0),
        (["2020-01-01", "2020-01-08", "2020-01-15"], 0),
    ],
)
def test_the_season_follows_from_the_step(values: list[str], season: int) -> None:
    axis = axis_of(values)
    assert axis is not None
    assert axis.step is not None
    assert axis.step.season == season


@pytest.mark.parametrize(
    ("stamps", "missing"),
    [
        (["2020-01-31", "2020-02-29", "2020-06-30", "2020-07-31"], 3),
        (["2020-01-06", "2020-01-07", "2020-01-08", "2020-01-09", "2020-01-10", "2020-01-14", "2020-01-15"], 1),
        (["2000", "2001", "2002", "2006"], 3),
    ],
)
def test_rows_missing_in_the_longest_gap(stamps: list[str], missing: int) -> None:
    axis = axis_of(stamps, "year") if len(stamps[0]) == 4 else axis_of(stamps)
    assert axis is not None
    assert axis.irregularities().missing == missing


@pytest.mark.parametrize(
    "months",
    [
        "Jan Feb Mär Apr Mai Jun Jul Aug Sep Okt Nov Dez",
        "Januar Februar März April Mai Juni Juli August September Oktober November Dezember",
        "janv. févr. mars avr. mai juin juil. août sept. oct. nov. déc.",
        "ene feb mar abr may jun jul ago sep oct nov dic",
        "gen feb mar apr mag giu lug ago set ott nov dic",
        "jan fev mar abr mai jun jul ago set out nov dez",
        "jan feb mrt apr mei jun jul aug sep okt nov dec",
    ],
)
def test_names_of_months_are_read_in_several_languages(months: str) -> None:
    axis, others = find_time_axis(["Monat"], [[f"{month} {year}" for year in (2010, 2011) for month in months.split()]])
    assert axis is not None
    assert axis.stamps is not None
    assert not others
    assert axis.stamps.astype("M8[M]").tolist() == np.arange("2010-01", "2012-01", dtype="M8[M]").tolist()


def test_a_column_that_looks_like_dates_names_what_cannot_be_read() -> None:
    axis, _ = find_time_axis(["m"], [["mar 2010", "kwi 2010", "maj 2010", "lip 2010", "mar 2011"]])
    assert axis is not None
    assert (axis.stamps, axis.unreadable) == (None, "kwi 2010")
    axis, _ = find_time_axis(["m"], [["mary", "john", "mark", "anna 2010", "juli"]])
    assert axis is not None
    assert axis.unreadable == ""
