"""Products of int8 matrices: exact sums of integers, for each kind of instruction that this processor has."""

import platform

import llvmlite.binding as llvm
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.contracts.registry import noise
from torch import Tensor

from seqloom.kernels.linalg import quantized_gemm, quantized_naive
from seqloom.kernels.linalg.quantized import SERIAL_LIMIT, QuantizedMatrix, quantize_weight
from seqloom.kernels.linalg.quantized_gemm import MAX_DEPTH, PMADDWD, PORTABLE, SDOT, Instructions, instructions
from seqloom.kernels.llvm import jit_cache

KINDS = {instructions(), PORTABLE} | ({PMADDWD} if platform.machine().lower() in ("x86_64", "amd64") else set())
EVERY_KIND = pytest.mark.parametrize("kind", sorted(KINDS, key=str), ids=lambda kind: kind.name)


def float_noise(*shape: int, seed: int = 0) -> Tensor:
    return noise(*shape, seed=seed, dtype=torch.float32)


@EVERY_KIND
@pytest.mark.parametrize(
    ("rows", "depth", "columns"), [(1, 1, 1), (2, 7, 33), (3, 4, 64), (15, 64, 32), (40, 9, 100), (1, 650, 70)]
)
def test_a_product_is_the_exact_sum_of_integers(kind: Instructions, rows: int, depth: int, columns: int) -> None:
    left, weight = float_noise(rows, depth), float_noise(columns, depth, seed=1)
    actual = QuantizedMatrix(weight, kind).multiply(left)
    assert torch.equal(actual, quantized_naive.multiply(left, weight))
    # The integers by NumPy, from the definition: the largest value of a row becomes 127.
    x, w = left.double().numpy(), weight.double().numpy()
    x_scale, w_scale = np.abs(x).max(axis=1, keepdims=True) / 127, quantize_weight(weight).scales.double().numpy()
    sums = np.rint(x / x_scale) @ np.rint(w / w_scale[:, None]).T
    np.testing.assert_allclose(actual.double().numpy(), sums * x_scale * w_scale, rtol=1e-6, atol=0)


@EVERY_KIND
def test_the_largest_sums_do_not_overflow(kind: Instructions) -> None:
    left, weight = torch.ones(1, MAX_DEPTH), torch.ones(2, MAX_DEPTH)
    weight[1] = -1
    actual = QuantizedMatrix(weight, kind).multiply(left)
    torch.testing.assert_close(actual, torch.tensor([[MAX_DEPTH, -MAX_DEPTH]]).float(), rtol=1e-4, atol=0)
    with pytest.raises(ValueError, match="at most 65,000 columns"):
        QuantizedMatrix(torch.ones(1, MAX_DEPTH + 1))


@EVERY_KIND
def test_a_row_does_not_depend_on_the_others(kind: Instructions) -> None:
    left, matrix = float_noise(16, 50), QuantizedMatrix(float_noise(40, 50, seed=1), kind)
    together = matrix.multiply(left * torch.logspace(-8, 8, 16).unsqueeze(1))
    for row in range(16):
        alone = matrix.multiply(left[row : row + 1] * torch.logspace(-8, 8, 16)[row])
        assert torch.equal(alone[0], together[row])


def test_threads_share_a_large_product() -> None:
    depth, columns = 128, SERIAL_LIMIT // 128 // 3
    left, matrix = float_noise(5, depth), QuantizedMatrix(float_noise(columns, depth, seed=1))
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        serial = matrix.multiply(left)
        torch.set_num_threads(3)
        assert torch.equal(serial, matrix.multiply(left))
    finally:
        torch.set_num_threads(before)


def test_zero_tiny_and_infinite_values() -> None:
    left = torch.stack([torch.zeros(6), torch.full((6,), 1e-38), torch.full((6,), torch.nan), torch.full((6,), 1e38)])
    left[2, :5] = 1  # one value that is not a number
    weight = torch.ones(3, 6)
    weight[1] = 0
    out = QuantizedMatrix(weight).multiply(left)
    assert torch.equal(out[:2], torch.zeros(2, 3))
    assert out[2].isnan().all()
    assert torch.equal(out[3, :2].isfinite(), torch.tensor([False, True]))  # 6e38 is no float
    weight[2, 0] = torch.inf
    assert QuantizedMatrix(weight).multiply(torch.ones(1, 6))[0].isfinite().tolist() == [True, True, False]


@settings(max_examples=50)
@given(rows=st.integers(1, 5), columns=st.integers(1, 9), exponent=st.integers(-25, 25), seed=st.integers(0, 99))
def test_rounding_twice_is_rounding_once(rows: int, columns: int, exponent: int, seed: int) -> None:
    weight = float_noise(rows, columns, seed=seed) * 10.0**exponent
    once = quantize_weight(weight)
    twice = quantize_weight(once.dequantize())
    assert torch.equal(once.integers, twice.integers)
    assert torch.equal(once.scales, twice.scales)
    exact = once.integers.double() * once.scales.double().unsqueeze(1)
    assert torch.equal(once.dequantize().double(), exact)
    assert (exact - weight.double()).abs().max() <= 0.51 * once.scales.max()


def test_strided_rows() -> None:
    wide, weight = float_noise(4, 9), float_noise(3, 5, seed=1)
    assert torch.equal(QuantizedMatrix(weight).multiply(wide[:, 2:7]), quantized_naive.multiply(wide[:, 2:7], weight))


@pytest.mark.parametrize(("kind", "instruction"), [(SDOT, "sdot"), (PORTABLE, "smull")], ids=["sdot", "portable"])
def test_the_code_for_arm_uses_its_instructions(
    kind: Instructions, instruction: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jit_cache, "vector_bytes", lambda: 16)
    monkeypatch.setattr(jit_cache, "vector_registers", lambda: 8)  # few tiles
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    module = llvm.parse_assembly(quantized_gemm._emit(kind))
    target = llvm.Target.from_triple("aarch64-linux-gnu")
    machine = target.create_target_machine(cpu="neoverse-n1" if kind is SDOT else "cortex-a53")
    assert f"\t{instruction}\t" in machine.emit_assembly(module)
