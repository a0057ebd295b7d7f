"""Where attention looked: what each attention of a model was given is looked at once more."""

import inspect
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class Alignment:
    """One attention during one call."""

    name: str  # where it is in the module, as in named_modules
    weights: Tensor  # (B, heads, T, S), how much query t looked at position s


@dataclass(frozen=True)
class _Call:
    name: str
    module: nn.Module
    random: Tensor  # the state of the random numbers before the call, from which dropout and samples were drawn
    arguments: dict[str, Any]


def alignments(module: nn.Module, *arguments: Any, **options: Any) -> tuple[Any, list[Alignment]]:
    """Call the module; its result, and where each attention in it looked, in the order of the calls.

    Neither the result nor any later one differs from what it would be without looking. Attention is what has a method
    ``weights`` that makes (B, T, S), (B, heads, T, S), or (B, S) where there is but one query, of arguments of
    ``forward``; of those that contain each other, the outermost.
    """
    calls: list[_Call] = []
    with ExitStack() as stack:
        for name, part in attending(module):
            hook = part.register_forward_pre_hook(_note(calls, name), with_kwargs=True)
            stack.callback(hook.remove)
        result = module(*arguments, **options)
    return result, [Alignment(call.name, _replay(call)) for call in calls]


def attending(module: nn.Module, name: str = "") -> list[tuple[str, nn.Module]]:
    """Every attention in a module, with its name."""
    if _names(module) is not None:
        return [(name, module)]
    return [
        found for own, part in module.named_children() for found in attending(part, f"{name}.{own}" if name else own)
    ]


def _names(module: nn.Module) -> list[str] | None:
    """The arguments that its weights are made of; None if it is not an attention."""
    weights = getattr(type(module), "weights", None)
    if not inspect.isfunction(weights):
        return None
    names = list(inspect.signature(weights).parameters)[1:]
    return names if set(names) <= set(inspect.signature(module.forward).parameters) else None


def _note(calls: list[_Call], name: str) -> Any:
    def note(part: nn.Module, arguments: tuple[Any, ...], options: dict[str, Any]) -> None:
        given = inspect.signature(part.forward).bind(*arguments, **options).arguments
        wanted = {own: given[own] for own in _names(part) or () if own in given}
        calls.append(_Call(name, part, torch.get_rng_state(), wanted))

    return note


def _replay(call: _Call) -> Tensor:
    weights: Any = call.module.weights
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        torch.set_rng_state(call.random)
        found: Tensor = weights(**call.arguments)
    if found.dim() == 2:
        found = found.unsqueeze(1)
    return found.unsqueeze(1) if found.dim() == 3 else found
