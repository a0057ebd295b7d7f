"""Long short-term memory (Hochreiter & Schmidhuber 1997) with the forget gate of Gers et al. 2000."""

from collections.abc import Mapping
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from seqloom.cells.cell import Cell, projection, recurrence


class LSTM(Cell):
    """Long short-term memory.

    ::

        i = σ(W_i x + U_i h + b_i)        input gate
        f = σ(W_f x + U_f h + b_f)        forget gate
        z = tanh(W_z x + U_z h + b_z)     candidate
        o = σ(W_o x + U_o h + b_o)        output gate
        c' = f ∘ c + i ∘ z
        h' = o ∘ tanh(c')

    Parameters: 4(mn + n² + n) for input size m and hidden size n.
    """

    class State(NamedTuple):
        hidden: Tensor
        memory: Tensor

    gates: ClassVar[tuple[str, ...]] = ("input", "forget", "candidate", "output")
    effects: ClassVar[Mapping[str, str]] = {"input": "writes", "forget": "keeps", "output": "outputs"}

    def __init__(self, input_size: int, hidden_size: int, *, bias: bool = True, forget_bias: float = 1.0) -> None:
        super().__init__(input_size, hidden_size)
        self.input = projection(input_size, hidden_size, blocks=4, bias=bias)
        self.recurrent = recurrence(hidden_size, blocks=4)
        if bias:
            nn.init.constant_(self.input.bias[hidden_size : 2 * hidden_size], forget_bias)

    def step(self, projected: Tensor, state: State) -> tuple[State, tuple[Tensor, ...]]:
        i, f, z, o = (projected + self.recurrent(state.hidden)).chunk(4, dim=-1)
        i, f, z, o = i.sigmoid(), f.sigmoid(), z.tanh(), o.sigmoid()
        memory = f * state.memory + i * z
        return self.State(o * torch.tanh(memory), memory), (i, f, z, o)
