"""Simple recurrent unit (Lei et al. 2018)."""

import math
from collections.abc import Mapping
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from seqloom.cells.cell import Cell, ProjectionWithInput, projection


class SRU(Cell):
    """Simple recurrent unit: gates that read the input and, element by element, the memory; a highway to the output.

    ::

        f = σ(W_f x + v_f ∘ c + b_f)      forget gate
        r = σ(W_r x + v_r ∘ c + b_r)      reset gate
        z = W_z x                         candidate
        c' = f ∘ c + (1 - f) ∘ z
        h' = r ∘ c' + (1 - r) ∘ s

        s = α x                           if m = n, with α = √(1 + 2 exp(initial b_r)), which keeps the variance
        s = W_s x                         otherwise

    Parameters: 3mn + 4n for input size m and hidden size n; mn more (W_s) if they differ.
    """

    class State(NamedTuple):
        hidden: Tensor
        memory: Tensor

    gates: ClassVar[tuple[str, ...]] = ("forget", "reset", "candidate")
    effects: ClassVar[Mapping[str, str]] = {"forget": "keeps", "reset": "outputs the memory, closed = the input"}

    def __init__(
        self, input_size: int, hidden_size: int, *, bias: bool = True, forget_bias: float = 1.0, reset_bias: float = 0.0
    ) -> None:
        super().__init__(input_size, hidden_size)
        if input_size == hidden_size:
            self.scale = math.sqrt(1 + 2 * math.exp(reset_bias))  # α
            self.input: nn.Module = ProjectionWithInput(input_size, hidden_size, blocks=3)
        else:
            self.scale = 1.0
            self.input = projection(input_size, hidden_size, blocks=4, bias=False)
        self.peepholes = nn.Parameter(torch.zeros(2 * hidden_size))  # v_f, v_r
        self.bias = nn.Parameter(torch.zeros(2 * hidden_size)) if bias else None  # b_f, b_r
        if self.bias is not None:
            nn.init.constant_(self.bias[:hidden_size], forget_bias)
            nn.init.constant_(self.bias[hidden_size:], reset_bias)

    def step(self, projected: Tensor, state: State) -> tuple[State, tuple[Tensor, ...]]:
        gates, z, skip = torch.split(projected, [2 * self.hidden_size, self.hidden_size, self.hidden_size], dim=-1)
        gates = gates + self.peepholes * torch.cat([state.memory, state.memory], dim=-1)
        f, r = (gates if self.bias is None else gates + self.bias).sigmoid().chunk(2, dim=-1)
        memory = f * state.memory + (1 - f) * z
        return self.State(r * memory + (1 - r) * (self.scale * skip), memory), (f, r, z)
