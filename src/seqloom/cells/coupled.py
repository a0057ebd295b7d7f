"""LSTM with coupled input and forget gates (CIFG in Greff et al. 2017)."""

from collections.abc import Mapping
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from seqloom.cells.cell import Cell, projection, recurrence


class Coupled(Cell):
    """Long short-term memory whose forget gate is one minus its input gate.

    ::

        i = σ(W_i x + U_i h + b_i)        input gate
        f = 1 - i                         forget gate
        z = tanh(W_z x + U_z h + b_z)     candidate
        o = σ(W_o x + U_o h + b_o)        output gate
        c' = f ∘ c + i ∘ z
        h' = o ∘ tanh(c')

    Parameters: 3(mn + n² + n) for input size m and hidden size n.
    """

    class State(NamedTuple):
        hidden: Tensor
        memory: Tensor

    gates: ClassVar[tuple[str, ...]] = ("input", "forget", "candidate", "output")
    effects: ClassVar[Mapping[str, str]] = {"input": "writes", "forget": "keeps", "output": "outputs"}

    def __init__(self, input_size: int, hidden_size: int, *, bias: bool = True, forget_bias: float = 1.0) -> None:
        super().__init__(input_size, hidden_size)
        self.input = projection(input_size, hidden_size, blocks=3, bias=bias)
        self.recurrent = recurrence(hidden_size, blocks=3)
        if bias:
            # 1 - σ(-b) = σ(b)
            nn.init.constant_(self.input.bias[:hidden_size], -forget_bias)

    def step(self, projected: Tensor, state: State) -> tuple[State, tuple[Tensor, ...]]:
        i, z, o = (projected + self.recurrent(state.hidden)).chunk(3, dim=-1)
        i, z, o = i.sigmoid(), z.tanh(), o.sigmoid()
        f = 1 - i
        memory = f * state.memory + i * z
        return self.State(o * torch.tanh(memory), memory), (i, f, z, o)
