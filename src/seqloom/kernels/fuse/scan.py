"""A step function fused into a loop over time: traced, planned and compiled once, then called like a layer."""

import ctypes
from array import array
from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from threading import Lock
from typing import Any

import torch
from torch import Tensor
from torch._C._functorch import is_legacy_batchedtensor
from torch.nn import functional

from seqloom.kernels.fuse import codegen
from seqloom.kernels.fuse.inference import InferenceCall, Kernel, Matrix
from seqloom.kernels.fuse.layout import NO_ROUNDING, Rounding, ScratchLayout, arguments, matrix_products
from seqloom.kernels.fuse.plan import Plan, plan
from seqloom.kernels.fuse.symbols import Impure, Unfusable
from seqloom.kernels.fuse.trace import StepFunction, trace
from seqloom.kernels.linalg import bfloat16_gemm, gemm, quantized_gemm
from seqloom.kernels.linalg.bfloat16 import Bfloat16Matrix
from seqloom.kernels.linalg.packed import LLVM_TYPES, PackedCache, pack, packed_size
from seqloom.kernels.llvm import jit_cache
from seqloom.kernels.runtime import threads
from seqloom.kernels.runtime.buffers import Loan, allocate
from seqloom.kernels.runtime.partition import Partition

__all__ = ["FusedScan", "Impure", "Unfusable", "fuse"]

SERIAL_LIMIT = 2_000_000
"""Multiplications below which one thread is faster than several."""

TEAM_MIN = 200_000
"""Multiplications below which it is not worth trying whether several are faster."""


def fuse(
    step: StepFunction,
    parameters: Mapping[str, Tensor],
    *,
    projected: int,  # width of the projected input
    state: tuple[int, ...],  # widths of the state's fields
    linear: str | None = None,
    quantized: Collection[str] = (),
    bfloat16: bool = False,
) -> "FusedScan":
    """Compile a step function into a kernel; raises ``Unfusable`` with the reason where that is not possible.

    ``linear`` names the matrix parameter (projected, input) with which the kernel projects its input itself.
    ``quantized`` names matrix parameters with which the kernel multiplies in int8 where no gradient is needed.
    With ``bfloat16`` it multiplies with all of them in bfloat16 where one is needed.
    """
    dtypes = {parameter.dtype for parameter in parameters.values()}
    if len(dtypes) != 1 or not dtypes <= LLVM_TYPES.keys():
        raise Unfusable(f"parameters are {', '.join(sorted(map(str, dtypes)))}, not all float32 or all float64")
    devices = {parameter.device.type for parameter in parameters.values()}
    if devices != {"cpu"}:
        raise Unfusable(f"parameters are on {', '.join(sorted(devices))}, not on the CPU")
    real = LLVM_TYPES[dtypes.pop()]
    traced = trace(step, parameters, projected, state)
    size = parameters[linear].shape[1] if linear else 0
    shapes = [parameter.shape for parameter in parameters.values()]
    planned = plan(traced, linear=linear, input_size=size, narrow=gemm.lanes(real))
    is_single = real == "float"
    return FusedScan(
        planned, real, step, shapes, quantized=quantized if is_single else (), bfloat16=bfloat16 and is_single
    )


