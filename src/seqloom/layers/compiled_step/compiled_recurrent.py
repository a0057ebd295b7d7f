"""A recurrent decoder's step as a program that calls the kernels of its cells: one call of compiled code."""

import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from seqloom.kernels.fuse.inference import InferenceCall
from seqloom.kernels.fuse.scan import FusedScan
from seqloom.kernels.program import attention as attention_kernel
from seqloom.kernels.program.operations import CALL_OPERANDS, float_bits
from seqloom.kernels.program.program import Program, Repetition
from seqloom.kernels.program.source_attention import is_readable
from seqloom.kernels.runtime.identities import Identities
from seqloom.kernels.runtime.partition import Partition
from seqloom.layers.attention.attention import Attention
from seqloom.layers.attention.decoder_attention import AttentionState, LuongAttention
from seqloom.layers.attention.projected import ProjectedAttention
from seqloom.layers.attention.scores import Cosine, Dot, Multiplicative, Scaled
from seqloom.layers.bridge import BridgedLayer
from seqloom.layers.compiled_step.choosing import Choice, Choosing, Chosen, steps_at_once
from seqloom.layers.compiled_step.compiled_transformer import unsupported_parts, write_linear, write_output
from seqloom.layers.recurrent.recurrent import Recurrent
from seqloom.layers.stack import Stack

PRODUCT_SCORES = (Dot, Scaled, Cosine, Multiplicative)
"""Scores that are dot products of the query and prepared keys."""
ATTRIBUTES: dict[type[nn.Module], tuple[str, ...]] = {ProjectedAttention: ("heads",), Scaled: ("key_size",)}
"""Attributes that a step depends on, besides submodules and parameters."""
SOURCE = ("keys", "values", "length", "mask", "source_rows", "accumulated")
"""Operands of attention that are different in each call."""
_empty_like = torch.empty_like
MAX_CALLS = 64
"""Numbers of rows for which prepared calls are kept."""


def unsupported(module: Any) -> str:
    """Why the module has no compiled step: it is not of fused recurrent layers, Luong attention and the softmax."""
    layers = list(_flatten(module.layer))
    *below, last = layers
    recurrences = below if type(last) is LuongAttention else layers
    linear = []
    if type(last) is LuongAttention:
        attention = _head(last.attention)
        if type(attention) is not Attention:
            return f"{type(attention).__name__} is not compiled, only soft attention"
        if type(attention.score) not in PRODUCT_SCORES:
            return f"the score {type(attention.score).__name__} is no dot product of the query and prepared keys"
        linear = [] if last.output is None else [last.output]
        linear += [last.attention.query] if type(last.attention) is ProjectedAttention else []
    for layer in recurrences:
        if type(layer) is not Recurrent or layer.reverse:
            return f"{type(layer).__name__} is no forward recurrent layer"
    if not recurrences:
        return "there is no recurrent layer"
    stacks = [part for part in module.layer.modules() if type(part) is Stack]
    reason = unsupported_parts(module, linear=linear, stacks=stacks)
    for layer in () if reason else recurrences:
        if _fused_scan(layer, module.embed.weight) is None:
            return f"{type(layer.cell).__name__} has no fused kernel for the whole step"
    return reason


def _head(attention: Any) -> Any:
    """The attention of one head."""
    return attention.attention if type(attention) is ProjectedAttention else attention


def _flatten(layer: nn.Module) -> Iterator[Any]:
    """Yield the layers inside stacks and bridges, lowest first."""
    if type(layer) is BridgedLayer:
        yield from _flatten(layer.layer)
    elif type(layer) is Stack:
        for inner in layer.layers:
            yield from _flatten(inner)
    else:
        yield layer


def _fused_scan(layer: Recurrent, like: Tensor) -> FusedScan | None:
    kernel = layer.kernel(like)
    return kernel if isinstance(kernel, FusedScan) and kernel.plan.linear else None


