"""A number for each token of a text: printed as bars below the tokens, drawn as their background colour."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from seqloom.formats import format_signed
from seqloom.insight.plotting import BLACK, SLATE, diverging_colours, escape_dollars, save_figure
from seqloom.insight.token_names import show_whitespace

BARS = " ▁▂▃▄▅▆▇█"  # from zero to the maximum
HANGING_BARS = " ▔▀█"  # the same, downwards
LINE_LENGTH = 84.0  # characters of a line in a plot


def heatmap_lines(
    tokens: Sequence[str],
    values: Sequence[float],  # not negative
    *,
    maximum: float = 0.0,  # value of a full bar; 0: the largest of the values
    captions: Sequence[str] = (),  # another line of text, one for each token
    width: int = 100,
) -> list[str]:
    """The tokens, and below each a bar as high as its value."""
    bound = maximum or max(values, default=0.0) or 1.0
    levels = [round(min(max(value / bound, 0.0), 1.0) * (len(BARS) - 1)) for value in values]
    single_characters = all(len(token) == 1 for token in tokens if not token.startswith("<")) and not captions
    columns = []
    for index, (token, level) in enumerate(zip(tokens, levels, strict=True)):
        shown = show_whitespace(token)
        bar = BARS[level] * len(shown)
        columns.append((shown, bar, captions[index]) if captions else (shown, bar))
    return list(wrap_columns(columns, gap=0 if single_characters else 1, width=width))


def signed_heatmap_lines(
    tokens: Sequence[str],
    values: Sequence[float],
    *,
    width: int = 100,
    numbers: bool = True,  # a line with the values
) -> list[str]:
    """The tokens with a bar above those of positive values, a bar that hangs below the others, and the values."""
    bound = max(map(abs, values), default=0.0) or 1.0
    columns = []
    for token, value in zip(tokens, values, strict=True):
        above = BARS[round(max(value / bound, 0.0) * (len(BARS) - 1))]
        below = HANGING_BARS[round(max(-value / bound, 0.0) * (len(HANGING_BARS) - 1))]
        columns.append((above * len(token), token, below * len(token), *[format_signed(value)] * numbers))
    if all(not below.strip() for _, _, below, *_ in columns):
        columns = [(above, token, *rest) for above, token, _, *rest in columns]
    return list(wrap_columns(columns, gap=1 if numbers else 0, width=width))


def wrap_columns(columns: Sequence[Sequence[str]], *, gap: int = 2, width: int = 100) -> Iterator[str]:
    """Lay columns of cells side by side and wrap them at a width, with an empty line between the parts."""
    parts: list[list[Sequence[str]]] = [[]]
    used = 0
    for column in columns:
        column_width = max(map(len, column)) + gap
        if used + column_width > width and parts[-1]:
            parts.append([])
            used = 0
        parts[-1].append(column)
        used += column_width
    for number, part in enumerate(parts):
        if number:
            yield ""
        for cells in zip(*part, strict=True):
            widths = [max(map(len, column)) + gap for column in part]
            yield "".join(f"{cell:{cell_width}}" for cell, cell_width in zip(cells, widths, strict=True)).rstrip()


def draw_heatmap_text(
    tokens: Sequence[str],
    values: Sequence[float],  # not negative, unless they are signed
    path: str | Path,
    *,
    maximum: float = 0.0,  # value of the darkest colour; 0: the largest of the values
    captions: Sequence[str] = (),  # a small text below each token
    title: str = "",
    label: str = "",  # of the colour scale
    signed: bool = False,  # blue for positive values, orange for negative ones
) -> None:
    """Draw the tokens as running text, each on a background that is darker for larger values."""
    from matplotlib import colormaps
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize
    from matplotlib.figure import Figure
    from matplotlib.patches import Rectangle

    if not tokens:
        raise ValueError("there is nothing to draw: there are no tokens")
    bound = maximum or max(map(abs, values)) or 1.0
    colours = diverging_colours() if signed else colormaps["Blues"]
    scale = Normalize(-bound if signed else 0, bound)
    boxes = list(_boxes(tokens, captions))
    widest = max(x + box_width for x, _, box_width in boxes)
    lines = boxes[-1][1] + 1
    pitch = 0.62 if captions else 0.36  # inches from line to line
    headings = max(0.09 * len(title), 0.07 * len(label)) + 0.4  # bold letters are about 0.09 inches wide
    width = max(4.2, 0.1 * widest + 0.3, min(headings, 0.1 * LINE_LENGTH + 0.3))
    height = pitch * lines + 0.75 + (0.35 if title else 0)
    figure = Figure(figsize=(width, height))
    bottom, top = 0.7 / height, 1 - (0.42 if title else 0.08) / height
    axes = figure.add_axes((0.15 / width, bottom, 1 - 0.3 / width, top - bottom))
    axes.set_xlim(0, (width - 0.3) / 0.1)
    axes.set_ylim(lines, 0)
    axes.axis("off")
    box_height = 0.28 / pitch
    for index, (x, line, box_width) in enumerate(boxes):
        shade = scale(values[index])
        y = line + 0.04
        axes.add_patch(Rectangle((x + 0.1, y), box_width - 0.2, box_height, color=colours(shade), linewidth=0))
        ink = "white" if abs(values[index]) > 0.6 * bound else BLACK
        middle = x + box_width / 2
        name = escape_dollars(show_whitespace(tokens[index]))
        axes.text(middle, y + box_height / 2, name, ha="center", va="center", fontsize=9.5, color=ink)
        if captions:
            text = escape_dollars(captions[index])
            axes.text(middle, y + box_height + 0.16, text, ha="center", va="center", fontsize=7.5, color="#5d6875")
    bar = figure.add_axes((0.15 / width, 0.4 / height, min(2.2, width - 0.4) / width, 0.1 / height))
    figure.colorbar(ScalarMappable(scale, colours), cax=bar, orientation="horizontal")
    bar.tick_params(labelsize=7.5, colors=SLATE, length=2)
    bar.set_title(label, loc="left", fontsize=8, color=SLATE, pad=3)
    if title:
        figure.text(0.18 / width, 1 - 0.27 / height, escape_dollars(title), fontweight="bold", color=BLACK)
    save_figure(figure, path)


def _boxes(tokens: Sequence[str], captions: Sequence[str]) -> Iterator[tuple[float, int, float]]:
    """The box of each token: its left edge, its line and its width, in characters."""
    x, line = 0.0, 0
    for index, token in enumerate(tokens):
        width = max(len(show_whitespace(token)), 0.8 * len(captions[index]) if captions else 0) + 0.9
        if x and x + width > LINE_LENGTH:
            x, line = 0.0, line + 1
        yield x, line, width
        x += width
