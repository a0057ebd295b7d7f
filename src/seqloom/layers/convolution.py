"""Feed-forward and convolutional layers: each output reads a window of the input (window 1: feed-forward)."""

from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn

from seqloom.layers.layer import Layer, check_input

ACTIVATIONS: dict[str, type[nn.Module]] = {
    "relu": nn.ReLU,
    "tanh": nn.Tanh,
    "sigmoid": nn.Sigmoid,
    "leaky_relu": nn.LeakyReLU,
    "elu": nn.ELU,
    "gelu": nn.GELU,
    "none": nn.Identity,
}
ActivationName = Literal["relu", "tanh", "sigmoid", "leaky_relu", "elu", "gelu", "none"]


def make_activation(name: str, *, negative_slope: float = 0.01, elu_alpha: float = 1.0) -> nn.Module:
    """The activation of this name, or an error that lists the names."""
    if name not in ACTIVATIONS:
        raise ValueError(f"activation is {name!r}, expected one of {', '.join(ACTIVATIONS)}")
    slopes = {"leaky_relu": {"negative_slope": negative_slope}, "elu": {"alpha": elu_alpha}}
    return ACTIVATIONS[name](**slopes.get(name, {}))


class Convolution(Layer):
    """y_t = f(W [x_{t-a}; …; x_{t+b}] + b), where a + b + 1 is the window.

    Causal windows end at t, and the state holds the last elements read. Other windows are centred at t and need the
    whole sequence at once. Positions before the start, after the end and in the padding are zero.
    """

    class State(NamedTuple):
        past: Tensor  # (B, window - 1, input_size), the last elements read

    def __init__(
        self,
        input_size: int,
        output_size: int,
        *,
        window: int = 1,
        activation: str = "relu",
        negative_slope: float = 0.01,  # of leaky_relu
        elu_alpha: float = 1.0,
        causal: bool = False,
    ) -> None:
        if window < 1:
            raise ValueError(f"window must be at least 1, got {window}")
        function = make_activation(activation, negative_slope=negative_slope, elu_alpha=elu_alpha)
        super().__init__(input_size, output_size)
        self.window = window
        self.causal = causal
        self.linear = nn.Linear(window * input_size, output_size)
        self.activation = function

    def forward(self, x: Tensor, mask: Tensor | None = None, state: Any = None) -> tuple[Tensor, "Convolution.State"]:
        check_input(x, mask, size=self.input_size, like=self.linear.weight)
        if mask is not None:
            x = x.masked_fill(~mask.unsqueeze(-1), 0)
        before = self.window - 1 if self.causal else (self.window - 1) // 2
        past = past_elements(state, x, self.window - 1)
        padded = torch.cat([past[:, self.window - 1 - before :], x], dim=1)
        if not self.causal:
            padded = nn.functional.pad(padded, (0, 0, 0, self.window - 1 - before))
        windows = torch.cat([padded[:, step : step + x.shape[1]] for step in range(self.window)], dim=2)
        y = self.activation(self.linear(windows))  # (B, T, window × D) → (B, T, output_size)
        if mask is not None:
            y = y.masked_fill(~mask.unsqueeze(-1), 0)
        return y, self.State(last_elements(past, x, mask))

    def extra_repr(self) -> str:
        return f"window={self.window}, causal={self.causal}"


def past_elements(state: Any, x: Tensor, count: int) -> Tensor:  # (B, count, D)
    """The elements before x: zeros at the start, otherwise those that the state of a convolution holds."""
    if state is None:
        return x.new_zeros(x.shape[0], count, x.shape[2])
    if not isinstance(state, tuple) or len(state) != 1 or not isinstance(state[0], Tensor):
        raise TypeError(f"state is {type(state).__name__}, expected Convolution.State with field past")
    past, shape = state[0], (x.shape[0], count, x.shape[2])
    if past.shape != shape:
        raise ValueError(f"state.past has shape {tuple(past.shape)}, expected {shape}")
    if past.dtype != x.dtype or past.device != x.device:
        raise TypeError(f"state.past is {past.dtype} on {past.device}, expected {x.dtype} on {x.device}")
    return past


def last_elements(past: Tensor, x: Tensor, mask: Tensor | None) -> Tensor:
    """The last real elements of each row of x and those before it, as many as ``past`` has."""
    elements, count = torch.cat([past, x], dim=1), past.shape[1]
    if mask is None:
        return elements[:, elements.shape[1] - count :]
    steps = mask.sum(dim=1).unsqueeze(1) + torch.arange(count, device=x.device)  # (B, count)
    return elements.gather(1, steps.unsqueeze(-1).expand(-1, -1, x.shape[2]))
