"""What a tensor stands for while a step is taken apart, and what comes of it: a program."""

from dataclasses import dataclass, field
from typing import NamedTuple

from seqloom.kernels.expression import Graph, Row


class Unfusable(Exception):
    """Why a step cannot be fused."""


@dataclass(frozen=True)
class Rows:
    """A tensor with one row for each row of the batch, or, if ``uniform``, a vector that they share."""

    row: Row
    uniform: bool = False


@dataclass(frozen=True)
class Matrix:
    """A matrix parameter."""

    name: str
    transposed: bool = False


@dataclass(frozen=True)
class Turned:
    """Rows, transposed."""

    rows: Rows


@dataclass(frozen=True)
class Outer:
    """A sum of products leftᵀ right over the batch: the gradient of a matrix."""

    terms: tuple[tuple[Row, Row], ...]


@dataclass(frozen=True)
class Column:
    """A sum of rows over the batch: the gradient of a vector."""

    row: Row


Symbol = Rows | Matrix | Turned | Outer | Column


class Product(NamedTuple):
    """operand (B, depth) times a matrix parameter, transposed or not: (B, size)."""

    operand: Row
    matrix: str
    transposed: bool
    size: int


@dataclass
class Program:
    """A step and its gradient, as expressions over leaves and products."""

    graph: Graph
    projected: int
    state: tuple[int, ...]
    products: list[Product] = field(default_factory=list)
    following: tuple[Row, ...] = ()
    projected_gradient: Row | None = None
    state_gradient: tuple[Row | None, ...] = ()
    parameter_gradient: dict[str, Outer | Column | None] = field(default_factory=dict)
