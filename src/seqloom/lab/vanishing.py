"""Whether gradients vanish or explode as the largest singular value of the recurrent matrix is below or above 1.

The recurrent matrix U of an Elman network is scaled to a given largest singular value. The gradient of the last state
is then followed back through time, h_T to h_{T-k}. It is a product of k matrices diag(φ') U, whose norm is at most the
singular value to the power of k if |φ'| ≤ 1.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import torch
from pydantic import Field
from torch import nn

from seqloom.cells import Elman
from seqloom.insight.plotting import COLOURS, GREY, panel_figure
from seqloom.lab.curves import Curves, collect_curves, curve_table
from seqloom.lab.estimate import Estimate, conclude
from seqloom.lab.experiment import Experiment, Table, Trial, Verdict
from seqloom.lab.panels import draw_curves, set_title
from seqloom.layers.recurrent.recurrent import Recurrent

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Matrix = Literal["orthogonal", "gaussian"]
Activation = Literal["linear", "tanh"]
EXPECTED = 0.9
"""The claim holds if this share of the networks does what it says."""
SEQUENCES = 16
TICKS = (0.1, 0.2, 0.3, 0.5, 0.7, 1, 1.5, 2, 3, 5)


@dataclass(frozen=True)
class Gradient:
    """The gradient of one network at one lag."""

    matrix: Matrix
    activation: Activation
    singular_value: float  # the largest one of the recurrent matrix
    spectral_radius: float  # the largest absolute value of its eigenvalues
    seed: int
    lag: int
    norm: float  # of d (v · h_T) / d h_{T-lag} for a random unit vector v, mean over the sequences


@dataclass(frozen=True)
class Growth:
    """How the gradient of one network changes from step to step."""

    matrix: Matrix
    activation: Activation
    singular_value: float
    spectral_radius: float
    rate: float  # mean factor per step; below 1 the gradient vanishes, above 1 it explodes


class Vanishing(Experiment):
    """The gradient of Elman networks with recurrent matrices of given singular values."""

    topic: ClassVar[str] = "Memory and gradients"
    question: ClassVar[str] = "When do gradients vanish, and when do they explode?"
    claim: ClassVar[str] = (
        "Gradients vanish if the largest singular value of the recurrent matrix is below 1, and explode if it is "
        "above 1."
    )
    source: ClassVar[str] = (
        "Hochreiter 1991; Bengio, Simard & Frasconi 1994; Pascanu, Mikolov & Bengio 2013; lectures on sequence "
        "modelling"
    )
    rule: ClassVar[str] = (
        "The claim holds if at least 90 % of the networks below 1 vanish (the gradient shrinks per step, from the last "
        "state to the longest lag) and at least 90 % of those above 1 explode, both with the whole 95 % interval; it "
        "does not hold if one of the intervals lies below 90 %."
    )
    quick: ClassVar[Mapping[str, Any]] = {"seeds": 2, "singular_values": (0.5, 2.0), "hidden_size": 8, "lags": 8}
    thorough: ClassVar[Mapping[str, Any]] = {"seeds": 6, "hidden_size": 256, "lags": 100}
    row: ClassVar[type[Any]] = Gradient

    seeds: int = Field(5, ge=1, description="Repetitions, each with another random seed.")
    singular_values: tuple[float, ...] = Field(
        (0.5, 0.7, 0.85, 0.95, 1.05, 1.2, 1.5, 2.0, 3.0),
        min_length=1,
        description="Largest singular values of the recurrent matrix; 1 itself belongs to neither half of the claim.",
    )
    matrices: tuple[Matrix, ...] = Field(
        ("orthogonal", "gaussian"),
        min_length=1,
        description="Recurrent matrices: orthogonal (all singular values are equal) or gaussian (random numbers).",
    )
    activations: tuple[Activation, ...] = Field(
        ("linear", "tanh"), min_length=1, description="Activation functions of the networks."
    )
    lags: int = Field(50, ge=2, description="Longest lag, in steps.")
    hidden_size: int = Field(64, ge=1, description="Units of each network.")

    def trials(self) -> list[Trial]:
        return [
            Trial(
                f"{matrix}, {activation}, largest singular value {value:g}",
                partial(self._measure, matrix, activation, value),
            )
            for matrix in self.matrices
            for activation in self.activations
            for value in self.singular_values
        ]

    def _measure(self, matrix: Matrix, activation: Activation, value: float) -> list[Gradient]:
        rows = []
        for seed in self.all_seeds:
            torch.manual_seed(seed)
            cell, radius = self._build(matrix, activation, value)
            rows += [
                Gradient(matrix, activation, value, radius, seed, lag, norm)
                for lag, norm in gradient_norms(Recurrent(cell), self.lags).items()
            ]
        return rows

    def _build(self, matrix: Matrix, activation: Activation, value: float) -> tuple[Elman, float]:
        """A network whose recurrent matrix has the given largest singular value, and its spectral radius."""
        # The maximum over a single linear map is that map: φ is the identity.
        options: dict[str, Any] = {"activation": "maxout", "pieces": 1} if activation == "linear" else {}
        cell = Elman(self.hidden_size, self.hidden_size, **options).double()
        weight = cell.recurrent.weight
        with torch.no_grad():
            if matrix == "gaussian":
                nn.init.normal_(weight)
            weight *= value / torch.linalg.matrix_norm(weight, 2)
            return cell, float(torch.linalg.eigvals(weight).abs().max())

    def verdict(self, rows: Sequence[Gradient]) -> Verdict:
        below = [growth for growth in growths(rows) if growth.singular_value < 1]
        above = [growth for growth in growths(rows) if growth.singular_value > 1]
        linear = [growth for growth in growths(rows) if growth.activation == "linear"]
        followed = sum((growth.rate > 1) == (growth.spectral_radius > 1) for growth in linear)
        estimates = {
            "vanishing below 1": Estimate.of_share(sum(growth.rate < 1 for growth in below), len(below)),
            "exploding above 1": Estimate.of_share(sum(growth.rate > 1 for growth in above), len(above)),
            "linear networks that follow their largest eigenvalue": Estimate.of_share(followed, len(linear)),
        }
        vanishing, exploding, eigenvalue = estimates.values()
        shrinking = [growth.singular_value for growth in above if growth.rate < 1]
        largest = f", even at a value of {max(shrinking):g}" if shrinking else ""
        return Verdict(
            conclude(vanishing.is_above(EXPECTED), exploding.is_above(EXPECTED)),
            f"Below 1, the gradient vanishes in {vanishing.format(percent=True)} of the networks. Above 1, it explodes "
            f"in {exploding.format(percent=True)} of them and vanishes in {len(shrinking)} of {len(above)}{largest}. "
            f"{eigenvalue.format(percent=True)} of the linear networks do what their largest eigenvalue says: explode "
            "if it is above 1, vanish if it is below.",
            estimates,
        )

    def table(self, rows: Sequence[Gradient]) -> Table:
        return curve_table("factor per step at a singular value of", rate_curves(rows), form=".2f")

    def draw(self, rows: Sequence[Gradient]) -> "Figure":
        figure = panel_figure(2, width=5.6, height=4.1)
        lag_panel, rate_panel = figure.axes
        matrix, activation = rows[0].matrix, rows[-1].activation
        by_value: dict[str, dict[float, list[float]]] = {}
        for row in rows:
            if _is(row, matrix, activation):
                points = by_value.setdefault(f"{row.singular_value:g}", {0: [1.0]})
                points.setdefault(row.lag, []).append(row.norm)
        shades = _shades(len(by_value))
        draw_curves(lag_panel, by_value, colours=shades, styles={name: {"marker": ""} for name in by_value})
        for shade, (name, points) in zip(shades, by_value.items(), strict=True):
            end = max(points)
            lag_panel.annotate(
                name, (end, sum(points[end]) / len(points[end])), xytext=(4, 0), textcoords="offset points",
                va="center", fontsize=8, color=shade,
            )  # fmt: skip
        lag_panel.set(yscale="log", xlabel="steps back", ylabel="norm of the gradient")
        set_title(lag_panel, f"Gradient by lag and singular value ({matrix}, {activation})")
        draw_curves(rate_panel, rate_curves(rows), colours=COLOURS)
        rate_panel.axhline(1, color=GREY, linewidth=1)
        rate_panel.axvline(1, color=GREY, linewidth=1)
        for text, shift, align in (("explodes", 4, "bottom"), ("vanishes", -4, "top")):
            rate_panel.annotate(
                text, (0.01, 1), xycoords=("axes fraction", "data"), xytext=(0, shift), textcoords="offset points",
                va=align, color=GREY, fontsize=9,
            )  # fmt: skip
        rate_panel.set(
            xscale="log", yscale="log", xlabel="largest singular value", ylabel="factor of the gradient per step"
        )
        for axis in (rate_panel.xaxis, rate_panel.yaxis):
            axis.set_ticks(TICKS, [f"{tick:g}" for tick in TICKS], minor=False)
            axis.set_ticks([], minor=True)
        values, rates_seen = [row.singular_value for row in rows], [growth.rate for growth in growths(rows)]
        rate_panel.set(xlim=(0.9 * min(values), 1.1 * max(values)), ylim=(0.8 * min(rates_seen), 1.2 * max(rates_seen)))
        set_title(rate_panel, "Growth per step")
        rate_panel.legend(frameon=False, fontsize=8, loc="lower right")
        return figure


def gradient_norms(layer: Recurrent, lags: int) -> dict[int, float]:
    """The norm of the gradient from the last state to each lag, by running the last steps again from that state."""
    size = layer.output_size
    x = torch.randn(SEQUENCES, lags, layer.input_size, dtype=torch.double)
    direction = torch.randn(SEQUENCES, size, dtype=torch.double)
    direction /= direction.norm(dim=-1, keepdim=True)
    norms = {}
    with torch.no_grad():
        states = layer(x)[0]
    for lag in sorted({max(lags * part // 4, 1) for part in (1, 2, 3, 4)}):
        hidden = torch.zeros_like(states[:, 0]) if lag == lags else states[:, lags - lag - 1]
        hidden = hidden.clone().requires_grad_()
        y, _ = layer(x[:, lags - lag :], None, layer.cell.State(hidden))
        (gradient,) = torch.autograd.grad((y[:, -1] * direction).sum(), hidden)
        norms[lag] = float(gradient.norm(dim=-1).mean())
    return norms


def growths(rows: Sequence[Gradient]) -> list[Growth]:
    """The mean factor per step of each network, from the last state to the longest lag."""
    longest = max(row.lag for row in rows)
    return [
        Growth(row.matrix, row.activation, row.singular_value, row.spectral_radius, row.norm ** (1 / longest))
        for row in rows
        if row.lag == longest
    ]


def rate_curves(rows: Sequence[Gradient]) -> Curves:
    """The factors per step by singular value, a curve for each kind of network."""
    return collect_curves(
        (f"{growth.matrix}, {growth.activation}", growth.singular_value, growth.rate) for growth in growths(rows)
    )


def _is(row: Gradient | Growth, matrix: str, activation: str) -> bool:
    return (row.matrix, row.activation) == (matrix, activation)


def _shades(count: int) -> list[str]:
    """Colours from blue over grey to red."""
    from matplotlib.colors import LinearSegmentedColormap, to_hex

    colours = LinearSegmentedColormap.from_list("blue_red", [COLOURS[0], "#9aa3ae", COLOURS[1]])
    return [to_hex(colours(index / max(count - 1, 1))) for index in range(count)]
