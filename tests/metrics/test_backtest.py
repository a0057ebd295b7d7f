"""Tables of backtests."""

from seqloom.metrics.backtest import Backtest, columns_of, spread_rows


def test_rows_that_are_shown_start_dense_and_end_with_the_last() -> None:
    assert spread_rows(5, 12) == [0, 1, 2, 3, 4]
    rows = spread_rows(96, 12)
    assert rows[:3] == [0, 1, 2]
    assert rows[-1] == 95
    assert len(rows) <= 12
    assert rows == sorted(set(rows))


def test_json_and_columns() -> None:
    result = Backtest({"mae": 1.0, "per_step": {}}, [{"step": 1, "mae": 2.0}], [{"first": "2020", "mae": 3.0}], "drift")
    assert result.to_json() == {
        "scores": {"mae": 1.0},
        "horizon": [{"step": 1, "mae": 2.0}],
        "origins": [{"first": "2020", "mae": 3.0}],
        "baseline": "drift",
    }
    assert columns_of([{"a": 1}, {"a": 1, "b": 2}]) == ["a", "b"]
