"""The paths of a text as they are printed."""

import numpy as np
import pytest
from tests.tasks.transcribe.test_transcribe import fitted

from seqloom.insight.label_paths import label_paths, path_lines


def test_all_paths_of_a_short_label_are_printed() -> None:
    task = fitted(["a"])
    assert task.learned
    text = task.learned.text
    token = text.vocabulary.index("a")
    log_probs = np.full((2, len(text.vocabulary)), -np.inf)
    log_probs[:, 0], log_probs[:, token] = np.log(0.25), np.log(0.75)
    paths = label_paths(log_probs, [token], text, label="a")
    assert [path.tokens for path in paths.paths] == [["a", "a"], ["a", ""], ["", "a"]] or [
        path.tokens for path in paths.paths
    ] == [["a", "a"], ["", "a"], ["a", ""]]
    assert [path.probability for path in paths.paths] == pytest.approx([0.5625, 0.1875, 0.1875])
    assert paths.probability == pytest.approx(0.9375)
    assert path_lines(paths)[0] == "aa  0.5625  60.0%"
    assert path_lines(paths)[-1] == "All paths together: 0.9375 (log-probability -0.0645)"
