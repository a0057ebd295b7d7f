"""Zoneout: random parts of the state keep their previous value (Krueger et al. 2017)."""

from typing import Any

from torch import Tensor

from seqloom.cells.wrapper import Wrapper


class Zoneout(Wrapper):
    """Wraps a cell; each state value keeps its previous value with probability ``rate``, sampled at every step.

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
