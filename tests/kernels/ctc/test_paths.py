"""The paths of a target, compared with all paths by brute force and with the loss of torch."""

import numpy as np
import pytest
import torch

from seqloom.kernels.ctc.naive import collapse, path_log_probs
from seqloom.kernels.ctc.paths import target_paths


@pytest.mark.parametrize("target", [(), (1,), (1, 2), (1, 1), (2, 1, 2)])
def test_all_paths_are_listed_and_sum_to_the_loss(target: tuple[int, ...]) -> None:
    logits = torch.from_numpy(np.random.default_rng(len(target)).normal(size=(5, 3)))
    log_probs = logits.log_softmax(dim=-1)
    paths = target_paths(log_probs.numpy(), target, limit=10_000)
    expected = sorted(path_log_probs(log_probs.numpy())[target], reverse=True)
    assert paths.count == len(paths.best) == len(expected)
    assert [score for score, _ in paths.best] == pytest.approx(expected, rel=1e-9)
    assert len({tuple(path) for _, path in paths.best}) == paths.count
    assert {collapse(path, 0) for _, path in paths.best} == {target}
    loss = torch.nn.functional.ctc_loss(
        log_probs.unsqueeze(1),
        torch.tensor([target]).long().view(1, -1),
        torch.tensor([5]),
        torch.tensor([len(target)]),
        reduction="sum",
    )
    assert paths.log_prob == pytest.approx(-float(loss), rel=1e-9)
    assert np.logaddexp.reduce([score for score, _ in paths.best]) == pytest.approx(paths.log_prob, rel=1e-9)


def test_the_most_probable_paths_are_the_first_of_all() -> None:
    log_probs = torch.from_numpy(np.random.default_rng(5).normal(size=(7, 4))).log_softmax(dim=-1).numpy()
    everything, some = (target_paths(log_probs, (1, 3), limit=limit) for limit in (10_000, 4))
    assert some.best == everything.best[:4]
    assert (some.count, some.log_prob) == (everything.count, everything.log_prob)


def test_too_few_frames_have_no_path() -> None:
    paths = target_paths(np.log(np.full((2, 3), 1 / 3)), (1, 1), limit=5)
    assert (paths.count, paths.best, paths.log_prob) == (0, [], -np.inf)
