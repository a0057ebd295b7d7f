"""Plots of gates."""

from pathlib import Path

import pytest
import torch

import seqloom
from seqloom import cells
from seqloom.insight import draw_gates, trace_gates


def test_padding_is_not_drawn(tmp_path: Path) -> None:
    layer = seqloom.Recurrent(cells.LSTM(3, 8))
    mask = torch.arange(9) < torch.tensor([[9], [4]])
    _, (result,) = trace_gates(layer, torch.randn(2, 9, 3), mask)
    draw_gates(result, tmp_path / "new" / "gates.png", row=1, labels=["the", "clouds", "are", "in"])
    assert (tmp_path / "new" / "gates.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(ValueError, match="labels has 4 entries, expected 9"):
        draw_gates(result, tmp_path / "gates.png", row=0, labels=["the", "clouds", "are", "in"])


def test_cells_without_gates_show_their_state(tmp_path: Path) -> None:
    _, (result,) = trace_gates(seqloom.Recurrent(cells.Elman(3, 8)), torch.randn(1, 5, 3))
    draw_gates(result, tmp_path / "states.png")
    assert (tmp_path / "states.png").is_file()


def test_rows_that_cannot_be_drawn_are_named(tmp_path: Path) -> None:
    mask = torch.arange(3) < torch.tensor([[3], [0]])
    _, (result,) = trace_gates(seqloom.Recurrent(cells.Elman(3, 8)), torch.randn(2, 3, 3), mask)
    with pytest.raises(ValueError, match="row 1 has no time steps"):
        draw_gates(result, tmp_path / "gates.png", row=1)
    with pytest.raises(ValueError, match="row is 2, but the trace has 2 rows"):
        draw_gates(result, tmp_path / "gates.png", row=2)
