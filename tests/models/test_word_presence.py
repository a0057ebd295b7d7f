"""The second loss of captions against a loop over images and tokens."""

import math

import pytest
import torch

from seqloom.layers.layer import Memory
from seqloom.models.word_presence import WordPresence


@torch.no_grad()
def test_the_loss_counts_each_token_of_an_image_once() -> None:
    torch.manual_seed(0)
    words = WordPresence(3, 6).double()
    torch.nn.init.normal_(words.output.weight)
    values = torch.randn(2, 4, 3, dtype=torch.float64)
    mask = torch.tensor([[True] * 4, [True, True, False, False]])
    values[1, 2:] = math.nan  # padding
    tokens = torch.tensor([[1, 2, 2], [2, 4, 0], [5, 0, 0]])  # two captions of the first image, one of the second
    real = torch.tensor([[True, True, True], [True, True, False], [True, False, False]])
    loss = words.loss(Memory(values, mask, ()), tokens, mask=real, rows=torch.tensor([0, 0, 1]))

    expected = 0.0
    for image, (cells, present) in enumerate(((4, {1, 2, 4}), (2, {5}))):
        mean = values[image, :cells].mean(dim=0)
        for token in range(6):
            logit = float(words.output.weight[token] @ mean + words.output.bias[token])
            probability = 1 / (1 + math.exp(-logit))
            expected -= math.log(probability if token in present else 1 - probability)
    assert loss.item() == pytest.approx(expected, rel=1e-12)
