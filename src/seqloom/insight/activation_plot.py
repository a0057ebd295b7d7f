"""Activation functions and their derivatives, as numbers and as a plot."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from seqloom.insight.plotting import BLACK, BLUE, GREY, RED, panel_figure, save_figure
from seqloom.layers.convolution import ACTIVATIONS, make_activation

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MAXOUT = ((1.0, 0.0), (-0.5, -0.5))
"""Slopes and offsets of the linear maps of the maxout that is drawn; in a network they are learned."""
FORMULAS = {
    "tanh": "tanh(x)",
    "sigmoid": "1 / (1 + exp(−x))",
    "relu": "max(0, x)",
    "leaky_relu": "x if x > 0, else {slope:g} x",
    "elu": "x if x > 0, else {alpha:g} (exp(x) − 1)",
    "gelu": "x Φ(x)",
    "maxout": "max(x, −(x + 1) / 2); slopes are learned",
}
NAMES = tuple(FORMULAS)
"""Activations that ``elman`` and the layers of a prenet take."""


@dataclass(frozen=True)
class ActivationCurve:
    """An activation function at some places."""

    name: str
    formula: str
    inputs: list[float]
    outputs: list[float]
    derivatives: list[float]
    largest_derivative: float  # over these inputs

    def to_dict(self) -> dict[str, Any]:
        """Everything as lists, numbers and strings."""
        return asdict(self)


def activation_curve(
    name: str,
    *,
    limit: float = 4.0,  # inputs from -limit to limit
    points: int = 401,
    negative_slope: float = 0.01,  # of leaky_relu
    elu_alpha: float = 1.0,  # of elu
) -> ActivationCurve:
    """An activation of elman or a prenet, with its derivative by backpropagation."""
    if name not in NAMES:
        raise ValueError(f"activation is {name!r}, expected one of {', '.join(NAMES)}")
    x = torch.linspace(-limit, limit, points, dtype=torch.float64).requires_grad_()
    if name in ACTIVATIONS:
        y = make_activation(name, negative_slope=negative_slope, elu_alpha=elu_alpha)(x)
    else:
        y = torch.stack([slope * x + offset for slope, offset in MAXOUT]).amax(dim=0)
    (derivative,) = torch.autograd.grad(y.sum(), x)
    return ActivationCurve(
        name=name,
        formula=FORMULAS[name].format(slope=negative_slope, alpha=elu_alpha),
        inputs=x.tolist(),
        outputs=y.tolist(),
        derivatives=derivative.tolist(),
        largest_derivative=float(derivative.max()),
    )


def draw_activations(path: str | Path, names: Sequence[str] = NAMES, **options: Any) -> "Figure":
    """Draw activation functions side by side, each with its derivative dashed; options as of ``activation_curve``."""
    curves = [activation_curve(name, **options) for name in names]
    across = min(len(curves), 4)
    figure = panel_figure(len(curves), width=2.9, height=2.8, across=across)
    for axes, curve in zip(figure.axes, curves, strict=True):
        axes.axhline(0, color=GREY, linewidth=0.7)
        axes.axvline(0, color=GREY, linewidth=0.7)
        axes.plot(curve.inputs, curve.derivatives, color=RED, linewidth=1.4, linestyle="--", label="derivative")
        axes.plot(curve.inputs, curve.outputs, color=BLUE, linewidth=1.9, label="function")
        axes.set_ylim(-1.35, 2.2)
        axes.set_title(f"{curve.name}\n{curve.formula}", loc="left", fontsize=8.5, color=BLACK)
        axes.set_xlabel("x", fontsize=9)
    handles, labels = figure.axes[0].get_legend_handles_labels()
    columns = math.ceil(len(labels))
    figure.legend(handles[::-1], labels[::-1], loc="outside lower center", ncols=columns, frameon=False, fontsize=9)
    save_figure(figure, path)
    return figure
