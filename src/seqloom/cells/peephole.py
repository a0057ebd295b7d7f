"""LSTM with peephole connections (Gers & Schmidhuber 2000, Gers, Schraudolph & Schmidhuber 2002)."""

from collections.abc import Collection, Mapping
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from seqloom.cells.cell import Cell, projection, recurrence


class Peephole(Cell):
    """Long short-term memory with peephole connections: weights p from the memory to the gates.

    ::

        i = σ(W_i x + U_i h + p_i ∘ c + b_i)         input gate
        f = σ(W_f x + U_f h + p_f ∘ c + b_f)         forget gate
        z = tanh(W_z x + U_z h + b_z)                candidate
        c' = f ∘ c + i ∘ z
        o = σ(W_o x + U_o h + p_o ∘ c' + b_o)        output gate
        h' = o ∘ tanh(c')

    Gates that are not listed in ``peepholes`` have none (p = 0). With peephole_weights="full", each p is a matrix and
    the product p c is that of a matrix and a vector. Peephole weights are initialised to zero, so that the cell starts
    as a plain LSTM.

    Parameters: 4(mn + n² + n) + kn for input size m, hidden size n and k peepholes; kn² instead of kn if they are full.
    """

    class State(NamedTuple):
        hidden: Tensor
        memory: Tensor

    gates: ClassVar[tuple[str, ...]] = ("input", "forget", "candidate", "output")
    effects: ClassVar[Mapping[str, str]] = {"input": "writes", "forget": "keeps", "output": "outputs"}

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        *,
        peepholes: Collection[str] = ("input", "forget", "output"),
        peephole_weights: str = "diagonal",
        bias: bool = True,
        forget_bias: float = 1.0,
    ) -> None:
        super().__init__(input_size, hidden_size)
        if isinstance(peepholes, str) or not set(peepholes) <= {"input", "forget", "output"}:
            raise ValueError(f"peepholes is {peepholes!r}, expected a subset of ('input', 'forget', 'output')")
        if peephole_weights not in ("diagonal", "full"):
            raise ValueError(f"peephole_weights is {peephole_weights!r}, expected 'diagonal' or 'full'")
        self.input = projection(input_size, hidden_size, blocks=4, bias=bias)
        self.recurrent = recurrence(hidden_size, blocks=4)
        shape = (hidden_size,) if peephole_weights == "diagonal" else (hidden_size, hidden_size)
        self.peepholes = nn.ParameterDict({gate: torch.zeros(shape) for gate in peepholes})
        if bias:
            nn.init.constant_(self.input.bias[hidden_size : 2 * hidden_size], forget_bias)

    def step(self, projected: Tensor, state: State) -> tuple[State, tuple[Tensor, ...]]:
        i, f, z, o = (projected + self.recurrent(state.hidden)).chunk(4, dim=-1)
        i = self._add_peephole(i, "input", state.memory).sigmoid()
        f = self._add_peephole(f, "forget", state.memory).sigmoid()
        z = z.tanh()
        memory = f * state.memory + i * z
        o = self._add_peephole(o, "output", memory).sigmoid()
        return self.State(o * torch.tanh(memory), memory), (i, f, z, o)

    def _add_peephole(self, total: Tensor, gate: str, memory: Tensor) -> Tensor:
        if gate not in self.peepholes:
            return total
        weight = self.peepholes[gate]
        return total + (functional.linear(memory, weight) if weight.dim() == 2 else weight * memory)

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, peepholes={tuple(self.peepholes)}"
