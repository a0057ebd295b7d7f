"""Blocked products against torch."""

import pytest
import torch
from tests.contracts.registry import noise

from seqloom.kernels.linalg import gemm, large_products
from seqloom.kernels.linalg.large_products import COLUMN_TILES, DEPTH_BLOCK, ROW_BLOCK, contract, multiply
from seqloom.kernels.runtime import threads

# Less than a vector, whole panels, more than the tallest tile, more than a block in depth and in rows, and neighbours.
SIZES = pytest.mark.parametrize(
    ("rows", "depth", "columns"),
    [
        *((1, 1, 1), (2, 3, 5), (3, 32, 32), (14, 33, 31), (29, 70, 65), (COLUMN_TILES * gemm.tile_rows() + 1, 5, 40)),
        *((5, 2 * DEPTH_BLOCK + 1, 33), (ROW_BLOCK + 1, 40, 33), (40, 9, 300)),
    ],
)
DTYPES = pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
THREADS = pytest.mark.parametrize("threads", [1, 3])


@pytest.fixture(autouse=True)
def use_all_threads(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    monkeypatch.setattr(large_products, "SERIAL_LIMIT", 1)
    count = request.node.callspec.params.get("threads", 1)
    monkeypatch.setattr(threads, "count", lambda: count)


@SIZES
@DTYPES
@THREADS
@pytest.mark.parametrize("layout", ["rows", "columns", "neither"])
def test_multiply(rows: int, depth: int, columns: int, dtype: torch.dtype, threads: int, layout: str) -> None:
    left, matrix = noise(rows, depth + 3, dtype=dtype)[:, :depth], noise(depth, columns, seed=1, dtype=dtype)
    if layout == "columns":
        matrix = matrix.t().contiguous().t()
    elif layout == "neither":
        matrix = noise(2 * depth, 3 * columns, seed=1, dtype=dtype)[::2, ::3]
    whole = torch.full((rows, columns + 2), 7.0, dtype=dtype)
    out = whole[:, :columns]
    assert multiply(left, matrix, out) is out
    # The same sums in another order.
    torch.testing.assert_close(out, left @ matrix, rtol=1e-5, atol=1e-4 if dtype == torch.float32 else 1e-12)
    assert (whole[:, columns:] == 7).all()


@SIZES
@DTYPES
@THREADS
def test_contract(rows: int, depth: int, columns: int, dtype: torch.dtype, threads: int) -> None:
    left, right = noise(depth, rows + 1, dtype=dtype)[:, :rows], noise(depth, columns, seed=1, dtype=dtype)
    whole = torch.full((rows, columns + 2), 7.0, dtype=dtype)
    out = whole[:, :columns]
    contract(left, right, out)
    expected, atol = left.t() @ right, 1e-4 if dtype == torch.float32 else 1e-12
    torch.testing.assert_close(out, expected, rtol=1e-5, atol=atol)
    contract(left, right, out, add=True)
    torch.testing.assert_close(out, 2 * expected, rtol=1e-5, atol=atol)
    assert (whole[:, columns:] == 7).all()


@pytest.mark.parametrize("shape", [(0, 5, 3), (4, 0, 3), (4, 5, 0)])
def test_empty(shape: tuple[int, int, int]) -> None:
    rows, depth, columns = shape
    out = torch.ones(rows, columns)
    assert not multiply(torch.ones(rows, depth), torch.ones(depth, columns), out).any()
    total = torch.ones(rows, columns)
    assert contract(torch.ones(depth, rows), torch.ones(depth, columns), total, add=True).eq(1 + depth).all()
    assert contract(torch.ones(depth, rows), torch.ones(depth, columns), total).eq(depth).all()
