"""Minimal GRU (Feng et al. 2024, "Were RNNs All We Needed?"): gates that read the input only."""

from collections.abc import Mapping
from typing import ClassVar, NamedTuple

from torch import Tensor

from seqloom.cells.cell import Cell, projection


class MinGRU(Cell):
    """Gated recurrent unit without products of the hidden state.

    ::

        z = σ(W_z x + b_z)                update gate
        h̃ = W_h x + b_h                   candidate
        h' = (1 - z) ∘ h + z ∘ h̃

    Parameters: 2(mn + n) for input size m and hidden size n.
    """

    class State(NamedTuple):
        hidden: Tensor

    gates: ClassVar[tuple[str, ...]] = ("update", "candidate")
    effects: ClassVar[Mapping[str, str]] = {"update": "writes"}
    write: ClassVar[str | None] = "update"

    def __init__(self, input_size: int, hidden_size: int, *, bias: bool = True) -> None:
        super().__init__(input_size, hidden_size)
        self.input = projection(input_size, hidden_size, blocks=2, bias=bias)

    def step(self, projected: Tensor, state: State) -> tuple[State, tuple[Tensor, ...]]:
        z, candidate = projected.chunk(2, dim=-1)
        z = z.sigmoid()
        return self.State((1 - z) * state.hidden + z * candidate), (z, candidate)
