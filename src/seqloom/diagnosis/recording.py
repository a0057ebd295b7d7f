"""What the layers of a model compute while its loss is computed: every step of every cell, as nodes of one graph.

Cells run by their plain loop, so that the state after each step is a tensor of its own, of which gradients can be
taken. Nothing of the model is changed: weights, gradients, modes and random numbers stay as they are.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from seqloom.cells.cell import Cell
from seqloom.layers.attention.decoder_attention import BahdanauAttention
from seqloom.layers.custom import CustomLayer
from seqloom.layers.layer import Layer
from seqloom.layers.recurrent.active_rows import ActiveRows
from seqloom.layers.recurrent.recurrent import Recurrent
from seqloom.layers.transformer.block import TransformerBlock

PRETRAINED = ".pretrained."
"""In the names of layers that belong to another model."""


@dataclass(frozen=True)
class Step:
    """One step of a cell. ``state`` is a node of the graph; the rest is detached from it."""

    position: int  # in the sequence
    rows: Tensor  # (n,), rows of the batch that take this step
    projected: Tensor  # (n, P)
    before: tuple[Tensor, ...]  # fields of the state, (n, ...) each
    state: tuple[Tensor, ...]  # after the step
    gates: tuple[Tensor, ...]


@dataclass(frozen=True)
class CellCall:
    """A recurrent layer during one call: its steps in the order of computation."""

    name: str  # of the layer, as in named_modules
    cell: Cell
    reverse: bool
    mask: Tensor  # (B, T)
    steps: list[Step]

    def is_real(self, step: Step) -> Tensor:  # (n,)
        """Which rows of a step are no padding."""
        return self.mask[step.rows, step.position]


@dataclass(frozen=True)
class ValueCall:
    """A layer without a cell during one call: the sequence that it reads, as a node of the graph."""

    name: str
    layer: nn.Module
    values: Tensor  # (B, T, D)
    mask: Tensor  # (B, T)

    @property
    def is_causal(self) -> bool:
        return bool(getattr(self.layer, "causal", False))


@dataclass(frozen=True)
class Part:
    """A part of a model that reads sequences, such as its encoder, during one call."""

    name: str  # as in named_modules
    outputs: Tensor  # (B, T, D), a node of the graph
    state: list[Tensor]  # its final state, nodes of the graph
    mask: Tensor  # (B, T)
    cells: list[CellCall]
    values: list[ValueCall]


@dataclass
class _Open:
    """A part that is being called."""

    cells: list[CellCall] = field(default_factory=list)
    values: list[ValueCall] = field(default_factory=list)
    mask: Tensor | None = None


def record(module: nn.Module, loss: Callable[[], Tensor]) -> tuple[Tensor, list[Part]]:
    """Compute a loss that calls the module; return it and what the parts of the module did, in the order of calls.

    Of a part that is called several times, the call with most steps is kept.
    """
    recorder = _Recorder()
    with evaluating(module), torch.enable_grad(), torch.random.fork_rng(devices=[]), ExitStack() as stack:
        recorder.watch(module, stack)
        total = loss()
    parts: dict[str, Part] = {}
    for part in recorder.parts:
        known = parts.get(part.name)
        if known is None or part.mask.numel() > known.mask.numel():
            parts[part.name] = part
    return total, list(parts.values())


@contextmanager
def evaluating(module: nn.Module) -> Iterator[None]:
    """The module and all its parts in evaluation mode; afterwards each is in its own mode again."""
    modes = [(part, part.training) for part in module.modules()]
    module.eval()
    try:
        yield
    finally:
        for part, training in modes:
            part.training = training


def sequence_parts(module: nn.Module) -> list[tuple[str, nn.Module]]:
    """The outermost layers of a module with a cell or attention inside, with their names; else the module itself."""
    parts: list[tuple[str, nn.Module]] = []
    for name, part in module.named_modules():
        inside = any(name.startswith(f"{outer}." if outer else "") for outer, _ in parts)
        if isinstance(part, Layer) and not inside and PRETRAINED not in f".{name}." and _has_layers(part):
            parts.append((name, part))
    return parts or [("", module)]


def _has_layers(part: nn.Module) -> bool:
    """Whether a part contains layers that are recorded one by one."""
    kinds = Recurrent | BahdanauAttention | TransformerBlock | CustomLayer
    return any(isinstance(layer, kinds) for layer in part.modules())


class _Recorder:
    def __init__(self) -> None:
        self.parts: list[Part] = []
        self._open: _Open | None = None

    def watch(self, module: nn.Module, stack: ExitStack) -> None:
        """Record the calls of all sequence parts until the stack is closed."""
        for part_name, part in sequence_parts(module):
            stack.callback(part.register_forward_pre_hook(self._enter, with_kwargs=True).remove)
            for name, layer in part.named_modules(prefix=part_name):
                if isinstance(layer, Recurrent | BahdanauAttention):
                    self._watch_cell(name, layer, stack)
                elif isinstance(layer, TransformerBlock | CustomLayer) or (layer is part and not _has_layers(part)):
                    stack.callback(self._watch_values(name, layer))
            stack.callback(part.register_forward_hook(self._leaver(part_name), with_kwargs=True).remove)

    def _enter(self, part: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:  # noqa: ARG002
        self._open = _Open()

    def _leaver(self, name: str) -> Any:
        def leave(part: nn.Module, args: Any, kwargs: Any, result: Any) -> Any:  # noqa: ARG001
            inputs = _inputs(args, kwargs)
            outputs, state = result if isinstance(result, tuple) and len(result) == 2 else (result, ())
            current, self._open = self._open, None
            if current is None or not isinstance(outputs, Tensor) or outputs.dim() != 3 or not outputs.shape[1]:
                return None
            outputs = outputs.clone()  # what follows reads this node, inner layers do not
            mask = _fitting_mask(inputs.get("mask"), outputs)
            leaves: list[Tensor] = []
            state = _clone_state(state, leaves)
            self.parts.append(Part(name, outputs, leaves, mask, current.cells, current.values))
            return (outputs, state) if isinstance(result, tuple) else outputs

        return leave

    def _watch_values(self, name: str, layer: nn.Module) -> Callable[[], None]:
        def enter(part: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            inputs = _inputs(args, kwargs)
            x = inputs.get("x")
            if self._open is None or not isinstance(x, Tensor) or x.dim() != 3 or not x.is_floating_point():
                return None
            node = _node(x)
            self._open.values.append(ValueCall(name, part, node, _fitting_mask(inputs.get("mask"), x)))
            return ((node, *args[1:]), kwargs) if args else (args, {**kwargs, "x": node})

        return layer.register_forward_pre_hook(enter, with_kwargs=True).remove

    def _watch_cell(self, name: str, layer: Recurrent | BahdanauAttention, stack: ExitStack) -> None:
        """Let the plain loop of a layer call a step that also records."""
        cell = layer.cell
        taken = cell.step
        calls: list[CellCall] = []
        rows: list[Tensor] = []

        def enter(part: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            inputs = _inputs(args, kwargs)
            x, mask = inputs["x"], inputs.get("mask")
            reverse = bool(getattr(part, "reverse", False))
            calls[:] = [CellCall(name, cell, reverse, _fitting_mask(mask, x), [])]
            rows[:] = _active_rows(part, x, mask)
            if self._open is not None and x.shape[1]:
                self._open.cells.append(calls[0])

        def step(projected: Tensor, state: Any) -> tuple[Any, tuple[Tensor, ...]]:
            next_state, gates = taken(projected, state)
            next_state = cell.State(*[_node(value) for value in next_state])
            call, done = calls[0], len(calls[0].steps)
            length = call.mask.shape[1]
            call.steps.append(
                Step(
                    length - 1 - done if call.reverse else done,
                    rows[done],
                    projected.detach(),
                    tuple([value.detach() for value in state]),
                    tuple(next_state),
                    tuple([value.detach() for value in gates]),
                )
            )
            return next_state, gates

        stack.callback(layer.register_forward_pre_hook(enter, with_kwargs=True).remove)
        vars(cell)["step"] = step
        stack.callback(vars(cell).pop, "step")
        if isinstance(layer, Recurrent):
            stack.callback(setattr, layer, "fused", layer.fused)
            layer.fused = False


def _active_rows(layer: nn.Module, x: Tensor, mask: Tensor | None) -> list[Tensor]:
    """The rows of the batch that take each step, in the order of computation."""
    every = torch.arange(len(x), device=x.device)
    if isinstance(layer, Recurrent):
        return [every] * x.shape[1]
    stateful = bool(getattr(getattr(layer, "attention", None), "stateful", False))
    active = ActiveRows(mask, (x.shape[0], x.shape[1]), all_rows=stateful)
    order = every if active.order is None else active.order
    return [order[:count] for count in active.counts]


def _inputs(args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a layer by name."""
    return dict(zip(("x", "mask", "state"), args, strict=False)) | kwargs


