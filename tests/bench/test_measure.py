"""Turns, comparisons and means of benchmarks; nothing here depends on how long anything takes."""

import math

import pytest

from seqloom.bench.measure import Timing, compare_times, geometric_mean, summarise, take_turns


def test_contestants_take_turns() -> None:
    calls: list[str] = []
    timings = take_turns({"a": lambda: calls.append("a"), "b": lambda: calls.append("b")}, repetitions=3, warm_up=1)
    assert calls == ["a", "b", *["a", "b"] * 3]
    assert set(timings) == {"a", "b"}
    assert all(0 <= timing.minimum <= timing.median for timing in timings.values())


def test_a_ratio_above_one_means_that_ours_is_better() -> None:
    ours, peer = Timing(median=0.002, minimum=0.001), Timing(median=0.006, minimum=0.004)
    result = compare_times("case", 2, ours, peer, "theirs", goal=1.5, limit=0.0015)
    assert (result.ours, result.peer, result.unit) == (2.0, 6.0, "ms")
    assert result.ratio == pytest.approx(3.0)
    assert result.limit == pytest.approx(1.5)
    assert (result.ours_best, result.peer_best) == (1.0, 4.0)


def test_summary_is_the_geometric_mean_of_ratios_and_of_limits() -> None:
    quick = compare_times("one", 1, Timing(1.0, 1.0), Timing(2.0, 2.0), "theirs", limit=0.5)
    slow = compare_times("two", 1, Timing(1.0, 1.0), Timing(8.0, 8.0), "theirs", limit=0.5)
    mean = summarise("all", [quick, slow], goal=1.5)
    assert mean.ratio == pytest.approx(4.0)
    assert mean.limit == pytest.approx(math.sqrt(4.0 * 16.0))
    assert (mean.goal, mean.threads, mean.peer_name) == (1.5, 1, "theirs")


def test_geometric_mean() -> None:
    assert geometric_mean([0.5, 2.0, 1.0]) == pytest.approx(1.0)
