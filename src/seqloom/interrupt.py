"""Graceful interruption: Ctrl-C or SIGTERM sets a flag, so that training can save before it stops."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Interrupted(Exception):
    """Training was interrupted and saved; the argument is the folder to resume from."""


@contextmanager
def interruptible() -> Iterator[Callable[[], bool]]:
    """A function that tells whether SIGINT (Ctrl-C) or SIGTERM has arrived; a second signal has its usual effect.

    Signals reach only the main thread: in other threads the function returns False.
    """
    received = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield received.is_set
        return
    previous_handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def restore_handlers() -> None:
        for number, handler in previous_handlers.items():
            signal.signal(number, handler)

    def handle(number: int, frame: object) -> None:  # noqa: ARG001  signal's signature
        received.set()
        restore_handlers()

    for number in previous_handlers:
        signal.signal(number, handle)
    try:
        yield received.is_set
    finally:
        restore_handlers()
