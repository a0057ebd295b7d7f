"""The first Ctrl-C is a wish, the second an end."""

import os
import signal
import threading

import pytest

from seqloom.interrupt import interruptible


def test_the_first_signal_is_a_wish_and_the_second_is_not_caught() -> None:
    with interruptible() as asked:
        assert not asked()
        os.kill(os.getpid(), signal.SIGINT)
        assert asked()
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_handlers_are_as_before(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    with interruptible():
        assert signal.getsignal(number) is not before
    assert signal.getsignal(number) is before


def test_a_polite_request_to_end_is_a_wish_too() -> None:
    with interruptible() as asked:
        os.kill(os.getpid(), signal.SIGTERM)
        assert asked()


def test_other_threads_have_no_signals() -> None:
    found: list[bool] = []

    def work() -> None:
        with interruptible() as asked:
            found.append(asked())

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == [False]