class FusedScan:
    """The kernels of one step function for one floating-point type."""

    def __init__(
        self,
        plan: Plan,
        real: str,
        step: StepFunction,
        shapes: list[torch.Size],
        *,
        quantized: Collection[str],  # matrix parameters
        bfloat16: bool,
    ) -> None:
        self.plan = plan
        self.quantized = _quantized_products(plan, quantized)
        self.real = real
        self._step = step
        self._step_lock = Lock()
        self.shapes = shapes
        self.names = tuple(plan.traced.parameter_gradient)
        sizes = sum(plan.traced.products[index].size for index in plan.forward_products)
        self._multiplications = sizes * max(plan.traced.state_widths)  # of one row at one step
        self.bfloat16 = bfloat16
        self._bfloat16_matrices: dict[tuple[str, bool], PackedCache[Bfloat16Matrix]] = {}
        self._kernels: dict[str, Kernel] = {}
        self._matrices: list[Matrix] = []
        self._calls: list[InferenceCall] = []  # that no thread uses

    @cached_property
    def _key(self) -> str:
        return f"{self.real} {self.plan.describe()}"

    def kernel(self, kind: str) -> Kernel:
        """The forward, training or backward kernel, compiled on first use."""
        if kind not in self._kernels:
            rounding = self._rounding(kind)
            products = gemm.functions(self.real)._asdict()
            if rounding.products and rounding.precision == "bfloat16":
                products |= bfloat16_gemm.functions()._asdict()
            elif rounding.products:
                products |= quantized_gemm.functions(quantized_gemm.instructions())._asdict()
            (address,) = jit_cache.load(
                f"{kind} {rounding.precision} {sorted(rounding.products)} {self._key}",
                lambda: codegen.emit(self.plan, kind, self.real, rounding),
                ("scan",),
                **products,
                barrier=threads.functions().barrier,
            )
            self._kernels[kind] = Kernel(
                kind=kind,
                address=address,
                positions={name: index for index, name in enumerate(arguments(self.plan, kind))},
                layout=ScratchLayout(self.plan, kind, self.real, rounding),
                products=matrix_products(self.plan, kind),
            )
        return self._kernels[kind]

    def _rounding(self, kind: str) -> Rounding:
        """The products of a kernel that multiply rounded numbers."""
        if kind == "forward":
            return Rounding(self.quantized, "int8")
        if not self.bfloat16:
            return NO_ROUNDING
        indexed = [str(index) for index, _ in matrix_products(self.plan, kind)]
        return Rounding(frozenset([*indexed, *(["input"] if self.plan.linear else [])]), "bfloat16")

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
        partition = self.partition(steps, batch, lengths, reverse=reverse)
        weights = [parameters[name] for name in self.names]
        dtype = x.dtype
        if [weight.shape for weight in weights] != self.shapes or any(weight.dtype is not dtype for weight in weights):
            self._report_parameters(x, weights)
        if x.stride(-1) != 1 or not self.plan.linear:
            x = x.contiguous()
        x = x.resolve_neg()
        state = tuple([tensor.contiguous().resolve_neg() for tensor in state])
        tensors = (x, *state, *weights)
        if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors):
            out, *final = _Scan.apply(self, partition, *tensors)
            return out, tuple(final)
        out = _sequence(x, partition, self.plan.traced.state_widths[0])
        final = _final(partition, state)
        strides = x.stride()[:2] if self.plan.linear else ()
        weights = [weight.contiguous() for weight in weights]
        self.infer(partition, (x.data_ptr(), *strides), state, weights, out, final)
        return out, tuple(final)

    def partition(self, steps: int, batch: int, lengths: Tensor | None, *, reverse: bool) -> Partition:
        """How the rows are split between threads."""
        is_small = self.multiplications(steps, batch) < SERIAL_LIMIT
        return self._partition(steps, batch, lengths, reverse=reverse, workers=1 if is_small else threads.count())

    def partitions(self, steps: int, batch: int, *, reverse: bool) -> list[Partition]:
        """The same; where several threads would share one row, also for one thread, with the same result."""
        if batch > 1 or self.multiplications(steps, batch) < TEAM_MIN:
            return [self.partition(steps, batch, None, reverse=reverse)]
        alone, team = (
            self._partition(steps, batch, None, reverse=reverse, workers=workers) for workers in (1, threads.count())
        )
        return [alone, team] if team.members > 1 else [alone]

    def multiplications(self, steps: int, batch: int) -> int:
        """About how many there are in the products of a call."""
        return steps * batch * self._multiplications

    def _partition(self, steps: int, batch: int, lengths: Tensor | None, *, reverse: bool, workers: int) -> Partition:
        team = batch < workers and self.plan.shareable and threads.can_team()
        parts = 1 if team else max(1, min(workers, batch))
        return Partition.create(steps, batch, lengths, reverse=reverse, parts=parts, members=workers if team else 1)

    def infer(
        self,
        partition: Partition,
        x: tuple[int, ...],  # address; with a linear projection also the strides in time and in the batch
        initial: Sequence[Tensor],
        weights: Sequence[Tensor],  # in the order of ``names``
        out: Tensor,
        final: Sequence[Tensor],
    ) -> None:
        """Run the kernel without gradients. All tensors are contiguous; neither they nor x are checked."""
        try:
            call = self._calls.pop()
        except IndexError:  # the first one, or all are in use by other threads
            call = self.inference_call()
        call.run(partition, x, initial, weights, out, final)
        self._calls.append(call)

    def inference_call(self) -> InferenceCall:
        """A new call of the kernel without gradients. All calls share the packed matrices."""
        kernel = self.kernel("forward")
        if not self._matrices:
            self._matrices = [
                Matrix(name, self.names.index(parameter), transposed=transposed, quantized=name in self.quantized)
                for name, (parameter, transposed) in self._matrix_parameters(kernel).items()
            ]
        return InferenceCall(kernel, self.names, self._matrices)

    def _report_parameters(self, x: Tensor, weights: list[Tensor]) -> None:
        for name, weight, shape in zip(self.names, weights, self.shapes, strict=True):
            if weight.shape != shape:
                raise ValueError(f"{name} has shape {tuple(weight.shape)}, expected {tuple(shape)}")
            if weight.dtype != x.dtype:
                raise TypeError(f"{name} is {weight.dtype}, expected {x.dtype} as x")

    def loop(
        self,
        partition: Partition,
        x: Tensor,
        state: tuple[Tensor, ...],
        weights: tuple[Tensor, ...],
    ) -> tuple[Tensor, ...]:  # out, final state
        """The same as the kernel, step by step in torch: it can be differentiated any number of times."""
        parameters = dict(zip(self.names, weights, strict=True))
        lengths = torch.empty(partition.batch, dtype=torch.int64)
        lengths[torch.from_numpy(partition.order)] = torch.from_numpy(partition.lengths)
        real = torch.arange(partition.steps).unsqueeze(1) < lengths  # (T, B)
        x = torch.where(real.unsqueeze(-1), x, 0)
        if self.plan.linear:
            x = functional.linear(x, parameters[self.plan.linear])
        outputs = []
        with self._step_lock:  # the step of a cell puts these parameters into a copy of the cell
            for time in range(partition.steps)[:: partition.direction]:
                keep = real[time].unsqueeze(-1)
                next_state = self._step(parameters, x[time], state)
                state = tuple(torch.where(keep, new, old) for new, old in zip(next_state, state, strict=True))
                outputs.append(torch.where(keep, state[0], 0))
        return torch.stack(outputs[:: partition.direction]), *state

    def forward(
        self, partition: Partition, x: Tensor, initial: tuple[Tensor, ...], weights: list[Tensor]
    ) -> tuple[Tensor, list[Tensor], list[Tensor]]:  # out, final state, and what the gradient needs
        traced = self.plan.traced
        shape = partition.steps, partition.batch
        final = _final(partition, initial)
        out = _sequence(x, partition, traced.state_widths[0])
        kept = [allocate(x, *shape, size) for size in (*traced.state_widths[1:], self.plan.saved_width)]
        tensors = {"sequence 0": out, "saved": kept[-1]}
        tensors |= _enumerated("sequence", kept[:-1], start=1)
        tensors |= _enumerated("initial", initial) | _enumerated("final", final)
        self._run("training", partition, x, tensors, weights)
        return out, final, [*initial, out, *kept]

    def backward(
        self,
        partition: Partition,
        x: Tensor,
        kept: list[Tensor],  # initial state, sequences of the state, saved values
        weights: list[Tensor],
        gradients: tuple[Tensor, ...],  # of out and of the final state
        *,
        needs_x_gradient: bool,  # the gradient of x
    ) -> tuple[Tensor | None, list[Tensor], list[Tensor | None]]:
        count = len(self.plan.traced.state_widths)
        initial, sequences, saved = kept[:count], kept[count : 2 * count], kept[2 * count]
        out_gradient, *final_gradient = [gradient.contiguous() for gradient in gradients]
        initial_gradient = [gradient.clone() for gradient in final_gradient]
        x_gradient = None
        tensors = {"saved": saved, "out_gradient": out_gradient}
        if needs_x_gradient or not self.plan.linear:
            x_gradient = _sequence(x, partition, x.shape[2])
            tensors["x_gradient" if self.plan.linear else "projected_gradient"] = x_gradient
        tensors |= _enumerated("initial", initial) | _enumerated("sequence", sequences)
        tensors |= _enumerated("final_gradient", final_gradient) | _enumerated("initial_gradient", initial_gradient)
        gradients_by_name = self._run("backward", partition, x, tensors, weights)
        return (
            x_gradient,
            initial_gradient,
            [
                gradients_by_name[name].reshape(weight.shape) if name in gradients_by_name else None
                for name, weight in zip(self.names, weights, strict=True)
            ],
        )

    def _parameter_gradients(self, sums: list[Tensor], layout: ScratchLayout) -> dict[str, Tensor]:
        """Parameter gradients: views of the sums of all parts."""
        total = sums[0]
        for other in sums[1:]:
            total += other[: layout.sums_size]
        gradients_by_name = {name: total[offset : offset + size] for name, offset, size in self.plan.vector_gradients}
        for deferred, start in zip(self.plan.deferred, layout.sum_starts, strict=True):
            rows, columns = deferred.left.size, deferred.right.size
            width = gemm.panel_width(self.real) * gemm.panel_count(self.real, columns)
            value = total[start : start + rows * width].view(rows, width)[:, :columns]
            value = value.t() if deferred.swapped else value
            earlier = gradients_by_name.get(deferred.parameter)
            gradients_by_name[deferred.parameter] = value.contiguous() if earlier is None else earlier + value
        return gradients_by_name

    def _run(
        self, kind: str, partition: Partition, x: Tensor, tensors: dict[str, Tensor], weights: list[Tensor]
    ) -> dict[str, Tensor]:
        """Call a kernel; the backward one returns the gradients of the parameters."""
        kernel = self.kernel(kind)
        layout = kernel.layout
        chunk = kernel.chunk(partition)
        size = layout.size(partition.max_rows, chunk)
        barrier_counter = ctypes.c_int64(0)
        table = _ArgumentTable(kernel.positions)
        table.set(partition.arguments, chunk=chunk, barrier=ctypes.addressof(barrier_counter))
        with Loan() as loan:
            scratch = loan.borrow(partition.parts * size, x)
            table.set(scratch=scratch.data_ptr(), scratch_bytes=size * x.element_size())
            named = {name: weight.contiguous() for name, weight in zip(self.names, weights, strict=True)}
            table.set_addresses(tensors)
            table.set_addresses({f"parameter {name}": tensor for name, tensor in named.items()})
            if self.plan.linear:
                table.set(x=x.data_ptr(), x_time=x.stride(0), x_row=x.stride(1))
            else:
                table.set_addresses({"projected": x})
            self._pass_matrices(kernel, table, named, loan)
            if kind != "backward":
                kernel.run(table.write(), partition)
                return {}
            if "x_gradient" in tensors:
                time, row, _ = tensors["x_gradient"].stride()
                table.set(x_gradient_time=time, x_gradient_row=row)
            sums = [allocate(x, layout.sums_size)]
            sums += [loan.borrow(layout.sums_size, x) for _ in range(partition.parts - 1)]
            addresses = (ctypes.c_int64 * partition.parts)(*[tensor.data_ptr() for tensor in sums])
            table.set(sums=ctypes.addressof(addresses))
            kernel.run(table.write(), partition)
            if partition.empty:
                sums = [tensor.zero_() for tensor in sums]
            return self._parameter_gradients(sums, layout)

    def _matrix_parameters(self, kernel: Kernel) -> dict[str, tuple[str, bool]]:
        """The matrix parameter of each product of a kernel, and whether it is transposed."""
        matrices = {str(index): (product.matrix, product.transposed) for index, product in kernel.products}
        if self.plan.linear:
            matrices["input"] = self.plan.linear, kernel.kind != "backward"
        return matrices

    def _pass_matrices(self, kernel: Kernel, table: "_ArgumentTable", weights: dict[str, Tensor], loan: Loan) -> None:
        """Pack the matrices into panels."""
        for name, (parameter, transposed) in self._matrix_parameters(kernel).items():
            matrix = weights[parameter].t() if transposed else weights[parameter]
            if self.bfloat16:
                cache = self._bfloat16_matrices.setdefault((parameter, transposed), PackedCache(Bfloat16Matrix))
                table.set_addresses({f"packed {name}": cache(matrix).values})
                continue
            if kernel.kind == "backward" and matrix.shape[1] < gemm.lanes(self.real):
                table.set_addresses({f"packed {name}": matrix.t().contiguous()})
                continue
            packed = loan.borrow(packed_size(matrix), matrix)
            pack(matrix, packed)
            table.set_addresses({f"packed {name}": packed})

    def clear_packed(self) -> None:
        """Free the packed matrices and the memory that are kept between calls."""
        self._matrices, self._calls, self._bfloat16_matrices = [], [], {}


