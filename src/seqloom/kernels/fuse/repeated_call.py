"""A call of a kernel that is made again and again: the same shape, the same weights, no gradients."""

from collections.abc import Sequence
from time import perf_counter

from torch import Tensor

from seqloom.kernels.fuse.inference import InferenceCall
from seqloom.kernels.fuse.scan import TEAM_MIN, FusedScan
from seqloom.kernels.runtime import threads
from seqloom.kernels.runtime.thread_choice import ThreadChoice


class RepeatedCall:
    """Calls with x (B, T, D) of one shape, contiguous, and with weights that stay where they are."""

    def __init__(
        self, kernel: FusedScan, shape: tuple[int, int, int], weights: Sequence[Tensor], *, reverse: bool
    ) -> None:
        batch, steps, size = shape
        self._kernel, self._weights, self._strides = kernel, weights, (size, steps * size)
        # One thread is enough for little work, however many there are.
        self._threads = 0 if kernel.multiplications(steps, batch) < TEAM_MIN else threads.count()
        self._partitions = kernel.partitions(steps, batch, reverse=reverse)
        self._choice = ThreadChoice() if len(self._partitions) > 1 else None
        self._calls: tuple[list[InferenceCall], ...] = tuple([] for _ in self._partitions)  # that no thread uses

    def is_current(self) -> bool:
        """Whether the work would be split between as many threads as before."""
        return not self._threads or self._threads == threads.count()

    def __call__(self, x: int, initial: Sequence[Tensor], out: Tensor, final: Sequence[Tensor]) -> None:
        """Run the kernel for the x at this address. Other tensors are contiguous; their shapes are not checked."""
        choice = self._choice
        used_all = choice is not None and choice.use_all()
        start = perf_counter()
        calls, partition = self._calls[used_all], self._partitions[used_all]
        try:
            call = calls.pop()
        except IndexError:  # the first one, or all are in use by other threads
            call = self._kernel.inference_call()
            call.run(partition, (x, *self._strides), initial, self._weights, out, final)
        else:
            call.run_again(partition, x, initial, self._weights, out, final)
        calls.append(call)
        if choice is not None:
            choice.record(perf_counter() - start, used_all=used_all)
