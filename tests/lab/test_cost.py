"""Counted operations against formulas, and the verdict on made-up counts."""

import pytest

from seqloom.lab.cost import ATTENTION, GRU, LAYERS, LSTM, Cost, Measurement, count_operations, crossing, exponent

SMALL = Cost(width=8, heads=2, window=4)


def measurements(powers: dict[str, float]) -> list[Measurement]:
    return [
        Measurement(layer, 8, length, round(1000 * length ** powers.get(layer, 1)), 0)
        for layer in LAYERS
        for length in (100, 200, 400)
    ]


@pytest.mark.parametrize(
    ("powers", "status"),
    [
        ({ATTENTION: 2}, "holds"),
        ({ATTENTION: 1.95}, "holds"),
        ({ATTENTION: 1.5}, "does not hold here"),
        ({ATTENTION: 2, LSTM: 2}, "does not hold here"),
        ({ATTENTION: 2, GRU: 1.2}, "does not hold here"),
    ],
)
def test_the_verdict_follows_the_rule(powers: dict[str, float], status: str) -> None:
    assert SMALL.verdict(measurements(powers)).status == status


def test_the_exponent_compares_the_longest_with_half_of_it() -> None:
    rows = [Measurement(LSTM, 8, length, operations, 0) for length, operations in ((50, 7), (100, 10), (200, 80))]
    assert exponent(rows, LSTM).value == pytest.approx(3)


@pytest.mark.parametrize("length", [1, 7, 30])
def test_operations_are_those_of_the_equations(length: int) -> None:
    width = SMALL.width
    products = 2 * width * width  # of a matrix and a vector
    assert count_operations(SMALL._build(LSTM), length) == length * 8 * products
    assert count_operations(SMALL._build(GRU), length) == length * 6 * products
    scores_and_sums = 2 * 2 * length**2 * width
    assert count_operations(SMALL._build(ATTENTION), length) == length * 12 * products + scores_and_sums
    (row,) = SMALL._measure(ATTENTION, length)
    assert row.pairs == scores_and_sums


def test_pairs_cost_as_much_as_the_rest_at_six_times_the_width() -> None:
    rows = [row for length in (47, 48, 49) for row in SMALL._measure(ATTENTION, length)]
    assert crossing(rows) == 47
    assert [row.pairs * 2 == row.operations for row in rows] == [False, True, False]
    assert crossing(rows[1:]) is None
