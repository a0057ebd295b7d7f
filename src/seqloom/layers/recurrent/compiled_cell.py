"""The kernel of a cell, and what it was made from."""

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from seqloom.cells.cell import Cell
from seqloom.kernels.fuse.scan import FusedScan
from seqloom.kernels.runtime.guards import Guards
from seqloom.kernels.runtime.staleness import BACKWARD_HOOKS, FORWARD_HOOKS, hook_tables

Precision = Literal["float32", "int8", "bfloat16"]


class Origin(NamedTuple):
    """What a kernel was made from."""

    cell: Cell
    dtype: torch.dtype
    guards: Guards | None  # None: whatever the step reads
    precision: Precision

    def matches(self, cell: Cell, dtype: torch.dtype, precision: Precision) -> bool:
        """Whether the cell is this one and unchanged."""
        if cell is not self.cell or dtype != self.dtype or precision != self.precision:
            return False
        return self.guards is None or self.guards.matches()


class CompiledCell:
    """A cell's kernel and state, and where its parameters and hooks are."""

    def __init__(self, kernel: FusedScan, cell: Cell) -> None:
        self.kernel = kernel
        self.state_type = cell.State
        paths = {name: name.rpartition(".") for name, _ in cell.named_parameters()}
        self.tables = {
            name: (vars(cell.get_submodule(path))["_parameters"], attribute)
            for name, (path, _, attribute) in paths.items()
        }
        self.hooks = tuple(hook_tables(cell.modules(), FORWARD_HOOKS + BACKWARD_HOOKS))
        self.widths = kernel.plan.traced.state_widths
        self.parameters = tuple(self.tables[name] for name in kernel.names)
        vectors = all(field.dim() == 2 for field in cell.start(1))
        self._addresses: list[int] = []  # of the parameters that were plain at the last call
        # The kernel reads x and the state as they are. (The imaginary part of one conjugate number, which torch negates
        # when it is read, is the only such tensor that is contiguous.)
        self._is_direct = vectors and kernel.plan.linear is not None and min(kernel.plan.input_size, *self.widths) > 1

    def infer(self, x: Tensor, shape: torch.Size, state: Any, *, reverse: bool) -> tuple[Tensor, Any] | None:
        """The kernel without gradients for a plain x (B, T, D); None if the state or the weights are not plain."""
        kernel, widths, dtype = self.kernel, self.widths, x.dtype
        batch, steps, size = shape
        if not self._is_direct or not isinstance(state, tuple) or len(state) != len(widths):
            return None
        for field, width in zip(state, widths, strict=True):
            if type(field) is not Tensor or not is_plain(field, (batch, width), dtype):
                return None
        weights = [table[name] for table, name in self.parameters]
        addresses = [weight.data_ptr() for weight in weights]
        is_known = addresses == self._addresses
        for weight, expected in zip(weights, kernel.shapes, strict=True):
            if weight.shape != expected or not weight.is_contiguous():
                return None
            if not is_known and not is_plain(weight, expected, dtype):
                return None
        self._addresses = addresses
        batch_first = batch == 1 or steps == 1  # which is the same in memory as time first
        if batch_first and size == widths[0]:
            out = torch.empty_like(x)
        else:
            out = torch.empty((batch, steps, widths[0]) if batch_first else (steps, batch, widths[0]), dtype=dtype)
        final = [torch.empty_like(field) for field in state]
        partition = kernel.partition(steps, batch, None, reverse=reverse)
        kernel.infer(partition, (x.data_ptr(), size, steps * size), state, weights, out, final)
        return out if batch_first else out.transpose(0, 1), self.state_type._make(final)


def is_plain(tensor: Tensor, shape: Sequence[int], dtype: torch.dtype) -> bool:
    """Whether a kernel can read the tensor by its address alone."""
    return tensor.shape == shape and tensor.dtype is dtype and tensor.is_cpu and tensor.is_contiguous()
