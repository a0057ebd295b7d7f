"""The confusion matrix of a run."""

from pathlib import Path

import numpy as np

from seqloom.insight.confusion_plot import MAX_CONFUSED, confusion_matrix, draw_confusion


def test_the_matrix_is_that_of_the_counts() -> None:
    confusions = [{"label": "a", "predicted": "b", "count": 3}, {"label": "c", "predicted": "a", "count": 1}]
    recalls = {"a": (0.25, 4), "b": (1.0, 2), "c": (0.0, 1)}
    scores = {name: {"recall": recall, "support": support} for name, (recall, support) in recalls.items()}
    names, counts = confusion_matrix(confusions, scores)
    assert names == ["a", "b", "c"]
    np.testing.assert_array_equal(counts, [[1, 3, 0], [0, 2, 0], [1, 0, 0]])
    names, counts = confusion_matrix(confusions, {})
    np.testing.assert_array_equal(counts, [[0, 3, 0], [0, 0, 0], [1, 0, 0]])


def test_of_many_labels_the_most_confused_are_drawn(tmp_path: Path) -> None:
    confusions = [{"label": f"{n}", "predicted": f"{n + 1}", "count": 700 - n} for n in range(600)]
    scores = {f"{n}": {"recall": 0.5, "support": 10} for n in range(650)}
    names, _ = confusion_matrix(confusions, scores)
    assert len(names) == MAX_CONFUSED
    assert names[0] == "1"
    figure = draw_confusion(confusions, scores, tmp_path / "confusion.png", title="$run")
    assert figure.axes[0].get_title(loc="left") == r"\$run: 25 of 650 labels, those confused most often"
    assert (tmp_path / "confusion.png").stat().st_size > 1000
    assert "errors only" in draw_confusion(confusions[:2], {}, tmp_path / "few.png").axes[0].get_title(loc="left")
