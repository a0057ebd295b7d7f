"""Recurrent dropout: the same hidden units dropped at every step (Gal & Ghahramani 2016)."""

from typing import Any

from torch import Tensor

from seqloom.cells.cell import Cell
from seqloom.cells.wrapper import Wrapper
from seqloom.cells.zoneout import Zoneout


class RecurrentDropout(Wrapper):
    """A cell whose recurrent products see the hidden state through a mask that is drawn once per sequence.

    ::

        s' = step(x, (m ∘ h, …))                  for the first field h of the state s
        m ~ Bernoulli(1 - rate) / (1 - rate)      when training, the same at every step
        m = 1                                     otherwise

    A GRU also carries h over by its update gate z. There it stays whole, as in the paper (z ∘ (h - m ∘ h) is added): a
    mask applied again and again to what is carried would erase it, or let it grow without limit.

    Parameters: those of the cell inside.
    """

    def __init__(self, cell: Cell, rate: float) -> None:
        super().__init__(cell, rate)
        if isinstance(cell, Zoneout):
            raise TypeError(
                "cell is Zoneout, which carries old values over: wanted Zoneout(RecurrentDropout(cell, …), …)"
            )
        vars(self).update(carry=cell.carry)

    def draw(self, projected: Tensor) -> Tensor:
        mask = projected.new_empty(projected.shape[1], self.hidden_size).bernoulli_(1 - self.rate) / (1 - self.rate)
        return mask.expand(len(projected), -1, -1)

    def step(self, projected: Tensor, state: Any) -> tuple[Any, tuple[Tensor, ...]]:
        if not self.training:
            return self.cell.step(projected, state)
        projected, mask = self.divide(projected, self.hidden_size)
        hidden, *others = state
        seen = mask * hidden
        following, gates = self.cell.step(projected, self.State(seen, *others))
        if self.carry is None:
            return following, gates
        output, *others = following
        carried = gates[self.gates.index(self.carry)] * (hidden - seen)
        return self.State(output + carried, *others), gates
