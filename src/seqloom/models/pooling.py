"""A sequence as one vector: how the vectors of an encoder's memory become the vector that an answer is made of."""

from abc import ABC, abstractmethod

import torch
from torch import Tensor, nn

from seqloom.layers.layer import Memory


class Pooling(nn.Module, ABC):
    """Memory to (B, D). The padding is invisible, whatever it holds; a row of length zero gives zeros."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size

    @abstractmethod
    def forward(self, memory: Memory) -> Tensor:
        """One vector for each row."""


class LastPooling(Pooling):
    """What the encoder says at the last element."""

    def forward(self, memory: Memory) -> Tensor:
        return _at(memory, memory.mask.sum(dim=1) - 1)


class EndsPooling(Pooling):
    """The forward direction at the last element and the backward one at the first: each has read the whole sequence."""

    def __init__(self, size: int) -> None:
        if size % 2:
            raise ValueError(f"pooling over both ends needs two directions of equal width, found a width of {size}")
        super().__init__(size)

    def forward(self, memory: Memory) -> Tensor:
        lengths = memory.mask.sum(dim=1)
        half = self.size // 2
        return torch.cat([_at(memory, lengths - 1)[:, :half], _at(memory, lengths.clamp(max=1) - 1)[:, half:]], dim=1)


class MeanPooling(Pooling):
    """The mean over the elements."""

    def forward(self, memory: Memory) -> Tensor:
        total = memory.values.masked_fill(~memory.mask.unsqueeze(-1), 0).sum(dim=1)
        return total / memory.mask.sum(dim=1, keepdim=True).clamp(min=1)


class MaxPooling(Pooling):
    """The largest value of each feature over the elements."""

    def forward(self, memory: Memory) -> Tensor:
        lowest = torch.finfo(memory.values.dtype).min
        best = memory.values.masked_fill(~memory.mask.unsqueeze(-1), lowest).amax(dim=1)
        return best.masked_fill(~memory.mask.any(dim=1, keepdim=True), 0)


class AttentionPooling(Pooling):
    """Σ_t α_t h_t with α = softmax_t(v · tanh(W h_t + b)) (Yang et al. 2016)."""

    def __init__(self, size: int) -> None:
        super().__init__(size)
        self.project = nn.Linear(size, size)
        self.query = nn.Linear(size, 1, bias=False)

    def weights(self, memory: Memory) -> Tensor:
        """How much each element counts: (B, T), each row adds up to one, the padding is zero."""
        values = memory.values.masked_fill(~memory.mask.unsqueeze(-1), 0)
        scores = self.query(torch.tanh(self.project(values))).squeeze(-1)
        # The lowest number and not minus infinity: the softmax of a row of length zero must not be NaN.
        scores = scores.masked_fill(~memory.mask, torch.finfo(scores.dtype).min)
        weights: Tensor = scores.softmax(dim=1).masked_fill(~memory.mask, 0)
        return weights

    def forward(self, memory: Memory) -> Tensor:
        values = memory.values.masked_fill(~memory.mask.unsqueeze(-1), 0)
        return torch.einsum("bt,btd->bd", self.weights(memory), values)


POOLINGS: dict[str, type[Pooling]] = {
    "last": LastPooling,
    "ends": EndsPooling,
    "mean": MeanPooling,
    "max": MaxPooling,
    "attention": AttentionPooling,
}


def _at(
    memory: Memory,
    steps: Tensor,  # (B,), which element of each row; below zero: there is none
) -> Tensor:  # (B, D)
    rows = torch.arange(len(steps), device=steps.device)
    return memory.values[rows, steps.clamp(min=0)].masked_fill((steps < 0).unsqueeze(1), 0)
