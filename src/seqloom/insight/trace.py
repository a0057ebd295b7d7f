"""Gates and states of recurrent layers at every step: what each layer was given is stepped through once more."""

from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from seqloom.layers.recurrent.recurrent import Recurrent, steps


@dataclass(frozen=True)
class Trace:
    """One recurrent layer during one call. All tensors are (B, T, hidden_size), in the order of time."""

    name: str  # where the layer is in the module, as in named_modules
    gates: dict[str, Tensor]
    states: dict[str, Tensor]  # after each step; the first one is the output
    mask: Tensor | None  # (B, T); nothing happens where it is false


@dataclass(frozen=True)
class _Call:
    name: str
    layer: Recurrent
    random: Tensor  # the state of the random numbers before the call, from which dropout was drawn
    x: Tensor
    mask: Tensor | None
    state: Any


def trace(module: nn.Module, *arguments: Any, **options: Any) -> tuple[Any, list[Trace]]:
    """Call the module; its result, and what happened in each recurrent layer in the order of the calls.

    Neither the result nor any later one differs from what it would be without looking.
    """
    calls: list[_Call] = []
    with ExitStack() as stack:
        for name, layer in module.named_modules():
            if isinstance(layer, Recurrent):
                hook = layer.register_forward_pre_hook(_note(calls, name), with_kwargs=True)
                stack.callback(hook.remove)
        result = module(*arguments, **options)
    return result, [_replay(call) for call in calls]


def _note(calls: list[_Call], name: str) -> Any:
    def note(layer: Recurrent, arguments: tuple[Any, ...], options: dict[str, Any]) -> None:
        given = dict(zip(("x", "mask", "state"), arguments, strict=False)) | options
        calls.append(_Call(name, layer, torch.get_rng_state(), given["x"], given.get("mask"), given.get("state")))

    return note


def _replay(call: _Call) -> Trace:
    cell, mask = call.layer.cell, call.mask
    x = call.x if mask is None else call.x.masked_fill(~mask.unsqueeze(-1), 0)
    state = cell.start(len(x)) if call.state is None else cell.State(*call.state)
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        torch.set_rng_state(call.random)
        projected = cell.project(x.transpose(0, 1))
        moments = list(steps(cell, projected, mask, state, reverse=call.layer.reverse))
    if call.layer.reverse:
        moments.reverse()
    empty = x.new_zeros(len(x), 0, call.layer.output_size)

    def together(values: list[Tensor]) -> Tensor:
        whole = torch.stack(values, dim=1) if values else empty
        return whole if mask is None else whole.masked_fill(~mask.unsqueeze(-1), 0)

    return Trace(
        name=call.name,
        gates={gate: together([gates[index] for _, gates in moments]) for index, gate in enumerate(cell.gates)},
        states={field: together([after[index] for after, _ in moments]) for index, field in enumerate(state._fields)},
        mask=mask,
    )
