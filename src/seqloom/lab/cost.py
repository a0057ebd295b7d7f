"""How the cost of a layer grows with the length of the sequence.

Counted are the multiplications and additions of all matrix products that torch carries out, so that the result does not
depend on the machine.
"""

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from pydantic import Field
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from seqloom.formats import format_number
from seqloom.insight.plotting import GREY, panel_figure
from seqloom.lab.estimate import Estimate, conclude
from seqloom.lab.experiment import Experiment, Table, Trial, Verdict
from seqloom.lab.panels import draw_curves, legend_below, set_log_steps, set_title
from seqloom.layers.build import recurrent
from seqloom.layers.layer import Layer
from seqloom.layers.transformer.block import TransformerBlock

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LSTM, GRU = "LSTM", "GRU"
ATTENTION, WINDOW, LINEAR = "self-attention", "self-attention in a window", "linear attention"
LAYERS = (LSTM, GRU, ATTENTION, WINDOW, LINEAR)
RECURRENT = (LSTM, GRU)
TOLERANCE = 0.1
"""How far a measured exponent may lie from 1 or 2."""


@dataclass(frozen=True)
class Measurement:
    """One layer that reads one sequence."""

    layer: str
    width: int
    length: int
    operations: int  # multiplications and additions
    pairs: int  # those that compare or mix pairs of elements, a part of the above; 0 for recurrent layers


