"""Recurrent layer: runs a cell over time, with masks, direction and state, by a fused kernel or a plain loop."""

import copy
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.func import functional_call

from seqloom import state as states
from seqloom.cells.cell import Cell, ProjectionWithInput, first_parameter
from seqloom.kernels.fuse.scan import FusedScan, Impure, Unfusable, fuse
from seqloom.kernels.fuse.scan_together import ScanInputs
from seqloom.kernels.fuse.symbols import TracedStep
from seqloom.kernels.fuse.trace import trace
from seqloom.kernels.runtime.guards import Guards
from seqloom.kernels.runtime.identities import Identities
from seqloom.kernels.runtime.staleness import (
    BACKWARD_HOOKS,
    FORWARD_HOOKS,
    active_transform,
    hook_tables,
)
from seqloom.layers.bfloat16_products import active_products, paused_products
from seqloom.layers.int8_products import Int8Products, linear_weights
from seqloom.layers.layer import Layer, check_input, untraced
from seqloom.layers.layer_error import LayerError, describe_error, layer_name, user_place
from seqloom.layers.recurrent.compiled_cell import CompiledCell, Origin, Precision, is_plain
from seqloom.layers.recurrent.prepared_call import PreparedCall, unchanged

MAX_KERNELS = 8
"""Compiled kernels kept per layer: one per dtype and mode, and a few more while its cell is being modified."""

ALL_HOOKS = FORWARD_HOOKS + BACKWARD_HOOKS
HOOKS = "a module of the cell has hooks, which must run at every step"


