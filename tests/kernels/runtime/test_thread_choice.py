from seqloom.kernels.runtime.thread_choice import MEASURED, RETRY, ThreadChoice


def measured(seconds: float) -> ThreadChoice:
    choice = ThreadChoice()
    for _ in range(MEASURED):
        assert not choice.use_all()
        choice.record(seconds, used_all=False)
    return choice


def test_faster_threads_are_used_again() -> None:
    choice = measured(2.0)
    for _ in range(10):
        assert choice.use_all()
        choice.record(1.1, used_all=True)


def test_after_a_slow_call_one_thread_works_for_a_while() -> None:
    choice = measured(2.0)
    choice.record(30.0, used_all=True)
    alone = 0
    while not choice.use_all():
        choice.record(2.0, used_all=False)
        alone += 1
    assert alone == RETRY * 30.0 / 2.0


def test_times_follow_a_machine_that_gets_slower() -> None:
    choice = measured(1.0)
    for _ in range(200):
        choice.record(4.0, used_all=False)
    choice.record(3.0, used_all=True)
    assert choice.use_all()
