"""A program: a sequence of operations on the rows of a batch that runs as one call of compiled code.

Every row has a workspace for intermediate results. With few rows, threads split the columns of each operation, with a
barrier after it; with many rows, each thread runs the whole program for its own rows.
"""

from array import array
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import torch
from llvmlite import ir
from torch import Tensor

from seqloom.kernels.linalg import gemm, quantized_gemm
from seqloom.kernels.linalg.packed import LLVM_TYPES
from seqloom.kernels.llvm import jit_cache
from seqloom.kernels.llvm.ir_builder import Emitter, Value, integer
from seqloom.kernels.program import attention, operations
from seqloom.kernels.program.attention import CACHE_LINE
from seqloom.kernels.program.operations import OPERANDS_START
from seqloom.kernels.runtime import threads
from seqloom.kernels.runtime.buffers import allocate

OPERATIONS: dict[str, tuple[Callable[[ir.Module, str], None], tuple[str, ...]]] = {
    "linear": (operations.linear, operations.LINEAR_OPERANDS),
    "norm": (operations.norm, operations.NORM_OPERANDS),
    "embedding": (operations.embedding, operations.EMBEDDING_OPERANDS),
    "log_softmax": (operations.log_softmax, operations.LOG_SOFTMAX_OPERANDS),
    "attention": (attention.attention, attention.ATTENTION_OPERANDS),
    "quantized_linear": (operations.quantized_linear, operations.LINEAR_OPERANDS),  # float32 only
}
HEADER = ("count", "rows", "shared", "scratch", "scratch_stride", "barrier_counter")
WIDTH = OPERANDS_START + max(len(fields) for _, fields in OPERATIONS.values())
"""64-bit words of an instruction."""

ROWS_PER_THREAD = 16
"""Rows per thread from which threads split rows instead of columns."""
SERIAL_LIMIT = 1 << 21
"""Multiplications below which one thread is faster than several."""
Integers = np.ndarray[Any, np.dtype[np.int64]]


def _operations(real: str) -> list[str]:
    """The operations of a floating-point type; each has its index in the table above."""
    return [name for name in OPERATIONS if real == "float" or name != "quantized_linear"]


@cache
def _run(real: str) -> int:
    symbols = {"multiply": gemm.functions(real).multiply, "barrier": threads.functions().barrier}
    if "quantized_linear" in _operations(real):
        symbols |= quantized_gemm.functions(quantized_gemm.instructions())._asdict()
    return jit_cache.load(f"program {real}", lambda: _emit(real), ("run",), **symbols)[0]


def _emit(real: str) -> str:
    module = ir.Module("program")
    for name in _operations(real):
        OPERATIONS[name][0](module, real)
    emit = Emitter(module, "run", 4, real)
    table, _, member, members = emit.arguments
    builder = emit.builder
    count, rows, shared, scratch, stride = (emit.load_integer(table, index) for index in range(5))
    barrier_counter = builder.add(table, integer(8 * HEADER.index("barrier_counter")))
    thread_scratch = emit.advance(scratch, builder.mul(member, stride))
    split_rows = builder.icmp_signed("==", shared, integer(0))
    low, high = emit.part_range(rows, member, members)

    def pick(own_rows: Value, all_rows: Value) -> Value:
        return builder.select(split_rows, own_rows, all_rows)

    arguments = (
        pick(low, integer(0)),
        pick(high, rows),
        pick(integer(0), member),
        pick(integer(1), members),
        thread_scratch,
    )
    with emit.loop(0, count) as index:
        word = builder.add(integer(len(HEADER)), builder.mul(index, integer(WIDTH)))
        instruction = builder.add(table, builder.mul(word, integer(8)))
        number = emit.load_integer(instruction, 0)
        operations.call_by_index(emit, number, _operations(real), (instruction, *arguments))
        has_barrier = builder.icmp_signed("!=", emit.load_integer(instruction, 1), integer(0))
        with emit.if_then(builder.and_(has_barrier, builder.not_(split_rows))):
            emit.call("barrier", barrier_counter, members)
    emit.finish()
    return str(module)


class Region(NamedTuple):
    """A part of a row's workspace; ``thread_stride`` is the distance between the copies of the threads of a team."""

    offset: int
    thread_stride: int = 0


