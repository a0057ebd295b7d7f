"""Gates and states of recurrent layers at every step, traced and drawn.

The inputs of each layer are recorded during a call; the steps are then computed once more.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from seqloom.insight.plotting import BLACK, save_figure, sorted_units, titled
from seqloom.layers.recurrent.recurrent import Recurrent, steps
from seqloom.layers.recurrent.two_dimensional import CORNERS, TwoDimensionalLSTM


@dataclass(frozen=True)
class GateTrace:
    """One recurrent layer during one call. All tensors are (B, T, units), in the order of time.

    Of a layer that reads an image, they are (B, columns, rows, units), left to right and top to bottom: one trace for
    each direction, whose name ends in the corner where it starts.
    """

    name: str  # of the layer, as in named_modules
    gates: dict[str, Tensor]
    states: dict[str, Tensor]  # after each step; the first one is the output
    mask: Tensor | None  # (B, T); False where there is padding
    effects: Mapping[str, str] = field(default_factory=dict)  # what a gate does where it is open, such as "keeps"
    step_seconds: float = 0.0  # of audio in each time step; 0: the steps are no audio

    @property
    def length(self) -> int:
        """The number of time steps, with padding."""
        return next(iter(self.states.values())).shape[1]

    @property
    def rows(self) -> int:
        """The number of rows of an image; 0: the layer reads a sequence."""
        values = next(iter(self.states.values()))
        return values.shape[2] if values.dim() == 4 else 0


LabelledTrace = tuple[GateTrace, list[str]]
"""A trace and the names of its time steps; no names where the steps are not tokens."""


class FunctionModule(nn.Module):
    """A function that calls a module, as a module: hooks on its parts see everything that the function does."""

    def __init__(self, module: nn.Module, function: Callable[[], Any]) -> None:
        super().__init__()
        self.module = module
        self._function = function

    def forward(self) -> Any:
        return self._function()


@dataclass(frozen=True)
class _LayerCall:
    name: str
    layer: Recurrent
    rng_state: Tensor  # before the call: dropout is drawn from it again
    x: Tensor
    mask: Tensor | None
    state: Any


def trace_gates(module: nn.Module, *args: Any, **kwargs: Any) -> tuple[Any, list[GateTrace]]:
    """Call the module; return its result and a trace of each recurrent layer inside, in the order of the calls.

    Neither this result nor any later one is changed by it.
    """
    calls: list[_LayerCall] = []
    directions: dict[str, str] = {}  # of images: from the name of a layer to that of its trace
    with ExitStack() as stack:
        for name, layer in module.named_modules():
            if isinstance(layer, TwoDimensionalLSTM):
                prefix = f"{name}." if name else ""
                for index, corner in enumerate(CORNERS):
                    directions[f"{prefix}directions.{index}"] = f"{prefix}from_{corner}"
            if isinstance(layer, Recurrent):
                hook = layer.register_forward_pre_hook(_recorder(calls, name), with_kwargs=True)
                stack.callback(hook.remove)
        result = module(*args, **kwargs)
    traces: list[GateTrace] = []
    for name, group in groupby(map(_replay, calls), key=lambda trace: trace.name):
        rows = list(group)
        traces += [_join_rows(rows, directions[name])] if name in directions else rows
    return result, traces


def trace_function(
    module: nn.Module,
    function: Callable[[], Any],
    labels: Callable[[str], list[str]],  # from the name of a layer to the names of its time steps
) -> list[LabelledTrace]:
    """Trace the layers of a module that read the one sequence a function is about.

    Excluded are layers inside pretrained inputs, which belong to another model, and layers that read other sequences,
    such as the characters of each word.
    """
    _, traces = trace_gates(FunctionModule(module, function))
    kept = []
    for trace in traces:
        name = trace.name.removeprefix("module.")
        rows, length = next(iter(trace.states.values())).shape[:2]
        if ".pretrained." in name or rows != 1 or not length:
            continue
        names = labels(name)
        kept.append((replace(trace, name=name), names if len(names) == length else []))
    return kept


def _recorder(calls: list[_LayerCall], name: str) -> Any:
    def record(layer: Recurrent, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        inputs = dict(zip(("x", "mask", "state"), args, strict=False)) | kwargs
        mask, state = inputs.get("mask"), inputs.get("state")
        calls.append(_LayerCall(name, layer, torch.get_rng_state(), inputs["x"], mask, state))

    return record


def _replay(call: _LayerCall) -> GateTrace:
    cell, mask = call.layer.cell, call.mask
    x = call.x if mask is None else call.x.masked_fill(~mask.unsqueeze(-1), 0)
    state = cell.start(len(x)) if call.state is None else cell.State(*call.state)
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        torch.set_rng_state(call.rng_state)
        with call.layer.products():
            projected = cell.project(x.transpose(0, 1))
            history = list(steps(cell, projected, mask, state, reverse=call.layer.reverse))
    if call.layer.reverse:
        history.reverse()
    empty = x.new_zeros(len(x), 0, call.layer.output_size)

    def stack_steps(values: list[Tensor]) -> Tensor:
        stacked = torch.stack(values, dim=1) if values else empty
        return stacked if mask is None else stacked.masked_fill(~mask.unsqueeze(-1), 0)

    return GateTrace(
        name=call.name,
        gates={gate: stack_steps([gates[index] for _, gates in history]) for index, gate in enumerate(cell.gates)},
        states={
            field: stack_steps([after[index].flatten(1) for after, _ in history])
            for index, field in enumerate(state._fields)
        },
        mask=mask,
        effects=cell.effects,
    )


def _join_rows(traces: list[GateTrace], name: str) -> GateTrace:
    """The rows of an image, each traced as a sequence of its own, as one trace."""
    ordered = traces[::-1] if name.rpartition(".")[2].startswith("from_bottom") else traces

    def join(kind: str, key: str) -> Tensor:  # (B, columns, rows, units)
        return torch.stack([getattr(trace, kind)[key] for trace in ordered], dim=2)

    hidden, memory = join("states", "values").chunk(2, dim=-1)
    gates = {gate: join("gates", gate) for gate in ordered[0].gates}
    return replace(ordered[0], name=name, gates=gates, states={"hidden": hidden, "memory": memory})


def unit_panels(
    trace: GateTrace, row: int, length: int, *, sort: bool = True
) -> dict[str, NDArray[np.float64]]:  # (units, T), of images (units × rows, T)
    """Each gate and each field of the state of a row of the batch; units that act at the same time are neighbours."""
    fields = {**trace.gates, **{f"{name} (state)": values for name, values in trace.states.items()}}
    # (units, T), of images (units, rows, T)
    panels = {name: values[row, :length].detach().double().cpu().numpy().T for name, values in fields.items()}
    output = panels[f"{next(iter(trace.states))} (state)"]
    order = sorted_units(output.reshape(len(output), -1)) if sort else list(range(len(output)))
    return {
        name: (values[order] if len(values) == len(order) else values).reshape(-1, values.shape[-1])
        for name, values in panels.items()
    }


def draw_gates(
    trace: GateTrace,
    path: str | Path,
    *,
    row: int = 0,  # of the batch
    labels: Sequence[str] | None = None,  # of the time steps
    sort: bool = True,
) -> None:
    """Draw a panel for each gate and each field of the state: hidden units top to bottom, time left to right.

    ``sort``: units that act at the same time are next to each other, in the same order in all panels. Of a layer that
    reads an image, each unit is drawn over the rows and columns of the image.
    """
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    length = _length(trace, row)
    if not length:
        raise ValueError(f"row {row} has no time steps to draw")
    if labels is not None and len(labels) < length:
        raise ValueError(f"labels has {len(labels)} entries, expected {length}: one for each time step of row {row}")
    panels = unit_panels(trace, row, length, sort=sort)
    units = len(panels[f"{next(iter(trace.states))} (state)"])
    height = min(max(0.045 * units, 1.1), 2.6)
    size = (max(6.5, min(16.0, 0.3 * length + 2.5)), (height + 0.25) * len(panels) + 1.1)
    figure = Figure(figsize=size, layout="constrained")
    axes = figure.subplots(len(panels), 1, sharex=True, squeeze=False)[:, 0]
    for axis, (name, values) in zip(axes, panels.items(), strict=True):
        # One colour for values from 0; two colours around white for values that have a sign.
        signed = bool((values < 0).any())
        bound = float(abs(values).max()) if values.size else 0.0
        bound = bound or 1.0
        low, high = (-bound, bound) if signed else (float(values.min()), bound) if values.size else (0.0, 1.0)
        if low == high:
            low = 0.0
        image = axis.imshow(
            values,
            aspect="auto",
            vmin=low,
            vmax=high,
            cmap="RdBu_r" if signed else "Blues",
            interpolation="nearest",
            extent=(0.0, length * trace.step_seconds, len(values) - 0.5, -0.5) if trace.step_seconds else None,
        )
        effect = f" (open = {trace.effects[name]})" if name in trace.effects else ""
        axis.set_title(name + effect, loc="left", fontsize=9, fontweight="bold", color=BLACK, pad=3)
        axis.set_ylabel(f"hidden unit × {trace.rows} rows" if trace.rows else "hidden unit", fontsize=8)
        axis.set_yticks([])
        for boundary in range(trace.rows, len(values), trace.rows) if trace.rows else ():
            axis.axhline(boundary - 0.5, color=BLACK, linewidth=0.5)
        bar = figure.colorbar(image, ax=axis, fraction=0.03, pad=0.01)
        bar.locator = MaxNLocator(nbins=3)
        bar.ax.tick_params(labelsize=8, length=2)
        bar.outline.set_visible(False)
    if labels is not None:
        rotated = any(len(label) > 2 for label in labels[:length])
        axes[-1].set_xticks(range(length), labels[:length], rotation=90 if rotated else 0, fontsize=8)
    else:
        axes[-1].xaxis.set_major_locator(MaxNLocator(nbins=12, integer=not trace.step_seconds))
        axes[-1].tick_params(labelsize=8)
    axis_name = "time in seconds" if trace.step_seconds else "column" if trace.rows else "time step"
    axes[-1].set_xlabel(axis_name, fontsize=9)
    shown = trace.name or "layer"
    save_figure(figure, path, title=titled(f"{shown}: gates and states" + (f", row {row}" if row else "")))


def _length(trace: GateTrace, row: int) -> int:
    values: Tensor = next(iter(trace.states.values()))
    if not 0 <= row < len(values):
        raise ValueError(f"row is {row}, but the trace has {len(values)} rows, counted from 0")
    return values.shape[1] if trace.mask is None else int(trace.mask[row].sum())
