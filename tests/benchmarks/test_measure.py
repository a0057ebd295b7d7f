"""Interleaving, comparisons and means; nothing here depends on how long anything takes."""

import math

import pytest

from benchmarks.measure import (
    Timing,
    compare_costs,
    compare_rates,
    compare_times,
    geometric_mean,
    interleave,
    summarise,
)


def test_calls_are_interleaved() -> None:
    calls: list[str] = []
    timings = interleave({"a": lambda: calls.append("a"), "b": lambda: calls.append("b")}, repetitions=3, warm_up=1)
    assert calls == ["a", "b", *["a", "b"] * 3]
    assert set(timings) == {"a", "b"}
    assert all(0 <= timing.minimum <= timing.median for timing in timings.values())


def test_a_ratio_above_one_means_that_we_are_better() -> None:
    ours, peer = Timing(median=0.002, minimum=0.001), Timing(median=0.006, minimum=0.004)
    result = compare_times("case", 2, ours=ours, peer=peer, peer_name="theirs", goal=1.5, limit=0.0015)
    assert (result.ours, result.peer, result.unit) == (2.0, 6.0, "ms")
    assert result.ratio == pytest.approx(3.0)
    assert result.limit == pytest.approx(1.5)
    assert (result.ours_best, result.peer_best) == (1.0, 4.0)
    rates = compare_rates("case", 2, items=12, unit="tokens/s", ours=ours, peer=peer, peer_name="theirs")
    assert (rates.ours, rates.peer, rates.ours_best, rates.peer_best) == pytest.approx((6000, 2000, 12000, 3000))
    assert rates.ratio == pytest.approx(3.0)
    costs = compare_costs("case", 2, unit="MB", ours=50.0, peer=60.0, peer_name="theirs")
    assert costs.ratio == pytest.approx(1.2)


def test_summary_is_the_geometric_mean_of_ratios_and_of_limits() -> None:
    one = Timing(1.0, 1.0)
    quick = compare_times("one", 1, ours=one, peer=Timing(2.0, 2.0), peer_name="theirs", limit=0.5)
    slow = compare_times("two", 1, ours=one, peer=Timing(8.0, 8.0), peer_name="theirs", limit=0.5)
    mean = summarise("all", [quick, slow], goal=1.5)
    assert mean.ratio == pytest.approx(4.0)
    assert mean.limit == pytest.approx(math.sqrt(4.0 * 16.0))
    assert (mean.goal, mean.threads, mean.peer_name) == (1.5, 1, "theirs")


def test_geometric_mean() -> None:
    assert geometric_mean([0.5, 2.0, 1.0]) == pytest.approx(1.0)
