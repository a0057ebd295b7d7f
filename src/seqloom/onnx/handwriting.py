"""Handwriting models as graphs: the distribution of the next movement of the pen."""

from itertools import pairwise
from typing import Any

import numpy as np

from seqloom.layers.attention.sliding_window import SlidingWindow
from seqloom.layers.recurrent.recurrent import Recurrent
from seqloom.models.handwriting import POINT, HandwritingModel
from seqloom.models.stroke_distribution import END, MAX_CORRELATION, MIN_DEVIATION, PEN_STATES
from seqloom.onnx.graph import BOOLEAN, DOUBLE, FLOAT, INTEGER, Graph, Value
from seqloom.onnx.inputs import lengths_input
from seqloom.onnx.modules import Rows, State, emit_layer, emit_module, emits_layer
from seqloom.onnx.recurrent import emit_recurrent
from seqloom.onnx.states import Field, Fields, StatePorts, flatten, has_state, state_fields, unflatten


def handwriting(model: HandwritingModel, scale: float) -> tuple[Graph, StatePorts]:
    """One graph for whole drawings and for one point after the other: the state is an input and an output.

    ``points`` (B, T, 3) are those before each movement, in the units of the data; a model that writes also reads the
    ids ``characters`` (B, S) of the text and their ``text_lengths``.
    """
    start = (Field("begun", ()),) if model.never_empty else ()  # 1 after the first point
    graph, ports = Graph(), StatePorts.of((state_fields(model.layer), start))
    points = graph.input("points", DOUBLE, ["batch", "time", POINT])
    rows = Rows.of(points, lengths_input(graph))
    values = rows.clear_padding((points / np.array([scale, scale, 1.0])).cast(FLOAT))
    state, begun = ports.inputs(graph)
    if model.characters:
        source = _text(graph, model.characters)
        state = (*state, source) if isinstance(model.layer, SlidingWindow) else ((*state[0], source), *state[1:])
    hidden, state = emit_layer(graph, model.layer, values, rows, state)
    if model.characters:
        centre = state[2] if isinstance(model.layer, SlidingWindow) else state[0][2]
        graph.output("centre", centre, ["batch"])
    outputs = emit_module(model.output, hidden)
    if begun:  # the pen cannot end before the first point
        at_start = graph.range(points.size(1)).equals(0).unsqueeze(0) & begun[0].equals(0.0).unsqueeze(1)
        is_end = graph.constant(np.arange(PEN_STATES - model.output.out_features, PEN_STATES) == END)
        outputs = graph.where(at_start.unsqueeze(2) & is_end, -np.inf, outputs)
        begun = (graph.full(1.0, points.size(0)),)
    _distribution(graph, outputs, model.components)
    ports.outputs(graph, (state, begun))
    return graph, ports


def _text(graph: Graph, characters: int) -> State:
    """The characters of the text as one-hot vectors, and which of them are real."""
    ids = graph.input("characters", INTEGER, ["batch", "letters"])
    mask = graph.range(ids.size(1)).unsqueeze(0) < graph.input("text_lengths", INTEGER, ["batch"]).unsqueeze(1)
    letters = graph.constant(np.eye(characters, dtype=np.float32)).take(graph.where(mask, ids, 0))
    return graph.where(mask.unsqueeze(2), letters, 0.0), mask


def _distribution(graph: Graph, values: Value, components: int) -> None:
    """The mixture of Gaussians and the states of the pen that the outputs (B, T, 6 K + 3) describe."""
    bounds = np.cumsum([0, components, 2 * components, 2 * components, components, PEN_STATES]).tolist()
    weights, means, deviations, correlations, pen = (values.part(-1, first, last) for first, last in pairwise(bounds))
    axes = ["batch", "time"]
    graph.output("log_weights", weights.apply("LogSoftmax", axis=-1), [*axes, components])
    graph.output("means", means.reshape(0, 0, components, 2), [*axes, components, 2])
    positive = deviations.reshape(0, 0, components, 2).apply("Softplus") + MIN_DEVIATION
    graph.output("deviations", positive, [*axes, components, 2])
    graph.output("correlations", correlations.apply("Tanh") * MAX_CORRELATION, [*axes, components])
    graph.output("log_pen", pen.apply("LogSoftmax", axis=-1), [*axes, PEN_STATES])


@has_state(SlidingWindow)
def _fields(layer: SlidingWindow) -> Fields:
    cell = state_fields(Recurrent(layer.cell))
    return cell, Field("position", (layer.components,)), Field("centre", ()), Field("window", (layer.memory_size,))


@emits_layer(SlidingWindow)
def emit_sliding_window(graph: Graph, layer: SlidingWindow, x: Value, rows: Rows, state: Any) -> tuple[Value, State]:
    """A loop over time: the cell reads the window of the step before. The state begins with that of ``_fields``."""
    cell, position, centre, window, (values, mask) = state
    recurrent = Recurrent(layer.cell).eval()
    places = graph.range(mask.size(1)).cast(FLOAT).unsqueeze(0, 1)  # (1, 1, S)

    def step(states: list[Value], elements: list[Value]) -> tuple[list[Value], list[Value]]:
        *fields, position, _, window = states
        x_t, real = elements
        joined = graph.concatenate([x_t, window]).unsqueeze(1)
        one = Rows.of(joined, real.squeeze(1).cast(INTEGER))
        _, following = emit_recurrent(graph, recurrent, joined, one, unflatten(cell, iter(fields)))
        hidden: Value = next(flatten(following))
        height, sharpness, move = emit_module(layer.window_output, hidden).apply("Exp").split(3)
        moved = position + move
        distance = moved.unsqueeze(2) - places  # (B, K, S)
        weights = (height.unsqueeze(2) * (sharpness.unsqueeze(2) * distance * distance * -1.0).apply("Exp")).sum(1)
        seen = (graph.where(mask, weights, 0.0).unsqueeze(1) @ values).squeeze(1)
        middle = (height * moved).sum(1) / height.sum(1)
        new = [*flatten(following), moved, middle.unsqueeze(1), seen]
        kept = [graph.where(real, after, before) for after, before in zip(new, states, strict=True)]
        return kept, [graph.where(real, graph.concatenate([hidden, seen]), 0.0)]

    initial = [*flatten(cell), position, centre.unsqueeze(1), window]
    real = rows.mask.cast(BOOLEAN).transpose(1, 0).unsqueeze(2)
    finals, (y,) = graph.scan(step, initial, [rows.clear_padding(x).transpose(1, 0, 2), real])
    *fields, position, centre, window = finals
    return y.transpose(1, 0, 2), (unflatten(cell, iter(fields)), position, centre.squeeze(1), window)
