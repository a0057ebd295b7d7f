"""The anatomy of a model as a picture: boxes inside boxes, from the input below to the output above."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from seqloom.insight.model_parts import ModelPart, anatomy_notes, merge_equal, parameter_text
from seqloom.insight.plotting import BLACK, BLUE, FRAME, GREY, SLATE, escape_dollars, save_figure, titled

SIDE_BY_SIDE = (
    {"encoder", "decoder"},
    {"forward layer", "backward layer"},
    {"embedding", "characters"},
    {"own", "pretrained 1"},
    {"layer", "map 1"},
)
"""Parts of one module that work beside each other."""
BLOCK = "Transformer block"
"""A part whose own parts are shown although they are plain weights."""
BLOCK_ORDER = ("query", "output", "cross", "feed", "norm")
"""Its parts from below to above, by the beginnings of their names."""
CHARACTER, LINE = 0.075, 0.17  # inches
PADDING, GAP, TITLE = 0.12, 0.22, 0.24


@dataclass(frozen=True)
class _Box:
    """A part with its place: left lower corner and size in inches."""

    part: ModelPart
    lines: tuple[str, ...]
    inner: tuple["_Box", ...] = ()
    beside: bool = False  # the first inner boxes are side by side
    x: float = 0.0
    y: float = 0.0
    width: float = 0.0
    height: float = 0.0

    def moved(self, x: float, y: float) -> "_Box":
        return replace(self, x=self.x + x, y=self.y + y, inner=tuple(box.moved(x, y) for box in self.inner))


def draw_anatomy(root: ModelPart, path: str | Path) -> None:
    """Draw the parts of a model with their widths and parameters; parts with more parameters are darker."""
    from matplotlib.figure import Figure

    box = _measured(_simplified(merge_equal(root)), is_root=True)
    notes = [note for note in anatomy_notes(root) if note]
    width, height = max(box.width + 0.3, 4.2), box.height + 1.0 + LINE * len(notes)
    figure = Figure(figsize=(width, height))
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_xlim(0, width)
    axes.set_ylim(0, height)
    axes.axis("off")
    bottom = 0.5 + LINE * len(notes)
    _draw_box(axes, box.moved((width - box.width) / 2, bottom), total=max(root.parameters, 1), is_root=True)
    for number, note in enumerate(reversed(notes)):
        axes.text(0.15, 0.12 + LINE * number, note, fontsize=7.5, color=GREY, va="bottom")
    first = (box.inner or (box,))[0]
    middle = (width - box.width) / 2 + first.x + first.width / 2
    axes.text(middle, bottom - 0.27, "input", fontsize=8.5, color=SLATE, ha="center", va="center")
    _arrow(axes, (middle, bottom - 0.2), (middle, bottom))
    title = escape_dollars(titled("anatomy"))
    axes.text(0.15, height - 0.12, title, fontsize=11, fontweight="bold", color=BLACK, va="top")
    save_figure(figure, path)


def _simplified(part: ModelPart, *, depth: int = 0) -> ModelPart:
    """The same tree without details that a picture cannot show: chains of one part, and weights inside of cells."""
    has_details = any(each.parts for each in part.parts) or _beside(part.parts) or part.kind == BLOCK
    if depth and len(part.parts) != 1 and not has_details:
        return replace(part, parts=())
    inner = tuple(_simplified(each, depth=depth + 1) for each in part.parts)
    if part.kind == BLOCK:
        inner = tuple(sorted(inner, key=_place_in_block))
    if depth and len(inner) == 1 and not part.weights:
        (only,) = inner
        known = part.input_size and part.output_size
        widths = {} if known else {"input_size": only.input_size, "output_size": only.output_size}
        kind = part.kind if only.kind in ("Linear", "Embedding", "Layer norm") else f"{part.kind}, {only.kind}"
        return replace(part, kind=kind, parts=only.parts, **widths)  # type: ignore[arg-type]
    return replace(part, parts=inner)


def _place_in_block(part: ModelPart) -> int:
    return next((place for place, start in enumerate(BLOCK_ORDER) if part.name.startswith(start)), len(BLOCK_ORDER))


def _beside(parts: Sequence[ModelPart]) -> bool:
    names = {part.name for part in parts}
    return any(group <= names for group in SIDE_BY_SIDE)


def _measured(part: ModelPart, *, is_root: bool = False) -> _Box:
    """The box of a part at (0, 0), with all boxes inside of it in place."""
    times = f" × {part.count}" if part.count > 1 else ""
    name = part.kind if is_root or part.name == part.kind.lower() else f"{part.name}: {part.kind}"
    numbers = " · ".join(text for text in (part.widths, _parameters(part)) if text)
    if not part.parts:
        lines = (name + times, numbers)
        width = CHARACTER * max(map(len, lines)) + 2 * PADDING
        return _Box(part, lines, width=max(width, 1.4), height=2 * LINE + 0.16)
    boxes = [_measured(each) for each in part.parts]
    beside = _beside(part.parts)
    group = next((names for names in SIDE_BY_SIDE if names <= {each.name for each in part.parts}), set())
    row = [box for box in boxes if box.part.name in group] if beside else []
    column = [box for box in boxes if box not in row]
    row_width = sum(box.width for box in row) + GAP * max(len(row) - 1, 0)
    title = f"{name}{times} · {numbers}" if numbers else name + times
    inside = max([row_width, *(box.width for box in column), CHARACTER * len(title)])
    placed: list[_Box] = []
    x, y = PADDING + (inside - row_width) / 2, PADDING
    for box in row:
        placed.append(box.moved(x, y))
        x += box.width + GAP
    y += max((box.height for box in row), default=-GAP) + GAP
    for box in column:
        placed.append(box.moved(PADDING + (inside - box.width) / 2, y))
        y += box.height + GAP
    return _Box(part, (title,), tuple(placed), beside, width=inside + 2 * PADDING, height=y - GAP + TITLE + PADDING)


def _parameters(part: ModelPart) -> str:
    text = parameter_text(part)
    if text == "0":
        tables = sum(len(shape) > 0 for shape in part.tables.values())
        return f"{tables} tables" if tables else ""
    return text if text == "shared" else f"{text} parameters"


def _draw_box(axes: Any, box: _Box, *, total: int, is_root: bool = False) -> None:
    from matplotlib.patches import FancyBboxPatch

    is_leaf = not box.inner
    share = box.part.parameters / total
    corner = "round,pad=0,rounding_size=0.06"
    axes.add_patch(
        FancyBboxPatch(
            (box.x, box.y),
            box.width,
            box.height,
            boxstyle=corner,
            facecolor="white",
            edgecolor=SLATE if is_leaf else FRAME,
            linewidth=0.9,
            zorder=1,
        )
    )
    if is_leaf:
        fill: dict[str, Any] = {"facecolor": BLUE, "alpha": 0.04 + 0.5 * share, "edgecolor": "none", "zorder": 2}
        axes.add_patch(FancyBboxPatch((box.x, box.y), box.width, box.height, boxstyle=corner, **fill))
        middle = box.x + box.width / 2
        name, numbers = (escape_dollars(line) for line in box.lines)
        axes.text(middle, box.y + 0.08 + LINE, name, fontsize=8.5, color=BLACK, ha="center", va="bottom", zorder=4)
        axes.text(middle, box.y + 0.08, numbers, fontsize=7.5, color=SLATE, ha="center", va="bottom", zorder=4)
        return
    weight = "bold" if is_root else "normal"
    top = box.y + box.height
    title = escape_dollars(box.lines[0])
    axes.text(box.x + PADDING, top - 0.06, title, fontsize=8.5, color=SLATE, va="top", fontweight=weight, zorder=4)
    for inner in box.inner:
        _draw_box(axes, inner, total=total)
    _draw_flow(axes, box)


def _draw_flow(axes: Any, box: _Box) -> None:
    """Arrows from each inner box to the next one above it, and from an encoder to its decoder."""
    if box.part.kind == BLOCK:
        return  # residual connections and norms between its parts depend on its options
    row = [inner for inner in box.inner if inner.y == box.inner[0].y]
    column = [inner for inner in box.inner if inner.y != box.inner[0].y] if box.beside else list(box.inner)[1:]
    if box.beside and {inner.part.name for inner in row} >= SIDE_BY_SIDE[0]:
        encoder, decoder = row[0], row[1]
        y = encoder.y + min(encoder.height, decoder.height) / 2
        _arrow(axes, (encoder.x + encoder.width, y), (decoder.x, y))
        row = row[:1] if column else row
    below = row if box.beside else row[:1]
    for inner in column:
        for source in below:
            x = source.x + source.width / 2 if len(below) > 1 else inner.x + inner.width / 2
            _arrow(axes, (x, source.y + source.height), (x, inner.y))
        below = [inner]


def _arrow(axes: Any, start: tuple[float, float], end: tuple[float, float]) -> None:
    style = {"arrowstyle": "-|>", "color": SLATE, "linewidth": 0.9, "mutation_scale": 8, "shrinkA": 1, "shrinkB": 1}
    axes.annotate("", xy=end, xytext=start, arrowprops=style, zorder=5)
