"""Learning curves of several runs: the numbers of metrics.jsonl, in one picture."""

from pathlib import Path
from typing import Any

import pytest

from seqloom.insight.run_curves import draw_run_curves, run_curves

ROWS: list[dict[str, Any]] = [
    {"update": 1, "loss": 2.0},
    {"update": 2, "loss": float("nan"), "dev": {"accuracy": 0.5, "loss": 1.5}},
    {"update": 4, "loss": 1.0, "dev": {"accuracy": 0.75}},
]


def test_curves_are_the_numbers_of_the_rows() -> None:
    curves = run_curves(ROWS, name="a", metric="accuracy", higher_is_better=True)
    assert curves.training_loss == [(1, 2.0), (4, 1.0)]
    assert curves.dev == [(2, 0.5), (4, 0.75)]
    assert curves.to_dict()["name"] == "a"


def test_runs_are_drawn_together_unless_their_metrics_differ(tmp_path: Path) -> None:
    first = run_curves(ROWS, name="first", metric="accuracy", higher_is_better=True)
    second = run_curves(ROWS[1:], name="second", metric="accuracy", higher_is_better=True)
    draw_run_curves([first, second], tmp_path / "curves.svg")
    text = (tmp_path / "curves.svg").read_text()
    assert "first" in text
    assert "second" in text
    other = run_curves(ROWS, name="other", metric="loss", higher_is_better=False)
    with pytest.raises(ValueError, match=r"the metrics of the runs differ \(accuracy, loss\)"):
        draw_run_curves([first, other], tmp_path / "x.png")
    with pytest.raises(ValueError, match=r"x\.gif: a picture is written as \.png, \.svg, \.pdf"):
        draw_run_curves([first], tmp_path / "x.gif")
    with pytest.raises(ValueError, match="nothing to draw"):
        draw_run_curves([run_curves([], name="none", metric="accuracy", higher_is_better=True)], tmp_path / "x.png")
