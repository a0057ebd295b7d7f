"""Small networks for experiments: a layer with a linear map, trained by the training engine on generated batches."""

import math
from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from seqloom.data.batch import Batch, Padded
from seqloom.data.loading import BatchLoader
from seqloom.layers.layer import Layer, count_parameters
from seqloom.tasks.task import Loss
from seqloom.training import engine
from seqloom.training.config import TrainConfig
from seqloom.training.gradient_update import GradientUpdate, LossFunction
from seqloom.training.progress import Progress

IGNORED = -100
"""The class of a step at which nothing is to be predicted."""


class Network(nn.Module):
    """A layer and a linear map of its outputs to classes."""

    def __init__(self, layer: Layer, classes: int) -> None:
        super().__init__()
        self.layer = layer
        self.output = nn.Linear(layer.output_size, classes)

    def forward(
        self,
        inputs: Padded,  # (B, T, D)
        where: Tensor,  # (B, T), True at the N steps that are to be classified
    ) -> Tensor:  # (N, classes)
        y, _ = self.layer(inputs.values, inputs.mask)
        logits: Tensor = self.output(y[where])
        return logits


def widest(build: Callable[[int], nn.Module], parameters: int, *, step: int = 1) -> int:
    """The largest width, a multiple of ``step``, of which ``build`` makes a module with at most this many parameters.

    The module is assumed to hold a matrix of this width squared. Random numbers are left as they are.
    """
    low, high = 1, max(math.isqrt(parameters) // step, 1)
    with torch.random.fork_rng(devices=[]), torch.device("meta"):  # shapes only
        while low < high:
            middle = (low + high + 1) // 2
            fits = count_parameters(build(step * middle)) <= parameters
            low, high = (middle, high) if fits else (low, middle - 1)
    return step * low


def one_hot_batch(
    tokens: Tensor,  # (B, T)
    target: Tensor,  # (B, T), IGNORED where nothing is to be predicted
    *,
    size: int,  # different tokens
) -> Batch:
    """A batch of sequences of equal length whose inputs are one-hot vectors."""
    x = functional.one_hot(tokens, size).float()
    return Batch(Padded(x, torch.ones_like(tokens, dtype=torch.bool)), target, items=len(tokens))


def classification_loss(network: nn.Module, batch: Batch) -> Loss:
    """Cross-entropy, summed over the steps that have a class."""
    where = batch.target != IGNORED
    logits = network(batch.inputs, where)
    return Loss(functional.cross_entropy(logits, batch.target[where], reduction="sum"), len(logits))


@torch.no_grad()
def accuracy(network: nn.Module, batch: Batch) -> float:
    """The share of steps with the right class among those that have one."""
    where = batch.target != IGNORED
    right: Tensor = network(batch.inputs, where).argmax(-1) == batch.target[where]
    return right.double().mean().item()


def train(
    network: nn.Module,
    draw: Callable[[], Batch],
    settings: TrainConfig,
    *,
    loss: LossFunction = classification_loss,
) -> Iterator[Progress]:
    """Train on batches that are drawn one by one; yields every update, until ``updates`` of the settings are done."""
    if not settings.updates:
        raise ValueError("generated batches never end: set updates")

    def draw_all() -> Iterator[Batch]:
        while True:
            yield draw()

    batches = BatchLoader(draw_all, _only_one, batch_size=1, shuffle=False, shuffle_buffer=1)
    return engine.train(GradientUpdate(network, batches, loss, settings))


def fit(
    network: nn.Module,
    draw: Callable[[], Batch],
    settings: TrainConfig,
    *,
    loss: LossFunction = classification_loss,
) -> None:
    """Train to the end."""
    for _ in train(network, draw, settings, loss=loss):
        pass


def evaluation_updates(updates: int, evaluations: int) -> frozenset[int]:
    """Updates after which a training is evaluated, at equal distances; the last one is among them."""
    return frozenset(round(updates * number / evaluations) for number in range(1, evaluations + 1))


def _only_one(batches: Sequence[Batch]) -> Batch:
    (batch,) = batches
    return batch
