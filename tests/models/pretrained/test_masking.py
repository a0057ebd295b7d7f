"""Masks by counting, and by the properties that they must have."""

import numpy as np
import pytest
import torch

from seqloom.models.pretrained.masking import Masking, fixed_noise

MASK, FIRST, END = 3, 4, 24
MASKING = Masking(0.15, MASK, FIRST, END)


def texts(lengths: list[int], seed: int = 1) -> tuple[torch.Tensor, torch.Tensor]:
    """The boundary and random tokens, padded with zeros."""
    draw = np.random.default_rng(seed)
    words = torch.zeros(len(lengths), max(lengths) + 1, dtype=torch.int64)
    for row, length in enumerate(lengths):
        words[row, : length + 1] = torch.tensor([2, *draw.integers(FIRST, END, length)])
    return words, words != 0


def test_shares_by_counting() -> None:
    words, mask = texts([40] * 4000)
    torch.manual_seed(1)
    masked = MASKING.hide(words, mask, torch.rand(3, *words.shape))
    assert (masked.chosen.sum(dim=1) == 6).all()  # 15 % of 40
    assert torch.equal(masked.words[~masked.chosen], words[~masked.chosen])
    read, was = masked.words[masked.chosen], words[masked.chosen]
    chosen = len(read)  # 24,000: the standard deviation of a share of 0.1 is 0.002
    assert float((read == MASK).sum()) / chosen == pytest.approx(0.8, abs=0.01)
    # A random token is the token itself once in 20 cases.
    assert float((read == was).sum()) / chosen == pytest.approx(0.1 + 0.1 / 20, abs=0.01)
    random = read[(read != MASK) & (read != was)]
    counts = torch.bincount(random, minlength=END)
    assert not counts[:FIRST].any()
    assert counts[FIRST:].min() > 0.7 * counts[FIRST:].float().mean()  # uniform over the tokens
    places = masked.chosen.sum(dim=0)  # each is chosen in 600 of 4,000 texts on average, with a deviation of 23
    assert places[0] == 0
    assert places[1:].min() > 500
    assert places[1:].max() < 700


def test_at_least_one_token_but_never_the_boundary_padding_or_a_given_mask() -> None:
    words, mask = texts([1, 2, 3, 10, 0, 5])
    words[5, 1:6] = torch.tensor([7, MASK, MASK, MASK, MASK])
    masked = MASKING.hide(words, mask, fixed_noise(words, mask))
    assert masked.chosen.sum(dim=1).tolist() == [1, 1, 1, 2, 0, 1]
    assert MASKING.counts(torch.tensor([0, 1, 2, 9, 10, 100])).tolist() == [0, 1, 1, 1, 2, 15]
    assert not masked.chosen[~mask].any()
    assert not masked.chosen[:, 0].any()
    assert masked.chosen[5].tolist()[:2] == [False, True]


def test_fixed_masks_depend_on_the_text_alone() -> None:
    words, mask = texts([7, 12, 4])
    together = MASKING.hide(words, mask, fixed_noise(words, mask))
    for row, length in enumerate((7, 12, 4)):
        alone = words[row : row + 1, : length + 1]
        masked = MASKING.hide(alone, alone != 0, fixed_noise(alone, alone != 0))
        assert torch.equal(masked.words[0], together.words[row, : length + 1])
        assert torch.equal(masked.chosen[0], together.chosen[row, : length + 1])
    others = torch.cat([texts([20], seed)[0] for seed in range(30)])
    chosen = MASKING.hide(others, others != 0, fixed_noise(others, others != 0)).chosen
    assert len({tuple(row) for row in chosen.tolist()}) > 25  # other texts, other places
