"""Attention to shared sources equals its definition in NumPy, for various widths and both types."""

import numpy as np
import pytest
import torch
from torch import Tensor

from seqloom.kernels.program import attention, program
from seqloom.kernels.program.operations import float_bits
from seqloom.kernels.program.program import Program


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(
    ("size", "width", "length", "heads"), [(1, 1, 1, 1), (5, 3, 2, 3), (16, 32, 9, 2), (19, 70, 33, 1)]
)
def test_attention_equals_its_definition(
    size: int, width: int, length: int, heads: int, threads: int, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(program, "SERIAL_LIMIT", 0)
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
    added = torch.from_numpy(appended).to(dtype)
    tolerance = 1e-5 if dtype == torch.float32 else 1e-13  # sums of at most 70 rounded numbers near one

    def attend(query: Tensor, accumulated: Tensor | int, *, factor: float = 0.0) -> Tensor:
        out = torch.full((5, heads * width + 7 + 2), torch.nan, dtype=dtype)
        single = Program(dtype, threads)
        single.add(
            "source_attention",
            query=query,
            query_stride=query.stride(0),
            heads=heads,
            size=size,
            scale=float_bits(0.5 if not factor else 1.0),
            factor=float_bits(factor),
            keys=tensors[1],
            values=tensors[2],
            width=width,
            length=length,
            mask=torch.from_numpy(mask),
            source_rows=torch.from_numpy(rows),
            accumulated=accumulated,
            appended=added,
            appended_stride=7,
            appended_size=7,
            out=out,
            out_stride=out.stride(0),
        )
        single.finalize()
        single.run(5, {}, scratch=attention.scratch_size(single.real, size, length))
        assert out[:, heads * width + 7 :].isnan().all()
        return out[:, : heads * width + 7]

    actual = attend(2 * tensors[0], coverage)
    np.testing.assert_allclose(actual.numpy(), expected, rtol=tolerance, atol=tolerance)
    np.testing.assert_allclose(coverage.numpy(), accumulated + weights.mean(axis=1), rtol=tolerance, atol=tolerance)
    assert torch.equal(attend(2 * tensors[0], 0), actual)
    lengths = np.sqrt((query**2).sum(axis=2, keepdims=True) + 1e-8)
    given = torch.from_numpy(query / lengths * 3).to(dtype).flatten(-2)
    np.testing.assert_allclose(attend(tensors[0], 0, factor=3.0), attend(2 * given, 0), rtol=tolerance, atol=tolerance)
