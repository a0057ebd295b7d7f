"""A step function fused over time: traced, planned and compiled once, then called like a layer."""

import ctypes
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from seqloom.kernels import code, gemm, machine, threads
from seqloom.kernels.plan import Place, Plan, plan
from seqloom.kernels.trace import StepFunction, Unfusable, trace

__all__ = ["Fused", "Unfusable", "fuse"]

REALS = {torch.float32: "float", torch.float64: "double"}

SMALL = 500_000
"""Multiplications below which a second thread costs more than it brings."""


def fuse(
    step: StepFunction,
    parameters: Mapping[str, Tensor],
    *,
    projected: int,  # width of the projected input
    state: tuple[int, ...],  # widths of the state's fields
) -> "Fused":
    """Derive a kernel from ``step``; raises ``Unfusable`` with the reason where that is not possible."""
    dtypes = {parameter.dtype for parameter in parameters.values()}
    if len(dtypes) != 1 or not dtypes <= REALS.keys():
        raise Unfusable(f"parameters are {', '.join(sorted(map(str, dtypes)))}, not all float32 or all float64")
    devices = {parameter.device.type for parameter in parameters.values()}
    if devices != {"cpu"}:
        raise Unfusable(f"parameters are on {', '.join(sorted(devices))}, not on the CPU")
    return Fused(plan(trace(step, parameters, projected, state)), REALS[dtypes.pop()])


@dataclass(frozen=True)
class Work:
    """The rows of a batch dealt out to parts, each part's rows longest first."""

    steps: int
    batch: int
    parts: int
    direction: int
    padded: bool
    order: np.ndarray[Any, Any]  # (B,) row of each slot
    first: np.ndarray[Any, Any]  # (B,) time of a slot's first step
    lengths: np.ndarray[Any, Any]  # (B,) of each slot
    slots: np.ndarray[Any, Any]  # (parts + 1,)
    active: np.ndarray[Any, Any]  # (parts, steps)

    @property
    def rows(self) -> int:
        return int(np.diff(self.slots).max(initial=0))

    @classmethod
    def share(cls, steps: int, batch: int, lengths: Tensor | None, *, reverse: bool, parts: int) -> "Work":
        """Deal rows round-robin in order of length, so that all parts have about the same to do."""
        if lengths is None:
            order = np.arange(batch)
            sizes = np.full(batch, steps)
        else:
            given = lengths.numpy().astype(np.int64)
            ranked = np.argsort(-given, kind="stable")
            order = np.concatenate([ranked[part::parts] for part in range(parts)])
            sizes = given[order]
        slots = np.array([0, *np.cumsum([len(range(part, batch, parts)) for part in range(parts)])])
        active = np.empty((parts, steps), dtype=np.int64)
        for part in range(parts):
            mine = sizes[slots[part] : slots[part + 1]]
            if lengths is None:
                active[part] = len(mine)
            else:
                active[part] = len(mine) - np.searchsorted(mine[::-1], np.arange(steps), side="right")
        return cls(
            steps=steps,
            batch=batch,
            parts=parts,
            direction=-1 if reverse else 1,
            padded=lengths is not None and bool((sizes < steps).any()),
            order=order.astype(np.int64),
            first=(sizes - 1 if reverse else np.zeros(batch)).astype(np.int64),
            lengths=sizes.astype(np.int64),
            slots=slots.astype(np.int64),
            active=active,
        )

    def common(self, scratch: Tensor) -> dict[str, int]:
        """The arguments that every kernel has."""
        arrays = {name: getattr(self, name).ctypes.data for name in ("order", "first", "lengths", "slots", "active")}
        return {
            "batch": self.batch,
            "direction": self.direction,
            "steps": self.steps,
            "rows": self.rows,
            "scratch": scratch.data_ptr(),
            "scratch_bytes": scratch.stride(0) * scratch.element_size(),
            **arrays,
        }


