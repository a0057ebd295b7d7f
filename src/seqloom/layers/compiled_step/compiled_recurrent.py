"""A recurrent decoder's step as compiled calls: one per recurrent layer, and one program for the rest."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from seqloom.kernels.fuse.repeated_call import RepeatedCall
from seqloom.kernels.fuse.scan import FusedScan
from seqloom.kernels.program.program import Program
from seqloom.kernels.program.source_attention import attend_to_source, is_readable
from seqloom.kernels.runtime import threads
from seqloom.kernels.runtime.identities import Identities
from seqloom.kernels.runtime.partition import Partition
from seqloom.layers.attention.attention import Attention
from seqloom.layers.attention.decoder_attention import AttentionState, LuongAttention
from seqloom.layers.attention.projected import ProjectedAttention
from seqloom.layers.attention.scores import Cosine, Dot, Multiplicative, Scaled
from seqloom.layers.bridge import BridgedLayer
from seqloom.layers.compiled_step.compiled_transformer import unsupported_parts, write_linear, write_output
from seqloom.layers.recurrent.compiled_cell import is_plain
from seqloom.layers.recurrent.recurrent import Recurrent
from seqloom.layers.stack import Stack

SERIAL_LIMIT = 1 << 20
"""Multiplications of a step up to which one thread is faster than several."""
PRODUCT_SCORES = (Dot, Scaled, Cosine, Multiplicative)
"""Scores that are dot products of the query and prepared keys."""


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
    """A module's step as calls of compiled code, with packed weights."""

    def __init__(self, module: Any, members: int) -> None:
        self.embed, self.layer = module.embed, module.layer
        self.copied: list[nn.Parameter] = []
        layers = list(_flatten(module.layer))
        attention = layers.pop() if type(layers[-1]) is LuongAttention else None
        self._weight = module.embed.weight
        self._table = self._weight.detach()
        self._cells = [_CellStep(layer, self._weight, self.copied) for layer in layers]
        self._layers = _layer_step(module.layer, iter(self._cells))
        self._vocab_size = module.output.out_features
        self._program = Program(self._weight.dtype, members)
        current: Any = "features"
        options = {"left_stride": layers[-1].output_size}
        if attention is not None:
            options = {"left_stride": attention.output_size}
        if attention is not None and attention.output is not None:
            current = self._program.region(attention.output_size)
            stride = attention.output.in_features
            self.copied.append(attention.output.weight)
            write_linear(
                self._program, attention.output, "features", current, left_stride=stride, epilogue=("tanh", 0.0)
            )
            options = {}
        self.copied += write_output(self._program, module, current, **options)
        self._program.finalize()

    def usable(self) -> bool:
        """Whether the cells are unchanged."""
        return not any(cell.is_stale() for cell in self._cells)

    def step(self, tokens: Tensor, state: Any) -> tuple[Tensor, Any] | None:
        (batch,) = tokens.shape
        embedded = self._table.narrow(0, int(tokens), 1) if batch == 1 else self._table.index_select(0, tokens)
        result = self._layers(embedded, state)
        if result is None:
            return None
        features, next_state = result
        out = torch.empty(batch, self._vocab_size, dtype=features.dtype)
        self._program.run(batch, {"features": features.data_ptr(), "out": out.data_ptr()}, scratch=0)
        return out, next_state


LayerStep = Callable[[Tensor, Any], tuple[Tensor, Any] | None]
"""x (B, D) and the state → the output (of attention: [context; query]) and the next state; None if unsupported."""


def _layer_step(layer: Any, cells: Iterator["_CellStep"]) -> LayerStep:
    """The compiled step of a layer; ``cells`` are those of its recurrent layers, lowest first."""
    if type(layer) is BridgedLayer:
        return _layer_step(layer.layer, cells)
    if type(layer) is Recurrent:
        return next(cells)
    if type(layer) is LuongAttention:
        return partial(_attend, layer)
    return _StackStep([_layer_step(inner, cells) for inner in layer.layers])


class _StackStep:
    """The compiled step of several layers."""

    def __init__(self, steps: list[LayerStep]) -> None:
        self._steps = steps

    def __call__(self, x: Tensor, state: Any) -> tuple[Tensor, Any] | None:
        if not isinstance(state, tuple) or len(state) != len(self._steps):
            return None
        next_states: list[Any] = []
        for step, layer_state in zip(self._steps, state, strict=True):
            result = step(x, layer_state)
            if result is None:
                return None
            x, next_state = result
            next_states.append(next_state)
        return x, tuple(next_states)


