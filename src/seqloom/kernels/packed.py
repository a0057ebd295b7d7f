"""A matrix kept in panels, for products with few rows: there torch reaches a fifth of the processor's speed."""

import ctypes
from functools import cache

import torch
from llvmlite import ir
from torch import Tensor

from seqloom.kernels import gemm, machine, threads
from seqloom.kernels.buffers import fresh
from seqloom.kernels.emit import Emitter
from seqloom.kernels.marks import mark

REALS = {torch.float32: "float", torch.float64: "double"}
LARGEST = 1 << 17
"""Elements of the left matrix: more do not stay in the cache while panels pass by, and torch's product is as good."""
ALONE = 1 << 20
"""Multiplications that are not worth a second thread."""


class Packed:
    """A matrix (depth, columns) in panels of columns."""

    def __init__(self, matrix: Tensor) -> None:
        self.depth, self.columns = matrix.shape
        self.real = REALS[matrix.dtype]
        self.panels = gemm.panels(self.real, self.columns)
        self.width = self.panels * gemm.panel(self.real)
        self.values = fresh(matrix, max(self.depth, 1) * self.width)  # one row reads all of it: pages count
        place, strides = self.values.data_ptr(), matrix.stride()
        gemm.call(self.real, "pack")(matrix.data_ptr(), *strides, self.depth, self.columns, place, 0, self.panels)

    def multiply(self, left: Tensor) -> Tensor:  # (rows, depth), each row without gaps → (rows, columns)
        """left · matrix; the result may be a part of wider rows."""
        rows = len(left)
        out = left.new_empty(rows, self.width)
        place, stride = left.data_ptr(), left.stride(0)
        parts = 1 if rows * self.depth * self.width < ALONE else min(threads.count(), self.panels)
        table = (ctypes.c_int64 * 9)(
            place, stride, self.values.data_ptr(), self.depth, out.data_ptr(), self.width, rows, self.panels, parts
        )
        threads.run(_share(self.real), ctypes.addressof(table), parts)
        return out if self.width == self.columns else out[:, : self.columns]


class Kept:
    """The packed form of a matrix that is used again and again; packed anew after the matrix has changed."""

    def __init__(self) -> None:
        self._found: tuple[tuple[int, ...], Tensor, Packed] | None = None

    def __call__(self, weight: Tensor, *, transposed: bool) -> Packed:
        now, found = mark(weight), self._found
        if found is None or found[0] != now:
            matrix = weight.detach()
            # The matrix is held: as long as it is, nothing else gets its address.
            self._found = found = (now, matrix, Packed(matrix.t() if transposed else matrix))
        return found[2]


@cache
def _share(real: str) -> int:
    """The address of a function that does one part of a product's panels."""
    return machine.load(f"packed {real}", lambda: _emit(real), ("share",), multiply=gemm.products(real).multiply)[0]


def _emit(real: str) -> str:
    module = ir.Module("packed")
    emit = Emitter(module, "share", 4, real)
    table, part = emit.arguments[:2]
    left, stride, right, depth, out, width, rows, panels, parts = (
        emit.load_integer(table, index) for index in range(9)
    )
    first, last = emit.share(panels, part, parts)
    emit.call("multiply", left, stride, right, depth, out, width, rows, first, last)
    emit.finish()
    return str(module)