def _fitting_mask(mask: Any, like: Tensor) -> Tensor:
    """The mask of a sequence (B, T, D); everything is real without one, or if it is one of another length."""
    if isinstance(mask, Tensor) and mask.shape == like.shape[:2]:
        return mask
    if isinstance(mask, Tensor) and len(mask) == len(like) and mask.shape[1]:  # shortened in time, such as by strides
        lengths = (mask.sum(dim=1) * like.shape[1] / mask.shape[1]).ceil()
        return torch.arange(like.shape[1], device=like.device) < lengths.unsqueeze(1)
    return torch.ones(like.shape[:2], dtype=torch.bool, device=like.device)


def _node(value: Tensor) -> Tensor:
    """A copy of a tensor, of which gradients can be taken separately."""
    node = value.clone()
    return node if node.requires_grad else node.requires_grad_()


def _clone_state(state: Any, leaves: list[Tensor]) -> Any:
    """The same state with copies of its tensors, which are collected: only what follows the part reads them."""
    if isinstance(state, Tensor) and state.requires_grad:
        leaves.append(state.clone())
        return leaves[-1]
    if not isinstance(state, tuple):
        return state
    parts = [_clone_state(part, leaves) for part in state]
    return type(state)(*parts) if hasattr(state, "_fields") else tuple(parts)
