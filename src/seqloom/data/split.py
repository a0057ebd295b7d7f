"""Hold out a part of the training examples, or one fold of them, the same one each time the data are read."""

from collections.abc import Callable, Iterator
from fractions import Fraction
from math import ceil
from random import Random
from typing import Any

Read = Callable[[], Iterator[Any]]

MAX_DENOMINATOR = 1_000_000  # of a fraction as people mean it: 0.1 is 1/10
SEED = 1
"""Not train.seed: trainings that differ only in it share their dev examples, so that scores compare and models can be
combined."""


def hold_out(
    read: Read,
    fraction: float,
    *,
    sequential: bool,  # hold out the last examples instead of random ones
    gap: int = 0,  # examples before the last part that are dropped, since they overlap with it
) -> tuple[Read, Read]:  # train, dev
    """Two readers of one source, for the remaining and the held-out examples; nothing is kept in memory."""
    if sequential:
        total = sum(1 for _ in read())
        border = _border(total, fraction)
        return lambda: _between(read(), 0, border - gap), lambda: _between(read(), border, total)
    return (
        lambda: _random_part(read(), fraction, held_out=False),
        lambda: _random_part(read(), fraction, held_out=True),
    )


def count_remaining(total: int, fraction: float, *, gap: int) -> int:
    """How many of ``total`` sequential examples remain for training if a fraction is held out."""
    return max(_border(total, fraction) - gap, 0)


def _border(total: int, fraction: float) -> int:
    """The first of the sequential examples that are held out."""
    return min(max(round(total * (1 - fraction)), 1), total - 1)


def hold_out_fold(
    read: Read,
    fold: int,  # from 1 to folds
    folds: int,
    *,
    sequential: bool,  # train on what comes before a fold only, as time goes
    gap: int = 0,  # sequential: examples before the fold that are dropped, since they overlap with it
    stratum: Callable[[Any], str] = lambda _: "",  # examples of a stratum, such as a label, are spread over all folds
) -> tuple[Read, Read]:  # train, dev
    """Two readers of one source, for the other examples and for those of a fold; each example is in one fold.

    Sequential examples are cut into ``folds`` + 1 parts: the first one is never held out.
    """
    if sequential:
        total = sum(1 for _ in read())
        start, stop = (total * part // (folds + 1) for part in (fold, fold + 1))
        return lambda: _between(read(), 0, start - gap), lambda: _between(read(), start, stop)

    def part(*, held_out: bool) -> Iterator[Any]:
        random = Random(folds)  # noqa: S311  not used for security
        remaining: dict[str, list[int]] = {}
        for example in read():
            numbers = remaining.setdefault(stratum(example), [])
            if not numbers:
                numbers.extend(range(1, folds + 1))
                random.shuffle(numbers)
            if (numbers.pop() == fold) is held_out:
                yield example

    return lambda: part(held_out=False), lambda: part(held_out=True)


def _between(examples: Iterator[Any], start: int, stop: int) -> Iterator[Any]:
    for index, example in enumerate(examples):
        if index >= stop:
            return
        if index >= start:
            yield example


def _random_part(examples: Iterator[Any], fraction: float, *, held_out: bool) -> Iterator[Any]:
    """One random example of each block of about 1 / fraction: the size of the part is within one of its share."""
    share = Fraction(fraction).limit_denominator(MAX_DENOMINATOR)
    if not share:
        yield from () if held_out else examples
        return
    random = Random(SEED)  # noqa: S311  not used for security
    block, stop, chosen = 0, 0, -1
    for index, example in enumerate(examples):
        if index == stop:
            start, block = stop, block + 1
            stop = ceil(block / share)
            # The first example is trained on, and a few examples suffice for one that is held out.
            chosen = random.randrange(start, stop) if start else random.randrange(1, max(stop // 2, 2))
        if (index == chosen) is held_out:
            yield example
