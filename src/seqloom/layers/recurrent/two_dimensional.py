"""Two-dimensional LSTM layer (Graves, Fernández & Schmidhuber 2007), which reads an image in four directions."""

from collections.abc import Mapping
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from seqloom.cells.cell import Cell, projection, recurrence
from seqloom.layers.recurrent.recurrent import Recurrent

CORNERS = ("top_left", "top_right", "bottom_left", "bottom_right")
"""Where each of the four directions starts."""


class TwoDimensionalLSTM(nn.Module):
    """LSTM over the rows and columns of an image; each position reads its neighbours in the row and in the column.

    ::

        i = σ(W_i x + U_i h₁ + V_i h₂ + b_i)        input gate; h₁, c₁ of the neighbour in the row above
        f₁ = σ(W_f x + U_f h₁ + V_f h₂ + b_f)       forget gate of c₁
        f₂ = σ(W_g x + U_g h₁ + V_g h₂ + b_g)       forget gate of c₂; h₂, c₂ of the neighbour in the column before
        z = tanh(W_z x + U_z h₁ + V_z h₂ + b_z)     candidate
        o = σ(W_o x + U_o h₁ + V_o h₂ + b_o)        output gate
        c = f₁ ∘ c₁ + f₂ ∘ c₂ + i ∘ z
        h = o ∘ tanh(c)

    Four such layers start in the four corners; their outputs are concatenated: left to right and right to left, from
    the top, then from the bottom. Forget gates start half open, because a memory arrives on many paths.

    A row is one run of a compiled recurrent layer, whose input holds what the row above has computed.

    Parameters: 4 · 5(mn + 2n² + n) for input size m and hidden size n.
    """

    def __init__(self, input_size: int, hidden_size: int) -> None:
        super().__init__()
        self.hidden_size = hidden_size
        self.output_size = 4 * hidden_size
        self.input = projection(input_size, hidden_size, blocks=4 * 5)
        self.directions = nn.ModuleList(
            Recurrent(_RowCell(hidden_size), reverse=reverse) for reverse in (False, True, False, True)
        )

    def forward(
        self,
        x: Tensor,  # (B, rows, columns, input_size)
        mask: Tensor | None = None,  # (B, columns)
    ) -> Tensor:  # (B, rows, columns, 4 × hidden_size), zero in the padding
        if mask is not None:
            x = x.masked_fill(~mask[:, None, :, None], 0)
        outputs = []
        for index, (layer, projected) in enumerate(zip(self.directions, self.input(x).chunk(4, dim=-1), strict=True)):
            from_bottom = index >= 2
            # unbind instead of indexing, whose gradient fills a tensor of the whole image for every row.
            rows = projected.unbind(1)
            above = x.new_zeros(len(x), x.shape[2], 2 * self.hidden_size)  # hidden states and memories
            hidden = []
            for row in reversed(rows) if from_bottom else rows:
                above, _ = layer(torch.cat([row, above], dim=-1), mask)
                hidden.append(above[..., : self.hidden_size])
            outputs.append(torch.stack(hidden[::-1] if from_bottom else hidden, dim=1))
        return torch.cat(outputs, dim=-1)

    def extra_repr(self) -> str:
        return f"{self.input.in_features}, {self.hidden_size}"


class _RowCell(Cell):
    """A step along a row. The input is W x + b, then the hidden state and the memory of the row above."""

    class State(NamedTuple):
        values: Tensor  # (B, 2 × size): hidden state and memory

    gates: ClassVar[tuple[str, ...]] = ("input", "forget_above", "forget_before", "candidate", "output")
    effects: ClassVar[Mapping[str, str]] = {
        "input": "writes",
        "forget_above": "keeps",
        "forget_before": "keeps",
        "output": "outputs",
    }

    def __init__(self, size: int) -> None:
        super().__init__(7 * size, 2 * size)
        self.size = size
        self.above = recurrence(size, blocks=5)
        self.before = recurrence(size, blocks=5)

    def project(self, x: Tensor) -> Tensor:
        projected, hidden, memory = torch.split(x, [5 * self.size, self.size, self.size], dim=-1)
        return torch.cat([projected + self.above(hidden), memory], dim=-1)

    def step(self, projected: Tensor, state: State) -> tuple[State, tuple[Tensor, ...]]:
        total, memory_above = torch.split(projected, [5 * self.size, self.size], dim=-1)
        hidden, memory = state.values.chunk(2, dim=-1)
        i, f_above, f_before, z, o = (total + self.before(hidden)).chunk(5, dim=-1)
        i, f_above, f_before, z, o = i.sigmoid(), f_above.sigmoid(), f_before.sigmoid(), z.tanh(), o.sigmoid()
        memory = f_above * memory_above + f_before * memory + i * z
        return self.State(torch.cat([o * memory.tanh(), memory], dim=-1)), (i, f_above, f_before, z, o)
