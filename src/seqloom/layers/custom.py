"""A user's ``nn.Module`` or cell as a layer; errors say what it got, what it returned and what is expected."""

import inspect
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from seqloom.cells.cell import Cell
from seqloom.layers.layer import Layer, check_input
from seqloom.layers.layer_error import LayerError, describe_error, layer_name
from seqloom.layers.recurrent.recurrent import take_step


class CustomLayer(Layer):
    """Wraps a module that maps (x (B,T,D), mask, state) to (y (B,T,E), state), or, if it is stateless, x to y.

    The output size is determined by a trial call. Padding is set to zero in the input and in the output.
    """

    def __init__(self, module: nn.Module, input_size: int) -> None:
        like = next(module.parameters(), torch.empty(0))
        x = torch.zeros(2, 3, input_size, dtype=like.dtype, device=like.device)
        mask = torch.ones(x.shape[:2], dtype=torch.bool, device=x.device)
        modes = {part: part.training for part in module.modules()}
        stateless = _is_stateless(module, x, mask)
        with torch.no_grad():
            y, _ = _call(module.eval(), x, mask, None, stateless=stateless)
        for part, training in modes.items():
            part.training = training
        super().__init__(input_size, y.shape[2])
        self.module = module
        self.stateless = stateless

    @classmethod
    def build(cls, factory: Callable[[int], nn.Module], input_size: int) -> "CustomLayer":
        """The layer of a class or function that makes a module from the input size."""
        name = layer_name(factory)
        try:
            module: Any = factory(input_size)
        except Exception as error:
            raise LayerError(
                f"{name}({input_size}) failed: {describe_error(error)}; a custom layer is made from its input size only"
            ) from error
        if not isinstance(module, nn.Module):
            raise LayerError(f"{name}({input_size}) returned {_describe(module)}, expected an nn.Module")
        return cls(module, input_size)

    def forward(self, x: Tensor, mask: Tensor | None = None, state: Any = None) -> tuple[Tensor, Any]:
        check_input(x, mask, size=self.input_size, like=next(self.parameters(), x))
        if mask is not None:
            x = x.masked_fill(~mask.unsqueeze(-1), 0)
        size = self.output_size
        y, state = _call(self.module, x, mask, state, stateless=self.stateless, output_size=size)
        if mask is not None:
            y = y.masked_fill(~mask.unsqueeze(-1), 0)
        return y, state


def check_cell_class(make_cell: Callable[..., Cell], input_size: int, hidden_size: int, **options: Any) -> None:
    """Raise LayerError unless a custom cell can be made and makes a step from one state to the next."""
    name = layer_name(make_cell)
    arguments = ", ".join([str(input_size), str(hidden_size), *(f"{key}={value!r}" for key, value in options.items())])
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        try:
            cell = make_cell(input_size, hidden_size, **options)
            state = cell.start(2)
            x = state[0].new_zeros(1, 2, input_size)
        except Exception as error:
            raise LayerError(
                f"{name}({arguments}) failed: {describe_error(error)}; a cell is made from its input size and its "
                "hidden size"
            ) from error
        inputs = f"x (2, {input_size}) and a state of (2, {hidden_size})"
        try:
            next_state, _ = take_step(cell, cell.project(x)[0], state)
        except Exception as error:
            raise LayerError(f"the cell {name} failed on {inputs}: {describe_error(error)}") from error
    for field, value in zip(cell.State._fields, next_state, strict=True):
        if not isinstance(value, Tensor) or value.shape != (2, hidden_size):
            returned = f"state.{field} {_describe(value)}"
            raise LayerError(f"the cell {name} got {inputs} and returned {returned}, expected (2, {hidden_size})")


def _is_stateless(module: nn.Module, x: Tensor, mask: Tensor) -> bool:
    """Whether a module is called with x alone."""
    signature = inspect.signature(module.forward)
    for arguments, stateless in (((x, mask, None), False), ((x,), True)):
        try:
            signature.bind(*arguments)
        except TypeError:
            continue
        return stateless
    name = type(module).__name__
    raise LayerError(f"{name}.forward takes {signature}, expected (x) or (x, mask, state)")


def _call(
    module: nn.Module,
    x: Tensor,  # (B, T, D)
    mask: Tensor | None,  # (B, T)
    state: Any,
    *,
    stateless: bool,
    output_size: int | None = None,  # None: any
) -> tuple[Tensor, Any]:
    """The output and the state of a module; LayerError if it fails or returns something else."""
    name = type(module).__name__
    inputs = f"x {_describe(x)}"
    if not stateless:
        inputs += f", mask {_describe(mask)} and state {_describe(state)}"
    try:
        result: Any = module(x) if stateless else module(x, mask, state)
    except Exception as error:
        raise LayerError(f"{name}.forward failed on {inputs}: {describe_error(error)}") from error
    y, next_state = result, ()
    expected = f"({x.shape[0]}, {x.shape[1]}, {output_size or 'output size'})"
    if not stateless:
        expected = f"a pair of a tensor {expected} and a state"
        if not isinstance(result, tuple) or len(result) != 2:
            raise LayerError(f"{name}.forward got {inputs} and returned {_describe(result)}, expected {expected}")
        y, next_state = result
    if (
        not isinstance(y, Tensor)
        or y.dim() != 3
        or y.shape[:2] != x.shape[:2]
        or y.shape[2] != (output_size or y.shape[2])
    ):
        raise LayerError(f"{name}.forward got {inputs} and returned {_describe(y)}, expected {expected}")
    return y, next_state


def _describe(value: object) -> str:
    """The shape of a tensor, or what a value is."""
    if isinstance(value, Tensor):
        return str(tuple(value.shape))
    if value is None:
        return "None"
    if isinstance(value, tuple) and len(value) <= 4:
        return f"({', '.join(map(_describe, value))})"
    return type(value).__name__
