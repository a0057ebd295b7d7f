"""Learning curves, read back from what was drawn."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.axes import Axes

from seqloom.insight import draw_learning_curves

ROWS: list[dict[str, Any]] = [
    {"update": 10, "epoch": 1.0, "loss": 3.0, "learning_rate": 0.1, "gradient_norm": 1.0, "clipped": 0.0},
    {"update": 10, "epoch": 1.0, "dev": {"accuracy": 0.5, "loss": 2.5, "per_label": {"x": 1}}},
    {"update": 20, "epoch": 2.0, "loss": 2.0, "learning_rate": 0.1, "gradient_norm": 1.0, "clipped": 0.0},
    {"update": 20, "epoch": 2.0, "dev": {"accuracy": 0.8, "loss": 2.2}},
    {"update": 30, "epoch": 3.0, "loss": float("nan"), "learning_rate": 0.1, "gradient_norm": 1.0, "clipped": 0.0},
    {"update": 30, "epoch": 3.0, "dev": {"accuracy": 0.7, "loss": 2.1}},
]


def drawn(axes: Axes) -> dict[str, tuple[list[float], list[float]]]:
    """The points of each line by its label."""
    return {
        str(line.get_label()): (np.asarray(line.get_xdata()).tolist(), np.asarray(line.get_ydata()).tolist())
        for line in axes.lines
    }


def test_the_losses_and_the_best_score_are_shown(tmp_path: Path) -> None:
    figure = draw_learning_curves(ROWS, tmp_path / "new" / "results.png")
    loss, accuracy = figure.axes
    assert drawn(loss) == {"training": ([10, 20], [3, 2]), "dev": ([10, 20, 30], [2.5, 2.2, 2.1])}
    assert drawn(accuracy) == {
        "dev": ([10, 20, 30], [0.5, 0.8, 0.7]),
        "best: 0.8 at update 20": ([20], [0.8]),
    }
    assert [axes.get_title("left") for axes in figure.axes] == ["loss", "accuracy"]
    legend = accuracy.get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == ["dev", "best: 0.8 at update 20"]
    assert (tmp_path / "new" / "results.png").read_bytes().startswith(b"\x89PNG")


def test_the_best_may_be_the_lowest(tmp_path: Path) -> None:
    figure = draw_learning_curves(ROWS, tmp_path / "x.png", metric="accuracy", higher_is_better=False)
    assert "best: 0.5 at update 10" in drawn(figure.axes[1])


@pytest.mark.parametrize(("loss", "update"), [(2.1, 40), (2.2, 20), (2.3, 20)])
def test_of_equal_scores_the_one_with_the_lowest_loss_is_the_best(tmp_path: Path, loss: float, update: int) -> None:
    rows = [*ROWS, {"update": 40, "epoch": 4.0, "dev": {"accuracy": 0.8, "loss": loss}}]
    figure = draw_learning_curves(rows, tmp_path / "x.png")
    assert drawn(figure.axes[1])[f"best: 0.8 at update {update}"] == ([update], [0.8])


def test_a_metric_called_loss_shares_the_panel(tmp_path: Path) -> None:
    figure = draw_learning_curves(ROWS, tmp_path / "x.png", metric="loss", higher_is_better=False)
    (axes,) = figure.axes
    assert list(drawn(axes)) == ["training", "dev", "best: 2.1 at update 30"]


@pytest.mark.parametrize(("part", "title"), [("loss", "loss"), ("dev", "accuracy")])
def test_missing_values_have_no_panel(tmp_path: Path, part: str, title: str) -> None:
    rows = [row | {"dev": {"accuracy": row["dev"]["accuracy"]}} if "dev" in row else row for row in ROWS]
    figure = draw_learning_curves([row for row in rows if part in row], tmp_path / "x.png")
    assert [axes.get_title("left") for axes in figure.axes] == [title]


def test_epochs_are_counted_above_the_updates(tmp_path: Path) -> None:
    figure = draw_learning_curves(ROWS, tmp_path / "x.png")
    (above,) = figure.axes[0].child_axes
    low, high = figure.axes[0].get_xlim()
    assert above.get_xlim() == pytest.approx((low / 10, high / 10))


def test_an_outlier_does_not_flatten_the_curve(tmp_path: Path) -> None:
    rows = [{"update": step, "epoch": 1.0, "loss": 1000.0 if step == 0 else 1 / step} for step in range(100)]
    figure = draw_learning_curves(rows, tmp_path / "x.png")
    assert figure.axes[0].get_ylim()[1] < 2
    assert max(drawn(figure.axes[0])["training"][1]) == 1000


def test_nothing_to_draw_is_an_error(tmp_path: Path) -> None:
    for rows in ([], [{"update": 1, "epoch": 0.1, "loss": float("inf")}]):
        with pytest.raises(ValueError, match="nothing to draw"):
            draw_learning_curves(rows, tmp_path / "x.png")


def test_epochs_are_whole_numbers(tmp_path: Path) -> None:
    figure = draw_learning_curves(ROWS, tmp_path / "x.png")
    figure.canvas.draw()
    (above,) = figure.axes[0].child_axes
    ticks = [float(tick) for tick in above.get_xticks() if 0 <= tick <= 3]
    assert ticks == [0, 1, 2, 3]
