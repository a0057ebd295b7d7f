"""Mogrifier LSTM (Melis, Kočiský & Blunsom 2020)."""

from collections.abc import Mapping
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from seqloom.cells.cell import Cell, projection, recurrence
from seqloom.cells.lstm import LSTM


class MogrifierLSTM(Cell):
    """LSTM whose input x and hidden state h gate each other in several rounds before the step.

    ::

        x ← 2σ(Q_k h) ∘ x                 in the rounds 1, 3, 5, …
        h ← 2σ(R_k x) ∘ h                 in the rounds 2, 4, …

        i = σ(W_i x + U_i h + b_i)        input gate
        f = σ(W_f x + U_f h + b_f)        forget gate
        z = tanh(W_z x + U_z h + b_z)     candidate
        o = σ(W_o x + U_o h + b_o)        output gate
        c' = f ∘ c + i ∘ z
        h' = o ∘ tanh(c')

    Parameters: 4(mn + n² + n) + kmn for input size m, hidden size n and k rounds.
    """

    class State(NamedTuple):
        hidden: Tensor
        memory: Tensor

    gates: ClassVar[tuple[str, ...]] = LSTM.gates
    effects: ClassVar[Mapping[str, str]] = LSTM.effects

    def __init__(
        self, input_size: int, hidden_size: int, *, rounds: int = 5, bias: bool = True, forget_bias: float = 1.0
    ) -> None:
        super().__init__(input_size, hidden_size)
        if rounds < 0:
            raise ValueError(f"rounds must be at least 0, got {rounds}")
        self.rounds = rounds
        self.input = nn.Identity()  # the step changes the input before it is projected
        self.input_projection = projection(input_size, hidden_size, blocks=4, bias=bias)
        self.recurrent = recurrence(hidden_size, blocks=4)
        sizes = [(hidden_size, input_size), (input_size, hidden_size)]
        self.mogrifiers = nn.ModuleList(projection(*sizes[index % 2], blocks=1, bias=False) for index in range(rounds))
        if bias:
            nn.init.constant_(self.input_projection.bias[hidden_size : 2 * hidden_size], forget_bias)

    def step(self, projected: Tensor, state: State) -> tuple[State, tuple[Tensor, ...]]:
        x, hidden = projected, state.hidden
        for index, mogrifier in enumerate(self.mogrifiers):
            if index % 2 == 0:
                x = 2 * mogrifier(hidden).sigmoid() * x
            else:
                hidden = 2 * mogrifier(x).sigmoid() * hidden
        i, f, z, o = (self.input_projection(x) + self.recurrent(hidden)).chunk(4, dim=-1)
        i, f, z, o = i.sigmoid(), f.sigmoid(), z.tanh(), o.sigmoid()
        memory = f * state.memory + i * z
        return self.State(o * torch.tanh(memory), memory), (i, f, z, o)

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, rounds={self.rounds}"
