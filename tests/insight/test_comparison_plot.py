"""Learning curves of several models in one picture."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from seqloom.insight.comparison_plot import draw_compared_curves


def rows(*scores: float, shift: float = 0.0) -> list[dict[str, Any]]:
    training = [{"update": 10 * index, "loss": 1.0 / index} for index in range(1, len(scores) + 1)]
    return training + [{"update": 10 * (i + 1), "dev": {"accuracy": score + shift}} for i, score in enumerate(scores)]


def test_thin_lines_for_runs_and_a_thick_one_for_their_mean(tmp_path: Path) -> None:
    curves = {"base": [rows(0.5, 0.6, 0.7), rows(0.5, 0.6, 0.7, shift=0.1)], "$counts$": [[rows(0.4)[-1]]]}
    figure = draw_compared_curves(curves, tmp_path / "curves.png", metric="accuracy")
    assert figure is not None
    loss, accuracy = figure.axes
    assert accuracy.get_title(loc="left") == "dev accuracy (higher is better)"
    *runs, mean, counts = accuracy.get_lines()
    assert [np.asarray(line.get_ydata()).tolist() for line in runs] == [[0.5, 0.6, 0.7], pytest.approx([0.6, 0.7, 0.8])]
    assert np.asarray(mean.get_ydata()).tolist() == pytest.approx([0.55, 0.65, 0.75])
    assert mean.get_linewidth() > runs[0].get_linewidth()
    assert np.asarray(counts.get_ydata()).tolist() == [0.4, 0.4]  # a horizontal line
    legend = accuracy.get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == ["base", r"\$counts\$"]
    assert len(loss.get_lines()) == 3
    assert (tmp_path / "curves.png").is_file()


def test_single_evaluations_are_points_over_whole_updates(tmp_path: Path) -> None:
    curves = {"base": [rows(0.5), rows(0.6)], "gru": [rows(0.4)]}
    figure = draw_compared_curves(curves, tmp_path / "curves.png", metric="accuracy")
    assert figure is not None
    _, accuracy = figure.axes
    points = [np.asarray(line.get_xydata()).tolist() for line in accuracy.get_lines()]
    assert points == [[[10, 0.5], [10, 0.6]], [[10, 0.4]]]
    figure.canvas.draw()
    assert all(float(tick).is_integer() for axes in figure.axes for tick in axes.get_xticks())


def test_nothing_to_draw(tmp_path: Path) -> None:
    assert draw_compared_curves({"base": [[]], "failed": []}, tmp_path / "curves.png", metric="accuracy") is None
    assert not (tmp_path / "curves.png").exists()
