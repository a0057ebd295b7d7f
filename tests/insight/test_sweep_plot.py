"""Pictures of a sweep: heights, marks, and which line stands out."""

from pathlib import Path

import pytest

from seqloom.insight.plotting import RED
from seqloom.insight.sweep_plot import Axis, Line, draw_importance, draw_parallel_coordinates

AXES = [
    Axis("rate", low=1e-4, high=1e-1, log=True),
    Axis("cell", categories=["lstm", "gru"]),
    Axis("size", low=4, high=32),
]


def test_heights_are_linear_logarithmic_or_even() -> None:
    rate, cell, size = AXES
    assert [rate.height(value) for value in (1e-4, 1e-3, 1e-1)] == pytest.approx([0, 1 / 3, 1])
    assert [cell.height(value) for value in ("lstm", "gru")] == [0.25, 0.75]
    assert [size.height(value) for value in (4, 18, 32)] == [0, 0.5, 1]
    assert Axis("perplexity", low=8, high=10, flipped=True).height(8) == 1
    assert Axis("constant", low=3, high=3).height(3) == 0.5


def test_marks_are_round_numbers_and_the_bounds() -> None:
    assert [label for _, label in sorted(AXES[0].ticks())] == ["0.0001", "0.001", "0.01", "0.1"]
    assert [label for _, label in AXES[1].ticks()] == ["lstm", "gru"]
    assert [label for _, label in sorted(AXES[2].ticks())] == ["4", "6", "12", "18", "24", "30", "32"]


@pytest.mark.parametrize("higher", [True, False])
def test_the_best_finished_trial_stands_out(tmp_path: Path, higher: bool) -> None:
    lines = [Line([0.1, "gru", 8], 0.5, finished=True), Line([0.01, "lstm", 16], 0.7, finished=True)]
    lines += [Line([0.001, "lstm", 4], 0.9 if higher else 0.1, finished=False)]
    path = tmp_path / "out" / "lines.png"
    figure = draw_parallel_coordinates(AXES, lines, path, metric="accuracy", higher_is_better=higher, title="$1")
    (plot,) = figure.axes
    (best,) = [line for line in plot.lines if line.get_color() == RED and len(line.get_xdata()) == 4]  # type: ignore[arg-type]
    expected = lines[1 if higher else 0]
    assert list(best.get_ydata())[:3] == [axis.height(value) for axis, value in zip(AXES, expected.values, strict=True)]  # type: ignore[arg-type]
    assert [text.get_text() for text in plot.get_legend().get_texts()] == ["best trial", "finished", "pruned"]  # type: ignore[union-attr]
    assert path.stat().st_size > 5000
    with pytest.raises(ValueError, match="nothing to draw"):
        draw_parallel_coordinates(AXES, [], path, metric="accuracy")


def test_importance_is_drawn_with_the_largest_on_top(tmp_path: Path) -> None:
    figure = draw_importance({"b": 0.2, "a": 0.8}, tmp_path / "bars.png", metric="word_error_rate", title="runs")
    (plot,) = figure.axes
    assert [label.get_text() for label in plot.get_yticklabels()] == ["b", "a"]
    assert [patch.get_width() for patch in plot.patches] == [20, 80]  # type: ignore[attr-defined]
    assert plot.get_xlabel() == "importance for word error rate (%)"
