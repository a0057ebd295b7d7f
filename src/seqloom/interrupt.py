"""Graceful interruption: Ctrl-C, SIGTERM or SIGHUP sets a flag, so that training can save before it stops."""

import errno
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

SIGNALS = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]


class Interrupted(Exception):
    """Training was interrupted and saved; the argument is the folder to resume from."""


@contextmanager
def interruptible() -> Iterator[Callable[[], bool]]:
    """A function that tells whether Ctrl-C, SIGTERM or SIGHUP has arrived; a second signal has its usual effect.

    Signals reach only the main thread: in other threads the function returns False. SIGHUP stays ignored after nohup.
    """
    received = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield received.is_set
        return
    previous_handlers = {number: signal.getsignal(number) for number in SIGNALS}
    if hasattr(signal, "SIGHUP") and previous_handlers[signal.SIGHUP] is signal.SIG_IGN:
        del previous_handlers[signal.SIGHUP]

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


def is_closed_output(error: OSError) -> bool:
    """Whether nobody reads any more what is printed: the pipe is closed, or the terminal is gone."""
    return isinstance(error, BrokenPipeError) or error.errno == errno.EIO


def discard_output() -> None:
    """Print nothing from now on, so that flushing closed streams at the exit of Python raises no error."""
    target = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.__stdout__, sys.__stderr__):
        if stream is not None:
            os.dup2(target, stream.fileno())
    os.close(target)
