"""The training loop: a generator of what happened, which knows a loss and batches, neither tasks nor models."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, NamedTuple, Protocol

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.optim import Optimizer

from seqloom.config import Part
from seqloom.data.batch import Batch
from seqloom.data.loading import Batches
from seqloom.run import Snapshot
from seqloom.state import apply
from seqloom.training import optimizers, schedules, snapshots
from seqloom.training.distributed import Team
from seqloom.training.snapshots import Past, Position

PATIENCE = 10
"""Updates in a row without a finite gradient before the training ends."""


class Train(Part):
    """How a model is trained."""

    epochs: int = Field(20, ge=0, description="Times that the training data are seen.")
    updates: int = Field(0, ge=0, description="End after so many updates; 0: as many as the epochs have.")
    minutes: float = Field(0.0, ge=0, description="End after so many minutes; 0: no limit.")
    batch: int = Field(32, ge=1, description="Sequences that one update sees.")
    batch_tokens: int = Field(0, ge=0, description="Elements that one update sees, with padding; 0: count sequences.")
    steps: int = Field(
        0,
        ge=0,
        description="Truncated back-propagation: steps in a piece, the state is carried on; 0: whole sequences.",
    )
    accumulate: int = Field(1, ge=1, description="Parts in which a batch is computed, to save memory; same gradient.")
    optimizer: optimizers.Name = Field("adam", description="The update rule.")
    rate: float = Field(1e-3, gt=0, description="Highest learning rate.")
    schedule: Literal["constant", "cosine", "linear", "inverse_root", "step", "plateau"] = Field(
        "constant", description="How the rate changes."
    )
    warmup: int = Field(0, ge=0, description="Updates over which the rate rises from zero.")
    decay: float = Field(0.5, ge=0, le=1, description="step, plateau: factor of the rate; cosine, linear: last share.")
    decay_after: float = Field(0, ge=0, description="step: epochs before the first decay.")
    decay_wait: int = Field(1, ge=1, description="plateau: evaluations without a better score before a decay.")
    momentum: float = Field(0.0, ge=0, lt=1, description="Of sgd.")
    weight_decay: float = Field(0.0, ge=0, description="Pull of the weights towards zero; biases are spared.")
    clip: float = Field(5.0, ge=0, description="Largest norm of the gradient; 0: no limit.")
    evaluate_every: int = Field(0, ge=0, description="Updates between evaluations; 0: one after each epoch.")
    patience: int = Field(0, ge=0, description="Stop after so many evaluations without a better score; 0: never.")
    average: int = Field(1, ge=1, description="Evaluate and keep the mean weights of the last so many evaluations.")
    save_minutes: float = Field(5.0, gt=0, description="Minutes between two checkpoints within an epoch.")
    log_every: int = Field(50, ge=1, description="Updates between two entries of the log.")
    seed: int = Field(1, ge=0, description="Of all random numbers: the same seed, the same model.")
    workers: int = Field(0, ge=0, description="Threads that prepare batches ahead.")
    threads: int = Field(0, ge=0, description="Threads that compute; 0: as many as there are cores.")
    pool: int = Field(1_000_000, ge=1, description="Examples in memory at once; more are streamed from the file.")
    device: str = Field("cpu", description="Where to compute, such as cpu or cuda.")


class Counted(Protocol):
    """A loss as a sum and a count."""

    total: Tensor
    items: int
    state: Any


class Evaluation(NamedTuple):
    """What a model is worth."""

    score: float  # better when higher
    metrics: dict[str, Any]


class Diverged(RuntimeError):
    """The gradient was not finite many times in a row."""

    def __init__(self, update: int, batch: Any) -> None:
        super().__init__(
            f"the gradient was not finite at {PATIENCE} updates in a row, the last of them {update}: "
            "lower train.rate or train.clip, or look at the batch"
        )
        self.batch = batch


@dataclass(frozen=True)
class Progress:
    """What one update, and the evaluation behind it, brought."""

    update: int  # done so far
    updates: int | None  # in all, where known
    epoch: float  # done so far, with its fraction
    loss: float  # per item, mean over the updates since the last entry of the log
    rate: float
    norm: float  # of this update's gradient, before clipping
    clipped: float  # share of the updates since the last entry whose gradient was clipped
    items: int  # in this update
    skipped: int  # updates without a finite gradient so far
    logged: bool  # an entry of the log ends here
    evaluation: Evaluation | None
    best: bool  # the evaluation is the best so far
    finished: str  # why the training ends here; empty: it goes on
    snapshot: Callable[[], Snapshot]  # all that is needed to go on from here
    weights: Callable[[], dict[str, Tensor]]  # of the model as it is evaluated


def train(
    model: nn.Module,
    batches: Batches,
    loss: Callable[[nn.Module, Any], Counted],
    settings: Train,
    *,
    evaluate: Callable[[nn.Module], Evaluation] | None = None,
    stop: Callable[[], bool] = lambda: False,  # asked after every update: time is up
    start: Snapshot | None = None,  # go on from there
    team: Team = Team(),  # noqa: B008  a named tuple
) -> Iterator[Progress]:
    """Train until the end, or until the caller leaves the loop; every update is handed out."""
    updater = optimizers.build(
        settings.optimizer,
        model,
        rate=settings.rate,
        weight_decay=settings.weight_decay,
        momentum=settings.momentum,
    )
    position, past = Position(), Past()
    if start is not None:
        position, past = snapshots.restore(start, model, updater, team)
    shape = schedules.Shape(settings.warmup, settings.decay, settings.decay_after, settings.decay_wait)
    updates = _updates(batches, settings)
    while not position.finished:
        model.train()
        length = batches.count(position.epoch)
        for parts, final in _marked(batches.epoch(position.epoch, position.batch)):
            epoch = position.epoch + position.batch / length if length else float(position.epoch)
            moment = schedules.Moment(position.update, updates or 0, epoch, position.scores)
            rate = settings.rate * schedules.factor(settings.schedule, moment, shape)
            position, past, norm = _update(model, updater, parts, loss, settings, position, past, rate=rate, team=team)
            if position.skipped_in_a_row == PATIENCE:
                raise Diverged(position.update, parts)
            items = sum(part.items for part in parts)
            if final:
                position = position._replace(epoch=position.epoch + 1, batch=0)
            finished = _finished(position, settings, time_is_up=team.agree(stop=stop()) if settings.minutes else False)
            every = settings.evaluate_every
            found = None
            if evaluate is not None and (finished or (position.update % every == 0 if every else final)):
                if settings.average > 1:
                    past = past._replace(weights=(*past.weights, _copy(model))[-settings.average :])
                found = _evaluate(model, evaluate, past.weights)
                position = position._replace(scores=(*position.scores, found.score))
                if settings.patience and position.waited() >= settings.patience:
                    finished = f"no better score in {settings.patience} evaluations"
            logged = bool(found) or bool(finished) or position.update % settings.log_every == 0
            position = position._replace(finished=finished)
            entry = position
            if logged:
                position = position._replace(summed=0.0, items=0.0, clipped=0, counted=0)
            yield Progress(
                update=position.update,
                updates=updates,
                epoch=position.epoch + (position.batch / length if length else 0.0),
                loss=entry.summed / entry.items if entry.items else math.nan,
                rate=rate,
                norm=norm,
                clipped=entry.clipped / entry.counted,
                items=items,
                skipped=position.skipped,
                logged=logged,
                evaluation=found,
                best=found is not None and position.waited() == 0,
                finished=finished,
                snapshot=partial(snapshots.capture, model, updater, position, past, team),
                weights=partial(_mean, past.weights) if past.weights else partial(_copy, model),
            )
            if finished:
                return
            model.train()


def _update(
    model: nn.Module,
    updater: Optimizer,
    parts: list[Batch],
    loss: Callable[[nn.Module, Any], Counted],
    settings: Train,
    position: Position,
    past: Past,
    *,
    rate: float,
    team: Team,
) -> tuple[Position, Past, float]:
    """One step of the optimiser with the gradient of all parts, or none if that is not finite."""
    summed, items, carried = 0.0, 0, []
    for slot, part in enumerate(parts):
        state = past.carried[slot] if part.continues and slot < len(past.carried) else None
        found = loss(model, part._replace(state=state).to(settings.device))
        found.total.backward()
        summed += float(found.total.detach())
        items += found.items
        carried.append(None if found.state is None else apply(Tensor.detach, found.state))
    summed, counted = team.total(summed, items)
    gradients = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
    team.add(gradients)
    norm = optimizers.norm(gradients) / max(counted, 1)
    finite = math.isfinite(norm) and math.isfinite(summed)
    clipped = bool(settings.clip) and norm > settings.clip
    if finite and counted:
        torch._foreach_mul_(gradients, (settings.clip / norm if clipped else 1.0) / counted)
        for group in updater.param_groups:
            group["lr"] = rate
        updater.step()
        if all(state is not None for state in carried):
            past = past._replace(carried=tuple(carried))
    updater.zero_grad()
    return position.after(summed, counted, finite=finite, clipped=clipped and finite), past, norm


def _updates(batches: Batches, settings: Train) -> int | None:
    """How many updates there will be, where a schedule or a progress bar can know."""
    if settings.updates:
        return settings.updates
    lengths = [batches.count(epoch) for epoch in range(settings.epochs)]
    if None not in lengths:
        return sum(length for length in lengths if length is not None)
    if settings.schedule in schedules.NEED_THE_END:
        raise ValueError(
            f'train.schedule is "{settings.schedule}", which needs to know the last update, and the data are streamed '
            "from a file (train.pool): set train.updates"
        )
    return None


def _finished(position: Position, settings: Train, *, time_is_up: bool) -> str:
    if settings.updates and position.update >= settings.updates:
        return f"{settings.updates} updates done"
    if not settings.updates and position.epoch >= settings.epochs:
        return f"{settings.epochs} epochs done"
    return f"{settings.minutes:g} minutes are over" if time_is_up else ""


def _evaluate(
    model: nn.Module, evaluate: Callable[[nn.Module], Evaluation], weights: tuple[dict[str, Tensor], ...]
) -> Evaluation:
    """Evaluate the mean of some weights; the model and the random numbers stay as they are."""
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        if weights:
            model.load_state_dict(_mean(weights))
        found = evaluate(model.eval())
        if weights:
            model.load_state_dict(weights[-1])
    return found


def _copy(model: nn.Module) -> dict[str, Tensor]:
    return {name: tensor.detach().clone() for name, tensor in model.state_dict().items()}


def _mean(weights: tuple[dict[str, Tensor], ...]) -> dict[str, Tensor]:
    stacked = {name: torch.stack([each[name] for each in weights]) for name in weights[0]}
    return {
        name: tensors.mean(dim=0) if tensors.is_floating_point() else tensors[-1] for name, tensors in stacked.items()
    }


def _marked(parts: Iterator[list[Batch]]) -> Iterator[tuple[list[Batch], bool]]:
    """Each item, and whether it is the last one."""
    current = next(parts, None)
    if current is None:
        raise ValueError("there are no training examples")
    for following in parts:
        yield current, False
        current = following
    yield current, True
