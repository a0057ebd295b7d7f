"""A cell run over time: masks, direction, state in and state out, by the fused kernel or by the plain loop."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from seqloom import state as states
from seqloom.cells.cell import Cell
from seqloom.layers.layer import Layer, check_input


class Recurrent(Layer):
    """Runs a cell along the time axis, backwards in time if ``reverse``.

    The state that comes back is the one after each row's last real element (after the first one if ``reverse``). To run a
    sequence in pieces, hand the state on; with ``reverse``, begin with the last piece.
    """

    def __init__(self, cell: Cell, *, reverse: bool = False) -> None:
        super().__init__(cell.input_size, cell.hidden_size)
        self.cell = cell
        self.reverse = reverse

    def forward(self, x: Tensor, mask: Tensor | None = None, state: Any = None) -> tuple[Tensor, Any]:
        check_input(x, mask, size=self.input_size, like=next(self.cell.parameters()))
        start = self.cell.start(x.shape[0])
        state = start if state is None else check_state(state, start)
        if mask is not None:
            x = x.masked_fill(~mask.unsqueeze(-1), 0)
        projected = self.cell.project(x.transpose(0, 1))
        return loop(self.cell, projected, mask, state, reverse=self.reverse)


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
    empty = projected.new_zeros(projected.shape[1], 0, cell.hidden_size)
    return torch.stack(outputs, dim=1) if outputs else empty, state


def steps(
    cell: Cell,
    projected: Tensor,  # (T, B, P)
    mask: Tensor | None,  # (B, T)
    state: Any,
    *,
    reverse: bool,
) -> Iterator[tuple[Any, tuple[Tensor, ...]]]:
    """The state after each step, in the order of computation, with the step's gates; the padding leaves a state as it is."""
    # unbind, not indexing: the gradient of an index fills a tensor of the whole sequence at every step.
    moments = list(zip(projected.unbind(0), mask.unbind(1) if mask is not None else [None] * len(projected), strict=True))
    for moment, real in reversed(moments) if reverse else moments:
        following, gates = cell.step(moment, state)
        state = following if real is None else states.where(real, following, state)
        yield state, gates


def check_state(state: Any, like: Any) -> Any:
    """Raise an error that names the field of a state whose shape or type does not fit."""
    if not isinstance(state, tuple) or len(state) != len(like):
        raise TypeError(f"state is {type(state).__name__}, wanted {type(like).__qualname__} with fields {like._fields}")
    for name, found, wanted in zip(like._fields, state, like, strict=True):
        if found.shape != wanted.shape:
            raise ValueError(f"state.{name} has shape {tuple(found.shape)}, wanted {tuple(wanted.shape)}")
        if found.dtype != wanted.dtype or found.device != wanted.device:
            raise TypeError(f"state.{name} is {found.dtype} on {found.device}, wanted {wanted.dtype} on {wanted.device}")
    return type(like)(*state)
