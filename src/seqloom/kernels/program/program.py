"""A program: a sequence of operations on the rows of a batch that runs as one call of compiled code.

Every row has a workspace for intermediate results. With few rows, threads split the columns of each operation, with a
barrier after it; with many rows, each thread runs the whole program for its own rows (unless it calls other kernels,
which split the rows themselves). A program that ends with a choice of tokens can be repeated, step after step, within
one call.
"""

from array import array
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import torch
from llvmlite import ir
from torch import Tensor

from seqloom.kernels.linalg import gemm, quantized_gemm
from seqloom.kernels.linalg.packed import LLVM_TYPES
from seqloom.kernels.llvm import jit_cache
from seqloom.kernels.llvm.ir_builder import INTEGER, POINTER, Emitter, Value, integer
from seqloom.kernels.program import attention, choice, operations, source_attention
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
    "source_attention": (source_attention.source_attention, source_attention.SOURCE_ATTENTION_OPERANDS),
    "call": (operations.call, operations.CALL_OPERANDS),
    "choose": (choice.choose, choice.CHOICE_OPERANDS),
    "quantized_linear": (operations.quantized_linear, operations.LINEAR_OPERANDS),  # float32 only
}
HEADER = (
    *("count", "rows", "shared", "scratch", "scratch_stride", "barrier_counter"),
    *("steps", "done", "stop", "growing", "growing_count"),
)
STEPS, DONE, STOP, GROWING_START = (HEADER.index(name) for name in ("steps", "done", "stop", "growing"))
GROWING = ("address", "count", "increment")
"""Words of an entry of the list of numbers that grow from step to step."""
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
    _emit_growth(module, real)
    emit = Emitter(module, "run", 4, real)
    table, _, member, members = emit.arguments
    builder = emit.builder

    def header(name: str) -> Value:
        return builder.add(table, integer(8 * HEADER.index(name)))

    count, rows, shared, scratch, stride, steps = (
        emit.load_integer(header(name), 0) for name in (*HEADER[:5], "steps")
    )
    barrier_counter = header("barrier_counter")
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
    before = builder.block
    body, between, finished = (emit.function.append_basic_block(name) for name in ("step", "between", "finished"))
    builder.branch(body)
    builder.position_at_end(body)
    done = builder.phi(INTEGER)
    done.add_incoming(integer(0), before)
    with emit.loop(0, count) as index:
        word = builder.add(integer(len(HEADER)), builder.mul(index, integer(WIDTH)))
        instruction = builder.add(table, builder.mul(word, integer(8)))
        number = emit.load_integer(instruction, 0)
        operations.call_by_index(emit, number, _operations(real), (instruction, *arguments))
        has_barrier = builder.icmp_signed("!=", emit.load_integer(instruction, 1), integer(0))
        with emit.if_then(builder.and_(has_barrier, builder.not_(split_rows))):
            emit.call("barrier", barrier_counter, members)
    now_done = builder.add(done, integer(1))
    builder.cbranch(builder.icmp_signed("<", now_done, steps), between, finished)
    last_step = builder.block
    builder.position_at_end(between)
    is_first, has_team = builder.icmp_signed("==", member, integer(0)), builder.icmp_signed(">", members, integer(1))
    with emit.if_then(has_team):
        emit.call("barrier", barrier_counter, members)
    stop = emit.load_integer(header("stop"), 0)  # which no thread writes between the two barriers
    with emit.if_then(is_first):
        emit.call("grow", *(emit.load_integer(header(name), 0) for name in ("growing", "growing_count")))
    with emit.if_then(has_team):
        emit.call("barrier", barrier_counter, members)
    done.add_incoming(now_done, builder.block)
    builder.cbranch(builder.icmp_signed("==", stop, integer(0)), body, finished)
    after_growth = builder.block
    builder.position_at_end(finished)
    total = builder.phi(INTEGER)
    total.add_incoming(now_done, last_step)
    total.add_incoming(now_done, after_growth)
    with emit.if_then(builder.icmp_signed("==", member, integer(0))):
        builder.store(total, builder.inttoptr(header("done"), POINTER), align=8)
    emit.finish()
    return str(module)


def _emit_growth(module: ir.Module, real: str) -> None:
    """Add to each number of a list of (address, count, increment)."""
    emit = Emitter(module, "grow", 2, real)
    emit.function.linkage = "internal"
    entries, count = emit.arguments
    builder = emit.builder
    with emit.loop(0, count) as index:
        entry = builder.add(entries, builder.mul(index, integer(8 * len(GROWING))))
        address, numbers, increment = (emit.load_integer(entry, word) for word in range(len(GROWING)))
        with emit.loop(0, numbers) as number:
            pointer = builder.gep(builder.inttoptr(address, POINTER), [number], source_etype=INTEGER)
            builder.store(builder.add(builder.load(pointer, align=8, typ=INTEGER), increment), pointer, align=8)
    emit.finish()


