"""The contract of a cell around a cell: noise for the steps, drawn before them because a step is pure."""

from abc import abstractmethod
from typing import Any

import torch
from torch import Tensor

from seqloom.cells.cell import Cell


class Wrapper(Cell):
    """A cell around another, with its state and its gates. When training, noise columns follow the projected input.

    In ``step``, use ``divide`` if training; otherwise there is no noise.
    """

    def __init__(self, cell: Cell, rate: float) -> None:
        super().__init__(cell.input_size, cell.hidden_size)
        if not 0 <= rate < 1:
            raise ValueError(f"rate is {rate}, wanted at least 0 and below 1")
        self.cell = cell
        self.rate = rate
        # Class variables of other cells, but here they depend on the cell inside.
        vars(self).update(gates=cell.gates, State=cell.State)

    @abstractmethod
    def draw(
        self,
        projected: Tensor,  # (T, B, P)
    ) -> Tensor:  # (T, B, N)
        """The noise for all steps."""

    def divide(
        self,
        projected: Tensor,  # (B, P + N)
        width: int,  # N
    ) -> tuple[Tensor, Tensor]:  # (B, P), (B, N)
        """What the cell inside projected, and the noise, which has no gradient."""
        inside, noise = torch.split(projected, [projected.shape[-1] - width, width], dim=-1)
        return inside, noise.detach()

    def project(self, x: Tensor) -> Tensor:
        projected = self.cell.project(x)
        return torch.cat([projected, self.draw(projected)], dim=-1) if self.training else projected

    def start(self, batch: int) -> Any:
        return self.cell.start(batch)

    def extra_repr(self) -> str:
        return f"rate={self.rate}"
