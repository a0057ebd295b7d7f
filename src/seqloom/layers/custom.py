"""A user's ``nn.Module`` as a layer."""

import inspect
from typing import Any

import torch
from torch import Tensor, nn

from seqloom.layers.layer import Layer, check_input


class CustomLayer(Layer):
    """Wraps a module that maps (x (B,T,D), mask, state) to (y (B,T,E), state), or, if it is stateless, x to y.

    The output size is determined by a trial call. Padding is set to zero in the input and in the output.
    """

    def __init__(self, module: nn.Module, input_size: int) -> None:
        like = next(module.parameters(), torch.empty(0))
        x = torch.zeros(2, 3, input_size, dtype=like.dtype, device=like.device)
        modes = {part: part.training for part in module.modules()}
        with torch.no_grad():
            y, stateless = _trial(module.eval(), x)
        for part, training in modes.items():
            part.training = training
        name = type(module).__name__
        if not isinstance(y, Tensor) or y.dim() != 3 or y.shape[:2] != x.shape[:2]:
            output = tuple(y.shape) if isinstance(y, Tensor) else type(y).__name__
            raise ValueError(f"{name} maps x (2, 3, {input_size}) to {output}, expected a tensor (2, 3, output size)")
        super().__init__(input_size, y.shape[2])
        self.module = module
        self.stateless = stateless

    def forward(self, x: Tensor, mask: Tensor | None = None, state: Any = None) -> tuple[Tensor, Any]:
        check_input(x, mask, size=self.input_size, like=next(self.parameters(), x))
        if mask is not None:
            x = x.masked_fill(~mask.unsqueeze(-1), 0)
        y, state = (self.module(x), ()) if self.stateless else self.module(x, mask, state)
        if mask is not None:
            y = y.masked_fill(~mask.unsqueeze(-1), 0)
        return y, state


def _trial(module: nn.Module, x: Tensor) -> tuple[Any, bool]:
    mask = torch.ones(x.shape[:2], dtype=torch.bool, device=x.device)
    try:
        inspect.signature(module.forward).bind(x, mask, None)
    except TypeError:
        return module(x), True
    result = module(x, mask, None)
    if not isinstance(result, tuple) or len(result) != 2:
        raise TypeError(f"{type(module).__name__} returns {type(result).__name__}, expected a pair (output, state)")
    return result[0], False
