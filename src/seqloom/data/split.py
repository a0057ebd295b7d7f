"""Hold out a part of the training examples, the same one each time the data are read."""

from collections.abc import Callable, Iterator
from random import Random
from typing import Any

Read = Callable[[], Iterator[Any]]


def hold_out(
    read: Read,
    fraction: float,
    *,
    seed: int,
    sequential: bool,  # hold out the last examples instead of random ones
    gap: int = 0,  # examples before the last part that are dropped, since they overlap with it
) -> tuple[Read, Read]:  # train, dev
    """Two readers of one source, for the remaining and the held-out examples; nothing is kept in memory."""
    if sequential:
        total = sum(1 for _ in read())
        border = min(max(round(total * (1 - fraction)), 1), total - 1)
        return lambda: _between(read(), 0, border - gap), lambda: _between(read(), border, total)
    return (
        lambda: _random_part(read(), fraction, seed, held_out=False),
        lambda: _random_part(read(), fraction, seed, held_out=True),
    )


def _between(examples: Iterator[Any], start: int, stop: int) -> Iterator[Any]:
    for index, example in enumerate(examples):
        if index >= stop:
            return
        if index >= start:
            yield example


def _random_part(examples: Iterator[Any], fraction: float, seed: int, *, held_out: bool) -> Iterator[Any]:
    random = Random(seed)  # noqa: S311  not used for security
    for example in examples:
        if (random.random() < fraction) is held_out:
            yield example
