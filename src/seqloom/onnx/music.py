"""Music models as graphs: the log-odds of each key, and what a runtime needs to draw the next frame."""

import numpy as np

from seqloom.models.music import MusicModel
from seqloom.models.note_distribution import Nade
from seqloom.onnx.graph import FLOAT, Graph, Value
from seqloom.onnx.inputs import lengths_input
from seqloom.onnx.modules import Rows, array, emit_layer, emit_module
from seqloom.onnx.states import StatePorts, state_fields


def music(model: MusicModel, keys: int) -> tuple[Graph, StatePorts]:
    """One graph for whole pieces and for one frame after the other: the state is an input and an output.

    ``frames`` (B, T, 88) are those before each frame of ``following``, whose log-odds and log-probabilities it gives.
    """
    graph, ports = Graph(), StatePorts.of(state_fields(model.layer))
    frames, following = (graph.input(name, FLOAT, ["batch", "time", keys]) for name in ("frames", "following"))
    rows = Rows.of(frames, lengths_input(graph))
    values, state = emit_layer(graph, model.layer, rows.clear_padding(frames), rows, ports.inputs(graph))
    following = rows.clear_padding(following)
    bias = log_odds = emit_module(model.notes.bias, values)
    if isinstance(model.notes, Nade):
        units = emit_module(model.notes.unit_bias, values)
        log_odds = bias + _joint(model.notes, units, following)
        graph.output("unit_bias", rows.clear_padding(units), ["batch", "time", model.notes.unit_bias.out_features])
    log_probabilities = (following * log_odds - log_odds.apply("Softplus")).sum(2)
    graph.output("log_odds", rows.clear_padding(log_odds), ["batch", "time", keys])
    graph.output("log_probabilities", graph.where(rows.mask, log_probabilities, 0.0), ["batch", "time"])
    graph.output("bias", rows.clear_padding(bias), ["batch", "time", keys])
    ports.outputs(graph, state)
    return graph, ports


def _joint(notes: Nade, units: Value, following: Value) -> Value:  # (B, T, units), (B, T, K) → (B, T, K)
    """What the lower keys that sound add to the log-odds of each key."""
    sounding = following.unsqueeze(3) * array(notes.inputs)  # (B, T, K, units)
    lower = units.graph.call("CumSum", sounding, np.array(2), exclusive=1)
    return ((units.unsqueeze(2) + lower).apply("Tanh") * array(notes.outputs)).sum(3)
