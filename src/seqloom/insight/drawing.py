"""Pen strokes as pictures, one or a sheet of several: SVG without any library, PNG and PDF with matplotlib."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray

from seqloom import files
from seqloom.insight.plotting import BLACK, SUFFIXES, escape_dollars, panel_figure, save_figure

MARGIN = 0.05  # of the larger side
SIDE, LINE_WIDTH = 600.0, 7.2  # of the larger side of a single drawing, and of its lines
SHEET_LINE_WIDTH = 2.0
ACROSS = 3  # drawings in a row of a sheet
CELL = 320, 160  # width and height of a drawing in a sheet
TITLE = 24  # of them, the height of its text
SVG = ".svg"


@dataclass(frozen=True)
class Drawing:
    """What a pen has drawn. A notebook shows it; ``save`` writes a picture."""

    strokes: NDArray[np.float32]  # (T, 3): dx, dy with y upwards, and 1 where the pen is lifted
    text: str = ""  # that it shows; empty: none

    @classmethod
    def from_rows(cls, rows: Sequence[Sequence[float]], text: str = "") -> Self:
        """The drawing of lists of dx, dy and 1 where the pen is lifted."""
        return cls(np.array(rows, dtype=np.float32).reshape(-1, 3), text)

    def lines(self) -> list[NDArray[np.float64]]:  # each (n, 2)
        """The lines between two lifts of the pen."""
        path = np.cumsum(self.strokes[:, :2].astype(np.float64), axis=0)
        ends = np.flatnonzero(self.strokes[:, 2] > 0) + 1
        return [line for line in np.split(path, ends) if len(line)]

    def to_svg(self) -> str:
        """The drawing as an SVG picture."""
        width, height, path = self.svg_path()
        return _svg(width, height, self.text or "drawing", path)

    def svg_path(
        self, *, box: tuple[float, float] = (SIDE, SIDE), line_width: float = LINE_WIDTH
    ) -> tuple[float, float, str]:
        """Width and height of a picture that fits into the box, and the element with the lines."""
        path = np.cumsum(self.strokes[:, :2].astype(np.float64), axis=0) if len(self.strokes) else np.zeros((1, 2))
        low, high = path.min(axis=0), path.max(axis=0)
        margin = MARGIN * max(float((high - low).max()), 1e-6)
        size = high - low + 2 * margin
        scale = float((np.array(box) / size).min())
        width, height = (size * scale).round(1).tolist()
        shapes = []
        for line in self.lines():
            points = np.column_stack([line[:, 0] - low[0] + margin, high[1] - line[:, 1] + margin]) * scale
            points = points if len(points) > 1 else np.repeat(points, 2, axis=0)  # a dot
            shapes.append("M" + " L".join(f"{x:.1f},{y:.1f}" for x, y in points.tolist()))
        element = (
            f'<path d="{" ".join(shapes)}" fill="none" stroke="currentColor" stroke-width="{line_width}" '
            'stroke-linecap="round" stroke-linejoin="round"/>'
        )
        return width, height, element

    def _repr_html_(self) -> str:
        return self.to_svg()

    def save(self, path: str | Path) -> None:
        """Write the drawing as .svg, .png or .pdf."""
        save_drawings([self], path)


def save_drawings(drawings: Sequence[Drawing], path: str | Path) -> None:
    """Write one drawing, or a sheet of several, as .svg, .png or .pdf."""
    target = Path(path)
    if target.suffix.lower() not in SUFFIXES:
        raise ValueError(f"{target}: expected a file that ends in {', '.join(SUFFIXES)}")
    if target.suffix.lower() == SVG:
        files.write(target, drawings[0].to_svg() if len(drawings) == 1 else _sheet(drawings))
        return
    figure = panel_figure(len(drawings), width=3.2, height=1.6, across=min(ACROSS, len(drawings)))
    for axes, drawing in zip(figure.axes, drawings, strict=False):
        for line in drawing.lines():
            axes.plot(*line.T, color=BLACK, linewidth=1.4, solid_capstyle="round", marker="." if len(line) == 1 else "")
        axes.set_aspect("equal", adjustable="datalim")
        axes.set_axis_off()
        if drawing.text:
            axes.set_title(escape_dollars(drawing.text), fontsize=9)
    for axes in figure.axes[len(drawings) :]:
        axes.set_axis_off()
    save_figure(figure, target)


def _sheet(drawings: Sequence[Drawing]) -> str:
    """Several drawings as one SVG picture, each with its text above it."""
    across = min(ACROSS, len(drawings))
    (cell_width, cell_height), cells = CELL, []
    box = cell_width, cell_height - TITLE
    for number, drawing in enumerate(drawings):
        x, y = number % across * cell_width, number // across * cell_height
        width, height, path = drawing.svg_path(box=box, line_width=SHEET_LINE_WIDTH)
        left, top = x + (box[0] - width) / 2, y + TITLE + (box[1] - height) / 2
        cells.append(
            f'<text x="{x + cell_width / 2}" y="{y + 0.7 * TITLE}" text-anchor="middle" font-family="sans-serif" '
            f'font-size="14" fill="currentColor">{escape(drawing.text)}</text>'
            f'<g transform="translate({left:.1f} {top:.1f})">{path}</g>'
        )
    rows = -(-len(drawings) // across)
    return _svg(across * cell_width, rows * cell_height, "drawings", "".join(cells))


def _svg(width: float, height: float, title: str, content: str) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'role="img"><title>{escape(title)}</title>{content}</svg>\n'
    )
