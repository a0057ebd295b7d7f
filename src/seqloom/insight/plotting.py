"""Colours, panels and files of all plots. Plots need matplotlib, which each function imports when it is called."""

import math
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BLACK, SLATE, GREY = "#2b2f36", "#4a5260", "#8a97a6"
BLUE, RED, SAND = "#1f6fb4", "#d1495b", "#b99b5f"
GRID, FRAME = "#e6e9ed", "#b8c0ca"


def escape_dollars(text: str) -> str:
    """Escape dollar signs, which matplotlib would read as the start of a formula."""
    return text.replace("$", r"\$")


def save_figure(figure: "Figure", path: str | Path, *, dpi: int = 150) -> None:
    """Write a figure to a file, creating its folder if needed."""
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(target, dpi=dpi)


def panel_figure(panels: int, *, width: float, height: float, across: int = 0) -> "Figure":
    """A figure with panels side by side, or ``across`` of them in a row."""
    from matplotlib.figure import Figure

    across = across or panels
    down = math.ceil(panels / across)
    figure = Figure(figsize=(width * across, height * down), layout="constrained")
    for index in range(panels):
        axes = figure.add_subplot(down, across, index + 1)
        axes.grid(visible=True, color=GRID, linewidth=0.8)
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
        axes.spines[["left", "bottom"]].set_color(FRAME)
        axes.tick_params(colors=SLATE, labelsize=9)
    return figure
