"""A call of a kernel that is made again and again: the same shape, the same weights, no gradients."""

from collections.abc import Sequence
from time import perf_counter

from torch import Tensor

from seqloom.kernels.fuse.inference import InferenceCall
from seqloom.kernels.fuse.scan import FusedScan
from seqloom.kernels.runtime import threads
from seqloom.kernels.runtime.thread_choice import ThreadChoice


class RepeatedCall:
    """Calls with x (B, T, D) of one shape, contiguous, and with weights that stay where they are."""

    def __init__(
        self, kernel: FusedScan, shape: tuple[int, int, int], weights: Sequence[Tensor], *, reverse: bool
    ) -> None:
        batch, steps, size = shape
        self._kernel, self._weights, self._strides = kernel, weights, (size, steps * size)
        self._threads = threads.count()
        self._partitions = kernel.partitions(steps, batch, reverse=reverse)
        self._choice = ThreadChoice() if len(self._partitions) > 1 else None
        self._calls: tuple[list[InferenceCall], ...] = tuple([] for _ in self._partitions)  # that no thread uses

    def is_current(self) -> bool:
        """Whether there are as many threads as before."""
        return self._threads == threads.count()

    def __call__(self, x: int, initial: Sequence[Tensor], out: Tensor, final: Sequence[Tensor]) -> None:
        """Run the kernel for the x at this address. Other tensors are contiguous; their shapes are not checked."""
        choice = self._choice
        if choice is None:
            self._run(0, x, initial, out, final)
            return
        used_all = choice.use_all()
        start = perf_counter()
        self._run(int(used_all), x, initial, out, final)
        choice.record(perf_counter() - start, used_all=used_all)

    def _run(self, index: int, x: int, initial: Sequence[Tensor], out: Tensor, final: Sequence[Tensor]) -> None:
        calls, partition = self._calls[index], self._partitions[index]
        try:
            call = calls.pop()
        except IndexError:  # the first one, or all are in use by other threads
            call = self._kernel.inference_call()
            call.run(partition, (x, *self._strides), initial, self._weights, out, final)
        else:
            call.run_again(partition, x, initial, self._weights, out, final)
        calls.append(call)
