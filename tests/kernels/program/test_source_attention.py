"""Attention to shared sources equals its definition in NumPy, for various widths and both types."""

from typing import Any

import numpy as np
import pytest
import torch

from seqloom.kernels.program import source_attention as module
from seqloom.kernels.program.source_attention import attend_to_source


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(
    ("size", "width", "length", "heads"), [(1, 1, 1, 1), (5, 3, 2, 3), (16, 32, 9, 2), (19, 70, 33, 1)]
)
def test_attention_equals_its_definition(
    size: int, width: int, length: int, heads: int, threads: int, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "SERIAL_LIMIT", 0)
    torch.set_num_threads(threads)
    random = np.random.default_rng(size)
    keys, values = random.normal(size=(3, length, heads, size)), random.normal(size=(3, length, heads, width))
    mask = random.random((3, length)) < 0.7
    mask[1], mask[2] = False, True
    rows = np.array([2, 0, 0, 1, 2])
    query, accumulated = random.normal(size=(5, heads, size)) / 3, random.random((5, length))
    appended = random.normal(size=(5, 7))
    exponentials = np.where(mask[rows][:, None], np.exp(np.einsum("bsha,bha->bhs", keys[rows], query)), 0)
    weights = exponentials / np.maximum(exponentials.sum(axis=2, keepdims=True), 1e-300)
    context = np.einsum("bhs,bshv->bhv", weights, values[rows]).reshape(5, -1)
    expected = np.concatenate([context, appended], axis=1)
    tensors = [torch.from_numpy(array).to(dtype).flatten(-2) for array in (query, keys, values)]
    coverage = torch.tensor(accumulated, dtype=dtype)
    options: dict[str, Any] = {"mask": torch.from_numpy(mask), "rows": torch.from_numpy(rows), "heads": heads}
    options["appended"] = torch.from_numpy(appended).to(dtype)
    actual = attend_to_source(*tensors, **options, accumulated=coverage)
    tolerance = 1e-5 if dtype == torch.float32 else 1e-13  # sums of at most 70 rounded numbers near one
    np.testing.assert_allclose(actual.numpy(), expected, rtol=tolerance, atol=tolerance)
    np.testing.assert_allclose(coverage.numpy(), accumulated + weights.mean(axis=1), rtol=tolerance, atol=tolerance)
    without_coverage = attend_to_source(*tensors, **options, accumulated=coverage[:, :0])
    assert torch.equal(without_coverage, actual)