class Cost(Experiment):
    """Operations of recurrent and of self-attention layers on sequences of growing length."""

    topic: ClassVar[str] = "Attention and positions"
    question: ClassVar[str] = "How does the cost of a layer grow with the length of the sequence?"
    claim: ClassVar[str] = "The cost of recurrence is linear in the length, that of self-attention quadratic."
    source: ClassVar[str] = "Vaswani et al. 2017, table 1; lectures on sequence modelling"
    rule: ClassVar[str] = (
        "The exponent of a layer is log2 of the factor by which its operations grow from half of the longest length to "
        "the longest one. The claim holds if the exponents of LSTM and GRU lie within 0.1 of 1 and that of "
        "self-attention within 0.1 of 2. The counts are exact: the intervals are points."
    )
    quick: ClassVar[Mapping[str, Any]] = {"lengths": (16, 32), "width": 4, "heads": 2, "window": 4}
    thorough: ClassVar[Mapping[str, Any]] = {
        "lengths": (8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096),
        "width": 32,
    }
    row: ClassVar[type[Any]] = Measurement

    seeds: int = Field(1, ge=1, le=1, description="Always 1: counted operations do not depend on chance.")
    lengths: tuple[int, ...] = Field(
        (8, 16, 32, 64, 128, 256, 512, 1024, 2048), min_length=2, description="Elements of the sequences."
    )
    width: int = Field(16, ge=1, description="Units of each layer.")
    heads: int = Field(4, ge=1, description="Attention heads.")
    window: int = Field(64, ge=1, description="Elements that attention in a window sees.")

    def trials(self) -> list[Trial]:
        return [
            Trial(f"{layer}, {length} elements", partial(self._measure, layer, length))
            for length in sorted(self.lengths)
            for layer in LAYERS
        ]

    def _measure(self, name: str, length: int) -> list[Measurement]:
        layer = self._build(name)
        operations = count_operations(layer, length)
        # The rest of a block treats each element by itself: what they cost for a single one.
        pairs = 0 if name in RECURRENT else operations - length * self._per_element()
        return [Measurement(name, self.width, length, operations, pairs)]

    def _build(self, name: str) -> Layer:
        attention = partial(TransformerBlock, self.width, heads=self.heads, positions="none")
        layers: dict[str, Callable[[], Layer]] = {
            LSTM: lambda: recurrent("lstm", self.width, self.width),
            GRU: lambda: recurrent("gru", self.width, self.width),
            ATTENTION: attention,
            WINDOW: lambda: attention(context=self.window),
            LINEAR: lambda: attention(attention="linear"),
        }
        return layers[name]()

    def _per_element(self) -> int:
        """Operations of a block for an element without attention: queries, keys, values, output and feed-forward."""
        return 2 * (3 + 1 + 4 + 4) * self.width**2

    def verdict(self, rows: Sequence[Measurement]) -> Verdict:
        estimates = {layer: exponent(rows, layer) for layer in LAYERS}
        status = conclude(
            *(estimates[layer].is_within(1 - TOLERANCE, 1 + TOLERANCE) for layer in RECURRENT),
            estimates[ATTENTION].is_within(2 - TOLERANCE, 2 + TOLERANCE),
        )
        longest, width = max(row.length for row in rows), rows[0].width
        values = {layer: format_number(estimate.value, 3) for layer, estimate in estimates.items()}
        cheaper = crossing(rows)
        where = "at no measured length" if cheaper is None else f"up to {cheaper} elements"
        return Verdict(
            status,
            f"At {longest} elements and width {width}, the operations grow with the length to the power of "
            f"{values[LSTM]} for the LSTM, {values[GRU]} for the GRU and {values[ATTENTION]} for self-attention "
            f"({values[WINDOW]} in a window, {values[LINEAR]} for linear attention). Comparing pairs of elements costs "
            f"less than the rest of the block {where}.",
            estimates,
        )

    def table(self, rows: Sequence[Measurement]) -> Table:
        lengths = sorted({row.length for row in rows})
        shown = lengths[:: max(1, len(lengths) // 4)]
        operations = {(row.layer, row.length): row.operations for row in rows}
        cells = [
            [
                layer,
                *(f"{operations[layer, length] / 1e6:,.3g}" for length in shown),
                f"{exponent(rows, layer).value:.3f}",
            ]
            for layer in LAYERS
        ]
        return ["million operations", *(f"{length}" for length in shown), "exponent"], cells

    def draw(self, rows: Sequence[Measurement]) -> "Figure":
        figure = panel_figure(2, width=5.4, height=4.0)
        total, growth = figure.axes
        lengths = sorted({row.length for row in rows})
        operations = {(row.layer, row.length): row.operations for row in rows}
        draw_curves(
            total, {layer: {length: [operations[layer, length] / 1e6] for length in lengths} for layer in LAYERS}
        )
        total.set(yscale="log", ylabel="million operations")
        set_log_steps(total, lengths, label="elements of the sequence")
        total.tick_params(axis="x", labelrotation=45)
        set_title(total, "The whole layer")
        exponents = {
            layer: {
                long: [math.log(operations[layer, long] / operations[layer, short]) / math.log(long / short)]
                for short, long in pairwise(lengths)
            }
            for layer in LAYERS
        }
        draw_curves(growth, exponents)
        for level, name in ((1, "linear"), (2, "quadratic")):
            growth.axhline(level, color=GREY, linestyle=":", linewidth=1.2)
            growth.annotate(
                name,
                (0.01, level),
                xycoords=("axes fraction", "data"),
                xytext=(0, 4 if level > 1 else -10),
                textcoords="offset points",
                color=GREY,
                fontsize=8,
            )
        growth.set(ylim=(0.85, 2.15), ylabel="exponent from length to length")
        set_log_steps(growth, lengths[1:], label="elements of the sequence")
        growth.tick_params(axis="x", labelrotation=45)
        set_title(growth, "How it grows")
        legend_below(figure, total, columns=3)
        return figure


def count_operations(layer: Layer, length: int) -> int:
    """The multiplications and additions of a layer that reads a sequence."""
    counter = FlopCounterMode(display=False)
    with warnings.catch_warnings(), sdpa_kernel(SDPBackend.MATH), counter:
        # Recurrent layers warn that they run step by step, which they do because the products are counted.
        warnings.simplefilter("ignore")
        layer(torch.zeros(1, length, layer.input_size))
    return int(counter.get_total_flops())


def exponent(rows: Sequence[Measurement], layer: str) -> Estimate:
    """The power of the length with which the operations grow at the longest lengths; exact."""
    operations = {row.length: row.operations for row in rows if row.layer == layer}
    longest = max(operations)
    half = max(length for length in operations if 2 * length <= longest or length == min(operations))
    value = math.log(operations[longest] / operations[half]) / math.log(longest / half)
    return Estimate(value, value, value)


def crossing(rows: Sequence[Measurement]) -> int | None:
    """The largest length at which pairs of elements cost self-attention less than everything else."""
    small = [row.length for row in rows if row.layer == ATTENTION and row.pairs < row.operations - row.pairs]
    return max(small, default=None)
