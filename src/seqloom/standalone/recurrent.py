"""Recurrent layers and their arrangements: the loop over time is the one that ``kernels/fuse`` compiles."""

from typing import Any

from seqloom.cells.cell import Cell
from seqloom.export_check import ExportError
from seqloom.kernels.fuse.plan import plan
from seqloom.kernels.fuse.symbols import Unfusable
from seqloom.kernels.llvm.ir_builder import integer
from seqloom.kernels.llvm.target import compiling_for
from seqloom.layers.connection import Dense, Highway, Plain, Residual
from seqloom.layers.convolution import Convolution
from seqloom.layers.recurrent.bidirectional import Bidirectional
from seqloom.layers.recurrent.recurrent import Recurrent
from seqloom.layers.stack import Stack
from seqloom.layers.transformer.block import Norm
from seqloom.standalone.builder import ONE, Count, ModelBuilder, Rows
from seqloom.standalone.modules import State, array, compiles_layer, emit_layer, emit_module


@compiles_layer(Recurrent)
def emit_recurrent(b: ModelBuilder, layer: Recurrent, x: Rows, state: State) -> tuple[Rows, State]:
    with compiling_for(None):  # the plan of a kernel is that of this processor
        kernel = layer.kernel(next(layer.cell.parameters()))
    if isinstance(kernel, str):
        raise ExportError(f"the cell {type(layer.cell).__qualname__} cannot be compiled: {kernel}")
    parameters = {name: array(parameter) for name, parameter in layer.cell.named_parameters()}
    if not kernel.plan.linear:
        x = _projected(b, layer, parameters, x)
    initial = start_state(b, layer.cell) if state is None else state
    y, final = b.scan(kernel.plan, parameters, x, initial, reverse=layer.reverse)
    return y, tuple(final)


def _projected(b: ModelBuilder, layer: Recurrent, parameters: dict[str, Any], x: Rows) -> Rows:
    """The input of a cell with a projection of its own, by a loop over its traced steps."""
    name = type(layer.cell).__qualname__
    try:
        traced = layer.trace_projection()
    except Unfusable as error:
        raise ExportError(
            f"the cell {name} cannot be compiled: its projection of the input is not traced: {error}"
        ) from error
    if x.stride != x.size:
        compact = b.allocate(x.count, x.size, compact=True)
        b.copy(x, compact)
        x = compact
    initial = b.constant_rows([0.0] * traced.state_widths[0])
    projected, _ = b.scan(plan(traced), parameters, x, [initial])
    return projected


def start_state(b: ModelBuilder, cell: Cell) -> tuple[Rows, ...]:
    """The fields of the state before the first step."""
    return tuple(b.constant_rows(array(value)) for value in cell.start(1))


@compiles_layer(Bidirectional)
def emit_bidirectional(b: ModelBuilder, layer: Bidirectional, x: Rows, state: State) -> tuple[Rows, State]:
    before, after = (None, None) if state is None else state
    forward, first = emit_recurrent(b, layer.forward_layer, x, before)
    backward, second = emit_recurrent(b, layer.backward_layer, x, after)
    return b.concatenate([forward, backward]), (first, second)


def _highway(b: ModelBuilder, connection: Highway, x: Rows, y: Rows) -> Rows:
    gate = connection.gate
    opened = b.linear(x, array(gate.weight), array(gate.bias), b.sigmoid)
    skipped = emit_module(b, connection.skip, x)
    one = b.emit.splat(1.0)

    def mix(t: Any, new: Any, old: Any) -> Any:
        return b.builder.fadd(b.builder.fmul(t, new), b.builder.fmul(b.builder.fsub(one, t), old))

    return b.map(mix, opened, y, skipped)


CONNECTIONS: dict[type, Any] = {
    Plain: lambda _b, _connection, _x, y: y,
    Residual: lambda b, connection, x, y: b.add(y, emit_module(b, connection.skip, x)),
    Highway: _highway,
    Dense: lambda b, _connection, x, y: b.concatenate([x, y]),
}


@compiles_layer(Stack)
def emit_stack(b: ModelBuilder, stack: Stack, x: Rows, state: State) -> tuple[Rows, State]:
    before = (None,) * len(stack.layers) if state is None else state
    states = []
    for layer, connection, layer_state in zip(stack.layers, stack.connections, before, strict=True):
        y, next_state = emit_layer(b, layer, x, layer_state)
        x = CONNECTIONS[type(connection)](b, connection, x, y)
        states.append(next_state)
    return x, tuple(states)


@compiles_layer(Norm)
def emit_norm(b: ModelBuilder, layer: Norm, x: Rows, _state: State) -> tuple[Rows, State]:
    return emit_module(b, layer.norm, x), ()


@compiles_layer(Convolution)
def emit_convolution(b: ModelBuilder, layer: Convolution, x: Rows, state: State) -> tuple[Rows, State]:
    """A window is one long row that starts at each element."""
    padded, last = with_neighbours(b, x, state, reach=layer.window - 1, causal=layer.causal)
    windows = Rows(padded.address, x.count, layer.window * x.size, x.size)
    y = b.linear(windows, array(layer.linear.weight), array(layer.linear.bias))
    return emit_module(b, layer.activation, y), (last,)


def with_neighbours(b: ModelBuilder, x: Rows, state: State, *, reach: int, causal: bool) -> tuple[Rows, Rows]:
    """Rows without gaps and with those that windows reach, zeros or the last ones read; and the new last ones."""
    size = x.size
    before = reach if causal else reach // 2
    total = b.builder.add(x.count.value, integer(reach))
    padded = b.allocate(Count(total, x.count.per_element, x.count.constant + reach), size, compact=True)
    ends = Count(integer(before), 0, before), Count(integer(reach - before), 0, reach - before)
    after = b.builder.add(x.count.value, integer(before))
    if state is None:
        b.fill(Rows(padded.address, ends[0], size, size), 0.0)
    else:  # of a causal convolution
        b.copy(state[0], Rows(padded.address, ONE, reach * size, reach * size))
    b.copy(x, Rows(b.row_address(padded, before), x.count, size, size))
    b.fill(Rows(b.row_address(padded, after), ends[1], size, size), 0.0)
    last = Rows(b.row_address(padded, x.count.value), ONE, reach * size, reach * size)
    return padded, last
