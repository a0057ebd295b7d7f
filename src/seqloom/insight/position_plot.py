"""Pictures of position schemes: the features of each position, or what attention knows of each pair of positions."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from seqloom.insight.plotting import BLACK, BLUE, SLATE, diverging_colours, panel_figure, save_figure
from seqloom.layers.transformer.positions import FEATURE_KINDS, KINDS, Kind, Positions, alibi_slopes, rotate

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SCHEMES = KINDS[:-1]
"""All position schemes but "none"."""
LENGTH, SIZE = 48, 48
"""Positions that are drawn, and the width of sinusoidal, learned and rotary ones."""
HEADS = 4
"""Heads of ALiBi; its first one is drawn."""
MAX_DISTANCE = 16
"""Largest distance that relative positions distinguish, as by default."""


class PositionPicture(NamedTuple):
    """A scheme as numbers to draw."""

    title: str
    values: Tensor  # (T, features), or (T, T) for pairs of a query and a key
    columns: str  # what the columns are


def position_picture(kind: Kind, *, length: int, size: int) -> PositionPicture:
    """What a scheme gives the model for positions from 0 to ``length`` - 1."""
    steps = torch.arange(length)
    if kind in FEATURE_KINDS:
        with torch.random.fork_rng(devices=[]):  # learned positions are random before training
            torch.manual_seed(0)
            layer = Positions(size, size, kind=kind, max_positions=max(2, length))
        features = layer.features(steps.unsqueeze(0), torch.empty(0), lengths=torch.tensor([length]))[0].detach()
        columns = "count" if layer.feature_size == 1 else "bit" if kind == "binary" else "feature"
        return PositionPicture(f"{kind}: {_FEATURES[kind]}", features, columns)
    distances = (steps - steps.unsqueeze(1)).float()  # key position minus query position
    values = {
        "relative": lambda: distances.clamp(-MAX_DISTANCE, MAX_DISTANCE),
        "rotary": lambda: _rotary_products(steps, size),
        "alibi": lambda: -alibi_slopes(HEADS)[0] * distances.abs(),
        "none": lambda: torch.zeros_like(distances),
    }[kind]()
    return PositionPicture(f"{kind}: {_PAIRS[kind]}", values, "key position")


_FEATURES = {
    "counts": "the position itself",
    "normalized_counts": "position / last position",
    "binary": "binary digits, lowest first",
    "sinusoidal": "sines, then cosines",
    "learned": "a table, here before training",
}
_PAIRS = {
    "relative": "which learned vector a pair adds",
    "rotary": "score of equal vectors, rotated",
    "alibi": "what is added to the score (head 1 of 4)",
    "none": "nothing",
}


def _rotary_products(steps: Tensor, size: int) -> Tensor:  # (T, T)
    """The mean product of vectors of ones that are rotated to each pair of positions."""
    width = max(2, size // 2 * 2)
    rotated = rotate(torch.ones(1, len(steps), 1, width), steps.unsqueeze(0))[0, :, 0]
    return rotated @ rotated.T / width


def draw_positions(
    path: str | Path,
    kinds: Sequence[Kind] = SCHEMES,
    *,
    length: int = LENGTH,  # positions
    size: int = SIZE,  # width of sinusoidal, learned and rotary positions
) -> "Figure":
    """Draw position schemes side by side, and write the picture to a file."""
    from matplotlib.ticker import MaxNLocator

    figure = panel_figure(len(kinds), width=3.6, height=3.5, across=min(len(kinds), math.ceil(len(kinds) / 2), 4))
    for axes, kind in zip(figure.axes, kinds, strict=True):
        picture = position_picture(kind, length=length, size=size)
        values = picture.values
        axes.grid(visible=False)
        axes.set_title(picture.title, loc="left", fontsize=9, color=BLACK)
        if values.shape[1] == 1:
            axes.plot(values[:, 0].numpy(), range(length), color=BLUE, linewidth=1.6)
            axes.set_ylim(length - 0.5, -0.5)
        else:
            limit = max(values.abs().max().item(), 1e-9)
            image = axes.imshow(
                values.numpy(),
                cmap=diverging_colours(),
                vmin=-limit,
                vmax=limit,
                aspect="auto",
                interpolation="nearest",
            )
            colours = figure.colorbar(image, ax=axes, fraction=0.05, pad=0.03)
            colours.ax.tick_params(labelsize=8, colors=SLATE)
            colours.outline.set_visible(False)
        axes.set_xlabel(picture.columns, fontsize=9)
        axes.set_ylabel("position" if kind in FEATURE_KINDS else "query position", fontsize=9)
        axes.xaxis.set_major_locator(MaxNLocator(6, integer=picture.columns != "count" or kind == "counts"))
        axes.yaxis.set_major_locator(MaxNLocator(6, integer=True))
    save_figure(figure, path, dpi=110)
    return figure