class Program:
    """A list of instructions that is built once and run with different addresses every time.

    An operand is a number, a Region of the workspace, a tensor, or the name of an input that is passed to ``run``.
    """

    def __init__(self, dtype: torch.dtype, members: int) -> None:
        self.dtype, self.real, self.members = dtype, LLVM_TYPES[dtype], members
        self.multiplications = 0  # per row
        self._size = torch.finfo(dtype).bits // 8
        self._width = 0
        self._instructions: list[tuple[str, bool, Mapping[str, Any]]] = []
        self._alive: list[Tensor] = []
        self._workspaces: list[_Workspace] = []
        self._scratch_size, self._stride = operations.scratch_size(self.real), 0
        self._integers_size = 0  # elements of scratch memory for each row of a thread
        self._template = np.zeros(0, dtype=np.int64)
        self._relative: list[int] = []
        self._inputs: list[tuple[int, str]] = []  # words and names

    def region(self, width: int, *, per_thread: bool = False) -> Region:
        """Reserve ``width`` elements in each row's workspace, or, with ``per_thread``, for each thread of a team."""
        whole = -(-width * self._size // CACHE_LINE) * CACHE_LINE // self._size
        region = Region(self._width, whole if per_thread else 0)
        self._width += whole * (self.members if per_thread else 1)
        return region

    def add(self, name: str, *, barrier: bool = True, **operands: Any) -> None:
        """Append an operation; missing operands are 0. With ``barrier``, threads wait for each other after it."""
        unknown = operands.keys() - set(OPERATIONS[name][1])
        if unknown:
            raise TypeError(f"{name} has no operands {', '.join(sorted(unknown))}")
        self._instructions.append((name, barrier, operands))

    def reserve_integers(self, depth: int) -> None:
        """Reserve scratch memory for the left side of a quantized product."""
        size = quantized_gemm.instructions().row_bytes(depth) // self._size
        self._integers_size = max(self._integers_size, size)

    @property
    def stride(self) -> int:
        """Elements between workspaces: an odd number of cache lines, so that rows use different cache sets."""
        lines = self._width * self._size // CACHE_LINE
        return (lines + 1 - lines % 2) * CACHE_LINE // self._size

    def finalize(self) -> None:
        """Encode the instructions."""
        template = np.zeros(len(HEADER) + WIDTH * len(self._instructions), dtype=np.int64)
        template[0] = len(self._instructions)
        relative, inputs = [], []
        for index, (name, barrier, operands) in enumerate(self._instructions):
            start = len(HEADER) + index * WIDTH
            template[start : start + OPERANDS_START] = list(OPERATIONS).index(name), barrier
            for field, value in operands.items():
                word = start + OPERANDS_START + OPERATIONS[name][1].index(field)
                if isinstance(value, Region):
                    relative.append(word)
                    template[word] = value.offset * self._size
                elif isinstance(value, str) and value == "stride":
                    template[word] = self.stride
                elif isinstance(value, str):
                    inputs.append((word, value))
                elif isinstance(value, Tensor):
                    self._alive.append(value)
                    template[word] = value.data_ptr()
                else:
                    template[word] = value
        self._template, self._stride = template, self.stride
        self._relative, self._inputs = relative, inputs

    def run(self, rows: int, inputs: Mapping[str, int], *, scratch: int) -> None:
        """Run for a number of rows; ``inputs`` are addresses and numbers, ``scratch`` elements that attention needs."""
        try:
            workspace = self._workspaces.pop()
        except IndexError:  # all are in use by other threads
            workspace = _Workspace(self._template, self._relative, self.dtype)
        serial = self.members == 1 or rows * self.multiplications < SERIAL_LIMIT or not threads.can_team()
        members = 1 if serial else self.members
        needed = max(scratch, self._scratch_size + rows * self._integers_size)
        scratch_stride = -(-needed // CACHE_LINE) * CACHE_LINE
        workspaces_size = rows * self._stride
        table = workspace.table
        for word, name in self._inputs:
            table[word] = inputs[name]
        workspace.reserve(workspaces_size + members * scratch_stride)
        shared = members > 1 and rows < ROWS_PER_THREAD * members
        table[1], table[2], table[3] = rows, shared, workspace.scratch(workspaces_size)
        table[4], table[5] = scratch_stride, 0
        if members == 1:
            threads.function(_run(self.real))(workspace.address, 0, 0, 1)
        else:
            threads.run_team(_run(self.real), workspace.address, members)
        self._workspaces.append(workspace)


class _Workspace:
    """The instructions with addresses filled in, and the workspace of one run; kept for the next run."""

    def __init__(self, template: Integers, relative: list[int], dtype: torch.dtype) -> None:
        self.table = array("q", template.tobytes())  # an element is set in a third of the time of NumPy's arrays
        self.address = self.table.buffer_info()[0]
        self._relative, self._base = relative, 0
        self._memory = torch.empty(0, dtype=dtype)
        self._size = self._memory.element_size()

    def reserve(self, size: int) -> None:
        """Make sure that there are ``size`` elements."""
        if self._memory.numel() < size:
            self._memory = allocate(self._memory, size + size // 2)
            base = self._memory.data_ptr()
            for word in self._relative:
                self.table[word] += base - self._base
            self._base = base

    def scratch(self, offset: int) -> int:
        return self._base + offset * self._size
