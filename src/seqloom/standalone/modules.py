"""Which function compiles a module: one per class, found by the exact class, as for ONNX (``onnx/modules.py``)."""

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from seqloom.export_check import ExportError
from seqloom.kernels.llvm import vector_math
from seqloom.kernels.llvm.ir_builder import Value, VectorSlice, integer, vector_loop
from seqloom.kernels.program.operations import EPILOGUES
from seqloom.layers.custom import CustomLayer
from seqloom.layers.dropout import Dropout, VariationalDropout
from seqloom.layers.layer import Layer
from seqloom.layers.linear import Linear
from seqloom.layers.transformer.block import TransformerBlock
from seqloom.layers.transformer.positions import Positions
from seqloom.models.classifier import GaussianNoise
from seqloom.models.tagger import FrameEmbedding
from seqloom.standalone.builder import ModelBuilder, Rows, round_up

State = Any
"""Nested tuples of rows; None: the state before the first element."""

EmitLayer = Callable[[ModelBuilder, Any, Rows, State], tuple[Rows, State]]
EmitModule = Callable[[ModelBuilder, Any, Rows], Rows]
Function = TypeVar("Function", bound=Callable[..., Any])

LAYERS: dict[type[nn.Module], EmitLayer] = {}
MODULES: dict[type[nn.Module], EmitModule] = {}


def compiles_layer(*classes: type[Layer]) -> Callable[[Function], Function]:
    """Register the function that compiles layers of these classes.

    It gets the builder, the layer, its input and the state, and returns the output and the state after the last
    element.
    """
    return partial(_register, LAYERS, classes)


def compiles(*classes: type[nn.Module]) -> Callable[[Function], Function]:
    """Register the function that compiles modules of these classes: it gets the builder, the module and its input."""
    return partial(_register, MODULES, classes)


def _register(table: dict[Any, Any], classes: tuple[type, ...], function: Function) -> Function:
    table.update(dict.fromkeys(classes, function))
    return function


def emit_layer(b: ModelBuilder, layer: nn.Module, x: Rows, state: State = None) -> tuple[Rows, State]:
    """Compile a layer: its outputs, and the state after the last element."""
    emit = LAYERS.get(type(layer))
    if emit is None:
        raise unsupported(describe(layer))
    return emit(b, layer, x, state)


def emit_module(b: ModelBuilder, module: nn.Module, x: Rows) -> Rows:
    """Compile a module that maps rows to rows."""
    emit = MODULES.get(type(module))
    if emit is None:
        raise unsupported(describe(module))
    return emit(b, module, x)


def unsupported(what: str) -> ExportError:
    """The error for a model that cannot be compiled."""
    return ExportError(
        f"{what} cannot be compiled to an object file or WebAssembly yet; export the model to ONNX instead "
        "(a file with the suffix .onnx)"
    )


def describe(module: nn.Module) -> str:
    """A module in the words of a user."""
    if isinstance(module, TransformerBlock | Positions):
        return "a Transformer layer"
    kind = type(module.module if isinstance(module, CustomLayer) else module)
    return f"a layer of the class {kind.__module__}.{kind.__qualname__}"


def array(tensor: Tensor) -> NDArray[np.float32]:
    """The values of a parameter."""
    values: NDArray[np.float32] = tensor.detach().cpu().numpy()
    return values


@compiles(nn.Linear, Linear)
def emit_linear(b: ModelBuilder, linear: nn.Linear, x: Rows) -> Rows:
    bias: Tensor | None = linear.bias
    return b.linear(x, array(linear.weight), None if bias is None else array(bias))


@compiles(nn.Identity, Dropout, VariationalDropout, GaussianNoise, FrameEmbedding)
def emit_identity(_b: ModelBuilder, _module: nn.Module, x: Rows) -> Rows:
    return x


@compiles(nn.Sequential)
def emit_sequential(b: ModelBuilder, modules: nn.Sequential, x: Rows) -> Rows:
    for module in modules:
        x = emit_module(b, module, x)
    return x


def _activation(name: str, slope: Callable[[Any], float] = lambda _module: 0.0) -> EmitModule:
    def emit(b: ModelBuilder, module: nn.Module, x: Rows) -> Rows:
        parameter = b.emit.splat(slope(module))
        return b.map(lambda value: EPILOGUES[name](b.emit, value, parameter), x)

    return emit


compiles(nn.ReLU)(_activation("relu"))
compiles(nn.Tanh)(_activation("tanh"))
compiles(nn.Sigmoid)(_activation("sigmoid"))
compiles(nn.LeakyReLU)(_activation("leaky_relu", lambda module: module.negative_slope))
compiles(nn.ELU)(_activation("elu", lambda module: module.alpha))


@compiles(nn.GELU)
def emit_gelu(b: ModelBuilder, module: nn.GELU, x: Rows) -> Rows:
    if module.approximate != "none":
        raise unsupported(f'the activation gelu with approximate="{module.approximate}"')
    return _activation("gelu")(b, module, x)


