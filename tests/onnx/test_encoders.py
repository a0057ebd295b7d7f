"""Reduction of the frame rate inside the graph, against the layer."""

import numpy as np
import pytest
import torch
from tests.contracts.registry import randomize

from seqloom.layers.time_reduction import TimeReduction
from seqloom.onnx.encoders import reduce_time
from seqloom.onnx.exported import open_session
from seqloom.onnx.graph import Graph
from seqloom.onnx.modules import Rows


@pytest.mark.parametrize("method", ["stride", "pyramid", "max"])
@pytest.mark.parametrize("time", [1, 6, 7])
def test_time_reduction(method: str, time: int) -> None:
    layer = TimeReduction(3, 3, method=method)  # type: ignore[arg-type]
    randomize(layer, dtype=torch.float32)
    graph = Graph()
    x = graph.input("x", np.float32, ["batch", "time", 3])
    y, rows = reduce_time(layer, x, Rows.of(x, graph.input("lengths", np.int64, ["batch"])))
    graph.output("y", y, ["batch", "reduced", layer.output_size])
    graph.output("counts", rows.lengths, ["batch"])
    session = open_session(graph.finish("reduction", {}).SerializeToString())
    lengths = np.array([time, 0, time // 2])
    mask = torch.arange(time) < torch.from_numpy(lengths).unsqueeze(1)
    values = torch.from_numpy(np.random.default_rng(6).standard_normal((3, time, 3)).astype(np.float32))
    values = values.masked_fill(~mask.unsqueeze(2), torch.nan)
    found, counts = session.run(None, {"x": values.numpy(), "lengths": lengths})
    expected, reduced, _ = layer(values, mask)
    np.testing.assert_allclose(found, expected.detach().numpy(), atol=1e-6)
    assert counts.tolist() == reduced.sum(dim=1).tolist()
