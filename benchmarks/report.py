"""Results printed while they are measured, followed by a table of the goals; or all of them as JSON."""

import json
from collections.abc import Iterable
from dataclasses import asdict

import torch

from benchmarks.measure import Result
from seqloom import terminal
from seqloom.info import machine_info


def print_results(measured: Iterable[Result], *, as_json: bool) -> None:
    """Measure and print; restores the number of torch threads at the end."""
    threads = torch.get_num_threads()
    results = []
    try:
        for result in measured:
            results.append(result)
            if not as_json:
                print(describe(result), flush=True)
    finally:
        torch.set_num_threads(threads)
    if as_json:
        print(json.dumps([asdict(result) for result in results], indent=1))
        return
    versions = ", ".join(f"{name} {version}" for name, version in machine_info().versions.items())
    print(f"\nMedians of interleaved calls. A ratio above 1 means that Seqloom is better. {versions}")
    rows = [
        (describe_case(result), result.peer_name, f"{result.ratio:.2f}", f"{result.goal:.2f}", verdict(result))
        for result in results
        if result.goal is not None
    ]
    terminal.table(("benchmark", "compared with", "ratio", "goal", ""), rows)


def describe_case(result: Result) -> str:
    return f"{result.case}, {count_threads(result.threads)}"


def describe(result: Result) -> str:
    """One line, for example ``LSTM, 1 thread: 1.11x nn.LSTM (15.6 vs 17.3 ms; limit 12.1 ms)``."""
    summary = f"{describe_case(result)}: {result.ratio:.2f}x {result.peer_name}"
    if result.unit == "times as fast":
        return summary if result.limit is None else f"{summary} (limit {result.limit:.2f}x)"
    limit = "" if result.limit is None else f"; limit {result.limit:.4g} {result.unit}"
    return f"{summary} ({result.ours:.4g} vs {result.peer:.4g} {result.unit}{limit})"


def count_threads(threads: int) -> str:
    return f"{threads} thread" if threads == 1 else f"{threads} threads"


def verdict(result: Result) -> str:
    return "reached" if result.goal is not None and result.ratio >= result.goal else "missed"