class CompiledRecurrent:
    """A module's step as a program, with packed weights."""

    def __init__(self, module: Any, members: int) -> None:
        self.embed, self.layer = module.embed, module.layer
        self.copied: list[nn.Parameter] = []
        layers = list(_flatten(module.layer))
        attention = layers.pop() if type(layers[-1]) is LuongAttention else None
        weight = module.embed.weight
        self._dtype, self._vocab_size = weight.dtype, module.output.out_features
        self._cells = [_Cell(layer, weight, self.copied) for layer in layers]
        self._is_single = type(module.layer) is Recurrent
        self._calls: dict[int, list[_Call]] = {}  # that no thread uses, by number of rows
        self._program = program = Program(weight.dtype, members)
        program.multiplications += sum(cell.work for cell in self._cells)
        self._size = module.embed.embedding_dim
        program.add(
            "embedding",
            source=weight,
            index="tokens",
            source_stride=weight.stride(0),
            scale=float_bits(1.0),
            out="embedded",
            out_stride=self._size,
            size=self._size,
        )
        for index in range(len(self._cells)):
            operands: dict[str, Any] = {name: f"{name} {index}" for name in CALL_OPERANDS}
            program.add("call", **operands)
        current: Any = "top"
        options = {"left_stride": layers[-1].output_size}
        self._attention = None if attention is None else _Attention(program, attention, self.copied)
        if self._attention is not None:
            current, options = self._attention.out, {}
        self.copied += write_output(program, module, current, **options)
        program.finalize()

    def usable(self) -> bool:
        """Whether the cells are unchanged."""
        for cell in self._cells:  # noqa: SIM110  a generator would take as long as the comparison
            if cell.is_stale():
                return False
        return True

    def step(self, tokens: Tensor, state: Any) -> tuple[Tensor, Any] | None:
        rows = tokens.shape[0]
        states = self._states(state)
        call = self._take(rows)
        finals, attended = call.single_step(states), self._attend(call, states, rows)
        if finals is None or attended is None:
            self._give_back(rows, call)
            return None
        out = torch.empty(rows, self._vocab_size, dtype=self._dtype)
        addresses = call.addresses
        addresses["tokens"], addresses["out"] = tokens.data_ptr(), out.data_ptr()
        self._program.run(rows, addresses, scratch=attended.scratch)
        self._give_back(rows, call)
        return out, self._next_state(finals, attended, 1)

    def choose(self, tokens: Tensor, state: Any, choice: Choice) -> Chosen | None:
        """Several steps; each leaves its state in memory of its own, from which the next one starts."""
        rows, steps = len(tokens), steps_at_once(choice.steps, len(tokens))
        states = self._states(state)
        call = self._take(rows)
        prepared, attended = call.several_steps(states, steps), self._attend(call, states, rows)
        if prepared is None or attended is None:
            self._give_back(rows, call)
            return None
        sequences, growing = prepared
        chosen = Choosing(choice, tokens, steps=steps, vocab_size=self._vocab_size, dtype=self._dtype)
        top = sequences[-1][0]
        moves = {"top": top.stride(0) * top.element_size()}
        done = self._program.run(
            rows,
            call.addresses | chosen.addresses,
            scratch=attended.scratch,
            repetition=Repetition(steps, moves | chosen.growing, growing),
        )
        self._give_back(rows, call)
        finals = [[field[done].clone() for field in fields] for fields in sequences]
        return chosen.result(done, self._next_state(finals, attended, done))

    def _states(self, state: Any) -> list[Any]:
        """The states of the layers, lowest first; too few for a state of another structure."""
        return [state] if self._is_single else list(_flatten_state(self.layer, state))

    def _attend(self, call: "_Call", states: list[Any], rows: int) -> "_Attended | None":
        """What attention reads and writes; None if its state is unsupported."""
        if self._attention is None:
            return NOT_ATTENDED if len(states) == len(self._cells) else None
        if len(states) != len(self._cells) + 1:
            return None
        return self._attention.arguments(states[-1], rows, call.addresses)

    def _next_state(self, finals: Sequence[Sequence[Tensor]], attended: "_Attended", steps: int) -> Any:
        states: list[Any] = [cell.state_type._make(fields) for cell, fields in zip(self._cells, finals, strict=True)]
        if self._is_single:
            return states[0]
        if attended.state is not None:
            states.append(attended.state._replace(step=attended.state.step + steps))
        return _nest(self.layer, iter(states))

    def _take(self, rows: int) -> "_Call":
        try:
            return self._calls[rows].pop()
        except (KeyError, IndexError):  # the first one, or all are in use by other threads
            embedded = torch.empty(rows, self._size, dtype=self._dtype)
            return _Call(self._cells, rows, self._program.team(rows), embedded)

    def _give_back(self, rows: int, call: "_Call") -> None:
        if len(self._calls) >= MAX_CALLS and rows not in self._calls:
            self._calls.clear()
        self._calls.setdefault(rows, []).append(call)


