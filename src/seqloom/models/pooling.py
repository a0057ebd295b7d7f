"""Pooling: from the outputs of an encoder to one vector per sequence."""

from abc import ABC, abstractmethod

import torch
from torch import Tensor, nn

from seqloom.layers.layer import Memory


class Pooling(nn.Module, ABC):
    """Memory to (B, D). Padding has no effect; a row of length 0 gives zeros."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size

    @abstractmethod
    def forward(self, memory: Memory) -> Tensor:
        """One vector for each row."""


class FirstPooling(Pooling):
    """The output at the first element."""

    def forward(self, memory: Memory) -> Tensor:
        return _at(memory, memory.mask.sum(dim=1).clamp(max=1) - 1)


class LastPooling(Pooling):
    """The output at the last element."""

    def forward(self, memory: Memory) -> Tensor:
        return _at(memory, memory.mask.sum(dim=1) - 1)


class EndsPooling(Pooling):
    """The forward output at the last element and the backward output at the first: each has read the whole sequence."""

    def __init__(self, size: int) -> None:
        if size % 2:
            raise ValueError(
                f"pooling over both ends needs a bidirectional encoder with an even size, found size {size}"
            )
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
        """The attention weights (B, T): each row sums to one, padding is zero."""
        values = memory.values.masked_fill(~memory.mask.unsqueeze(-1), 0)
        scores = self.query(torch.tanh(self.project(values))).squeeze(-1)
        # The lowest number instead of -inf: the softmax of a row of length 0 must not be NaN.
        scores = scores.masked_fill(~memory.mask, torch.finfo(scores.dtype).min)
        weights: Tensor = scores.softmax(dim=1).masked_fill(~memory.mask, 0)
        return weights

    def forward(self, memory: Memory) -> Tensor:
        values = memory.values.masked_fill(~memory.mask.unsqueeze(-1), 0)
        return torch.einsum("bt,btd->bd", self.weights(memory), values)


class PairPooling(Pooling):
    """Two texts, encoded with the same weights in rows 2b and 2b + 1: [u; v; |u − v|; u ∘ v] (Conneau et al. 2017)."""

    def __init__(self, pooling: Pooling) -> None:
        super().__init__(4 * pooling.size)
        self.pooling = pooling

    def forward(self, memory: Memory) -> Tensor:  # 2 B rows → (B, 4 D)
        vectors: Tensor = self.pooling(memory)
        first, second = vectors[0::2], vectors[1::2]
        return torch.cat([first, second, (first - second).abs(), first * second], dim=1)


POOLINGS: dict[str, type[Pooling]] = {
    "last": LastPooling,
    "ends": EndsPooling,
    "mean": MeanPooling,
    "max": MaxPooling,
    "attention": AttentionPooling,
}


def _at(
    memory: Memory,
    steps: Tensor,  # (B,), index of an element in each row; negative: none
) -> Tensor:  # (B, D)
    rows = torch.arange(len(steps), device=steps.device)
    return memory.values[rows, steps.clamp(min=0)].masked_fill((steps < 0).unsqueeze(1), 0)
