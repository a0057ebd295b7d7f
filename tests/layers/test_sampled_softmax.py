import math

import pytest
import torch
from torch.nn import functional

from seqloom.layers.sampled_softmax import sampled_cross_entropy, zipf

SYMBOLS = 12


def given() -> tuple[torch.Tensor, ...]:
    torch.manual_seed(0)
    hidden, weight, bias = (torch.randn(*shape, dtype=torch.float64) for shape in ((5, 3), (SYMBOLS, 3), (SYMBOLS,)))
    for tensor in (hidden, weight, bias):
        tensor.requires_grad_()
    return hidden, weight, bias, torch.tensor([3, 0, 11, 3, 7])


def test_with_very_many_samples_it_is_the_whole_softmax() -> None:
    hidden, weight, bias, target = given()
    actual = sampled_cross_entropy(hidden, weight, bias, target, samples=10_000)
    expected = functional.cross_entropy(hidden @ weight.T + bias, target, reduction="sum")
    torch.testing.assert_close(actual, expected)
    for one, other in zip(
        torch.autograd.grad(actual, (hidden, weight, bias)),
        torch.autograd.grad(expected, (hidden, weight, bias)),
        strict=True,
    ):
        torch.testing.assert_close(one, other)


def test_with_some_samples_it_is_the_corrected_softmax_over_them() -> None:
    hidden, weight, bias, target = given()
    torch.manual_seed(3)
    drawn = set(zipf(4, SYMBOLS, like=target).tolist())
    torch.manual_seed(3)
    actual = sampled_cross_entropy(hidden, weight, bias, target, samples=4)
    present = sorted(drawn | {0, 3, 7, 11})
    probabilities = [math.log((symbol + 2) / (symbol + 1)) / math.log(SYMBOLS + 1) for symbol in present]
    shift = torch.tensor([-math.log(1 - (1 - each) ** 9) for each in probabilities], dtype=torch.float64)
    logits = torch.full((5, SYMBOLS), -math.inf, dtype=torch.float64)
    logits[:, present] = (hidden @ weight.T + bias)[:, present] + shift
    torch.testing.assert_close(actual, functional.cross_entropy(logits, target, reduction="sum"))
    toward = torch.autograd.grad(actual, weight)[0]
    absent = [symbol for symbol in range(SYMBOLS) if symbol not in drawn | {0, 3, 7, 11}]
    assert absent
    assert not toward[absent].any()


def test_symbols_are_drawn_by_rank() -> None:
    torch.manual_seed(0)
    count = 200_000
    drawn = torch.bincount(zipf(count, SYMBOLS, like=torch.zeros(0)), minlength=SYMBOLS) / count
    expected = [math.log((rank + 2) / (rank + 1)) / math.log(SYMBOLS + 1) for rank in range(SYMBOLS)]
    assert sum(expected) == pytest.approx(1)
    assert drawn.tolist() == pytest.approx(expected, abs=0.004)  # five deviations
