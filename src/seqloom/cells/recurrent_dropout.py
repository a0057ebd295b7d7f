"""Recurrent dropout: the same hidden units are dropped at every step (Gal & Ghahramani 2016)."""

from typing import Any

from torch import Tensor

from seqloom.cells.cell import Cell
from seqloom.cells.wrapper import Wrapper
from seqloom.cells.zoneout import Zoneout


class RecurrentDropout(Wrapper):
    """Wraps a cell; its recurrent products read the hidden state through a mask drawn once per sequence.

    ::

        s' = step(x, (m ∘ h, …))                  for the first field h of the state s
        m ~ Bernoulli(1 - rate) / (1 - rate)      when training, the same at every step
        m = 1                                     otherwise

    A GRU also copies h through its update gate z. This path is not masked, as in the paper (z ∘ (h - m ∘ h) is added):
    a mask applied at every step to a copied value would erase it or let it grow without limit.

    Parameters: those of the wrapped cell.
    """

    def __init__(self, cell: Cell, rate: float) -> None:
        super().__init__(cell, rate)
        if isinstance(cell, Zoneout):
            raise TypeError(
                "cell is Zoneout, whose copied values must not be dropped: use Zoneout(RecurrentDropout(cell, …), …)"
            )
        vars(self).update(carry=cell.carry)

    def sample_noise(self, projected: Tensor) -> Tensor:
        mask = projected.new_empty(projected.shape[1], self.hidden_size).bernoulli_(1 - self.rate) / (1 - self.rate)
        return mask.expand(len(projected), -1, -1)

    def step(self, projected: Tensor, state: Any) -> tuple[Any, tuple[Tensor, ...]]:
        if not self.training:
            return self.cell.step(projected, state)
        projected, mask = self.split_noise(projected, self.hidden_size)
        hidden, *others = state
        masked = mask * hidden
        next_state, gates = self.cell.step(projected, self.State(masked, *others))
        if self.carry is None:
            return next_state, gates
        output, *others = next_state
        copied = gates[self.gates.index(self.carry)] * (hidden - masked)
        return self.State(output + copied, *others), gates
