"""Kernels for processors with narrower vectors than this one has."""

from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages

import pytest
import torch
from tests.contracts.registry import cells, randomize
from tests.contracts.test_kernel import check
from tests.kernels.linalg import test_gemm
from tests.kernels.program import test_program

from seqloom import kernels
from seqloom.kernels.fuse import scan
from seqloom.kernels.linalg import gemm
from seqloom.kernels.llvm import jit_cache
from seqloom.layers.recurrent.recurrent import Recurrent

pytestmark = pytest.mark.sampled(2)


@pytest.fixture(
    params=[
        pytest.param((32, 16), id="AVX2"),
        pytest.param((16, 16), id="SSE", marks=pytest.mark.exhaustive),  # the vectors of NEON, the registers of AVX2
        pytest.param((16, 32), id="NEON"),
    ]
)
def narrow(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Pretend to have vectors of this many bytes and this many registers; everything is compiled again."""
    size, registers = request.param
    monkeypatch.setenv("SEQLOOM_CACHE", str(tmp_path))
    monkeypatch.setattr(jit_cache, "_libraries", {})
    for module in [import_module(entry.name) for entry in walk_packages(kernels.__path__, f"{kernels.__name__}.")]:
        for name, value in list(vars(module).items()):
            if hasattr(value, "cache_clear"):
                monkeypatch.setattr(module, name, cache(value.__wrapped__))
    monkeypatch.setattr(jit_cache, "vector_bytes", lambda: size)
    monkeypatch.setattr(jit_cache, "vector_registers", lambda: registers)
    yield
    assert len(list((tmp_path / "kernels").iterdir())) > 1


@pytest.mark.usefixtures("narrow")
@pytest.mark.parametrize(
    ("real", "dtype"), [("float", torch.float32), pytest.param("double", torch.float64, marks=pytest.mark.exhaustive)]
)
def test_narrow_vectors(real: str, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    assert gemm.lanes(real) <= 8
    for rows, depth, columns in [(1, 1, 1), (13, 17, 31), (15, 9, 65)]:
        for layout in ("rows", "columns", "neither"):
            test_gemm.check_pack(real, rows, depth, columns, layout)
        test_gemm.check_multiply(real, rows, depth, columns)
        test_gemm.check_contract(real, rows, depth, columns)
        for order in (gemm.STREAMED, gemm.CACHED, gemm.CACHED_BACKWARDS):
            test_gemm.check_dot(real, rows, depth, columns, order=order)
    monkeypatch.setattr(scan, "SERIAL_LIMIT", 0)
    for name in ("GRU(reset=before)", "LayerNormLSTM()"):
        layer = Recurrent(cells()[name](3, 13).to(dtype))
        randomize(layer, dtype=dtype)
        check(layer, 4, 5, [5, 0, 3, 1])
        check(layer, 1, 5, threads=2)


@pytest.mark.usefixtures("narrow")
@pytest.mark.parametrize("real", ["float", pytest.param("double", marks=pytest.mark.exhaustive)])
def test_narrow_programs(real: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for rows, threads in ((3, 2), (60, 1)):
        for epilogue in ("none", "add", "gelu"):
            test_program.check_linear(real, rows, threads, epilogue, monkeypatch)
        for size in (1, 16, 37):
            test_program.check_norm(real, rows, threads, size, monkeypatch)
            test_program.check_log_softmax(real, rows, threads, size, monkeypatch)
        test_program.check_embedding(real, rows, threads, indexed=True, positions=True, monkeypatch=monkeypatch)
        for size in (2, 6, 70):
            test_program.check_attention_to_memory(real, rows, threads, size, accumulated=True, monkeypatch=monkeypatch)
            test_program.check_attention_to_cache(real, rows, threads, size, rotary=True, monkeypatch=monkeypatch)
