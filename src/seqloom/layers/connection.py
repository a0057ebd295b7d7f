"""Connections of stacked layers: how a layer's output is combined with its input."""

from abc import ABC, abstractmethod

import torch
from torch import Tensor, nn


class Connection(nn.Module, ABC):
    """Combines the input x and the output y of a layer."""

    def __init__(self, input_size: int, output_size: int) -> None:
        super().__init__()
        self.input_size = input_size
        self.output_size = output_size

    @property
    def size(self) -> int:
        """Width of the result."""
        return self.output_size

    @abstractmethod
    def forward(
        self,
        x: Tensor,  # (B, T, input_size), zero in the padding
        y: Tensor,  # (B, T, output_size), zero in the padding
    ) -> Tensor:  # (B, T, size), zero in the padding
        """Combine input and output."""

    def extra_repr(self) -> str:
        return f"{self.input_size}, {self.output_size}"


class Plain(Connection):
    """y: the layer's output only."""

    def forward(self, _x: Tensor, y: Tensor) -> Tensor:
        return y


class Residual(Connection):
    """y + x (He et al. 2016), with a learned projection of x where the widths differ."""

    def __init__(self, input_size: int, output_size: int) -> None:
        super().__init__(input_size, output_size)
        self.skip = skip_projection(input_size, output_size)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        skipped: Tensor = self.skip(x)
        return y + skipped


class Highway(Connection):
    """t ∘ y + (1 - t) ∘ x with t = σ(W x + b) (Srivastava, Greff & Schmidhuber 2015).

    With a learned projection of x where the widths differ. The gate is initially almost closed: b = -2.
    """

    def __init__(self, input_size: int, output_size: int) -> None:
        super().__init__(input_size, output_size)
        self.skip = skip_projection(input_size, output_size)
        self.gate = nn.Linear(input_size, output_size)
        nn.init.constant_(self.gate.bias, -2)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        t: Tensor = self.gate(x).sigmoid()
        skipped: Tensor = self.skip(x)
        return t * y + (1 - t) * skipped


class Dense(Connection):
    """[x; y] (Huang et al. 2017): each layer reads the input and all earlier outputs."""

    @property
    def size(self) -> int:
        return self.input_size + self.output_size

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return torch.cat([x, y], dim=-1)


CONNECTIONS: dict[str, type[Connection]] = {"plain": Plain, "residual": Residual, "dense": Dense, "highway": Highway}


def skip_projection(input_size: int, output_size: int) -> nn.Module:
    """Identity, or a projection where the widths differ; without bias, so that padding stays zero."""
    return nn.Identity() if input_size == output_size else nn.Linear(input_size, output_size, bias=False)
