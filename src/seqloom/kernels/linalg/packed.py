"""Matrices packed into panels, for products with few rows, where torch reaches only a fifth of the peak speed."""

import ctypes
from functools import cache

import torch
from llvmlite import ir
from torch import Tensor

from seqloom.kernels.linalg import gemm
from seqloom.kernels.llvm import jit_cache
from seqloom.kernels.llvm.ir_builder import Emitter
from seqloom.kernels.runtime import threads
from seqloom.kernels.runtime.buffers import allocate
from seqloom.kernels.runtime.staleness import tensor_version

LLVM_TYPES = {torch.float32: "float", torch.float64: "double"}
MAX_LEFT_SIZE = 1 << 17
"""Elements of the left matrix up to which this is faster than torch: it has to stay in the cache."""
SERIAL_LIMIT = 1 << 20
"""Multiplications below which one thread is faster than several."""


class PackedMatrix:
    """A matrix (depth, columns), packed into panels of columns."""

    def __init__(self, matrix: Tensor) -> None:
        self.depth, self.columns = matrix.shape
        self.real = LLVM_TYPES[matrix.dtype]
        self.panels = gemm.panel_count(self.real, self.columns)
        self.width = self.panels * gemm.panel_width(self.real)
        # In huge pages, because a product with one row reads all of it.
        self.values = allocate(matrix, max(self.depth, 1) * self.width)
        address, strides = self.values.data_ptr(), matrix.stride()
        gemm.python_function(self.real, "pack")(
            matrix.data_ptr(), *strides, self.depth, self.columns, address, 0, self.panels
        )

    def multiply(self, left: Tensor) -> Tensor:  # (rows, depth), each row without gaps → (rows, columns)
        """left · matrix; the rows of the result may be padded."""
        rows = len(left)
        out = left.new_empty(rows, self.width)
        address, stride = left.data_ptr(), left.stride(0)
        parts = 1 if rows * self.depth * self.width < SERIAL_LIMIT else min(threads.count(), self.panels)
        table = (ctypes.c_int64 * 9)(
            address, stride, self.values.data_ptr(), self.depth, out.data_ptr(), self.width, rows, self.panels, parts
        )
        threads.run(_multiply_part(self.real), ctypes.addressof(table), parts)
        return out if self.width == self.columns else out[:, : self.columns]


class PackedCache:
    """The packed form of a matrix, renewed when the matrix has changed."""

    def __init__(self) -> None:
        self._entry: tuple[tuple[int, ...], Tensor, PackedMatrix] | None = None

    def __call__(self, weight: Tensor, *, transposed: bool) -> PackedMatrix:
        now, entry = tensor_version(weight), self._entry
        if entry is None or entry[0] != now:
            matrix = weight.detach()
            # Keeps the matrix alive, so that nothing else gets its address.
            self._entry = entry = (now, matrix, PackedMatrix(matrix.t() if transposed else matrix))
        return entry[2]


@cache
def _multiply_part(real: str) -> int:
    """Address of the function that multiplies one thread's share of the panels."""
    return jit_cache.load(f"packed {real}", lambda: _emit(real), ("share",), multiply=gemm.functions(real).multiply)[0]


def _emit(real: str) -> str:
    module = ir.Module("packed")
    emit = Emitter(module, "share", 4, real)
    table, part = emit.arguments[:2]
    left, stride, right, depth, out, width, rows, panels, parts = (
        emit.load_integer(table, index) for index in range(9)
    )
    first, last = emit.part_range(panels, part, parts)
    emit.call("multiply", left, stride, right, depth, out, width, rows, first, last)
    emit.finish()
    return str(module)
