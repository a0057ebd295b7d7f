"""Products with packed matrices against NumPy."""

import numpy as np
import pytest
import torch
from tests.contracts.registry import noise

from seqloom.kernels.linalg.packed import SERIAL_LIMIT, PackedCache, PackedMatrix, fingerprint, pack_transposed

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


@TYPES
def test_every_change_has_another_fingerprint(dtype: torch.dtype) -> None:
    values = noise(3, 67, dtype=dtype)  # 64 lanes of words, and a rest
    known = {fingerprint(values)}
    assert fingerprint(values.clone()) in known
    changed = [-values, 2 * values, values.flip(0), values.roll(1), values.t().contiguous(), values[:2]]
    for row in range(3):
        for column in range(67):
            other = values.clone()
            other[row, column] = torch.nextafter(other[row, column], torch.tensor(9.0, dtype=dtype))
            changed.append(other)
    for other in changed:
        assert fingerprint(other) not in known
        known.add(fingerprint(other))


def test_a_verified_cache_notices_changes_that_torch_does_not_count() -> None:
    weight, left = noise(40, 8), noise(2, 8, seed=1)
    cache = PackedCache(pack_transposed)
    first = cache(weight, verify=True)
    assert cache(weight, verify=True) is first
    weight.data.neg_()
    torch.testing.assert_close(cache(weight, verify=True).multiply(left), left @ weight.t())
