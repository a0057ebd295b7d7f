"""Schedules: the learning rate as a share of its highest value, a function of how far the training is."""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple


class Moment(NamedTuple):
    """How far the training is."""

    update: float  # the one that comes next, from 0; of lessons with its fraction
    updates: float  # in all, as far as is known by now; 0: not at all
    epoch: float  # with its fraction
    scores: Sequence[float]  # of the evaluations so far, better when higher


class Shape(NamedTuple):
    """What the schedules can be told."""

    warmup: int = 0  # updates over which the rate rises from zero
    decay: float = 0.5  # what the rate is multiplied by, or goes down to
    decay_after: float = 0  # epochs before the first step down
    decay_wait: int = 1  # evaluations without a better score before a plateau ends


def constant(moment: Moment, shape: Shape) -> float:  # noqa: ARG001
    """1, all the time."""
    return 1.0


def cosine(moment: Moment, shape: Shape) -> float:
    """Half a cosine from 1 down to ``decay``."""
    return shape.decay + (1 - shape.decay) * (1 + math.cos(math.pi * _done(moment, shape))) / 2


def linear(moment: Moment, shape: Shape) -> float:
    """Straight from 1 down to ``decay``."""
    return 1 - (1 - shape.decay) * _done(moment, shape)


def _done(moment: Moment, shape: Shape) -> float:
    """The share of the way from the warm-up to the end; 0 while the end is not known at all."""
    if not moment.updates:
        return 0.0
    return min(max((moment.update - shape.warmup) / max(moment.updates - shape.warmup, 1), 0.0), 1.0)


def inverse_root(moment: Moment, shape: Shape) -> float:
    """1 / √update, reaching 1 at the end of the warm-up (Vaswani et al. 2017)."""
    return math.sqrt(max(shape.warmup, 1) / max(moment.update, shape.warmup, 1))


def step(moment: Moment, shape: Shape) -> float:
    """Multiplied by ``decay`` at the start of every epoch after the first ``decay_after`` (Zaremba et al. 2014)."""
    return float(shape.decay ** max(math.floor(moment.epoch) + 1 - shape.decay_after, 0))


def plateau(moment: Moment, shape: Shape) -> float:
    """Multiplied by ``decay`` whenever ``decay_wait`` evaluations have brought nothing better."""
    best, waited, factor = -math.inf, 0, 1.0
    for score in moment.scores:
        best, waited = (score, 0) if score > best else (best, waited + 1)
        if waited == shape.decay_wait:
            factor, waited = factor * shape.decay, 0
    return factor


SCHEDULES: dict[str, Callable[[Moment, Shape], float]] = {
    function.__name__: function for function in (constant, cosine, linear, inverse_root, step, plateau)
}
NEED_THE_END = {"cosine", "linear"}


def factor(name: str, moment: Moment, shape: Shape) -> float:
    """What the rate is multiplied by at a moment: the schedule of that name, after a linear warm-up."""
    rise = min((moment.update + 1) / shape.warmup, 1.0) if shape.warmup else 1.0
    return rise * SCHEDULES[name](moment, shape)
