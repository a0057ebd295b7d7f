"""Interface of a cell that wraps another: noise is sampled before the steps, because a step is a pure function."""

from abc import abstractmethod
from typing import Any

import torch
from torch import Tensor

from seqloom.cells.cell import Cell


class Wrapper(Cell):
    """A cell around another one, with the same state and gates. In training, noise is appended to the projected input.

    In training, ``step`` separates the two with ``split_noise``; in evaluation there is no noise.
    """

    def __init__(self, cell: Cell, rate: float) -> None:
        super().__init__(cell.input_size, cell.hidden_size)
        if not 0 <= rate < 1:
            raise ValueError(f"rate must be at least 0 and below 1, got {rate}")
        self.cell = cell
        self.rate = rate
        # Class variables of other cells; here they depend on the wrapped cell.
        vars(self).update(gates=cell.gates, State=cell.State)

    @abstractmethod
    def sample_noise(
        self,
        projected: Tensor,  # (T, B, P)
    ) -> Tensor:  # (T, B, N)
        """Sample the noise of all steps."""

    def split_noise(
        self,
        projected: Tensor,  # (B, P + N)
        size: int,  # N
    ) -> tuple[Tensor, Tensor]:  # (B, P), (B, N)
        """Separate the wrapped cell's projected input from the noise, which has no gradient."""
        inner, noise = torch.split(projected, [projected.shape[-1] - size, size], dim=-1)
        return inner, noise.detach()

    def project(self, x: Tensor) -> Tensor:
        projected = self.cell.project(x)
        return torch.cat([projected, self.sample_noise(projected)], dim=-1) if self.training else projected

    def start(self, batch: int) -> Any:
        return self.cell.start(batch)

    def extra_repr(self) -> str:
        return f"rate={self.rate}"
