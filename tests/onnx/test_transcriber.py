"""The best path inside the graph, against the reading of each frame."""

from itertools import groupby

import numpy as np

from seqloom.onnx.encoders import Source
from seqloom.onnx.exported import open_session
from seqloom.onnx.graph import Graph
from seqloom.onnx.modules import Rows
from seqloom.onnx.transcriber import best_path


def test_repeats_are_merged_and_blanks_removed() -> None:
    graph = Graph()
    table = graph.input("table", np.float32, ["batch", "time", 4])
    rows = Rows.of(table, graph.input("lengths", np.int64, ["batch"]))
    graph.output("tokens", best_path(graph, table, Source(table, rows)), ["batch", "time"])
    session = open_session(graph.finish("path", {}).SerializeToString())
    values = np.random.default_rng(5).standard_normal((6, 12, 4)).astype(np.float32)
    values[0, :, 2] += 9  # one token throughout
    values[1, :, 0] += 9  # only blanks
    lengths = np.array([12, 12, 0, 1, 7, 12])
    (tokens,) = session.run(None, {"table": values, "lengths": lengths})
    for row, length in enumerate(lengths):
        merged = [token for token, _ in groupby(values[row, :length].argmax(axis=1).tolist()) if token]
        assert tokens[row].tolist() == merged + [0] * (12 - len(merged))
