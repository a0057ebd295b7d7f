"""Gradients that cannot be differentiated again say so, instead of being constants for torch."""

from collections.abc import Callable
from functools import wraps
from typing import Any

import torch
from torch import Tensor

Backward = Callable[..., tuple[Tensor | None, ...]]


def differentiable_once(backward: Backward) -> Backward:
    """Raise an error where gradients are computed with ``create_graph=True``.

    torch's ``once_differentiable`` does so only where the gradient that enters is itself a function of the inputs; the
    second derivative of a sum would be zero without a word.
    """

    @wraps(backward)
    def wrapped(context: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        if torch.is_grad_enabled():
            raise RuntimeError("create_graph=True: this loss has a kernel that can be differentiated once only")
        return backward(context, *gradients)

    return wrapped
