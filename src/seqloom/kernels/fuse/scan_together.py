"""Several scans over the same input at the same time, such as both directions of a bidirectional layer."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from torch import Tensor

from seqloom.kernels.fuse import scan as single
from seqloom.kernels.fuse.scan import FusedScan
from seqloom.kernels.fuse.scan_function import ScanFunction
from seqloom.kernels.runtime import threads
from seqloom.kernels.runtime.partition import Partition


class ScanInputs(NamedTuple):
    """One of the scans. Its kernel projects the input itself."""

    fused: FusedScan
    state: tuple[Tensor, ...]
    parameters: Mapping[str, Tensor]
    reverse: bool


def scan_together(
    scans: Sequence[ScanInputs],
    x: Tensor,  # (T, B, D)
    lengths: Tensor | None,  # (B,); all T if None
) -> tuple[Tensor, list[tuple[Tensor, ...]]]:  # (T, B, Σ n), zero in the padding; the last states
    """Run the scans with gradients, their outputs side by side; each thread works on a part of one of them."""
    x = (x if x.stride(-1) == 1 else x.contiguous()).resolve_neg()
    steps, batch = x.shape[:2]
    is_small = sum(scan.fused.multiplications(steps, batch) for scan in scans) < single.SERIAL_LIMIT
    workers = 1 if is_small else threads.count()
    # With whole rounds of parts, no thread waits for the others.
    parts = workers // len(scans) if workers % len(scans) == 0 else workers
    parts = max(1, min(batch, 1 if workers == 1 else parts))
    pairs, tensors = [], []
    for fused, state, parameters, reverse in scans:
        pairs.append((fused, Partition.create(steps, batch, lengths, reverse=reverse, parts=parts)))
        tensors += [*(field.contiguous().resolve_neg() for field in state), *fused.weights(x, parameters)]
    out, *final = ScanFunction.apply(pairs, workers, x, *tensors)
    fields = iter(final)
    return out, [tuple(next(fields) for _ in fused.plan.traced.state_widths) for fused, _ in pairs]
