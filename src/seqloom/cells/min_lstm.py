"""Minimal LSTM (Feng et al. 2024, "Were RNNs All We Needed?"): gates that read the input only."""

from collections.abc import Mapping
from typing import ClassVar, NamedTuple

from torch import Tensor, nn

from seqloom.cells.cell import Cell, projection

CLOSED = -80.0
"""A gate at σ of this is closed; below, σ would become zero in float32, and 0 / 0 is not a number."""


class MinLSTM(Cell):
    """Long short-term memory without products of the hidden state, without output gate, with gates that sum to one.

    ::

        i = σ(W_i x + b_i)                input gate
        f = σ(W_f x + b_f)                forget gate
        h̃ = W_h x + b_h                   candidate
        f' = f / (i + f)
        i' = i / (i + f) = 1 - f'
        h' = f' ∘ h + i' ∘ h̃

    Parameters: 3(mn + n) for input size m and hidden size n.
    """

    class State(NamedTuple):
        hidden: Tensor

    gates: ClassVar[tuple[str, ...]] = ("input", "forget", "candidate")
    effects: ClassVar[Mapping[str, str]] = {"input": "writes", "forget": "keeps"}
    carry: ClassVar[str | None] = "forget"

    def __init__(self, input_size: int, hidden_size: int, *, bias: bool = True, forget_bias: float = 1.0) -> None:
        super().__init__(input_size, hidden_size)
        self.input = projection(input_size, hidden_size, blocks=3, bias=bias)
        if bias:
            nn.init.constant_(self.input.bias[hidden_size : 2 * hidden_size], forget_bias)

    def step(self, projected: Tensor, state: State) -> tuple[State, tuple[Tensor, ...]]:
        i, f, candidate = projected.chunk(3, dim=-1)
        i, f = i.clamp(min=CLOSED).sigmoid(), f.clamp(min=CLOSED).sigmoid()
        forget = f / (i + f)
        return self.State(forget * state.hidden + (1 - forget) * candidate), (1 - forget, forget, candidate)
