"""The doctor for any layer or model in Python: measure it on a batch, and say what is wrong."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn

from seqloom.cells.cell import Cell
from seqloom.cells.wrapper import Wrapper
from seqloom.diagnosis.activity import gate_use, unit_use
from seqloom.diagnosis.attention import HeadUse, head_use
from seqloom.diagnosis.diagnosis import Diagnosis, Finding, PartDiagnosis
from seqloom.diagnosis.dynamics import dynamics
from seqloom.diagnosis.findings import attention, by_severity, part_findings
from seqloom.diagnosis.gradients import BACKWARD, FORWARD, gradients_by_lag
from seqloom.diagnosis.recording import Part, evaluating, record
from seqloom.formats import describe_type
from seqloom.layers.attention.decoder_attention import BahdanauAttention
from seqloom.layers.recurrent.recurrent import Recurrent
from seqloom.layers.torch_conversion import from_torch
from seqloom.layers.transformer.block import TransformerBlock
from seqloom.model import Model

TARGETS = 200
"""Losses whose gradients are measured, by default."""
NOTHING_TO_FOLLOW = (
    "the model has no recurrent layer and no attention whose gradients could be followed; layers of torch.nn inside "
    "another module are followed once seqloom.from_torch has converted them"
)
TORCH_LAYERS = (nn.LSTM, nn.GRU, nn.RNN)
ATTENDED_APART = (
    "the Jacobians and the Lyapunov exponent of {name} take what it attends to as given: they are those of the cell, "
    "without the path through the attention"
)


@dataclass(frozen=True)
class Names:
    """How the parts of a model are called, and the configuration keys that they are set by."""

    default: str = "layer"  # a part that has no name of its own
    parts: Mapping[str, str] = field(default_factory=dict)  # name of a part by the name of its section
    pooling: str = ""  # the key of the pooling; empty: there is none


def doctor(
    model: Any,  # a layer, any nn.Module, or a model as seqloom.load(run) returns it
    batch: Any,  # what the module reads: a tensor (B, T, D), or a tuple of arguments; of a loaded model labelled data
    *,
    loss: Callable[[Any], Tensor] | None = None,  # from what the module returns to its loss; None: see below
    reach: int = 0,  # steps back that the model has to see; 0: as the data suggest
    targets: int = TARGETS,  # losses whose gradients are measured
) -> Diagnosis:
    """Examine a layer or a model on a batch: how far back it sees, whether gradients explode, gates, units, attention.

    Without a ``loss``, the gradient of a random combination of the outputs of each step is measured. Neither the model
    nor its gradients, modes and random numbers are changed by it.
    """
    if targets < 1:
        raise ValueError(f"targets must be at least 1, got {targets}")
    if isinstance(model, Model):
        from seqloom.diagnosis.run_doctor import examine_model

        if loss is not None:
            raise ValueError("a loaded model has its own loss: leave out loss")
        return examine_model(model, batch, reach=reach, targets=targets)
    if not isinstance(model, nn.Module):
        raise TypeError(f"expected a layer, an nn.Module or a loaded model, found {describe_type(model)}")
    module, arguments = _as_layer(model, batch)
    compute: Callable[[Any], Any] = loss or _random_combination

    def compute_loss() -> Tensor:
        total = compute(module(*arguments))
        if not isinstance(total, Tensor):
            raise TypeError(f"loss returned {describe_type(total)}, expected a tensor")
        return total.sum()

    return diagnose(module, compute_loss, name=type(model).__name__, reach=reach, targets=targets)


def diagnose(
    module: nn.Module,
    compute_loss: Callable[[], Tensor],  # calls the module
    *,
    name: str,
    names: Names = Names(),  # noqa: B008  it is frozen
    source: str = "",
    reach: int = 0,
    targets: int = TARGETS,
    notes: Sequence[str] = (),
) -> Diagnosis:
    """Measure a module while its loss is computed, and draw conclusions."""
    with evaluating(module):
        return _diagnose(
            module,
            compute_loss,
            name=name,
            names=names,
            source=source,
            reach=reach,
            targets=targets,
            notes=notes,
        )


def _diagnose(
    module: nn.Module,
    compute_loss: Callable[[], Tensor],
    *,
    name: str,
    names: Names,
    source: str,
    reach: int,
    targets: int,
    notes: Sequence[str],
) -> Diagnosis:
    loss, parts = record(module, compute_loss)
    remarks = list(notes)
    if not math.isfinite(float(loss.detach())):
        verdict = "The loss of these sequences is not a finite number: weights or inputs are too large, or NaN."
        bad = Finding("stability", "problem", verdict, ("train.learning_rate",), learning_rate="lower")
        return Diagnosis(name, source, [bad], [], notes=remarks)
    parts = [part for part in parts if part.cells or part.values]
    if not parts:
        remarks.append(NOTHING_TO_FOLLOW)
    called = _part_names(parts, names)
    measured = []
    heads: list[HeadUse] = []
    for part in parts:
        layers = _layer_names(part)
        measured.append(_measure(part, loss, called[part.name], layers, names, targets=targets))
        remarks += [
            ATTENDED_APART.format(name=f"the {called[part.name]}")
            for call in part.cells
            if isinstance(module.get_submodule(call.name), BahdanauAttention)
        ]
    heads = [
        replace(head, layer=_head_name(head.layer, parts, called)) for head in head_use(module, compute_loss, parts)
    ]
    findings = [each for part in measured for each in part_findings(part, reach=reach, pooling=names.pooling)]
    findings += [attention(heads)] if heads else []
    return Diagnosis(name, source, by_severity(findings), measured, heads, notes=remarks)


def _measure(
    part: Part, loss: Tensor, name: str, layers: Mapping[str, str], names: Names, *, targets: int
) -> PartDiagnosis:
    gradients, entry = gradients_by_lag(part, loss, targets=targets)
    lengths = part.mask.sum(dim=1)
    lengths = lengths[lengths > 0]
    directions = [BACKWARD if call.reverse else FORWARD for call in part.cells]
    used = [(call, direction) for call, direction in zip(part.cells, directions, strict=True) if call.steps]
    return PartDiagnosis(
        name,
        next((f"task.{section}" for section, called in names.parts.items() if name.startswith(called)), ""),
        _cell_name(part),
        len(lengths),
        float(lengths.double().median()) if len(lengths) else 0.0,
        max((max(curve.targets, default=0) for curve in gradients), default=0),
        entry.at_ends,
        [replace(curve, layer=layers[curve.layer]) for curve in gradients],
        [replace(dynamics(call, direction), layer=layers[call.name]) for call, direction in used],
        [replace(use, layer=layers[call.name]) for call, direction in used for use in gate_use(call, direction)],
        [replace(use, layer=layers[call.name]) for call, way in used if (use := unit_use(call, way)) is not None],
    )


def _as_layer(model: nn.Module, batch: Any) -> tuple[nn.Module, tuple[Any, ...]]:
    """A module that can be recorded, and its arguments; a recurrent module of torch becomes a layer."""
    arguments = batch if isinstance(batch, tuple) else (batch,)
    if isinstance(model, Cell):
        return Recurrent(model), arguments
    if isinstance(model, TORCH_LAYERS):
        if not isinstance(arguments[0], Tensor) or arguments[0].dim() != 3:
            raise TypeError(f"expected a tensor of three dimensions for {type(model).__name__}")
        x = arguments[0] if model.batch_first else arguments[0].transpose(0, 1)
        return from_torch(model), (x,)
    return model, arguments


def _random_combination(result: Any) -> Tensor:
    """A loss for a layer without one: the outputs times fixed random numbers, of variance 1 / width."""
    outputs = result[0] if isinstance(result, tuple) else result
    if not isinstance(outputs, Tensor) or not outputs.is_floating_point():
        raise TypeError(f"the module returned {describe_type(outputs)}: pass loss, a function of what it returns")
    generator = torch.Generator().manual_seed(1)
    weights = torch.randn(outputs.shape, generator=generator, dtype=outputs.dtype) / math.sqrt(outputs.shape[-1] or 1)
    return (outputs * weights.to(outputs.device)).sum()


def _part_names(parts: Sequence[Part], names: Names) -> dict[str, str]:
    """What each part is called: by the first word of its module that is a section of the configuration."""
    called: dict[str, str] = {}
    for part in parts:
        words = [word for word in part.name.split(".") if word not in ("", "layer", "layers") and not word.isdigit()]
        section = next((word for word in reversed(words) if word in names.parts), "")
        default = names.default if names.parts or not words else words[0]
        called[part.name] = names.parts.get(section, default)
    counts = {name: [key for key, value in called.items() if value == name] for name in set(called.values())}
    for name, members in counts.items():
        for number, key in enumerate(members if len(members) > 1 else [], start=1):
            called[key] = f"{name} {number}"
    return called


def _layer_names(part: Part) -> dict[str, str]:
    """layer 1, layer 2 … by the name of the module; both directions of a layer are called the same."""
    names = [*(call.name for call in part.cells), *(call.name for call in part.values)]
    ordered = sorted({_without_direction(name) for name in names}, key=_natural)
    numbers = {module: f"layer {number}" for number, module in enumerate(ordered, start=1)}
    return {name: numbers[_without_direction(name)] for name in names}


def _without_direction(name: str) -> str:
    return name.removesuffix("forward_layer").removesuffix("backward_layer").removesuffix(".")


def _natural(name: str) -> list[tuple[int, str]]:
    return [(int(word), "") if word.isdigit() else (-1, word) for word in name.split(".")]


def _head_name(module: str, parts: Sequence[Part], called: Mapping[str, str]) -> str:
    """The part and the layer of an attention module."""
    for part in parts:
        if module.startswith(part.name):
            layers = _layer_names(part)
            inner = module.rpartition(".")[0]
            kind = " (to the source)" if module.endswith("cross_attention") else ""
            layer = layers.get(inner, layers.get(module, "attention"))
            return f"{called[part.name]}, {layer}{kind}"
    return module


def _cell_name(part: Part) -> str:
    """The cell of the first layer as a configuration names it."""
    if part.cells:
        cell: Any = part.cells[0].cell
        while isinstance(cell, Wrapper):
            cell = cell.cell
        kind = type(cell)
        return kind.__module__.rpartition(".")[2] if kind.__module__.startswith("seqloom.cells.") else kind.__name__
    return "transformer" if any(isinstance(call.layer, TransformerBlock) for call in part.values) else ""
