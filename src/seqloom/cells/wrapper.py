"""Cells that wrap another cell with noise: zoneout (Krueger et al. 2017), recurrent dropout (Gal & Ghahramani 2016).

A step is a pure function, so the noise of all steps is sampled before the first one.
"""

from abc import abstractmethod
from typing import Any

import torch
from torch import Tensor

from seqloom.cells.cell import Cell


class Wrapper(Cell):
    """A cell around another one, with the same state and gates. In training, noise is appended to the projected input.

    In training, ``step`` separates the two with ``split_noise``; in evaluation there is no noise.
    """

    def __init__(self, cell: Cell, rate: float) -> None:
        super().__init__(cell.input_size, cell.hidden_size)
        if not 0 <= rate < 1:
            raise ValueError(f"rate must be at least 0 and below 1, got {rate}")
        self.cell = cell
        self.rate = rate
        # Class variables of other cells; here they depend on the wrapped cell.
        vars(self).update(gates=cell.gates, effects=cell.effects, State=cell.State)

    @abstractmethod
    def sample_noise(
        self,
        projected: Tensor,  # (T, B, P)
    ) -> Tensor:  # (T, B, N)
        """Sample the noise of all steps."""

    def split_noise(
        self,
        projected: Tensor,  # (B, P + N)
        size: int,  # N
    ) -> tuple[Tensor, Tensor]:  # (B, P), (B, N)
        """Separate the wrapped cell's projected input from the noise, which has no gradient."""
        inner, noise = torch.split(projected, [projected.shape[-1] - size, size], dim=-1)
        return inner, noise.detach()

    def project(self, x: Tensor) -> Tensor:
        projected = self.cell.project(x)
        return torch.cat([projected, self.sample_noise(projected)], dim=-1) if self.training else projected

    def start(self, batch: int) -> Any:
        return self.cell.start(batch)

    def extra_repr(self) -> str:
        return f"rate={self.rate}"


class Zoneout(Wrapper):
    """Zoneout: each state value keeps its previous value with probability ``rate``, sampled at every step.

    ::

        s' = k ∘ s + (1 - k) ∘ step(x, s)     for every field s of the state
        k ~ Bernoulli(rate)                   when training
        k = rate                              otherwise: the expectation

    Parameters: those of the wrapped cell.
    """

    def sample_noise(self, projected: Tensor) -> Tensor:
        width = len(self.State._fields) * self.hidden_size
        return projected.new_empty(*projected.shape[:-1], width).bernoulli_(self.rate)

    def step(self, projected: Tensor, state: Any) -> tuple[Any, tuple[Tensor, ...]]:
        keep: tuple[Tensor | float, ...] = (self.rate,) * len(state)
        if self.training:
            projected, noise = self.split_noise(projected, len(state) * self.hidden_size)
            keep = noise.chunk(len(state), dim=-1)
        next_state, gates = self.cell.step(projected, state)
        mixed = [k * old + (1 - k) * new for k, old, new in zip(keep, state, next_state, strict=True)]
        return self.State(*mixed), gates


class RecurrentDropout(Wrapper):
    """Recurrent dropout: the recurrent products read the hidden state through a mask sampled once per sequence.

    ::

        s' = step(x, (m ∘ h, …))                  for the first field h of the state s
        m ~ Bernoulli(1 - rate) / (1 - rate)      when training, the same at every step
        m = 1                                     otherwise

    A GRU also copies h through its update gate z. This path is not masked, as in the paper (z ∘ (h - m ∘ h) is added):
    a mask applied at every step to a copied value would erase it or let it grow without limit. Cells that read h in no
    other way, such as min_gru, are not changed.

    Parameters: those of the wrapped cell.
    """

    def __init__(self, cell: Cell, rate: float) -> None:
        super().__init__(cell, rate)
        if isinstance(cell, Zoneout):
            raise TypeError(
                "cell is Zoneout, whose copied values must not be dropped: use Zoneout(RecurrentDropout(cell, …), …)"
            )
        vars(self).update(carry=cell.carry, write=cell.write)

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
        share = self.carried(gates)
        if share is None:
            return next_state, gates
        output, *others = next_state
        return self.State(output + share * (hidden - masked), *others), gates
