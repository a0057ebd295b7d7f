"""Symbolic values of the tensors in a traced step, and the result of tracing."""

from dataclasses import dataclass, field
from math import prod
from typing import NamedTuple

from seqloom.kernels.fuse.expression import Graph, Row


class Unfusable(Exception):
    """A step cannot be fused, for the reason given."""


class Impure(Unfusable):
    """A step is not a function of its arguments: what it computes, or what it reads, changes from call to call."""


@dataclass(frozen=True)
class BatchRows:
    """A tensor with one row for each row of the batch, or, if ``uniform``, a vector that all rows share."""

    row: Row
    uniform: bool = False


@dataclass(frozen=True)
class MatrixParameter:
    """A matrix parameter. One of a single row, (1, n), is also a vector that all rows share."""

    name: str
    shape: tuple[int, int]  # not transposed
    transposed: bool = False


@dataclass(frozen=True)
class TransposedRows:
    """The transpose of a ``BatchRows``."""

    rows: BatchRows


@dataclass(frozen=True)
class OuterProductSum:
    """A sum of products leftᵀ right over the batch: the gradient of a matrix."""

    terms: tuple[tuple[Row, Row], ...]


@dataclass(frozen=True)
class BatchSum:
    """A sum of rows over the batch: the gradient of a vector."""

    row: Row


@dataclass(frozen=True)
class StridedRows:
    """A view of ``rows`` with other dimensions: broadcast, or in another order."""

    rows: BatchRows
    sizes: tuple[int, ...]
    strides: tuple[int, ...]


Symbol = BatchRows | MatrixParameter | TransposedRows | OuterProductSum | BatchSum | StridedRows


class Product(NamedTuple):
    """operand (B, depth) times a matrix parameter, transposed or not: (B, size)."""

    operand: Row
    matrix: str
    transposed: bool
    size: int

    def describe(self) -> str:
        """All but the operand."""
        return f"{self.matrix} {self.transposed} {self.size}"


class Contraction(NamedTuple):
    """Σ left · right for each row of the batch, with strides into the operand, which holds both sides."""

    operand: Row
    sizes: tuple[int, ...]  # of the indices of the output, then of those of the sum
    left: tuple[int, ...]  # strides
    right: tuple[int, ...] | None  # strides; None: there is no right side
    right_start: int  # where it starts in the operand
    summed: int  # number of indices of the sum

    @property
    def size(self) -> int:
        """Width of the output."""
        return prod(self.sizes[: len(self.sizes) - self.summed])

    def describe(self) -> str:
        """All but the operand."""
        return f"{self.sizes} {self.left} {self.right} {self.right_start} {self.summed}"


@dataclass
class TracedStep:
    """A step and its gradient as expressions over inputs, parameters, states and matrix products."""

    graph: Graph
    projected_width: int
    state_widths: tuple[int, ...]
    passed_width: int = 0  # of the input, if the step reads it as well: the gradient of both is projected_gradient
    products: list[Product | Contraction] = field(default_factory=list)
    next_state: tuple[Row, ...] = ()
    projected_gradient: Row | None = None
    state_gradient: tuple[Row | None, ...] = ()
    parameter_gradient: dict[str, OuterProductSum | BatchSum | None] = field(default_factory=dict)
