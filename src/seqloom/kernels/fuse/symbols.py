"""Symbolic values of the tensors in a traced step, and the result of tracing."""

from dataclasses import dataclass, field
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


Symbol = BatchRows | MatrixParameter | TransposedRows | OuterProductSum | BatchSum


class Product(NamedTuple):
    """operand (B, depth) times a matrix parameter, transposed or not: (B, size)."""

    operand: Row
    matrix: str
    transposed: bool
    size: int


@dataclass
class TracedStep:
    """A step and its gradient as expressions over inputs, parameters, states and matrix products."""

    graph: Graph
    projected_width: int
    state_widths: tuple[int, ...]
    products: list[Product] = field(default_factory=list)
    next_state: tuple[Row, ...] = ()
    projected_gradient: Row | None = None
    state_gradient: tuple[Row | None, ...] = ()
    parameter_gradient: dict[str, OuterProductSum | BatchSum | None] = field(default_factory=dict)
