"""A small recurrent model, sequences of unequal length, and training runs of the model."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from seqloom.checkpoint import Snapshot
from seqloom.data.batch import Batch, Padded, pad
from seqloom.data.loading import BatchLoader
from seqloom.layers.build import recurrent
from seqloom.tasks.task import Loss
from seqloom.training.config import TrainConfig
from seqloom.training.distributed import SINGLE, ProcessGroup
from seqloom.training.engine import train
from seqloom.training.gradient_update import GradientUpdate
from seqloom.training.progress import Evaluation, Progress


class Example(NamedTuple):
    """A sequence of vectors, and a number for each of them."""

    values: Any  # (T, 3)
    target: Any  # (T,)

    def __len__(self) -> int:
        return len(self.values)


class Toy(nn.Module):
    """A number for each vector of a sequence."""

    def __init__(self, *, dropout: float = 0.0, seed: int = 0) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.layer = recurrent("lstm", 3, 4)
        self.dropout = nn.Dropout(dropout)
        self.output = nn.Linear(4, 1)

    def forward(self, inputs: Padded, state: Any = None) -> tuple[Tensor, Any]:
        values, state = self.layer(inputs.values, inputs.mask, state)
        return self.output(self.dropout(values)).squeeze(-1), state


def sequences(count: int = 20, *, seed: int = 0, shortest: int = 1) -> list[Example]:
    random = np.random.default_rng(seed)
    result = []
    for length in random.integers(shortest, 9, size=count):
        values = random.normal(size=(length, 3)).astype(np.float32)
        result.append(Example(values, np.cumsum(values[:, 0]).astype(np.float32)))
    return result


def collate(examples: Sequence[Example]) -> Batch:
    inputs = pad([example.values for example in examples])
    target = pad([example.target for example in examples])
    return Batch(inputs, target.values, int(inputs.mask.sum()))


def loss(model: nn.Module, batch: Batch) -> Loss:
    result, state = model(batch.inputs, batch.state)
    return Loss(((result - batch.target)[batch.inputs.mask] ** 2).sum(), batch.items, state)


def batches(examples: Sequence[Example], settings: TrainConfig, *, group: ProcessGroup = SINGLE) -> BatchLoader:
    own = range(group.rank * settings.accumulate, (group.rank + 1) * settings.accumulate)
    return BatchLoader(
        lambda: iter(examples),
        collate,
        batch_size=settings.batch_size,
        batch_tokens=settings.batch_tokens,
        bptt_steps=settings.bptt_steps,
        seed=settings.seed,
        shuffle_buffer=settings.shuffle_buffer,
        workers=settings.workers,
        parts=settings.accumulate * group.size,
        local_parts=own,
    )


def evaluator(examples: Sequence[Example]) -> Callable[[nn.Module], Evaluation]:
    def evaluate(model: nn.Module) -> Evaluation:
        torch.rand(7)  # an evaluation may draw random numbers
        result = loss(model, collate(examples))
        value = float(result.total) / result.items
        return Evaluation(-value, {"loss": value, "drawn": float(torch.rand(()))}, "loss")

    return evaluate


def begin(
    model: nn.Module,
    settings: TrainConfig,
    examples: Sequence[Example],
    *,
    start: Snapshot | None = None,
    group: ProcessGroup = SINGLE,
    **options: Any,
) -> Any:
    rule = GradientUpdate(model, batches(examples, settings, group=group), loss, settings, group=group)
    return train(rule, start=start, **options)


def settings(**fields: Any) -> TrainConfig:
    defaults = {"epochs": 2, "batch_size": 4, "learning_rate": 0.01, "log_every": 2}
    return TrainConfig.model_validate(defaults | fields)


def copy_weights(model: nn.Module) -> dict[str, Tensor]:
    return {name: tensor.detach().clone() for name, tensor in model.state_dict().items()}


def same(one: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    """Bit for bit."""
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def facts(event: Progress) -> dict[str, Any]:
    """All numbers of an event."""
    result = {name: value for name, value in vars(event).items() if name not in ("snapshot", "weights")}
    result["group_norms"] = event.group_norms()
    return {name: repr(value) for name, value in result.items()}  # NaN is NaN


def weight_change(before: dict[str, Tensor], after: dict[str, Tensor]) -> Tensor:
    return torch.cat([(before[name] - after[name]).flatten() for name in before])


class NonFiniteLoss:
    """A loss that is not finite at some calls."""

    def __init__(self, calls: Sequence[int], kind: str) -> None:
        self.calls, self.kind, self.count = set(calls), kind, 0

    def __call__(self, model: nn.Module, batch: Batch) -> Any:
        result = loss(model, batch)
        self.count += 1
        if self.count not in self.calls:
            return result
        if self.kind == "gradient":  # a finite loss, whose gradient is not
            return result._replace(total=result.total + (result.total - result.total.detach()).abs().sqrt())
        return result._replace(total=result.total * float(self.kind))


def train_with_nonfinite_loss(
    model: nn.Module, calls: Sequence[int], kind: str = "nan", **fields: Any
) -> Iterator[Progress]:
    chosen = settings(**{"epochs": 4} | fields)
    return train(GradientUpdate(model, batches(sequences(20), chosen), NonFiniteLoss(calls, kind), chosen))
