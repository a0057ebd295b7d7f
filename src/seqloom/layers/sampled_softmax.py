"""A softmax over some symbols of a large vocabulary, for training (Bengio & Senécal 2008, Jean et al. 2015)."""

import math

import torch
from torch import Tensor

from seqloom.layers.softmax_loss import cross_entropy


def sampled_cross_entropy(
    hidden: Tensor,  # (N, D)
    weight: Tensor,  # (V, D), the more frequent symbols first
    bias: Tensor,  # (V,)
    target: Tensor,  # (N,)
    *,
    samples: int,  # symbols that are drawn besides the targets
    smoothing: float = 0.0,
) -> Tensor:  # (), the sum over N
    """``cross_entropy`` over all targets of the batch and symbols drawn by Zipf's law; that over all is its limit.

    A symbol's logit is lowered by the logarithm of the probability that it is there, so that rare ones, which are
    seldom there, weigh as much as all that they stand for.
    """
    candidates, places = torch.unique(torch.cat([target, zipf(samples, len(weight), like=target)]), return_inverse=True)
    there = -torch.expm1((samples + len(target)) * torch.log1p(-_probabilities(candidates, len(weight))))
    rows = weight.index_select(0, candidates)
    shifted = bias.index_select(0, candidates) - there.log().to(bias.dtype)
    return cross_entropy(hidden, rows, shifted, places[: len(target)], smoothing=smoothing)


def zipf(count: int, symbols: int, *, like: Tensor) -> Tensor:  # (count,)
    """Symbols drawn with probability log((r + 2) / (r + 1)) / log(symbols + 1) of the one of rank r."""
    drawn = torch.rand(count, dtype=torch.float64, device=like.device).mul_(math.log(symbols + 1)).exp_()
    return drawn.long().sub_(1).clamp_(max=symbols - 1)


def _probabilities(ranks: Tensor, symbols: int) -> Tensor:
    return torch.log1p(1 / (ranks.double() + 1)) / math.log(symbols + 1)
