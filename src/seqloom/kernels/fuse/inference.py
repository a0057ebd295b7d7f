"""Calls of a kernel without gradients: what stays the same from call to call is kept."""

import ctypes
import sys
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from torch import Tensor

from seqloom.kernels.fuse.layout import ScratchLayout
from seqloom.kernels.fuse.symbols import Product
from seqloom.kernels.linalg import gemm
from seqloom.kernels.linalg.packed import PackedCache, PackedMatrix, pack, pack_transposed, packed_size
from seqloom.kernels.linalg.quantized import QuantizedMatrix
from seqloom.kernels.runtime import threads
from seqloom.kernels.runtime.buffers import Loan, allocate
from seqloom.kernels.runtime.partition import Partition

CHUNK_ROWS = {"forward": 128, "training": 128, "backward": 512}
"""Rows (of all steps of a chunk) whose input is projected, or whose gradients are multiplied, at once: they should fit
into the cache."""

PACKING_MIN = 4
"""Rows times steps below which packing a matrix takes longer than it saves."""

PACKING_MIN_STEPS = 48
"""The same for steps with one row, each of which reads a matrix once, packed or not: to find out whether the packed one
is still valid takes as long as a few of them."""

PACKING_MIN_BYTES = 3 * gemm.CORE_CACHE // 2
"""Size of a matrix up to which it is not packed for such steps, however many: read forwards and backwards in turn, most
of it is still in the cache."""

CACHED_ROWS = 512
"""Rows times steps up to which packed matrices are kept for the next call: packing takes a tenth of the time."""

KEPT_SCRATCH = 1 << 18
"""Elements of scratch memory that a call keeps for the next one; more are borrowed each time."""


@dataclass(frozen=True)
class Kernel:
    """A compiled scan and its calling convention."""

    kind: str  # forward, training or backward
    address: int
    positions: dict[str, int]  # of its arguments in the table
    layout: ScratchLayout
    products: list[tuple[int, Product]]  # with a matrix parameter, by their index

    @cached_property
    def strides(self) -> dict[str, int]:
        """Where the strides in time and in the batch of an argument are, which follow each other in the table."""
        ending = "_time"
        return {name[: -len(ending)]: at for name, at in self.positions.items() if name.endswith(ending)}

    def chunk(self, partition: Partition) -> int:
        """The number of steps of a chunk."""
        is_rounded = self.layout.words_per_pair != (0, 0)  # bfloat16 takes half the memory
        rows = CHUNK_ROWS[self.kind] * (2 if is_rounded else 1)
        return partition.steps_per_chunk(rows)

    def run(self, table: int, partition: Partition) -> None:
        """Run on the threads of the partition, with the argument table at this address."""
        if partition.empty:
            return
        if partition.members > 1:
            threads.run_team(self.address, table, partition.members)
        else:
            threads.run(self.address, table, partition.parts)


class Matrix:
    """A matrix parameter, as one product of a kernel uses it."""

    def __init__(self, name: str, parameter: int, *, transposed: bool, quantized: bool) -> None:
        self.name = name  # of the product
        self.parameter = parameter  # its index
        self.transposed = transposed
        self.quantized = quantized
        self.cache = PackedCache[PackedMatrix | QuantizedMatrix](
            QuantizedMatrix if quantized else pack_transposed if transposed else PackedMatrix
        )


