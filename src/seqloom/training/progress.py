"""Events of a training run, as listeners receive them."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from torch import Tensor

from seqloom.checkpoint import Snapshot


class Evaluation(NamedTuple):
    """The result of an evaluation."""

    score: float  # higher is better
    metrics: dict[str, Any]
    metric: str  # the name of the metric that the score is taken from


@dataclass(frozen=True)
class Progress:
    """One update or one evaluation."""

    update: int  # updates so far
    updates: int | None  # expected in total; None: not known yet
    epoch: float  # epochs so far, with the fraction of the current one
    loss: float  # per item, mean over the updates since the last log entry
    learning_rate: float
    gradient_norm: float | None  # before clipping; None: no gradient was computed
    clipped: float  # share of the updates since the last log entry whose gradient was clipped
    items: int  # processed in this update; 0 for an evaluation
    skipped: int  # updates skipped so far because the gradient was not finite
    logged: bool  # a log entry ends here
    pending: bool  # an evaluation comes next
    evaluation: Evaluation | None
    best: bool  # no earlier evaluation had a higher score
    finished: str  # why training stops here; empty: it continues
    snapshot: Callable[[], Snapshot]  # everything needed to resume from here; call it before the next event
    weights: Callable[[], dict[str, Tensor]]  # the weights that are evaluated; call it before the next event
    unit: str = "items"  # what `items` counts
