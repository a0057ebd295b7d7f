"""A short program of operations on the rows of a batch, run by one call without leaving it in between.

Every row has a strip of memory for what passes between operations. Threads share the columns of an operation and meet
after it where there are few rows; where there are many, each takes its own rows through the whole program.
"""

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import torch
from llvmlite import ir
from torch import Tensor

from seqloom.kernels import attend, gemm, machine, operations, threads
from seqloom.kernels.attend import LINE
from seqloom.kernels.buffers import fresh
from seqloom.kernels.emit import Emitter, Value, integer
from seqloom.kernels.operations import BEGIN
from seqloom.kernels.packed import REALS

OPERATIONS: dict[str, tuple[Callable[[ir.Module, str], None], tuple[str, ...]]] = {
    "linear": (operations.linear, operations.LINEAR),
    "norm": (operations.norm, operations.NORM),
    "look_up": (operations.look_up, operations.LOOK_UP),
    "log_softmax": (operations.log_softmax, operations.LOG_SOFTMAX),
    "attend": (attend.attend, attend.ATTEND),
}
HEADER = ("count", "rows", "shared", "scratch", "scratch_stride", "meeting")
WIDTH = BEGIN + max(len(fields) for _, fields in OPERATIONS.values())
"""Words of an instruction."""

FEW = 16
"""Rows for each thread from which on threads share rows instead of columns."""
ALONE = 1 << 21
"""Multiplications that are not worth a second thread."""
Integers = np.ndarray[Any, np.dtype[np.int64]]


@cache
def _run(real: str) -> int:
    symbols = {"multiply": gemm.products(real).multiply, "barrier": threads.assembly().barrier}
    return machine.load(f"program {real}", lambda: _emit(real), ("run",), **symbols)[0]


def _emit(real: str) -> str:
    module = ir.Module("program")
    for emit_operation, _ in OPERATIONS.values():
        emit_operation(module, real)
    emit = Emitter(module, "run", 4, real)
    table, _, member, members = emit.arguments
    builder = emit.builder
    count, rows, shared, scratch, stride = (emit.load_integer(table, index) for index in range(5))
    meeting = builder.add(table, integer(8 * HEADER.index("meeting")))
    own = emit.advance(scratch, builder.mul(member, stride))
    apart = builder.icmp_signed("==", shared, integer(0))
    low, high = emit.share(rows, member, members)

    def pick(alone: Value, together: Value) -> Value:
        return builder.select(apart, alone, together)

    chosen = (
        pick(low, integer(0)),
        pick(high, rows),
        pick(integer(0), member),
        pick(integer(1), members),
        own,
    )
    with emit.loop(0, count) as index:
        place = builder.add(integer(len(HEADER)), builder.mul(index, integer(WIDTH)))
        instruction = builder.add(table, builder.mul(place, integer(8)))
        number = emit.load_integer(instruction, 0)
        operations.choose(emit, number, list(OPERATIONS), (instruction, *chosen))
        meets = builder.icmp_signed("!=", emit.load_integer(instruction, 1), integer(0))
        with emit.when(builder.and_(meets, builder.not_(apart))):
            emit.call("barrier", meeting, members)
    emit.finish()
    return str(module)


class Place(NamedTuple):
    """Where something lies in a row's strip; ``own``: how far apart the copies of the members of a team are."""

    offset: int
    own: int = 0


