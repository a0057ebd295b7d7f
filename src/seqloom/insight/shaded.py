"""Symbols with a number each, in the order in which they stand: text, and a picture, which needs matplotlib."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from seqloom.insight.alignment import literal, visible

BARS = " ▁▂▃▄▅▆▇█"  # from nothing to the largest
LINE = 84.0  # letters of a line in a picture


def shaded_lines(
    symbols: Sequence[str],
    values: Sequence[float],  # from 0 on
    *,
    largest: float = 0.0,  # what a full bar means; 0: the largest of the values
    below: Sequence[str] = (),  # a further text for each symbol
    width: int = 100,
) -> list[str]:
    """The symbols, and below each a bar as high as its value."""
    bound = largest or max(values, default=0.0) or 1.0
    places = [round(min(max(value / bound, 0.0), 1.0) * (len(BARS) - 1)) for value in values]
    single = all(len(symbol) == 1 for symbol in symbols if not symbol.startswith("<")) and not below
    columns = []
    for index, (symbol, place) in enumerate(zip(symbols, places, strict=True)):
        shown = visible(symbol)
        bar = BARS[place] * len(shown)
        columns.append((shown, bar, below[index]) if below else (shown, bar))
    return list(laid_out(columns, gap=0 if single else 1, width=width))


def laid_out(columns: Sequence[Sequence[str]], *, gap: int = 2, width: int = 100) -> Iterator[str]:
    """Columns of cells side by side, broken into parts of this width, with an empty line between them."""
    parts: list[list[Sequence[str]]] = [[]]
    used = 0
    for column in columns:
        wide = max(map(len, column)) + gap
        if used + wide > width and parts[-1]:
            parts.append([])
            used = 0
        parts[-1].append(column)
        used += wide
    for number, part in enumerate(parts):
        if number:
            yield ""
        for cells in zip(*part, strict=True):
            widths = [max(map(len, column)) + gap for column in part]
            yield "".join(f"{cell:{wide}}" for cell, wide in zip(cells, widths, strict=True)).rstrip()


def draw_shaded(
    symbols: Sequence[str],
    values: Sequence[float],  # from 0 on
    path: str | Path,
    *,
    largest: float = 0.0,  # what the darkest colour means; 0: the largest of the values
    below: Sequence[str] = (),  # a further text for each symbol
    title: str = "",
    what: str = "",  # the numbers are
) -> None:
    """The symbols as running text, each on a ground that is the darker the larger its value."""
    from matplotlib import colormaps
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize
    from matplotlib.figure import Figure
    from matplotlib.patches import Rectangle

    if not symbols:
        raise ValueError("there is nothing to draw: there are no symbols")
    bound = largest or max(values) or 1.0
    colours, scale = colormaps["Blues"], Normalize(0, bound)
    boxes = list(_boxes(symbols, below))
    widest = max(x + wide for x, _, wide in boxes)
    lines = boxes[-1][1] + 1
    pitch = 0.62 if below else 0.36  # inches from line to line
    width, height = max(4.2, 0.1 * widest + 0.3), pitch * lines + 0.75 + (0.35 if title else 0)
    figure = Figure(figsize=(width, height))
    bottom, top = 0.7 / height, 1 - (0.42 if title else 0.08) / height
    axes = figure.add_axes((0.15 / width, bottom, 1 - 0.3 / width, top - bottom))
    axes.set_xlim(0, (width - 0.3) / 0.1)
    axes.set_ylim(lines, 0)
    axes.axis("off")
    high = 0.28 / pitch
    for index, (x, line, wide) in enumerate(boxes):
        shade = scale(values[index])
        axes.add_patch(Rectangle((x + 0.1, line + 0.04), wide - 0.2, high, color=colours(shade), linewidth=0))
        ink = "white" if shade > 0.6 else "#2b2f36"
        middle = x + wide / 2
        name = literal(visible(symbols[index]))
        axes.text(middle, line + 0.04 + high / 2, name, ha="center", va="center", fontsize=9.5, color=ink)
        if below:
            text = literal(below[index])
            axes.text(middle, line + 0.04 + high + 0.16, text, ha="center", va="center", fontsize=7.5, color="#5d6875")
    bar = figure.add_axes((0.15 / width, 0.4 / height, min(2.2, width - 0.4) / width, 0.1 / height))
    figure.colorbar(ScalarMappable(scale, colours), cax=bar, orientation="horizontal")
    bar.tick_params(labelsize=7.5, colors="#4a5260", length=2)
    bar.set_title(what, loc="left", fontsize=8, color="#4a5260", pad=3)
    if title:
        figure.text(0.18 / width, 1 - 0.27 / height, literal(title), fontweight="bold", color="#2b2f36")
    chosen = Path(path)
    chosen.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(chosen, dpi=150)


def _boxes(symbols: Sequence[str], below: Sequence[str]) -> Iterator[tuple[float, int, float]]:
    """Of each symbol: where its box begins, its line, and how wide it is."""
    x, line = 0.0, 0
    for index, symbol in enumerate(symbols):
        wide = max(len(visible(symbol)), 0.8 * len(below[index]) if below else 0) + 0.9
        if x and x + wide > LINE:
            x, line = 0.0, line + 1
        yield x, line, wide
        x += wide
