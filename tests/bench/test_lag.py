"""Decisions before the end cost something, and less the later they are."""

from seqloom.bench.emissions import Kind
from seqloom.bench.lag import errors, scene


def test_a_long_lag_costs_nothing_and_a_short_one_much() -> None:
    made, unsure = scene(words=200, sentences=100), Kind("unsure", 2.5, 1.0)
    for guide in made.guides.values():
        free, late, soon = errors(made, guide, unsure, lags=(0, 200, 2), count=8, frames=200)
        assert 0 < free == late < soon
