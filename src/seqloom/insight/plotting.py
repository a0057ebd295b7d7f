"""Colours and helpers that all plots share. Plots need matplotlib, which each function imports when it is called."""

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
