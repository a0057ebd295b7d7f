"""Tables of numbers, ranges of rows, and windows."""

import gzip
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from seqloom.data.readers.memory import as_source
from seqloom.data.readers.row_ranges import Range, split_range
from seqloom.data.readers.series import (
    Series,
    consecutive_windows,
    differences,
    last_window,
    sequences,
    table,
    windows,
)
from seqloom.data.readers.text_files import DataError, Location
from seqloom.data.readers.vectors import write_npz


def counting(length: int, *, start: int = 0, stop: int | None = None) -> Series:
    """Row t holds t and 100 + t."""
    values = np.arange(length)[:, None] + np.array([0.0, 100.0])
    return Series(Location("x.csv", 1), values, ("a", "b"), start, length if stop is None else stop)


@pytest.mark.parametrize(
    ("text", "length", "expected"),
    [
        ("x.csv", 10, (0, 10)),
        ("x.csv[0:0.6]", 10, (0, 6)),
        ("x.csv[0.6:0.8]", 7588, (4552, 6070)),
        ("x.csv[0.8:1]", 10, (8, 10)),
        ("x.csv[.29:1.]", 100, (29, 100)),  # 0.29 × 100 is below 29 in floating point
        ("x.csv[8640:11520]", 17420, (8640, 11520)),
        ("x.csv[1:]", 10, (1, 10)),
        ("x.csv[:0.5]", 9, (0, 4)),
        ("x.csv[-3:]", 10, (7, 10)),
        ("x.csv[2:-3]", 10, (2, 7)),
        ("x.csv[0:1]", 10, (0, 1)),
    ],
)
def test_ranges_are_rows_or_fractions(text: str, length: int, expected: tuple[int, int]) -> None:
    path, rows = split_range(Path("folder") / text)
    assert path == Path("folder/x.csv")
    assert rows.rows(length, noun="rows") == expected


@pytest.mark.parametrize("text", ["x.csv[]", "x.csv[5]", "x.csv[a:b]", "x.csv[1:2:3]", "x.csv[1e3:]", "x.csv[-0.5:1]"])
def test_invalid_ranges_are_errors(text: str) -> None:
    with pytest.raises(DataError, match="expected a range of rows or fractions"):
        split_range(Path(text))


@pytest.mark.parametrize("text", ["[5:5]", "[6:4]", "[0:11]", "[0.5:1.5]", "[-11:]", "[0.01:0.02]"])
def test_ranges_beyond_the_file_are_errors(text: str) -> None:
    with pytest.raises(DataError, match=r"x.csv\[.*: expected a non-empty range of the 10 rows, found"):
        split_range(Path("x.csv" + text))[1].rows(10, noun="rows")


