"""The training loop: a generator of what happened, which knows a loss and batches, neither tasks nor models."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol, Self

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn

from seqloom.checkpoint import Snapshot
from seqloom.config import Part
from seqloom.data.batch import Batch
from seqloom.data.loading import BatchLoader
from seqloom.state import apply
from seqloom.training import optimizers, schedules, snapshots
from seqloom.training.distributed import SERIAL_LIMIT, Team
from seqloom.training.snapshots import Past, Position

PATIENCE = 10
"""Updates in a row without a finite gradient before the training ends."""


class Train(Part):
    """How a model is trained."""

    epochs: int = Field(20, ge=0, description="Times that the training data are seen; 0: until another limit.")
    updates: int = Field(0, ge=0, description="End after so many updates, whatever the epochs; 0: no limit.")
    tokens: int = Field(
        0, ge=0, description="End after so many items, as the loss counts them, whatever the epochs; 0: no limit."
    )
    minutes: float = Field(0.0, ge=0, description="End after so many minutes; 0: no limit.")
    batch_size: int = Field(32, ge=1, description="Sequences that one update sees.")
    batch_tokens: int = Field(0, ge=0, description="Elements that one update sees, with padding; 0: count sequences.")
    bptt_steps: int = Field(
        0,
        ge=0,
        description="Truncated back-propagation: steps in a piece, the state is carried on; 0: whole sequences.",
    )
    accumulate: int = Field(1, ge=1, description="Parts in which a batch is computed, to save memory; same gradient.")
    optimizer: optimizers.Name = Field("adam", description="The update rule.")
    learning_rate: float = Field(1e-3, gt=0, description="Highest learning rate.")
    schedule: Literal["constant", "cosine", "linear", "inverse_root", "step", "plateau"] = Field(
        "constant", description="How the rate changes."
    )
    warmup: int = Field(0, ge=0, description="Updates over which the rate rises from zero.")
    decay: float = Field(0.5, ge=0, le=1, description="step, plateau: factor of the rate; cosine, linear: last share.")
    decay_after_epochs: float = Field(1, ge=0, description="step: epochs before the first decay.")
    plateau_patience: int = Field(1, ge=1, description="plateau: evaluations without a better score before a decay.")
    momentum: float = Field(0.0, ge=0, lt=1, description="Of sgd.")
    weight_decay: float = Field(0.0, ge=0, description="Pull of the weights towards zero; biases are spared.")
    clip_norm: float = Field(5.0, ge=0, description="Largest norm of the gradient; 0: no limit.")
    evaluate_every: int = Field(0, ge=0, description="Updates between evaluations; 0: one after each epoch.")
    patience: int = Field(0, ge=0, description="Stop after so many evaluations without a better score; 0: never.")
    average_checkpoints: int = Field(
        1, ge=1, description="Evaluate and keep the mean weights of the last so many evaluations."
    )
    save_every_minutes: float = Field(5.0, gt=0, description="Minutes between two checkpoints within an epoch.")
    log_every: int = Field(50, ge=1, description="Updates between two entries of the log.")
    seed: int = Field(1, ge=0, description="Of all random numbers: the same seed, the same model.")
    workers: int = Field(0, ge=0, description="Threads that prepare batches ahead.")
    threads: int = Field(0, ge=0, description="Threads that compute; 0: as many as there are cores.")
    shuffle_buffer: int = Field(
        1_000_000, ge=1, description="Examples in memory at once; more are streamed from the file."
    )
    device: str = Field("cpu", description="Where to compute, such as cpu or cuda.")

    @model_validator(mode="after")
    def _ends(self) -> Self:
        if not (self.epochs or self.updates or self.tokens or self.minutes):
            raise ValueError("epochs is 0, and nothing else ends the training: set updates, tokens or minutes")
        return self

    def over(self, position: Position, *, spent: float) -> str:
        """Why a training ends here, by what is done and the share of the minutes; empty: it goes on."""
        if self.updates and position.update >= self.updates:
            return f"{self.updates} updates done"
        if self.tokens and position.seen >= self.tokens:
            return f"{self.tokens} tokens seen"
        if self.epochs and not self.updates and not self.tokens and position.epoch >= self.epochs:
            return f"{self.epochs} epochs done"
        return f"{self.minutes:g} minutes are over" if self.minutes and spent >= 1 else ""


class Counted(Protocol):
    """A loss as a sum and a count."""

    @property
    def total(self) -> Tensor: ...

    @property
    def items(self) -> int: ...

    @property
    def state(self) -> Any: ...


class Evaluation(NamedTuple):
    """What a model is worth."""

    score: float  # better when higher
    metrics: dict[str, Any]
    metric: str  # the name of the one that the score is


class Diverged(RuntimeError):
    """The gradient was not finite many times in a row."""

    def __init__(self, update: int, batch: Any) -> None:
        super().__init__(
            f"the gradient was not finite at {PATIENCE} updates in a row, the last of them {update}: "
            "lower train.learning_rate or train.clip_norm, or look at the batch"
        )
        self.batch = batch


@dataclass(frozen=True)
class Progress:
    """What one update brought, or one evaluation."""

    update: int  # done so far
    updates: int | None  # in all, as far as is known by now
    epoch: float  # done so far, with its fraction
    loss: float  # per item, mean over the updates since the last entry of the log
    rate: float
    norm: float | None  # of this update's gradient, before clipping; None: there is no gradient of all weights
    clipped: float  # share of the updates since the last entry whose gradient was clipped
    items: int  # in this update; 0 for an evaluation
    skipped: int  # updates without a finite gradient so far
    logged: bool  # an entry of the log ends here
    pending: bool  # an evaluation comes next
    evaluation: Evaluation | None
    best: bool  # no evaluation before was better
    finished: str  # why the training ends here; empty: it goes on
    snapshot: Callable[[], Snapshot]  # all that is needed to go on from here; for now only
    weights: Callable[[], dict[str, Tensor]]  # of the model as it is evaluated; for now only
    unit: str = "items"  # what is counted as such


def train(
    model: nn.Module,
    batches: BatchLoader,
    loss: Callable[[nn.Module, Any], Counted],
    settings: Train,
    *,
    evaluate: Callable[[nn.Module], Evaluation] | None = None,
    spent: Callable[[], float] = lambda: 0.0,  # the share of the minutes that is over
    start: Snapshot | None = None,  # go on from there
    team: Team = SERIAL_LIMIT,
) -> Iterator[Progress]:
    """Train until the end, or until the caller leaves the loop; every update and evaluation is handed out."""
    training = Training(model, batches, loss, settings, evaluate=evaluate, spent=spent, team=team)
    if start is not None:
        training.position, training.past = snapshots.restore(start, model, training.optimizer, team)
    if training.position.pending:
        yield training.assess()
    while not training.over():
        model.train()
        for parts, final in _marked(batches.epoch(training.position.epoch, training.position.batch)):
            yield training.update(parts, final=final)
            if training.position.pending:
                yield training.assess()
                model.train()
            if training.over():
                return


class Training:
    """A training under way: what changes from update to update, in one place."""

    def __init__(
        self,
        model: nn.Module,
        batches: BatchLoader,
        loss: Callable[[nn.Module, Any], Counted],
        settings: Train,
        *,
        evaluate: Callable[[nn.Module], Evaluation] | None,
        spent: Callable[[], float],
        team: Team,
    ) -> None:
        self.model, self.batches, self.loss, self.settings = model, batches, loss, settings
        self.evaluate, self.clock, self.team = evaluate, spent, team
        self.optimizer = optimizers.build(
            settings.optimizer,
            model,
            rate=settings.learning_rate,
            weight_decay=settings.weight_decay,
            momentum=settings.momentum,
        )
        self.shape = schedules.Shape(
            settings.warmup, settings.decay, settings.decay_after_epochs, settings.plateau_patience
        )
        self.updates = _updates(batches, settings)
        self.position, self.past = Position(), Past()
        self.spent = self._spent()

    def over(self) -> bool:
        return bool(self.position.finished)

    @property
    def epoch(self) -> float:
        """Epochs done, with their fraction where it is known."""
        length = self.batches.count(self.position.epoch)
        return self.position.epoch + (self.position.batch / length if length else 0.0)

    def _spent(self) -> float:
        """The share of the minutes that is over, the same one in all processes."""
        return self.team.total(self.clock())[0] / self.team.size if self.settings.minutes else 0.0

    def total(self) -> float | None:
        """Updates in all, going by those so far where a limit counts something else."""
        done, seen = self.position.update, self.position.seen
        limits = [float(self.updates)] if self.updates else []
        limits += [done * self.settings.tokens / seen] if self.settings.tokens and seen else []
        limits += [done / self.spent] if done and self.spent else []
        return min(limits, default=None)

    def rate(self) -> float:
        """The learning rate of the update that comes next."""
        moment = schedules.Moment(self.position.update, self.total() or 0, self.epoch, self.position.scores)
        return self.settings.learning_rate * schedules.factor(self.settings.schedule, moment, self.shape)

    def update(self, parts: list[Batch], *, final: bool) -> Progress:
        """One step of the optimiser with the gradient of all parts, or none if that is not finite."""
        settings, rate = self.settings, self.rate()
        summed, items, carried = self._differentiate(parts)
        if self.team.size > 1:  # a process without a part of this batch adds nothing, but it has to add
            for parameter in self.model.parameters():
                if parameter.requires_grad and parameter.grad is None:
                    parameter.grad = torch.zeros_like(parameter)
        gradients = [parameter.grad for parameter in self.model.parameters() if parameter.grad is not None]
        self.team.add(gradients)
        norm = optimizers.norm(gradients) / max(items, 1)
        finite = math.isfinite(norm) and math.isfinite(summed)
        clipped = finite and bool(settings.clip_norm) and norm > settings.clip_norm
        if finite and items:
            torch._foreach_mul_(gradients, (settings.clip_norm / norm if clipped else 1.0) / items)
            for group in self.optimizer.param_groups:
                group["lr"] = rate
            self.optimizer.step()
            self.past = self.past._replace(carried=carried)
        elif not any(part.continues for part in parts):
            self.past = self.past._replace(carried=())  # what follows does not go on from the epoch before
        self.optimizer.zero_grad()
        for module in self.model.modules():
            getattr(module, "updated", bool)()  # of those that change with time
        self.position = self.position.after(summed, items, finite=finite, clipped=clipped, final=final)
        if self.position.skipped_in_a_row == PATIENCE:
            raise Diverged(self.position.update, parts)
        self.spent = self._spent()
        ending = settings.over(self.position, spent=self.spent)
        every = settings.evaluate_every
        due = bool(ending) or (self.position.update % every == 0 if every else final)
        pending = due and self.evaluate is not None
        self.position = self.position._replace(ending=ending, pending=pending, finished="" if pending else ending)
        return self._progress(rate=rate, norm=norm, items=sum(part.items for part in parts))

    def _differentiate(self, parts: list[Batch]) -> tuple[float, float, tuple[Any, ...]]:
        """Leave the summed gradient of all parts; the loss, the count, and the states to carry on."""
        summed, items, carried = 0.0, 0, []
        for slot, part in enumerate(parts):
            state = self.past.carried[slot] if part.continues and slot < len(self.past.carried) else None
            found = self.loss(self.model, part._replace(state=state).to(self.settings.device))
            found.total.backward()
            summed += float(found.total.detach())
            items += found.items
            if found.state is not None and self.settings.bptt_steps:
                carried.append(apply(Tensor.detach, found.state))
        return *self.team.total(summed, items), tuple(carried)  # type: ignore[return-value]

    def assess(self) -> Progress:
        """Evaluate the model, or the mean of its last weights; it and the random numbers stay as they are."""
        assert self.evaluate is not None  # noqa: S101  otherwise nothing is pending
        if self.settings.average_checkpoints > 1:
            kept = (*self.past.weights, snapshots.copy(self.model))[-self.settings.average_checkpoints :]
            self.past = self.past._replace(weights=kept)
        with torch.random.fork_rng(devices=[]), torch.no_grad():
            if self.past.weights:
                self.model.load_state_dict(snapshots.mean(self.past.weights))
            found = self.evaluate(self.model.eval())
            if self.past.weights:
                self.model.load_state_dict(self.past.weights[-1])
        score = -math.inf if math.isnan(found.score) else found.score  # nothing is better than what is no number
        position = self.position._replace(scores=(*self.position.scores, score), pending=False)
        ending = position.ending
        if self.settings.patience and position.waited() >= self.settings.patience:
            ending = ending or f"no better score in {self.settings.patience} evaluations"
        self.position = position._replace(finished=ending)
        return self._progress(rate=self.rate(), norm=0.0, items=0, evaluation=found)

    def _progress(self, *, rate: float, norm: float, items: int, evaluation: Evaluation | None = None) -> Progress:
        entry = self.position
        logged = bool(entry.counted) and (
            entry.pending or bool(entry.finished) or entry.update % self.settings.log_every == 0
        )
        if logged:
            self.position = entry._replace(summed=0.0, items=0.0, clipped=0, counted=0)
        total = self.total()
        return Progress(
            update=entry.update,
            updates=None if total is None else max(math.ceil(total), entry.update),
            epoch=self.epoch,
            loss=entry.summed / entry.items if entry.items else math.nan,
            rate=rate,
            norm=norm,
            clipped=entry.clipped / max(entry.counted, 1),
            items=items,
            skipped=entry.skipped,
            logged=logged,
            pending=entry.pending,
            evaluation=evaluation,
            best=evaluation is not None and entry.scores[-1] == max(entry.scores),
            finished=entry.finished,
            snapshot=self.snapshot,
            weights=self.weights,
        )

    def snapshot(self) -> Snapshot:
        return snapshots.capture(self.model, self.optimizer, self.position, self.past, self.team)

    def weights(self) -> dict[str, Tensor]:
        return snapshots.mean(self.past.weights) if self.past.weights else snapshots.copy(self.model)


def _updates(batches: BatchLoader, settings: Train) -> int | None:
    """How many updates there will be by the epochs, or as was said, where that can be known before."""
    if settings.updates or settings.tokens or not settings.epochs:
        return settings.updates or None
    lengths = [batches.count(epoch) for epoch in range(settings.epochs)]
    if None not in lengths:
        return sum(length for length in lengths if length is not None)
    if settings.schedule in schedules.NEED_THE_END and not settings.minutes:
        raise ValueError(
            f'train.schedule is "{settings.schedule}", which needs to know the last update, and the data are streamed '
            "from a file (train.shuffle_buffer): set train.updates, train.tokens or train.minutes"
        )
    return None


def _marked(parts: Iterator[list[Batch]]) -> Iterator[tuple[list[Batch], bool]]:
    """Each item, and whether it is the last one."""
    current = next(parts, None)
    if current is None:
        raise ValueError("there are no training examples")
    for following in parts:
        yield current, False
        current = following
    yield current, True
