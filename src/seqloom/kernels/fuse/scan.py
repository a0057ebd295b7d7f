"""A step function fused into a loop over time: traced, planned and compiled once, then called like a layer."""

from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from threading import Lock

import torch
from torch import Tensor
from torch.nn import functional

from seqloom.kernels.fuse import codegen
from seqloom.kernels.fuse.inference import InferenceCall, Kernel, Matrix
from seqloom.kernels.fuse.layout import NO_ROUNDING, Rounding, ScratchLayout, arguments, has_edges, matrix_products
from seqloom.kernels.fuse.plan import Plan, plan
from seqloom.kernels.fuse.scan_function import ScanFunction
from seqloom.kernels.fuse.symbols import Impure, Unfusable
from seqloom.kernels.fuse.trace import StepFunction, trace
from seqloom.kernels.fuse.training_call import TrainingCall
from seqloom.kernels.linalg import bfloat16_gemm, gemm, gemm_edges, quantized_gemm
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
    passes_input: bool = False,
    quantized: Collection[str] = (),
    bfloat16: bool = False,
) -> "FusedScan":
    """Compile a step function into a kernel; raises ``Unfusable`` with the reason where that is not possible.

    ``linear`` names the matrix parameter (projected, input) with which the kernel projects its input itself. With
    ``passes_input``, the step reads the input as well, behind the projected one.
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
    size = parameters[linear].shape[1] if linear else 0
    traced = trace(step, parameters, projected, state, passed_width=size if passes_input else 0)
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
        self._packed_parameters: dict[str, dict[str, tuple[str, bool]]] = {}  # by the kind of kernel
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
            elif kind != "forward" and has_edges(self.plan, kind, self.real):
                products |= gemm_edges.functions(self.real)._asdict()
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
        weights = self.weights(x, parameters)
        if x.stride(-1) != 1 or not self.plan.linear:
            x = x.contiguous()
        x = x.resolve_neg()
        state = tuple([tensor.contiguous().resolve_neg() for tensor in state])
        tensors = (x, *state, *weights)
        if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors):
            out, *final = ScanFunction.apply([(self, partition)], 1, *tensors)
            return out, tuple(final)
        out = _sequence(x, partition, self.plan.traced.state_widths[0])
        final = _final(partition, state)
        strides = x.stride()[:2] if self.plan.linear else ()
        weights = [weight.contiguous() for weight in weights]
        self.infer(partition, (x.data_ptr(), *strides), state, weights, out, final)
        return out, tuple(final)

    def weights(self, x: Tensor, parameters: Mapping[str, Tensor]) -> list[Tensor]:
        """The parameters in the order of ``names``; raises an error if one of them has changed its shape or type."""
        weights, dtype = [parameters[name] for name in self.names], x.dtype
        if [weight.shape for weight in weights] != self.shapes or any(weight.dtype is not dtype for weight in weights):
            self._report_parameters(x, weights)
        return weights

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
            projected = functional.linear(x, parameters[self.plan.linear])
            x = torch.cat([projected, x], dim=-1) if self.plan.traced.passed_width else projected
        outputs = []
        with self._step_lock:  # the step of a cell puts these parameters into a copy of the cell
            for time in range(partition.steps)[:: partition.direction]:
                keep = real[time].unsqueeze(-1)
                next_state = self._step(parameters, x[time], state)
                state = tuple(torch.where(keep, new, old) for new, old in zip(next_state, state, strict=True))
                outputs.append(torch.where(keep, state[0], 0))
        return torch.stack(outputs[:: partition.direction]), *state

    def training_call(
        self,
        partition: Partition,
        x: Tensor,
        initial: Sequence[Tensor],
        weights: Sequence[Tensor],
        out: Tensor,  # (T, B, n), of any strides in T and B
        loan: Loan,
    ) -> tuple[TrainingCall, list[Tensor], list[Tensor]]:  # the final state, and what else the gradient needs
        """A call of the kernel that also keeps what the gradient needs."""
        shape = partition.steps, partition.batch
        final = _final(partition, initial)
        sizes = (*self.plan.traced.state_widths[1:], self.plan.saved_width)
        kept = [allocate(x, *shape, size) for size in sizes]
        tensors = {"sequence 0": out, "saved": kept[-1], **_enumerated("sequence", kept[:-1], start=1)}
        tensors |= _enumerated("initial", initial) | _enumerated("final", final)
        return self._call("training", partition, x, tensors, weights, loan), final, kept

    def backward_call(
        self,
        partition: Partition,
        x: Tensor,
        kept: Sequence[Tensor],  # initial state, sequences of the state, saved values
        weights: Sequence[Tensor],
        gradients: Sequence[Tensor],  # of out and of the final state
        loan: Loan,
        *,
        needs_x_gradient: bool,  # the gradient of x
    ) -> tuple[TrainingCall, Tensor | None, list[Tensor]]:  # gradients of x and of the initial state
        """A call of the kernel that computes gradients."""
        count = len(self.plan.traced.state_widths)
        initial, sequences, saved = kept[:count], kept[count : 2 * count], kept[2 * count]
        out_gradient, *final_gradient = gradients
        out_gradient = out_gradient if out_gradient.stride(-1) == 1 else out_gradient.contiguous()
        final_gradient = [gradient.contiguous() for gradient in final_gradient]
        initial_gradient = [gradient.clone() for gradient in final_gradient]
        x_gradient = None
        tensors = {"saved": saved, "out_gradient": out_gradient}
        if needs_x_gradient or not self.plan.linear:
            x_gradient = _sequence(x, partition, x.shape[2])
            tensors["x_gradient" if self.plan.linear else "projected_gradient"] = x_gradient
        tensors |= _enumerated("initial", initial) | _enumerated("sequence", sequences)
        tensors |= _enumerated("final_gradient", final_gradient) | _enumerated("initial_gradient", initial_gradient)
        return self._call("backward", partition, x, tensors, weights, loan), x_gradient, initial_gradient

    def parameter_gradients(self, call: TrainingCall, weights: Sequence[Tensor]) -> list[Tensor | None]:
        """The gradients of the parameters after a call of the backward kernel."""
        gradients = call.parameter_gradients(self.plan)
        return [
            gradients[name].reshape(weight.shape) if name in gradients else None
            for name, weight in zip(self.names, weights, strict=True)
        ]

    def _call(
        self,
        kind: str,
        partition: Partition,
        x: Tensor,
        tensors: dict[str, Tensor],
        weights: Sequence[Tensor],
        loan: Loan,
    ) -> TrainingCall:
        named = {name: weight.contiguous() for name, weight in zip(self.names, weights, strict=True)}
        tensors |= {f"parameter {name}": tensor for name, tensor in named.items()}
        kernel = self.kernel(kind)
        call = TrainingCall(kernel, partition, x, tensors, loan)
        call.set_tensors(self._pack_matrices(kernel, named, loan))
        return call

    def _matrix_parameters(self, kernel: Kernel) -> dict[str, tuple[str, bool]]:
        """The matrix parameter of each product of a kernel, and whether it is transposed."""
        matrices = {str(index): (product.matrix, product.transposed) for index, product in kernel.products}
        if self.plan.linear:
            matrices["input"] = self.plan.linear, kernel.kind != "backward"
        return matrices

    def _pack_matrices(self, kernel: Kernel, weights: dict[str, Tensor], loan: Loan) -> dict[str, Tensor]:
        """The matrices, packed into panels, by the name of the argument."""
        packed: dict[str, Tensor] = {}
        if kernel.kind not in self._packed_parameters:
            self._packed_parameters[kernel.kind] = self._matrix_parameters(kernel)
        for name, (parameter, transposed) in self._packed_parameters[kernel.kind].items():
            matrix = weights[parameter].t() if transposed else weights[parameter]
            if self.bfloat16:
                cache = self._bfloat16_matrices.setdefault((parameter, transposed), PackedCache(Bfloat16Matrix))
                packed[f"packed {name}"] = cache(matrix).values
            elif kernel.kind == "backward" and matrix.shape[1] < gemm.lanes(self.real):
                packed[f"packed {name}"] = matrix.t().contiguous()
            else:
                packed[f"packed {name}"] = loan.borrow(packed_size(matrix), matrix)
                pack(matrix, packed[f"packed {name}"])
        return packed

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


def _enumerated(name: str, tensors: Sequence[Tensor], start: int = 0) -> dict[str, Tensor]:
    return {f"{name} {index}": tensor for index, tensor in enumerate(tensors, start)}
