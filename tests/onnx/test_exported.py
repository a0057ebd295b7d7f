"""The file of an exported model: metadata, checksum, and the comparison that refuses a wrong graph."""

import json
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from torch import nn

from seqloom.export_check import ExportError
from seqloom.layers.custom import CustomLayer
from seqloom.onnx import exported
from seqloom.onnx.exported import OnnxModel
from seqloom.onnx.graph import Graph
from seqloom.onnx.modules import Rows, emit_layer

CHECKSUM_ENTRY = 76  # bytes of the last entry of the metadata


def doubling() -> OnnxModel:
    """A model that doubles numbers."""
    graph = Graph()
    graph.output("y", graph.input("x", np.float32, ["batch"]) * 2.0, ["batch"])
    return OnnxModel(
        graph,
        {"task": "double"},
        feed=lambda examples: {"x": np.array(examples, dtype=np.float32)},
        expected=lambda examples: {"y": 2 * np.array(examples, dtype=np.float32)},
    )


def test_file_with_metadata_and_checksum(tmp_path: Path) -> None:
    result = exported.write(doubling(), tmp_path / "double.onnx", [[1.0, 2.0], [3.0]], metadata={"config": "é"})
    assert (result.examples, result.difference) == (3, 0.0)
    data = (tmp_path / "double.onnx").read_bytes()
    assert result.size == len(data)
    model = onnx.load_from_string(data)
    metadata = {entry.key: entry.value for entry in model.metadata_props}
    assert metadata["config"] == "é"
    assert json.loads(metadata["seqloom"]) == {"format": exported.FORMAT, "task": "double"}
    assert metadata["sha256"] == sha256(data[:-CHECKSUM_ENTRY]).hexdigest()
    assert (model.ir_version, model.opset_import[0].version, model.graph.name) == (10, 20, "double")


def test_wrong_graph_is_not_written(tmp_path: Path) -> None:
    model = replace(doubling(), expected=lambda examples: {"y": 2.0001 * np.array(examples, dtype=np.float32)})
    with pytest.raises(ExportError, match=r"y differs by 5\.0e-05, more than 1e-05"):
        exported.write(model, tmp_path / "double.onnx", [[1.0, 2.0]], metadata={})
    assert not list(tmp_path.iterdir())


def test_nothing_to_compare(tmp_path: Path) -> None:
    with pytest.raises(ExportError, match="no examples"):
        exported.write(doubling(), tmp_path / "double.onnx", [], metadata={})
    assert not list(tmp_path.iterdir())


def emit(layer: Any) -> None:
    graph = Graph()
    x = graph.input("x", np.float32, ["batch", "time", layer.input_size])
    emit_layer(graph, layer, x, Rows.of(x, graph.input("lengths", np.int64, ["batch"])))


def test_layer_of_a_user_is_named() -> None:
    class Mine(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x

    with pytest.raises(ExportError, match=r"Mine cannot be exported.*emits_layer"):
        emit(CustomLayer(Mine(), 3))


def test_outputs_in_the_units_of_the_data_are_compared_relative_to_them() -> None:
    """A value that happens to be near 0 is rounded as the others of its column."""
    model = replace(doubling(), expected=lambda examples: {"y": 2 * np.array(examples, dtype=np.float32) + 0.001})
    data = model.to_bytes("double", {})
    with pytest.raises(ExportError, match="differs by"):
        exported.check(model, data, [[0.0]])
    assert exported.check(replace(model, units={"y": np.array([1000.0])}), data, [[0.0]])[1] == pytest.approx(1e-6)
