"""The counters of a training run."""

from seqloom.training.progress import Position, UpdateResult


def test_updates_advance_the_counters() -> None:
    plain = UpdateResult(6.0, 3, seen=3, processed=3, learning_rate=0.1, gradient_norm=1.0)
    first = Position().after(plain._replace(clipped=True), final=False)
    assert first == Position(batch=1, update=1, seen=3, summed=6.0, items=3, clipped=1, counted=1)
    skipped = first.after(plain._replace(finite=False), final=False)
    assert skipped == first._replace(batch=2, update=2, seen=6, counted=2, skipped=1, skipped_in_a_row=1)
    silent = skipped.after(plain._replace(loss=None), final=True)
    assert silent == skipped._replace(epoch=1, batch=0, update=3, seen=9, skipped_in_a_row=0)
    logged = silent.after_log_entry()
    assert logged == silent._replace(summed=0.0, items=0.0, clipped=0, counted=0)


def test_evaluations_since_the_best() -> None:
    scores = [(), (1.0,), (2.0, 1.0), (1.0, 2.0), (2.0, 2.0)]
    assert [Position(scores=each).evaluations_since_best() for each in scores] == [0, 0, 1, 0, 1]
