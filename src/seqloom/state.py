"""State: nested named tuples of tensors, batch first, and the only four things that are ever done to them."""

from collections.abc import Callable
from typing import TypeVar, cast

import torch
from torch import Tensor

S = TypeVar("S")


def apply(function: Callable[..., Tensor], state: S, *others: S) -> S:
    """Call ``function`` on every tensor of ``state`` (with the matching ones of ``others``), keeping the structure."""
    if isinstance(state, Tensor):
        return cast(S, function(state, *others))
    if not isinstance(state, tuple):
        raise TypeError(f"a state holds tensors and tuples of them, not {type(state).__name__}")
    parts = [apply(function, *matching) for matching in zip(state, *cast(tuple[tuple[object]], others), strict=True)]
    return cast(S, type(state)(*parts) if hasattr(state, "_fields") else tuple(parts))


def select(state: S, rows: Tensor) -> S:
    """The given rows of the batch, in the given order; a row may be taken more than once."""
    return apply(lambda tensor: tensor.index_select(0, rows), state)


def repeat(state: S, times: int) -> S:
    """Every row ``times`` times in a row."""
    return apply(lambda tensor: tensor.repeat_interleave(times, dim=0), state)


def where(rows: Tensor, state: S, other: S) -> S:
    """Row by row, ``state`` where ``rows`` (B,) is true and ``other`` where it is false."""

    def choose(left: Tensor, right: Tensor) -> Tensor:
        return torch.where(rows.view(-1, *[1] * (left.dim() - 1)), left, right)

    return apply(choose, state, other)
