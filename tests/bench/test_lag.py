"""Decisions before the end cost something, and less the later they are."""

from seqloom.bench import emissions
from seqloom.bench.lag import errors, scene


def test_a_long_lag_costs_nothing_and_a_short_one_much() -> None:
    made = scene(words=200, sentences=100)
    for guide in made.guides.values():
        free, late, soon = errors(made, guide, emissions.FLAT, lags=(0, 200, 2), count=3, frames=200)
        assert free == late <= soon
