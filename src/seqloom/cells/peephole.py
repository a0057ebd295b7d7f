"""LSTM with peephole connections (Gers & Schmidhuber 2000, Gers, Schraudolph & Schmidhuber 2002)."""

from collections.abc import Collection
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from seqloom.cells.cell import Cell, projection, recurrence


class Peephole(Cell):
    """Long short-term memory with peephole connections: diagonal weights p from the memory to the gates.

    ::

        i = σ(W_i x + U_i h + p_i ∘ c + b_i)         input gate
        f = σ(W_f x + U_f h + p_f ∘ c + b_f)         forget gate
        z = tanh(W_z x + U_z h + b_z)                candidate
        c' = f ∘ c + i ∘ z
        o = σ(W_o x + U_o h + p_o ∘ c' + b_o)        output gate
        h' = o ∘ tanh(c')

    Gates that are not listed in ``peepholes`` have none (p = 0). Peephole weights are initialised to zero, so that the
    cell starts as a plain LSTM.

    Parameters: 4(mn + n² + n) + kn for input size m, hidden size n and k peepholes.
    """

    class State(NamedTuple):
        hidden: Tensor
        memory: Tensor

    gates: ClassVar[tuple[str, ...]] = ("input", "forget", "candidate", "output")

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        *,
        peepholes: Collection[str] = ("input", "forget", "output"),
        bias: bool = True,
        forget_bias: float = 1.0,
    ) -> None:
        super().__init__(input_size, hidden_size)
        if isinstance(peepholes, str) or not set(peepholes) <= {"input", "forget", "output"}:
            raise ValueError(f"peepholes is {peepholes!r}, expected a subset of ('input', 'forget', 'output')")
        self.input = projection(input_size, hidden_size, blocks=4, bias=bias)
        self.recurrent = recurrence(hidden_size, blocks=4)
        self.peepholes = nn.ParameterDict({gate: torch.zeros(hidden_size) for gate in peepholes})
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
        return total + self.peepholes[gate] * memory if gate in self.peepholes else total

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, peepholes={tuple(self.peepholes)}"