def _quantized_products(plan: Plan, parameters: Collection[str]) -> frozenset[str]:
    """The products, by their index or "input", with matrices of these names; each column is a row of its parameter."""
    indexed = [
        str(index)
        for index, product in matrix_products(plan, "forward")
        if product.transposed and product.matrix in parameters
    ]
    return frozenset([*indexed, *(["input"] if plan.linear in parameters else [])])


def _final(partition: Partition, initial: Sequence[Tensor]) -> list[Tensor]:
    """Tensors for the last state; rows without any step keep theirs."""
    keep = partition.padded or not partition.steps
    return [tensor.clone() if keep else torch.empty_like(tensor) for tensor in initial]


def _sequence(like: Tensor, partition: Partition, size: int) -> Tensor:
    """A tensor (T, B, size), zero in the padding."""
    tensor = allocate(like, partition.steps, partition.batch, size)
    return tensor.zero_() if partition.padded else tensor


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

    def set_addresses(self, tensors: Mapping[str, Tensor]) -> None:
        """Set arguments to the addresses of tensors; names that the kernel does not have are ignored."""
        for name, tensor in tensors.items():
            if name in self._values:
                self._values[name] = tensor.data_ptr()
                self._alive.append(tensor)

    def write(self) -> int:
        """Write the arguments to memory and return its address."""
        if len(self._values) != len(self._positions):
            raise KeyError(*self._values.keys() - self._positions.keys())
        self._memory = array("q", list(self._values.values()))
        return self._memory.buffer_info()[0]


