"""Tensors of a checkpoint: copies and averages of weights, their check, and nested states under dotted names."""

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

EMPTY = "empty"
"""The name of the placeholder for a state without tensors, such as that of a layer without memory."""


LARGEST = 1e18
"""Weights beyond this overflow float32 as soon as they are squared or multiplied with each other."""


def bad_weights(model: nn.Module, weights: Mapping[str, Tensor] | None = None) -> str:
    """The first weights that no model can compute with, in words; empty: there are none.

    ``weights`` are checked instead of the model's own ones. Buffers such as log-probabilities may be infinite, but
    not NaN.
    """
    parameters = {name for name, _ in model.named_parameters()}
    for name, tensor in (model.state_dict() if weights is None else weights).items():
        if not tensor.is_floating_point() or not tensor.numel():
            continue
        is_parameter = name in parameters
        low, high = (float(bound) for bound in tensor.aminmax())  # NaN if any value is
        if math.isnan(low) or (is_parameter and max(-low, high) > LARGEST):
            bad = int((~tensor.isfinite() if is_parameter else tensor.isnan()).sum())
            values = (
                f"{bad:,} of {tensor.numel():,} values are not finite" if bad else f"values up to {max(-low, high):.1e}"
            )
            return f"{name}: {values}"
    return ""


def copy_weights(model: nn.Module) -> dict[str, Tensor]:
    """The current weights."""
    return {name: tensor.detach().clone() for name, tensor in model.state_dict().items()}


def average_weights(history: tuple[dict[str, Tensor], ...]) -> dict[str, Tensor]:
    """The mean of each weight; integers, and weights that have not changed, are taken from the last."""
    return {name: _average([weights[name] for weights in history]) for name in history[0]}


def _average(tensors: list[Tensor]) -> Tensor:
    """The mean; equal tensors have no rounding errors."""
    last = tensors[-1]
    if not last.is_floating_point() or all(tensor.equal(last) for tensor in tensors):
        return last.clone()
    return torch.stack(tensors).mean(dim=0)


def flatten_state(state: Any, name: str) -> dict[str, Tensor]:
    """The tensors of a nested state, named by their path such as ``name.0.1``."""
    if isinstance(state, Tensor):
        return {name: state.detach()}
    if not state:
        return {f"{name}.{EMPTY}": torch.empty(0)}
    tensors: dict[str, Tensor] = {}
    for index, part in enumerate(state):
        tensors.update(flatten_state(part, f"{name}.{index}"))
    return tensors


def nest(tensors: dict[str, Tensor]) -> dict[str, Any]:
    """Tensors under dotted names as nested dictionaries."""
    root: dict[str, Any] = {}
    for name, tensor in tensors.items():
        *path, last = name.split(".")
        node = root
        for step in path:
            node = node.setdefault(step, {})
        node[last] = tensor
    return root


def unflatten_state(nested: Any) -> Any:
    """Nested dictionaries with the keys 0, 1, … as tuples; each layer makes its own kind of state of them."""
    if isinstance(nested, Tensor):
        return nested
    if EMPTY in nested:
        return ()
    return tuple(unflatten_state(nested[str(index)]) for index in range(len(nested)))
