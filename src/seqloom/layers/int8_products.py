"""Products with the linear maps of a module in int8, where its code runs in torch and not in a kernel."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from seqloom.kernels.linalg.packed import PackedCache
from seqloom.kernels.linalg.quantized import QuantizedMatrix
from seqloom.kernels.linalg.quantized_gemm import MAX_DEPTH


def linear_weights(module: nn.Module) -> dict[str, Tensor]:
    """The weights of the linear maps of a module that can be multiplied in int8, by name."""
    weights = {f"{name}.weight": part.weight for name, part in module.named_modules() if isinstance(part, nn.Linear)}
    return {name: weight for name, weight in weights.items() if weight.shape[1] <= MAX_DEPTH}


class Int8Products(TorchFunctionMode):
    """A context in which ``functional.linear`` with the weights of a module multiplies in int8."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self._weights = list(linear_weights(module).values())
        self._caches = {id(weight): PackedCache(QuantizedMatrix) for weight in self._weights}

    def matches(self, module: nn.Module) -> bool:
        """Whether the module still has the same weights."""
        weights = linear_weights(module).values()
        return len(weights) == len(self._weights) and all(map(lambda a, b: a is b, weights, self._weights))

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        options = kwargs or {}
        if func is functional.linear and len(args) == 3 and not options:
            x, weight, bias = args
            cache = self._caches.get(id(weight))
            if cache is not None and weight.dtype is x.dtype is torch.float32 and x.is_cpu and x.numel():
                return _multiply(cache(weight), x, bias)
        return func(*args, **options)


def _multiply(matrix: QuantizedMatrix, x: Tensor, bias: Tensor | None) -> Tensor:
    rows = x.reshape(-1, x.shape[-1])
    out = matrix.multiply(rows if rows.stride(1) == 1 else rows.contiguous())
    out = out if bias is None else out + bias
    return out.reshape(*x.shape[:-1], matrix.columns)
