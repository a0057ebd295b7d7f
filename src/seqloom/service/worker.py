"""One thread that computes for a model: inputs that wait at the same time are computed in one batch."""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

Result = TypeVar("Result")
Compute = Callable[[Sequence[Any]], list[Any]]
"""Examples → one answer for each."""


class Overloaded(Exception):
    """More inputs wait than the service accepts; the client should try again later."""


@dataclass(frozen=True)
class Job:
    """The examples of one request."""

    compute: Compute
    examples: Sequence[Any]
    answers: "asyncio.Future[list[Any]]"


class Worker:
    """Answers jobs in the order of their arrival. Jobs with the same ``compute`` share a batch.

    An answer does not depend on the rest of its batch, so that sharing changes no answer, only the speed.
    """

    def __init__(self, *, max_batch: int, max_wait: float, max_queue: int) -> None:
        self.max_batch, self.max_wait, self.max_queue = max_batch, max_wait, max_queue
        self.batch_sizes: Callable[[int], None] = lambda _: None  # called with the size of each batch
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="seqloom-worker")
        self._jobs: deque[Job] = deque()
        self._calls = 0  # that wait or run
        self._arrived = asyncio.Event()
        self._closing = False
        self.is_computing = False
        """Whether the thread is busy; it cannot be interrupted."""

    @property
    def waiting(self) -> int:
        """The number of inputs and calls that wait."""
        return sum(len(job.examples) for job in self._jobs) + self._calls

    async def predict(self, compute: Compute, examples: Sequence[Any]) -> list[Any]:
        """The answers for some examples; Overloaded if too many wait already."""
        if not examples:
            return []
        self.admit(len(examples))
        job = Job(compute, examples, asyncio.get_running_loop().create_future())
        self._jobs.append(job)
        self._arrived.set()
        return await job.answers

    async def call(self, function: Callable[..., Result], *arguments: Any, admitted: bool = False) -> Result:
        """The result of a function that runs between two batches; Overloaded if too many wait already.

        ``admitted``: it continues what has begun, and is not refused.
        """
        if not admitted:
            self.admit(1)
        self._calls += 1
        try:
            return await self._run_in_thread(function, *arguments)
        finally:
            self._calls -= 1

    async def _run_in_thread(self, function: Callable[..., Result], *arguments: Any) -> Result:
        def run() -> Result:
            self.is_computing = True
            try:
                return function(*arguments)
            finally:
                self.is_computing = False

        return await asyncio.get_running_loop().run_in_executor(self._thread, run)

    def admit(self, count: int) -> None:
        """Raise Overloaded if this number of further inputs cannot wait."""
        if self._closing or self.waiting + count > self.max_queue:
            raise Overloaded

    async def run(self) -> None:
        """Compute batches until the task is cancelled."""
        try:
            while True:
                await self._arrived.wait()
                await self._collect()
                jobs = self._take()
                if jobs:
                    await self._compute(jobs)
                if not self._jobs:
                    self._arrived.clear()
        finally:
            self.close()

    def close(self) -> None:
        """Accept no more jobs; those that wait are cancelled."""
        self._closing = True
        for job in self._jobs:
            job.answers.cancel()
        self._jobs.clear()
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def _collect(self) -> None:
        """Wait a moment for further inputs, unless there are enough for a batch."""
        loop = asyncio.get_running_loop()
        end = loop.time() + self.max_wait
        while sum(len(job.examples) for job in self._jobs) < self.max_batch and (left := end - loop.time()) > 0:
            self._arrived.clear()
            try:
                await asyncio.wait_for(self._arrived.wait(), left)
            except TimeoutError:
                self._arrived.set()
                return
        self._arrived.set()

    def _take(self) -> list[Job]:
        """The next jobs that fit into one batch; a job with more inputs than that is computed alone."""
        jobs: list[Job] = []
        size = 0
        while self._jobs:
            job = self._jobs[0]
            if job.answers.cancelled():  # the client has gone
                self._jobs.popleft()
                continue
            if jobs and (job.compute != jobs[0].compute or size + len(job.examples) > self.max_batch):
                break
            jobs.append(self._jobs.popleft())
            size += len(job.examples)
        return jobs

    async def _compute(self, jobs: list[Job]) -> None:
        examples = [example for job in jobs for example in job.examples]
        self.batch_sizes(len(examples))
        try:
            answers = await self._run_in_thread(jobs[0].compute, examples)
        except Exception as error:  # noqa: BLE001  passed on to the requests, each to its own
            if len(jobs) == 1:
                if not jobs[0].answers.cancelled():
                    jobs[0].answers.set_exception(error)
                return
            for job in jobs:  # one of them is to blame: the others get their answers
                await self._compute([job])
            return
        start = 0
        for job in jobs:
            if not job.answers.cancelled():
                job.answers.set_result(answers[start : start + len(job.examples)])
            start += len(job.examples)
