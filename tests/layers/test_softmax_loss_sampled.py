"""The sampled softmax against the full one."""

import math

import pytest
import torch
from torch.nn import functional

from seqloom.layers.softmax_loss import sample_zipf, sampled_cross_entropy

VOCAB_SIZE = 12


def make_inputs() -> tuple[torch.Tensor, ...]:
    torch.manual_seed(0)
    hidden, weight, bias = (
        torch.randn(*shape, dtype=torch.float64) for shape in ((5, 3), (VOCAB_SIZE, 3), (VOCAB_SIZE,))
    )
    for tensor in (hidden, weight, bias):
        tensor.requires_grad_()
    return hidden, weight, bias, torch.tensor([3, 0, 11, 3, 7])


def test_very_many_samples_give_the_full_softmax() -> None:
    hidden, weight, bias, target = make_inputs()
    actual = sampled_cross_entropy(hidden, weight, bias, target, samples=10_000)
    expected = functional.cross_entropy(hidden @ weight.T + bias, target, reduction="sum")
    torch.testing.assert_close(actual, expected)
    for one, other in zip(
        torch.autograd.grad(actual, (hidden, weight, bias)),
        torch.autograd.grad(expected, (hidden, weight, bias)),
        strict=True,
    ):
        torch.testing.assert_close(one, other)


def test_few_samples_give_the_corrected_softmax_over_them() -> None:
    hidden, weight, bias, target = make_inputs()
    torch.manual_seed(3)
    sampled = set(sample_zipf(4, VOCAB_SIZE, like=target).tolist())
    torch.manual_seed(3)
    actual = sampled_cross_entropy(hidden, weight, bias, target, samples=4)
    present = sorted(sampled | {0, 3, 7, 11})
    probabilities = [math.log((token + 2) / (token + 1)) / math.log(VOCAB_SIZE + 1) for token in present]
    shift = torch.tensor([-math.log(1 - (1 - probability) ** 9) for probability in probabilities], dtype=torch.float64)
    logits = torch.full((5, VOCAB_SIZE), -math.inf, dtype=torch.float64)
    logits[:, present] = (hidden @ weight.T + bias)[:, present] + shift
    torch.testing.assert_close(actual, functional.cross_entropy(logits, target, reduction="sum"))
    gradient = torch.autograd.grad(actual, weight)[0]
    absent = [token for token in range(VOCAB_SIZE) if token not in sampled | {0, 3, 7, 11}]
    assert absent
    assert not gradient[absent].any()


def test_tokens_are_sampled_by_rank() -> None:
    torch.manual_seed(0)
    count = 200_000
    sampled = torch.bincount(sample_zipf(count, VOCAB_SIZE, like=torch.zeros(0)), minlength=VOCAB_SIZE) / count
    expected = [math.log((rank + 2) / (rank + 1)) / math.log(VOCAB_SIZE + 1) for rank in range(VOCAB_SIZE)]
    assert sum(expected) == pytest.approx(1)
    assert sampled.tolist() == pytest.approx(expected, abs=0.004)  # five deviations
