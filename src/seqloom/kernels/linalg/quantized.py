"""Matrices in int8: each row of weights has its own scale, and products are sums of integers.

The rounded weights, integers times scales, are exact floats, and rounding them again changes nothing. A quantized
matrix therefore needs no type of its own: it is a float matrix of such numbers, from which kernels take the integers.
"""

import ctypes
from functools import cache
from typing import NamedTuple

import torch
from llvmlite import ir
from torch import Tensor

from seqloom.kernels.linalg import gemm, quantized_gemm
from seqloom.kernels.linalg.quantized_gemm import GROUP, LIMIT, MAX_DEPTH, SMALLEST, Instructions, instructions
from seqloom.kernels.llvm import jit_cache
from seqloom.kernels.llvm.ir_builder import Emitter
from seqloom.kernels.runtime import threads
from seqloom.kernels.runtime.buffers import allocate, borrow

SERIAL_LIMIT = 1 << 22
"""Multiplications below which one thread is faster than several."""
SCALE_BITS = 7
"""Last bits of a scale, which are zero, so that an integer times the scale is exact."""


class QuantizedWeight(NamedTuple):
    """A matrix (N, K) as integers times scales."""

    integers: Tensor  # (N, K), int8, from −127 to 127
    scales: Tensor  # (N,), float32

    def dequantize(self) -> Tensor:  # (N, K), float32
        """The rounded matrix."""
        return self.integers.float() * self.scales.unsqueeze(1)


def quantize_weight(weight: Tensor) -> QuantizedWeight:  # (N, K), float32
    """Round each row of a matrix to integers; the largest absolute value of a row becomes 127."""
    largest = weight.detach().abs().amax(dim=1) if weight.shape[1] else weight.new_zeros(len(weight))
    step = 1 << SCALE_BITS
    rounded_up = (((largest / LIMIT).view(torch.int32) + (step - 1)) // step * step).view(torch.float32)
    scales = torch.where(largest > SMALLEST, rounded_up, 0 * largest)  # NaN and infinity stay
    divisors = torch.where(scales > 0, scales, 1)
    integers = (weight.detach() / divisors.unsqueeze(1)).round().clamp(-LIMIT, LIMIT)
    return QuantizedWeight(integers.nan_to_num(0.0).to(torch.int8), scales)


class QuantizedMatrix:
    """A weight (columns, depth), rounded and packed into panels of columns: multiplies rows of floats."""

    def __init__(self, weight: Tensor, kind: Instructions | None = None) -> None:
        if weight.dtype != torch.float32 or weight.shape[1] > MAX_DEPTH:
            raise ValueError(f"expected float32 with at most {MAX_DEPTH:,} columns, got {weight.dtype} {weight.shape}")
        self.kind = kind or instructions()
        self.columns, self.depth = weight.shape
        self.panels = gemm.panel_count("float", self.columns)
        self.width = self.panels * gemm.panel_width("float")
        integers, scales = quantize_weight(weight)
        self.values = allocate(integers, max(self.panels * quantized_gemm.panel_bytes(self.depth), 1))
        _pack(integers, scales, self.kind.offset, self.values)

    def multiply(self, left: Tensor) -> Tensor:  # (rows, depth), each row without gaps → (rows, columns)
        """left · weightᵀ, with each row of the left side rounded to integers; rows of the result may be padded."""
        rows, stride = len(left), self.kind.row_bytes(self.depth)
        out = left.new_empty(rows, self.width)
        work = rows * self.depth * self.width
        parts = 1 if work < SERIAL_LIMIT else max(1, min(threads.count(), self.panels))
        functions = _functions(self.kind)
        with borrow(rows * stride, self.values) as integers:
            address = integers.data_ptr()
            table = (ctypes.c_int64 * 11)(
                *(left.data_ptr(), left.stride(0), rows, address, stride, self.values.data_ptr(), self.depth),
                *(out.data_ptr(), self.width, self.panels, parts),
            )
            threads.function(functions[0])(ctypes.addressof(table), 0, 0, 1)
            threads.run(functions[1], ctypes.addressof(table), parts)
        return out if self.width == self.columns else out[:, : self.columns]


def _pack(integers: Tensor, scales: Tensor, offset: int, packed: Tensor) -> None:
    """Write the panels of a quantized matrix (columns, depth)."""
    width, (columns, depth) = gemm.panel_width("float"), integers.shape
    panels, groups = gemm.panel_count("float", columns), -(-depth // GROUP)
    padded = integers.new_zeros(panels * width, groups * GROUP)
    padded[:columns, :depth] = integers
    padded_scales = scales.new_zeros(panels * width)
    padded_scales[:columns] = scales
    starts = (-offset * padded.sum(dim=1, dtype=torch.int64)).to(torch.int32)
    grouped = padded.view(panels, width, groups, GROUP).transpose(1, 2).reshape(panels, -1)
    parts = (starts.view(panels, width).view(torch.int8), padded_scales.view(panels, width).view(torch.int8), grouped)
    torch.cat(parts, dim=1, out=packed[: panels * quantized_gemm.panel_bytes(depth)].view(panels, -1))


@cache
def _functions(kind: Instructions) -> tuple[int, ...]:
    """Addresses of the functions that quantize the left side, and that multiply one thread's share of the panels."""
    symbols = quantized_gemm.functions(kind)._asdict()
    return jit_cache.load(f"quantized matrix {kind}", _emit, ("prepare", "share"), **symbols)


def _emit() -> str:
    module = ir.Module("quantized_matrix")
    for name in ("prepare", "share"):
        emit = Emitter(module, name, 4, "float")
        table, part = emit.arguments[:2]
        left, left_stride, rows, integers, stride, right, depth, out, width, panels, parts = (
            emit.load_integer(table, index) for index in range(11)
        )
        if name == "prepare":
            emit.call("quantize", left, left_stride, depth, rows, integers, stride)
        else:
            first, last = emit.part_range(panels, part, parts)
            emit.call("multiply_quantized", integers, stride, right, depth, out, width, rows, first, last)
        emit.finish()
    return str(module)