def _attend(layer: Any, x: Tensor, state: Any) -> tuple[Tensor, AttentionState] | None:  # (B, C + D), state
    """Return [context; x] and the new state."""
    attention, head, query, heads = layer.attention, _head(layer.attention), x, 1
    if attention is not head:
        query, heads = attention.query(x), attention.heads
    query = head.score.scale_query(query.view(len(x), heads, -1)).flatten(1).contiguous()
    if not isinstance(state, AttentionState) or not _has_expected_shapes(state, query, width=attention.context_size):
        return None
    (prepared, values, mask), rows = state.source
    coverage = state.coverage.clone(memory_format=torch.contiguous_format)
    options = {"mask": mask, "rows": rows, "accumulated": coverage}
    features = attend_to_source(query, prepared, values, heads=heads, appended=x, **options)
    return features, AttentionState(state.source, state.step + 1, coverage)


def _has_expected_shapes(state: AttentionState, query: Tensor, *, width: int) -> bool:
    """Whether all tensors have the shapes and dtypes that the kernel expects; it gets addresses only."""
    (prepared, values, mask), rows = state.source
    if not (is_readable(prepared, query.dtype) and is_readable(values, query.dtype)):
        return False
    if not (is_readable(mask, torch.bool) and is_readable(rows, torch.int64)):
        return False
    (batch, size), shape, coverage = query.shape, tuple(mask.shape), state.coverage
    if len(shape) != 2 or prepared.shape != (*shape, size) or values.shape != (*shape, width):
        return False
    if (coverage.dtype, coverage.device) != (query.dtype, query.device):
        return False
    if coverage.shape not in ((batch, 0), (batch, shape[1])):
        return False
    if state.step.shape != (batch,) or rows.shape != (batch,):
        return False
    indices: list[int] = rows.tolist()
    return min(indices) >= 0 and max(indices) < shape[0]


class _CellStep:
    """The compiled step of one cell."""

    def __init__(self, layer: Recurrent, like: Tensor, copied: list[nn.Parameter]) -> None:
        fused = _fused_scan(layer, like)
        if fused is None:
            raise TypeError(f"{type(layer.cell).__name__} has no fused kernel")
        self._layer, self._like, self._fused = layer, like, fused
        self._same: Identities | None = None
        self._call: RepeatedCall | None = None
        self._state_type: Any = layer.cell.State
        parameters = dict(layer.cell.named_parameters())
        copied += parameters.values()
        self._weights = [parameters[name].detach().contiguous() for name in fused.names]
        self._widths = fused.plan.traced.state_widths
        matrices = [parameters[product.matrix] for _, product in fused.kernel("forward").products]
        self._work = sum(matrix.numel() for matrix in (*matrices, parameters[fused.plan.linear or ""]))  # per row

    def __call__(self, x: Tensor, state: Any) -> tuple[Tensor, Any] | None:  # (B, D) → (B, H), state
        batch, size = x.shape
        if not isinstance(state, tuple) or len(state) != len(self._widths):
            return None
        next_fields = []
        for field, width in zip(state, self._widths, strict=True):
            if type(field) is not Tensor or not is_plain(field, (batch, width), x.dtype):
                return None
            next_fields.append(torch.empty_like(field))
        # For one step the output is the state.
        if batch == 1:
            self._single_row(size)(x.data_ptr(), state, next_fields[0], next_fields)
            return next_fields[0], self._state_type._make(next_fields)
        place = x.data_ptr(), size, size
        self._fused.infer(self._partition(batch), place, state, self._weights, next_fields[0], next_fields)
        return next_fields[0], self._state_type(*next_fields)

    def is_stale(self) -> bool:
        if self._same is not None and self._same.same():
            return False
        is_stale = _fused_scan(self._layer, self._like) is not self._fused
        self._same = None if is_stale else self._layer.unchanged()
        return is_stale

    def _single_row(self, size: int) -> RepeatedCall:
        if self._call is None or not self._call.is_current():
            self._call = RepeatedCall(self._fused, (1, 1, size), self._weights, reverse=False)
        return self._call

    def _partition(self, batch: int) -> Partition:
        workers = 1 if batch * self._work < SERIAL_LIMIT else threads.count()
        team = batch < workers and self._fused.plan.shareable and threads.can_team()
        parts = 1 if team else min(workers, batch)
        return Partition.create(1, batch, None, reverse=False, parts=parts, members=workers if team else 1)
