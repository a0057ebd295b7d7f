"""A step function fused over time: traced, planned and compiled once, then called like a layer."""

import ctypes
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from seqloom.kernels import code, gemm, machine, threads
from seqloom.kernels.buffers import borrow, fresh
from seqloom.kernels.memory import Layout, arguments, products
from seqloom.kernels.packed import Kept
from seqloom.kernels.plan import Plan, plan
from seqloom.kernels.symbols import Unfusable
from seqloom.kernels.trace import StepFunction, trace
from seqloom.kernels.work import Work

__all__ = ["Fused", "Unfusable", "fuse"]

REALS = {torch.float32: "float", torch.float64: "double"}

SMALL = 2_000_000
"""Multiplications below which a second thread costs more than it brings."""

CHUNK = {"forward": 128, "training": 128, "backward": 512}
"""Rows whose input is projected, or whose gradients are multiplied, at once: they should fit into the cache."""

FEW = 4
"""Rows times steps below which packing a matrix costs more than it brings."""


def fuse(
    step: StepFunction,
    parameters: Mapping[str, Tensor],
    *,
    projected: int,  # width of the projected input
    state: tuple[int, ...],  # widths of the state's fields
    linear: str | None = None,
) -> "Fused":
    """Derive a kernel from ``step``; raises ``Unfusable`` with the reason where that is not possible.

    With ``linear``, the name of a matrix parameter (projected, input), the kernel multiplies the input with it, too.
    """
    dtypes = {parameter.dtype for parameter in parameters.values()}
    if len(dtypes) != 1 or not dtypes <= REALS.keys():
        raise Unfusable(f"parameters are {', '.join(sorted(map(str, dtypes)))}, not all float32 or all float64")
    devices = {parameter.device.type for parameter in parameters.values()}
    if devices != {"cpu"}:
        raise Unfusable(f"parameters are on {', '.join(sorted(devices))}, not on the CPU")
    real = REALS[dtypes.pop()]
    program = trace(step, parameters, projected, state)
    size = parameters[linear].shape[1] if linear else 0
    return Fused(plan(program, linear=linear, input_size=size, narrow=gemm.lanes(real)), real)


@dataclass(frozen=True)
class Kernel:
    """Compiled code, and what it wants."""

    kind: str  # forward, training or backward
    address: int
    positions: dict[str, int]  # of its arguments
    layout: Layout
    products: list[int]

    def run(self, table: "_Table", work: Work) -> None:
        """Do the work, with as many threads as it was shared out to."""
        if work.empty:
            return
        if work.members > 1:
            threads.run_team(self.address, table.address, work.members)
        else:
            threads.run(self.address, table.address, work.parts)


