"""The product of quantized.py without packing or vectors: its truth, equal to it in every bit."""

import torch
from torch import Tensor

from seqloom.kernels.linalg.quantized import quantize_weight
from seqloom.kernels.linalg.quantized_gemm import LIMIT, SMALLEST


def quantize_rows(x: Tensor) -> tuple[Tensor, Tensor]:  # (R, K) → integers (R, K), scales (R,)
    """Round each row by itself; its largest absolute value becomes 127."""
    largest = x.abs().amax(dim=1)
    factors = torch.where(largest > SMALLEST, LIMIT / largest, 0)
    return (x * factors.unsqueeze(1)).round().to(torch.int64), largest / LIMIT


def multiply(left: Tensor, weight: Tensor) -> Tensor:  # (R, K) and (N, K), float32 → (R, N)
    """left · weightᵀ as sums of integers, times the scales of the columns and of the rows."""
    rows, row_scales = quantize_rows(left)
    columns, column_scales = quantize_weight(weight)
    sums = rows @ columns.to(torch.int64).t()
    return sums.float() * column_scales * row_scales.unsqueeze(1)
