"""Symbolic rules of ATen operators on tensors of more than two dimensions: small products for each row of the batch."""

from collections.abc import Sequence
from itertools import pairwise
from math import prod
from typing import Any, NamedTuple

import torch
from torch import Tensor

from seqloom.kernels.fuse.expression import Row, Segment, row_width
from seqloom.kernels.fuse.symbols import BatchRows, Contraction, StridedRows, TracedStep, Unfusable

Sizes = tuple[int, ...]


class Loop(NamedTuple):
    """One index of a contraction: its size, and its stride in both sides."""

    size: int
    left: int
    right: int


def contiguous(sizes: Sequence[int]) -> Sizes:
    """The strides of a row-major layout; zero along dimensions of size 1."""
    return tuple(0 if size == 1 else prod(sizes[index + 1 :]) for index, size in enumerate(sizes))


def materialize(traced: TracedStep, strided: StridedRows) -> BatchRows:
    """The rows of a strided view, copied unless they are in order already."""
    if strided.strides == contiguous(strided.sizes) and prod(strided.sizes) == row_width(strided.rows.row):
        return strided.rows
    loops = [Loop(size, stride, 0) for size, stride in zip(strided.sizes, strided.strides, strict=True)]
    return contract(traced, strided.rows.row, None, loops, [])


def contract(traced: TracedStep, left: Row, right: Row | None, outputs: list[Loop], summed: list[Loop]) -> BatchRows:
    """Σ left · right over the ``summed`` indices, for each of the ``outputs``."""
    outputs, summed = _merged(outputs), _merged(summed)
    loops = [*outputs, *summed]
    contraction = Contraction(
        operand=(*left, *(right or ())),
        sizes=tuple(loop.size for loop in loops),
        left=tuple(loop.left for loop in loops),
        right=None if right is None else tuple(loop.right for loop in loops),
        right_start=row_width(left),
        summed=len(summed),
    )
    if contraction not in traced.products:
        traced.products.append(contraction)
    node = traced.graph.leaf("product", traced.products.index(contraction), width=contraction.size)
    return BatchRows((Segment(node, contraction.size),))


def _merged(loops: list[Loop]) -> list[Loop]:
    """The same loops, without those of one iteration, and adjacent ones as one where the strides allow it."""
    loops = [loop for loop in loops if loop.size > 1]
    for index, (outer, inner) in enumerate(pairwise(loops)):
        if (outer.left, outer.right) == (inner.left * inner.size, inner.right * inner.size):
            joined = Loop(outer.size * inner.size, inner.left, inner.right)
            return _merged([*loops[:index], joined, *loops[index + 2 :]])
    return loops


def row_sizes(shape: Sequence[int], batch: int) -> Sizes:
    """The shape of one row of the batch: the first dimension may hold several parts of each row."""
    if shape[0] % batch:
        raise Unfusable("a tensor whose first dimension is not that of the batch")
    return (shape[0] // batch, *shape[1:])


def view(symbol: BatchRows | StridedRows, shape: Sequence[int], batch: int) -> StridedRows:
    """A symbol as a strided view of the shape of its tensor."""
    if isinstance(symbol, StridedRows):
        return symbol
    if symbol.uniform:
        is_expanded = len(shape) > 1 and shape[0] == batch
        sizes: Sizes = (1, *shape[1:]) if is_expanded else (1, *shape)
    else:
        sizes = row_sizes(shape, batch)
    width = row_width(symbol.row)
    if width not in (1, prod(sizes)):
        raise Unfusable("a view of a part of a row")
    return StridedRows(symbol, sizes, contiguous(sizes) if width > 1 else (0,) * len(sizes))


def expand(strided: StridedRows, shape: Sequence[int], batch: int) -> StridedRows:
    """Broadcast a view to the shape of a tensor."""
    sizes = row_sizes(shape, batch)
    missing = len(sizes) - len(strided.sizes)
    if missing < 0 or (missing and not strided.rows.uniform):
        raise Unfusable("a row that is broadcast over the batch")
    own = (1,) * missing + strided.sizes
    if any(before not in (1, after) for before, after in zip(own, sizes, strict=True)):
        raise Unfusable("a tensor that is broadcast to another shape")
    strides = (0,) * missing + strided.strides
    return StridedRows(
        strided.rows,
        sizes,
        tuple(0 if size == 1 else stride for size, stride in zip(own, strides, strict=True)),
    )


def permute(strided: StridedRows, dimensions: Sequence[int]) -> StridedRows:
    """Reorder the dimensions, of which the first must stay."""
    if dimensions[0] != 0:
        raise Unfusable("a transposition of the batch")
    return StridedRows(
        strided.rows,
        tuple(strided.sizes[dimension] for dimension in dimensions),
        tuple(strided.strides[dimension] for dimension in dimensions),
    )


def multiply(traced: TracedStep, left: StridedRows, right: StridedRows) -> BatchRows:
    """The elementwise product of two views of one shape."""
    if left.rows.uniform and right.rows.uniform:
        raise Unfusable("a product of parameters")
    loops = [Loop(*sizes) for sizes in zip(left.sizes, left.strides, right.strides, strict=True)]
    return contract(traced, left.rows.row, right.rows.row, loops, [])


def multiply_matrices(traced: TracedStep, left: StridedRows, right: StridedRows) -> BatchRows:
    """(n, i, k) · (n, k, j) → (n, i, j)."""
    if left.rows.uniform or right.rows.uniform:
        raise Unfusable("a product of a matrix parameter and a matrix")
    (count, rows, depth), columns = left.sizes, right.sizes[2]
    (a, b, c), (d, e, f) = left.strides, right.strides
    outputs = [Loop(count, a, d), Loop(rows, b, 0), Loop(columns, 0, f)]
    return contract(traced, left.rows.row, right.rows.row, outputs, [Loop(depth, c, e)])


def add_up(traced: TracedStep, strided: StridedRows, axes: set[int]) -> BatchRows:
    """The sum over some dimensions."""
    loops = [Loop(size, stride, 0) for size, stride in zip(strided.sizes, strided.strides, strict=True)]
    outputs = [loop for axis, loop in enumerate(loops) if axis not in axes]
    # A stride of zero along the sum is still one term for each element.
    return contract(traced, strided.rows.row, None, outputs, [loop for axis, loop in enumerate(loops) if axis in axes])


def permutation(x: Tensor, name: str, arguments: tuple[Any, ...]) -> list[int]:
    """The order of dimensions of t, transpose or permute."""
    if name == "permute":
        return [dimension % x.dim() for dimension in arguments[0]]
    order = list(range(x.dim()))
    first, second = (0, 1) if name == "t" else (dimension % x.dim() for dimension in arguments)
    order[first], order[second] = order[second], order[first]
    return order


def is_broadcast(value: Any, result: Any) -> bool:
    """Whether a tensor is repeated along a dimension, other than as one number, to the shape of a result."""
    if not isinstance(value, Tensor) or not isinstance(result, Tensor) or result.dim() <= 2:
        return False
    shape = torch.Size([1] * (result.dim() - value.dim()) + list(value.shape))
    return shape != result.shape
