"""Decoder layers that attend to a source: after the recurrent step, before it, or a fixed context for all steps."""

from operator import itemgetter
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from seqloom import state as states
from seqloom.cells.cell import Cell
from seqloom.cells.wrapper import Wrapper
from seqloom.layers.attention.attention import AttentionMechanism
from seqloom.layers.layer import Layer, Memory, check_input, untraced
from seqloom.layers.linear import Linear
from seqloom.layers.recurrent.active_rows import ActiveRows
from seqloom.layers.recurrent.recurrent import check_state, take_step


class AttentionSource(NamedTuple):
    """An encoder's memory prepared for attention, zero in the padding."""

    prepared: Tensor  # (B, S, A), the keys as prepared by the score
    values: Tensor  # (B, S, C), the values as prepared by the attention
    mask: Tensor  # (B, S), True where real


class AttentionState(NamedTuple):
    """State of attention: the source, the time step and the coverage."""

    source: states.Shared  # an AttentionSource, shared so that beam search moves indices only
    step: Tensor  # (B,), elements processed so far
    coverage: Tensor  # (B, S), sum of the attention weights so far, averaged over heads; (B, 0) if not requested


class LuongAttention(Layer):
    """Attention after the recurrent step (Luong et al. 2015): y = tanh(W [context; x]), where x is the query.

    With an ``output_size`` of 0, y = [context; x]. Nothing is fed back, so that all steps of a sequence are computed at
    once.
    """

    State = AttentionState

    def __init__(
        self,
        attention: AttentionMechanism,
        output_size: int,  # 0: no projection
    ) -> None:
        joint_size = attention.context_size + attention.query_size
        super().__init__(attention.query_size, output_size or joint_size)
        self.attention = attention
        self.output = Linear(joint_size, output_size, bias=False) if output_size else None
        if self.output is not None:
            nn.init.xavier_uniform_(self.output.weight)

    def start(self, batch: int, memory: Memory | None = None, *, coverage: bool = False) -> AttentionState:
        return start_attention(self.attention, batch, memory, coverage=coverage)

    def forward(self, x: Tensor, mask: Tensor | None = None, state: Any = None) -> tuple[Tensor, AttentionState]:
        check_input(x, mask, size=self.input_size, like=next(self.parameters(), x))
        context, weights, x = self._attend(x, mask, state)
        y = torch.cat([context, x], dim=-1)
        if self.output is not None:
            y = torch.tanh(self.output(y))
        if mask is not None:
            y = y.masked_fill(~mask.unsqueeze(-1), 0)
        return y, advance(state, weights.mean(dim=1), x.shape[1], mask=mask)

    def weights(self, x: Tensor, mask: Tensor | None = None, state: Any = None) -> Tensor:  # (B, heads, T, S)
        """Return the attention weights of a call with the same arguments."""
        return self._attend(x, mask, state)[1]

    def _attend(self, x: Tensor, mask: Tensor | None, state: Any) -> tuple[Tensor, Tensor, Tensor]:
        """Return the context, the weights, zero in the padding, and the input with zeros in the padding."""
        check_attention_state(state, len(x), name="LuongAttention")
        if mask is not None:
            x = x.masked_fill(~mask.unsqueeze(-1), 0)
        steps = state.step.unsqueeze(1) + torch.arange(x.shape[1], device=x.device)
        context, weights = Attend(self.attention, state.source)(x, steps)
        if mask is not None:
            weights = weights.masked_fill(~mask[:, None, :, None], 0)
        return context, weights, x