class Fused:
    """The kernels of one step function for one floating type."""

    def __init__(self, plan: Plan, real: str) -> None:
        self.plan = plan
        self.real = real
        self.names = tuple(plan.program.parameter_gradient)
        sizes = sum(plan.program.products[index].size for index in plan.forward_products)
        self._multiplications = sizes * max(plan.program.state)  # of one row at one step
        self._kernels: dict[str, Kernel] = {}
        self._kept: dict[str, Kept] = {}

    @cached_property
    def _key(self) -> str:
        return f"{self.real} {self.plan.describe()}"

    def kernel(self, kind: str) -> Kernel:
        """The forward, training or backward kernel, compiled if that was never done before."""
        if kind not in self._kernels:
            (address,) = machine.load(
                f"{kind} {self._key}",
                lambda: code.emit(self.plan, kind, self.real),
                ("scan",),
                **gemm.products(self.real)._asdict(),
                barrier=threads.assembly().barrier,
            )
            self._kernels[kind] = Kernel(
                kind=kind,
                address=address,
                positions={name: index for index, name in enumerate(arguments(self.plan, kind))},
                layout=Layout(self.plan, kind, self.real),
                products=products(self.plan, kind),
            )
        return self._kernels[kind]

    def __call__(
        self,
        x: Tensor,  # (T, B, D) with a linear projection, else projected already: (T, B, P)
        state: tuple[Tensor, ...],
        parameters: Mapping[str, Tensor],
        *,
        lengths: Tensor | None = None,  # (B,); all T if None
        reverse: bool = False,
    ) -> tuple[Tensor, tuple[Tensor, ...]]:  # (T, B, n) of the first field, zero in the padding; the last state
        """Run the step over time."""
        steps, batch = x.shape[:2]
        workers = 1 if steps * batch * self._multiplications < SMALL else threads.count()
        team = batch < workers and self.plan.shareable and threads.can_team()
        parts = 1 if team else max(1, min(workers, batch))
        work = Work.share(steps, batch, lengths, reverse=reverse, parts=parts, members=workers if team else 1)
        weights = [parameters[name] for name in self.names]
        if x.stride(-1) != 1 or not self.plan.linear:
            x = x.contiguous()
        tensors = (x, *state, *weights)
        if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors):
            out, *final = _Scan.apply(self, work, *tensors)
        else:
            out, final, _ = self.forward("forward", work, x, state, weights)
        return out, tuple(final)

    def forward(
        self, kind: str, work: Work, x: Tensor, state: tuple[Tensor, ...], weights: list[Tensor]
    ) -> tuple[Tensor, list[Tensor], list[Tensor]]:  # out, final state, and what the gradient needs
        program = self.plan.program
        shape = work.steps, work.batch
        initial = [tensor.contiguous() for tensor in state]
        # Rows without any step keep their state.
        final = [tensor.clone() if work.padded or not work.steps else torch.empty_like(tensor) for tensor in initial]
        out = _sequence(x, work, program.state[0])
        kept = []
        if kind == "training":
            kept = [fresh(x, *shape, size) for size in (*program.state[1:], self.plan.saved_width)]
        tensors = {"sequence 0": out, "saved": kept[-1]} if kept else {"sequence 0": out}
        tensors |= _numbered("sequence", kept[:-1], start=1)
        tensors |= _numbered("initial", initial) | _numbered("final", final)
        self._run(kind, work, x, tensors, weights)
        return out, final, [*initial, out, *kept]

    def backward(
        self,
        work: Work,
        x: Tensor,
        kept: list[Tensor],  # initial state, sequences of the state, saved values
        weights: list[Tensor],
        gradients: tuple[Tensor, ...],  # of out and of the final state
        *,
        wanted: bool,  # the gradient of x
    ) -> tuple[Tensor | None, list[Tensor], list[Tensor | None]]:
        count = len(self.plan.program.state)
        initial, sequences, saved = kept[:count], kept[count : 2 * count], kept[2 * count]
        out_gradient, *final_gradient = [gradient.contiguous() for gradient in gradients]
        initial_gradient = [gradient.clone() for gradient in final_gradient]
        x_gradient = None
        tensors = {"saved": saved, "out_gradient": out_gradient}
        if wanted or not self.plan.linear:
            x_gradient = _sequence(x, work, x.shape[2])
            tensors["x_gradient" if self.plan.linear else "projected_gradient"] = x_gradient
        tensors |= _numbered("initial", initial) | _numbered("sequence", sequences)
        tensors |= _numbered("final_gradient", final_gradient) | _numbered("initial_gradient", initial_gradient)
        found = self._run("backward", work, x, tensors, weights)
        return (
            x_gradient,
            initial_gradient,
            [
                found[name].reshape(weight.shape) if name in found else None
                for name, weight in zip(self.names, weights, strict=True)
            ],
        )

    def _parameter_gradients(self, sums: list[Tensor], layout: Layout) -> dict[str, Tensor]:
        """Gradients from what the parts have summed up, which becomes their memory."""
        total = sums[0]
        for other in sums[1:]:
            total += other[: layout.sum]
        found = {name: total[offset : offset + size] for name, offset, size in self.plan.columns}
        for deferred, start in zip(self.plan.deferred, layout.sums, strict=True):
            rows, columns = deferred.left.size, deferred.right.size
            width = gemm.panel(self.real) * gemm.panels(self.real, columns)
            value = total[start : start + rows * width].view(rows, width)[:, :columns]
            value = value.t() if deferred.swapped else value
            earlier = found.get(deferred.parameter)
            found[deferred.parameter] = value.contiguous() if earlier is None else earlier + value
        return found

    def _run(
        self, kind: str, work: Work, x: Tensor, tensors: dict[str, Tensor], weights: list[Tensor]
    ) -> dict[str, Tensor]:
        """Call a kernel; the gradients of the parameters come back if it is the backward one."""
        kernel = self.kernel(kind)
        layout = kernel.layout
        chunk = work.chunk(CHUNK[kind])
        size = layout.size(work.rows, chunk)
        meeting = ctypes.c_int64(0)
        table = _Table(kernel.positions)
        table.update(work.arguments, chunk=chunk, barrier=ctypes.addressof(meeting))
        with ExitStack() as stack:
            scratch = stack.enter_context(borrow(work.parts * size, x))
            table.update(scratch=scratch.data_ptr(), scratch_bytes=size * x.element_size())
            named = {name: weight.contiguous() for name, weight in zip(self.names, weights, strict=True)}
            table.point(tensors)
            table.point({f"parameter {name}": tensor for name, tensor in named.items()})
            if self.plan.linear:
                table.update(x=x.data_ptr(), x_time=x.stride(0), x_row=x.stride(1))
            else:
                table.point({"projected": x})
            self._matrices(kernel, work, table, named, stack)
            if kind != "backward":
                kernel.run(table, work)
                return {}
            if "x_gradient" in tensors:
                time, row, _ = tensors["x_gradient"].stride()
                table.update(x_gradient_time=time, x_gradient_row=row)
            sums = [fresh(x, layout.sum)]
            sums += [stack.enter_context(borrow(layout.sum, x)) for _ in range(work.parts - 1)]
            places = (ctypes.c_int64 * work.parts)(*[tensor.data_ptr() for tensor in sums])
            table.update(sums=ctypes.addressof(places))
            kernel.run(table, work)
            if work.empty:
                sums = [tensor.zero_() for tensor in sums]
            return self._parameter_gradients(sums, layout)

    def _matrices(
        self, kernel: Kernel, work: Work, table: "_Table", weights: dict[str, Tensor], stack: ExitStack
    ) -> None:
        """Matrices as the kernel wants them: packed in panels, or as they are where that takes longer than it saves."""
        chosen = [(str(index), self.plan.program.products[index]) for index in kernel.products]
        matrices = {name: (weights[product.matrix], product.transposed) for name, product in chosen}
        if self.plan.linear:
            matrices["input"] = weights[self.plan.linear], kernel.kind != "backward"
        few = kernel.kind == "forward" and work.steps * work.rows < FEW
        if few and all(transposed for _, transposed in matrices.values()):
            table.update(dot=1)
            table.point({f"matrix {name}": weight for name, (weight, _) in matrices.items()})
            return
        for name, (weight, transposed) in matrices.items():
            matrix = weight.t() if transposed else weight
            if kernel.kind == "backward" and matrix.shape[1] < gemm.lanes(self.real):
                table.point({f"packed {name}": matrix.t().contiguous()})
                continue
            if kernel.kind == "forward" and work.steps == 1:
                kept = self._kept.setdefault(name, Kept())(weight, transposed=transposed)  # packing outlasts a step
                table.point({f"packed {name}": kept.values})
                continue
            size = matrix.shape[0] * gemm.panels(self.real, matrix.shape[1]) * gemm.panel(self.real)
            packed = stack.enter_context(borrow(size, matrix))
            pack(matrix, packed, self.real)
            table.point({f"packed {name}": packed})

    def forget(self) -> None:
        """Give back the memory of packed matrices."""
        self._kept.clear()


