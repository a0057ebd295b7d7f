"""Weighted mean of the layers of a model, with learned weights and scale (Peters et al. 2018)."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn


class ScalarMix(nn.Module):
    """γ Σ softmax(s)_j h_j; layers of another width than the last are projected to its width."""

    def __init__(
        self,
        sizes: Sequence[int],  # widths of the layers, lowest first
    ) -> None:
        super().__init__()
        if not sizes:
            raise ValueError("sizes is empty, expected at least one layer")
        self.size = sizes[-1]
        self.scores = nn.Parameter(torch.zeros(len(sizes)))  # s
        self.scale = nn.Parameter(torch.ones(()))  # γ
        self.maps = nn.ModuleList(
            nn.Identity() if size == self.size else nn.Linear(size, self.size, bias=False) for size in sizes
        )

    @property
    def layer_weights(self) -> Tensor:  # (layers,)
        """Weight of each layer; the sum is one."""
        return self.scores.softmax(dim=0)

    def forward(
        self,
        layers: Sequence[Tensor],  # each (..., its size)
    ) -> Tensor:  # (..., size)
        if len(layers) != len(self.maps):
            raise ValueError(f"expected {len(self.maps)} layers, got {len(layers)}")
        weights = self.scale * self.layer_weights
        first, *others = (
            weight * project(layer) for weight, project, layer in zip(weights, self.maps, layers, strict=True)
        )
        mixed: Tensor = sum(others, start=first)
        return mixed