class Region(NamedTuple):
    """A part of a row's workspace; ``thread_stride`` is the distance between the copies of the threads of a team."""

    offset: int
    thread_stride: int = 0


class Repetition(NamedTuple):
    """Several steps in one call: until one chooses a token at which ``choose`` stops, at most ``steps``."""

    steps: int
    growing: Mapping[str, int]  # inputs, with what is added to each from step to step
    numbers: Sequence[tuple[int, int, int]] = ()  # further ones: address of the first, how many, and what is added


class Program:
    """A list of instructions that is built once and run with different addresses every time.

    An operand is a number, a Region of the workspace, a tensor, or the name of an input that is passed to ``run``.
    The last instruction may be ``choose``, which runs in repetitions only; ``"stop"`` is where it stops them.
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
        self._choice_inputs: list[tuple[int, str]] = []  # those of ``choose``
        self._has_calls = False
        self._step_count = 0  # instructions before ``choose``
        self._stops: list[int] = []  # words with the address of the word of the header

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
        self._step_count = sum(name != "choose" for name, _, _ in self._instructions)
        self._relative, self._inputs, self._choice_inputs, self._stops = [], [], [], []
        for index, (name, barrier, operands) in enumerate(self._instructions):
            start = len(HEADER) + index * WIDTH
            template[start : start + OPERANDS_START] = list(OPERATIONS).index(name), barrier
            for field, value in operands.items():
                word = start + OPERANDS_START + OPERATIONS[name][1].index(field)
                if isinstance(value, Region):
                    self._relative.append(word)
                    template[word] = value.offset * self._size
                elif isinstance(value, str) and value == "stride":
                    template[word] = self.stride
                elif isinstance(value, str) and value == "stop":
                    self._stops.append(word)
                elif isinstance(value, str):
                    (self._choice_inputs if name == "choose" else self._inputs).append((word, value))
                elif isinstance(value, Tensor):
                    self._alive.append(value)
                    template[word] = value.data_ptr()
                else:
                    template[word] = value
        self._template, self._stride = template, self.stride
        self._has_calls = any(name == "call" for name, _, _ in self._instructions)

    def team(self, rows: int) -> int:
        """The number of threads for this many rows."""
        serial = self.members == 1 or rows * self.multiplications < SERIAL_LIMIT or not threads.can_team()
        return 1 if serial else self.members

    def run(self, rows: int, inputs: Mapping[str, int], *, scratch: int, repetition: Repetition | None = None) -> int:
        """Run for a number of rows; ``inputs`` are addresses and numbers, ``scratch`` elements that attention needs.

        Returns the number of steps.
        """
        try:
            workspace = self._workspaces.pop()
        except IndexError:  # all are in use by other threads
            workspace = _Workspace(self._template, self._relative, self._stops, self.dtype)
        members = self.team(rows)
        needed = max(scratch, self._scratch_size + rows * self._integers_size)
        scratch_stride = -(-needed // CACHE_LINE) * CACHE_LINE
        workspaces_size = rows * self._stride
        table = workspace.table
        for word, name in self._inputs:
            table[word] = inputs[name]
        workspace.reserve(workspaces_size + members * scratch_stride)
        shared = members > 1 and (self._has_calls or rows < ROWS_PER_THREAD * members)
        table[1], table[2], table[3] = rows, shared, workspace.scratch(workspaces_size)
        table[4], table[5] = scratch_stride, 0
        if repetition is None:
            table[0], table[STEPS] = self._step_count, 1
        else:
            growing = self._repeat(workspace, inputs, repetition)
            table[GROWING_START] = growing.buffer_info()[0]
        if members == 1:
            threads.function(_run(self.real))(workspace.address, 0, 0, 1)
        else:
            threads.run_team(_run(self.real), workspace.address, members)
        self._workspaces.append(workspace)
        return table[DONE]

    def _repeat(self, workspace: "_Workspace", inputs: Mapping[str, int], repetition: Repetition) -> "array[int]":
        """Set what only repetitions have; return the list of numbers that grow."""
        table = workspace.table
        for word, name in self._choice_inputs:
            table[word] = inputs[name]
        words = [*self._inputs, *self._choice_inputs]
        entries = [
            (workspace.address + 8 * word, 1, repetition.growing[name])
            for word, name in words
            if name in repetition.growing
        ]
        entries += repetition.numbers
        table[0], table[STEPS], table[STOP] = len(self._instructions), repetition.steps, 0
        table[GROWING_START + 1] = len(entries)
        return array("q", [number for entry in entries for number in entry])


class _Workspace:
    """The instructions with addresses filled in, and the workspace of one run; kept for the next run."""

    def __init__(self, template: Integers, relative: list[int], stops: list[int], dtype: torch.dtype) -> None:
        self.table = array("q", template.tobytes())  # an element is set in a third of the time of NumPy's arrays
        self.address = self.table.buffer_info()[0]
        for word in stops:
            self.table[word] = self.address + 8 * STOP
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
