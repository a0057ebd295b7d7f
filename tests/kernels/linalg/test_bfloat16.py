"""Products in bfloat16 against float64 products of the rounded factors, which are exact there."""

import pytest
import torch
from tests.contracts.registry import noise
from torch import Tensor

from seqloom.kernels.linalg import bfloat16, bfloat16_gemm
from seqloom.kernels.linalg.bfloat16 import Bfloat16Matrix, contract
from seqloom.kernels.linalg.bfloat16_gemm import DEPTH_BLOCK, ROW_BLOCK
from seqloom.kernels.llvm import jit_cache

pytestmark = pytest.mark.skipif(bfloat16_gemm.unsupported() is not None, reason="no bfloat16 instructions")
# Less than a vector, whole panels, more than the tallest tile, more than a block in depth and in rows, and neighbours.
SIZES = pytest.mark.parametrize(
    ("rows", "depth", "columns"),
    [
        *((1, 1, 1), (2, 3, 5), (3, 32, 32), (14, 33, 31), (15, 64, 65), (29, 650, 40)),
        *((5, 2 * DEPTH_BLOCK + 1, 33), (ROW_BLOCK + 1, 40, 33), (2, 4 * DEPTH_BLOCK, 3)),
    ],
)


def float_noise(*shape: int, seed: int = 0) -> Tensor:
    return noise(*shape, seed=seed, dtype=torch.float32)


def rounded(matrix: Tensor) -> Tensor:
    """To the nearest bfloat16, by torch."""
    return matrix.bfloat16().double()


def assert_product(actual: Tensor, left: Tensor, right: Tensor) -> None:
    """Sums in float32: each of the n additions errs by at most 2⁻²⁴ of the sum of the absolute products."""
    expected, size = rounded(left) @ rounded(right), rounded(left).abs() @ rounded(right).abs()
    assert ((actual.double() - expected).abs() <= len(right) * 2.0**-24 * size).all()


@SIZES
@pytest.mark.parametrize("layout", ["rows", "columns", "neither"])
def test_multiply(rows: int, depth: int, columns: int, layout: str) -> None:
    left, matrix = float_noise(rows, depth + 3)[:, :depth], float_noise(depth, columns, seed=1)
    if layout == "columns":
        matrix = matrix.t().contiguous().t()
    elif layout == "neither":
        matrix = float_noise(2 * depth, 3 * columns, seed=1)[::2, ::3]
    assert_product(Bfloat16Matrix(matrix).multiply(left), left, matrix)


@SIZES
def test_contract(rows: int, depth: int, columns: int) -> None:
    left, right = float_noise(depth, rows), float_noise(depth, columns, seed=1)
    assert_product(contract(left, right), left.t(), right)
    total = torch.ones(rows, -(-columns // 32) * 32)
    added = contract(left, right, total)
    torch.testing.assert_close(added, contract(left, right) + 1, rtol=1e-6, atol=1e-4)
    assert added.data_ptr() == total.data_ptr()


@pytest.mark.parametrize("shape", [(0, 5, 3), (4, 0, 3), (4, 5, 0)])
def test_empty_matrices(shape: tuple[int, int, int]) -> None:
    rows, depth, columns = shape
    left, matrix = torch.ones(rows, depth), torch.ones(depth, columns)
    assert torch.equal(Bfloat16Matrix(matrix).multiply(left), left @ matrix)
    assert torch.equal(contract(left.t().contiguous(), matrix), left @ matrix)


@pytest.mark.parametrize("threads", [2, 3])
def test_threads_change_no_bit(threads: int) -> None:
    left, matrix = float_noise(300, 301), float_noise(301, 520, seed=1)
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        serial = Bfloat16Matrix(matrix).multiply(left), contract(matrix, left.t().contiguous())
        torch.set_num_threads(threads)
        shared = Bfloat16Matrix(matrix).multiply(left), contract(matrix, left.t().contiguous())
    finally:
        torch.set_num_threads(before)
    assert left.numel() * 520 > bfloat16.SERIAL_LIMIT
    assert all(map(torch.equal, serial, shared))


def test_nan_and_infinity_stay_in_their_row_and_column() -> None:
    left, matrix = float_noise(20, 41), float_noise(41, 50, seed=1)
    clean = Bfloat16Matrix(matrix).multiply(left)
    left[3, 40], left[17, 0] = torch.nan, torch.inf
    out = Bfloat16Matrix(matrix).multiply(left)
    assert out[3].isnan().all()
    assert not out[17].isfinite().any()
    others = [row for row in range(20) if row not in (3, 17)]
    assert torch.equal(out[others], clean[others])
    matrix[40, 49] = torch.nan
    columns = Bfloat16Matrix(matrix).multiply(left)[others]
    assert columns[:, 49].isnan().all()
    assert torch.equal(columns[:, :49], clean[others][:, :49])


def test_rounding_is_to_nearest_even_and_keeps_nan() -> None:
    # 1 + 2⁻⁸ is halfway between 1 and 1 + 2⁻⁷, 1 + 3·2⁻⁸ halfway between odd and even.
    values = torch.tensor([1 + 2.0**-8, 1 + 3 * 2.0**-8, -1 - 2.0**-8, 3.4e38, 1e-20, torch.nan, -torch.inf])
    out = Bfloat16Matrix(torch.ones(1, 1)).multiply(values.unsqueeze(1)).squeeze(1)
    assert torch.equal(out.nan_to_num(7.0), values.bfloat16().float().nan_to_num(7.0))


def test_a_processor_without_the_instructions_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jit_cache, "has_cpu_feature", lambda _: False)
    assert "AVX512_BF16" in str(bfloat16_gemm.unsupported())
