"""Interface of a recurrent cell: one time step, written as its equations."""

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional


class Cell(nn.Module, ABC):
    """One step of a recurrence. Subclasses define ``step``; direction, masking, gradients and speed follow from it.

    ``step`` is a pure function of its arguments and the cell's parameters: no randomness, no hidden state.
    """

    gates: ClassVar[tuple[str, ...]] = ()
    """Names of the gate values that ``step`` returns, in order; none by default."""

    State: ClassVar[type[Any]]
    """A NamedTuple of tensors, batch first; the first field (B, hidden_size) is the output."""

    effects: ClassVar[Mapping[str, str]] = {}
    """What a gate does where it is open (1), such as "keeps" or "writes", for plots."""

    carry: ClassVar[str | None] = None
    """The gate that copies the previous output into the new one (h' = gate ∘ h + …); None if there is none."""

    write: ClassVar[str | None] = None
    """The gate that replaces the previous output by a new value (h' = (1 - gate) ∘ h + …); None if there is none."""

    input: nn.Module
    """The module that ``project`` applies to the input, usually ``projection(...)``."""

    def __init__(self, input_size: int, hidden_size: int) -> None:
        super().__init__()
        for name, size in (("input_size", input_size), ("hidden_size", hidden_size)):
            if size < 1:
                raise ValueError(f"{name} must be at least 1, got {size}")
        self.input_size = input_size
        self.hidden_size = hidden_size

    @abstractmethod
    def step(
        self,
        projected: Tensor,  # (B, P)
        state: Any,  # State of (B, hidden_size)
    ) -> tuple[Any, tuple[Tensor, ...]]:
        """Return the next state, and the gate values in the order of ``gates``."""

    def project(
        self,
        x: Tensor,  # (T, B, input_size)
    ) -> Tensor:  # (T, B, P)
        """Compute the part of all steps that does not depend on the state."""
        projected: Tensor = self.input(x)
        return projected

    def start(self, batch: int) -> Any:
        """Return the state before the first step: zeros."""
        like = first_parameter(self)
        return self.State(*[like.new_zeros(batch, self.hidden_size) for _ in self.State._fields])

    def carried(self, gates: tuple[Tensor, ...]) -> Tensor | None:
        """Return the factor with which a step copies the previous output, given its gates; None if it does not."""
        if self.carry is not None:
            return gates[self.gates.index(self.carry)]
        return None if self.write is None else 1 - gates[self.gates.index(self.write)]

    def forward(self, projected: Tensor, state: Any) -> tuple[Any, tuple[Tensor, ...]]:
        return self.step(projected, state)

    def extra_repr(self) -> str:
        return f"{self.input_size}, {self.hidden_size}"


def first_parameter(cell: Cell) -> Tensor:
    """``next(cell.parameters())`` in a third of its time, for what is called at every step."""
    modules: list[nn.Module] = [cell]
    while modules:
        fields = vars(modules.pop())
        for parameter in fields["_parameters"].values():
            if parameter is not None:
                first: Tensor = parameter
                return first
        modules += [child for child in reversed(fields["_modules"].values()) if child is not None]
    raise TypeError(f"{type(cell).__qualname__} has no parameters; a cell needs at least one")


def projection(input_size: int, hidden_size: int, *, blocks: int, bias: bool = True) -> nn.Linear:
    """W x + b for ``blocks`` gates in one matrix: Glorot-uniform per gate, biases zero."""
    linear = nn.Linear(input_size, blocks * hidden_size, bias=bias)
    bound = math.sqrt(6 / (input_size + hidden_size))
    nn.init.uniform_(linear.weight, -bound, bound)
    if bias:
        nn.init.zeros_(linear.bias)
    return linear


class ProjectionWithInput(nn.Module):
    """[W x; x] with ``blocks`` gates in W: a projection for a step that reads the input as well."""

    def __init__(self, input_size: int, hidden_size: int, *, blocks: int) -> None:
        super().__init__()
        self.linear = projection(input_size, hidden_size, blocks=blocks, bias=False)

    def forward(
        self,
        x: Tensor,  # (..., m)
    ) -> Tensor:  # (..., blocks * n + m)
        return torch.cat([self.linear(x), x], dim=-1)


def recurrence(hidden_size: int, *, blocks: int = 1, bias: bool = False) -> nn.Linear:
    """U h for ``blocks`` gates in one matrix: an orthogonal matrix per gate (Saxe 2014), optional bias of zeros."""
    linear = nn.Linear(hidden_size, blocks * hidden_size, bias=bias)
    with torch.no_grad():
        for block in linear.weight.chunk(blocks):
            nn.init.orthogonal_(block)
    if bias:
        nn.init.zeros_(linear.bias)
    return linear


class GateNorm(nn.Module):
    """Layer normalisation (Ba, Kiros & Hinton 2016) of each gate separately, with gain and optional bias."""

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
        gates = total.unflatten(-1, (self.blocks, self.hidden_size))
        scaled = functional.layer_norm(gates, (self.hidden_size,)).flatten(-2) * self.weight
        return scaled if self.bias is None else scaled + self.bias

    def extra_repr(self) -> str:
        return f"{self.hidden_size}, blocks={self.blocks}, bias={self.bias is not None}"
