"""Gated recurrent unit (Cho et al. 2014)."""

from collections.abc import Mapping
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from seqloom.cells.cell import Cell, projection, recurrence


class GRU(Cell):
    """Gated recurrent unit.

    ::

        r = σ(W_r x + U_r h + b_r)                      reset gate
        z = σ(W_z x + U_z h + b_z)                      update gate
        h̃ = tanh(W_h x + U_h (r ∘ h) + b_h)             candidate, reset="before"
        h̃ = tanh(W_h x + r ∘ (U_h h + b_u) + b_h)       candidate, reset="after"
        h' = z ∘ h + (1 - z) ∘ h̃                        update_gate="keep": an open gate keeps h
        h' = (1 - z) ∘ h + z ∘ h̃                        update_gate="write": an open gate writes h̃

    The reset gate acts before the recurrent product as in the paper, or after it as in cuDNN and ``nn.GRU``. The update
    gate keeps as in the paper and ``nn.GRU``, or writes as in Chung et al. 2014.

    Parameters: 3(mn + n² + n) for input size m and hidden size n; n more (b_u) with reset="after".
    """

    class State(NamedTuple):
        hidden: Tensor

    gates: ClassVar[tuple[str, ...]] = ("reset", "update", "candidate")
    effects: ClassVar[Mapping[str, str]] = {"reset": "reads", "update": "keeps"}
    carry: ClassVar[str | None] = "update"

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        *,
        reset: str = "before",
        update_gate: str = "keep",
        bias: bool = True,
    ) -> None:
        super().__init__(input_size, hidden_size)
        if reset not in ("before", "after"):
            raise ValueError(f"reset is {reset!r}, expected 'before' or 'after' the recurrent product")
        if update_gate not in ("keep", "write"):
            raise ValueError(f"update_gate is {update_gate!r}, expected 'keep' or 'write'")
        self.reset = reset
        self.update_gate = update_gate
        if update_gate == "write":  # class variables of other cells
            vars(self).update(carry=None, write="update", effects={"reset": "reads", "update": "writes"})
        self.input = projection(input_size, hidden_size, blocks=3, bias=bias)
        self.recurrent = recurrence(hidden_size, blocks=2)
        self.candidate = recurrence(hidden_size, bias=bias and reset == "after")

    def step(self, projected: Tensor, state: State) -> tuple[State, tuple[Tensor, ...]]:
        gate_input, candidate_input = torch.split(projected, [2 * self.hidden_size, self.hidden_size], dim=-1)
        r, z = (gate_input + self.recurrent(state.hidden)).sigmoid().chunk(2, dim=-1)
        recurrent = self.candidate(r * state.hidden) if self.reset == "before" else r * self.candidate(state.hidden)
        candidate = torch.tanh(candidate_input + recurrent)
        keep = z if self.update_gate == "keep" else 1 - z
        return self.State(keep * state.hidden + (1 - keep) * candidate), (r, z, candidate)

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, reset={self.reset}, update_gate={self.update_gate}"
