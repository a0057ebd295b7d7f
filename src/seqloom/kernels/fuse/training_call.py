"""Calls of the kernels of training: their arguments, and the gradients of the parameters that they sum up."""

import ctypes
from array import array
from collections.abc import Mapping, Sequence

from torch import Tensor

from seqloom.kernels.fuse.inference import Kernel
from seqloom.kernels.fuse.plan import Plan
from seqloom.kernels.runtime import threads
from seqloom.kernels.runtime.buffers import Loan, allocate
from seqloom.kernels.runtime.partition import Partition


class TrainingCall:
    """One call of a training or backward kernel. Its memory is borrowed until the loan ends."""

    def __init__(
        self,
        kernel: Kernel,
        partition: Partition,
        x: Tensor,  # (T, B, n)
        tensors: Mapping[str, Tensor],  # by the name of the argument
        loan: Loan,
    ) -> None:
        self.kernel, self.partition = kernel, partition
        layout, chunk = kernel.layout, kernel.chunk(partition)
        size = layout.size(partition.max_rows, chunk)
        self._barrier_counter = ctypes.c_int64(0)
        self._table = _ArgumentTable(kernel.positions)
        self._table.set(partition.arguments, chunk=chunk, barrier=ctypes.addressof(self._barrier_counter))
        scratch = loan.borrow(partition.parts * size, x)
        self._table.set(scratch=scratch.data_ptr(), scratch_bytes=size * x.element_size())
        self._table.set_tensors({"x": x, "projected": x, **tensors})
        self._sums: list[Tensor] = []
        if kernel.kind == "backward":
            self._sums = [allocate(x, layout.sums_size)]
            self._sums += [loan.borrow(layout.sums_size, x) for _ in range(partition.parts - 1)]
            self._addresses = (ctypes.c_int64 * partition.parts)(*[tensor.data_ptr() for tensor in self._sums])
            self._table.set(sums=ctypes.addressof(self._addresses))

    def set_tensors(self, tensors: Mapping[str, Tensor]) -> None:
        """Set further arguments."""
        self._table.set_tensors(tensors)

    def write(self) -> int:
        """The address of the argument table."""
        return self._table.write()

    def parameter_gradients(self, plan: Plan) -> dict[str, Tensor]:
        """The gradients after the call of a backward kernel: views of the sums of all parts."""
        layout = self.kernel.layout
        total, *others = self._sums
        if self.partition.empty:
            total.zero_()
            others = []
        for other in others:
            total += other[: layout.sums_size]
        gradients = {name: total[offset : offset + size] for name, offset, size in plan.vector_gradients}
        for deferred, start, stride in zip(plan.deferred, layout.sum_starts, layout.sum_strides, strict=True):
            rows, columns = deferred.left.size, deferred.right.size
            value = total[start : start + rows * stride].view(rows, stride)[:, :columns]
            value = value.t() if deferred.swapped else value
            earlier = gradients.get(deferred.parameter)
            gradients[deferred.parameter] = value.contiguous() if earlier is None else earlier + value
        return gradients


def run(calls: Sequence[TrainingCall], workers: int) -> None:
    """Run calls that do not depend on each other; several are distributed to ``workers`` threads."""
    calls = [call for call in calls if not call.partition.empty]
    tables = [call.write() for call in calls]
    if len(calls) == 1:
        calls[0].kernel.run(tables[0], calls[0].partition)
        return
    jobs = [
        (call.kernel.address, table, part)
        for call, table in zip(calls, tables, strict=True)
        for part in range(call.partition.parts)
    ]
    threads.run_jobs(jobs, workers)


class _ArgumentTable:
    """The argument table of one call of a kernel; keeps the tensors alive whose addresses it holds."""

    def __init__(self, positions: dict[str, int]) -> None:
        self._positions = positions
        self._values = dict.fromkeys(positions, 0)  # in the order of the table
        self._memory: array[int]
        self._alive: list[Tensor] = []

    def set(self, values: Mapping[str, int] | None = None, **more: int) -> None:
        """Set arguments by name."""
        self._values.update(values or (), **more)

    def set_tensors(self, tensors: Mapping[str, Tensor]) -> None:
        """Set arguments to the addresses of tensors, and to their strides; unknown names are ignored."""
        for name, tensor in tensors.items():
            if name not in self._values:
                continue
            self._values[name] = tensor.data_ptr()
            self._alive.append(tensor)
            if f"{name}_time" in self._values:
                self._values[f"{name}_time"], self._values[f"{name}_row"] = tensor.stride()[:2]

    def write(self) -> int:
        """Write the arguments to memory and return its address."""
        if len(self._values) != len(self._positions):
            raise KeyError(*self._values.keys() - self._positions.keys())
        self._memory = array("q", list(self._values.values()))
        return self._memory.buffer_info()[0]
