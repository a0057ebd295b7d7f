"""Dropout for sequences: the same mask at every time step (Gal & Ghahramani 2016)."""

from torch import Tensor, nn


class Variational(nn.Module):
    """Drops a feature of a whole sequence or none of it; what stays is scaled by 1 / (1 - rate). Eval mode: nothing."""

    def __init__(self, rate: float) -> None:
        super().__init__()
        if not 0 <= rate < 1:
            raise ValueError(f"rate is {rate}, wanted at least 0 and below 1")
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