def pack(matrix: Tensor, packed: Tensor, real: str) -> None:
    """Write the matrix (depth, columns) in panels of columns."""
    depth, columns = matrix.shape
    panels = gemm.panels(real, columns)
    gemm.call(real, "pack")(matrix.data_ptr(), *matrix.stride(), depth, columns, packed.data_ptr(), 0, panels)


def _sequence(like: Tensor, work: Work, size: int) -> Tensor:
    """(T, B, size), zero where a row has ended."""
    tensor = fresh(like, work.steps, work.batch, size)
    return tensor.zero_() if work.padded else tensor


class _Table:
    """The arguments of one call of a kernel. It keeps alive what it points to."""

    def __init__(self, positions: dict[str, int]) -> None:
        self._positions = positions
        self._values = (ctypes.c_int64 * len(positions))()
        self._alive: list[Tensor] = []

    @property
    def address(self) -> int:
        return ctypes.addressof(self._values)

    def update(self, known: Mapping[str, int] | None = None, **more: int) -> None:
        """Set arguments by name."""
        for name, value in (*(known or {}).items(), *more.items()):
            self._values[self._positions[name]] = value

    def point(self, tensors: Mapping[str, Tensor]) -> None:
        """Set arguments to the addresses of tensors; those that the kernel does not want are left out."""
        for name, tensor in tensors.items():
            position = self._positions.get(name)
            if position is not None:
                self._values[position] = tensor.data_ptr()
                self._alive.append(tensor)


def _numbered(name: str, tensors: list[Tensor], start: int = 0) -> dict[str, Tensor]:
    return {f"{name} {index}": tensor for index, tensor in enumerate(tensors, start)}


class _Scan(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, fused: Fused, work: Work, x: Tensor, *tensors: Tensor) -> Any:
        count = len(fused.plan.program.state)
        state, weights = tensors[:count], list(tensors[count:])
        out, final, kept = fused.forward("training", work, x, state, weights)
        ctx.fused, ctx.work = fused, work
        ctx.save_for_backward(x if fused.plan.linear else out, *kept, *weights)
        return out, *final

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        fused: Fused = ctx.fused
        x, *rest = ctx.saved_tensors
        count = 2 * len(fused.plan.program.state) + 1
        if not fused.plan.linear:
            x = x.new_empty(*x.shape[:2], fused.plan.program.projected)
        wanted = ctx.needs_input_grad[2]
        x_gradient, state, found = fused.backward(ctx.work, x, rest[:count], rest[count:], gradients, wanted=wanted)
        return None, None, x_gradient, *state, *found
