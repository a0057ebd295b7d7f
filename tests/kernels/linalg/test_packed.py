"""Products with packed matrices against NumPy."""

import numpy as np
import pytest
import torch
from tests.contracts.registry import noise

from seqloom.kernels.linalg.packed import SERIAL_LIMIT, PackedMatrix

TYPES = pytest.mark.parametrize("dtype", [torch.float32, torch.float64])


@TYPES
@pytest.mark.parametrize(("rows", "depth", "columns"), [(1, 1, 1), (2, 7, 33), (15, 64, 32), (40, 9, 100)])
def test_a_product_equals_that_of_numpy(dtype: torch.dtype, rows: int, depth: int, columns: int) -> None:
    left, right = noise(rows, depth, dtype=dtype), noise(columns, depth, seed=1, dtype=dtype).t()
    actual = PackedMatrix(right).multiply(left).double().numpy()
    expected = left.double().numpy() @ right.double().numpy()
    np.testing.assert_allclose(actual, expected, rtol=0, atol=100 * torch.finfo(dtype).eps)


@TYPES
def test_threads_share_a_large_product(dtype: torch.dtype) -> None:
    depth, columns = 128, SERIAL_LIMIT // 128 // 3
    left, right = noise(5, depth, dtype=dtype), noise(depth, columns, seed=1, dtype=dtype)
    packed = PackedMatrix(right)
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        serial = packed.multiply(left)
        torch.set_num_threads(3)
        parallel = packed.multiply(left)
    finally:
        torch.set_num_threads(before)
    assert torch.equal(serial, parallel)
    np.testing.assert_allclose(serial.numpy(), left.numpy() @ right.numpy(), rtol=0, atol=1e-3)


def test_strided_rows() -> None:
    wide, right = noise(4, 9), noise(5, 3, seed=1)
    torch.testing.assert_close(PackedMatrix(right).multiply(wide[:, 2:7]), wide[:, 2:7] @ right)
