"""Whether a call that is made again and again runs on one thread or on all of them."""

import math

RETRY = 20.0
"""After a call on all threads that was slow, one thread works for this many times its duration: trying costs 5 %."""

MEASURED = 3
"""Calls on one thread before the first one on all of them."""


class ThreadChoice:
    """The faster of the two, by the times of earlier calls.

    Threads that share the work of each step wait for each other at each step. While other processes use the cores,
    that can take a hundred times as long as one thread does.
    """

    def __init__(self) -> None:
        self._measured = 0
        self._alone = math.inf  # seconds of a call on one thread
        self._wait = 0.0  # seconds until the next call on all threads

    def use_all(self) -> bool:
        """Whether the next call should run on all threads."""
        return self._wait <= 0 and self._measured >= MEASURED

    def record(self, seconds: float, *, used_all: bool) -> None:
        """Remember the time of a call."""
        if not used_all:
            self._measured += 1
            self._wait -= seconds
            self._alone = min(seconds, 1.02 * self._alone)  # follows a machine that gets slower
        elif seconds > self._alone:
            self._wait = RETRY * seconds
