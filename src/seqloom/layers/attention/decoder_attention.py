"""Layers of a decoder that look at a source: after the recurrence, before it, or once for all steps."""

from operator import itemgetter
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from seqloom import state as states
from seqloom.cells.cell import Cell
from seqloom.layers.active_rows import ActiveRows
from seqloom.layers.attention.attention import AttentionMechanism
from seqloom.layers.layer import Layer, Memory, check_input, untraced
from seqloom.layers.linear import Linear
from seqloom.layers.recurrent.recurrent import check_state, take_step
from seqloom.layers.recurrent.step_input import StepInput


class Source(NamedTuple):
    """A memory as attention reads it, zero in the padding."""

    prepared: Tensor  # (B, S, A), what the score makes of the keys
    values: Tensor  # (B, S, V)
    mask: Tensor  # (B, S), True where real


class AttentionState(NamedTuple):
    """What a layer that attends remembers of its source."""

    source: states.Shared  # of a Source: a beam moves numbers, not the source
    step: Tensor  # (B,), how many elements there were so far
    coverage: Tensor  # (B, S), how much each position was looked at so far; (B, 0) where nobody asked


class LuongAttention(Layer):
    """Attention after the recurrence (Luong et al. 2015): y = tanh(W [context; x]), where x is the query.

    Nothing is fed back, so that all steps of a sequence are one call.
    """

    State = AttentionState

    def __init__(self, attention: AttentionMechanism, output_size: int) -> None:
        super().__init__(attention.query_size, output_size)
        self.attention = attention
        self.output = Linear(attention.key_size + attention.query_size, output_size, bias=False)
        nn.init.xavier_uniform_(self.output.weight)

    def start(self, batch: int, memory: Memory | None = None, *, coverage: bool = False) -> AttentionState:
        return start_attention(self.attention, batch, memory, coverage=coverage)

    def forward(self, x: Tensor, mask: Tensor | None = None, state: Any = None) -> tuple[Tensor, AttentionState]:
        check_input(x, mask, size=self.input_size, like=self.output.weight)
        if mask is not None:
            x = x.masked_fill(~mask.unsqueeze(-1), 0)
        context, weights = self._look(x, state)
        y = torch.tanh(self.output(torch.cat([context, x], dim=-1)))
        if mask is not None:
            y, weights = (tensor.masked_fill(~mask.unsqueeze(-1), 0) for tensor in (y, weights))
        return y, advance(state, weights, x.shape[1], mask=mask)

    def weights(self, x: Tensor, mask: Tensor | None = None, state: Any = None) -> Tensor:  # (B, T, S)
        """For insight: how much each element looked at each position, in a call with the same arguments."""
        if mask is None:
            return self._look(x, state)[1]
        unreal = ~mask.unsqueeze(-1)
        return self._look(x.masked_fill(unreal, 0), state)[1].masked_fill(unreal, 0)

    def _look(self, x: Tensor, state: Any) -> tuple[Tensor, Tensor]:
        check_attention_state(state, len(x), name="LuongAttention")
        steps = state.step.unsqueeze(1) + torch.arange(x.shape[1], device=x.device)
        return Attend(self.attention, state.source)(x, steps)


