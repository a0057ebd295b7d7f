"""Zoneout: parts of the state that stay as they were (Krueger et al. 2017)."""

from typing import Any

import torch
from torch import Tensor

from seqloom.cells.cell import Cell


class Zoneout(Cell):
    """A cell whose state values each keep their old value with probability ``rate``, drawn anew at every step.

    ::

        s' = k ∘ s + (1 - k) ∘ step(x, s)     for every field s of the state
        k ~ Bernoulli(rate)                   when training
        k = rate                              otherwise: the expectation

    Parameters: those of the cell inside.
    """

    def __init__(self, cell: Cell, rate: float) -> None:
        super().__init__(cell.input_size, cell.hidden_size)
        if not 0 <= rate < 1:
            raise ValueError(f"rate is {rate}, wanted at least 0 and below 1")
        self.cell = cell
        self.rate = rate
        # Not class variables here: a wrapper has those of the cell inside. Its old output arrives by no single gate.
        vars(self).update(gates=cell.gates, State=cell.State)

    def project(self, x: Tensor) -> Tensor:
        projected = self.cell.project(x)
        if not self.training:
            return projected
        width = len(self.State._fields) * self.hidden_size
        kept = projected.new_empty(*projected.shape[:-1], width).bernoulli_(self.rate)
        # Drawn here and not in the step, which is pure.
        return torch.cat([projected, kept], dim=-1)

    def start(self, batch: int) -> Any:
        return self.cell.start(batch)

    def step(self, projected: Tensor, state: Any) -> tuple[Any, tuple[Tensor, ...]]:
        if not self.training:
            following, gates = self.cell.step(projected, state)
            mixed = [self.rate * old + (1 - self.rate) * new for old, new in zip(state, following, strict=True)]
            return self.State(*mixed), gates
        width = len(state) * self.hidden_size
        projected, kept = torch.split(projected, [projected.shape[-1] - width, width], dim=-1)
        following, gates = self.cell.step(projected, state)
        parts = kept.detach().chunk(len(state), dim=-1)
        mixed = [k * old + (1 - k) * new for k, old, new in zip(parts, state, following, strict=True)]
        return self.State(*mixed), gates

    def extra_repr(self) -> str:
        return f"rate={self.rate}"
