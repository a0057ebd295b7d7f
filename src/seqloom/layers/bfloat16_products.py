"""Training with matrix products in bfloat16: factors are rounded, sums and everything else are float32.

Inside the context, products with weight matrices (those of linear maps, recurrent kernels and the softmax over a
vocabulary) are computed so wherever a gradient is needed. Weights stay float32; each is rounded once after a change.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple, Self

import torch
from torch import Tensor
from torch.nn import functional
from torch.overrides import TorchFunctionMode
from torch.utils.weak import WeakTensorKeyDictionary

from seqloom.kernels.linalg.bfloat16 import Bfloat16Matrix, contract
from seqloom.kernels.linalg.bfloat16_gemm import unsupported
from seqloom.kernels.linalg.packed import PackedCache
from seqloom.kernels.runtime.differentiation import differentiable_once

__all__ = ["Bfloat16Products", "active_products", "paused_products", "unsupported"]


class RoundedWeight(NamedTuple):
    """A weight (N, K) as it is multiplied: packed for each direction when it is used."""

    transposed: PackedCache[Bfloat16Matrix]  # (K, N): x · weightᵀ
    plain: PackedCache[Bfloat16Matrix]  # (N, K): gradient · weight


class Bfloat16Products(TorchFunctionMode):
    """The context; it may be entered again and again, and keeps the rounded weights in between."""

    def __init__(self) -> None:
        if reason := unsupported():
            raise RuntimeError(reason)
        super().__init__()
        self._weights: Any = WeakTensorKeyDictionary()
        self._tokens: list[Any] = []

    def __enter__(self) -> Self:
        self._tokens.append(_active.set(self))
        super().__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        super().__exit__(*error)
        _active.reset(self._tokens.pop())

    def rounded(self, weight: Tensor) -> RoundedWeight:
        """The rounded forms of a weight."""
        if weight not in self._weights:
            self._weights[weight] = RoundedWeight(
                PackedCache(lambda matrix: Bfloat16Matrix(matrix.t())), PackedCache(Bfloat16Matrix)
            )
        rounded: RoundedWeight = self._weights[weight]
        return rounded

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        options = kwargs or {}
        if func is functional.linear and _active.get() is self:
            return self._multiply(*args, **options)
        return func(*args, **options)

    def _multiply(self, input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:  # noqa: A002  as torch's
        if not multiplies_rounded(input, weight):
            return functional.linear(input, weight, bias)
        out: Tensor = _Linear.apply(input, weight, bias, self.rounded(weight))
        return out


_active: ContextVar[Bfloat16Products | None] = ContextVar("bfloat16_products", default=None)


def active_products() -> Bfloat16Products | None:
    """The context that is active."""
    return _active.get()


@contextmanager
def paused_products() -> Iterator[None]:
    """Compute in float32, as outside of the context."""
    token = _active.set(None)
    try:
        yield
    finally:
        _active.reset(token)


def multiplies_rounded(x: Tensor, weight: Tensor) -> bool:
    """Whether a product is one of those that are computed in bfloat16."""
    if not (torch.is_grad_enabled() and (x.requires_grad or weight.requires_grad)):
        return False
    return weight.dim() == 2 and x.dtype == weight.dtype == torch.float32 and x.is_cpu and weight.is_cpu


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, x: Tensor, weight: Tensor, bias: Tensor | None, rounded: RoundedWeight) -> Tensor:
        rows = x.reshape(-1, x.shape[-1])
        context.save_for_backward(rows, weight)
        context.rounded, context.shape = rounded, x.shape
        out = rounded.transposed(weight).multiply(rows)
        if bias is not None:
            out += bias
        return out.squeeze(0) if x.dim() == 1 else out if x.dim() == 2 else out.unflatten(0, x.shape[:-1])

    @staticmethod
    @differentiable_once
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        rows, weight = context.saved_tensors
        gradient = gradient.reshape(-1, len(weight))
        needs_x, needs_weight, needs_bias, _ = context.needs_input_grad
        x_gradient = context.rounded.plain(weight).multiply(gradient).reshape(context.shape) if needs_x else None
        weight_gradient = contract(gradient, rows) if needs_weight else None
        return x_gradient, weight_gradient, gradient.sum(dim=0) if needs_bias else None, None
