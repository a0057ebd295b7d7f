"""Curves of measurements, and tables of them."""

from seqloom.lab.curves import collect_curves, curve_table


def test_values_are_collected_by_curve_and_number() -> None:
    points = [("b", 1, 0.5), ("a", 2, 0.1), ("b", 1, 0.7), ("b", 0, 0.2)]
    assert collect_curves(points) == {"b": {1: [0.5, 0.7], 0: [0.2]}, "a": {2: [0.1]}}
    assert list(collect_curves(points)) == ["b", "a"]


def test_a_table_has_the_means_in_the_order_of_the_numbers() -> None:
    curves = {"b": {10: [0.5, 0.75], 0.1: [0.2]}, "a": {0.1: [1.0], 10: [0.0]}}
    assert curve_table("right at", curves, form=".1%") == (
        ["right at", "0.1", "10"],
        [["b", "20.0%", "62.5%"], ["a", "100.0%", "0.0%"]],
    )
