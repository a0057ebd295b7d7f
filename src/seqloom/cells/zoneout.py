"""Zoneout: parts of the state that stay as they were (Krueger et al. 2017)."""

from typing import Any

from torch import Tensor

from seqloom.cells.wrapper import Wrapper


class Zoneout(Wrapper):
    """A cell whose state values each keep their old value with probability ``rate``, drawn anew at every step.

    ::

        s' = k ∘ s + (1 - k) ∘ step(x, s)     for every field s of the state
        k ~ Bernoulli(rate)                   when training
        k = rate                              otherwise: the expectation

    Parameters: those of the cell inside.
    """

    def draw(self, projected: Tensor) -> Tensor:
        width = len(self.State._fields) * self.hidden_size
        return projected.new_empty(*projected.shape[:-1], width).bernoulli_(self.rate)

    def step(self, projected: Tensor, state: Any) -> tuple[Any, tuple[Tensor, ...]]:
        kept: tuple[Tensor | float, ...] = (self.rate,) * len(state)
        if self.training:
            projected, noise = self.divide(projected, len(state) * self.hidden_size)
            kept = noise.chunk(len(state), dim=-1)
        following, gates = self.cell.step(projected, state)
        mixed = [k * old + (1 - k) * new for k, old, new in zip(kept, state, following, strict=True)]
        return self.State(*mixed), gates
