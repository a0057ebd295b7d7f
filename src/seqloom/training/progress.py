"""Progress of a training run: the counters that a checkpoint saves, and the events that listeners receive."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple, Self

from torch import Tensor

from seqloom.checkpoint import Snapshot
from seqloom.metrics.confidence import SignificanceTest


class UpdateResult(NamedTuple):
    """What one update did."""

    loss: float | None  # summed over the items of all processes; None: there is no loss to log
    items: float  # that the loss was summed over
    seen: int  # tokens, as train.tokens counts them
    processed: int  # items that this process worked on, for the speed
    learning_rate: float
    gradient_norm: float | None = None  # before clipping
    finite: bool = True  # False: the update was skipped
    clipped: bool = False
    group_norms: Callable[[], dict[str, float]] = dict  # norm of the gradient of each group of parameters


class Position(NamedTuple):
    """Counters of a training run."""

    epoch: int = 0  # the current one
    batch: int = 0  # batches of this epoch that are done
    update: int = 0  # updates done
    seen: int = 0  # tokens so far
    scores: tuple[float, ...] = ()  # of all evaluations
    kept_loss: float | None = None  # dev loss of the best checkpoint; None: it has none
    skipped: int = 0  # updates skipped because the gradient was not finite
    skipped_in_a_row: int = 0
    summed: float = 0.0  # loss since the last log entry
    items: float = 0.0  # that it was summed over
    clipped: int = 0  # updates since the last log entry whose gradient was clipped
    counted: int = 0  # updates since the last log entry
    pending: bool = False  # an evaluation comes next
    ending: str = ""  # why training stops after that evaluation
    finished: str = ""  # why training has stopped

    def after(self, result: UpdateResult, *, final: bool) -> Self:
        """The position one update later; ``final``: it was the last update of its epoch."""
        logged = result.loss is not None
        return self._replace(
            epoch=self.epoch + final,
            batch=0 if final else self.batch + 1,
            update=self.update + 1,
            seen=self.seen + result.seen,
            skipped=self.skipped + (not result.finite),
            skipped_in_a_row=0 if result.finite else self.skipped_in_a_row + 1,
            summed=self.summed + (result.loss if result.loss is not None and result.finite else 0.0),
            items=self.items + (result.items if logged and result.finite else 0.0),
            clipped=self.clipped + result.clipped,
            counted=self.counted + logged,
        )

    def after_log_entry(self) -> Self:
        """The same with the counters of the log reset."""
        return self._replace(summed=0.0, items=0.0, clipped=0, counted=0)

    def evaluations_since_best(self) -> int:
        """Evaluations after the first one with the highest score: a tie is no improvement."""
        if not self.scores:
            return 0
        return len(self.scores) - 1 - max(range(len(self.scores)), key=self.scores.__getitem__)

    def has_lower_loss(self, evaluation: "Evaluation") -> bool:
        """Whether the last evaluation has the highest score so far, and a lower loss than the best checkpoint."""
        if self.kept_loss is None or evaluation.loss is None or math.isnan(evaluation.score):
            return False
        return self.scores[-1] == max(self.scores) and evaluation.loss < self.kept_loss


class Evaluation(NamedTuple):
    """The result of an evaluation."""

    score: float  # higher is better
    metrics: dict[str, Any]  # numbers and intervals
    metric: str  # the name of the metric that the score is taken from
    details: Mapping[str, Any] = MappingProxyType({})  # tables and lists, such as the scores of each label
    degenerate: str = ""  # how the predictions show that the model has learned nothing; empty: they do not
    answers: tuple[str, ...] = ()  # to a few fixed examples
    baseline_test: SignificanceTest | None = None  # of the difference from the baseline

    @property
    def loss(self) -> float | None:
        """The dev loss; None: the task has none, or it is not a number."""
        loss = self.metrics.get("loss")
        return loss if isinstance(loss, float) and not math.isnan(loss) else None


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
    best: bool  # every earlier evaluation had a lower score
    kept: bool  # becomes the best checkpoint: the best score, or the same score as before with a lower dev loss
    finished: str  # why training stops here; empty: it continues
    snapshot: Callable[[], Snapshot]  # everything needed to resume from here; call it before the next event
    weights: Callable[[], dict[str, Tensor]]  # the weights that are evaluated; call it before the next event
    unit: str = "items"  # what `items` counts
    tokens: int = 0  # seen so far, as train.tokens counts them
    warning: str = ""  # that the model does not seem to learn, and what to try; given once
    group_norms: Callable[[], dict[str, float]] = dict
    """Norm of the gradient of each group of parameters, before clipping; call it before the next event."""
    diagnosis: Mapping[str, Any] | None = None  # summary of the doctor, at evaluations at which it was called
