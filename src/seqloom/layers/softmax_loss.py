"""The loss of a softmax over a large vocabulary, some rows at a time, so that all logits never exist at once."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from seqloom.kernels.linalg import cross_entropy as kernel
from seqloom.kernels.linalg.packed import LLVM_TYPES
from seqloom.kernels.runtime.buffers import borrow

LOGITS = 8_000_000
"""Logits that exist at once: 32 MB in float32."""


def cross_entropy(
    hidden: Tensor,  # (N, D)
    weight: Tensor,  # (V, D)
    bias: Tensor | None,  # (V,)
    target: Tensor,  # (N,)
    *,
    smoothing: float = 0.0,  # share of the target's probability that is spread over all symbols
) -> Tensor:  # (), the sum over N
    """-Σ log softmax(W h + b)[target], with its gradient computed on the way.

    Equal to ``torch.nn.functional.cross_entropy`` with ``reduction="sum"``; it can be differentiated once.
    """
    if not (torch.is_grad_enabled() and (hidden.requires_grad or weight.requires_grad)):
        return sum(
            (_rows(hidden[rows], weight, bias, target[rows], smoothing)[0].sum() for rows in _chunks(hidden, weight)),
            start=hidden.new_zeros(()),
        )
    result: Tensor = _CrossEntropy.apply(hidden, weight, bias, target, smoothing)
    return result


def log_probabilities(
    hidden: Tensor,  # (N, D)
    weight: Tensor,  # (V, D)
    bias: Tensor | None,  # (V,)
    target: Tensor,  # (N,)
) -> Tensor:  # (N,)
    """Of each target; without a gradient."""
    with torch.no_grad():
        found = [-_rows(hidden[rows], weight, bias, target[rows], 0.0)[0] for rows in _chunks(hidden, weight)]
    return torch.cat(found) if found else hidden.new_zeros(0)


def score_tokens(
    hidden: Tensor,  # (N, D)
    weight: Tensor,  # (V, D)
    bias: Tensor | None,  # (V,)
    target: Tensor,  # (N,)
) -> tuple[Tensor, Tensor]:  # (N,), (N,)
    """Log-probabilities, and whether each target is the most probable symbol; without a gradient."""
    values, right = [], []
    with torch.no_grad():
        for rows in _chunks(hidden, weight):
            loss, softmax = _rows(hidden[rows], weight, bias, target[rows], 0.0)
            values.append(-loss)
            right.append(softmax.argmax(dim=1) == target[rows])
    if not values:
        return hidden.new_zeros(0), target.new_zeros(0, dtype=torch.bool)
    return torch.cat(values), torch.cat(right)


def _chunks(hidden: Tensor, weight: Tensor) -> Iterator[slice]:
    count = max(LOGITS // len(weight), 1)
    pieces = -(-len(hidden) // count) or 1
    even = -(-len(hidden) // pieces) or 1  # no short last piece
    for start in range(0, len(hidden), even):
        yield slice(start, start + even)


def _rows(
    hidden: Tensor, weight: Tensor, bias: Tensor | None, target: Tensor, smoothing: float
) -> tuple[Tensor, Tensor]:  # loss (N,), softmax (N, V)
    logits = hidden @ weight.T if bias is None else torch.addmm(bias, hidden, weight.T)
    largest, where = logits.max(dim=1)
    chosen = logits.gather(1, target.unsqueeze(1)).squeeze(1)
    mean = logits.mean(dim=1) if smoothing else chosen
    softmax = torch.softmax(logits, dim=1, out=logits) if not logits.requires_grad else torch.softmax(logits, dim=1)
    # The largest probability is at least 1 / V: its logarithm is exact where that of another might be of zero.
    normalizer = largest - softmax.gather(1, where.unsqueeze(1)).squeeze(1).log()
    return normalizer - (1 - smoothing) * chosen - smoothing * mean, softmax


@contextmanager
def _differences(
    hidden: Tensor, weight: Tensor, bias: Tensor | None, target: Tensor, smoothing: float
) -> Iterator[tuple[Tensor, Tensor]]:  # loss (N,), its gradient by the logits (N, V), for the time of the context
    size = len(hidden) * len(weight)
    if hidden.device.type != "cpu" or hidden.dtype not in LLVM_TYPES:
        loss, difference = _rows(hidden, weight, bias, target, smoothing)
        if smoothing:
            difference -= smoothing / len(weight)
        difference.scatter_add_(1, target.unsqueeze(1), loss.new_full((len(loss), 1), smoothing - 1))
        yield loss, difference
        return
    with borrow(size, hidden) as buffer:  # allocate memory of this size would cost as much as the softmax
        logits = torch.mm(hidden, weight.T, out=buffer[:size].view(len(hidden), len(weight)))
        yield kernel.cross_entropy(logits, bias, target.contiguous(), smoothing=smoothing), logits


class _CrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(
        context: Any, hidden: Tensor, weight: Tensor, bias: Tensor | None, target: Tensor, smoothing: float
    ) -> Tensor:
        total = hidden.new_zeros(())
        toward_hidden = torch.empty_like(hidden)
        toward_weight = torch.empty_like(weight)
        toward_bias = None if bias is None else torch.zeros_like(bias)
        first = True
        for rows in _chunks(hidden, weight):
            with _differences(hidden[rows], weight, bias, target[rows], smoothing) as (loss, difference):
                total += loss.sum()
                torch.mm(difference, weight, out=toward_hidden[rows])
                if first:
                    torch.mm(difference.T, hidden[rows], out=toward_weight)
                else:
                    toward_weight.addmm_(difference.T, hidden[rows])
                if toward_bias is not None:
                    toward_bias += difference.sum(dim=0)
            first = False
        if first:
            toward_weight.zero_()
        context.gradients = (toward_hidden, toward_weight, toward_bias)
        return total

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(context: Any, scale: Tensor) -> tuple[Tensor | None, ...]:
        gradients: tuple[Tensor | None, ...] = context.gradients
        if float(scale) != 1:
            gradients = tuple(None if gradient is None else gradient * scale for gradient in gradients)
        return *gradients, None, None
