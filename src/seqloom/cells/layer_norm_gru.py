"""Gated recurrent unit with layer normalisation (Ba, Kiros & Hinton 2016)."""

from collections.abc import Mapping
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from seqloom.cells.cell import Cell, GateNorm, projection, recurrence


class LayerNormGRU(Cell):
    """Gated recurrent unit with layer normalisation, reset after the recurrent product as in the paper.

    ::

        r = σ(N(W_r x) + N(U_r h) + b_r)                    reset gate
        z = σ(N(W_z x) + N(U_z h) + b_z)                    update gate
        h̃ = tanh(N(W_h x) + r ∘ (N(U_h h) + b_u) + b_h)     candidate
        h' = z ∘ h + (1 - z) ∘ h̃

        N(a) = g ∘ (a - mean(a)) / √(variance(a) + 10⁻⁵)

    The input and the recurrent product are normalised separately, and so is each gate. Every N has its own gain g.

    Parameters: 3(mn + n² + 3n) + n for input size m and hidden size n.
    """

    class State(NamedTuple):
        hidden: Tensor

    gates: ClassVar[tuple[str, ...]] = ("reset", "update", "candidate")
    effects: ClassVar[Mapping[str, str]] = {"reset": "reads", "update": "keeps"}
    carry: ClassVar[str | None] = "update"

    def __init__(self, input_size: int, hidden_size: int, *, bias: bool = True) -> None:
        super().__init__(input_size, hidden_size)
        self.input = nn.Sequential(
            projection(input_size, hidden_size, blocks=3, bias=False), GateNorm(hidden_size, blocks=3, bias=bias)
        )
        self.recurrent = nn.Sequential(recurrence(hidden_size, blocks=2), GateNorm(hidden_size, blocks=2, bias=False))
        self.candidate = nn.Sequential(recurrence(hidden_size), GateNorm(hidden_size, blocks=1, bias=bias))

    def step(self, projected: Tensor, state: State) -> tuple[State, tuple[Tensor, ...]]:
        gate_input, candidate_input = torch.split(projected, [2 * self.hidden_size, self.hidden_size], dim=-1)
        r, z = (gate_input + self.recurrent(state.hidden)).sigmoid().chunk(2, dim=-1)
        candidate = torch.tanh(candidate_input + r * self.candidate(state.hidden))
        return self.State(z * state.hidden + (1 - z) * candidate), (r, z, candidate)
