"""Independently recurrent neural network (Li et al. 2018)."""

from typing import ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from seqloom.cells.cell import Cell, projection
from seqloom.cells.elman import activate, check_activation


class IndRNN(Cell):
    """Simple recurrent network whose units read only their own previous value.

    ::

        h' = φ(W x + u ∘ h + b)

    with φ one of relu, tanh, sigmoid, leaky_relu and elu. The recurrent weights u are initially uniform in [0, 1].

    Parameters: mn + 2n for input size m and hidden size n.
    """

    class State(NamedTuple):
        hidden: Tensor

    gates: ClassVar[tuple[str, ...]] = ()

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        *,
        activation: str = "relu",
        negative_slope: float = 0.01,  # of leaky_relu
        elu_alpha: float = 1.0,
        bias: bool = True,
    ) -> None:
        super().__init__(input_size, hidden_size)
        check_activation(activation, ("relu", "tanh", "sigmoid", "leaky_relu", "elu"))
        self.activation, self.negative_slope, self.elu_alpha = activation, negative_slope, elu_alpha
        self.input = projection(input_size, hidden_size, blocks=1, bias=bias)
        self.recurrent = nn.Parameter(torch.rand(hidden_size))

    def step(self, projected: Tensor, state: State) -> tuple[State, tuple[Tensor, ...]]:
        total = projected + self.recurrent * state.hidden
        slopes = {"negative_slope": self.negative_slope, "elu_alpha": self.elu_alpha}
        return self.State(activate(total, self.activation, **slopes)), ()

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, activation={self.activation}"
