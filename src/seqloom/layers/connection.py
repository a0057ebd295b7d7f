"""How a layer's output meets what the layer read: the ways to connect the layers of a stack."""

from abc import ABC, abstractmethod

import torch
from torch import Tensor, nn


class Connection(nn.Module, ABC):
    """What follows a layer that read ``before`` (``input_size`` wide) and gave ``after`` (``output_size`` wide)."""

    def __init__(self, input_size: int, output_size: int) -> None:
        super().__init__()
        self.input_size = input_size
        self.output_size = output_size

    @property
    def size(self) -> int:
        """The width of what comes out."""
        return self.output_size

    @abstractmethod
    def forward(
        self,
        before: Tensor,  # (B, T, input_size), zero in the padding
        after: Tensor,  # (B, T, output_size), zero in the padding
    ) -> Tensor:  # (B, T, size), zero in the padding
        """Connect."""

    def extra_repr(self) -> str:
        return f"{self.input_size}, {self.output_size}"


class Plain(Connection):
    """y: the layer's output alone."""

    def forward(self, _before: Tensor, after: Tensor) -> Tensor:
        return after


class Residual(Connection):
    """y + x (He et al. 2016); a learnt projection carries x where the widths differ."""

    def __init__(self, input_size: int, output_size: int) -> None:
        super().__init__(input_size, output_size)
        self.carry = carrier(input_size, output_size)

    def forward(self, before: Tensor, after: Tensor) -> Tensor:
        carried: Tensor = self.carry(before)
        return after + carried


class Highway(Connection):
    """t ∘ y + (1 - t) ∘ x with t = σ(W x + b) (Srivastava, Greff & Schmidhuber 2015).

    A learnt projection carries x where the widths differ. The gate begins mostly closed: b = -2.
    """

    def __init__(self, input_size: int, output_size: int) -> None:
        super().__init__(input_size, output_size)
        self.carry = carrier(input_size, output_size)
        self.gate = nn.Linear(input_size, output_size)
        nn.init.constant_(self.gate.bias, -2)

    def forward(self, before: Tensor, after: Tensor) -> Tensor:
        t: Tensor = self.gate(before).sigmoid()
        carried: Tensor = self.carry(before)
        return t * after + (1 - t) * carried


class Dense(Connection):
    """x and y side by side (Huang et al. 2017), so that a layer reads the input and all earlier outputs."""

    @property
    def size(self) -> int:
        return self.input_size + self.output_size

    def forward(self, before: Tensor, after: Tensor) -> Tensor:
        return torch.cat([before, after], dim=-1)


CONNECTIONS: dict[str, type[Connection]] = {"plain": Plain, "residual": Residual, "dense": Dense, "highway": Highway}


def carrier(input_size: int, output_size: int) -> nn.Module:
    """The identity, or a projection where the widths differ; no bias, so that zero padding stays zero."""
    return nn.Identity() if input_size == output_size else nn.Linear(input_size, output_size, bias=False)
