"""Layers of a model as one: a mean with learnt weights, and a scale (Peters et al. 2018)."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn


class ScalarMix(nn.Module):
    """γ Σ softmax(s)_j h_j; a layer that is wider or narrower than the last one passes a linear map first."""

    def __init__(
        self,
        sizes: Sequence[int],  # of the layers, the lowest first
    ) -> None:
        super().__init__()
        if not sizes:
            raise ValueError("sizes is empty, expected the width of at least one layer")
        self.size = sizes[-1]
        self.scores = nn.Parameter(torch.zeros(len(sizes)))  # s
        self.scale = nn.Parameter(torch.ones(()))  # γ
        self.maps = nn.ModuleList(
            nn.Identity() if size == self.size else nn.Linear(size, self.size, bias=False) for size in sizes
        )

    @property
    def shares(self) -> Tensor:  # (layers,)
        """How much each layer counts; they add up to one."""
        return self.scores.softmax(dim=0)

    def forward(
        self,
        layers: Sequence[Tensor],  # each (..., its size)
    ) -> Tensor:  # (..., size)
        if len(layers) != len(self.maps):
            raise ValueError(f"found {len(layers)} layers, expected {len(self.maps)}")
        weights = self.scale * self.shares
        first, *others = (
            weight * convert(layer) for weight, convert, layer in zip(weights, self.maps, layers, strict=True)
        )
        mixed: Tensor = sum(others, start=first)
        return mixed
