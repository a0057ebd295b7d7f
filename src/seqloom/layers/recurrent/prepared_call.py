"""Calls of a recurrent layer without gradients whose checks and arguments are prepared once.

A step of a generation takes a few microseconds: what ``nn.Module``, the layer and its checks do in Python would take
longer. One compiled comparison finds out whether all that they depend on is still the same.
"""

from typing import Any

import torch
from torch import Tensor

from seqloom.cells.cell import Cell
from seqloom.kernels.fuse.repeated_call import RepeatedCall
from seqloom.kernels.runtime.identities import (
    Comparison,
    Identities,
    compare_attribute,
    compare_entry,
    compare_equal,
    compare_number,
    compare_result,
    compare_size,
)
from seqloom.kernels.runtime.staleness import FORWARD_HOOKS, global_forward_hooks, hook_tables, no_transform
from seqloom.layers.recurrent.compiled_cell import CompiledCell, Origin

LAYER_FIELDS = ("fused", "int8", "reverse", "_modules")
"""Attributes of a recurrent layer on which a call depends."""

OVERRIDES = ("forward", "_compiled_call_impl")
"""Attributes with which it would run something else."""

_empty_like, _new_tuple = torch.empty_like, tuple.__new__
_zero_state = Cell.start


def unchanged(layer: Any, origin: Origin, compiled: CompiledCell, *, parameters: bool = True) -> Identities | None:
    """All that a call of the layer depends on, besides x and the state; None if it cannot be prepared.

    A prepared call skips ``nn.Module.__call__`` and ``forward``, so that there must be no hooks. Without
    ``parameters``, the caller compares those.
    """
    comparisons = () if origin.guards is None else origin.guards.comparisons
    hooks = [*hook_tables(layer.modules(), FORWARD_HOOKS), *global_forward_hooks()]
    fields = vars(layer)
    if comparisons is None or any(hooks) or any(name in fields for name in OVERRIDES) or "start" in vars(origin.cell):
        return None
    parts = [*comparisons, *map(compare_size, hooks), *no_transform()]
    parts += [compare_entry(fields, name) for name in (*LAYER_FIELDS, *OVERRIDES)]
    parts.append(compare_entry(fields["_modules"], "cell"))
    for table, name in compiled.parameters if parameters else ():
        parts += _compare_parameter(table, name)
    return Identities(parts)


def _compare_parameter(table: dict[str, Any], name: str) -> tuple[Comparison, ...]:
    """That a plain parameter is still the same and still plain; its values may change."""
    parameter = table[name]
    return (
        compare_entry(table, name),
        compare_number(parameter.data_ptr),
        compare_result(parameter.is_contiguous),
        compare_attribute(parameter, "dtype"),
        compare_equal(parameter, "shape"),
    )


class PreparedCall:
    """A call for plain inputs of the shape of ``x``, like the last one of ``CompiledCell.infer``."""

    def __init__(self, compiled: CompiledCell, layer: Any, same: Identities, x: Tensor) -> None:
        self.same, self._is_same = same, same.same
        batch, steps, size = self._shape = x.shape
        weights = [table[name] for table, name in compiled.parameters]
        self._kernel = RepeatedCall(compiled.kernel, (batch, steps, size), weights, reverse=layer.reverse)
        self._dtype, self._fields = x.dtype, vars(layer)
        self._state_shapes = [torch.Size((batch, width)) for width in compiled.widths]
        self._state_type, self._cell = compiled.state_type, layer.cell
        self._zeros = layer.cell.start(batch) if type(layer.cell).start is _zero_state else None
        self._is_batch_first = batch == 1 or steps == 1  # which is the same in memory as time first
        width = compiled.widths[0]
        self._out_shape = (batch, steps, width) if self._is_batch_first else (steps, batch, width)
        self._has_shape_of_x = self._shape == self._out_shape

    def __call__(self, layer: Any, x: Tensor, state: Any) -> tuple[Tensor, Any] | None:
        """The output and the state; None if the input has another shape or anything has changed."""
        dtype, shapes = self._dtype, self._state_shapes
        if state is None and type(self._cell).start is _zero_state:
            state = self._zeros
        if type(x) is not Tensor or x.shape != self._shape or x.dtype is not dtype:
            return None
        if not x.is_cpu or not x.is_contiguous() or not isinstance(state, tuple) or len(state) != len(shapes):
            return None
        if layer.__dict__ is not self._fields or not self._is_same():
            return None
        final = []
        for field, shape in zip(state, shapes, strict=True):
            if type(field) is not Tensor or field.shape != shape or field.dtype is not dtype:
                return None
            if not field.is_cpu or not field.is_contiguous():
                return None
            final.append(_empty_like(field))
        out = _empty_like(x) if self._has_shape_of_x else torch.empty(self._out_shape, dtype=dtype)
        if not self._kernel.is_current():
            return None
        self._kernel(x.data_ptr(), state, out, final)
        return out if self._is_batch_first else out.transpose(0, 1), _new_tuple(self._state_type, final)
