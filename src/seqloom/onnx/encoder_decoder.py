"""Encoder-decoders: a graph with greedy search inside, and an encoder and a step for other searches."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from seqloom.onnx.decoding import Source, greedy, start
from seqloom.onnx.graph import FLOAT, INTEGER, Graph, Value
from seqloom.onnx.inputs import encode, lengths_input
from seqloom.onnx.models import Embed, decoder_step
from seqloom.onnx.modules import Rows, State
from seqloom.onnx.states import StatePorts, state_fields


@dataclass(frozen=True)
class Limits:
    """The maximum length of an output, end included: ⌈factor × (source length - 1)⌉ + offset."""

    factor: float
    offset: int

    def of(self, lengths: Value) -> Value:  # (B,) → (B,)
        scaled = (lengths - 1).cast(FLOAT) * float(np.float32(self.factor))
        return scaled.apply("Ceil").cast(INTEGER) + self.offset


def encoder_decoder(
    model: Any,
    embed: Embed,
    *,
    limits: Limits,
    end: int,  # end token, which also precedes the first one
    suppress: tuple[int, ...],  # tokens that are never generated
) -> Graph:
    """The most probable token at each step, (B, N), filled with ``end``, and its log-probability."""
    graph = Graph()
    source = _encode(graph, model, embed)
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
    return graph


def encoder(model: Any, embed: Embed) -> tuple[Graph, StatePorts]:
    """The state of the decoder before the first token."""
    graph, ports = Graph(), StatePorts.of(state_fields(model.decoder.layer))
    ports.outputs(graph, start(model.decoder.layer, _encode(graph, model, embed)))
    return graph, ports


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


def _encode(graph: Graph, model: Any, embed: Embed) -> Source:
    vectors = embed(graph)
    rows = Rows.of(vectors, lengths_input(graph))
    values, state = encode(model.encoder, vectors, rows)
    return Source(values, rows, state)
