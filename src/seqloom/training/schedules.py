"""Learning rate schedules: the share of the peak learning rate as a function of how far training has got."""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple


class SchedulePoint(NamedTuple):
    """How far training has got."""

    update: float  # the next one, from 0; fractional where the learning rate changes within an update
    total_updates: float  # expected; 0: not known yet
    epoch: float  # with its fraction
    scores: Sequence[float]  # of the evaluations so far, higher is better


class ScheduleOptions(NamedTuple):
    """Options of the schedules."""

    warmup: int = 0  # updates of linear warm-up from zero
    decay: float = 0.5  # factor of each decay, or final share of the learning rate
    decay_after_epochs: float = 0  # step: epochs before the first decay
    plateau_patience: int = 1  # plateau: evaluations without improvement before a decay


def constant(point: SchedulePoint, options: ScheduleOptions) -> float:  # noqa: ARG001
    """Always 1."""
    return 1.0


def cosine(point: SchedulePoint, options: ScheduleOptions) -> float:
    """Half a cosine from 1 down to ``decay``."""
    return options.decay + (1 - options.decay) * (1 + math.cos(math.pi * _fraction_done(point, options))) / 2


def linear(point: SchedulePoint, options: ScheduleOptions) -> float:
    """Linearly from 1 down to ``decay``."""
    return 1 - (1 - options.decay) * _fraction_done(point, options)


def _fraction_done(point: SchedulePoint, options: ScheduleOptions) -> float:
    """The fraction of the updates after the warm-up that are done; 0 while their number is not known."""
    if not point.total_updates:
        return 0.0
    return min(max((point.update - options.warmup) / max(point.total_updates - options.warmup, 1), 0.0), 1.0)


def inverse_root(point: SchedulePoint, options: ScheduleOptions) -> float:
    """1 / √update, reaching 1 at the end of the warm-up (Vaswani et al. 2017)."""
    return math.sqrt(max(options.warmup, 1) / max(point.update, options.warmup, 1))


def step(point: SchedulePoint, options: ScheduleOptions) -> float:
    """Multiplied by ``decay`` in every epoch after the first ``decay_after_epochs`` (Zaremba et al. 2014)."""
    return float(options.decay ** max(math.floor(point.epoch) + 1 - options.decay_after_epochs, 0))


def plateau(point: SchedulePoint, options: ScheduleOptions) -> float:
    """Multiplied by ``decay`` after every ``plateau_patience`` evaluations in a row without improvement."""
    best, waited, factor = -math.inf, 0, 1.0
    for score in point.scores:
        best, waited = (score, 0) if score > best else (best, waited + 1)
        if waited == options.plateau_patience:
            factor, waited = factor * options.decay, 0
    return factor


SCHEDULES: dict[str, Callable[[SchedulePoint, ScheduleOptions], float]] = {
    function.__name__: function for function in (constant, cosine, linear, inverse_root, step, plateau)
}
NEED_TOTAL_UPDATES = {"cosine", "linear"}


def factor(name: str, point: SchedulePoint, options: ScheduleOptions) -> float:
    """The factor of the peak learning rate: the named schedule, after a linear warm-up."""
    warmup = min((point.update + 1) / options.warmup, 1.0) if options.warmup else 1.0
    return warmup * SCHEDULES[name](point, options)
