"""Sampled softmax for training with a large vocabulary (Bengio & Senécal 2008, Jean et al. 2015)."""

import math

import torch
from torch import Tensor

from seqloom.layers.softmax_loss import cross_entropy


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

    Each logit is reduced by the logarithm of the probability that its token is among the candidates, which corrects
    for the sampling.
    """
    sampled = sample_zipf(samples, len(weight), like=target)
    candidates, indices = torch.unique(torch.cat([target, sampled]), return_inverse=True)
    included = -torch.expm1((samples + len(target)) * torch.log1p(-_probabilities(candidates, len(weight))))
    rows = weight.index_select(0, candidates)
    shifted = bias.index_select(0, candidates) - included.log().to(bias.dtype)
    return cross_entropy(hidden, rows, shifted, indices[: len(target)], smoothing=smoothing)


def sample_zipf(count: int, vocab_size: int, *, like: Tensor) -> Tensor:  # (count,)
    """Sample tokens with probability log((r + 2) / (r + 1)) / log(vocab_size + 1) for rank r."""
    samples = torch.rand(count, dtype=torch.float64, device=like.device).mul_(math.log(vocab_size + 1)).exp_()
    return samples.long().sub_(1).clamp_(max=vocab_size - 1)


def _probabilities(ranks: Tensor, vocab_size: int) -> Tensor:
    return torch.log1p(1 / (ranks.double() + 1)) / math.log(vocab_size + 1)
