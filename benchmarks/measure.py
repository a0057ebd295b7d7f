"""Interleaved timing in one process, and the results that the benchmarks report as ratios."""

import math
import statistics
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

Call = Callable[[], object]
"""The piece of work that is timed."""


@dataclass(frozen=True)
class Timing:
    """Seconds per call."""

    median: float
    minimum: float


@dataclass(frozen=True)
class Result:
    """One comparison. A ratio above 1 means that Seqloom is better."""

    case: str
    unit: str
    threads: int
    ours: float  # median
    peer: float  # median
    peer_name: str
    ratio: float
    goal: float | None
    limit: float | None  # the best possible value of `ours`, in the same unit
    ours_best: float  # minimum of times, maximum of rates
    peer_best: float


def interleave(
    calls: Mapping[str, Call],
    *,
    repetitions: int,
    warm_up: int = 2,
    rest: float = 0.0,  # seconds before each call, in which threads that another library left spinning fall asleep
) -> dict[str, Timing]:
    """Time all calls in turn, one of each per round, so that other load on the machine affects all of them equally."""
    for call in calls.values():
        for _ in range(warm_up):
            call()
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(repetitions):
        for name, call in calls.items():
            time.sleep(rest)
            start = time.perf_counter()
            call()
            seconds[name].append(time.perf_counter() - start)
    return {name: Timing(statistics.median(values), min(values)) for name, values in seconds.items()}


def compare_times(
    case: str,
    threads: int,
    *,
    ours: Timing,
    peer: Timing,
    peer_name: str,
    goal: float | None = None,
    limit: float | None = None,  # seconds
) -> Result:
    """Compare times, in milliseconds."""
    return Result(
        case=case,
        unit="ms",
        threads=threads,
        ours=ours.median * 1e3,
        peer=peer.median * 1e3,
        peer_name=peer_name,
        ratio=peer.median / ours.median,
        goal=goal,
        limit=None if limit is None else limit * 1e3,
        ours_best=ours.minimum * 1e3,
        peer_best=peer.minimum * 1e3,
    )


def compare_rates(
    case: str,
    threads: int,
    *,
    items: int,  # processed by one call
    unit: str,
    ours: Timing,
    peer: Timing,
    peer_name: str,
    goal: float | None = None,
    limit: float | None = None,  # items per second
) -> Result:
    """Compare throughput, in items per second."""
    return Result(
        case=case,
        unit=unit,
        threads=threads,
        ours=items / ours.median,
        peer=items / peer.median,
        peer_name=peer_name,
        ratio=peer.median / ours.median,
        goal=goal,
        limit=limit,
        ours_best=items / ours.minimum,
        peer_best=items / peer.minimum,
    )


def compare_costs(
    case: str,
    threads: int,
    *,
    unit: str,
    ours: float,
    peer: float,
    peer_name: str,
    goal: float | None = None,
    limit: float | None = None,
) -> Result:
    """Compare single values of which less is better, such as memory."""
    return Result(
        case=case,
        unit=unit,
        threads=threads,
        ours=ours,
        peer=peer,
        peer_name=peer_name,
        ratio=peer / ours,
        goal=goal,
        limit=limit,
        ours_best=ours,
        peer_best=peer,
    )


def summarise(case: str, results: Iterable[Result], *, goal: float | None) -> Result:
    """The geometric mean of the ratios, and of the ratios at the limits."""
    results = list(results)
    ratio = geometric_mean(result.ratio for result in results)
    best = geometric_mean(result.peer_best / result.ours_best for result in results)
    limits = [result.peer / result.limit for result in results if result.limit is not None]
    return Result(
        case=f"geometric mean: {case}",
        unit="times as fast",
        threads=results[0].threads,
        ours=ratio,
        peer=1.0,
        peer_name=results[0].peer_name,
        ratio=ratio,
        goal=goal,
        limit=geometric_mean(limits) if limits else None,
        ours_best=best,
        peer_best=1.0,
    )


def geometric_mean(values: Iterable[float]) -> float:
    logarithms = [math.log(value) for value in values]
    return math.exp(sum(logarithms) / len(logarithms))
