"""Recurrent layers: ONNX's RNN, LSTM and GRU where they compute the same, otherwise Scan over the traced step."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from seqloom.cells.cell import Cell
from seqloom.cells.coupled import Coupled
from seqloom.cells.elman import Elman
from seqloom.cells.gru import GRU
from seqloom.cells.lstm import LSTM
from seqloom.cells.peephole import Peephole
from seqloom.cells.wrapper import RecurrentDropout
from seqloom.export_check import ExportError
from seqloom.kernels.fuse.symbols import TracedStep, Unfusable
from seqloom.layers.recurrent.bidirectional import Bidirectional
from seqloom.layers.recurrent.recurrent import Recurrent
from seqloom.onnx.graph import BOOLEAN, Graph, Value
from seqloom.onnx.modules import Rows, State, array, emits_layer
from seqloom.onnx.traced_step import TracedOperators

Array = NDArray[Any]
LSTM_ORDER = 0, 3, 1, 2  # input, forget, candidate, output → input, output, forget, candidate


@dataclass(frozen=True)
class NativeCell:
    """The weights of a cell in the order of an ONNX operator."""

    operator: str  # RNN, LSTM or GRU
    input: Array  # (gates × H, D)
    recurrent: Array  # (gates × H, H)
    bias: Array  # (2 × gates × H,), of the input, then of the recurrent product
    peepholes: Array | None = None  # (3 × H,)
    attributes: dict[str, Any] = field(default_factory=dict)
    activations: tuple[str, ...] = ()  # of one direction; empty: the operator's own
    alphas: tuple[float, ...] = ()  # their parameters


ToNative = Callable[[Any], NativeCell | None]
Function = TypeVar("Function", bound=ToNative)
NATIVE: dict[type[Cell], ToNative] = {}
"""How cells are converted to operators of ONNX; a function returns None if the variant has none."""


def native(*classes: type[Cell]) -> Callable[[Function], Function]:
    """Register the conversion of these cells."""

    def register(function: Function) -> Function:
        NATIVE.update(dict.fromkeys(classes, function))
        return function

    return register


def to_native(cell: Cell) -> NativeCell | None:
    """A cell as an operator of ONNX; None if it has none."""
    convert = NATIVE.get(type(cell))
    return None if convert is None else convert(cell)


@native(LSTM)
def _lstm(cell: LSTM) -> NativeCell:
    return NativeCell("LSTM", *_ordered(cell.input, array(cell.recurrent.weight), LSTM_ORDER))


@native(Peephole)
def _peephole(cell: Peephole) -> NativeCell | None:
    if any(weight.dim() != 1 for weight in cell.peepholes.values()):
        return None
    none = np.zeros(cell.hidden_size, np.float32)
    gates = ("input", "output", "forget")
    weights = [array(cell.peepholes[gate]) if gate in cell.peepholes else none for gate in gates]
    ordered = _ordered(cell.input, array(cell.recurrent.weight), LSTM_ORDER)
    return NativeCell("LSTM", *ordered, peepholes=np.concatenate(weights))


@native(Coupled)
def _coupled(cell: Coupled) -> NativeCell:
    # ONNX has rows for the forget gate here as well, which are not used.
    order = 0, 2, None, 1  # input, candidate, output → input, output, forget, candidate
    weights = _ordered(cell.input, array(cell.recurrent.weight), order)
    return NativeCell("LSTM", *weights, attributes={"input_forget": 1})


@native(GRU)
def _gru(cell: GRU) -> NativeCell:
    order = 1, 0, 2  # reset, update, candidate → update, reset, candidate
    size = cell.hidden_size
    stacked = np.concatenate([array(cell.recurrent.weight), array(cell.candidate.weight)])
    weight, recurrent, bias = _ordered(cell.input, stacked, order)
    if cell.candidate.bias is not None:
        bias[-size:] = array(cell.candidate.bias)
    if cell.update_gate == "write":  # ONNX's gate keeps: 1 - σ(a) = σ(-a)
        for part in (weight, recurrent, bias):
            part[:size] *= -1
    return NativeCell("GRU", weight, recurrent, bias, attributes={"linear_before_reset": int(cell.reset == "after")})


@native(Elman)
def _elman(cell: Elman) -> NativeCell | None:
    operators = {"tanh": "Tanh", "sigmoid": "Sigmoid", "relu": "Relu", "leaky_relu": "LeakyRelu", "elu": "Elu"}
    if cell.activation not in operators:
        return None
    alphas = {"leaky_relu": (cell.negative_slope,), "elu": (cell.elu_alpha,)}.get(cell.activation, ())
    weights = _ordered(cell.input, array(cell.recurrent.weight), (0,))
    return NativeCell("RNN", *weights, activations=(operators[cell.activation],), alphas=alphas)


@native(RecurrentDropout)
def _recurrent_dropout(cell: RecurrentDropout) -> NativeCell | None:
    return to_native(cell.cell)  # there is none outside of training


def _ordered(linear: Any, recurrent: Array, order: tuple[int | None, ...]) -> tuple[Array, Array, Array]:
    """Input weights, recurrent weights and bias with their gates in another order; None is a gate of zeros."""
    gates = len([index for index in order if index is not None])
    weight = array(linear.weight)
    bias = np.zeros(len(weight), np.float32) if linear.bias is None else array(linear.bias)

    def reorder(values: Array) -> Array:
        parts = np.split(values, gates)
        return np.concatenate([np.zeros_like(parts[0]) if index is None else parts[index] for index in order])

    ordered = reorder(bias)
    return reorder(weight), reorder(recurrent), np.concatenate([ordered, np.zeros_like(ordered)])


@emits_layer(Recurrent)
def emit_recurrent(graph: Graph, layer: Recurrent, x: Value, rows: Rows, state: State) -> tuple[Value, State]:
    cell = to_native(layer.cell)
    if cell is None:
        return _scan(graph, layer, x, rows, state)
    y, (final,) = _run_native(graph, [(layer, cell)], x, rows, [state])
    return y, final


@emits_layer(Bidirectional)
def emit_bidirectional(graph: Graph, layer: Bidirectional, x: Value, rows: Rows, state: State) -> tuple[Value, State]:
    sides = layer.forward_layer, layer.backward_layer
    states = (None, None) if state is None else state
    cells = [to_native(side.cell) for side in sides]
    pairs = [(side, cell) for side, cell in zip(sides, cells, strict=True) if cell is not None]
    if len(pairs) == 2 and _same_operator(pairs[0][1], pairs[1][1]):
        y, finals = _run_native(graph, pairs, x, rows, list(states))
        return y, tuple(finals)
    (forward, first), (backward, second) = (
        emit_recurrent(graph, side, x, rows, before) for side, before in zip(sides, states, strict=True)
    )
    return graph.concatenate([forward, backward]), (first, second)


def _same_operator(left: NativeCell, right: NativeCell) -> bool:
    def kind(cell: NativeCell) -> tuple[Any, ...]:
        return cell.operator, cell.recurrent.shape, cell.peepholes is None, cell.attributes

    return kind(left) == kind(right)


def _run_native(
    graph: Graph, directions: list[tuple[Recurrent, NativeCell]], x: Value, rows: Rows, states: list[State]
) -> tuple[Value, list[State]]:
    """One operator for one or both directions."""
    layers, cells = zip(*directions, strict=True)
    first: NativeCell = cells[0]
    starts = [
        start_state(graph, layer.cell, rows.lengths.size(0)) if before is None else before
        for layer, before in zip(layers, states, strict=True)
    ]
    # (directions, B, H) for each field of the state
    initial = [
        graph.concatenate([field.unsqueeze(0) for field in fields], axis=0) for fields in zip(*starts, strict=True)
    ]
    direction = "bidirectional" if len(cells) == 2 else "reverse" if layers[0].reverse else "forward"
    attributes = dict(first.attributes)
    if first.activations:
        attributes["activations"] = [name for cell in cells for name in cell.activations]
        if first.alphas:
            attributes["activation_alpha"] = [alpha for cell in cells for alpha in cell.alphas]
    operands = [np.stack(side) for side in zip(*((c.input, c.recurrent, c.bias) for c in cells), strict=True)]
    peepholes = [np.stack([cell.peepholes for cell in cells])] if first.peepholes is not None else []
    outputs = graph.calls(
        first.operator,
        x.transpose(1, 0, 2),
        *operands,
        rows.lengths.cast(np.dtype(np.int32)),
        *initial,
        *peepholes,
        outputs=1 + len(initial),
        hidden_size=layers[0].output_size,
        direction=direction,
        **attributes,
    )
    y = outputs[0].transpose(2, 0, 1, 3).reshape(0, 0, len(cells) * layers[0].output_size)  # (T, directions, B, H) →
    empty = rows.lengths.equals(0).unsqueeze(1)
    finals: list[State] = []
    for index, start in enumerate(starts):
        # onnxruntime returns zeros for rows of length 0; their state does not change.
        fields = [
            graph.where(empty, before, after.take(np.array(index)))
            for before, after in zip(start, outputs[1:], strict=True)
        ]
        finals.append(tuple(fields))
    return y, finals


def start_state(graph: Graph, cell: Cell, batch: Value) -> tuple[Value, ...]:
    """The fields of the state before the first step, (B, n) each."""
    fields = []
    for value in cell.start(1):
        flat = array(value).reshape(1, -1)
        fields.append(graph.constant(flat).expand(batch, flat.shape[1]))
    return tuple(fields)


def _scan(graph: Graph, layer: Recurrent, x: Value, rows: Rows, state: State) -> tuple[Value, State]:
    """The step that the kernel is compiled from, in a loop over time."""
    like = next(layer.cell.parameters())
    kernel = layer.kernel(like)
    if isinstance(kernel, str):
        raise ExportError(f"the cell {type(layer.cell).__qualname__} cannot be exported: {kernel}")
    traced, linear = kernel.plan.traced, kernel.plan.linear
    parameters = {name: array(parameter) for name, parameter in layer.cell.named_parameters()}
    x = rows.clear_padding(x)
    if linear:
        projected = x @ parameters[linear].T
    else:
        projection = _trace_projection(layer)
        projected = TracedOperators(graph, projection, parameters, projected=x).row(projection.next_state[0])

    def step(states: list[Value], elements: list[Value]) -> tuple[list[Value], list[Value]]:
        projected_t, real, *passed = elements
        operators = TracedOperators(
            graph, traced, parameters, projected=projected_t, passed=passed[0] if passed else None, states=tuple(states)
        )
        following = [operators.row(row) for row in traced.next_state]
        kept = [graph.where(real, new, old) for new, old in zip(following, states, strict=True)]
        return kept, [graph.where(real, following[0], 0.0)]

    start = start_state(graph, layer.cell, rows.lengths.size(0)) if state is None else state
    mask = rows.mask.cast(BOOLEAN).transpose(1, 0).unsqueeze(2)
    inputs = [projected.transpose(1, 0, 2), mask, *([x.transpose(1, 0, 2)] if traced.passed_width else [])]
    final, (y,) = graph.scan(step, start, inputs, reverse=layer.reverse)
    return y.transpose(1, 0, 2), tuple(final)


def _trace_projection(layer: Recurrent) -> TracedStep:
    try:
        return layer.trace_projection()
    except Unfusable as error:
        name = type(layer.cell).__qualname__
        raise ExportError(
            f"the cell {name} cannot be exported: its projection of the input is not traced: {error}"
        ) from error
