"""The table of positions: its tasks by hand, and two schemes trained for one update."""

import pytest
import torch

from benchmarks import positions


def test_the_labels_of_both_tasks() -> None:
    digits = torch.tensor([[5, 1, 4, 2, 9]])
    assert positions.TASKS["copy"](digits).tolist() == [[0, 0, 0, 5, 1]]
    assert positions.TASKS["reverse"](digits).tolist() == [[9, 2, 4, 1, 5]]


def test_a_line_for_each_scheme(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(positions, "BATCH", 2)
    monkeypatch.setattr(positions, "EVALUATED", 5)
    positions.main(["normalized_counts", "alibi", "--seeds", "1", "--updates", "1"])
    header, _, *lines = capsys.readouterr().out.splitlines()
    assert header.count("|") == 6
    assert [line.split("`")[1] for line in lines] == ["normalized_counts", "alibi"]
    assert all(0 <= float(cell) <= 100 for line in lines for cell in line.split("|")[2:-1])
