"""Each operation of a program against its definition in NumPy, on one thread and on several."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from tests.contracts.registry import noise
from torch import Tensor

from seqloom.kernels.linalg import quantized_naive
from seqloom.kernels.linalg.packed import PackedMatrix
from seqloom.kernels.linalg.quantized import QuantizedMatrix
from seqloom.kernels.program import attention as kernel
from seqloom.kernels.program import program
from seqloom.kernels.program.operations import EPILOGUES, float_bits
from seqloom.kernels.program.program import Program, Repetition

pytestmark = pytest.mark.sampled(3)

Array = NDArray[np.float64]
LLVM_TYPES = {"float": torch.float32, "double": torch.float64}
EVERY_TYPE = pytest.mark.parametrize("real", LLVM_TYPES)
# With few rows, threads split the columns; with more than 16 rows each, the rows; 60 rows are two blocks of tiles.
ROWS = pytest.mark.parametrize(("rows", "threads"), [(1, 1), (3, 2), (60, 1), (35, 2)])


def check(actual: Tensor, expected: Array, scale: float = 1.0) -> None:
    """Sums of fewer than 200 numbers near 1; each addition is rounded."""
    tolerance = 200 * torch.finfo(actual.dtype).eps * scale
    np.testing.assert_allclose(actual.double().numpy(), expected, rtol=0, atol=tolerance)


def run(dtype: torch.dtype, rows: int, threads: int, monkeypatch: pytest.MonkeyPatch, **options: Any) -> None:
    """Run one operation; tensors among its operands are passed by address."""
    monkeypatch.setattr(program, "SERIAL_LIMIT", 0)
    torch.set_num_threads(threads)
    single = Program(dtype, threads)
    single.add(**options)
    single.finalize()
    single.run(rows, {}, scratch=kernel.scratch_size(single.real, 100, 100))


def values(real: str, *shape: int, seed: int = 0) -> Tensor:
    return noise(*shape, seed=seed, dtype=LLVM_TYPES[real])


DEFINITIONS: dict[str, Callable[[Array], Array]] = {
    "none": lambda x: x,
    "add": lambda x: x,
    "relu": lambda x: np.maximum(x, 0),
    "tanh": np.tanh,
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "leaky_relu": lambda x: np.where(x > 0, x, 0.2 * x),
    "elu": lambda x: np.where(x > 0, x, 0.2 * np.expm1(x)),
    "gelu": lambda x: x * np.vectorize(lambda value: math.erfc(-value / math.sqrt(2)) / 2)(x),
}


def check_linear(real: str, rows: int, threads: int, epilogue: str, monkeypatch: pytest.MonkeyPatch) -> None:
    depth, columns = (5, 37) if epilogue != "none" else (64, 300)
    left, matrix, bias = values(real, rows, depth + 2), values(real, depth, columns, seed=1), values(real, columns)
    residual = values(real, rows, columns + 1, seed=2)
    out = torch.full((rows, columns + 3), math.nan, dtype=left.dtype)
    packed = PackedMatrix(matrix)
    operands = {
        "left": left,
        "left_stride": depth + 2,
        "packed": packed.values,
        "depth": depth,
        "panels": packed.panels,
        "columns": columns,
        "bias": bias,
        "epilogue": list(EPILOGUES).index(epilogue),
        "slope": float_bits(0.2),
        "residual": residual,
        "residual_stride": columns + 1,
        "out": out,
        "out_stride": columns + 3,
    }
    run(left.dtype, rows, threads, monkeypatch, name="linear", **operands)
    expected = left[:, :depth].double().numpy() @ matrix.double().numpy() + bias.double().numpy()
    expected = DEFINITIONS[epilogue](expected) + (residual[:, :columns].double().numpy() if epilogue == "add" else 0)
    check(out[:, :columns], expected, scale=np.abs(expected).max())
    assert out[:, columns:].isnan().all()


@EVERY_TYPE
@ROWS
@pytest.mark.parametrize("epilogue", EPILOGUES)
def test_linear(real: str, rows: int, threads: int, epilogue: str, monkeypatch: pytest.MonkeyPatch) -> None:
    check_linear(real, rows, threads, epilogue, monkeypatch)


@ROWS
def test_a_quantized_linear_map_equals_the_naive_product(
    rows: int, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    depth, columns = 66, 300
    left, weight, bias = (values("float", *shape) for shape in ((rows, depth + 2), (columns, depth), (columns,)))
    out = torch.full((rows, columns + 3), math.nan)
    packed = QuantizedMatrix(weight)
    monkeypatch.setattr(program, "SERIAL_LIMIT", 0)
    torch.set_num_threads(threads)
    single = Program(torch.float32, threads)
    operands: dict[str, Any] = {"left": left, "left_stride": depth + 2, "packed": packed.values, "depth": depth}
    size: dict[str, Any] = {"panels": packed.panels, "columns": columns, "out": out, "out_stride": columns + 3}
    single.add("quantized_linear", **operands, **size, bias=bias, epilogue=list(EPILOGUES).index("relu"))
    single.reserve_integers(depth)
    single.finalize()
    single.run(rows, {}, scratch=0)
    assert torch.equal(out[:, :columns], (quantized_naive.multiply(left[:, :depth], weight) + bias).relu())
    assert out[:, columns:].isnan().all()


def check_norm(real: str, rows: int, threads: int, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    x, weight, bias = values(real, rows, size + 1), values(real, size, seed=1), values(real, size, seed=2)
    out = torch.full((threads, rows, size), math.nan, dtype=x.dtype)
    operands = {"source": x, "source_stride": size + 1, "weight": weight, "bias": bias, "epsilon": float_bits(0.1)}
    target = {"out": out, "out_stride": size, "out_thread_stride": rows * size, "size": size}
    run(x.dtype, rows, threads, monkeypatch, name="norm", **operands, **target)
    array = x[:, :size].double().numpy()
    spread = array - array.mean(axis=1, keepdims=True)
    expected = (
        spread / np.sqrt(array.var(axis=1, keepdims=True) + 0.1) * weight.double().numpy() + bias.double().numpy()
    )
    check(out[0], expected)
    if rows < 16:
        check(out[-1], expected)


@EVERY_TYPE
@ROWS
@pytest.mark.parametrize("size", [1, 16, 37])
def test_norm(real: str, rows: int, threads: int, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    check_norm(real, rows, threads, size, monkeypatch)


def check_embedding(
    real: str, rows: int, threads: int, *, indexed: bool, positions: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    size = 21
    table, position_table = values(real, 70, size + 3), values(real, 9, size, seed=1)
    index, position_ids = torch.arange(rows) * 7 % 70, torch.arange(rows) * 5 % 9
    out = torch.full((rows, size + 1), math.nan, dtype=table.dtype)
    operands: dict[str, Any] = {"source": table, "source_stride": size + 3, "scale": float_bits(1.5), "size": size}
    operands |= {"index": index} if indexed else {}
    operands |= {"position_table": position_table, "positions": position_ids} if positions else {}
    run(table.dtype, rows, threads, monkeypatch, name="embedding", out=out, out_stride=size + 1, **operands)
    expected = table[index if indexed else torch.arange(rows), :size].double().numpy() * 1.5
    check(out[:, :size], expected + (position_table[position_ids].double().numpy() if positions else 0))
    assert out[:, size:].isnan().all()


@EVERY_TYPE
@ROWS
@pytest.mark.parametrize("indexed", [True, False])
@pytest.mark.parametrize("positions", [True, False])
def test_embedding(
    real: str, rows: int, threads: int, *, indexed: bool, positions: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_embedding(real, rows, threads, indexed=indexed, positions=positions, monkeypatch=monkeypatch)


def check_log_softmax(real: str, rows: int, threads: int, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    x = values(real, rows, size + 1) * 20 + 300
    expected = x[:, :size].double().numpy().copy()
    top = expected.max(axis=1, keepdims=True)
    expected -= top + np.log(np.exp(expected - top).sum(axis=1, keepdims=True))
    run(x.dtype, rows, threads, monkeypatch, name="log_softmax", out=x, out_stride=size + 1, size=size)
    check(x[:, :size], expected, scale=300 / 200)


@EVERY_TYPE
@ROWS
@pytest.mark.parametrize("size", [1, 16, 101])
def test_log_softmax(real: str, rows: int, threads: int, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    check_log_softmax(real, rows, threads, size, monkeypatch)


def attention(query: Array, keys: Array, mask: Array, cached_values: Array) -> tuple[Array, Array]:
    """(B, H, D), (B, S, H, D), (B, S) → (B, H, D) and the weights (B, H, S)."""
    scores = np.einsum("bhd,bshd->bhs", query, keys) / np.sqrt(query.shape[-1])
    exponentials = np.exp(scores - scores.max(axis=-1, keepdims=True)) * mask[:, None]
    total = exponentials.sum(axis=-1, keepdims=True)
    weights = np.divide(exponentials, total, out=np.zeros_like(exponentials), where=total > 0)
    return np.einsum("bhs,bshd->bhd", weights, cached_values), weights


def check_attention_to_memory(
    real: str, rows: int, threads: int, size: int, *, accumulated: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    heads, length, table = 3, 9, 4
    query = values(real, rows, heads * size + 1, seed=1)
    keys, cached_values = values(real, table, length, 2, heads, size).unbind(2)
    mask = torch.arange(length) < torch.tensor([[9], [0], [4], [1]])
    keys, cached_values = (part.masked_fill_(~mask[..., None, None], math.nan) for part in (keys, cached_values))
    source_rows = torch.arange(rows) * 3 % table
    out = torch.full((rows, heads * size + 2), math.nan, dtype=query.dtype)
    coverage = values(real, rows, length, seed=5)
    before = coverage.double().numpy().copy()
    operands: dict[str, Any] = {
        "query": query,
        "stride": heads * size + 1,
        "keys": keys,
        "values": cached_values,
        "row_stride": keys.stride(0),
        "slot_stride": keys.stride(1),
        "length": length,
        "source_rows": source_rows,
        "mask": mask,
        "mask_stride": length,
        "heads": heads,
        "size": size,
        "scale": float_bits(1 / math.sqrt(size)),
        "out": out,
        "out_stride": out.shape[1],
    }
    operands |= {"accumulated": coverage} if accumulated else {}
    run(query.dtype, rows, threads, monkeypatch, name="attention", **operands)
    queries = query[:, :-1].double().numpy().reshape(rows, heads, size)
    real_keys, real_values = (part.nan_to_num(0.0)[source_rows].double().numpy() for part in (keys, cached_values))
    expected, weights = attention(queries, real_keys, mask[source_rows].numpy(), real_values)
    check(out[:, :-2], expected.reshape(rows, -1), scale=3)
    assert out[:, -2:].isnan().all()
    check(coverage, before + (weights.mean(axis=1) if accumulated else 0))


@EVERY_TYPE
@ROWS
@pytest.mark.parametrize("size", [2, 5, 16, 70])
@pytest.mark.parametrize("accumulated", [True, False])
def test_attention_to_memory(
    real: str, rows: int, threads: int, size: int, *, accumulated: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_attention_to_memory(real, rows, threads, size, accumulated=accumulated, monkeypatch=monkeypatch)


def check_attention_to_cache(
    real: str, rows: int, threads: int, size: int, *, rotary: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    heads, length, capacity = 2, 6, 8
    new = values(real, rows, 3 * heads * size, seed=1)
    keys, cached_values = values(real, rows, capacity, heads, size), values(real, rows, capacity, heads, size, seed=3)
    keys[:, length - 1 :], cached_values[:, length - 1 :] = math.nan, math.nan
    positions = torch.arange(rows) % 11
    angles = positions.double().unsqueeze(1) * torch.arange(1, size // 2 + 1)
    table = torch.arange(11).double().unsqueeze(1) * torch.arange(1, size // 2 + 1)
    cosines, sines = table.cos().repeat_interleave(2, dim=1), torch.stack([-table.sin(), table.sin()], dim=2).flatten(1)
    rotations = torch.cat([cosines, sines], dim=1).to(new.dtype)
    out = torch.full((rows, heads * size), math.nan, dtype=new.dtype)
    step = heads * size * new.element_size()
    operands: dict[str, Any] = {
        "query": new,
        "stride": 3 * heads * size,
        "keys": keys,
        "values": cached_values,
        "row_stride": keys.stride(0),
        "new_keys": new.data_ptr() + step,
        "new_values": new.data_ptr() + 2 * step,
        "length": length,
        "slot_stride": keys.stride(1),
        "heads": heads,
        "size": size,
        "scale": float_bits(1 / math.sqrt(size)),
    }
    operands |= {"rotations": rotations, "positions": positions} if rotary else {}
    old = keys.clone(), cached_values.clone()
    run(new.dtype, rows, threads, monkeypatch, name="attention", out=out, out_stride=heads * size, **operands)
    query, key, value = new.double().view(rows, 3, heads, size // 2, 2).unbind(1)
    if rotary:
        rotation = torch.polar(torch.ones_like(angles), angles).unsqueeze(1)
        query, key = (torch.view_as_real(torch.view_as_complex(part.contiguous()) * rotation) for part in (query, key))
    old[0][:, length - 1], old[1][:, length - 1] = key.flatten(2), value.flatten(2)
    expected_keys, expected_values = (part[:, :length].double().numpy() for part in old)
    check(keys[:, :length], expected_keys, scale=4)
    check(cached_values[:, :length], expected_values)
    assert keys[:, length:].isnan().all()
    context, _ = attention(query.flatten(2).numpy(), expected_keys, np.ones((rows, length)), expected_values)
    check(out, context.reshape(rows, -1), scale=4)


@EVERY_TYPE
@ROWS
@pytest.mark.parametrize("size", [2, 6, 32, 70])
@pytest.mark.parametrize("rotary", [True, False])
def test_attention_to_cache(
    real: str, rows: int, threads: int, size: int, *, rotary: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_attention_to_cache(real, rows, threads, size, rotary=rotary, monkeypatch=monkeypatch)


def test_unknown_operands_are_refused() -> None:
    with pytest.raises(TypeError, match="norm has no operands left, rihgt"):
        Program(torch.float32, 1).add("norm", left=0, rihgt=1)


@EVERY_TYPE
@ROWS
@pytest.mark.parametrize("size", [5, 64, 203])
def test_choice_equals_argmax(real: str, rows: int, threads: int, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """With ties, suppressed tokens, and rows in which every token, or one, has no probability."""
    monkeypatch.setattr(program, "SERIAL_LIMIT", 0)
    torch.set_num_threads(threads)
    scores = -values(real, rows, size + 2).abs().mul(4).round().div(4)  # many ties
    scores[rows // 2] = -math.inf
    if rows > 1:
        scores[1, size // 2] = math.nan
    suppressed = torch.tensor([1, size - 1])
    allowed = scores[:, :size].clone()
    allowed[:, suppressed] = -math.inf
    expected = np.argmax(allowed.numpy(), axis=1)
    best = allowed.gather(1, torch.from_numpy(expected).unsqueeze(1)).squeeze(1)
    for end, highest, expected_steps in ((0, 1.0, 1), (-1, -math.inf, 1), (-1, math.inf, 3)):
        tokens, chosen = torch.zeros(rows, dtype=torch.int64), torch.zeros(3, rows, dtype=torch.int64)
        log_probs = torch.zeros(3, rows, dtype=scores.dtype)
        counters = torch.tensor([5, 7])
        given = scores.clone()
        if expected_steps == 3:  # nothing that stops
            given[~best.isfinite()] = 0.0
        single = Program(scores.dtype, threads)
        operands: dict[str, Any] = {
            "scores": given,
            "stride": size + 2,
            "size": size,
            "suppressed": suppressed,
            "stop": "stop",
        }
        operands |= {"suppressed_count": 2, "end": end, "highest": float_bits(highest), "tokens": tokens}
        single.add("choose", **operands, chosen="chosen", chosen_scores="chosen_scores")
        single.finalize()
        growing = {"chosen": 8 * rows, "chosen_scores": log_probs.element_size() * rows}
        steps = single.run(
            rows,
            {"chosen": chosen.data_ptr(), "chosen_scores": log_probs.data_ptr()},
            scratch=0,
            repetition=Repetition(3, growing, [(counters.data_ptr(), 2, 10)]),
        )
        assert steps == expected_steps
        assert counters.tolist() == [5 + 10 * min(steps, 2), 7 + 10 * min(steps, 2)]  # not after the last step
        if expected_steps == 3:
            assert torch.equal(chosen[0], chosen[2])
            continue
        valid = ~best.isnan()
        assert torch.equal(tokens[valid], torch.from_numpy(expected)[valid])
        assert torch.equal(chosen[0, valid], tokens[valid])
        assert torch.equal(log_probs[0][valid], best[valid])
        assert log_probs[0][~valid].isnan().all()
        assert not chosen[1:].any()
