"""Cross-entropy of a softmax over a large vocabulary: in chunks of rows to save memory, or over sampled tokens only."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from seqloom.kernels.linalg import cross_entropy as kernel
from seqloom.kernels.linalg import large_products
from seqloom.kernels.linalg.bfloat16 import contract
from seqloom.kernels.linalg.packed import LLVM_TYPES
from seqloom.kernels.runtime.buffers import borrow
from seqloom.kernels.runtime.differentiation import differentiable_once
from seqloom.layers.bfloat16_products import RoundedWeight, active_products, multiplies_rounded
from seqloom.layers.linear import Linear

MAX_LOGITS = 8_000_000
"""Logits in memory at once: 32 MB in float32."""


def cross_entropy(
    hidden: Tensor,  # (N, D)
    weight: Tensor,  # (V, D)
    bias: Tensor | None,  # (V,)
    target: Tensor,  # (N,)
    *,
    smoothing: float = 0.0,  # label smoothing: probability mass spread over all tokens
) -> Tensor:  # (), the sum over N
    """-Σ log softmax(W h + b)[target]; the gradient is computed in the forward pass.

    Equals ``torch.nn.functional.cross_entropy`` with ``reduction="sum"``, but can be differentiated only once.
    """
    if not (torch.is_grad_enabled() and (hidden.requires_grad or weight.requires_grad)):
        return sum(
            (
                _softmax_rows(_logits(hidden[rows], weight, bias), target[rows], smoothing)[0].sum()
                for rows in _chunks(hidden, weight)
            ),
            start=hidden.new_zeros(()),
        )
    products = active_products()
    rounded = products.rounded(weight) if products is not None and multiplies_rounded(hidden, weight) else None
    result: Tensor = _CrossEntropy.apply(hidden, weight, bias, target, smoothing, rounded)
    return result


def sampled_cross_entropy(
    hidden: Tensor,  # (N, D)
    weight: Tensor,  # (V, D), most frequent tokens first
    bias: Tensor,  # (V,)
    target: Tensor,  # (N,)
    *,
    samples: int,  # tokens sampled in addition to the targets
    smoothing: float = 0.0,
) -> Tensor:  # (), the sum over N
    """``cross_entropy`` over the targets of the batch and tokens sampled by Zipf's law; approximates the full one.

    See Bengio & Senécal 2008, Jean et al. 2015. Each logit is reduced by the logarithm of the probability that its
    token is among the candidates, which corrects for the sampling.
    """
    sampled = sample_zipf(samples, len(weight), like=target)
    candidates, indices = torch.unique(torch.cat([target, sampled]), return_inverse=True)
    included = -torch.expm1((samples + len(target)) * torch.log1p(-_zipf_probabilities(candidates, len(weight))))
    rows = weight.index_select(0, candidates)
    shifted = bias.index_select(0, candidates) - included.log().to(bias.dtype)
    return cross_entropy(hidden, rows, shifted, indices[: len(target)], smoothing=smoothing)


def log_probabilities(
    hidden: Tensor,  # (N, D)
    output: nn.Linear,  # D → V
    target: Tensor,  # (N,)
) -> Tensor:  # (N,)
    """Return the log-probability of each target, without gradient."""
    with torch.no_grad():
        values = [
            -_softmax_rows(_output_logits(hidden[rows], output), target[rows], 0.0)[0]
            for rows in _chunks(hidden, output.weight)
        ]
    return torch.cat(values) if values else hidden.new_zeros(0)


def score_tokens(
    hidden: Tensor,  # (N, D)
    output: nn.Linear,  # D → V
    target: Tensor,  # (N,)
) -> tuple[Tensor, Tensor]:  # (N,), (N,)
    """Return the log-probability of each target, and whether it is the most probable token, without gradient."""
    values, correct = [], []
    with torch.no_grad():
        for rows in _chunks(hidden, output.weight):
            loss, softmax = _softmax_rows(_output_logits(hidden[rows], output), target[rows], 0.0)
            values.append(-loss)
            correct.append(softmax.argmax(dim=1) == target[rows])
    if not values:
        return hidden.new_zeros(0), target.new_zeros(0, dtype=torch.bool)
    return torch.cat(values), torch.cat(correct)


def sample_zipf(count: int, vocab_size: int, *, like: Tensor) -> Tensor:  # (count,)
    """Sample tokens with probability log((r + 2) / (r + 1)) / log(vocab_size + 1) for rank r."""
    samples = torch.rand(count, dtype=torch.float64, device=like.device).mul_(math.log(vocab_size + 1)).exp_()
    return samples.long().sub_(1).clamp_(max=vocab_size - 1)


def _zipf_probabilities(ranks: Tensor, vocab_size: int) -> Tensor:
    return torch.log1p(1 / (ranks.double() + 1)) / math.log(vocab_size + 1)


def _chunks(hidden: Tensor, weight: Tensor) -> Iterator[slice]:
    count = max(MAX_LOGITS // len(weight), 1)
    chunks = -(-len(hidden) // count) or 1
    size = -(-len(hidden) // chunks) or 1  # chunks of equal size
    for start in range(0, len(hidden), size):
        yield slice(start, start + size)


def _output_logits(hidden: Tensor, output: nn.Linear) -> Tensor:  # (N, V)
    if isinstance(output, Linear) and output.int8:
        logits: Tensor = output(hidden)
        return logits
    return _logits(hidden, output.weight, output.bias)


def _logits(hidden: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:  # (N, V)
    return hidden @ weight.T if bias is None else torch.addmm(bias, hidden, weight.T)


def _softmax_rows(
    logits: Tensor, target: Tensor, smoothing: float
) -> tuple[Tensor, Tensor]:  # loss (N,), softmax (N, V)
    largest, argmax = logits.max(dim=1)
    chosen = logits.gather(1, target.unsqueeze(1)).squeeze(1)
    mean = logits.mean(dim=1) if smoothing else chosen
    softmax = torch.softmax(logits, dim=1, out=logits) if not logits.requires_grad else torch.softmax(logits, dim=1)
    # The largest probability is at least 1 / V, so that its logarithm is exact; that of another might be zero.
    normalizer = largest - softmax.gather(1, argmax.unsqueeze(1)).squeeze(1).log()
    return normalizer - (1 - smoothing) * chosen - smoothing * mean, softmax


@contextmanager
def _logit_gradients(
    hidden: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    target: Tensor,
    smoothing: float,
    rounded: RoundedWeight | None,
    bias_gradient: Tensor | None,  # (V,), to which the sum of the gradient over the rows is added
) -> Iterator[tuple[Tensor, Tensor]]:  # loss (N,), its gradient w.r.t. the logits (N, V), valid inside the context
    if hidden.device.type != "cpu" or hidden.dtype not in LLVM_TYPES:
        loss, gradient = _softmax_rows(_logits(hidden, weight, bias), target, smoothing)
        if smoothing:
            gradient -= smoothing / len(weight)
        gradient.scatter_add_(1, target.unsqueeze(1), loss.new_full((len(loss), 1), smoothing - 1))
        if bias_gradient is not None:
            bias_gradient += gradient.sum(dim=0)
        yield loss, gradient
        return
    matrix = None if rounded is None else rounded.transposed(weight)
    rows, width = len(hidden), large_products.row_stride(weight.T) if matrix is None else matrix.width
    with borrow(rows * width, hidden) as buffer:  # allocating this much memory would cost as much as the softmax
        out = buffer[: rows * width].view(rows, width)
        if matrix is None:
            logits = large_products.multiply(hidden, weight.T, out[:, : len(weight)])
        else:
            logits = matrix.multiply(hidden, out)
        loss = kernel.cross_entropy(logits, bias, target.contiguous(), smoothing=smoothing, bias_gradient=bias_gradient)
        yield loss, logits


class _CrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(
        context: Any,
        hidden: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        target: Tensor,
        smoothing: float,
        rounded: RoundedWeight | None,  # None: products in float32
    ) -> Tensor:
        total = hidden.new_zeros(())
        hidden_gradient = hidden.new_empty(hidden.shape)
        weight_gradient: Tensor | None = None
        compiled = hidden.device.type == "cpu" and hidden.dtype in LLVM_TYPES
        bias_gradient = None if bias is None else torch.zeros_like(bias)
        for rows in _chunks(hidden, weight):
            values = hidden[rows], weight, bias, target[rows], smoothing, rounded, bias_gradient
            with _logit_gradients(*values) as (loss, gradient):
                total += loss.sum()
                if rounded is not None:
                    hidden_gradient[rows] = rounded.plain(weight).multiply(gradient)
                    weight_gradient = contract(gradient, hidden[rows], weight_gradient)
                elif compiled:
                    large_products.multiply(gradient, weight, hidden_gradient[rows])
                    earlier = weight_gradient
                    weight_gradient = weight.new_empty(weight.shape) if earlier is None else earlier
                    large_products.contract(gradient, hidden[rows], weight_gradient, add=earlier is not None)
                else:
                    torch.mm(gradient, weight, out=hidden_gradient[rows])
                    if weight_gradient is None:
                        weight_gradient = torch.mm(gradient.T, hidden[rows])
                    else:
                        weight_gradient.addmm_(gradient.T, hidden[rows])
        if weight_gradient is None:
            weight_gradient = torch.zeros_like(weight)
        context.gradients = (hidden_gradient, weight_gradient, bias_gradient)
        return total

    @staticmethod
    @differentiable_once
    def backward(context: Any, scale: Tensor) -> tuple[Tensor | None, ...]:
        gradients: tuple[Tensor | None, ...] = context.gradients
        if float(scale) != 1:
            gradients = tuple(None if gradient is None else gradient * scale for gradient in gradients)
        return *gradients, None, None, None