def _enumerated(name: str, tensors: Sequence[Tensor], start: int = 0) -> dict[str, Tensor]:
    return {f"{name} {index}": tensor for index, tensor in enumerate(tensors, start)}


class _Scan(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, fused: FusedScan, partition: Partition, x: Tensor, *tensors: Tensor) -> Any:
        count = len(fused.plan.traced.state_widths)
        state, weights = tensors[:count], list(tensors[count:])
        with torch._C.DisableTorchFunction():  # a mode such as Bfloat16Products costs as much as the calls it sees
            out, final, kept = fused.forward(partition, x, state, weights)
        ctx.fused, ctx.partition = fused, partition
        ctx.save_for_backward(x, *kept, *weights)
        return out, *final

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        fused: FusedScan = ctx.fused
        x, *rest = ctx.saved_tensors
        states = len(fused.plan.traced.state_widths)
        count = 2 * states + 1
        needs_x_gradient = ctx.needs_input_grad[2]
        if torch.is_grad_enabled() or any(map(is_legacy_batchedtensor, gradients)):  # create_graph, is_grads_batched
            inputs = (x, *rest[:states], *rest[count:])
            return None, None, *_differentiable_gradients(fused, ctx.partition, inputs, gradients)
        x_gradient, state, parameters = fused.backward(
            ctx.partition, x, rest[:count], rest[count:], gradients, needs_x_gradient=needs_x_gradient
        )
        return None, None, x_gradient, *state, *parameters


def _differentiable_gradients(
    fused: FusedScan, partition: Partition, inputs: tuple[Tensor, ...], gradients: tuple[Tensor, ...]
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
