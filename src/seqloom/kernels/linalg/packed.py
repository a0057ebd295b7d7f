"""Matrices packed into panels, for products with few rows, where torch reaches only a fifth of the peak speed."""

import ctypes
from collections.abc import Callable
from functools import cache
from typing import Generic, TypeVar

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
Packed = TypeVar("Packed")
MAX_LEFT_SIZE = 1 << 17
"""Elements of the left matrix up to which this is faster than torch: it has to stay in the cache."""
SERIAL_LIMIT = 1 << 20
"""Multiplications below which one thread is faster than several."""


def packed_size(matrix: Tensor) -> int:
    """Elements of a matrix (depth, columns) after packing."""
    real = LLVM_TYPES[matrix.dtype]
    return matrix.shape[0] * gemm.panel_count(real, matrix.shape[1]) * gemm.panel_width(real)


def pack(matrix: Tensor, packed: Tensor) -> None:
    """Pack a matrix (depth, columns) into panels of columns."""
    real, (depth, columns) = LLVM_TYPES[matrix.dtype], matrix.shape
    panels = gemm.panel_count(real, columns)
    gemm.python_function(real, "pack")(
        matrix.data_ptr(), *matrix.stride(), depth, columns, packed.data_ptr(), 0, panels
    )


class PackedMatrix:
    """A matrix (depth, columns), packed into panels of columns."""

    def __init__(self, matrix: Tensor) -> None:
        self.depth, self.columns = matrix.shape
        self.real = LLVM_TYPES[matrix.dtype]
        self.panels = gemm.panel_count(self.real, self.columns)
        self.width = self.panels * gemm.panel_width(self.real)
        # In huge pages, because a product with one row reads all of it.
        self.values = allocate(matrix, max(packed_size(matrix), 1))
        pack(matrix, self.values)

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


def pack_transposed(weight: Tensor) -> PackedMatrix:
    """The packed transpose of a matrix."""
    return PackedMatrix(weight.t())


class PackedCache(Generic[Packed]):
    """The packed form of a matrix, renewed when the matrix has changed."""

    def __init__(self, pack: Callable[[Tensor], Packed]) -> None:
        self._pack = pack
        self._entry: tuple[tuple[object, ...], Tensor, Packed] | None = None

    def __call__(self, weight: Tensor, *, verify: bool = False) -> Packed:
        """The packed matrix. ``verify`` compares its values, too: a change of ``weight.data`` has no new version."""
        values = fingerprint(weight) if verify else b""
        now, entry = (*tensor_version(weight), values), self._entry
        if entry is None or entry[0] != now:
            matrix = weight.detach()
            # Keeps the matrix alive, so that nothing else gets its address.
            self._entry = entry = (now, matrix, self._pack(matrix))
        return entry[2]


# Each of 64 lanes hashes every 64th 32-bit word, as MurmurHash3 does; the last lane hashes the rest.
_FINGERPRINT = """
define void @fingerprint(i64 %address, i64 %words, i64 %result) {
entry:
  %data = inttoptr i64 %address to ptr
  %out = inttoptr i64 %result to ptr
  %whole = and i64 %words, -64
  br label %next
next:
  %index = phi i64 [ 0, %entry ], [ %following, %block ]
LANES_PHI
  %more = icmp ult i64 %index, %whole
  br i1 %more, label %block, label %finish
block:
  %following = add i64 %index, 64
LANES_BODY
  br label %next
finish:
LANES_STORE
  br label %rest
rest:
  %position = phi i64 [ %whole, %finish ], [ %after, %word ]
  %sum = phi i32 [ 1, %finish ], [ %updated, %word ]
  %left = icmp ult i64 %position, %words
  br i1 %left, label %word, label %done
word:
  %after = add i64 %position, 1
  %word_at = getelementptr i32, ptr %data, i64 %position
  %value = load i32, ptr %word_at, align 4
  %mixed = xor i32 %sum, %value
  %high = shl i32 %mixed, 13
  %low = lshr i32 %mixed, 19
  %rotated = or i32 %high, %low
  %updated = mul i32 %rotated, 2654435761
  br label %rest
done:
  %sum_at = getelementptr i32, ptr %out, i64 64
  store i32 %sum, ptr %sum_at, align 4
  ret void
}
"""


def _fingerprint_module() -> str:
    def splat(value: int) -> str:
        return f"<{', '.join([f'i32 {value}'] * 16)}>"

    lanes = range(4)
    start = "\n".join(
        f"  %sum{lane} = phi <16 x i32> [ {splat(1 + lane)}, %entry ], [ %updated{lane}, %block ]" for lane in lanes
    )
    body = "\n".join(
        f"""  %index{lane} = add i64 %index, {16 * lane}
  %at{lane} = getelementptr i32, ptr %data, i64 %index{lane}
  %value{lane} = load <16 x i32>, ptr %at{lane}, align 4
  %mixed{lane} = xor <16 x i32> %sum{lane}, %value{lane}
  %high{lane} = shl <16 x i32> %mixed{lane}, {splat(13)}
  %low{lane} = lshr <16 x i32> %mixed{lane}, {splat(19)}
  %rotated{lane} = or <16 x i32> %high{lane}, %low{lane}
  %updated{lane} = mul <16 x i32> %rotated{lane}, {splat(2654435761)}"""
        for lane in lanes
    )
    store = "\n".join(
        f"""  %out{lane} = getelementptr i32, ptr %out, i64 {16 * lane}
  store <16 x i32> %sum{lane}, ptr %out{lane}, align 4"""
        for lane in lanes
    )
    return _FINGERPRINT.replace("LANES_PHI", start).replace("LANES_BODY", body).replace("LANES_STORE", store)


def fingerprint(tensor: Tensor) -> bytes:
    """A hash of the values of a contiguous tensor, at the speed at which they are read."""
    result = (ctypes.c_int32 * 65)()
    words = tensor.numel() * tensor.element_size() // 4
    _fingerprint()(tensor.data_ptr(), words, ctypes.addressof(result))
    return bytes(result)


@cache
def _fingerprint() -> Callable[..., None]:
    (address,) = jit_cache.load("fingerprint", _fingerprint_module, ("fingerprint",))
    return jit_cache.c_function(address, *[ctypes.c_int64] * 3)


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