class InferenceCall:
    """The argument table and scratch memory of a forward kernel. Not for two threads at once."""

    def __init__(self, kernel: Kernel, names: Sequence[str], matrices: list[Matrix]) -> None:
        self._kernel, self._names, self._matrices = kernel, names, matrices
        positions = kernel.positions
        self._table = array("q", bytes(8 * len(positions)))
        self.address = self._table.buffer_info()[0]
        self._function = threads.function(kernel.address)
        self._barrier = ctypes.c_int64(0)
        self._set("barrier", ctypes.addressof(self._barrier))
        self._x = positions["x"] if "x" in positions else positions["projected"]
        self._out, self._initial, self._final = (positions[name] for name in ("sequence 0", "initial 0", "final 0"))
        self._partition: Partition | None = None
        self._weights: list[int] = []  # addresses
        self._alive: list[Tensor] = []
        self._cached: list[tuple[Matrix, int]] = []  # matrices whose packed form is kept, and their arguments
        self._packed: list[tuple[Matrix, int]] = []  # matrices that are packed for each call
        self._scratch_size = 0
        self._is_single = False  # one thread, and no memory to borrow

    def _set(self, name: str, value: int) -> None:
        self._table[self._kernel.positions[name]] = value

    def run(
        self,
        partition: Partition,
        x: tuple[int, ...],  # address; with a linear projection also the strides in time and in the batch
        initial: Sequence[Tensor],
        weights: Sequence[Tensor],
        out: Tensor,
        final: Sequence[Tensor],
    ) -> None:
        """Run the kernel. All tensors but x are contiguous; their shapes are not checked."""
        addresses = [weight.data_ptr() for weight in weights]
        if partition is not self._partition or addresses != self._weights:
            self._prepare(partition, weights)
            self._partition, self._weights = partition, addresses
        self._table[self._x : self._x + len(x)] = array("q", x)
        self.run_again(partition, x[0], initial, weights, out, final)

    def run_again(
        self,
        partition: Partition,
        x: int,  # address
        initial: Sequence[Tensor],
        weights: Sequence[Tensor],
        out: Tensor,
        final: Sequence[Tensor],
    ) -> None:
        """The same if neither the partition, nor the strides of x, nor the addresses of the weights have changed."""
        table = self._table
        self.set_addresses(x, initial, out, final)
        for matrix, position in self._cached:
            weight = weights[matrix.parameter]
            # Comparing all values takes longer than one step, but less than packing them again.
            verify = partition.steps > 1 and not matrix.quantized  # quantized weights are not trained
            table[position] = matrix.cache(weight, verify=verify).values.data_ptr()
        if self._is_single:
            self._function(self.address, 0, 0, 1)
            return
        self._barrier.value = 0
        with Loan() as loan:
            if self._scratch_size:
                self._set("scratch", loan.borrow(self._scratch_size, out).data_ptr())
            for matrix, position in self._packed:
                weight = weights[matrix.parameter]
                values = weight.t() if matrix.transposed else weight
                packed = loan.borrow(packed_size(values), weight)
                pack(values, packed)
                table[position] = packed.data_ptr()
            self._kernel.run(self.address, partition)

    def prepare(self, partition: Partition, strides: Sequence[int], weights: Sequence[Tensor]) -> None:
        """Prepare a call of one step by other compiled code, with weights that do not change."""
        if partition.steps != 1:
            raise ValueError(f"there are {partition.steps} steps, expected 1: longer calls pack matrices each time")
        self._prepare(partition, weights, kept_scratch=sys.maxsize)
        self._table[self._x + 1 : self._x + 1 + len(strides)] = array("q", strides)
        for matrix, position in self._cached:
            packed = matrix.cache(weights[matrix.parameter], verify=False).values
            self._alive.append(packed)
            self._table[position] = packed.data_ptr()

    def set_addresses(self, x: int, initial: Sequence[Tensor], out: Tensor, final: Sequence[Tensor]) -> None:
        """Set what is different in each call."""
        table = self._table
        table[self._x] = x
        position = self._initial
        for tensor in initial:
            table[position] = tensor.data_ptr()
            position += 1
        table[self._out] = out.data_ptr()
        position = self._final
        for tensor in final:
            table[position] = tensor.data_ptr()
            position += 1

    def growth(self, x: int, fields: Sequence[int]) -> Iterator[tuple[int, int, int]]:
        """Yield the places of these addresses, one each, with the bytes by which x and the fields of the state move.

        The first field is also the output.
        """
        moves = [(self._x, x), (self._out, fields[0])]
        moves += [(start + index, size) for start in (self._initial, self._final) for index, size in enumerate(fields)]
        for word, size in moves:
            if size:
                yield self.address + 8 * word, 1, size

    def _prepare(self, partition: Partition, weights: Sequence[Tensor], *, kept_scratch: int = KEPT_SCRATCH) -> None:
        """Set what depends only on the shape of the batch and on where the weights are."""
        kernel, positions = self._kernel, self._kernel.positions
        chunk = kernel.chunk(partition)
        size = kernel.layout.size(partition.max_rows, chunk)
        for name, value in partition.arguments.items():
            self._set(name, value)
        self._set("chunk", chunk)
        self._set("scratch_bytes", size * weights[0].element_size())
        self._scratch_size = partition.parts * size
        self._alive = []
        if self._scratch_size <= kept_scratch:
            scratch = allocate(weights[0], self._scratch_size)
            self._alive.append(scratch)
            self._set("scratch", scratch.data_ptr())
            self._scratch_size = 0
        for name, weight in zip(self._names, weights, strict=True):
            if f"parameter {name}" in positions:
                self._set(f"parameter {name}", weight.data_ptr())
        self._cached, self._packed = [], []
        few = partition.steps * partition.max_rows < PACKING_MIN
        is_kept = partition.steps * partition.batch <= CACHED_ROWS or partition.steps == 1
        for matrix in self._matrices:
            weight = weights[matrix.parameter]
            is_small = weight.numel() * weight.element_size() <= PACKING_MIN_BYTES
            one = partition.max_rows == 1 and (is_small or partition.steps < PACKING_MIN_STEPS)
            dot = matrix.transposed and not matrix.quantized and (few or (one and matrix.name != "input"))
            self._set(f"matrix {matrix.name}", weight.data_ptr() if dot else 0)
            if not dot:
                packed = self._cached if is_kept or matrix.quantized else self._packed
                packed.append((matrix, positions[f"packed {matrix.name}"]))
        single = partition.parts * partition.members == 1 and not partition.empty
        self._is_single = single and not self._packed and not self._scratch_size
