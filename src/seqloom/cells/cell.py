"""The contract of a recurrent cell: one step in time, written as its equations."""

import math
from abc import ABC, abstractmethod
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional


class Cell(nn.Module, ABC):
    """One step of a recurrence. Subclasses write ``step``; direction, masks, gradients and speed are derived from it.

    ``step`` is a pure function of its arguments and the cell's parameters: no randomness, no memory of its own.
    """

    gates: ClassVar[tuple[str, ...]]
    """Names of the gate values that ``step`` returns, in their order."""

    State: ClassVar[type[Any]]
    """A NamedTuple of tensors (B, hidden_size); its first field is the output."""

    carry: ClassVar[str | None] = None
    """The gate by which the old output enters the new one directly (h' = gate ∘ h + …); None if it does not."""

    input: nn.Module
    """What ``project`` applies to the input; most often ``projection(...)``."""

    def __init__(self, input_size: int, hidden_size: int) -> None:
        super().__init__()
        for name, size in (("input_size", input_size), ("hidden_size", hidden_size)):
            if size < 1:
                raise ValueError(f"{name} must be at least 1, found {size}")
        self.input_size = input_size
        self.hidden_size = hidden_size

    @abstractmethod
    def step(
        self,
        projected: Tensor,  # (B, P)
        state: Any,  # State of (B, hidden_size)
    ) -> tuple[Any, tuple[Tensor, ...]]:
        """The next state, and the gate values in the order of ``gates``."""

    def project(
        self,
        x: Tensor,  # (T, B, input_size)
    ) -> Tensor:  # (T, B, P)
        """Everything in a step that does not depend on the state, for all steps at once."""
        projected: Tensor = self.input(x)
        return projected

    def start(self, batch: int) -> Any:
        """The state before the first step: zeros."""
        like = next(self.parameters(), None)
        if like is None:
            raise TypeError(f"{type(self).__qualname__} has no parameters, wanted at least one")
        return self.State(*[like.new_zeros(batch, self.hidden_size) for _ in self.State._fields])

    def forward(self, projected: Tensor, state: Any) -> tuple[Any, tuple[Tensor, ...]]:
        return self.step(projected, state)

    def extra_repr(self) -> str:
        return f"{self.input_size}, {self.hidden_size}"


def projection(input_size: int, hidden_size: int, *, blocks: int, bias: bool = True) -> nn.Linear:
    """W x + b for ``blocks`` gates at once: Glorot-uniform for each gate, biases zero."""
    linear = nn.Linear(input_size, blocks * hidden_size, bias=bias)
    bound = math.sqrt(6 / (input_size + hidden_size))
    nn.init.uniform_(linear.weight, -bound, bound)
    if bias:
        nn.init.zeros_(linear.bias)
    return linear


def recurrence(hidden_size: int, *, blocks: int = 1, bias: bool = False) -> nn.Linear:
    """U h for ``blocks`` gates at once: one orthogonal matrix per gate (Saxe 2014), a bias of zeros if wanted."""
    linear = nn.Linear(hidden_size, blocks * hidden_size, bias=bias)
    with torch.no_grad():
        for block in linear.weight.chunk(blocks):
            nn.init.orthogonal_(block)
    if bias:
        nn.init.zeros_(linear.bias)
    return linear


class GateNorm(nn.Module):
    """Layer normalisation (Ba, Kiros & Hinton 2016) of each gate's part by itself, with gain and optional bias."""

    def __init__(self, hidden_size: int, *, blocks: int, bias: bool) -> None:
        super().__init__()
        self.hidden_size = hidden_size
        self.blocks = blocks
        self.weight = nn.Parameter(torch.ones(blocks * hidden_size))
        self.bias = nn.Parameter(torch.zeros(blocks * hidden_size)) if bias else None

    def forward(
        self,
        total: Tensor,  # (..., blocks * hidden_size)
    ) -> Tensor:  # (..., blocks * hidden_size)
        parts = total.unflatten(-1, (self.blocks, self.hidden_size))
        scaled = functional.layer_norm(parts, (self.hidden_size,)).flatten(-2) * self.weight
        return scaled if self.bias is None else scaled + self.bias

    def extra_repr(self) -> str:
        return f"{self.hidden_size}, blocks={self.blocks}, bias={self.bias is not None}"
