"""Products of float32 matrices in bfloat16: their factors are rounded, their sums are not."""

import ctypes
from functools import cache
from typing import NamedTuple

import torch
from llvmlite import ir
from torch import Tensor

from seqloom.kernels.linalg import bfloat16_gemm
from seqloom.kernels.linalg.bfloat16_packing import LINE, WIDTH, packed_words, row_bytes
from seqloom.kernels.llvm import jit_cache
from seqloom.kernels.llvm.ir_builder import Emitter, Value
from seqloom.kernels.runtime import threads
from seqloom.kernels.runtime.buffers import Loan, allocate

SERIAL_LIMIT = 1 << 22
"""Multiplications below which one thread is faster than several."""
SERIAL_ELEMENTS = 1 << 16
"""Numbers below which one thread rounds faster than several."""


class Bfloat16Matrix:
    """A matrix (depth, columns), rounded and packed into panels of columns: multiplies rows of floats."""

    def __init__(self, matrix: Tensor) -> None:
        self.depth, self.columns = matrix.shape
        self.width = -(-self.columns // WIDTH) * WIDTH
        self.values = allocate(_WORDS, max(packed_words(*matrix.shape), 1))
        pack(matrix, self.values)

    def multiply(self, left: Tensor, out: Tensor | None = None) -> Tensor:  # (rows, depth) → (rows, columns)
        """left · matrix. Rows of the result, in ``out`` if given (rows, width), may be padded."""
        rows = len(left)
        out = left.new_empty(rows, self.width) if out is None else out
        if not rows * self.depth:
            return out[:, : self.columns].zero_()
        left = left if left.stride(1) == 1 else left.contiguous()
        stride, panels = row_bytes(self.depth), self.width // WIDTH
        functions = _functions()
        with Loan() as loan:
            rounded = _aligned(loan.borrow(rows * stride // 4 + 16, _WORDS))
            parts = _parts(rows * self.depth, rows, SERIAL_ELEMENTS)
            _run(functions.round_rows, parts, left.data_ptr(), left.stride(0), self.depth, rows, rounded, stride)
            values = self.values.data_ptr(), self.depth, out.data_ptr(), out.stride(0), rows, panels
            parts = _parts(rows * self.depth * self.width, panels, SERIAL_LIMIT)
            _run(functions.multiply_bfloat16, parts, rounded, stride, *values)
        return out if self.width == self.columns else out[:, : self.columns]


def pack(matrix: Tensor, packed: Tensor) -> None:
    """Round and pack a matrix (depth, columns) of contiguous rows or columns."""
    if 1 not in matrix.stride():
        matrix = matrix.contiguous()
    by_rows = matrix.stride(1) == 1
    functions, panels = _functions(), -(-matrix.shape[1] // WIDTH)
    address = functions.pack_rows if by_rows else functions.pack_columns
    stride = matrix.stride(0 if by_rows else 1)
    parts = _parts(matrix.numel(), panels, SERIAL_ELEMENTS)
    _run(address, parts, matrix.data_ptr(), stride, *matrix.shape, packed.data_ptr(), panels)


def contract(left: Tensor, right: Tensor, out: Tensor | None = None) -> Tensor:  # (N, R) and (N, C) → (R, C)
    """leftᵀ · right, added to ``out`` if given (R, C padded to whole panels). Rows of the result may be padded."""
    (depth, rows), columns = left.shape, right.shape[1]
    panels = -(-columns // WIDTH)
    total = left.new_empty(rows, panels * WIDTH) if out is None else out
    if not depth:
        return total[:, :columns].zero_() if out is None else total[:, :columns]
    with Loan() as loan:
        sides = []
        for matrix in (left, right):
            packed = loan.borrow(packed_words(*matrix.shape), _WORDS)
            pack(matrix, packed)
            sides.append(packed.data_ptr())
        count = -(-rows // WIDTH)
        parts = _parts(depth * rows * columns, count, SERIAL_LIMIT)
        values = depth, total.data_ptr(), total.stride(0), rows, count, panels, int(out is not None)
        _run(_functions().contract_bfloat16, parts, *sides, *values)
    return total if total.shape[1] == columns else total[:, :columns]


_WORDS = torch.empty(0, dtype=torch.int32)


def _aligned(words: Tensor) -> int:
    """The address of the first line."""
    return -(-words.data_ptr() // LINE) * LINE


def _parts(work: int, items: int, limit: int) -> int:
    return 1 if work < limit else max(1, min(threads.count(), items))


def _run(address: int, parts: int, *values: int) -> None:
    table = (ctypes.c_int64 * (len(values) + 1))(*values, parts)
    threads.run(address, ctypes.addressof(table), parts)


class _Parts(NamedTuple):
    """Addresses of the functions that compute one thread's share."""

    round_rows: int
    pack_rows: int
    pack_columns: int
    multiply_bfloat16: int
    contract_bfloat16: int


@cache
def _functions() -> _Parts:
    symbols = {f"all_{name}": address for name, address in bfloat16_gemm.functions()._asdict().items()}
    return _Parts(*jit_cache.load("bfloat16 parts", _emit, _Parts._fields, **symbols))


def _emit() -> str:
    module = ir.Module("bfloat16_parts")

    def part(name: str, count: int, split: int) -> tuple[Emitter, list[Value], tuple[Value, Value]]:
        """A function whose argument ``split`` is a number of items that the threads share."""
        emit = Emitter(module, name, 4, "float")
        table, number = emit.arguments[:2]
        *values, parts = (emit.load_integer(table, index) for index in range(count + 1))
        return emit, values, emit.part_range(values[split], number, parts)

    emit, (left, stride, depth, _, out, out_stride), (first, last) = part("round_rows", 6, 3)
    source = emit.advance(left, emit.builder.mul(first, stride))
    target = emit.builder.add(out, emit.builder.mul(first, out_stride))
    emit.call("all_round_rows", source, stride, depth, emit.builder.sub(last, first), target, out_stride)
    emit.finish()
    for name, count, split in (("pack_rows", 6, 5), ("pack_columns", 6, 5), ("multiply_bfloat16", 8, 7)):
        emit, values, share = part(name, count, split)
        emit.call(f"all_{name}", *values[:split], *share)
        emit.finish()
    emit, values, share = part("contract_bfloat16", 9, 6)
    emit.call("all_contract_bfloat16", *values[:6], *share, *values[7:])
    emit.finish()
    return str(module)
