"""Ctrl-C as a wish: the work is brought to a point where it can be saved."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Interrupted(Exception):
    """The user wants to stop, and everything is saved in the run that this names."""


@contextmanager
def interruptible() -> Iterator[Callable[[], bool]]:
    """Turn the first Ctrl-C, or a polite request to end, into a wish that can be asked for; the second ends at once."""
    asked = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield asked.is_set
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def ask(number: int, frame: object) -> None:  # noqa: ARG001  signal's signature
        asked.set()
        for known, handler in before.items():
            signal.signal(known, handler)

    for number in before:
        signal.signal(number, ask)
    try:
        yield asked.is_set
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
