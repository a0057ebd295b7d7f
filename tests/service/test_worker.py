import asyncio
import threading
from collections.abc import Sequence
from typing import Any

import pytest

from seqloom.service.worker import Overloaded, Worker


def double(examples: Sequence[int]) -> list[int]:
    return [2 * example for example in examples]


class Recorded:
    """A computation that waits until it is released, and remembers its batches."""

    def __init__(self) -> None:
        self.batches: list[list[Any]] = []
        self.release = threading.Event()

    def __call__(self, examples: Sequence[Any]) -> list[Any]:
        self.release.wait(10)
        self.batches.append(list(examples))
        if "bad" in examples:
            raise ValueError("bad input")
        return [f"<{example}>" for example in examples]


async def answers(worker: Worker, *requests: Any, release: threading.Event | None = None) -> list[Any]:
    """What each request gets: its answers, or its exception."""
    running = asyncio.create_task(worker.run())
    tasks = [asyncio.create_task(worker.predict(compute, examples)) for compute, examples in requests]
    await asyncio.sleep(0)
    if release is not None:
        release.set()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    running.cancel()
    return results


def worker(**changes: Any) -> Worker:
    return Worker(**({"max_batch": 4, "max_wait": 0.05, "max_queue": 10} | changes))


def test_requests_that_wait_together_are_one_batch() -> None:
    compute = Recorded()
    compute.release.set()
    requests = [(compute, ["a"]), (compute, ["b", "c"]), (compute, ["d"])]
    assert asyncio.run(answers(worker(), *requests)) == [["<a>"], ["<b>", "<c>"], ["<d>"]]
    assert compute.batches == [["a", "b", "c", "d"]]


def test_a_batch_has_a_maximum_size_and_one_computation() -> None:
    first, second = Recorded(), Recorded()
    first.release.set()
    second.release.set()
    requests = [(first, ["a", "b", "c"]), (first, ["d", "e"]), (second, ["f"]), (first, [*"ghijkl"])]
    results = asyncio.run(answers(worker(max_queue=20), *requests))
    assert [len(result) for result in results] == [3, 2, 1, 6]
    assert first.batches == [["a", "b", "c"], ["d", "e"], [*"ghijkl"]]
    assert second.batches == [["f"]]


def test_an_input_that_fails_does_not_fail_its_neighbours() -> None:
    compute = Recorded()
    compute.release.set()
    good, bad, other = asyncio.run(answers(worker(), (compute, ["a"]), (compute, ["bad"]), (compute, ["c"])))
    assert (good, other) == (["<a>"], ["<c>"])
    assert str(bad) == "bad input"


def test_too_many_inputs_are_refused_and_the_others_answered() -> None:
    compute = Recorded()
    requests = [(compute, [number]) for number in range(12)]
    results = asyncio.run(answers(worker(max_wait=0), *requests, release=compute.release))
    refused = [result for result in results if isinstance(result, Overloaded)]
    assert len(refused) == 2
    assert results[:10] == [[f"<{number}>"] for number in range(10)]


def test_a_call_runs_between_batches_and_counts_as_waiting() -> None:
    async def scenario() -> tuple[int, list[int], int]:
        one = worker(max_queue=1)
        running = asyncio.create_task(one.run())
        started, release = threading.Event(), threading.Event()

        def call() -> int:
            started.set()
            release.wait(10)
            return 7

        task = asyncio.create_task(one.call(call))
        await asyncio.to_thread(started.wait, 10)
        with pytest.raises(Overloaded):
            await one.call(lambda: 1)
        with pytest.raises(Overloaded):
            await one.predict(double, [1])
        further = asyncio.create_task(one.call(lambda: 8, admitted=True))
        release.set()
        result, other = await task, await further
        predictions = await one.predict(double, [4])
        running.cancel()
        return result, predictions, other

    assert asyncio.run(scenario()) == (7, [8], 8)


def test_a_client_that_has_gone_is_not_computed_for() -> None:
    compute = Recorded()

    async def scenario() -> None:
        one = worker(max_wait=0)
        running = asyncio.create_task(one.run())
        first = asyncio.create_task(one.predict(compute, ["a"]))
        await asyncio.sleep(0.01)
        gone = asyncio.create_task(one.predict(compute, ["gone"]))
        last = asyncio.create_task(one.predict(compute, ["b"]))
        await asyncio.sleep(0)
        gone.cancel()
        await asyncio.sleep(0)
        compute.release.set()
        await asyncio.gather(first, last)
        running.cancel()

    asyncio.run(scenario())
    assert compute.batches == [["a"], ["b"]]
