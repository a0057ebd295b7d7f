"""The first Ctrl-C sets a flag, the second has its usual effect."""

import os
import signal
import sys
import threading

import pytest

from seqloom.interrupt import SIGNALS, interruptible


def test_the_first_signal_sets_the_flag_and_the_second_is_not_caught() -> None:
    with interruptible() as interrupted:
        assert not interrupted()
        os.kill(os.getpid(), signal.SIGINT)
        assert interrupted()
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)


@pytest.mark.parametrize("number", SIGNALS)
def test_handlers_are_restored(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    with interruptible():
        assert signal.getsignal(number) is not before
    assert signal.getsignal(number) is before


@pytest.mark.parametrize("number", SIGNALS)
def test_each_signal_sets_the_flag(number: signal.Signals) -> None:
    with interruptible() as interrupted:
        os.kill(os.getpid(), number)
        assert interrupted()


@pytest.mark.skipif(sys.platform == "win32", reason="has no SIGHUP")
def test_a_hangup_stays_ignored_after_nohup() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with interruptible() as interrupted:
            os.kill(os.getpid(), signal.SIGHUP)
            assert not interrupted()
    finally:
        signal.signal(signal.SIGHUP, before)


def test_other_threads_receive_no_signals() -> None:
    flags: list[bool] = []

    def work() -> None:
        with interruptible() as interrupted:
            flags.append(interrupted())

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert flags == [False]
