"""Minimal gated unit (Zhou et al. 2016)."""

from collections.abc import Mapping
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from seqloom.cells.cell import Cell, projection, recurrence


class MGU(Cell):
    """Minimal gated unit: a GRU whose only gate both resets and updates.

    ::

        f = σ(W_f x + U_f h + b_f)            forget gate
        h̃ = tanh(W_h x + U_h (f ∘ h) + b_h)   candidate
        h' = (1 - f) ∘ h + f ∘ h̃

    Parameters: 2(mn + n² + n) for input size m and hidden size n.
    """

    class State(NamedTuple):
        hidden: Tensor

    gates: ClassVar[tuple[str, ...]] = ("forget", "candidate")
    effects: ClassVar[Mapping[str, str]] = {"forget": "writes"}
    write: ClassVar[str | None] = "forget"

    def __init__(self, input_size: int, hidden_size: int, *, bias: bool = True) -> None:
        super().__init__(input_size, hidden_size)
        self.input = projection(input_size, hidden_size, blocks=2, bias=bias)
        self.recurrent = recurrence(hidden_size)
        self.candidate = recurrence(hidden_size)

    def step(self, projected: Tensor, state: State) -> tuple[State, tuple[Tensor, ...]]:
        f, candidate = projected.chunk(2, dim=-1)
        f = (f + self.recurrent(state.hidden)).sigmoid()
        candidate = torch.tanh(candidate + self.candidate(f * state.hidden))
        return self.State((1 - f) * state.hidden + f * candidate), (f, candidate)
