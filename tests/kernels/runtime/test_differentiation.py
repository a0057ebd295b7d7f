"""Losses with a kernel of their own refuse a second derivative; it is never zero without a word."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from tests.contracts.registry import noise
from torch import Tensor

from seqloom.layers.ctc import ctc_loss
from seqloom.layers.softmax_loss import _CrossEntropy
from seqloom.models.crf import Chain, log_partition


def ctc(x: Tensor) -> Any:
    return ctc_loss(x, torch.tensor([3, 3]), [torch.tensor([1]), torch.tensor([2])])[0].sum()


def crf(x: Tensor) -> Any:
    chain = Chain(noise(4), noise(4, 4), noise(4))
    return log_partition(x, torch.ones(2, 3, dtype=torch.bool), chain).sum()


def cross_entropy(x: Tensor) -> Any:
    apply: Any = _CrossEntropy.apply
    return apply(x.flatten(0, 1), noise(5, 4), None, torch.zeros(6, dtype=torch.int64), 0.0, None)


@pytest.mark.parametrize("loss", [ctc, crf, cross_entropy])
def test_a_second_derivative_is_refused(loss: Callable[[Tensor], Any]) -> None:
    x = noise(2, 3, 4).requires_grad_()
    (gradient,) = torch.autograd.grad(loss(x), x)
    assert float(gradient.abs().sum()) > 0
    with pytest.raises(RuntimeError, match="can be differentiated once only"):
        torch.autograd.grad(loss(x), x, create_graph=True)
