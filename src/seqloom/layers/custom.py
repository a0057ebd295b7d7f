"""A user's module in the place of a layer."""

import inspect
from typing import Any

import torch
from torch import Tensor, nn

from seqloom.layers.layer import Layer, check_input


class CustomLayer(Layer):
    """Wraps a module that maps (x (B,T,D), mask, state) to (y (B,T,E), state), or, without memory, x to y.

    Its output size is found by a trial. The padding of what it returns is set to zero; what it does with the padding
    that it reads is its own affair.
    """

    def __init__(self, module: nn.Module, input_size: int) -> None:
        like = next(module.parameters(), torch.empty(0))
        x = torch.zeros(2, 3, input_size, dtype=like.dtype, device=like.device)
        modes = {part: part.training for part in module.modules()}
        with torch.no_grad():
            y, stateless = _try(module.eval(), x)
        for part, training in modes.items():
            part.training = training
        name = type(module).__name__
        if not isinstance(y, Tensor) or y.dim() != 3 or y.shape[:2] != x.shape[:2]:
            found = tuple(y.shape) if isinstance(y, Tensor) else type(y).__name__
            raise ValueError(f"{name} makes {found} of x (2, 3, {input_size}), expected a tensor (2, 3, its width)")
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


def _try(module: nn.Module, x: Tensor) -> tuple[Any, bool]:
    mask = torch.ones(x.shape[:2], dtype=torch.bool, device=x.device)
    try:
        inspect.signature(module.forward).bind(x, mask, None)
    except TypeError:
        return module(x), True
    answer = module(x, mask, None)
    if not isinstance(answer, tuple) or len(answer) != 2:
        raise TypeError(f"{type(module).__name__} gives {type(answer).__name__}, expected a pair of output and state")
    return answer[0], False
