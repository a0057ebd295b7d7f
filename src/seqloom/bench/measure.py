"""How things are measured: contestants take turns in one process, and only ratios count."""

import math
import statistics
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

Contestant = Callable[[], object]


@dataclass(frozen=True)
class Timing:
    """Seconds for one call."""

    median: float
    minimum: float


@dataclass(frozen=True)
class Result:
    """One comparison. A ratio above 1 means that ours is better."""

    case: str
    unit: str
    threads: int
    ours: float  # the median
    peer: float
    peer_name: str
    ratio: float
    goal: float | None
    limit: float | None  # what ours could be at best, in the same unit
    ours_best: float  # the minimum of times, the maximum of rates
    peer_best: float


def take_turns(contestants: Mapping[str, Contestant], *, repetitions: int, warm_up: int = 2) -> dict[str, Timing]:
    """Time all contestants, one call each in turn, so that whatever else the machine does hits them alike."""
    for contestant in contestants.values():
        for _ in range(warm_up):
            contestant()
    times: dict[str, list[float]] = {name: [] for name in contestants}
    for _ in range(repetitions):
        for name, contestant in contestants.items():
            start = time.perf_counter()
            contestant()
            times[name].append(time.perf_counter() - start)
    return {name: Timing(statistics.median(found), min(found)) for name, found in times.items()}


def compare_times(
    case: str,
    threads: int,
    ours: Timing,
    peer: Timing,
    peer_name: str,
    *,
    goal: float | None = None,
    limit: float | None = None,
) -> Result:
    """A comparison of times, in milliseconds."""
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


def summarise(case: str, results: Iterable[Result], *, goal: float | None) -> Result:
    """The geometric mean of ratios, and of the ratios that the limits would give."""
    chosen = list(results)
    ratio = geometric_mean(result.ratio for result in chosen)
    best = geometric_mean(result.peer_best / result.ours_best for result in chosen)
    limits = [result.peer / result.limit for result in chosen if result.limit is not None]
    return Result(
        case=f"geometric mean: {case}",
        unit="times as fast",
        threads=chosen[0].threads,
        ours=ratio,
        peer=1.0,
        peer_name=chosen[0].peer_name,
        ratio=ratio,
        goal=goal,
        limit=geometric_mean(limits) if limits else None,
        ours_best=best,
        peer_best=1.0,
    )


def geometric_mean(values: Iterable[float]) -> float:
    logarithms = [math.log(value) for value in values]
    return math.exp(sum(logarithms) / len(logarithms))
