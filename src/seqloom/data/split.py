"""A share of the training examples held out, the same one at every reading."""

from collections.abc import Callable, Iterator
from random import Random
from typing import Any

Read = Callable[[], Iterator[Any]]


def hold_out(
    read: Read,
    share: float,
    *,
    seed: int,
    sequential: bool,  # hold out the last part, not a random one
    gap: int = 0,  # examples before the last part that belong to neither: they overlap with it
) -> tuple[Read, Read]:  # to train, to develop
    """Two readers of one source: the examples that stay, and those that are held out. Nothing is kept in memory."""
    if sequential:
        total = sum(1 for _ in read())
        border = min(max(round(total * (1 - share)), 1), total - 1)
        return lambda: _between(read(), 0, border - gap), lambda: _between(read(), border, total)
    return lambda: _chosen(read(), share, seed, wanted=False), lambda: _chosen(read(), share, seed, wanted=True)


def _between(examples: Iterator[Any], start: int, stop: int) -> Iterator[Any]:
    for index, example in enumerate(examples):
        if index >= stop:
            return
        if index >= start:
            yield example


def _chosen(examples: Iterator[Any], share: float, seed: int, *, wanted: bool) -> Iterator[Any]:
    random = Random(seed)  # noqa: S311  a choice, not a secret
    for example in examples:
        if (random.random() < share) is wanted:
            yield example