class Fused:
    """The kernels of one step function for one floating type."""

    def __init__(self, plan: Plan, real: str) -> None:
        self.plan = plan
        self.real = real
        self.names = tuple(plan.program.parameter_gradient)
        self._addresses: dict[str, int] = {}

    @cached_property
    def _key(self) -> str:
        return f"{self.real} {self.plan.describe()}"

    def address(self, kind: str) -> int:
        """The compiled kernel: forward, training or backward."""
        if kind not in self._addresses:
            multiply = gemm.products(self.real).multiply
            text = f"{kind} {self._key}"
            (address,) = machine.load(text, lambda: code.emit(self.plan, kind, self.real), ("scan",), multiply=multiply)
            self._addresses[kind] = address
        return self._addresses[kind]

    def __call__(
        self,
        projected: Tensor,  # (T, B, P)
        state: tuple[Tensor, ...],
        parameters: Mapping[str, Tensor],
        *,
        lengths: Tensor | None = None,  # (B,); all T if None
        reverse: bool = False,
    ) -> tuple[Tensor, tuple[Tensor, ...]]:  # (T, B, n) of the first field, zero in the padding; the last state
        """Run the step over time."""
        steps, batch = projected.shape[:2]
        amount = steps * batch * sum(self.plan.program.products[i].size for i in self.plan.forward_products)
        depth = max(self.plan.program.state)
        parts = 1 if amount * depth < SMALL else max(1, min(threads.count(), batch))
        work = Work.share(steps, batch, lengths, reverse=reverse, parts=parts)
        weights = [parameters[name] for name in self.names]
        tensors = (projected, *state, *weights)
        if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors):
            out, *final = _Scan.apply(self, work, projected, *state, *weights)
        else:
            out, final, _ = self.forward("forward", work, projected.detach(), state, weights)
        return out, tuple(final)

    def forward(
        self, kind: str, work: Work, projected: Tensor, state: tuple[Tensor, ...], weights: list[Tensor]
    ) -> tuple[Tensor, list[Tensor], list[Tensor]]:  # out, final state, and what the gradient needs
        program = self.plan.program
        shape = work.steps, work.batch
        projected = projected.contiguous()
        initial = [tensor.detach().contiguous() for tensor in state]
        final = [tensor.clone() for tensor in initial]
        create = projected.new_zeros if work.padded else projected.new_empty
        out = create(*shape, program.state[0])
        kept = []
        if kind == "training":
            kept = [projected.new_empty(*shape, size) for size in program.state[1:]]
            kept.append(projected.new_empty(*shape, self.plan.saved_width))
        pointers = {"projected": projected, "sequence 0": out}
        pointers |= {f"initial {index}": tensor for index, tensor in enumerate(initial)}
        pointers |= {f"final {index}": tensor for index, tensor in enumerate(final)}
        pointers |= {f"sequence {index}": tensor for index, tensor in enumerate(kept[:-1], start=1)}
        pointers |= {"saved": kept[-1]} if kept else {}
        self._run(kind, work, pointers, weights)
        return out, final, [*initial, *kept]

    def _run(self, kind: str, work: Work, pointers: dict[str, Tensor], weights: list[Tensor]) -> Tensor:
        layout = code.Layout(self.plan, kind, self.real)
        like = next(iter(pointers.values()))
        scratch = like.new_empty(work.parts, layout.size(work.rows) + layout.lanes)
        if work.steps == 0 or work.batch == 0:
            return scratch.zero_()
        named = dict(zip(self.names, weights, strict=True))
        products = self.plan.backward_products if kind == "backward" else self.plan.forward_products
        packed = {index: self._pack(index, named) for index in products}
        values = work.common(scratch)
        values |= {f"packed {index}": tensor.data_ptr() for index, tensor in packed.items()}
        vectors = {name: tensor.detach().contiguous() for name, tensor in named.items() if tensor.dim() < 2}
        values |= {f"parameter {name}": tensor.data_ptr() for name, tensor in vectors.items()}
        values |= {name: tensor.data_ptr() for name, tensor in pointers.items()}
        names = code.arguments(self.plan, kind)
        table = (ctypes.c_int64 * len(names))(*[values.get(name, 0) for name in names])
        threads.run(self.address(kind), ctypes.addressof(table), work.parts)
        return scratch

    def _pack(self, index: int, weights: dict[str, Tensor]) -> Tensor:
        product = self.plan.program.products[index]
        matrix = weights[product.matrix].detach()
        matrix = matrix.t() if product.transposed else matrix
        depth, columns = matrix.shape
        width = gemm.panel(self.real)
        panels = -(-columns // width)
        packed = matrix.new_empty(panels * depth * width)
        strides = matrix.stride()
        gemm.pack(self.real)(matrix.data_ptr(), *strides, depth, columns, packed.data_ptr(), 0, panels)
        return packed

    def backward(
        self,
        work: Work,
        kept: list[Tensor],  # initial state, sequences of the state, saved values
        weights: list[Tensor],
        gradients: tuple[Tensor, ...],  # of out and of the final state
        wanted: list[bool],  # for each parameter
    ) -> tuple[Tensor, list[Tensor], list[Tensor | None]]:
        program = self.plan.program
        count = len(program.state)
        initial, sequences, saved = kept[:count], kept[count : 2 * count], kept[2 * count]
        shape = work.steps, work.batch
        out_gradient, *final_gradient = [gradient.contiguous() for gradient in gradients]
        initial_gradient = [gradient.clone() for gradient in final_gradient]
        create = saved.new_zeros if work.padded else saved.new_empty
        projected_gradient = create(*shape, program.projected)
        factors = [create(*shape, size) for size in self.plan.sequences]
        pointers = {"saved": saved, "out_gradient": out_gradient, "projected_gradient": projected_gradient}
        for name, tensors in (
            ("initial", initial),
            ("sequence", sequences),
            ("factor", factors),
            ("final_gradient", final_gradient),
            ("initial_gradient", initial_gradient),
        ):
            pointers |= {f"{name} {index}": tensor for index, tensor in enumerate(tensors)}
        scratch = self._run("backward", work, pointers, weights)

        found: dict[str, Tensor] = {}
        for name, place, size in self.plan.columns:
            found[name] = scratch[:, place.offset : place.offset + size].sum(dim=0)
        sides = _Sides(work, projected_gradient, factors, sequences, initial)
        for deferred in self.plan.deferred:
            if wanted[self.names.index(deferred.parameter)]:
                value = sides.multiply(deferred.left, deferred.right, deferred.sizes)
                earlier = found.get(deferred.parameter)
                found[deferred.parameter] = value if earlier is None else earlier + value
        results = [
            found[name].reshape(weight.shape) if name in found else None
            for name, weight in zip(self.names, weights, strict=True)
        ]
        return projected_gradient, initial_gradient, results


@dataclass(frozen=True)
class _Sides:
    """The factors of the products that were put off until all steps were known."""

    work: Work
    projected_gradient: Tensor
    factors: list[Tensor]
    sequences: list[Tensor]
    initial: list[Tensor]

    def multiply(self, left: Place, right: Place, sizes: tuple[int, int]) -> Tensor:
        """Σ over time and batch of leftᵀ right."""
        late = "state" in (left.kind, right.kind)
        first = self._later(left, sizes[0], late=late)
        second = self._later(right, sizes[1], late=late)
        total = first.t() @ second
        if late and self.work.steps:
            earliest = self._earliest(left, sizes[0]), self._earliest(right, sizes[1])
            if earliest[0].any() and earliest[1].any():
                total += earliest[0].t() @ earliest[1]
        return total

    def _whole(self, place: Place, size: int) -> Tensor:
        tensor = self.projected_gradient if place.kind == "projected_gradient" else self.factors[int(place.name)]
        return tensor[..., place.offset : place.offset + size]

    def _later(self, place: Place, size: int, *, late: bool) -> Tensor:
        """All steps, or all but the first one of each row, where the state before is the output of another step."""
        back = self.work.direction < 0
        if place.kind == "state":
            tensor = self.sequences[int(place.name)][..., place.offset : place.offset + size]
            tensor = tensor[1:] if back else tensor[:-1]
        else:
            tensor = self._whole(place, size)
            if late:
                tensor = tensor[:-1] if back else tensor[1:]
        return tensor.flatten(0, 1)

    def _earliest(self, place: Place, size: int) -> Tensor:
        """The first step of each row."""
        if place.kind == "state":
            return self.initial[int(place.name)][:, place.offset : place.offset + size]
        times = torch.from_numpy(np.maximum(self.work.first, 0))
        return self._whole(place, size)[times, torch.from_numpy(self.work.order)].index_select(
            0, torch.from_numpy(np.argsort(self.work.order))
        )


class _Scan(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, fused: Fused, work: Work, projected: Tensor, *tensors: Tensor) -> Any:
        count = len(fused.plan.program.state)
        state, weights = tensors[:count], list(tensors[count:])
        out, final, kept = fused.forward("training", work, projected, state, weights)
        ctx.fused, ctx.work = fused, work
        ctx.save_for_backward(*kept[:count], out, *kept[count:], *weights)
        return out, *final

    @staticmethod
    @once_differentiable  # type: ignore[untyped-decorator]
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        fused: Fused = ctx.fused
        count = len(fused.plan.program.state)
        kept, weights = ctx.saved_tensors[: 2 * count + 1], list(ctx.saved_tensors[2 * count + 1 :])
        wanted = list(ctx.needs_input_grad[3 + count :])
        projected, state, found = fused.backward(ctx.work, list(kept), weights, gradients, wanted)
        return None, None, projected, *state, *found