class BahdanauAttention(Layer):
    """Attention before the step (Bahdanau et al. 2015): c_t looks with s_{t-1}, and s_t = step([x_t; c_t], s_{t-1}).

    The output is s_t with the context c_t beside it, so that what comes after it sees both. The steps wait for each
    other; the projections of the keys and of all x_t do not, and are done at once.
    """

    class State(NamedTuple):
        cell: Any  # the state of the recurrence
        looking: AttentionState

    def __init__(
        self,
        cell: Cell,  # it reads [x; context]
        attention: AttentionMechanism,  # its query is the output of the cell
    ) -> None:
        if not isinstance(cell, Cell):
            raise TypeError(f"cell is {type(cell).__qualname__}, expected a Cell that reads the input and the context")
        if attention.query_size != cell.hidden_size:
            raise ValueError(
                f"attention has query_size {attention.query_size}, expected {cell.hidden_size}: the cell's output looks"
            )
        if cell.input_size <= attention.key_size:
            raise ValueError(
                f"cell has input_size {cell.input_size}, expected more than {attention.key_size}: it reads x and context"
            )
        super().__init__(cell.input_size - attention.key_size, cell.hidden_size + attention.key_size)
        self.cell = cell
        self.attention = attention
        self._sizes = tuple(field.shape[1] for field in cell.start(1))

    def start(self, batch: int, memory: Memory | None = None, *, coverage: bool = False) -> "BahdanauAttention.State":
        return self.State(self.cell.start(batch), start_attention(self.attention, batch, memory, coverage=coverage))

    @untraced
    def forward(
        self, x: Tensor, mask: Tensor | None = None, state: Any = None
    ) -> tuple[Tensor, "BahdanauAttention.State"]:
        active, outputs, weights, last = self._run(x, mask, state)
        if not outputs:
            return x.new_zeros(*x.shape[:2], self.output_size), state
        noted = active.unpack(weights) if state.looking.coverage.shape[1] else None
        return active.unpack(outputs), self.State(last, advance(state.looking, noted, x.shape[1], mask=mask))

    @untraced
    def weights(self, x: Tensor, mask: Tensor | None = None, state: Any = None) -> Tensor:  # (B, T, S)
        """For insight: how much each element looked at each position, in a call with the same arguments."""
        active, _, weights, _ = self._run(x, mask, state)
        length = state.looking.source.parts.mask.shape[1]
        return active.unpack(weights) if weights else x.new_zeros(*x.shape[:2], length)

    def _run(
        self, x: Tensor, mask: Tensor | None, state: Any
    ) -> tuple[ActiveRows, list[Tensor], list[Tensor], Any]:  # outputs and weights of each step, the cell's last state
        check_input(x, mask, size=self.input_size, like=next(self.cell.parameters()))
        if not isinstance(state, tuple) or len(state) != 2:
            raise TypeError(f"state is {type(state).__name__}, expected Before.State: begin with start(batch, memory)")
        check_attention_state(state[1], len(x), name="BahdanauAttention")
        inner = check_state(state[0], self.cell.State, self._sizes, x)
        active = ActiveRows(mask, (x.shape[0], x.shape[1]), together=self.attention.remembers)
        feed = StepInput(self.cell, x, active)
        inner, shared, before = active.sort((inner, state[1].source, state[1].step))
        look = Attend(self.attention, shared, grouped=active.order is None)
        outputs, weights, left = [], [], []
        for time, rows in enumerate(active.counts):
            if not rows:
                break
            if rows < len(before):
                left.append(states.apply(itemgetter(slice(rows, None)), inner))
                inner, before = states.apply(itemgetter(slice(rows)), (inner, before))
                look.keep(rows)
            context, weight = look(inner[0].unsqueeze(1), (before + time).unsqueeze(1))
            context = context.squeeze(1)
            following, _ = take_step(self.cell, feed(time, context), inner)
            inner = active.hold(time, following, inner)
            outputs.append(torch.cat([inner[0], context], dim=-1))
            weights.append(weight.squeeze(1))
        return active, outputs, weights, active.unsort([inner, *reversed(left)])


class FixedContext(Layer):
    """No attention: the source as one vector beside the input, the same at every step (Cho et al. 2014)."""

    class State(NamedTuple):
        vector: Tensor  # (B, V)

    KINDS = ("last", "ends", "mean")

    def __init__(
        self,
        input_size: int,
        memory_size: int,
        *,
        kind: str = "last",  # what the memory says at the last element, at both ends (of two directions), or its mean
    ) -> None:
        if kind not in self.KINDS:
            raise ValueError(f"kind is {kind!r}, expected one of {', '.join(self.KINDS)}")
        if kind == "ends" and memory_size % 2:
            raise ValueError(f"both ends need two directions of equal width, found a width of {memory_size}")
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
            raise TypeError(f"state is {type(state).__name__}, expected Fixed.State: begin with start(batch, memory)")
        (vector,) = check_state(state, self.State, (self.memory_size,), x)
        check_input(x, mask, size=self.input_size, like=vector)
        y = torch.cat([x, vector.unsqueeze(1).expand(-1, x.shape[1], -1)], dim=-1)
        return y if mask is None else y.masked_fill(~mask.unsqueeze(-1), 0), self.State(vector)

    def extra_repr(self) -> str:
        return f"{self.input_size}, {self.memory_size}, kind={self.kind}"