class BahdanauAttention(Layer):
    """Attention before the recurrent step (Bahdanau et al. 2015).

    The query of the context c_t is s_{t-1}; then s_t = step([x_t; c_t], s_{t-1}), and the output is [s_t; c_t]. The
    steps are sequential; the projections of the keys and of all x_t are computed at once.
    """

    class State(NamedTuple):
        cell: Any  # state of the recurrence
        attention: AttentionState

    def __init__(
        self,
        cell: Cell,  # reads [x; context]
        attention: AttentionMechanism,  # its query is the cell's output
    ) -> None:
        if not isinstance(cell, Cell):
            raise TypeError(f"cell is {type(cell).__qualname__}, expected a Cell that reads the input and the context")
        if attention.query_size != cell.hidden_size:
            raise ValueError(
                f"attention has query_size {attention.query_size}, expected {cell.hidden_size}: the cell's hidden_size"
            )
        context_size = attention.context_size
        if cell.input_size <= context_size:
            raise ValueError(
                f"cell has input_size {cell.input_size}, expected more than {context_size}: it reads [x; context]"
            )
        super().__init__(cell.input_size - context_size, cell.hidden_size + context_size)
        self.cell = cell
        self.attention = attention
        self._shapes = tuple(field.shape[1:] for field in cell.start(1))

    def start(self, batch: int, memory: Memory | None = None, *, coverage: bool = False) -> "BahdanauAttention.State":
        return self.State(self.cell.start(batch), start_attention(self.attention, batch, memory, coverage=coverage))

    @untraced
    def forward(
        self, x: Tensor, mask: Tensor | None = None, state: Any = None
    ) -> tuple[Tensor, "BahdanauAttention.State"]:
        rows, outputs, weights, last = self._run(x, mask, state)
        if not outputs:
            return x.new_zeros(*x.shape[:2], self.output_size), state
        requested = state.attention.coverage.shape[1] > 0
        covered = rows.unpack([weight.mean(dim=1) for weight in weights]) if requested else None
        return rows.unpack(outputs), self.State(last, advance(state.attention, covered, x.shape[1], mask=mask))

    @untraced
    def weights(self, x: Tensor, mask: Tensor | None = None, state: Any = None) -> Tensor:  # (B, heads, T, S)
        """Return the attention weights of a call with the same arguments."""
        rows, _, weights, _ = self._run(x, mask, state)
        if not weights:
            return x.new_zeros(len(x), 1, x.shape[1], state.attention.source.parts.mask.shape[1])
        heads = [rows.unpack([weight[:, head] for weight in weights]) for head in range(weights[0].shape[1])]
        return torch.stack(heads, dim=1)

    def _run(self, x: Tensor, mask: Tensor | None, state: Any) -> tuple[ActiveRows, list[Tensor], list[Tensor], Any]:
        """Return outputs (n, D) and weights (n, heads, S) of each step, and the cell's last state."""
        check_input(x, mask, size=self.input_size, like=next(self.cell.parameters()))
        if not isinstance(state, tuple) or len(state) != 2:
            raise TypeError(
                f"state is {type(state).__name__}, expected BahdanauAttention.State: call start(batch, memory) first"
            )
        check_attention_state(state[1], len(x), name="BahdanauAttention")
        cell_state = check_state(state[0], self.cell.State, self._shapes, x)
        rows = ActiveRows(mask, (x.shape[0], x.shape[1]), all_rows=self.attention.stateful)
        project = StepInput(self.cell, x, rows)
        cell_state, source, first_step = rows.sort((cell_state, state[1].source, state[1].step))
        attend = Attend(self.attention, source, grouped=rows.order is None)
        outputs, weights, finished = [], [], []
        for time, count in enumerate(rows.counts):
            if not count:
                break
            if count < len(first_step):
                finished.append(states.apply(itemgetter(slice(count, None)), cell_state))
                cell_state, first_step = states.apply(itemgetter(slice(count)), (cell_state, first_step))
                attend.keep(count)
            context, weight = attend(cell_state[0].unsqueeze(1), (first_step + time).unsqueeze(1))
            context = context.squeeze(1)
            next_state, _ = take_step(self.cell, project(time, context), cell_state)
            cell_state = rows.mask_state(time, next_state, cell_state)
            outputs.append(torch.cat([cell_state[0], context], dim=-1))
            weights.append(weight.squeeze(2))
        return rows, outputs, weights, rows.unsort([cell_state, *reversed(finished)])


