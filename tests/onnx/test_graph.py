"""Graphs against NumPy."""

import numpy as np
import pytest

from seqloom.export_check import ExportError
from seqloom.onnx.exported import open_session
from seqloom.onnx.graph import BOOLEAN, DOUBLE, INTEGER, Graph, Value


def test_operators() -> None:
    graph = Graph()
    x = graph.input("x", np.float64, ["rows", 4])
    graph.output("sum", (x * 2.0 + np.arange(4.0)).sum(1) / 3.0, ["rows"])
    graph.output("last", x.part(1, -2) @ np.ones((2, 1)), ["rows", 1])
    graph.output("large", graph.where(x > 0.5, x, -1.0).max(0), [4])
    graph.output("shape", x.reshape(x.size(0), 2, 2).transpose(2, 0, 1), [2, "rows", 2])
    graph.output("count", ((x > 0.0) & ~(x > 0.5)).cast(INTEGER).sum(1), ["rows"])
    session = open_session(graph.finish("test", {}).SerializeToString())
    values = np.random.default_rng(0).random((3, 4))
    outputs = dict(zip([port.name for port in graph.outputs], session.run(None, {"x": values}), strict=True))
    np.testing.assert_allclose(outputs["sum"], (values * 2 + np.arange(4)).sum(axis=1) / 3)
    np.testing.assert_allclose(outputs["last"], values[:, -2:].sum(axis=1, keepdims=True))
    np.testing.assert_allclose(outputs["large"], np.where(values > 0.5, values, -1).max(axis=0))
    np.testing.assert_array_equal(outputs["shape"], values.reshape(3, 2, 2).transpose(2, 0, 1))
    np.testing.assert_array_equal(outputs["count"], ((values > 0) & (values <= 0.5)).sum(axis=1))


@pytest.mark.parametrize("reverse", [False, True])
def test_scan(reverse: bool) -> None:
    """A decaying sum, and whether it is above 1; weights are constants of the outer graph."""

    def step(states: list[Value], elements: list[Value]) -> tuple[list[Value], list[Value]]:
        total = states[0] * 0.5 + elements[0]
        return [total], [total, total > 1.0]

    graph = Graph()
    x = graph.input("x", np.float64, ["time", 2])
    (last,), (totals, large) = graph.scan(step, [graph.full(0.0, 2, dtype=DOUBLE)], [x], reverse=reverse)
    graph.output("last", last, [2])
    graph.output("totals", totals, ["time", 2])
    graph.output("large", large, ["time", 2])
    assert large.dtype == BOOLEAN
    session = open_session(graph.finish("test", {}).SerializeToString())
    values = np.random.default_rng(1).random((5, 2))
    expected, state = np.empty_like(values), np.zeros(2)
    for time in range(5)[:: -1 if reverse else 1]:
        state = expected[time] = state * 0.5 + values[time]
    outputs = session.run(None, {"x": values})
    np.testing.assert_allclose(outputs[0], state)
    np.testing.assert_allclose(outputs[1], expected)
    np.testing.assert_array_equal(outputs[2], expected > 1)


def test_equal_constants_are_stored_once() -> None:
    graph = Graph()
    x = graph.input("x", np.float32, [3])
    weight = np.arange(3, dtype=np.float32)
    graph.output("y", x * weight + weight.copy(), [3])
    assert len(graph.finish("test", {}).graph.initializer) == 1


def test_a_graph_that_is_too_large_for_a_file_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("seqloom.onnx.graph.MAX_BYTES", 100)
    graph = Graph()
    graph.output("y", graph.input("x", np.float32, [20]) + np.zeros(20, np.float32), [20])
    graph.finish("small", {})
    graph.constant(np.ones(10, np.float32))
    with pytest.raises(
        ExportError, match=r"the weights take .* word vectors are limited by task\.pretrained\.extra_words"
    ):
        graph.finish("large", {})