def _flatten_state(layer: nn.Module, state: Any) -> Iterator[Any]:
    """Yield the states of the layers that ``_flatten`` yields; nothing for a state of another structure."""
    if type(layer) is BridgedLayer:
        yield from _flatten_state(layer.layer, state)
    elif type(layer) is not Stack:
        yield state
    elif isinstance(state, tuple) and len(state) == len(layer.layers):
        for inner, part in zip(layer.layers, state, strict=True):
            yield from _flatten_state(inner, part)


def _nest(layer: nn.Module, states: Iterator[Any]) -> Any:
    """The state of a layer, made of the states of the layers that ``_flatten`` yields."""
    if type(layer) is BridgedLayer:
        return _nest(layer.layer, states)
    return tuple([_nest(inner, states) for inner in layer.layers]) if type(layer) is Stack else next(states)


class _Attended(NamedTuple):
    """Attention in one call."""

    state: AttentionState | None  # afterwards, but for the number of steps; None: there is no attention
    scratch: int  # elements of scratch memory


NOT_ATTENDED = _Attended(None, 0)


class _Attention:
    """Attention after the recurrent layers, as operations of a program that read "top"."""

    def __init__(self, program: Program, layer: Any, copied: list[nn.Parameter]) -> None:
        attention, head = layer.attention, _head(layer.attention)
        self._real, self._dtype = program.real, program.dtype
        self._heads = 1 if attention is head else attention.heads
        self._width, size = attention.context_size, layer.input_size
        query: dict[str, Any] = {"query": "top", "query_stride": size}
        source: dict[str, Any] = {name: name for name in SOURCE}
        self._query_size = head.score.key_size if type(head.score) is not Multiplicative else head.score.query_size
        self._query_size *= self._heads
        if attention is not head:
            projected = program.region(self._query_size)
            write_linear(program, attention.query, "top", projected, left_stride=size)
            copied.append(attention.query.weight)
            query = {"query": projected, "query_stride": "stride"}
        scale = 1 / math.sqrt(head.score.key_size) if type(head.score) is Scaled else 1.0
        factor = 0.0
        if type(head.score) is Cosine:
            factor = float(head.score.factor)
            copied.append(head.score.factor)
        joined = program.region(self._width + size)
        program.add(
            "source_attention",
            **query,
            heads=self._heads,
            size=self._query_size // self._heads,
            scale=float_bits(scale),
            factor=float_bits(factor),
            width=self._width // self._heads,
            appended="top",
            appended_stride=size,
            appended_size=size,
            out=joined,
            out_stride="stride",
            **source,
        )
        self.out = joined
        if layer.output is not None:
            self.out = program.region(layer.output_size)
            copied.append(layer.output.weight)
            write_linear(program, layer.output, joined, self.out, epilogue=("tanh", 0.0))

    def arguments(self, state: Any, rows: int, addresses: dict[str, int]) -> _Attended | None:
        """Set the addresses; None if the state is unsupported."""
        if not isinstance(state, AttentionState) or not self._has_expected_shapes(state, rows):
            return None
        (prepared, values, mask), source_rows = state.source
        coverage = state.coverage.clone(memory_format=torch.contiguous_format)
        addresses["keys"], addresses["values"] = prepared.data_ptr(), values.data_ptr()
        addresses["mask"], addresses["length"] = mask.data_ptr(), mask.shape[1]
        addresses["source_rows"] = source_rows.data_ptr()
        addresses["accumulated"] = coverage.data_ptr() if coverage.shape[1] else 0
        scratch = attention_kernel.scratch_size(self._real, self._query_size, mask.shape[1])
        return _Attended(state._replace(coverage=coverage), scratch)

    def _has_expected_shapes(self, state: AttentionState, batch: int) -> bool:
        """Whether all tensors have the shapes and dtypes that the kernel expects; it gets addresses only."""
        (prepared, values, mask), rows = state.source
        if not (is_readable(prepared, self._dtype) and is_readable(values, self._dtype)):
            return False
        if not (is_readable(mask, torch.bool) and is_readable(rows, torch.int64)):
            return False
        shape, coverage = tuple(mask.shape), state.coverage
        if len(shape) != 2 or prepared.shape != (*shape, self._query_size) or values.shape != (*shape, self._width):
            return False
        if coverage.dtype != self._dtype or coverage.device.type != "cpu":
            return False
        if coverage.shape not in ((batch, 0), (batch, shape[1])):
            return False
        if state.step.shape != (batch,) or rows.shape != (batch,):
            return False
        indices: list[int] = rows.tolist()
        return min(indices) >= 0 and max(indices) < shape[0]


