"""Scans as a function that torch differentiates: one, or several over the same input, their outputs side by side."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch._C._functorch import is_legacy_batchedtensor

from seqloom.kernels.fuse.training_call import run
from seqloom.kernels.runtime.buffers import Loan, allocate
from seqloom.kernels.runtime.partition import Partition

if TYPE_CHECKING:
    from seqloom.kernels.fuse.scan import FusedScan

Scans = Sequence[tuple["FusedScan", Partition]]


class ScanFunction(torch.autograd.Function):
    """Arguments: scans, threads for several of them, x, then the initial state and the weights of each.

    Results: out (T, B, Σ n), then the final state of each.
    """

    @staticmethod
    def forward(ctx: Any, scans: Scans, workers: int, x: Tensor, *tensors: Tensor) -> Any:
        partition = scans[0][1]
        # Batch first in memory, as the layers that read it expect; not a view, which could not be changed in place.
        out = allocate(x, partition.steps, partition.batch, sum(_widths(scans)), order=(1, 0, 2))
        out = out.zero_() if partition.padded else out
        calls, last, kept = [], [], []
        # A mode such as Bfloat16Products costs as much as the calls it sees.
        with torch._C.DisableTorchFunction(), Loan() as loan:
            slices = _split(out, scans)
            for (fused, part), (state, weights), own in zip(scans, _by_scan(scans, tensors), slices, strict=True):
                call, final, saved = fused.training_call(part, x, state, weights, own, loan)
                calls.append(call)
                last += final
                kept += [*state, *saved, *weights]
            run(calls, workers)
        ctx.scans, ctx.workers = scans, workers
        ctx.save_for_backward(x, out, *kept)
        return out, *last

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        scans: Scans = ctx.scans
        x, out, *kept = ctx.saved_tensors
        is_twice = torch.is_grad_enabled() or any(map(is_legacy_batchedtensor, gradients))  # also is_grads_batched
        calls, results, x_gradients = [], [], []
        final_gradients = iter(gradients[1:])
        slices = zip(_split(out, scans), _split(gradients[0], scans), strict=True)
        with Loan() as loan:
            groups = _by_scan(scans, kept, per_field=2)
            for (fused, part), (values, weights), (own, gradient) in zip(scans, groups, slices, strict=True):
                count = len(fused.plan.traced.state_widths)
                own_gradients = gradient, *(next(final_gradients) for _ in range(count))
                if is_twice:
                    inputs = x, *values[:count], *weights
                    x_gradient, *rest = _differentiable_gradients(fused, part, inputs, own_gradients)
                    x_gradients.append(x_gradient)
                    results += rest
                    continue
                all_values = [*values[:count], own, *values[count:]]
                call, x_gradient, state_gradient = fused.backward_call(
                    part, x, all_values, weights, own_gradients, loan, needs_x_gradient=ctx.needs_input_grad[2]
                )
                x_gradients.append(x_gradient)
                calls.append((fused, call, state_gradient, weights))
            run([call for _, call, _, _ in calls], ctx.workers)
            for fused, call, state_gradient, weights in calls:
                results += [*state_gradient, *fused.parameter_gradients(call, weights)]
        return None, None, _sum(x_gradients), *results


def _sum(gradients: Sequence[Tensor | None]) -> Tensor | None:
    total, *others = gradients
    for other in others:
        total = other if total is None else total if other is None else total + other
    return total


def _widths(scans: Scans) -> list[int]:
    """The widths of the outputs."""
    return [fused.plan.traced.state_widths[0] for fused, _ in scans]


def _split(out: Tensor, scans: Scans) -> Sequence[Tensor]:
    """The outputs of each scan."""
    return (out,) if len(scans) == 1 else out.split(_widths(scans), dim=2)


def _by_scan(scans: Scans, tensors: Sequence[Tensor], per_field: int = 1) -> list[tuple[list[Tensor], list[Tensor]]]:
    """The tensors of each scan: some for each field of its state, then its weights."""
    groups, rest = [], [*tensors]
    for fused, _ in scans:
        count = per_field * len(fused.plan.traced.state_widths)
        end = count + len(fused.names)
        groups.append((rest[:count], rest[count:end]))
        rest = rest[end:]
    return groups


def _differentiable_gradients(
    fused: "FusedScan", partition: Partition, inputs: tuple[Tensor, ...], gradients: tuple[Tensor, ...]
) -> tuple[Tensor | None, ...]:
    """The gradients of x, the state and the parameters as functions that torch can differentiate again."""
    if partition.empty:
        states = len(fused.plan.traced.state_widths)
        zeros = [torch.zeros_like(tensor) for tensor in inputs]
        return zeros[0], *gradients[1:], *zeros[1 + states :]
    create_graph = torch.is_grad_enabled()
    with torch.enable_grad():
        # Views, so that a weight computed from x is not differentiated with respect to x here as well.
        x, *rest = views = [
            (tensor if tensor.requires_grad else tensor.detach().requires_grad_()).view_as(tensor) for tensor in inputs
        ]
        states = len(fused.plan.traced.state_widths)
        results = fused.loop(partition, x, tuple(rest[:states]), tuple(rest[states:]))
        return torch.autograd.grad(results, views, gradients, create_graph=create_graph, allow_unused=True)
