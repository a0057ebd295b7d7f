"""The training engine: one generator of events for all models, whatever their update rule."""

import math
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from seqloom.checkpoint import RunError, Snapshot
from seqloom.data.loading import BatchLoader
from seqloom.training import schedules, snapshots
from seqloom.training.config import TrainConfig
from seqloom.training.distributed import SINGLE, ProcessGroup
from seqloom.training.divergence import Diverged
from seqloom.training.gradient_update import GradientUpdate, LossFunction
from seqloom.training.progress import Evaluation, Position, Progress, UpdateResult
from seqloom.training.self_trained import SelfTrained, SelfTrainedUpdate
from seqloom.training.stored_state import read_position
from seqloom.training.update_rule import UpdateRule

MAX_SKIPPED_IN_A_ROW = 10
"""Consecutive updates without a finite gradient after which training stops."""

Evaluate = Callable[[nn.Module], Evaluation]


def update_rule(
    model: nn.Module,
    batches: BatchLoader,
    loss: LossFunction,
    settings: TrainConfig,
    *,
    group: ProcessGroup = SINGLE,
) -> UpdateRule:
    """The update rule of a model: its own if it is self-trained, gradient descent otherwise."""
    if isinstance(model, SelfTrained):
        return SelfTrainedUpdate(model, batches.examples, settings, group=group)
    return GradientUpdate(model, batches, loss, settings, group=group)


def train(
    rule: UpdateRule,
    *,
    evaluate: Evaluate | None = None,
    time_fraction: Callable[[], float] = lambda: 0.0,  # the share of train.minutes that has passed
    start: Snapshot | None = None,  # to resume from
) -> Iterator[Progress]:
    """Train until a limit is reached or the caller leaves the loop; yields every update and every evaluation."""
    if not rule.group.is_member:
        return
    training = Training(rule, evaluate=evaluate, time_fraction=time_fraction)
    if start is not None:
        training.restore(start)
    if training.position.pending:
        yield training.evaluate()
    while not training.is_finished():
        rule.model.train()
        position = training.position
        for chunk, final in _mark_last(rule.chunks(position.epoch, position.batch)):
            yield training.update(chunk, final=final)
            if training.position.pending:
                yield training.evaluate()
                rule.model.train()
            if training.is_finished():
                return


