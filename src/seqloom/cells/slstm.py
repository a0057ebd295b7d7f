"""sLSTM, the LSTM with exponential gates of xLSTM (Beck et al. 2024)."""

from collections.abc import Mapping
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import logsigmoid

from seqloom.cells.cell import Cell, projection, recurrence


class SLSTM(Cell):
    """Long short-term memory with an exponential input gate, a normaliser, and a stabiliser of the exponentials.

    ::

        a = W_a x + U_a h + b_a           for a of i, f, z, o
        m' = max(log f + m, i)            stabiliser: the largest exponent so far; i at the first step
        i' = exp(i - m')                  input gate
        f' = exp(log f + m - m')          forget gate, log f = log σ(f), or f with forget_gate="exponential"
        c' = f' ∘ c + i' ∘ tanh(z)
        n' = f' ∘ n + i'                  normaliser; at least 1, because i' or f' is 1
        h' = σ(o) ∘ c' / n'

    Parameters: 4(mn + n² + n) for input size m and hidden size n.
    """

    class State(NamedTuple):
        hidden: Tensor
        memory: Tensor
        normalizer: Tensor
        stabilizer: Tensor

    gates: ClassVar[tuple[str, ...]] = ("input", "forget", "candidate", "output")
    effects: ClassVar[Mapping[str, str]] = {"input": "writes", "forget": "keeps", "output": "outputs"}

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        *,
        forget_gate: str = "sigmoid",
        bias: bool = True,
        forget_bias: float = 1.0,
    ) -> None:
        super().__init__(input_size, hidden_size)
        if forget_gate not in ("sigmoid", "exponential"):
            raise ValueError(f"forget_gate is {forget_gate!r}, expected 'sigmoid' or 'exponential'")
        self.forget_gate = forget_gate
        self.input = projection(input_size, hidden_size, blocks=4, bias=bias)
        self.recurrent = recurrence(hidden_size, blocks=4)
        if bias:
            nn.init.constant_(self.input.bias[hidden_size : 2 * hidden_size], forget_bias)

    def step(self, projected: Tensor, state: State) -> tuple[State, tuple[Tensor, ...]]:
        i, f, z, o = (projected + self.recurrent(state.hidden)).chunk(4, dim=-1)
        kept = state.stabilizer + (logsigmoid(f) if self.forget_gate == "sigmoid" else f)
        stabilizer = torch.where(state.normalizer > 0, torch.maximum(kept, i), i)
        i, f, z, o = torch.exp(i - stabilizer), torch.exp((kept - stabilizer).clamp(max=0)), z.tanh(), o.sigmoid()
        memory = f * state.memory + i * z
        normalizer = f * state.normalizer + i
        hidden = o * memory / normalizer.clamp(min=1)
        return self.State(hidden, memory, normalizer, stabilizer), (i, f, z, o)

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, forget_gate={self.forget_gate}"
