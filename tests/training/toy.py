"""A small recurrent model, sequences of unequal length for it, and trainings of it."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from seqloom.checkpoint import Snapshot
from seqloom.data.batch import Batch, Padded, pad
from seqloom.data.loading import BatchLoader
from seqloom.layers.build import recurrent
from seqloom.tasks.task import Loss
from seqloom.training.distributed import Team
from seqloom.training.loop import Evaluation, Progress, Train, train


class Sequences(NamedTuple):
    values: Any  # (T, 3)
    target: Any  # (T,)

    def __len__(self) -> int:
        return len(self.values)


class Toy(nn.Module):
    """Numbers from vectors."""

    def __init__(self, *, dropout: float = 0.0, seed: int = 0) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.layer = recurrent("lstm", 3, 4)
        self.dropout = nn.Dropout(dropout)
        self.output = nn.Linear(4, 1)

    def forward(self, inputs: Padded, state: Any = None) -> tuple[Tensor, Any]:
        values, state = self.layer(inputs.values, inputs.mask, state)
        return self.output(self.dropout(values)).squeeze(-1), state


def sequences(count: int = 20, *, seed: int = 0, shortest: int = 1) -> list[Sequences]:
    random = np.random.default_rng(seed)
    found = []
    for length in random.integers(shortest, 9, size=count):
        values = random.normal(size=(length, 3)).astype(np.float32)
        found.append(Sequences(values, np.cumsum(values[:, 0]).astype(np.float32)))
    return found


def collate(examples: Sequence[Sequences]) -> Batch:
    inputs = pad([example.values for example in examples])
    target = pad([example.target for example in examples])
    return Batch(inputs, target.values, int(inputs.mask.sum()))


def loss(model: nn.Module, batch: Batch) -> Loss:
    found, state = model(batch.inputs, batch.state)
    return Loss(((found - batch.target)[batch.inputs.mask] ** 2).sum(), batch.items, state)


def batches(examples: Sequence[Sequences], settings: Train, *, team: Team = Team()) -> BatchLoader:  # noqa: B008
    own = range(team.rank * settings.accumulate, (team.rank + 1) * settings.accumulate)
    return BatchLoader(
        lambda: iter(examples),
        collate,
        rows=settings.batch_size,
        tokens=settings.batch_tokens,
        steps=settings.bptt_steps,
        seed=settings.seed,
        pool=settings.shuffle_buffer,
        workers=settings.workers,
        parts=settings.accumulate * team.size,
        own=own,
    )


def evaluator(examples: Sequence[Sequences]) -> Callable[[nn.Module], Evaluation]:
    def evaluate(model: nn.Module) -> Evaluation:
        torch.rand(7)  # an evaluation may draw what it likes
        found = loss(model, collate(examples))
        value = float(found.total) / found.items
        return Evaluation(-value, {"loss": value, "drawn": float(torch.rand(()))}, "loss")

    return evaluate


def begin(
    model: nn.Module,
    settings: Train,
    examples: Sequence[Sequences],
    *,
    start: Snapshot | None = None,
    team: Team = Team(),  # noqa: B008
    **options: Any,
) -> Any:
    return train(model, batches(examples, settings, team=team), loss, settings, start=start, team=team, **options)


def settings(**fields: Any) -> Train:
    defaults = {"epochs": 2, "batch": 4, "rate": 0.01, "log_every": 2}
    return Train.model_validate(defaults | fields)


def copied(model: nn.Module) -> dict[str, Tensor]:
    return {name: tensor.detach().clone() for name, tensor in model.state_dict().items()}


def same(one: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    """Bit for bit."""
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def facts(event: Progress) -> dict[str, Any]:
    """All numbers of an event."""
    found = {name: value for name, value in vars(event).items() if name not in ("snapshot", "weights")}
    return {name: repr(value) for name, value in found.items()}  # NaN is NaN
