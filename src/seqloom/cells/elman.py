"""Simple recurrent network (Elman 1990) with a choice of activations."""

from collections.abc import Callable, Iterable
from functools import reduce
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from seqloom.cells.cell import Cell, projection, recurrence


def identity(total: Tensor) -> Tensor:
    return total


ACTIVATIONS: dict[str, Callable[..., Tensor]] = {
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "relu": torch.relu,
    "leaky_relu": functional.leaky_relu,
    "elu": functional.elu,
    "maxout": identity,  # applied to the largest of the linear maps
}


def activate(total: Tensor, activation: str, *, negative_slope: float, elu_alpha: float) -> Tensor:
    """Apply an activation function."""
    function = ACTIVATIONS[activation]
    if activation == "leaky_relu":
        return function(total, negative_slope)
    return function(total, elu_alpha) if activation == "elu" else function(total)


def check_activation(activation: str, allowed: Iterable[str] = tuple(ACTIVATIONS)) -> None:
    """Raise an error if there is no such activation."""
    if activation not in allowed:
        raise ValueError(f"activation is {activation!r}, expected one of {', '.join(allowed)}")


class Elman(Cell):
    """Simple recurrent network.

    ::

        h' = φ(W x + U h + b)

    with φ one of tanh, sigmoid, relu, leaky_relu (``negative_slope`` below 0) and elu (``elu_alpha`` times exp(a) - 1
    below 0); with maxout (Goodfellow et al. 2013), the largest of several linear maps::

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
        negative_slope: float = 0.01,  # of leaky_relu
        elu_alpha: float = 1.0,
        bias: bool = True,
    ) -> None:
        super().__init__(input_size, hidden_size)
        check_activation(activation)
        if pieces < 1:
            raise ValueError(f"pieces must be at least 1, got {pieces}")
        self.activation, self.negative_slope, self.elu_alpha = activation, negative_slope, elu_alpha
        self.pieces = pieces if activation == "maxout" else 1
        self.input = projection(input_size, hidden_size, blocks=self.pieces, bias=bias)
        self.recurrent = recurrence(hidden_size, blocks=self.pieces)

    def step(self, projected: Tensor, state: State) -> tuple[State, tuple[Tensor, ...]]:
        total = projected + self.recurrent(state.hidden)
        largest = reduce(torch.maximum, total.chunk(self.pieces, dim=-1))
        slopes = {"negative_slope": self.negative_slope, "elu_alpha": self.elu_alpha}
        return self.State(activate(largest, self.activation, **slopes)), ()

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, activation={self.activation}"