class StepInput:
    """Computes ``cell.project([x; context])`` of each step; the part of x and the noise are computed once for all."""

    def __init__(
        self,
        cell: Cell,
        x: Tensor,  # (B, T, D)
        active: ActiveRows,
    ) -> None:
        wrappers = []
        while isinstance(cell, Wrapper):
            wrappers.append(cell)
            cell = cell.cell
        self.cell = cell
        parts = list(cell.input) if type(cell.input) is nn.Sequential else [cell.input]
        first, self.rest = parts[0], parts[1:]  # the matrix product, which can be split, and the modules after it
        self.weight: Tensor | None = None  # (P, V), the columns that read the context
        known = active.flatten(x)
        if type(cell).project is Cell.project and type(first) is nn.Linear:
            input_weight, self.weight = first.weight.split([x.shape[2], first.in_features - x.shape[2]], dim=1)
            known = functional.linear(known, input_weight, first.bias)
        self.known = active.split(known)
        noise = x.transpose(0, 1)[..., :0].detach()
        for wrapper in reversed(wrappers):
            if wrapper.training:
                noise = torch.cat([noise, wrapper.sample_noise(noise)], dim=-1)
        self.noise = active.pack(noise.transpose(0, 1)) if noise.shape[2] else None

    def __call__(
        self,
        time: int,
        context: Tensor,  # (n, V)
    ) -> Tensor:  # (n, P)
        """Return the projected input of one step."""
        known = self.known[time]
        if self.weight is None:
            projected = self.cell.project(torch.cat([known, context], dim=-1).unsqueeze(0)).squeeze(0)
        else:
            projected = torch.addmm(known, context, self.weight.t())
            for part in self.rest:
                projected = part(projected)
        return projected if self.noise is None else torch.cat([projected, self.noise[time]], dim=-1)


class FixedContext(Layer):
    """No attention: the source as one vector, appended to the input of every step (Cho et al. 2014)."""

    class State(NamedTuple):
        vector: Tensor  # (B, V)

    KINDS = ("last", "ends", "mean")

    def __init__(
        self,
        input_size: int,
        memory_size: int,
        *,
        kind: str = "last",  # memory at the last element, at both ends (bidirectional), or its mean
    ) -> None:
        if kind not in self.KINDS:
            raise ValueError(f"kind is {kind!r}, expected one of {', '.join(self.KINDS)}")
        if kind == "ends" and memory_size % 2:
            raise ValueError(f"kind 'ends' needs two directions of equal width, got a memory of width {memory_size}")
        super().__init__(input_size, input_size + memory_size)
        self.memory_size = memory_size
        self.kind = kind

    def start(self, batch: int, memory: Memory | None = None, *, coverage: bool = False) -> "FixedContext.State":  # noqa: ARG002
        memory = check_memory(memory, batch, size=self.memory_size, name="FixedContext")
        if self.kind == "mean":
            return self.State(mean_memory(memory))
        lengths = memory.mask.sum(dim=1)
        ends = _at(memory, lengths - 1)
        if self.kind == "ends":
            half = self.memory_size // 2
            ends = torch.cat([ends[:, :half], _at(memory, lengths.clamp(max=1) - 1)[:, half:]], dim=1)
        return self.State(ends)

    def forward(self, x: Tensor, mask: Tensor | None = None, state: Any = None) -> tuple[Tensor, "FixedContext.State"]:
        if not isinstance(state, tuple) or len(state) != 1:
            raise TypeError(
                f"state is {type(state).__name__}, expected FixedContext.State: call start(batch, memory) first"
            )
        (vector,) = check_state(state, self.State, (torch.Size([self.memory_size]),), x)
        check_input(x, mask, size=self.input_size, like=vector)
        y = torch.cat([x, vector.unsqueeze(1).expand(-1, x.shape[1], -1)], dim=-1)
        return y if mask is None else y.masked_fill(~mask.unsqueeze(-1), 0), self.State(vector)

    def extra_repr(self) -> str:
        return f"{self.input_size}, {self.memory_size}, kind={self.kind}"