class Training:
    """A training run in progress: everything that changes from update to update except the model itself."""

    def __init__(self, rule: UpdateRule, *, evaluate: Evaluate | None, time_fraction: Callable[[], float]) -> None:
        self.rule, self.settings, self.group = rule, rule.settings, rule.group
        self._evaluate, self._clock = evaluate, time_fraction
        self._schedule = schedules.ScheduleOptions(
            self.settings.warmup, self.settings.decay, self.settings.decay_after_epochs, self.settings.plateau_patience
        )
        self._updates_by_epochs = self._count_updates()
        self.position = Position()
        self.time_fraction = self._read_clock()

    def is_finished(self) -> bool:
        return bool(self.position.finished)

    def _count_updates(self) -> int | None:
        """The number of updates set by train.epochs, where that is the limit and known in advance."""
        settings = self.settings
        if self.rule.single_pass or settings.updates or settings.tokens or not settings.epochs:
            return None
        return self.rule.updates_in_epochs(settings.epochs)

    def _read_clock(self) -> float:
        """The share of train.minutes that has passed, averaged so that all processes agree on it."""
        return self.group.sum(self._clock())[0] / self.group.size if self.settings.minutes else 0.0

    def total_updates(self) -> float | None:
        """The expected number of updates, extrapolated where the limit counts something else; None: not known yet."""
        if self.rule.single_pass:
            return 1.0
        settings, done = self.settings, self.rule.updates_done(self.position)
        limits = [float(settings.updates)] if settings.updates else []
        by_epochs = self._updates_by_epochs or self._extrapolated_updates()
        limits += [float(by_epochs)] if by_epochs else []
        by_tokens = self.rule.updates_for_tokens(settings.tokens, self.position) if settings.tokens else None
        limits += [by_tokens] if by_tokens is not None else []
        limits += [done / self.time_fraction] if done and self.time_fraction else []
        return min(limits, default=None)

    def _extrapolated_updates(self) -> float | None:
        """Updates in all epochs of data that are streamed, as the finished epochs show; None: none is finished."""
        settings, position = self.settings, self.position
        if settings.updates or settings.tokens or not settings.epochs or not position.epoch:
            return None
        return (position.update - position.batch) / position.epoch * settings.epochs

    def learning_rate(self, ahead: int = 0) -> float:
        """The learning rate after ``ahead`` more tokens; 0 where there is nothing to schedule."""
        if self.rule.single_pass:
            return 0.0
        point = schedules.SchedulePoint(
            self.rule.updates_done(self.position, ahead),
            self.total_updates() or 0,
            self.rule.epochs_done(self.position, ahead),
            self.position.scores,
        )
        return self.settings.learning_rate * schedules.factor(self.settings.schedule, point, self._schedule)

    def update(self, chunk: Any, *, final: bool) -> Progress:
        """One update; ``final``: the last one of its epoch."""
        result = self.rule.update(chunk, self.position, self.learning_rate)
        self.position = self.position.after(result, final=final)
        update = self.position.update
        if self.position.skipped_in_a_row == MAX_SKIPPED_IN_A_ROW:
            reason = (
                f"the gradient was not finite in {MAX_SKIPPED_IN_A_ROW} updates in a row, the last of them {update}"
            )
            raise Diverged(reason, chunk)
        if not result.finite and not self.rule.skips:
            raise Diverged(f"the loss of update {update} is not finite")
        self.time_fraction = self._read_clock()
        ending, every = self._limit_reached(), self.settings.evaluate_every
        due = bool(ending) or (self.position.update % every == 0 if every else final)
        pending = due and self._evaluate is not None
        self.position = self.position._replace(ending=ending, pending=pending, finished="" if pending else ending)
        return self._progress(result)

    def _limit_reached(self) -> str:
        """Why training stops here; empty: it continues."""
        settings, position = self.settings, self.position
        if self.rule.single_pass:
            return "all examples counted"
        if settings.updates and position.update >= settings.updates:
            return f"{_count(settings.updates, 'update')} done"
        if settings.tokens and position.seen >= settings.tokens:
            return f"{_count(settings.tokens, 'token')} seen"
        if settings.epochs and not settings.updates and not settings.tokens and position.epoch >= settings.epochs:
            return f"{_count(settings.epochs, 'epoch')} done"
        expired = settings.minutes and self.time_fraction >= 1
        return f"{_count(settings.minutes, 'minute')} elapsed" if expired else ""

    def _out_of_patience(self) -> str:
        """Why training stops early; empty: it continues."""
        patience = self.settings.patience
        if patience and self.position.evaluations_since_best() >= patience:
            return f"no improvement in {_count(patience, 'evaluation')}"
        return ""

    def evaluate(self) -> Progress:
        """Evaluate the model; its training weights and the random state stay as they are."""
        assert self._evaluate is not None  # noqa: S101  otherwise no evaluation is pending
        with torch.random.fork_rng(devices=[]), torch.no_grad(), self.rule.evaluation_weights():
            self._refuse_bad_weights()
            evaluation = self._evaluate(self.rule.model.eval())
        score = -math.inf if math.isnan(evaluation.score) else evaluation.score
        self.position = self.position._replace(scores=(*self.position.scores, score), pending=False)
        best = self._is_best(evaluation)
        kept = best or self.position.has_lower_loss(evaluation)
        if kept:
            self.position = self.position._replace(kept_loss=evaluation.loss)
        ending = self.position.ending or self._out_of_patience()
        self.position = self.position._replace(finished=ending)
        if ending and math.isnan(evaluation.score) and max(self.position.scores) == -math.inf:
            raise Diverged(f"no evaluation gave a number for {evaluation.metric}")
        result = UpdateResult(None, 0, seen=0, processed=0, learning_rate=self.learning_rate())
        return self._progress(result, evaluation, best=best, kept=kept)

    def _is_best(self, evaluation: Evaluation) -> bool:
        """Whether the last evaluation has a higher score than all before it."""
        position = self.position
        no_score = max(position.scores) == -math.inf
        return not math.isnan(evaluation.score) and (position.evaluations_since_best() == 0 or no_score)

    def _progress(
        self, result: UpdateResult, evaluation: Evaluation | None = None, *, best: bool = False, kept: bool = False
    ) -> Progress:
        position = self.position
        logged = bool(position.counted) and (
            position.pending or bool(position.finished) or position.update % self.settings.log_every == 0
        )
        if logged:
            self.position = position.after_log_entry()
        total = self.total_updates()
        return Progress(
            update=position.update,
            updates=None if total is None else max(math.ceil(total), position.update),
            epoch=self.rule.epochs_done(position),
            loss=position.summed / position.items if position.items else math.nan,
            learning_rate=result.learning_rate,
            gradient_norm=result.gradient_norm,
            clipped=position.clipped / max(position.counted, 1),
            items=result.processed,
            skipped=position.skipped,
            logged=logged,
            pending=position.pending,
            evaluation=evaluation,
            best=best,
            kept=kept,
            finished=position.finished,
            snapshot=self.snapshot,
            weights=self.weights,
            unit=self.rule.unit,
            tokens=position.seen,
            group_norms=result.group_norms,
        )

    def snapshot(self) -> Snapshot:
        """Everything needed to resume bit for bit; every process of the group has to call it."""
        self._refuse_bad_weights()
        weights, training = self.rule.state()
        return Snapshot(weights, training, {"position": self.position._asdict(), "ranks": self.group.size})

    def _refuse_bad_weights(self) -> None:
        """Raise Diverged if the model cannot compute any more, so that it is neither evaluated nor saved."""
        if problem := snapshots.bad_weights(self.rule.model):
            raise Diverged(f"the weights are too large or not finite after update {self.position.update} ({problem})")

    def weights(self) -> dict[str, Tensor]:
        """The weights that are evaluated."""
        return self.rule.weights()

    def restore(self, snapshot: Snapshot) -> None:
        """Continue from a snapshot."""
        if snapshot.facts["ranks"] != self.group.size:
            raise RunError(
                f"the run was trained by {snapshot.facts['ranks']} processes and can only be resumed with the same "
                f"number, not {self.group.size}"
            )
        if problem := snapshots.bad_weights(self.rule.model, snapshot.model):
            raise RunError(
                f"the last checkpoint cannot be resumed: its weights are too large or not finite ({problem})"
            )
        self.rule.load_state(snapshot.model, snapshot.training)
        self.position = read_position(snapshot.facts)
        if self.position.ending or self.position.finished:  # limits may have been raised since
            ending = self._limit_reached() or (self._out_of_patience() if self.position.finished else "")
            self.position = self.position._replace(ending=ending, finished=ending if self.position.finished else "")


def _count(number: float, noun: str) -> str:
    """``1 epoch``, ``20 epochs``, ``2.5 minutes``."""
    return f"{number if isinstance(number, int) else format(number, 'g')} {noun}{'' if number == 1 else 's'}"


def _mark_last(chunks: Iterator[Any]) -> Iterator[tuple[Any, bool]]:
    """Each chunk, and whether it is the last one."""
    current = next(chunks, None)
    if current is None:
        raise ValueError("there are no training examples")
    for following in chunks:
        yield current, False
        current = following
    yield current, True