def start_attention(
    attention: AttentionMechanism, batch: int, memory: Memory | None, *, coverage: bool
) -> AttentionState:
    """The memory as a state: its keys prepared once, for all steps and all hypotheses."""
    memory = check_memory(memory, batch, size=attention.key_size, name="attention")
    values = memory.values
    if not memory.mask.all():
        values = values.masked_fill(~memory.mask.unsqueeze(-1), 0)
    rows = torch.arange(batch, device=values.device)
    source = states.Shared(Source(attention.prepare(values), values, memory.mask), rows)
    return AttentionState(source, torch.zeros_like(rows), values.new_zeros(batch, values.shape[1] if coverage else 0))


class Attend:
    """Attention over a shared source; the rows that share one are queries of one row of the table."""

    def __init__(self, attention: AttentionMechanism, shared: states.Shared, *, grouped: bool = True) -> None:
        self.attention = attention
        self.times = shared.times if grouped else 0
        self.source: Source = shared.parts if self.times else shared.gathered()
        self.whole = bool(self.source.mask.all())

    def __call__(
        self,
        query: Tensor,  # (B, T, Q)
        steps: Tensor,  # (B, T)
    ) -> tuple[Tensor, Tensor]:  # context (B, T, V), weights (B, T, S)
        prepared, values, mask = self.source
        batch, time, size = query.shape
        if self.times > 1:
            query, steps = query.reshape(-1, self.times * time, size), steps.reshape(-1, self.times * time)
        context, weights = self.attention(query, prepared, values, mask=None if self.whole else mask, steps=steps)
        if self.times > 1:
            context, weights = context.view(batch, time, -1), weights.view(batch, time, mask.shape[1])
        return context, weights

    def keep(self, rows: int) -> None:
        """Go on with the first rows."""
        self.source = states.apply(itemgetter(slice(rows)), self.source)


def advance(
    state: AttentionState,
    weights: Tensor | None,  # (B, T, S), zero in the padding; of use where coverage is asked for
    time: int,
    *,
    mask: Tensor | None,  # (B, T)
) -> AttentionState:
    """The state after the elements that looked with these weights."""
    step = state.step + (time if mask is None else mask.sum(dim=1))
    coverage = state.coverage
    if weights is not None and coverage.shape[1]:
        coverage = coverage + weights.sum(dim=1)
    return AttentionState(state.source, step, coverage)


def mean_memory(memory: Memory) -> Tensor:  # (B, V)
    """The mean over the elements; zeros where there is none."""
    total = memory.values.masked_fill(~memory.mask.unsqueeze(-1), 0).sum(dim=1)
    return total / memory.mask.sum(dim=1, keepdim=True).clamp(min=1)


def check_memory(memory: Memory | None, batch: int, *, size: int, name: str) -> Memory:
    if memory is None:
        raise ValueError(f"memory is None, but {name} looks at a source: expected start(batch, memory)")
    shape = tuple(memory.values.shape)
    if len(shape) != 3 or (shape[0], shape[2]) != (batch, size):
        raise ValueError(f"memory.values has shape {shape}, expected ({batch}, length, {size})")
    if memory.mask.shape != shape[:2] or memory.mask.dtype != torch.bool:
        found = f"shape {tuple(memory.mask.shape)} and dtype {memory.mask.dtype}"
        raise ValueError(f"memory.mask has {found}, expected {shape[:2]} and torch.bool")
    return memory


def check_attention_state(state: Any, batch: int, *, name: str) -> None:
    if not isinstance(state, AttentionState):
        raise TypeError(f"state is {type(state).__name__}, expected {name}.State: begin with start(batch, memory)")
    if len(state.step) != batch:
        raise ValueError(f"state.step has shape {tuple(state.step.shape)}, expected {(batch,)}")


def _at(
    memory: Memory,
    steps: Tensor,  # (B,), which element of each row; below zero: there is none
) -> Tensor:  # (B, V)
    if not memory.values.shape[1]:
        return memory.values.new_zeros(len(steps), memory.values.shape[2])
    rows = torch.arange(len(steps), device=steps.device)
    return memory.values[rows, steps.clamp(min=0)].masked_fill((steps < 0).unsqueeze(1), 0)