@compiles(nn.LayerNorm)
def emit_layer_norm(b: ModelBuilder, norm: nn.LayerNorm, x: Rows) -> Rows:
    """(x − mean) / √(variance + ε) · weight + bias."""
    emit, builder = b.emit, b.builder
    scale, shift = b.constant(array(norm.weight)), b.constant(array(norm.bias))
    count = emit.splat(float(x.size))
    out = b.allocate(x.count, x.size)
    with emit.loop(0, x.count.value) as row:
        source, target = b.row_address(x, row), b.row_address(out, row)

        mean = builder.fdiv(total(b, b.row(x, row)), count)

        def squares(
            vector: VectorSlice, index: Value, sums: tuple[Value, ...], source: Value = source, mean: Value = mean
        ) -> list[Value]:
            value = vector.fill_rest(builder.fsub(vector.load(emit.address(source, index)), mean))
            return [emit.intrinsic("fma", value, value, sums[0])]

        variance = builder.fdiv(emit.splat(emit.sum_lanes(_sum(b, integer(x.size), squares))), count)
        deviation = emit.intrinsic("sqrt", builder.fadd(variance, emit.splat(norm.eps)))
        with emit.loop(0, round_up(x.size, emit.lanes), emit.lanes) as index:
            value = builder.fsub(emit.load(emit.address(source, index)), mean)
            value = builder.fmul(builder.fdiv(value, deviation), emit.load(emit.address(scale, index)))
            emit.store(builder.fadd(value, emit.load(emit.address(shift, index))), emit.address(target, index))
    return out


def _sum(b: ModelBuilder, size: Value, body: Any) -> Value:
    return vector_loop(b.emit, size, body, (b.emit.splat(0.0),))[0]


def softmax(b: ModelBuilder, x: Rows) -> Rows:
    """The softmax of each row, in place."""
    with b.emit.loop(0, x.count.value) as row:
        softmax_row(b, b.row_address(x, row), integer(x.size))
    return x


def log_softmax(b: ModelBuilder, x: Rows) -> Rows:
    """The logarithm of the softmax of each row, in place."""
    emit, builder = b.emit, b.builder
    size = integer(x.size)
    with emit.loop(0, x.count.value) as row:
        address = b.row_address(x, row)
        top = highest(b, address, size)

        def exponentials(
            vector: VectorSlice, index: Value, sums: tuple[Value, ...], address: Value = address, top: Value = top
        ) -> list[Value]:
            value = vector_math.exp(emit, builder.fsub(vector.load(emit.address(address, index)), top))
            return [builder.fadd(sums[0], vector.fill_rest(value))]

        total = emit.splat(emit.sum_lanes(_sum(b, size, exponentials)))
        normalizer = builder.fadd(top, vector_math.log(emit, total))
        with emit.loop(0, round_up(x.size, emit.lanes), emit.lanes) as index:
            place = emit.address(address, index)
            emit.store(builder.fsub(emit.load(place), normalizer), place)
    return x


def highest(b: ModelBuilder, address: Value, size: Value) -> Value:
    """The largest of ``size`` numbers, in all lanes."""
    emit, lowest = b.emit, -float("inf")

    def larger(vector: VectorSlice, index: Value, tops: tuple[Value, ...]) -> list[Value]:
        value = vector.fill_rest(vector.load(emit.address(address, index)), lowest)
        return [vector_math.maximum(emit, tops[0], value)]

    (tops,) = vector_loop(emit, size, larger, (emit.splat(lowest),))
    return emit.splat(emit.max_lanes(tops))


def softmax_row(b: ModelBuilder, address: Value, size: Value) -> None:
    """The softmax of ``size`` numbers, in place."""
    emit, builder = b.emit, b.builder
    top = highest(b, address, size)

    def exponentials(vector: VectorSlice, index: Value, sums: tuple[Value, ...]) -> list[Value]:
        pointer = emit.address(address, index)
        value = vector_math.exp(emit, builder.fsub(vector.load(pointer), top))
        vector.store(value, pointer)
        return [builder.fadd(sums[0], vector.fill_rest(value))]

    total = emit.splat(emit.sum_lanes(_sum(b, size, exponentials)))

    def divided(vector: VectorSlice, index: Value, _: tuple[Value, ...]) -> tuple[()]:
        pointer = emit.address(address, index)
        vector.store(builder.fdiv(vector.load(pointer), total), pointer)
        return ()

    vector_loop(emit, size, divided)


def largest(b: ModelBuilder, size: int, *rows: Value) -> tuple[Value, Value]:
    """The index of the first largest number of a row, or of a sum of rows, by their addresses; and that number."""
    emit, builder = b.emit, b.builder

    def load(index: Value) -> Value:
        total, *others = (emit.load_scalar(emit.address(row, index)) for row in rows)
        for other in others:
            total = builder.fadd(total, other)
        return total

    with emit.loop_carrying(1, size, 1, (integer(0), load(integer(0)))) as (index, (label, best), advance):
        value = load(index)
        is_better = builder.fcmp_ordered(">", value, best)
        final = advance(builder.select(is_better, index, label), builder.select(is_better, value, best))
    return final[0], final[1]


def total(b: ModelBuilder, row: Rows) -> Value:
    """The sum over a row, in all lanes."""

    def add(vector: VectorSlice, index: Value, sums: tuple[Value, ...]) -> list[Value]:
        return [b.builder.fadd(sums[0], vector.load(b.emit.address(row.address, index)))]

    (sums,) = vector_loop(b.emit, integer(row.size), add, (b.emit.splat(0.0),))
    return b.emit.splat(b.emit.sum_lanes(sums))
