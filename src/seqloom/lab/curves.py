"""Measurements as curves: the values of all seeds by name and by number on the x-axis, for figures and tables."""

from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean
from typing import Any

from seqloom.lab.experiment import Table

Curves = Mapping[str, Mapping[Any, Sequence[float]]]
"""The values of all seeds, by curve and by number on the x-axis."""


def collect_curves(points: Iterable[tuple[str, Any, float]]) -> dict[str, dict[Any, list[float]]]:
    """Curves from the name, the number on the x-axis and the value of each measurement, in the order of the names."""
    curves: dict[str, dict[Any, list[float]]] = {}
    for name, x, value in points:
        curves.setdefault(name, {}).setdefault(x, []).append(value)
    return curves


def curve_table(heading: str, curves: Curves, *, form: str = ".0%") -> Table:
    """A row for each curve with the mean over seeds at each number; ``form`` is a format such as .1%."""
    numbers = sorted({x for points in curves.values() for x in points})
    rows = [[name, *(format(fmean(points[x]), form) for x in numbers)] for name, points in curves.items()]
    return [heading, *(f"{x:g}" for x in numbers)], rows
