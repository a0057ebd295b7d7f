"""Encoder-decoders: a graph with greedy search inside, and an encoder and a step for other searches."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from seqloom.onnx.decoding import greedy, start
from seqloom.onnx.encoders import Source, encoded
from seqloom.onnx.graph import FLOAT, INTEGER, Graph, Value
from seqloom.onnx.inputs import Embed
from seqloom.onnx.models import decoder_step
from seqloom.onnx.modules import Rows, State
from seqloom.onnx.states import StatePorts, state_fields


@dataclass(frozen=True)
class Limits:
    """The maximum length of an output, end included: ⌈factor × (source length - shift)⌉ + offset."""

    factor: float
    offset: int
    shift: int = 0

    def of(self, lengths: Value) -> Value:  # (B,) → (B,)
        scaled = (lengths - self.shift).cast(FLOAT) * float(np.float32(self.factor))
        return scaled.apply("Ceil").cast(INTEGER) + self.offset


def encoder_decoder(
    model: Any,
    embed: Embed,
    *,
    limits: Limits,
    end: int,  # end token, which also precedes the first one
    suppress: tuple[int, ...],  # tokens that are never generated
) -> Graph:
    """The most probable token at each step, (B, N), filled with ``end``, its log-probability, and the limits (B,)."""
    graph = Graph()
    source = encoded(graph, model, embed)
    lengths = source.rows.lengths
    tokens, log_probabilities = greedy(
        graph,
        model.decoder,
        start(model.decoder.layer, source),
        batch=lengths.size(0),
        end=end,
        limits=limits.of(lengths),
        suppress=suppress,
    )
    graph.output("output", tokens, ["batch", "steps"])
    graph.output("log_probabilities", log_probabilities, ["batch", "steps"])
    graph.output("limits", limits.of(lengths), ["batch"])
    return graph


def encoder(model: Any, embed: Embed, *, limits: Limits) -> tuple[Graph, StatePorts, Source]:
    """The state of the decoder before the first token, and the maximum lengths of the outputs (B,)."""
    graph, ports = Graph(), StatePorts.of(state_fields(model.decoder.layer))
    source = encoded(graph, model, embed)
    ports.outputs(graph, start(model.decoder.layer, source))
    graph.output("limits", limits.of(source.rows.lengths), ["batch"])
    return graph, ports, source


def step(model: Any) -> Graph:
    """The log-probabilities (B, V) of the next tokens, given the last ones (B,) and the state."""
    graph, ports = Graph(), StatePorts.of(state_fields(model.decoder.layer))
    column = graph.input("tokens", INTEGER, ["batch"]).unsqueeze(1)
    state: State = ports.inputs(graph)
    rows = Rows.of(column, column.squeeze(1) * 0 + 1)
    scores, state = decoder_step(model.decoder, column, rows, state)
    graph.output("log_probabilities", scores.squeeze(1), ["batch", model.decoder.output.out_features])
    ports.outputs(graph, state)
    return graph
