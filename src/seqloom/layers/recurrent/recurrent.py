"""A cell run over time: masks, direction, state in and state out, by the fused kernel or by the plain loop."""

import copy
import warnings
from collections.abc import Iterator, Mapping
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.func import functional_call

from seqloom import state as states
from seqloom.cells.cell import Cell
from seqloom.kernels.fuse.scan import FusedScan, Unfusable, fuse
from seqloom.kernels.runtime.staleness import (
    BACKWARD_HOOKS,
    FORWARD_HOOKS,
    active_transform,
    hook_tables,
    module_key,
)
from seqloom.layers.layer import Layer, check_input, untraced

KEPT = 8
"""Kernels of one layer: one for each floating type and mode, and some more while its cell is being changed."""


class Recurrent(Layer):
    """Runs a cell along the time axis, backwards in time if ``reverse``.

    The state that comes back is the one after each row's last real element (after the first one if ``reverse``). To
    run a sequence in pieces, hand the state on; with ``reverse``, begin with the last piece.
    """

    def __init__(self, cell: Cell, *, reverse: bool = False) -> None:
        if not isinstance(cell, Cell):
            raise TypeError(f"cell is {type(cell).__qualname__}, expected a Cell; for layers of torch.nn see from_torch")
        super().__init__(cell.input_size, cell.hidden_size)
        self.cell = cell
        self.reverse = reverse
        self.fused = True
        """Set to False to run the plain loop, which can be differentiated twice."""
        self._sizes = tuple(field.shape[1] for field in cell.start(1))
        self._kernels: dict[tuple[object, ...], FusedScan | str] = {}
        self._owners: dict[str, tuple[nn.Module, str]] = {}  # of each parameter its module, and its name there
        self._parts: tuple[nn.Module, ...] = ()  # of the cell, with itself

    @untraced
    def forward(self, x: Tensor, mask: Tensor | None = None, state: Any = None) -> tuple[Tensor, Any]:
        check_input(x, mask, size=self.input_size, like=next(self.cell.parameters()))
        start = state is None
        state = self.cell.start(x.shape[0]) if start else check_state(state, self.cell.State, self._sizes, x)
        kernel = self._kernel(x)
        if isinstance(kernel, FusedScan) and kernel.plan.linear:
            # The kernel projects its input itself and never looks at the padding.
            return self._scan(kernel, x, mask, state)
        if mask is not None:
            x = x.masked_fill(~mask.unsqueeze(-1), 0)
        projected = self.cell.project(x.transpose(0, 1))
        if isinstance(kernel, FusedScan):
            return self._scan(kernel, projected.transpose(0, 1), mask, state)
        return loop(self.cell, projected, mask, state, reverse=self.reverse)

    def _scan(self, kernel: FusedScan, x: Tensor, mask: Tensor | None, state: Any) -> tuple[Tensor, Any]:
        parameters = {name: getattr(owner, own) for name, (owner, own) in self._owners.items()}
        lengths = None if mask is None else mask.sum(dim=1)
        out, final = kernel(x.transpose(0, 1), tuple(state), parameters, lengths=lengths, reverse=self.reverse)
        return out.transpose(0, 1), self.cell.State(*final)

    def _kernel(self, x: Tensor) -> FusedScan | str:
        """The fused kernel for this kind of input, or why there is none."""
        if not self.fused:
            return "switched off by layer.fused = False"
        if x.device.type != "cpu":
            return f"x is on {x.device}, and fused kernels run on the CPU"
        if (reason := active_transform()) is not None:
            return reason
        if self._parts[:1] != (self.cell,):  # the cell was exchanged
            self._kernels = {}
        key: tuple[object, ...] = (x.dtype, type(self.cell).step, *map(module_key, self._parts))
        if key not in self._kernels:
            self._parts = tuple(self.cell.modules())
            key = (x.dtype, type(self.cell).step, *map(module_key, self._parts))
        if any(hook_tables(self._parts, FORWARD_HOOKS + BACKWARD_HOOKS)):
            return "a part of the cell has hooks, which are to see every step"
        if key not in self._kernels:
            if len(self._kernels) >= KEPT:
                self._kernels.clear()
            try:
                # To look at a cell draws no random numbers.
                with torch.random.fork_rng(devices=[]):
                    self._kernels[key] = self._fuse(x)
            except Unfusable as error:
                self._kernels[key] = str(error)
                name = type(self.cell).__name__
                warnings.warn(f"{name} runs step by step, which is slow: {error}", stacklevel=6)
        return self._kernels[key]

    def _fuse(self, x: Tensor) -> FusedScan:
        cell = self.cell
        parameters = dict(cell.named_parameters())
        paths = {name: name.rpartition(".") for name in parameters}
        self._owners = {name: (cell.get_submodule(path), own) for name, (path, _, own) in paths.items()}
        linear, rest = _first_map(cell)
        # While a copy's parameters are replaced by tracked ones, other threads may go on with the cell itself.
        try:
            whole = _FromProduct(copy.deepcopy(cell), rest)
        except (RuntimeError, TypeError) as error:
            raise Unfusable(f"the cell cannot be copied: {error}") from error

        def step(parameters: Mapping[str, Tensor], moment: Tensor, fields: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
            if linear and f"{linear}.bias" in parameters:
                moment = moment + parameters[f"{linear}.bias"]
            inside = {f"cell.{name}": parameter for name, parameter in parameters.items()}
            following: tuple[Tensor, ...] = functional_call(whole, inside, (moment, cell.State(*fields)))
            return following

        if linear:
            projected = parameters[f"{linear}.weight"].shape[0]
        else:
            with torch.no_grad():
                projected = cell.project(x.new_zeros(1, 1, self.input_size)).shape[-1]
        return fuse(
            step,
            parameters,
            projected=projected,
            state=self._sizes,
            linear=f"{linear}.weight" if linear else None,
        )

    def train(self, mode: bool = True) -> Self:  # noqa: FBT001, FBT002  as torch has it
        for kernel in self._kernels.values():
            if isinstance(kernel, FusedScan):
                kernel.clear_packed()
        return super().train(mode)

    @property
    def path(self) -> str:
        """``fused``, or ``loop: `` and the reason why the cell's steps run one by one in Python."""
        try:
            kernel = self._kernel(next(self.cell.parameters()))
        except AttributeError as error:  # which a property must not raise: torch would say that there is no `path`
            raise RuntimeError(f"{type(self.cell).__name__}.step failed: {error}") from error
        return f"loop: {kernel}" if isinstance(kernel, str) else "fused"

    def __getstate__(self) -> dict[str, Any]:
        """Compiled code is not part of a layer: it is made again where it is needed."""
        return {**self.__dict__, "_kernels": {}, "_owners": {}, "_parts": ()}


class _FromProduct(nn.Module):
    """A step of a cell from the product of its input on: what follows the product in its projection belongs to it."""

    def __init__(self, cell: Cell, rest: int | None) -> None:
        super().__init__()
        self.cell = cell
        self.rest = rest  # parts of cell.input from this one on are applied here

    def forward(self, moment: Tensor, state: Any) -> tuple[Tensor, ...]:
        if self.rest is not None:
            for part in list(self.cell.input.children())[self.rest :]:
                moment = part(moment)
        following, _ = take_step(self.cell, moment, state)
        return tuple(following)


def _first_map(cell: Cell) -> tuple[str | None, int | None]:
    """The linear map that a cell's projection begins with, by name, and which part of a sequence comes after it."""
    if type(cell).project is not Cell.project:
        return None, None
    if type(cell.input) is nn.Linear:
        return "input", None
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
    """The plain loop over time: the truth that the fused kernel is compared with."""
    outputs: list[Tensor] = []
    for following, _ in steps(cell, projected, mask, state, reverse=reverse):
        real = None if mask is None else mask[:, -1 - len(outputs) if reverse else len(outputs)]
        outputs.append(following[0] if real is None else torch.where(real.unsqueeze(-1), following[0], 0))
        state = following
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
    """The state after each step, in the order of computation, and the step's gates; padding leaves a state as it is."""
    # unbind, not indexing: the gradient of an index fills a tensor of the whole sequence at every step.
    moments = list(
        zip(projected.unbind(0), mask.unbind(1) if mask is not None else [None] * len(projected), strict=True)
    )
    for moment, real in reversed(moments) if reverse else moments:
        following, gates = take_step(cell, moment, state)
        state = following if real is None else states.where(real, following, state)
        yield state, gates


def take_step(cell: Cell, moment: Tensor, state: Any) -> tuple[Any, tuple[Tensor, ...]]:
    """A cell's step, or an error that says what it should have returned."""
    result: Any = cell.step(moment, state)  # of a cell that users write, it may be anything
    name, gates = type(cell).__qualname__, len(cell.gates)
    if not isinstance(result, tuple) or len(result) != 2 or not isinstance(result[0], cell.State):
        raise TypeError(f"{name}.step returned {type(result).__qualname__}, expected (State, gates)")
    if len(result[1]) != gates:
        raise ValueError(f"{name}.step returned {len(result[1])} gates, expected {gates}: {cell.gates}")
    following, values = result
    return following, values


def check_state(state: Any, kind: type[Any], sizes: tuple[int, ...], x: Tensor) -> Any:
    """The state as the cell's own kind, or an error that names the field whose shape or type does not fit."""
    fields = kind._fields
    if not isinstance(state, tuple) or len(state) != len(fields):
        raise TypeError(f"state is {type(state).__name__}, expected {kind.__qualname__} with fields {fields}")
    for name, found, size in zip(fields, state, sizes, strict=True):
        if not isinstance(found, Tensor):
            raise TypeError(f"state.{name} is {type(found).__name__}, expected a tensor of shape {(len(x), size)}")
        if found.shape != (len(x), size):
            raise ValueError(f"state.{name} has shape {tuple(found.shape)}, expected {(len(x), size)}")
        if found.dtype != x.dtype or found.device != x.device:
            raise TypeError(f"state.{name} is {found.dtype} on {found.device}, expected {x.dtype} on {x.device}")
    return kind(*state)
