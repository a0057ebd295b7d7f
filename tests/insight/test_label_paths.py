"""The paths of a text as they are printed."""

from itertools import product

import numpy as np
import pytest
import torch
from tests.tasks.transcribe.test_transcribe import fitted

from seqloom.insight.label_paths import label_paths, path_lines
from seqloom.kernels.ctc.naive import collapse


def test_all_paths_of_a_short_label_are_printed() -> None:
    task = fitted(["a"])
    assert task.learned
    text = task.learned.text
    token = text.vocabulary.index("a")
    log_probs = np.full((2, len(text.vocabulary)), -np.inf)
    log_probs[:, 0], log_probs[:, token] = np.log(0.25), np.log(0.75)
    paths = label_paths(log_probs, [token], text, label="a", limit=20)
    assert [path.tokens for path in paths.paths] == [["a", "a"], ["a", ""], ["", "a"]] or [
        path.tokens for path in paths.paths
    ] == [["a", "a"], ["", "a"], ["a", ""]]
    assert [path.probability for path in paths.paths] == pytest.approx([0.5625, 0.1875, 0.1875])
    assert paths.probability == pytest.approx(0.9375)
    assert path_lines(paths)[0] == "aa  0.5625  60.0%"
    assert path_lines(paths)[-1] == "All paths together: 0.9375 (log-probability -0.0645)"


@pytest.mark.parametrize("label", ["aab", "b", ""])
def test_a_large_limit_lists_every_path(label: str) -> None:
    """All 7-frame paths that collapse to the label, and CTC's probability of it as torch computes it."""
    text = fitted(["ab"]).fitted.text
    target = list(text.encode(label))
    logits = torch.from_numpy(np.random.default_rng(2).normal(size=(7, len(text.vocabulary))))
    log_probs = logits.log_softmax(dim=-1)
    names = text.vocabulary.tokens
    expected = {
        tuple("" if token == 0 else names[token] for token in path): sum(
            log_probs[frame, token].item() for frame, token in enumerate(path)
        )
        for path in product(range(len(names)), repeat=7)
        if list(collapse(path, 0)) == target
    }
    paths = label_paths(log_probs.numpy(), target, text, label=label, limit=10**6)
    listed = {tuple(path.tokens): path.probability for path in paths.paths}
    assert listed == pytest.approx({path: np.exp(value) for path, value in expected.items()})
    assert len(paths.paths) == paths.count == len(expected)
    values = [path.probability for path in paths.paths]
    assert values == sorted(values, reverse=True)
    loss = torch.nn.functional.ctc_loss(
        log_probs[:, None], torch.tensor([target]), torch.tensor([7]), torch.tensor([len(target)]), reduction="sum"
    )
    assert sum(values) == pytest.approx(np.exp(-loss.item()))
    assert len(path_lines(paths)) == len(expected) + 1
    few = label_paths(log_probs.numpy(), target, text, label=label, limit=1)
    assert few.paths == paths.paths[:1]
    assert few.count == paths.count
    with pytest.raises(ValueError, match="the number of paths to list is 0"):
        label_paths(log_probs.numpy(), target, text, label=label, limit=0)