def start_attention(
    attention: AttentionMechanism, batch: int, memory: Memory | None, *, coverage: bool
) -> AttentionState:
    """Return the initial state; the keys are prepared once for all steps and hypotheses."""
    memory = check_memory(memory, batch, size=attention.key_size, name="attention")
    values = memory.values
    if not memory.mask.all():
        values = values.masked_fill(~memory.mask.unsqueeze(-1), 0)
    rows = torch.arange(batch, device=values.device)
    prepared = AttentionSource(attention.prepare(values), attention.prepare_values(values), memory.mask)
    source = states.Shared(prepared, rows)
    return AttentionState(source, torch.zeros_like(rows), values.new_zeros(batch, values.shape[1] if coverage else 0))


class Attend:
    """Attention over a shared source; batch rows of the same source are computed as queries of one row."""

    def __init__(self, attention: AttentionMechanism, shared: states.Shared, *, grouped: bool = True) -> None:
        self.attention = attention
        self.times = shared.times if grouped else 0
        self.source: AttentionSource = shared.parts if self.times else shared.gathered()
        self.unpadded = bool(self.source.mask.all())

    def __call__(
        self,
        query: Tensor,  # (B, T, Q)
        steps: Tensor,  # (B, T)
    ) -> tuple[Tensor, Tensor]:  # context (B, T, C), weights (B, heads, T, S)
        prepared, values, mask = self.source
        batch, time, size = query.shape
        if self.times > 1:
            query, steps = query.reshape(-1, self.times * time, size), steps.reshape(-1, self.times * time)
        context, weights = self.attention(query, prepared, values, mask=None if self.unpadded else mask, steps=steps)
        if weights.dim() == 3:
            weights = weights.unsqueeze(1)
        if self.times > 1:
            context = context.reshape(batch, time, -1)
            weights = weights.unflatten(2, (self.times, time)).transpose(1, 2).flatten(0, 1)
        return context, weights

    def keep(self, rows: int) -> None:
        """Keep only the first rows."""
        self.source = states.apply(itemgetter(slice(rows)), self.source)


def advance(
    state: AttentionState,
    weights: Tensor | None,  # (B, T, S), averaged over heads, zero in the padding; needed for coverage only
    time: int,
    *,
    mask: Tensor | None,  # (B, T)
) -> AttentionState:
    """Return the state after elements with these attention weights."""
    step = state.step + (time if mask is None else mask.sum(dim=1))
    coverage = state.coverage
    if weights is not None and coverage.shape[1]:
        coverage = coverage + weights.sum(dim=1)
    return AttentionState(state.source, step, coverage)


def mean_memory(memory: Memory) -> Tensor:  # (B, V)
    """Mean over the elements of each row; zeros if there are none."""
    total = memory.values.masked_fill(~memory.mask.unsqueeze(-1), 0).sum(dim=1)
    return total / memory.mask.sum(dim=1, keepdim=True).clamp(min=1)


def check_memory(memory: Memory | None, batch: int, *, size: int, name: str) -> Memory:
    if memory is None:
        raise ValueError(f"memory is None, but {name} attends to a source: call start(batch, memory)")
    shape = tuple(memory.values.shape)
    if len(shape) != 3 or (shape[0], shape[2]) != (batch, size):
        raise ValueError(f"memory.values has shape {shape}, expected ({batch}, length, {size})")
    if memory.mask.shape != shape[:2] or memory.mask.dtype != torch.bool:
        actual = f"shape {tuple(memory.mask.shape)} and dtype {memory.mask.dtype}"
        raise ValueError(f"memory.mask has {actual}, expected {shape[:2]} and torch.bool")
    return memory


def check_attention_state(state: Any, batch: int, *, name: str) -> None:
    if not isinstance(state, AttentionState):
        raise TypeError(f"state is {type(state).__name__}, expected {name}.State: call start(batch, memory) first")
    if len(state.step) != batch:
        raise ValueError(f"state.step has shape {tuple(state.step.shape)}, expected {(batch,)}")


def _at(
    memory: Memory,
    steps: Tensor,  # (B,), element of each row; negative: zeros
) -> Tensor:  # (B, V)
    if not memory.values.shape[1]:
        return memory.values.new_zeros(len(steps), memory.values.shape[2])
    rows = torch.arange(len(steps), device=steps.device)
    return memory.values[rows, steps.clamp(min=0)].masked_fill((steps < 0).unsqueeze(1), 0)
