"""LSTM with layer normalisation (Ba, Kiros & Hinton 2016)."""

from collections.abc import Mapping
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from seqloom.cells.cell import Cell, GateNorm, projection, recurrence


class LayerNormLSTM(Cell):
    """Long short-term memory with layer normalisation.

    ::

        i = σ(N(W_i x) + N(U_i h) + b_i)        input gate
        f = σ(N(W_f x) + N(U_f h) + b_f)        forget gate
        z = tanh(N(W_z x) + N(U_z h) + b_z)     candidate
        o = σ(N(W_o x) + N(U_o h) + b_o)        output gate
        c' = f ∘ c + i ∘ z
        h' = o ∘ tanh(N(c') + b_c)

        N(a) = g ∘ (a - mean(a)) / √(variance(a) + 10⁻⁵)

    The input and the recurrent product are normalised separately, and so is each gate. The memory is normalised only
    for the output; the stored value stays unnormalised. Every N has its own gain g.

    Parameters: 4(mn + n² + 3n) + 2n for input size m and hidden size n.
    """

    class State(NamedTuple):
        hidden: Tensor
        memory: Tensor

    gates: ClassVar[tuple[str, ...]] = ("input", "forget", "candidate", "output")
    effects: ClassVar[Mapping[str, str]] = {"input": "writes", "forget": "keeps", "output": "outputs"}

    def __init__(self, input_size: int, hidden_size: int, *, bias: bool = True, forget_bias: float = 1.0) -> None:
        super().__init__(input_size, hidden_size)
        norm = GateNorm(hidden_size, blocks=4, bias=bias)
        self.input = nn.Sequential(projection(input_size, hidden_size, blocks=4, bias=False), norm)
        self.recurrent = nn.Sequential(recurrence(hidden_size, blocks=4), GateNorm(hidden_size, blocks=4, bias=False))
        self.memory = GateNorm(hidden_size, blocks=1, bias=bias)
        if norm.bias is not None:
            nn.init.constant_(norm.bias[hidden_size : 2 * hidden_size], forget_bias)

    def step(self, projected: Tensor, state: State) -> tuple[State, tuple[Tensor, ...]]:
        i, f, z, o = (projected + self.recurrent(state.hidden)).chunk(4, dim=-1)
        i, f, z, o = i.sigmoid(), f.sigmoid(), z.tanh(), o.sigmoid()
        memory = f * state.memory + i * z
        return self.State(o * torch.tanh(self.memory(memory)), memory), (i, f, z, o)
