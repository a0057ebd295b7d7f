"""Recurrent dropout: the same hidden units dropped at every step (Gal & Ghahramani 2016)."""

from typing import Any

import torch
from torch import Tensor

from seqloom.cells.cell import Cell
from seqloom.cells.zoneout import Zoneout


class RecurrentDropout(Cell):
    """A cell whose recurrent products see the hidden state through a mask that is drawn once per sequence.

    ::

        s' = step(x, (m ∘ h, …))                       for the first field h of the state s
        m ~ Bernoulli(1 - rate) / (1 - rate)           when training, the same at every step
        m = 1                                          otherwise

    A GRU also carries h to the next step by its update gate z. There it stays as it is, as in the paper: a mask applied
    again and again to what is carried would erase it, or let it grow without limit. (z ∘ (h - m ∘ h) is added.)

    Parameters: those of the cell inside.
    """

    def __init__(self, cell: Cell, rate: float) -> None:
        super().__init__(cell.input_size, cell.hidden_size)
        if not 0 <= rate < 1:
            raise ValueError(f"rate is {rate}, wanted at least 0 and below 1")
        if isinstance(cell, Zoneout):
            raise TypeError(
                "cell is Zoneout, which carries old values on: wanted Zoneout(RecurrentDropout(cell, …), …)"
            )
        self.cell = cell
        self.rate = rate
        # Not class variables here: a wrapper has those of the cell inside.
        vars(self).update(gates=cell.gates, State=cell.State, carry=cell.carry)

    def project(self, x: Tensor) -> Tensor:
        projected = self.cell.project(x)
        if not self.training:
            return projected
        mask = projected.new_empty(projected.shape[1], self.hidden_size).bernoulli_(1 - self.rate) / (1 - self.rate)
        # Drawn here and not in the step, which is pure.
        return torch.cat([projected, mask.expand(len(projected), -1, -1)], dim=-1)

    def start(self, batch: int) -> Any:
        return self.cell.start(batch)

    def step(self, projected: Tensor, state: Any) -> tuple[Any, tuple[Tensor, ...]]:
        if not self.training:
            return self.cell.step(projected, state)
        projected, mask = torch.split(projected, [projected.shape[-1] - self.hidden_size, self.hidden_size], dim=-1)
        hidden, *others = state
        seen = mask.detach() * hidden
        following, gates = self.cell.step(projected, self.State(seen, *others))
        if self.carry is None:
            return following, gates
        output, *others = following
        carried = gates[self.gates.index(self.carry)] * (hidden - seen)
        return self.State(output + carried, *others), gates

    def extra_repr(self) -> str:
        return f"rate={self.rate}"