class _Cell:
    """The kernel of one cell."""

    def __init__(self, layer: Recurrent, like: Tensor, copied: list[nn.Parameter]) -> None:
        fused = _fused_scan(layer, like)
        if fused is None:
            raise TypeError(f"{type(layer.cell).__name__} has no fused kernel")
        self._layer, self._like, self._fused = layer, like, fused
        self._same: Identities | None = None
        self.state_type: Any = layer.cell.State
        parameters = dict(layer.cell.named_parameters())
        copied += parameters.values()
        self._weights = [parameters[name].detach().contiguous() for name in fused.names]
        self.widths = fused.plan.traced.state_widths
        matrices = [parameters[product.matrix] for _, product in fused.kernel("forward").products]
        self.work = sum(matrix.numel() for matrix in (*matrices, parameters[fused.plan.linear or ""]))  # per row

    def is_stale(self) -> bool:
        if self._same is not None and self._same.same():
            return False
        is_stale = _fused_scan(self._layer, self._like) is not self._fused
        self._same = None if is_stale else self._layer.unchanged(parameters=False)  # the snapshot has them
        return is_stale

    def prepare(self, rows: int, members: int, input_size: int) -> tuple[InferenceCall, dict[str, int]]:
        """A call for this many rows and threads, and the operands of ``call``."""
        team = rows < members and self._fused.plan.shareable
        parts = 1 if team else min(members, rows)
        partition = Partition.create(1, rows, None, reverse=False, parts=parts, members=members if team else 1)
        call = self._fused.inference_call()
        call.prepare(partition, (input_size, input_size), self._weights)
        function = self._fused.kernel("forward").address
        return call, {"function": function, "table": call.address, "parts": parts, "team": int(team)}


class _Call:
    """The calls of all cells for one number of rows. Not for two threads at once."""

    def __init__(self, cells: list[_Cell], rows: int, members: int, embedded: Tensor) -> None:
        self._embedded, self._x = embedded, embedded.data_ptr()
        self._shapes = [[torch.Size((rows, width)) for width in cell.widths] for cell in cells]
        self.addresses = {"embedded": self._x}
        self._calls: list[InferenceCall] = []
        size = embedded.shape[1]
        for index, cell in enumerate(cells):
            call, operands = cell.prepare(rows, members, size)
            self._calls.append(call)
            self.addresses |= {f"{name} {index}": value for name, value in operands.items()}
            size = cell.widths[0]

    def single_step(self, states: list[Any]) -> list[list[Tensor]] | None:
        """The tensors of the next states, which the call will fill; None if these states are unsupported."""
        if not self._are_plain(states):
            return None
        x, finals = self._x, []
        for call, state in zip(self._calls, states, strict=False):
            final = [_empty_like(field) for field in state]
            call.set_addresses(x, state, final[0], final)  # for one step the output is the state
            x = final[0].data_ptr()
            finals.append(final)
        self.addresses["top"] = x
        return finals

    def several_steps(
        self, states: list[Any], steps: int
    ) -> tuple[list[list[Tensor]], list[tuple[int, int, int]]] | None:
        """Tensors (T + 1, B, H) of the states before and after each step, and the addresses that move."""
        if not self._are_plain(states):
            return None
        x, x_size, sequences = self._x, 0, []
        growing: list[tuple[int, int, int]] = []
        for call, state in zip(self._calls, states, strict=False):
            fields = [torch.empty(steps + 1, *field.shape, dtype=field.dtype) for field in state]
            for field, initial in zip(fields, state, strict=True):
                field[0] = initial
            sizes = [field.stride(0) * field.element_size() for field in fields]
            initials, finals = ([field[place] for field in fields] for place in (0, 1))
            call.set_addresses(x, initials, finals[0], finals)
            growing += call.growth(x_size, sizes)
            x, x_size = finals[0].data_ptr(), sizes[0]
            sequences.append(fields)
        self.addresses["top"] = x
        return sequences, growing

    def _are_plain(self, states: list[Any]) -> bool:
        """Whether the kernels can read the states by their addresses."""
        dtype = self._embedded.dtype
        if len(states) < len(self._shapes):
            return False
        for shapes, state in zip(self._shapes, states, strict=False):
            if not isinstance(state, tuple) or len(state) != len(shapes):
                return False
            for field, shape in zip(state, shapes, strict=True):
                # As ``is_plain``: a call for each field would take as long as the checks.
                if type(field) is not Tensor or field.shape != shape or field.dtype is not dtype:
                    return False
                if not field.is_cpu or not field.is_contiguous():
                    return False
        return True