class Program:
    """Instructions, put together once and run with other addresses every time.

    An operand is a number, a Place of the strip, a tensor, or the name of what is given at every run.
    """

    def __init__(self, dtype: torch.dtype, members: int) -> None:
        self.dtype, self.real, self.members = dtype, REALS[dtype], members
        self.work = 0  # multiplications for a row
        self._size = torch.finfo(dtype).bits // 8
        self._width = 0
        self._instructions: list[tuple[str, bool, Mapping[str, Any]]] = []
        self._alive: list[Tensor] = []
        self._benches: list[_Bench] = []
        self._room, self._stride = operations.room(self.real), 0
        self._template = np.zeros(0, dtype=np.int64)
        self._relative = np.zeros(0, dtype=np.int64)
        self._names: list[str] = []
        self._holes = np.zeros(0, dtype=np.int64)

    def place(self, width: int, *, own: bool = False) -> Place:
        """Room for ``width`` elements of each row, or for so many of each member."""
        whole = -(-width * self._size // LINE) * LINE // self._size
        found = Place(self._width, whole if own else 0)
        self._width += whole * (self.members if own else 1)
        return found

    def add(self, name: str, *, meet: bool = True, **operands: Any) -> None:
        """The next operation; those that are not given are 0. ``meet``: members wait for each other after it."""
        unknown = operands.keys() - set(OPERATIONS[name][1])
        if unknown:
            raise TypeError(f"{name} has no operands {', '.join(sorted(unknown))}")
        self._instructions.append((name, meet, operands))

    @property
    def stride(self) -> int:
        """Elements between strips: an odd number of lines, so that rows do not fall on the same ones of the cache."""
        lines = self._width * self._size // LINE
        return (lines + 1 - lines % 2) * LINE // self._size

    def finish(self) -> None:
        """Write the instructions down."""
        template = np.zeros(len(HEADER) + WIDTH * len(self._instructions), dtype=np.int64)
        template[0] = len(self._instructions)
        relative, names, holes = [], [], []
        for index, (name, meet, operands) in enumerate(self._instructions):
            start = len(HEADER) + index * WIDTH
            template[start : start + BEGIN] = list(OPERATIONS).index(name), meet
            for field, value in operands.items():
                word = start + BEGIN + OPERATIONS[name][1].index(field)
                if isinstance(value, Place):
                    relative.append(word)
                    template[word] = value.offset * self._size
                elif isinstance(value, str) and value == "stride":
                    template[word] = self.stride
                elif isinstance(value, str):
                    names.append(value)
                    holes.append(word)
                elif isinstance(value, Tensor):
                    self._alive.append(value)
                    template[word] = value.data_ptr()
                else:
                    template[word] = value
        self._template, self._names, self._stride = template, names, self.stride
        self._relative, self._holes = np.array(relative, dtype=np.int64), np.array(holes, dtype=np.int64)

    def run(self, rows: int, given: Mapping[str, int], *, scratch: int) -> None:
        """Run for so many rows; ``scratch``: elements that attention needs for itself."""
        try:
            bench = self._benches.pop()
        except IndexError:  # all are in use by other threads
            bench = _Bench(self._template, self._relative, self.dtype)
        alone = self.members == 1 or rows * self.work < ALONE or not threads.can_team()
        members = 1 if alone else self.members
        own = -(-max(scratch, self._room) // LINE) * LINE
        strips = rows * self._stride
        table = bench.table
        table[self._holes] = [given[name] for name in self._names]
        bench.reach(strips + members * own)
        shared = members > 1 and rows < FEW * members
        table[1:6] = rows, shared, bench.scratch(strips), own, 0
        if members == 1:
            threads.run(_run(self.real), bench.address, 1)
        else:
            threads.run_team(_run(self.real), bench.address, members)
        self._benches.append(bench)


class _Bench:
    """The memory of one run, kept for the next one."""

    def __init__(self, template: Integers, relative: Integers, dtype: torch.dtype) -> None:
        self.table = template.copy()
        self.address = self.table.ctypes.data
        self._relative, self._base = relative, 0
        self._memory = torch.empty(0, dtype=dtype)
        self._size = self._memory.element_size()

    def reach(self, size: int) -> None:
        """Make sure that there are so many elements."""
        if self._memory.numel() < size:
            self._memory = fresh(self._memory, size + size // 2)
            base = self._memory.data_ptr()
            self.table[self._relative] += base - self._base
            self._base = base

    def scratch(self, offset: int) -> int:
        return self._base + offset * self._size
