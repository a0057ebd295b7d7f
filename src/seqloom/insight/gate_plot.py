"""A plot of the gates and states of a recurrent layer."""

from collections.abc import Sequence
from pathlib import Path

from torch import Tensor

from seqloom.insight.gate_trace import GateTrace
from seqloom.insight.plotting import save_figure


def draw_gates(
    trace: GateTrace,
    path: str | Path,
    *,
    row: int = 0,  # of the batch
    labels: Sequence[str] | None = None,  # of the time steps
) -> None:
    """Draw a panel for each gate and each field of the state: hidden units top to bottom, time left to right."""
    from matplotlib.figure import Figure

    panels = {**trace.gates, **{f"{name} (state)": values for name, values in trace.states.items()}}
    length = _length(trace, row)
    if not length:
        raise ValueError(f"row {row} has no time steps to draw")
    if labels is not None and len(labels) < length:
        raise ValueError(f"labels has {len(labels)} entries, expected {length}: one for each time step of row {row}")
    figure = Figure(figsize=(max(6.0, min(16.0, 0.3 * length + 2)), 1.4 * len(panels) + 0.8), layout="constrained")
    axes = figure.subplots(len(panels), 1, sharex=True, squeeze=False)[:, 0]
    for axis, (name, values) in zip(axes, panels.items(), strict=True):
        units = values[row, :length].detach().t().double().cpu()  # (hidden_size, T)
        # One colour for gates between 0 and 1; two colours around white for values that have a sign.
        signed = bool((units < 0).any())
        bound = max(1.0, float(units.abs().max())) if units.numel() else 1.0
        low, colours = (-bound, "RdBu_r") if signed else (0.0, "Blues")
        image = axis.imshow(units.numpy(), aspect="auto", vmin=low, vmax=bound, cmap=colours, interpolation="nearest")
        axis.set_ylabel(name, rotation=0, ha="right", va="center")
        axis.set_yticks([])
        figure.colorbar(image, ax=axis, fraction=0.03, pad=0.01)
    if labels is not None:
        rotated = any(len(label) > 2 for label in labels[:length])
        axes[-1].set_xticks(range(length), labels[:length], rotation=90 if rotated else 0)
    axes[-1].set_xlabel("time step")
    axes[0].set_title(f"{trace.name or 'layer'}: gates and states, row {row}")
    save_figure(figure, path)


def _length(trace: GateTrace, row: int) -> int:
    values: Tensor = next(iter(trace.states.values()))
    if not 0 <= row < len(values):
        raise ValueError(f"row is {row}, but the trace has {len(values)} rows, counted from 0")
    return values.shape[1] if trace.mask is None else int(trace.mask[row].sum())
