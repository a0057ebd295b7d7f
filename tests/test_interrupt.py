"""The first Ctrl-C sets a flag, the second has its usual effect."""

import os
import signal
import threading

import pytest

from seqloom.interrupt import interruptible


def test_the_first_signal_sets_the_flag_and_the_second_is_not_caught() -> None:
    with interruptible() as interrupted:
        assert not interrupted()
        os.kill(os.getpid(), signal.SIGINT)
        assert interrupted()
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_handlers_are_restored(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    with interruptible():
        assert signal.getsignal(number) is not before
    assert signal.getsignal(number) is before


def test_sigterm_sets_the_flag() -> None:
    with interruptible() as interrupted:
        os.kill(os.getpid(), signal.SIGTERM)
        assert interrupted()


def test_other_threads_receive_no_signals() -> None:
    flags: list[bool] = []

    def work() -> None:
        with interruptible() as interrupted:
            flags.append(interrupted())

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert flags == [False]
