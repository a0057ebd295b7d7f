"""CTC transcribers: the log-probabilities of the tokens at each frame, and the best path inside the graph."""

from typing import Any

import numpy as np

from seqloom.layers.embedding import PADDING as BLANK
from seqloom.models.transcription.joint_transcriber import JointTranscriber
from seqloom.onnx.encoders import Source, encoded
from seqloom.onnx.graph import INTEGER, Graph, Value
from seqloom.onnx.inputs import Embed
from seqloom.onnx.modules import emit_module


def transcriber(model: Any, embed: Embed) -> Graph:
    """The tokens of the best path, (B, T), filled with blanks, and the log-probabilities of all tokens, (B, T, V)."""
    graph = Graph()
    source = encoded(graph, model, embed)
    frame_outputs(graph, model, source)
    graph.output("tokens", best_path(graph, frame_log_probabilities(model, source), source), ["batch", "time"])
    return graph


def frame_outputs(graph: Graph, model: Any, source: Source) -> None:
    """The log-probabilities of the tokens at each frame, 0 in the padding, and the number of frames."""
    table = source.rows.clear_padding(frame_log_probabilities(model, source))
    graph.output("frame_log_probabilities", table, ["batch", "time", model.output.out_features])
    graph.output("frame_counts", source.rows.lengths, ["batch"])


def frame_log_probabilities(model: Any, source: Source) -> Value:  # (B, T, V)
    logits = emit_module(model.output, source.values)
    if isinstance(model, JointTranscriber):
        impossible = np.zeros(model.output.out_features, np.float32)
        impossible[model.end] = -np.inf
        logits = logits + impossible
    return logits.apply("LogSoftmax", axis=-1)


def best_path(graph: Graph, log_probabilities: Value, source: Source) -> Value:  # (B, T)
    """The most probable token of each frame, repeats merged and blanks removed, then blanks up to the end."""
    best = graph.where(source.rows.mask, log_probabilities.argmax(2), BLANK)
    batch, time = best.size(0), best.size(1)
    before = graph.concatenate([graph.full(BLANK, batch, 1, dtype=INTEGER), best.part(1, 0, -1)], axis=1)
    is_new = (~best.equals(BLANK) & ~best.equals(before)).cast(INTEGER)
    # Each new token moves to its number; all others move to one more place, which is removed.
    places = graph.where(is_new > 0, graph.call("CumSum", is_new, np.array(1)) - 1, time)
    empty = graph.full(BLANK, batch, time + 1, dtype=INTEGER)
    return graph.call("ScatterElements", empty, places, best, axis=1).part(1, 0, -1)
