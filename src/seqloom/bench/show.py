"""Results of a benchmark as they come, then its goals in a table; or all of them as JSON."""

import json
from collections.abc import Iterable
from dataclasses import asdict

import torch

from seqloom import terminal
from seqloom.bench.measure import Result
from seqloom.info import collect


def show(measured: Iterable[Result], *, as_json: bool) -> None:
    """Print everything; the number of threads is as it was before."""
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
    versions = ", ".join(f"{name} {version}" for name, version in collect().versions.items())
    print(f"\nMedians of interleaved calls; ratio > 1: ours is better. {versions}")
    named = [result for result in results if result.goal is not None]
    rows = [(describe_case(result), f"{result.ratio:.2f}", f"{result.goal:.2f}", _verdict(result)) for result in named]
    terminal.table(("case", "ratio", "goal", ""), rows)


def describe_case(result: Result) -> str:
    return f"{result.case}, {result.threads} thread{'s' * (result.threads > 1)}, against {result.peer_name}"


def describe(result: Result) -> str:
    limit = "" if result.limit is None else f", limit {result.limit:.4g}"
    return (
        f"{describe_case(result)}: {result.ratio:.2f} "
        f"({result.ours:.4g} against {result.peer:.4g} {result.unit}{limit})"
    )


def _verdict(result: Result) -> str:
    return "reached" if result.goal is not None and result.ratio >= result.goal else "missed"
