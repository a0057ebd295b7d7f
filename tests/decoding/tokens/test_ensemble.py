"""The mean of probabilities against NumPy, and a search with two models against brute force."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from tests.decoding.tokens.reference import Limits, Toy, everything
from torch import Tensor

from seqloom.decoding.tokens.beam import Beam
from seqloom.decoding.tokens.ensemble import ensemble
from seqloom.decoding.tokens.search import Step


def fixed(scores: Tensor) -> Step:
    return lambda tokens, state: (scores[: len(tokens)], state + 1)


@pytest.mark.parametrize("weights", [None, [1.0, 2.0, 5.0]])
def test_the_mean_of_probabilities(weights: list[float] | None) -> None:
    random = torch.Generator().manual_seed(1)
    each = [torch.randn(4, 6, generator=random, dtype=torch.float64).log_softmax(dim=1) for _ in range(3)]
    each[0][0, 0] = each[1][0, 0] = each[2][0, 0] = -torch.inf
    each[0][1, 1] = -torch.inf
    step = ensemble([fixed(scores) for scores in each], weights)
    found, state = step(torch.zeros(4).long(), (torch.zeros(4), torch.ones(4), torch.zeros(4)))
    expected = np.average([np.exp(scores.numpy()) for scores in each], axis=0, weights=weights)
    assert found.exp().numpy() == pytest.approx(expected, abs=1e-15)
    assert found[0, 0] == -math.inf
    assert [part[0].item() for part in state] == [1.0, 2.0, 1.0]


class Mean(Toy):
    """Two toys as one, for brute force."""

    def __init__(self, one: Toy, other: Toy) -> None:
        super().__init__(one.vocabulary)
        self.toys = one, other

    def values(self, row: int, prefix: tuple[int, ...], start: int = 0) -> list[float]:
        pairs = zip(*(toy.values(row, prefix, start) for toy in self.toys), strict=True)
        return [math.log((math.exp(one) + math.exp(other)) / 2) for one, other in pairs]


def test_a_search_with_two_models_is_exhaustive_at_full_width() -> None:
    one, other = Toy(3, seed=1), Toy(3, seed=2)
    beam, limits = Beam(size=81, nbest=3, length_penalty="gnmt"), Limits(2, 4)
    state = (one.start(range(5)), other.start(range(5)))
    found = beam(ensemble([one.step, other.step]), state, torch.zeros(5).long(), 2, lengths=4)
    for row, hypotheses in enumerate(found):
        expected = everything(beam, Mean(one, other), row, limits)[:3]
        assert [one.tokens for one in hypotheses] == [one.tokens for one in expected]
        assert [one.score for one in hypotheses] == pytest.approx([one.score for one in expected], abs=1e-12)


def test_one_model_is_an_ensemble() -> None:
    toy = Toy(4, seed=3)
    start = torch.zeros(3).long()
    alone = Beam()(toy.step, toy.start(range(3)), start, 3, lengths=6)
    assert Beam()(ensemble([toy.step]), (toy.start(range(3)),), start, 3, lengths=6) == alone


@pytest.mark.parametrize(
    ("steps", "weights", "message"),
    [
        (0, None, "found 0 models and 0 weights"),
        (2, [1.0], "found 2 models and 1 weights"),
        (2, [1.0, 0.0], r"must be positive numbers, found \[1.0, 0.0\]"),
        (1, [math.nan], "must be positive numbers"),
    ],
)
def test_invalid_weights_are_rejected(steps: int, weights: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ensemble([fixed(torch.zeros(1, 2))] * steps, weights)


def test_models_must_share_a_vocabulary() -> None:
    step = ensemble([fixed(torch.zeros(1, 2)), fixed(torch.zeros(1, 3))])
    with pytest.raises(ValueError, match="must share a vocabulary, found vocabularies of 2, 3 tokens"):
        step(torch.zeros(1).long(), (torch.zeros(1), torch.zeros(1)))
    with pytest.raises(ValueError, match="a tuple of 2 states"):
        step(torch.zeros(1).long(), torch.zeros(1))
