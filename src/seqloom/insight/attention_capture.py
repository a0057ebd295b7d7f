"""Attention weights of a model during one call: what each attention module was given is computed once more."""

import inspect
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class CapturedAttention:
    """One attention module during one call."""

    name: str  # of the module, as in named_modules
    weights: Tensor  # (B, heads, T, S), how much query t attends to key s


@dataclass(frozen=True)
class _Call:
    name: str
    module: nn.Module
    rng_state: Tensor  # before the call: dropout and samples are drawn from it again
    arguments: dict[str, Any]


def capture_attention(module: nn.Module, *args: Any, **kwargs: Any) -> tuple[Any, list[CapturedAttention]]:
    """Call the module; return its result and the weights of each attention inside, in the order of the calls.

    Neither this result nor any later one is changed by it. A module counts as attention if it has a method ``weights``
    that returns (B, T, S), (B, heads, T, S), or (B, S) for a single query, and whose arguments are arguments of
    ``forward``. Of nested attention modules, only the outermost is captured.
    """
    calls: list[_Call] = []
    with ExitStack() as stack:
        for name, part in attention_modules(module):
            hook = part.register_forward_pre_hook(_recorder(calls, name), with_kwargs=True)
            stack.callback(hook.remove)
        result = module(*args, **kwargs)
    return result, [CapturedAttention(call.name, _replay(call)) for call in calls]


def attention_modules(module: nn.Module, name: str = "") -> list[tuple[str, nn.Module]]:
    """All attention modules inside a module, with their names."""
    if _weight_arguments(module) is not None:
        return [(name, module)]
    return [
        named
        for child, part in module.named_children()
        for named in attention_modules(part, f"{name}.{child}" if name else child)
    ]


def _weight_arguments(module: nn.Module) -> list[str] | None:
    """The arguments of its ``weights``; None if the module is no attention."""
    weights = getattr(type(module), "weights", None)
    if not inspect.isfunction(weights):
        return None
    names = list(inspect.signature(weights).parameters)[1:]
    return names if set(names) <= set(inspect.signature(module.forward).parameters) else None


def _recorder(calls: list[_Call], name: str) -> Any:
    def record(part: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        bound = inspect.signature(part.forward).bind(*args, **kwargs).arguments
        arguments = {key: bound[key] for key in _weight_arguments(part) or () if key in bound}
        calls.append(_Call(name, part, torch.get_rng_state(), arguments))

    return record


def _replay(call: _Call) -> Tensor:
    compute: Any = call.module.weights
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        torch.set_rng_state(call.rng_state)
        weights: Tensor = compute(**call.arguments)
    if weights.dim() == 2:
        weights = weights.unsqueeze(1)
    return weights.unsqueeze(1) if weights.dim() == 3 else weights
