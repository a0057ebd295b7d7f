"""Products with AMX, on any processor with AVX512_BF16: its instructions are computed by NumPy."""

import ctypes
from collections.abc import Callable, Iterator
from typing import Any
from unittest.mock import Mock

import llvmlite.binding as llvm
import numpy as np
import pytest
from numpy.typing import NDArray
from tests.kernels.linalg.test_bfloat16 import SIZES, assert_product, float_noise

from seqloom.kernels.linalg import bfloat16, bfloat16_amx, bfloat16_gemm
from seqloom.kernels.linalg.bfloat16 import Bfloat16Matrix, contract
from seqloom.kernels.llvm import jit_cache

INSTRUCTIONS = ("ldtilecfg", "tilerelease", "tilezero", "tileloadd64", "tilestored64", "tdpbf16ps")
TILE, POINTER = ctypes.c_uint8, ctypes.c_void_p


class Emulator:
    """The eight tiles of a thread. Errors are kept, since they cannot leave a function that is called by C."""

    def __init__(self) -> None:
        self.rows, self.row_bytes = [0] * 8, [0] * 8
        self.tiles = np.zeros((8, 16, 64), np.uint8)
        self.errors: list[str] = []
        self.products = 0

    def memory(self, address: int, size: int) -> NDArray[np.uint8]:
        return np.frombuffer(ctypes.string_at(address, size), np.uint8)

    def check(self, condition: bool, error: str) -> None:
        if not condition:
            self.errors.append(error)

    def ldtilecfg(self, address: int) -> None:
        configuration = self.memory(address, 64)
        self.check(configuration[0] == 1 and not configuration[1:16].any(), "palette")
        self.row_bytes = configuration[16:32].view("<u2").tolist()
        self.rows = configuration[48:56].tolist()
        self.check(all(0 < rows <= 16 for rows in self.rows) and set(self.row_bytes) == {64}, "configuration")
        self.tiles[:] = 0

    def tilerelease(self) -> None:
        self.rows, self.row_bytes = [0] * 8, [0] * 8

    def tilezero(self, tile: int) -> None:
        self.check(self.rows[tile] > 0, "tilezero without a configuration")
        self.tiles[tile] = 0

    def tileloadd64(self, tile: int, address: int, stride: int) -> None:
        self.check(self.rows[tile] > 0, "tileloadd64 without a configuration")
        self.tiles[tile] = 0
        for row in range(self.rows[tile]):
            self.tiles[tile, row] = self.memory(address + row * stride, 64)

    def tilestored64(self, tile: int, address: int, stride: int) -> None:
        self.check(self.rows[tile] > 0, "tilestored64 without a configuration")
        for row in range(self.rows[tile]):
            ctypes.memmove(address + row * stride, self.tiles[tile, row].ctypes.data, 64)

    def tdpbf16ps(self, out: int, left: int, right: int) -> None:
        self.check(self.rows[out] == self.rows[left], "rows of tdpbf16ps")
        self.check(self.rows[right] == self.row_bytes[left] // 4, "depth of tdpbf16ps")
        rows = self.rows[left]
        pairs, columns = self.floats(left)[:rows], self.floats(right)
        total = self.tiles[out].view(np.float32)
        for pair in range(16):
            for half in range(2):
                total[:rows] += np.outer(pairs[:, 2 * pair + half], columns[pair, half::2])
        self.products += 1

    def floats(self, tile: int) -> NDArray[np.float32]:
        """The numbers of a tile: a bfloat16 is the upper half of a float."""
        return np.asarray((self.tiles[tile].view(np.uint16).astype(np.uint32) << 16).view(np.float32))


@pytest.fixture
def emulator(monkeypatch: pytest.MonkeyPatch) -> Iterator[Emulator]:
    """Products call the functions for AMX, whose instructions are those of an emulator."""
    if bfloat16_gemm.unsupported() is not None:
        pytest.skip("no bfloat16 instructions to round with")
    emulator = Emulator()
    moved: list[Any] = [TILE, POINTER, ctypes.c_int64]
    arguments: tuple[list[Any], ...] = ([POINTER], [], [TILE], moved, moved, [TILE] * 3)
    kept: list[Callable[..., None]] = []
    symbols = {}
    for name, kinds in zip(INSTRUCTIONS, arguments, strict=True):
        callback = ctypes.CFUNCTYPE(None, *kinds)(getattr(emulator, name))
        kept.append(callback)
        symbols[f"emulated_{name}"] = ctypes.cast(callback, POINTER).value or 0

    def text() -> str:
        module = bfloat16_gemm.assembly(uses_amx=True)
        for name in INSTRUCTIONS:
            module = module.replace(f"llvm.x86.{name}", f"emulated_{name}")
        return module

    fields = bfloat16_gemm.Bfloat16Functions._fields
    addresses = jit_cache.load(f"emulated AMX {id(emulator)}", text, fields, **symbols)
    monkeypatch.setattr(bfloat16_gemm, "functions", lambda: bfloat16_gemm.Bfloat16Functions(*addresses))
    parts = {f"all_{name}": address for name, address in zip(fields, addresses, strict=True)}
    loaded = jit_cache.load(f"parts of emulated AMX {id(emulator)}", bfloat16._emit, bfloat16._Parts._fields, **parts)
    monkeypatch.setattr(bfloat16, "_functions", lambda: bfloat16._Parts(*loaded))
    yield emulator
    assert emulator.products
    assert not emulator.errors


@SIZES
def test_multiply(emulator: Emulator, rows: int, depth: int, columns: int) -> None:
    left, matrix = float_noise(rows, depth), float_noise(depth, columns, seed=1)
    assert_product(Bfloat16Matrix(matrix).multiply(left), left, matrix)
    assert not any(emulator.rows)  # other programs need not save the tiles


@pytest.mark.usefixtures("emulator")
@SIZES
def test_contract(rows: int, depth: int, columns: int) -> None:
    left, right = float_noise(depth, rows), float_noise(depth, columns, seed=1)
    out = contract(left, right)
    assert_product(out, left.t(), right)
    total = float_noise(rows, -(-columns // 32) * 32, seed=2)
    before = total[:, :columns].clone()
    added = contract(left, right, total)
    # The order of the sums differs; each has a rounding error of 2⁻²⁴ of the sum of absolute values.
    size = left.t().abs() @ right.abs() + before.abs()
    assert ((added - before - out).abs() <= 2 * (depth + 1) * 2.0**-24 * size).all()


@pytest.mark.usefixtures("emulator")
@pytest.mark.parametrize("rows", [15, 16, 17, 31, 32, 33, 47, 48, 49, 64, 65, 257])
def test_rows_that_fill_tiles_in_part(rows: int) -> None:
    left, matrix = float_noise(rows, 70), float_noise(70, 33, seed=1)
    canary = float_noise(rows + 1, 64, seed=2)
    expected = canary[rows].clone()
    assert_product(Bfloat16Matrix(matrix).multiply(left, canary[:rows]), left, matrix)
    assert canary[rows].equal(expected)
    assert_product(contract(left.t().contiguous(), matrix), left, matrix)


def test_the_code_consists_of_its_instructions() -> None:
    """LLVM accepts the module for a processor with AMX; tests of test_bfloat16.py run it there."""
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    target = llvm.Target.from_triple("x86_64-unknown-linux-gnu").create_target_machine(cpu="sapphirerapids", opt=3)
    code = target.emit_assembly(llvm.parse_assembly(bfloat16_gemm.assembly(uses_amx=True)))
    for name in ("ldtilecfg", "tilerelease", "tilezero", "tileloadd", "tilestored", "tdpbf16ps"):
        assert f"\t{name}" in code
    assert "%tmm7" in code


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, True),
        ({"platform.machine": "aarch64"}, False),
        ({"sys.platform": "darwin"}, False),
        ({"has_cpu_feature": False}, False),
        ({"vector_bytes": 32}, False),
        ({"permission": -1}, False),
    ],
)
def test_it_is_not_used_where_something_is_missing(
    monkeypatch: pytest.MonkeyPatch, change: dict[str, object], expected: bool
) -> None:
    answers = {"platform.machine": "x86_64", "sys.platform": "linux", "has_cpu_feature": True, "vector_bytes": 64}
    answers |= {"permission": 0} | change
    monkeypatch.setattr("platform.machine", lambda: answers["platform.machine"])
    monkeypatch.setattr("sys.platform", answers["sys.platform"])
    monkeypatch.setattr(jit_cache, "has_cpu_feature", lambda _: answers["has_cpu_feature"])
    monkeypatch.setattr(jit_cache, "vector_bytes", lambda: answers["vector_bytes"])
    monkeypatch.setattr("ctypes.CDLL", lambda _: Mock(syscall=lambda *_: answers["permission"]))
    bfloat16_amx.is_available.cache_clear()
    try:
        assert bfloat16_amx.is_available() is expected
    finally:
        bfloat16_amx.is_available.cache_clear()
