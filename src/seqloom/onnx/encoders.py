"""Encoders: from embedded inputs to what a pooling, an output layer or a decoder reads."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from seqloom.export_check import ExportError
from seqloom.layers.time_reduction import TimeReduction
from seqloom.models.encoder import Encoder
from seqloom.models.signals.encoders import GridEncoder
from seqloom.models.signals.frame_encoder import FrameEncoder
from seqloom.models.signals.image_encoder import ImageEncoder, VectorMemory
from seqloom.onnx.graph import FLOAT, Graph, Value
from seqloom.onnx.modules import Rows, State, emit_layer, emit_module, lowest


@dataclass(frozen=True)
class Source:
    """The output of an encoder: its values (B, S, D), zero in the padding, their rows, and its last state."""

    values: Value
    rows: Rows
    state: State = ()

    def mean(self) -> Value:  # (B, D)
        """The mean over the elements of each row; zeros if there are none."""
        graph = self.values.graph
        count = graph.call("Max", self.rows.lengths, graph.constant(1, np.int64)).cast(FLOAT)
        return self.values.sum(1) / count.unsqueeze(1)


Encode = Callable[[Any, Value, Rows], Source]
Function = TypeVar("Function", bound=Encode)
ENCODERS: dict[type, Encode] = {}


def encodes(*classes: type) -> Callable[[Function], Function]:
    """Register the function that writes encoders of these classes."""

    def register(function: Function) -> Function:
        ENCODERS.update(dict.fromkeys(classes, function))
        return function

    return register


def encode(encoder: Any, vectors: Value, rows: Rows) -> Source:
    """The outputs of an encoder for embedded inputs (B, T, D)."""
    if type(encoder) not in ENCODERS:
        raise ExportError(f"the encoder {type(encoder).__name__} cannot be exported to ONNX")
    return ENCODERS[type(encoder)](encoder, vectors, rows)


@encodes(Encoder, GridEncoder)
def _layer(encoder: Any, vectors: Value, rows: Rows) -> Source:
    values, state = emit_layer(vectors.graph, encoder.layer, vectors, rows)
    return Source(values, rows, state)


@encodes(ImageEncoder)
def _cells(_encoder: ImageEncoder, vectors: Value, rows: Rows) -> Source:
    return Source(vectors, rows)


@encodes(VectorMemory)
def _vectors(encoder: VectorMemory, vectors: Value, rows: Rows) -> Source:
    return Source(rows.clear_padding(emit_module(encoder.linear, vectors)), rows)


@encodes(FrameEncoder)
def _frames(encoder: FrameEncoder, vectors: Value, rows: Rows) -> Source:
    values, state = rows.clear_padding(vectors), ()
    for part in encoder.layers:
        if isinstance(part, TimeReduction):
            values, rows = reduce_time(part, values, rows)
        else:
            values, state = emit_layer(vectors.graph, part, values, rows)
    return Source(values, rows, state if encoder.last_layer is not None else ())


def reduce_time(reduction: TimeReduction, x: Value, rows: Rows) -> tuple[Value, Rows]:
    """Every ``factor`` elements as one; zeros fill up the last group."""
    graph, factor = x.graph, reduction.factor
    x = rows.clear_padding(x)
    time = _divided_up(x.size(1), factor)
    padded = graph.concatenate([x, graph.full(0.0, x.size(0), time * factor - x.size(1), reduction.input_size)], axis=1)
    y = padded.reshape(x.size(0), time, factor * reduction.input_size)
    if reduction.linear is not None:
        y = emit_module(reduction.linear, y).apply("Relu")
    elif reduction.method == "max":
        y = y.reshape(x.size(0), time, factor, reduction.input_size)
        places = graph.range(time * factor).reshape(1, time, factor, 1)
        y = graph.where(places < rows.lengths.unsqueeze(1, 2, 3), y, lowest(y)).max(2)
    reduced = Rows.of(y, _divided_up(rows.lengths, factor))
    return reduced.clear_padding(y), reduced


def _divided_up(count: Value, factor: int) -> Value:
    return (count + (factor - 1)) / factor


def encoded(graph: Graph, model: Any, embed: Callable[[Graph], tuple[Value, Rows]]) -> Source:
    """The inputs of a model, and the outputs of its encoder for them."""
    return encode(model.encoder, *embed(graph))
