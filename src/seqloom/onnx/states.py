"""The states of causal layers as inputs and outputs of a graph, so that a sequence can be continued."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from seqloom.export_check import ExportError
from seqloom.layers.audio.spectral_convolution import SpectralConvolution
from seqloom.layers.convolution import Convolution
from seqloom.layers.layer import Layer
from seqloom.layers.recurrent.recurrent import Recurrent
from seqloom.layers.stack import Stack
from seqloom.layers.transformer.block import Norm, TransformerBlock
from seqloom.layers.transformer.linear_attention import LinearAttention
from seqloom.layers.transformer.positions import Positions
from seqloom.onnx.graph import BOOLEAN, FLOAT, INTEGER, Axis, Graph, Value
from seqloom.onnx.modules import State


@dataclass(frozen=True)
class Field:
    """A field of a state; it starts with zeros, and axes of variable size start with size 0."""

    name: str
    shape: tuple[Axis, ...]  # after the batch
    dtype: np.dtype[Any] = FLOAT


Fields = Any
"""Nested tuples of fields, as the state that ``emit_layer`` returns."""

Function = TypeVar("Function", bound=Callable[..., Fields])
FIELDS: dict[type[Layer], Callable[[Any], Fields]] = {}


def has_state(*classes: type[Layer]) -> Callable[[Function], Function]:
    """Register the function that gives the fields of the state of these layers."""

    def register(function: Function) -> Function:
        FIELDS.update(dict.fromkeys(classes, function))
        return function

    return register


def state_fields(layer: Any) -> Fields:
    """The fields of the state of a layer."""
    if type(layer) not in FIELDS:
        raise ExportError(f"{type(layer).__name__} has no state with which a sequence could be continued")
    return FIELDS[type(layer)](layer)


@has_state(Recurrent)
def _recurrent(layer: Recurrent) -> Fields:
    start = layer.cell.start(1)
    if layer.reverse or any(bool(field.any()) for field in start):
        raise ExportError(f"the state of {type(layer.cell).__name__} does not start with zeros")
    names = layer.cell.State._fields
    return tuple(Field(name, (field[0].numel(),)) for name, field in zip(names, start, strict=True))


@has_state(Stack)
def _stack(layer: Stack) -> Fields:
    return tuple(map(state_fields, layer.layers))


@has_state(Norm)
def _norm(_layer: Norm) -> Fields:
    return ()


@has_state(Positions)
def _positions(_layer: Positions) -> Fields:
    return (Field("position", (), INTEGER),)


@has_state(Convolution)
def _convolution(layer: Convolution) -> Fields:
    if not layer.causal:
        raise ExportError("a convolution that is not causal needs the whole sequence")
    return (Field("past", (layer.window - 1, layer.input_size)),)


@has_state(SpectralConvolution)
def _spectral_convolution(layer: SpectralConvolution) -> Fields:
    if not layer.causal:
        raise ExportError("a convolution that is not causal needs the whole sequence")
    return (Field("past", (2, layer.input_size)),)


@has_state(TransformerBlock)
def _block(layer: TransformerBlock) -> Fields:
    if not layer.causal:
        raise ExportError("a Transformer that is not causal needs the whole sequence")
    heads, size = layer.heads, layer.input_size // layer.heads
    position = Field("position", (), INTEGER)
    if isinstance(layer.attention, LinearAttention):
        sums = (Field("sums", (heads, size, size)), Field("totals", (heads, size)), position)
        return sums, _memory(layer, heads, size)
    cached = ("past", heads, size)
    past = Field("keys", cached), Field("values", cached), Field("real", ("past",), BOOLEAN), position
    return past, _memory(layer, heads, size)


def _memory(layer: TransformerBlock, heads: int, size: int) -> Fields:
    """The source of cross-attention."""
    if not layer.memory_size:
        return ()
    table = ("source", heads, size)
    return Field("source_keys", table), Field("source_values", table), Field("source_mask", ("source",), BOOLEAN)


def flatten(state: State) -> Iterator[Any]:
    """The values, or fields, of a nested state, in order."""
    if isinstance(state, tuple):
        for part in state:
            yield from flatten(part)
    else:
        yield state


@dataclass(frozen=True)
class StatePorts:
    """The state of a model as inputs of a graph, such as state_0_hidden, and as outputs, such as next_0_hidden."""

    fields: tuple[Field, ...]
    nested: Fields

    @classmethod
    def of(cls, nested: Fields) -> "StatePorts":
        return cls(tuple(flatten(nested)), nested)

    def names(self, prefix: str) -> list[str]:
        return [f"{prefix}_{index}_{field.name}" for index, field in enumerate(self.fields)]

    def inputs(self, graph: Graph) -> State:
        """Add an input for each field; return the state."""
        names = self.names("state")
        values = [
            graph.input(name, field.dtype, ["batch", *_unique(field.shape, name)])
            for name, field in zip(names, self.fields, strict=True)
        ]
        return unflatten(self.nested, iter(values))

    def outputs(self, graph: Graph, state: State) -> None:
        """Add an output for each field of the next state."""
        names = self.names("next")
        for name, field, value in zip(names, self.fields, flatten(state), strict=True):
            graph.output(name, value, ["batch", *_unique(field.shape, name)])

    def start(self, batch: int) -> dict[str, NDArray[Any]]:
        """The state before the first element, as inputs of a session."""
        columns = zip(self.names("state"), self.fields, strict=True)
        return {
            name: np.zeros((batch, *(0 if isinstance(axis, str) else axis for axis in field.shape)), field.dtype)
            for name, field in columns
        }

    def description(self) -> list[dict[str, Any]]:
        """For the runtime: names, types and shapes; null is an axis that starts with size 0."""
        columns = zip(self.names("state"), self.names("next"), self.fields, strict=True)
        return [
            {
                "input": name,
                "output": following,
                "dtype": field.dtype.name,
                "shape": [None if isinstance(axis, str) else axis for axis in field.shape],
            }
            for name, following, field in columns
        ]


def _unique(shape: tuple[Axis, ...], name: str) -> list[Axis]:
    return [f"{name}_{axis}" if isinstance(axis, str) else axis for axis in shape]


def unflatten(nested: Fields, values: Iterator[Value]) -> State:
    """Values in the structure of fields, or of another state."""
    return tuple(unflatten(part, values) for part in nested) if isinstance(nested, tuple) else next(values)