class Recurrent(Layer):
    """Runs a cell along the time axis, backwards in time if ``reverse``.

    The returned state is the one after each row's last real element (after the first one if ``reverse``). To process
    a sequence in chunks, pass the state on; with ``reverse``, start with the last chunk.
    """

    def __init__(self, cell: Cell, *, reverse: bool = False) -> None:
        if not isinstance(cell, Cell):
            raise TypeError(
                f"cell is {type(cell).__qualname__}, expected a Cell; convert layers of torch.nn with from_torch"
            )
        super().__init__(cell.input_size, cell.hidden_size)
        self.cell = cell
        self.reverse = reverse
        self.fused = True
        """Set to False to run the plain loop."""
        self.int8 = False
        """Multiply in int8 where no gradient is needed (see layers/quantization.py)."""
        self._shapes = tuple(field.shape[1:] for field in cell.start(1))
        self._has_matrix = any(len(shape) != 1 for shape in self._shapes)
        self._kernels: tuple[tuple[Origin, CompiledCell | str], ...] = ()  # or why there is none; the last used first
        self._int8_products: Int8Products | None = None
        self._prepared: PreparedCall | None = None
        self._last_shape: torch.Size | None = None  # of an input without gradients

    @untraced
    def __call__(self, x: Any, mask: Any = None, state: Any = None, *more: Any, **options: Any) -> Any:
        """As in every module; what was prepared, such as a step of a generation, goes straight to the kernel."""
        prepared = self._prepared
        if prepared is not None and mask is None and not torch.is_grad_enabled():
            result = prepared(self, x, state)
            if result is not None:
                return result
        return super().__call__(x, mask, state, *more, **options)

    @untraced
    def forward(self, x: Tensor, mask: Tensor | None = None, state: Any = None) -> tuple[Tensor, Any]:
        if mask is None and not torch.is_grad_enabled() and (result := self._infer(x, state)) is not None:
            return result
        cell = self.cell
        check_input(x, mask, size=self.input_size, like=first_parameter(cell))
        with _named_errors(cell, x):
            return self._run(cell, x, mask, state)

    def _infer(self, x: Tensor, state: Any) -> tuple[Tensor, Any] | None:
        """The kernel of the last call again, without gradients; None if the input is unusual or anything has changed.

        A step of generation takes a few microseconds: the full checks would take longer.
        """
        if not self._kernels or not self.fused or type(x) is not Tensor or active_transform() is not None:
            return None
        made_from, compiled = self._kernels[0]
        cell = made_from.cell
        if isinstance(compiled, str) or cell is not self._modules["cell"] or any(compiled.hooks):
            return None
        dtype, shape = x.dtype, x.shape
        if len(shape) != 3 or shape[2] != self.input_size or 0 in shape or not is_plain(x, shape, dtype):
            return None
        if not made_from.matches(cell, dtype, self._precision()):
            return None
        if state is None:
            state = cell.start(shape[0])
        result = compiled.infer(x, shape, state, reverse=self.reverse)
        # Only for a shape that comes again: there may be sequences of every length.
        is_repeated, self._last_shape = shape == self._last_shape, shape
        if is_repeated and result is not None and type(self) is Recurrent:
            self._prepare(made_from, compiled, x)
        return result

    def _prepare(self, made_from: Origin, compiled: CompiledCell, x: Tensor) -> None:
        """Prepare calls like the last one."""
        earlier = self._prepared
        same = earlier.same if earlier and earlier.same.same() else unchanged(self, made_from, compiled)
        self._prepared = PreparedCall(compiled, self, same, x) if same else None

    def _run(self, cell: Cell, x: Tensor, mask: Tensor | None, state: Any) -> tuple[Tensor, Any]:
        state = cell.start(x.shape[0]) if state is None else check_state(state, cell.State, self._shapes, x)
        compiled = self._compiled(x)
        if isinstance(compiled, CompiledCell) and compiled.kernel.plan.linear:
            # The kernel projects its input itself and never reads the padding.
            return self._scan(compiled, x, mask, state)
        if mask is not None:
            x = x.masked_fill(~mask.unsqueeze(-1), 0)
        with self.products():
            projected = cell.project(x.transpose(0, 1))
            if isinstance(compiled, CompiledCell):
                return self._scan(compiled, projected.transpose(0, 1), mask, state)
            return loop(cell, projected, mask, state, reverse=self.reverse)

    def products(self) -> AbstractContextManager[object]:
        """In this context, products with the matrices of the cell are as the layer computes them: in int8 or float."""
        if not self.int8 or torch.is_grad_enabled():
            return nullcontext()
        if self._int8_products is None or not self._int8_products.matches(self.cell):
            self._int8_products = Int8Products(self.cell)
        return self._int8_products

    def _scan(self, compiled: CompiledCell, x: Tensor, mask: Tensor | None, state: Any) -> tuple[Tensor, Any]:
        lengths = None if mask is None else mask.sum(dim=1)
        scan = self._scan_inputs(compiled, state)
        out, final = compiled.kernel(
            x.transpose(0, 1), scan.state, scan.parameters, lengths=lengths, reverse=self.reverse
        )
        return out.transpose(0, 1), self._state(compiled, final)

    def _scan_inputs(self, compiled: CompiledCell, state: Any) -> ScanInputs:
        parameters = {name: table[attribute] for name, (table, attribute) in compiled.tables.items()}
        fields = tuple([field.flatten(1) for field in state]) if self._has_matrix else tuple(state)
        return ScanInputs(compiled.kernel, fields, parameters, self.reverse)

    def _state(self, compiled: CompiledCell, final: tuple[Tensor, ...]) -> Any:
        return compiled.state_type(*(_unflatten(final, self._shapes) if self._has_matrix else final))

    def shared_scan(self, x: Tensor, state: Any) -> tuple[ScanInputs, Callable[[tuple[Tensor, ...]], Any]] | None:
        """The scan over an input that another layer reads, too, to be run at the same time; None if there is none.

        The function makes the state of the layer from the last fields of the scan.
        """
        if not torch.is_grad_enabled() or type(self) is not Recurrent or any(hook_tables([self], ALL_HOOKS)):
            return None
        cell = self.cell
        with _named_errors(cell, x):
            compiled = self._compiled(x)
        if isinstance(compiled, str) or not compiled.kernel.plan.linear:
            return None
        state = cell.start(x.shape[0]) if state is None else check_state(state, cell.State, self._shapes, x)
        scan = self._scan_inputs(compiled, state)
        needed = any(tensor.requires_grad for tensor in (x, *scan.state, *scan.parameters.values()))
        return (scan, partial(self._state, compiled)) if needed else None

    def unchanged(self, *, parameters: bool = True) -> Identities | None:
        """What the kernel of the last call depends on, to be compared later; None if that is not known.

        Without ``parameters``, the caller compares those.
        """
        if not self._kernels:
            return None
        made_from, compiled = self._kernels[0]
        return None if isinstance(compiled, str) else unchanged(self, made_from, compiled, parameters=parameters)

    def kernel(self, x: Tensor) -> FusedScan | str:
        """Return the fused kernel for this input, or the reason why there is none."""
        compiled = self._compiled(x)
        return compiled if isinstance(compiled, str) else compiled.kernel

    def _compiled(self, x: Tensor) -> CompiledCell | str:
        """Return what is compiled for this input, or the reason why nothing is."""
        if not self.fused:
            return "switched off by layer.fused = False"
        if not x.is_cpu:
            return f"x is on {x.device}, and fused kernels run on the CPU"
        if (reason := active_transform()) is not None:
            return reason
        compiled = self._current(x)
        if isinstance(compiled, CompiledCell) and any(compiled.hooks):
            return HOOKS
        return compiled

    def _current(self, x: Tensor) -> CompiledCell | str:
        """Return what was compiled from the cell as it is now; compile it if there is nothing."""
        cell, precision = self.cell, self._precision()
        for index, (made_from, compiled) in enumerate(self._kernels):
            if made_from.matches(cell, x.dtype, precision):
                if index:
                    self._kernels = (self._kernels[index], *self._kernels[:index], *self._kernels[index + 1 :])
                return compiled
        if any(hook_tables(cell.modules(), ALL_HOOKS)):
            return HOOKS
        made_from = Origin(cell, x.dtype, Guards(cell, type(cell).__name__), precision)
        try:
            # Tracing the cell must not change the random state.
            with torch.random.fork_rng(devices=[]), paused_products():
                compiled = CompiledCell(self._fuse(x, precision), cell)
        except Unfusable as error:
            if isinstance(error, Impure):  # what it reads changes with every call
                made_from = made_from._replace(guards=None)
            compiled = str(error)
            if all(compiled != known for _, known in self._kernels):
                name = type(cell).__name__
                warnings.warn(f"{name} runs step by step, which is slow: {error}", stacklevel=7)
        self._kernels = ((made_from, compiled), *self._kernels[: MAX_KERNELS - 1])
        return compiled

    def _precision(self) -> Precision:
        """The precision of products: int8 where no gradient is needed, bfloat16 where one is."""
        return "int8" if self.int8 else "float32" if active_products() is None else "bfloat16"

    def _fuse(self, x: Tensor, precision: Precision) -> FusedScan:
        cell = self.cell
        parameters = dict(cell.named_parameters())
        linear, rest = _first_linear(cell)
        # A copy, because its parameters are replaced by traced ones while other threads may use the cell.
        shared: dict[int, Any] = {id(parameter): parameter for parameter in parameters.values()}
        try:
            traced = _StepAfterProduct(copy.deepcopy(cell, shared), rest)
        except (RuntimeError, TypeError) as error:
            raise Unfusable(f"the cell cannot be copied: {error}") from error
        guards = Guards(traced.cell, type(cell).__name__)
        if guards.opaque is not None:
            raise Unfusable(f"step can read {guards.opaque}, whose changes cannot be noticed")

        def step(parameters: Mapping[str, Tensor], x_t: Tensor, fields: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
            if linear and f"{linear}.bias" in parameters:
                x_t = x_t + parameters[f"{linear}.bias"]
            replaced = {f"cell.{name}": parameter for name, parameter in parameters.items()}
            state = cell.State(*_unflatten(fields, self._shapes))
            next_fields: tuple[Tensor, ...] = functional_call(traced, replaced, (x_t, state))
            return tuple([field.flatten(1) if field.dim() > 2 else field for field in next_fields])

        if linear:
            projected = parameters[f"{linear}.weight"].shape[0]
        else:
            with torch.no_grad():
                projected = cell.project(x.new_zeros(1, 1, self.input_size)).shape[-1]
        try:
            return fuse(
                step,
                parameters,
                projected=projected,
                state=tuple(shape.numel() for shape in self._shapes),
                linear=f"{linear}.weight" if linear else None,
                passes_input=linear is not None and type(cell.input) is ProjectionWithInput,
                quantized=linear_weights(cell) if precision == "int8" else (),
                bfloat16=precision == "bfloat16",
            )
        finally:
            if (changed := guards.changed()) is not None:
                raise Impure(f"step changes {changed}")

    def trace_projection(self) -> TracedStep:
        """The projection of one input as expressions: the only row of ``next_state``. Raises ``Unfusable``."""
        parameters = dict(self.cell.named_parameters())
        like = next(iter(parameters.values()))
        with torch.random.fork_rng(devices=[]), torch.no_grad():
            width = self.cell.project(like.new_zeros(1, 1, self.input_size)).shape[-1]
        module = _Projection(copy.deepcopy(self.cell, {id(parameter): parameter for parameter in parameters.values()}))

        def step(parameters: Mapping[str, Tensor], x_t: Tensor, _: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
            replaced = {f"cell.{name}": parameter for name, parameter in parameters.items()}
            projected: Tensor = functional_call(module, replaced, (x_t,))
            return (projected,)

        return trace(step, parameters, self.input_size, (width,))

    def train(self, mode: bool = True) -> Self:  # noqa: FBT001, FBT002  torch's signature
        for _, compiled in self._kernels:
            if isinstance(compiled, CompiledCell):
                compiled.kernel.clear_packed()
        self._int8_products = self._prepared = self._last_shape = None
        return super().train(mode)

    @property
    def path(self) -> str:
        """``fused``, or ``loop:`` and the reason why the cell runs step by step in Python."""
        try:
            kernel = self.kernel(next(self.cell.parameters()))
        except AttributeError as error:  # torch would report a missing attribute `path`
            raise RuntimeError(f"{type(self.cell).__name__}.step failed: {error}") from error
        return f"loop: {kernel}" if isinstance(kernel, str) else "fused"

    def __getstate__(self) -> dict[str, Any]:
        """Exclude compiled code: it is compiled again when needed."""
        return {**self.__dict__, "_kernels": (), "_int8_products": None, "_prepared": None}


def _is_custom(cell: Cell) -> bool:
    """Whether a cell, or a part of it, is a user's code."""
    return any(type(part).__module__.partition(".")[0] not in ("seqloom", "torch") for part in cell.modules())


@contextmanager
def _named_errors(cell: Cell, x: Tensor) -> Iterator[None]:
    """In this context, an error of a user's code names the cell and its input."""
    try:
        yield
    except LayerError:
        raise
    except Exception as error:
        if not _is_custom(cell) or not user_place(error):
            raise
        raise LayerError(
            f"the cell {layer_name(type(cell))} failed on x {tuple(x.shape)}: {describe_error(error)}"
        ) from error


class _StepAfterProduct(nn.Module):
    """A step of a cell that starts after the input's matrix product and includes the rest of the projection."""

    def __init__(self, cell: Cell, rest: int | None) -> None:
        super().__init__()
        self.cell = cell
        self.rest = rest  # index of the first module of cell.input that is applied here

    def forward(self, projected: Tensor, state: Any) -> tuple[Tensor, ...]:
        if self.rest is not None:
            for module in list(self.cell.input.children())[self.rest :]:
                projected = module(projected)
        next_state, _ = take_step(self.cell, projected, state)
        return tuple(next_state)


class _Projection(nn.Module):
    """The projection of a cell, for one time step."""

    def __init__(self, cell: Cell) -> None:
        super().__init__()
        self.cell = cell

    def forward(self, x_t: Tensor) -> Tensor:  # (B, D) → (B, P)
        return self.cell.project(x_t)


def _first_linear(cell: Cell) -> tuple[str | None, int | None]:
    """Name of the linear map that starts a cell's projection, and index of the module after it."""
    if type(cell).project is not Cell.project:
        return None, None
    if type(cell.input) is nn.Linear:
        return "input", None
    if type(cell.input) is ProjectionWithInput:
        return "input.linear", None
    if type(cell.input) is nn.Sequential and type(cell.input[0]) is nn.Linear:
        return "input.0", 1
    return None, None


def loop(
    cell: Cell,
    projected: Tensor,  # (T, B, P)
    mask: Tensor | None,  # (B, T)
    state: Any,
    *,
    reverse: bool,
) -> tuple[Tensor, Any]:  # (B, T, H), state
    """Plain loop over time: the reference for the fused kernel."""
    outputs: list[Tensor] = []
    for next_state, _ in steps(cell, projected, mask, state, reverse=reverse):
        real = None if mask is None else mask[:, -1 - len(outputs) if reverse else len(outputs)]
        outputs.append(next_state[0] if real is None else torch.where(real.unsqueeze(-1), next_state[0], 0))
        state = next_state
    if reverse:
        outputs.reverse()
    empty = projected.transpose(0, 1)[..., :1].expand(-1, -1, cell.hidden_size)  # of length zero
    return torch.stack(outputs, dim=1) if outputs else empty, state


def steps(
    cell: Cell,
    projected: Tensor,  # (T, B, P)
    mask: Tensor | None,  # (B, T)
    state: Any,
    *,
    reverse: bool,
) -> Iterator[tuple[Any, tuple[Tensor, ...]]]:
    """Yield state and gates after each step, in the order of computation; padding leaves the state unchanged."""
    # unbind instead of indexing, whose gradient fills a tensor of the whole sequence at every step.
    inputs = list(
        zip(projected.unbind(0), mask.unbind(1) if mask is not None else [None] * len(projected), strict=True)
    )
    for x_t, real in reversed(inputs) if reverse else inputs:
        next_state, gates = take_step(cell, x_t, state)
        state = next_state if real is None else states.where(real, next_state, state)
        yield state, gates


def take_step(cell: Cell, projected: Tensor, state: Any) -> tuple[Any, tuple[Tensor, ...]]:
    """Call a cell's step and check what it returns."""
    result: Any = cell.step(projected, state)  # a user-defined cell may return anything
    name, gates = type(cell).__qualname__, len(cell.gates)
    if not isinstance(result, tuple) or len(result) != 2 or not isinstance(result[0], cell.State):
        raise TypeError(f"{name}.step returned {type(result).__qualname__}, expected (State, gates)")
    if len(result[1]) != gates:
        raise ValueError(f"{name}.step returned {len(result[1])} gates, expected {gates}: {cell.gates}")
    next_state, values = result
    for field, value, before in zip(cell.State._fields, next_state, state, strict=True):
        if not isinstance(value, Tensor):
            raise TypeError(f"{name}.step returned {type(value).__qualname__} as state.{field}, expected a tensor")
        if value.shape != before.shape:
            shape, expected = (_batch_shape(tensor.shape, len(before)) for tensor in (value, before))
            raise ValueError(f"{name}.step returned state.{field} of shape {shape}, expected {expected}")
    return next_state, values


def _batch_shape(shape: torch.Size, batch: int) -> str:
    """A shape in which B stands for the size of the batch."""
    sizes = ["B" if not index and size == batch else str(size) for index, size in enumerate(shape)]
    return f"({', '.join(sizes)}{',' * (len(sizes) == 1)})"


def _unflatten(fields: tuple[Tensor, ...], shapes: tuple[torch.Size, ...]) -> tuple[Tensor, ...]:
    """The fields of a state, (B, n), in their shapes."""
    pairs = zip(fields, shapes, strict=True)
    return tuple([field if len(shape) == 1 else field.view(-1, *shape) for field, shape in pairs])


def check_state(state: Any, state_type: type[Any], shapes: tuple[torch.Size, ...], x: Tensor) -> Any:
    """Return the state as the cell's State, or raise an error that names the field of wrong shape or type."""
    fields, batch = state_type._fields, x.shape[0]
    if not isinstance(state, tuple) or len(state) != len(fields):
        raise TypeError(f"state is {type(state).__name__}, expected {state_type.__qualname__} with fields {fields}")
    for name, field, shape in zip(fields, state, shapes, strict=True):
        if not isinstance(field, Tensor):
            raise TypeError(f"state.{name} is {type(field).__name__}, expected a tensor of shape {(batch, *shape)}")
        if field.shape != (batch, *shape):
            raise ValueError(f"state.{name} has shape {tuple(field.shape)}, expected {(batch, *shape)}")
        if field.dtype != x.dtype or field.device != x.device:
            raise TypeError(f"state.{name} is {field.dtype} on {field.device}, expected {x.dtype} on {x.device}")
    return state_type(*state)
