"""Simple recurrent network (Elman 1990) with a choice of activations."""

from collections.abc import Callable
from functools import reduce
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from seqloom.cells.cell import Cell, projection, recurrence


def identity(total: Tensor) -> Tensor:
    return total


ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "relu": torch.relu,
    "leaky_relu": functional.leaky_relu,
    "elu": functional.elu,
    "maxout": identity,  # applied to the largest of the linear maps
}


class Elman(Cell):
    """Simple recurrent network.

    ::

        h' = φ(W x + U h + b)

    with φ one of tanh, sigmoid, relu, leaky_relu (slope 0.01) and elu; with maxout (Goodfellow et al. 2013), the
    largest of several linear maps::

        h' = max_k (W_k x + U_k h + b_k)

    Parameters: mn + n² + n for input size m and hidden size n; k times as many for maxout with k pieces.
    """

    class State(NamedTuple):
        hidden: Tensor

    gates: ClassVar[tuple[str, ...]] = ()

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        *,
        activation: str = "tanh",
        pieces: int = 2,  # linear maps of maxout; ignored by the other activations
        bias: bool = True,
    ) -> None:
        super().__init__(input_size, hidden_size)
        if activation not in ACTIVATIONS:
            raise ValueError(f"activation is {activation!r}, expected one of {', '.join(ACTIVATIONS)}")
        if pieces < 1:
            raise ValueError(f"pieces must be at least 1, got {pieces}")
        self.activation = activation
        self.pieces = pieces if activation == "maxout" else 1
        self.input = projection(input_size, hidden_size, blocks=self.pieces, bias=bias)
        self.recurrent = recurrence(hidden_size, blocks=self.pieces)

    def step(self, projected: Tensor, state: State) -> tuple[State, tuple[Tensor, ...]]:
        total = projected + self.recurrent(state.hidden)
        largest = reduce(torch.maximum, total.chunk(self.pieces, dim=-1))
        return self.State(ACTIVATIONS[self.activation](largest)), ()

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, activation={self.activation}"
