"""A window that slides over a source, as in the handwriting synthesis of Graves (2013)."""

from operator import itemgetter
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from seqloom import state as states
from seqloom.cells.cell import Cell
from seqloom.kernels.sliding_window import slide
from seqloom.layers.attention.decoder_attention import StepInput, check_memory
from seqloom.layers.layer import Layer, Memory, check_input, untraced
from seqloom.layers.recurrent.active_rows import ActiveRows
from seqloom.layers.recurrent.recurrent import check_state, take_step

STEP = 0.05  # how far the window moves at the start, in source elements per step


class SlidingWindow(Layer):
    """A recurrent cell that reads a source through a window which only moves forwards (Graves 2013, section 5.1).

    With s_t = step([x_t; w_{t-1}], s_{t-1}), the window is a sum of K Gaussians over the positions u of the source:

        (α̂, β̂, κ̂) = W s_t + b,   α = exp(α̂), β = exp(β̂),   κ_t = κ_{t-1} + exp(κ̂)
        φ_t(u) = Σ_k α_k exp(−β_k (κ_k − u)²),   w_t = Σ_u φ_t(u) c_u

    The output is [s_t; w_t]. The weights φ do not add up to 1.
    """

    class State(NamedTuple):
        cell: Any  # state of the recurrence
        position: Tensor  # (B, K), the centres κ
        centre: Tensor  # (B,), their mean, weighted by α: where the window is
        window: Tensor  # (B, C), the source seen through the window
        source: states.Shared  # a WindowSource, shared so that copies of a row do not copy it

    def __init__(
        self,
        cell: Cell,  # reads [x; window]
        memory_size: int,
        *,
        components: int = 10,
    ) -> None:
        if cell.input_size <= memory_size:
            raise ValueError(
                f"cell has input_size {cell.input_size}, expected more than {memory_size}: it reads [x; window]"
            )
        super().__init__(cell.input_size - memory_size, cell.hidden_size + memory_size)
        self.cell = cell
        self.memory_size = memory_size
        self.components = components
        self.window_output = nn.Linear(cell.hidden_size, 3 * components)
        nn.init.normal_(self.window_output.weight, std=0.01)
        bias = self.window_output.bias.detach().view(3, components)
        bias[0] = -torch.log(torch.tensor(float(components)))  # the Gaussians add up to a window of about 1
        bias[1] = 0.0
        bias[2] = torch.log(torch.tensor(STEP))
        self._shapes = tuple(field.shape[1:] for field in cell.start(1))

    def start(self, batch: int, memory: Memory | None = None, *, coverage: bool = False) -> "SlidingWindow.State":  # noqa: ARG002
        memory = check_memory(memory, batch, size=self.memory_size, name="SlidingWindow")
        values = memory.values.masked_fill(~memory.mask.unsqueeze(-1), 0)
        rows = torch.arange(batch, device=values.device)
        return self.State(
            self.cell.start(batch),
            values.new_zeros(batch, self.components),
            values.new_zeros(batch),
            values.new_zeros(batch, self.memory_size),
            states.Shared(WindowSource(values, memory.mask), rows),
        )

    @untraced
    def forward(self, x: Tensor, mask: Tensor | None = None, state: Any = None) -> tuple[Tensor, "SlidingWindow.State"]:
        rows, outputs, _, last = self._run(x, mask, state)
        if not outputs:
            return x.new_zeros(*x.shape[:2], self.output_size), state
        cell_state, position, centre, window = last
        return rows.unpack(outputs), self.State(cell_state, position, centre, window, state.source)

    @untraced
    def weights(self, x: Tensor, mask: Tensor | None = None, state: Any = None) -> Tensor:  # (B, 1, T, S)
        """Return the window φ at each step of a call with the same arguments."""
        rows, _, windows, _ = self._run(x, mask, state)
        length = state.source.parts.mask.shape[1]
        return rows.unpack(windows).unsqueeze(1) if windows else x.new_zeros(len(x), 1, x.shape[1], length)

    def _run(self, x: Tensor, mask: Tensor | None, state: Any) -> tuple[ActiveRows, list[Tensor], list[Tensor], Any]:
        """Return outputs (n, D) and windows (n, S) of each step, and the last cell state, position and window."""
        check_input(x, mask, size=self.input_size, like=next(self.cell.parameters()))
        if not isinstance(state, self.State):
            raise TypeError(
                f"state is {type(state).__name__}, expected SlidingWindow.State: call start(batch, memory) first"
            )
        if len(state.position) != len(x):
            raise ValueError(f"state.position has {len(state.position)} rows, expected {len(x)} as x has")
        cell_state = check_state(state.cell, self.cell.State, self._shapes, x)
        rows = ActiveRows(mask, (x.shape[0], x.shape[1]))
        project = StepInput(self.cell, x, rows)
        current, shared = rows.sort(((cell_state, state.position, state.centre, state.window), state.source))
        source: WindowSource = shared.gathered()
        outputs, windows, finished = [], [], []
        for time, count in enumerate(rows.counts):
            if not count:
                break
            if count < len(current[1]):
                finished.append(states.apply(itemgetter(slice(count, None)), current))
                current, source = states.apply(itemgetter(slice(count)), (current, source))
            cell_state, position, _, window = current
            cell_state, _ = take_step(self.cell, project(time, window), cell_state)
            raw = self.window_output(cell_state[0])
            position, centre, weight, window = slide(raw, position, source.values, source.mask)
            current = (cell_state, position, centre, window)
            outputs.append(torch.cat([cell_state[0], window], dim=-1))
            windows.append(weight)
        return rows, outputs, windows, rows.unsort([current, *reversed(finished)])

    def extra_repr(self) -> str:
        return f"{self.input_size}, {self.memory_size}, components={self.components}"


class WindowSource(NamedTuple):
    """The source of a sliding window, zero in the padding."""

    values: Tensor  # (B, S, C)
    mask: Tensor  # (B, S), True where real
