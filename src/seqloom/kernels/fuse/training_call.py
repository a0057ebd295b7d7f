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
        self._table = array("q", bytes(8 * len(kernel.positions)))
        self._alive: list[Tensor] = []  # tensors whose addresses the table holds
        self.address = self._table.buffer_info()[0]
        scratch = loan.borrow(partition.parts * size, x)
        self._set(partition.arguments)
        self._set({"chunk": chunk, "barrier": ctypes.addressof(self._barrier_counter)})
        self._set({"scratch": scratch.data_ptr(), "scratch_bytes": size * x.element_size()})
        self.set_tensors({"x": x, "projected": x, **tensors})
        self._sums: list[Tensor] = []
        if kernel.kind == "backward":
            self._sums = [allocate(x, layout.sums_size)]
            self._sums += [loan.borrow(layout.sums_size, x) for _ in range(partition.parts - 1)]
            self._addresses = (ctypes.c_int64 * partition.parts)(*[tensor.data_ptr() for tensor in self._sums])
            self._set({"sums": ctypes.addressof(self._addresses)})

    def _set(self, values: Mapping[str, int]) -> None:
        positions, table = self.kernel.positions, self._table
        for name, value in values.items():
            table[positions[name]] = value

    def set_tensors(self, tensors: Mapping[str, Tensor]) -> None:
        """Set arguments to the addresses of tensors, and to their strides; names that the kernel lacks are ignored."""
        positions, strides, table = self.kernel.positions, self.kernel.strides, self._table
        for name, tensor in tensors.items():
            if name in positions:
                table[positions[name]] = tensor.data_ptr()
            if name in strides:
                table[strides[name]], table[strides[name] + 1] = tensor.stride()[:2]
        self._alive += tensors.values()

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
            value = total.as_strided((rows, columns), (stride, 1), start)
            value = value.t() if deferred.swapped else value
            earlier = gradients.get(deferred.parameter)
            gradients[deferred.parameter] = value.contiguous() if earlier is None else earlier + value
        return gradients


def run(calls: Sequence[TrainingCall], workers: int) -> None:
    """Run calls that do not depend on each other; several are distributed to ``workers`` threads."""
    calls = [call for call in calls if not call.partition.empty]
    if len(calls) == 1:
        calls[0].kernel.run(calls[0].address, calls[0].partition)
        return
    jobs = [(call.kernel.address, call.address, part) for call in calls for part in range(call.partition.parts)]
    threads.run_jobs(jobs, workers)
