"""The parts of a model: each parameter is counted once, for every task."""

from pathlib import Path
from typing import Any

import pytest
import torch
from tests.contracts.tiny import CASES, build
from torch import nn

import seqloom
from seqloom.insight.model_parts import ModelPart, anatomy, anatomy_notes, anatomy_rows, merge_equal


def model_of(name: str, folder: Path) -> nn.Module:
    task: Any = build(CASES[name], folder).task
    model: nn.Module = task.fit(task.read(folder / CASES[name].file)).build_model()
    return model


@pytest.mark.parametrize("name", CASES)
def test_parameters_add_up_for_every_task(name: str, tmp_path: Path) -> None:
    model = model_of(name, tmp_path)
    root = anatomy(model)
    assert root.parameters == sum(parameter.numel() for parameter in model.parameters())
    assert root.frozen == sum(value.numel() for value in model.parameters() if not value.requires_grad)
    own = 0
    for _, part in root.walk():
        assert part.parameters >= sum(inner.parameters for inner in part.parts)
        own += sum(torch.Size(shape).numel() for shape in part.weights.values()) - part.shared
    assert own == root.parameters  # the listed weights are all there are
    merged = merge_equal(root)
    assert merged.parameters == root.parameters
    assert len(anatomy_rows(root)) == len(list(merged.walk()))


def find(root: ModelPart, path: str) -> ModelPart:
    return next(part for _, part in root.walk() if part.path == path)


def test_an_lstm_has_four_times_the_weights_of_its_equations() -> None:
    inputs, hidden = 7, 5
    root = anatomy(seqloom.recurrent("lstm", inputs, hidden))
    assert root.parameters == 4 * (inputs * hidden + hidden**2 + hidden)
    assert (root.kind, root.widths) == ("LSTM", "7 → 5")
    assert [(part.name, part.weights) for part in root.parts] == [
        ("input", {"weight": (20, 7), "bias": (20,)}),
        ("recurrent", {"weight": (20, 5)}),
    ]


def test_directions_and_connections_are_named() -> None:
    layer = seqloom.recurrent("gru", 4, 6, layers=3, bidirectional=True, connection="highway")
    root = anatomy(layer)
    assert root.kind == "Stack (highway)"
    assert [part.kind for part in find(root, "layers.0").parts] == ["GRU", "GRU (backward)"]
    assert find(root, "layers.0").widths == "4 → 12"
    assert find(root, "connections.1.gate").weights == {"weight": (12, 12), "bias": (12,)}


def test_equal_layers_are_merged_and_tied_weights_counted_once(tmp_path: Path) -> None:
    root = anatomy(model_of("translate, transformer", tmp_path))
    rows = [(label.strip(" │├└─"), number) for label, _, _, number, _ in anatomy_rows(root)]
    size, wide = 8, 32  # a block: Q, K, V and output, two layers of feed-forward, two norms
    block = 4 * (size * size + size) + (size * wide + wide) + (wide * size + size) + 2 * 2 * size
    assert ("layers 2 to 3: Transformer block × 2", f"{block} × 2") in rows
    output = find(root, "decoder.output")
    assert output.shared == find(root, "decoder.embed").parameters
    assert anatomy_notes(root)[1] == f"{output.shared} more are shared: they are counted where they occur first"


def test_counts_are_shown_where_nothing_is_trained(tmp_path: Path) -> None:
    root = anatomy(model_of("tag, hmm", tmp_path))
    assert root.parameters == 0
    assert root.tables["transitions"] == (4, 4)
    total = sum(torch.Size(shape).numel() for shape in root.tables.values())
    assert f"{total} numbers in tables" in anatomy_notes(root)[1]
    assert root.to_dict()["kind"] == "HMM"