@given(st.integers(1, 10_000), st.integers(1, 99))
def test_adjacent_fractions_partition_the_rows(length: int, hundredths: int) -> None:
    border = f"{hundredths / 100:.2f}"
    assume(length * hundredths >= 100)
    assert Range("x", "", border).rows(length, noun="rows") == (0, length * hundredths // 100)
    assert Range("x", border, "").rows(length, noun="rows") == (length * hundredths // 100, length)


def test_table_with_header_and_dates() -> None:
    series = table(["date,load,oil", "2016-07-01 00:00,1.5,-2", "2016-07-01 01:00,2.5,3e1"])
    assert series.names == ("load", "oil")
    np.testing.assert_array_equal(series.values, [[1.5, -2], [2.5, 30]])
    assert series.at(1) == Location("input", 3)


def test_columns_without_header_are_numbered() -> None:
    series = table(["1;2;3", "", "4;5;6"], separator=";", columns=("3", "1"))
    assert series.names == ("3", "1")
    np.testing.assert_array_equal(series.values, [[3, 1], [6, 4]])
    assert series.at(1) == Location("input", 3)


def test_encodings_and_utf_16(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_bytes("Tag;Größe\n1.1.2024;1,5\n2.1.2024;2,5\n".encode("latin-1"))
    assert table(path, encoding="latin-1").values.tolist() == [[1.5], [2.5]]
    path.write_text("Tag\tGröße\n1.1.2024\t1,5\n2.1.2024\t2,5\n", encoding="utf-16")
    assert table(path).names == ("Größe",)


def test_numeric_date_column() -> None:
    lines = ["YEAR,SUNACTIVITY", "1700,5", "1701,11"]
    assert table(lines).names == ("SUNACTIVITY",)
    assert table(lines, date=()).names == ("YEAR", "SUNACTIVITY")
    assert table(lines, date=("YEAR",)).values.tolist() == [[5], [11]]
    assert table(lines, columns=("YEAR",)).values.tolist() == [[1700], [1701]]
    assert table(lines, target=("YEAR",)).names == ("YEAR", "SUNACTIVITY")


def test_row_numbers_beside_dates_are_left_out() -> None:
    series = table(["row;day;load", *(f"{row};{row + 1:02}.03.2020;{row % 3}" for row in range(9))])
    assert series.names == ("load",)
    assert series.left_out == ("row",)
    assert series.axis is not None
    assert series.axis.names == ("day",)


def test_a_single_column_that_counts_is_forecast() -> None:
    assert table([str(row) for row in range(9)]).values.ravel().tolist() == list(range(9))


def test_tables_in_memory_and_json_lines(tmp_path: Path) -> None:
    columns = {"ds": ["2020-01-31", "2020-02-29", "2020-03-31"], "y": [3, 1, 2]}
    (tmp_path / "x.jsonl").write_text(
        "".join(f'{{"ds": "{day}", "y": {y}}}\n' for day, y in zip(*columns.values(), strict=True))
    )
    for source in (columns, tmp_path / "x.jsonl"):
        series = table(source)
        assert series.names == ("y",)
        assert series.values.ravel().tolist() == [3, 1, 2]
        assert series.axis is not None
        stamps = series.axis.following(2, 2)
        assert stamps is not None
        assert series.axis.write(stamps) == ["2020-04-30", "2020-05-31"]


def test_a_column_of_names_is_left_out_or_refused() -> None:
    rows = [f"{day},1.5" for day in ("mon", "tue", "wed")]
    assert table(["day,load", *rows]).names == ("load",)
    assert table(["place,load", "rome,1", "rome,2"]).left_out == ("place",)
    with pytest.raises(DataError, match=r"'series' holds names \('a', 'b'\), not numbers; if they name several series"):
        table(["series,load", "a,1", "a,2", "b,3", "b,4"])


@pytest.mark.parametrize("interleaved", [False, True])
def test_several_series_below_each_other_are_refused(interleaved: bool) -> None:
    rows = [(f"2020-01-{day:02}", series, day * series) for series in (1, 2) for day in range(1, 11)]
    rows = sorted(rows) if interleaved else rows
    numbered = ["ds,unique_id,y", *(f"{day},{series},{value}" for day, series, value in rows)]
    with pytest.raises(DataError, match=r"'unique_id' seems to number 2 series \(1, 2\): .*task\.columns = \[\"y\"\]"):
        table(numbered)
    assert table(numbered, columns=["y"]).names == ("y",)  # as one series, nevertheless
    named = ["ds,store,y", *(f"{day},{'ab'[series - 1]},{value}" for day, series, value in rows)]
    with pytest.raises(DataError, match=r"'store' holds names .*: task\.columns = \[\"y\"\]"):
        table(named)
    hourly = [f"2020-01-{day:02},{hour},{hour * day}" for day in range(1, 5) for hour in range(24)]
    assert "load" in table(["date,hour,load", *hourly]).names


def test_gzipped_file_with_a_range(tmp_path: Path) -> None:
    with gzip.open(tmp_path / "x.csv.gz", "wt") as file:
        file.writelines(f"{row}\n" for row in range(10))
    series = table(tmp_path / "x.csv.gz[0.5:0.8]")
    assert (series.start, series.stop, len(series.values)) == (5, 8, 10)


def test_missing_values_are_errors_or_filled() -> None:
    lines = ["a,b", "1,2", ",NaN", "3,?"]
    with pytest.raises(DataError, match=r"^input:3: column a: missing value; task.fill_missing=true"):
        table(lines)
    with pytest.raises(DataError, match=r"In all, 3 values are missing: a 1 \(first line 3\), b 2 \(at most 2 in"):
        table(lines)
    filled = table(lines, fill=True)
    assert filled.values.tolist() == [[1, 2], [1, 2], [3, 2]]
    assert [(each.name, each.total, each.longest, each.first.line) for each in filled.missing] == [
        ("a", 1, 1, 3),
        ("b", 2, 2, 3),
    ]
    assert [each.name for each in filled.missing_between(2, 3)] == ["b"]
    with pytest.raises(DataError, match=r"^input:2: column b: missing value without a previous one to repeat"):
        table(["a,b", "1,", "2,3"], fill=True)


@pytest.mark.parametrize(
    ("lines", "options", "message"),
    [
        ([], {}, "input:1: expected a table of numbers, found an empty file"),
        (["a,b"], {}, "input:1: no rows"),
        (["day", "monday"], {}, "input:2: no column of numbers"),
        (["a,a", "1,2"], {}, "input:1: duplicate column names"),
        (["a,b", "1,2", "3,x"], {}, "input:3: column b: expected a number, found 'x'"),
        (["a,b", "1,inf"], {}, "input:2: column b: expected a number, found 'inf'"),
        (["a,b", "1,2", "3"], {}, "input:3: expected 2 fields as in the first record, found 1"),
        (["load,b", "1,2"], {"columns": ("laod",)}, "no column 'laod': did you mean load"),
        (["a,b", "1,2"], {"date": ("c",)}, "1: no column 'c'; the file has a, b"),
    ],
)
def test_table_errors_name_the_line(lines: list[str], options: dict[str, object], message: str) -> None:
    with pytest.raises(DataError, match=message):
        table(lines, **options)  # type: ignore[arg-type]


@given(st.integers(1, 40), st.integers(1, 12), st.integers(1, 6), st.integers(0, 39), st.integers(1, 40))
def test_windows_cover_every_run_of_the_range(length: int, history: int, horizon: int, start: int, stop: int) -> None:
    start, stop = min(start, length - 1), min(max(stop, start + 1), length)
    series = counting(length, start=start, stop=stop)
    # Brute force: each run within the range that has the whole history before it; where the series is too short for
    # that, the last run with what there is.
    runs = [end for end in range(length) if start <= end and end + horizon <= stop]
    ends = [end for end in runs if end >= history] or [end for end in runs[-1:] if end]
    if not ends:
        with pytest.raises(DataError, match="rows to forecast and one before them, found rows"):
            list(windows(series, history, horizon=horizon))
        return
    actual = list(windows(series, history, horizon=horizon))
    assert [window.stop for window in actual] == ends
    for window in actual:
        assert window.history[:, 0].tolist() == list(range(max(window.stop - history, 0), window.stop))
        assert window.future(horizon)[0, :, 0].tolist() == list(range(window.stop, window.stop + horizon))
        assert np.shares_memory(window.history, series.values)
        assert np.shares_memory(window.future(horizon), series.values)


@given(st.integers(1, 40), st.integers(0, 12), st.integers(1, 6), st.integers(0, 39), st.integers(1, 40))
def test_consecutive_windows_know_the_future_of_each_row(
    length: int, history: int, horizon: int, start: int, stop: int
) -> None:
    start, stop = min(start, length - 1), min(max(stop, start + 1), length)
    series = counting(length, start=start, stop=stop)
    expected = [row for row in range(length) if start <= row + 1 and row + horizon < stop]
    if not expected:
        with pytest.raises(DataError, match="rows to forecast and one before them, found rows"):
            list(consecutive_windows(series, history, horizon=horizon))
        return
    actual = list(consecutive_windows(series, history, horizon=horizon))
    assert [row for window in actual for row in window.history[:, 0]] == expected
    assert all(len(window) == history for window in actual[:-1])
    for window in actual:
        for row, after in zip(window.history[:, 0], window.future(horizon, every_step=True)[..., 0], strict=True):
            assert after.tolist() == [row + step + 1 for step in range(horizon)]


def test_seasonal_forecast_repeats_the_last_season_or_value() -> None:
    (*_, window) = windows(counting(20), 4, horizon=5)
    assert window.seasonal_forecast(5, 3)[0, :, 0].tolist() == [12, 13, 14, 12, 13]
    assert window.seasonal_forecast(5, 1)[0, :, 1].tolist() == [114] * 5
    first = next(windows(counting(20), 2, horizon=3))
    assert first.seasonal_forecast(3, 4)[0, :, 0].tolist() == [1, 1, 0]
    (whole,) = consecutive_windows(counting(6), 0, horizon=2)
    assert whole.seasonal_forecast(2, 2, every_step=True)[..., 0].tolist() == [[0, 0], [0, 1], [1, 2], [2, 3]]


def test_last_window() -> None:
    assert last_window(counting(9), 4).history[:, 0].tolist() == [5, 6, 7, 8]
    assert last_window(counting(9, stop=6), 4).history[:, 0].tolist() == [2, 3, 4, 5]
    assert last_window(counting(3), 4).history[:, 0].tolist() == [0, 1, 2]
    assert len(last_window(counting(9), 0)) == 9
    assert not last_window(counting(9), 4).known


def test_differences_do_not_cross_parts() -> None:
    parts = [np.array([[1.0], [3.0], [6.0]]), np.array([[100.0], [110.0]])]
    assert differences(parts, 1).tolist() == [[2], [3], [10]]
    assert differences(parts, 2).tolist() == [[5]]


def test_arrays_as_series() -> None:
    first, second = sequences([np.array([1.0, 2.0]), [[3.0], [4.0], [5.0]]])
    assert first.values.tolist() == [[1], [2]]
    assert second.values.tolist() == [[3], [4], [5]]
    assert second.location == Location("input", 2)
    (named,) = sequences([np.ones((3, 2))], columns=("load", "oil"))
    assert named.names == ("load", "oil")
    (chosen,) = sequences([[[1.0, 2.0, 3.0]]], columns=("3", "1"))
    assert chosen.values.tolist() == [[3, 1]]


@pytest.mark.parametrize(
    ("array", "message"),
    [
        ("abc", "input:1: expected an array of numbers, found str"),
        ([[1.0], [float("nan")]], "input:1: step 1: a value is missing or infinite"),
        (np.ones((1, 2, 3)), r"input:1: expected numbers \(time, columns\), found shape \(1, 2, 3\)"),
        ([], r"input:1: expected numbers \(time, columns\), found shape \(0, 1\)"),
        (np.ones((4, 2)), r"input:1: expected 3 columns \(a, b, c\), found 2"),
    ],
)
def test_invalid_arrays_are_errors(array: object, message: str) -> None:
    with pytest.raises(DataError, match=message):
        list(sequences([array], columns=("a", "b", "c")))


def test_range_of_many_series_selects_series(tmp_path: Path) -> None:
    write_npz(tmp_path / "x.npz", [np.full((length, 2), length) for length in (2, 3, 4, 5)])
    assert [len(series.values) for series in sequences(tmp_path / "x.npz")] == [2, 3, 4, 5]
    assert [len(series.values) for series in sequences(tmp_path / "x.npz[0.5:1]")] == [4, 5]
    assert [len(series.values) for series in sequences(tmp_path / "x.npz[:-1]")] == [2, 3, 4]


def test_the_index_of_a_frame_is_the_time_axis() -> None:
    pandas = pytest.importorskip("pandas")
    months = pandas.date_range("2020-01-01", periods=12, freq="MS", name="month")
    frame = pandas.DataFrame({"sales": range(12, 0, -1)}, index=months)
    for source in (frame, frame.to_period("M"), as_source(frame["sales"])):
        series = table(source)
        assert series.names == ("sales",)
        assert series.axis is not None
        assert series.axis.describe().startswith("time axis from the index 'month' (2020-01 to 2020-12, every month)")
        assert last_window(series, 4).time_stamps(1) == ["2021-01"]
    gap = table(frame.drop(index=months[3])).axis
    assert gap is not None
    assert gap.irregularities().gaps == [3]
    assert table(frame, date=()).axis is None
    assert list(frame.columns) == ["sales"]
    numbered = frame.reset_index(drop=True).sample(frac=1, random_state=0)
    assert table(numbered).axis is None
    unnamed = as_source(frame["sales"].rename(None))
    assert table(unnamed, columns=("sales",)).names == ("sales",)
    by_year = pandas.DataFrame({"x": [3, 1, 2, 5]}, index=pandas.Index([1990, 1991, 1992, 1993], name="year"))
    assert last_window(table(by_year), 4).time_stamps(1) == ["1994"]


@pytest.mark.parametrize("last", ["Total,27", ",27", "04/01/2022,27"])
def test_a_row_without_a_date_after_dates_is_an_error(tmp_path: Path, last: str) -> None:
    path = tmp_path / "x.csv"
    rows = "".join(f"2022-01-{day:02},{day}\n" for day in range(1, 10))
    path.write_text(f"date,sales\n{rows}{last}\n")
    found = last.partition(",")[0]
    with pytest.raises(DataError) as error:
        table(path)
    assert f"x.csv:11: column 'date': expected a date as in the 9 rows before, found {found!r}; " in str(error.value)
    values = table(path, columns=("sales",), date=()).values
    assert values[-1] == 27


def test_names_of_rows_are_no_dates(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("week,sales\nfirst,1\nsecond,2\nthird,3\nTotal,6\n")
    assert table(path).names == ("sales",)


@pytest.mark.parametrize(("value", "unit"), [("$5.{}", "$"), ("5.{}%", "%"), ("EUR 1,00{}", "EUR"), ("{} kg", "kg")])
def test_numbers_with_a_unit_are_no_names(tmp_path: Path, value: str, unit: str) -> None:
    path = tmp_path / "x.tsv"
    rows = "".join(f"2022-01-{day:02}\t{value.format(day)}\n" for day in range(1, 10))
    path.write_text(f"date\tsales\n{rows}")
    with pytest.raises(DataError) as error:
        table(path)
    assert "column 'sales' holds numbers with a unit (" in str(error.value)
    assert str(error.value).endswith(f"; remove {unit!r} from its values")
