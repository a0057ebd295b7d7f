import ctypes

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from tests.contracts.registry import noise
from torch import Tensor

from seqloom.kernels.linalg import gemm
from seqloom.kernels.linalg.packed import pack
from seqloom.kernels.llvm import jit_cache

LLVM_TYPES = {"float": torch.float32, "double": torch.float64}
EVERY_TYPE = pytest.mark.parametrize("real", LLVM_TYPES)
# Less than a vector, whole vectors and panels, more than the tallest tile, and sizes next to these.
SIZES = pytest.mark.parametrize(
    ("rows", "depth", "columns"),
    [(1, 1, 1), (2, 3, 5), (1, 7, 33), (3, 16, 16), (13, 17, 31), (14, 64, 32), (15, 9, 65), (29, 37, 40)],
)


def call(real: str, name: str, *arguments: int | Tensor) -> None:
    address = getattr(gemm.functions(real), name)
    values = [value.data_ptr() if isinstance(value, Tensor) else value for value in arguments]
    jit_cache.c_function(address, *[ctypes.c_int64] * len(values))(*values)


def matrix(real: str, *shape: int, seed: int = 0) -> Tensor:
    return noise(*shape, seed=seed, dtype=LLVM_TYPES[real])


def packed(real: str, right: Tensor) -> Tensor:
    panels = gemm.panel_count(real, right.shape[1])
    actual = torch.full((panels, right.shape[0], gemm.panel_width(real)), torch.nan, dtype=right.dtype)
    pack(right, actual)
    return actual


def product(left: Tensor, right: Tensor) -> NDArray[np.float64]:
    actual: NDArray[np.float64] = left.double().numpy() @ right.double().numpy()
    return actual


def assert_close(actual: Tensor, expected: NDArray[np.float64]) -> None:
    """A sum of n products of numbers near 1 errs by at most n roundings of its partial sums; n < 100 here."""
    tolerance = 100 * torch.finfo(actual.dtype).eps
    np.testing.assert_allclose(actual.double().numpy(), expected, rtol=0, atol=tolerance)


def check_pack(real: str, rows: int, depth: int, columns: int, layout: str) -> None:
    right = matrix(real, depth, columns)
    if layout == "columns":
        right = right.t().contiguous().t()
    elif layout == "neither":
        right = matrix(real, 2 * depth, 3 * columns)[::2, ::3]
    width = gemm.panel_width(real)
    expected = torch.zeros(depth, width * gemm.panel_count(real, columns), dtype=right.dtype)
    expected[:, :columns] = right
    assert torch.equal(packed(real, right), torch.stack(expected.split(width, dim=1)))


@EVERY_TYPE
@SIZES
@pytest.mark.parametrize("layout", ["rows", "columns", "neither"])
def test_pack(real: str, rows: int, depth: int, columns: int, layout: str) -> None:
    check_pack(real, rows, depth, columns, layout)


def check_multiply(real: str, rows: int, depth: int, columns: int) -> None:
    left, right = matrix(real, rows, depth + 3, seed=1), matrix(real, depth, columns, seed=2)
    panels = gemm.panel_count(real, columns)
    stride = panels * gemm.panel_width(real) + 5
    out = torch.full((rows, stride), torch.nan, dtype=left.dtype)
    call(real, "multiply", left, depth + 3, packed(real, right), depth, out, stride, rows, 0, panels)
    assert_close(out[:, :columns], product(left[:, :depth], right))
    assert out[:, -5:].isnan().all()


@EVERY_TYPE
@SIZES
def test_multiply(real: str, rows: int, depth: int, columns: int) -> None:
    check_multiply(real, rows, depth, columns)


@EVERY_TYPE
def test_multiply_writes_only_its_own_panels(real: str) -> None:
    width = gemm.panel_width(real)
    left, right = matrix(real, 4, 6), matrix(real, 6, 3 * width, seed=1)
    out = torch.full((4, 3 * width), torch.nan, dtype=left.dtype)
    call(real, "multiply", left, 6, packed(real, right), 6, out, 3 * width, 4, 1, 2)
    assert_close(out[:, width : 2 * width], product(left, right[:, width : 2 * width]))
    assert out[:, :width].isnan().all()
    assert out[:, 2 * width :].isnan().all()


def check_contract(real: str, rows: int, depth: int, columns: int) -> None:
    left, right = matrix(real, depth, rows + 2, seed=1), matrix(real, depth, columns, seed=2)
    panels = gemm.panel_count(real, columns)
    stride = panels * gemm.panel_width(real)
    out = matrix(real, rows, stride, seed=3)
    expected = out[:, :columns].double().numpy() + product(left[:, :rows].t(), right)
    call(real, "contract", left, rows + 2, packed(real, right), depth, out, stride, rows, panels)
    assert_close(out[:, :columns], expected)


@EVERY_TYPE
@SIZES
def test_contract(real: str, rows: int, depth: int, columns: int) -> None:
    check_contract(real, rows, depth, columns)


def check_dot(real: str, rows: int, depth: int, columns: int, *, order: int) -> None:
    left, right = matrix(real, rows, depth + 1, seed=1), matrix(real, columns, depth, seed=2)
    out = torch.full((rows, columns + 4), torch.nan, dtype=left.dtype)
    call(real, "dot", left, depth + 1, right, depth, out, columns + 4, rows, columns, order)
    assert_close(out[:, :columns], product(left[:, :depth], right.t()))
    assert out[:, columns:].isnan().all()


@EVERY_TYPE
@SIZES
@pytest.mark.parametrize("order", [gemm.STREAMED, gemm.CACHED, gemm.CACHED_BACKWARDS])
def test_dot(real: str, rows: int, depth: int, columns: int, order: int) -> None:
    check_dot(real, rows, depth, columns, order=order)


@EVERY_TYPE
@pytest.mark.parametrize(("rows", "depth"), [(0, 4), (3, 0)])
def test_no_rows_or_zero_depth(real: str, rows: int, depth: int) -> None:
    left, right = matrix(real, 3, 4), matrix(real, 4, 5)
    width = gemm.panel_width(real)
    out = torch.full((3, width), 7.0, dtype=left.dtype)
    call(real, "multiply", left, 4, packed(real, right), depth, out, width, rows, 0, 1)
    assert torch.equal(out[rows:], torch.full_like(out[rows:], 7))
    assert torch.equal(out[:rows], torch.zeros_like(out[:rows]))
