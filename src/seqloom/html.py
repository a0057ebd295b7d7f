"""Small pieces of HTML for notebooks: tables, bars, coloured words and curves, in the colours of the page."""

import html
from collections.abc import Iterable, Mapping, Sequence
from itertools import count

BLUE = "31, 111, 180"  # red, green, blue; legible on white and on black
ORANGE = "214, 113, 20"
CELL = "padding:2px 12px 2px 0;text-align:{align};vertical-align:top"
CURVE_WIDTH, CURVE_HEIGHT = 220, 56
MAP_LEFT, MAP_WIDTH, MAP_ROW, MAP_CURVE_ROW = 90, 620, 20, 44  # of a heat map: names, cells, height of a row
MAX_TICKS = 10  # of a heat map
SCALE_WIDTH = 340  # of a scale of colours
PICTURE = 32  # width of a frame of a video
STRONGEST = 0.75  # opacity of the strongest background of a word


def escape(value: object) -> str:
    """A value as text that HTML shows unchanged."""
    return html.escape(str(value))


def block(*parts: str) -> str:
    """Parts one below the other."""
    inner = "".join(f'<div style="margin:4px 0">{part}</div>' for part in parts if part)
    return f'<div style="font-size:13px;line-height:1.45">{inner}</div>'


def heading(title: object, remark: object = "") -> str:
    """A bold title with a pale remark after it."""
    pale = f' <span style="opacity:.65">{escape(remark)}</span>' if str(remark) else ""
    return f"<b>{escape(title)}</b>{pale}"


def remark(text: object) -> str:
    """A pale line of text."""
    return f'<span style="opacity:.65">{escape(text)}</span>'


def table(
    columns: Sequence[str],  # headings; all empty: no row of headings
    rows: Iterable[Sequence[str]],  # cells in HTML
    *,
    right: Iterable[int] = (),  # columns that are aligned to the right
) -> str:
    """A table; its cells are HTML, so that they may hold bars and colours."""
    right = set(right)

    def line(cells: Sequence[str], tag: str) -> str:
        styles = (CELL.format(align="right" if index in right else "left") for index in range(len(cells)))
        inner = "".join(
            f'<{tag} style="{style};border:none">{cell}</{tag}>' for cell, style in zip(cells, styles, strict=True)
        )
        return f'<tr style="background:none">{inner}</tr>'

    head = f"<thead>{line([escape(column) for column in columns], 'th')}</thead>" if any(columns) else ""
    body = "".join(line(row, "td") for row in rows)
    return f'<table style="border-collapse:collapse;margin:0;font-size:inherit">{head}<tbody>{body}</tbody></table>'


def pairs(values: Mapping[str, object]) -> str:
    """A table of names and values."""
    rows = [(remark(name), escape(value)) for name, value in values.items()]
    return table(("", ""), rows)


def bar(fraction: float, text: str = "", *, width: int = 90) -> str:
    """A horizontal bar that is filled up to a fraction, with a text after it."""
    filled = round(width * min(max(fraction, 0.0), 1.0))
    return (
        f'<span style="display:inline-block;width:{width}px;height:9px;background:rgba(128,128,128,.18);'
        f'border-radius:2px;margin-right:6px"><span style="display:block;width:{filled}px;height:9px;'
        f'background:rgb({BLUE});border-radius:2px"></span></span>{escape(text)}'
    )


def coloured_words(
    words: Sequence[str],
    values: Sequence[float],
    *,
    maximum: float = 0.0,  # value of the strongest colour; 0: the largest of the values
    marked: int = -1,  # index of a word with a frame
) -> str:
    """Words with a background as strong as their values: blue if positive, orange if negative."""
    bound = maximum or max((abs(value) for value in values), default=0.0) or 1.0
    spans = []
    for index, (word, value) in enumerate(zip(words, values, strict=True)):
        strength = min(abs(value) / bound, 1.0) * STRONGEST
        colour = BLUE if value >= 0 else ORANGE
        frame = ";outline:1.5px solid currentColor" if index == marked else ""
        spans.append(
            f'<span title="{value:.4g}" style="background:rgba({colour},{strength:.3f});padding:1px 3px;'
            f'border-radius:3px{frame}">{escape(word)}</span>'
        )
    return f'<span style="line-height:1.9">{" ".join(spans)}</span>'


def pictures(
    addresses: Sequence[str],  # of images
    values: Sequence[float] = (),  # a coloured line below each; empty: none
    *,
    names: Sequence[str] = (),  # below each
    width: int = PICTURE,  # pixels
) -> str:
    """Images in a row, with a line below each: blue if its value is positive, orange if negative."""
    bound = max((abs(value) for value in values), default=0.0) or 1.0
    parts = []
    for index, address in enumerate(addresses):
        value = values[index] if values else 0.0
        line = f"6px solid rgba({BLUE if value >= 0 else ORANGE},{abs(value) / bound:.3f})"
        name = f'<br><span style="font-size:10px;opacity:.65">{escape(names[index])}</span>' if names else ""
        parts.append(
            f'<span title="{value:+.4g}" style="display:inline-block;text-align:center;margin:0 3px 4px 0">'
            f'<img src="{address}" width="{width}" alt="" style="image-rendering:pixelated;border-bottom:{line}">'
            f"{name}</span>"
        )
    return f"<div>{''.join(parts)}</div>"


def colour_scale(bound: float, *, negative: str, positive: str, strongest: float = STRONGEST) -> str:
    """The colours from ``-bound`` to ``bound``, with the numbers and what they mean."""
    colours = f"rgba({ORANGE},{strongest}), rgba({ORANGE},0) 50%, rgba({BLUE},0) 50%, rgba({BLUE},{strongest})"
    number = _digits(bound, 2)
    numbers = "".join(f"<span>{text}</span>" for text in (f"\u2212{number}", "0", f"+{number}"))
    meanings = "".join(f"<span>{escape(text)}</span>" for text in (negative, positive))
    row = "display:flex;justify-content:space-between;gap:1em"
    return (
        f'<div style="width:{SCALE_WIDTH}px;max-width:100%;font-size:12px"><div style="height:10px;border-radius:2px;'
        f'border:1px solid rgba(128,128,128,.35);background:linear-gradient(to right, {colours})"></div>'
        f'<div style="{row}">{numbers}</div><div style="{row};opacity:.65">{meanings}</div></div>'
    )


def _digits(value: float, count: int) -> str:
    """A number with this many significant digits; whole numbers keep all of theirs."""
    return f"{value:.0f}" if abs(value) >= 10**count else f"{value:.{count}g}"


def labelled_words(words: Sequence[str], labels: Sequence[str]) -> str:
    """Words with a small label below each; the label O is not shown."""
    spans = "".join(
        '<span style="display:inline-block;text-align:center;margin:0 8px 4px 0;line-height:1.25">'
        f'{escape(word)}<br><span style="font-size:10px;color:rgb({BLUE})">'
        f"{escape(label) if label != 'O' else '&nbsp;'}</span></span>"
        for word, label in zip(words, labels, strict=True)
    )
    return f"<span>{spans}</span>"


def heatmap(
    rows: Sequence[str],
    columns: Sequence[str],
    values: Sequence[Sequence[float]],
    *,
    pictures: Sequence[str] = (),  # addresses of images, one above each column
) -> str:
    """A table of coloured cells, one for each row and column; its scale is that of the values."""
    bound = max((max(line, default=0.0) for line in values), default=0.0) or 1.0
    head = "".join(
        '<th style="border:none;padding:0 2px;font-weight:normal;writing-mode:vertical-rl;transform:rotate(180deg);'
        f'text-align:left">{escape(name)}</th>'
        for name in columns
    )
    lines = []
    for name, line in zip(rows, values, strict=True):
        cells = "".join(
            f'<td title="{value:.3f}" style="border:1px solid rgba(128,128,128,.15);width:16px;height:16px;padding:0;'
            f'background:rgba({BLUE},{min(max(value / bound, 0.0), 1.0):.3f})"></td>'
            for value in line
        )
        lines.append(
            '<tr style="background:none"><td style="border:none;padding:0 6px 0 0;text-align:right">'
            f"{escape(name)}</td>{cells}</tr>"
        )
    images = "".join(
        f'<td style="border:none;padding:1px"><img src="{address}" width="{PICTURE}" alt=""></td>'
        for address in pictures
    )
    top = f'<tr style="background:none"><td style="border:none"></td>{images}</tr>' if images else ""
    return (
        f'<table style="border-collapse:collapse;margin:0;font-size:inherit">{top}<tr style="background:none">'
        f'<td style="border:none"></td>{head}</tr>{"".join(lines)}</table>'
    )


def signed_heatmap(
    rows: Sequence[str],
    values: Sequence[Sequence[float]],  # one list for each row
    *,
    label: str,  # of the horizontal axis
    size: int = 1,  # positions that each value stands for
    curves: Sequence[Sequence[float]] = (),  # finite numbers to draw over each row, one for each position
    marked: int = 0,  # position with a line, from 1; 0: none
) -> str:
    """Rows of coloured cells, blue if positive, orange if negative, over an axis of positions from 1."""
    bound = max((abs(value) for line in values for value in line), default=0.0) or 1.0
    columns = max(max(map(len, values), default=1), 1)
    width = MAP_WIDTH / columns
    row_height = MAP_CURVE_ROW if curves else MAP_ROW
    height = len(rows) * row_height
    length = max(map(len, curves), default=columns * size)

    def x(position: int) -> float:
        return MAP_LEFT + (position - 0.5) * width / size

    parts = []
    for row, (name, line) in enumerate(zip(rows, values, strict=True)):
        top = row * row_height
        parts.append(
            f'<text x="{MAP_LEFT - 8}" y="{top + row_height / 2 + 4:g}" text-anchor="end" fill="currentColor" '
            f'font-size="12">{escape(name)}</text>'
        )
        for column, value in enumerate(line):
            colour = BLUE if value >= 0 else ORANGE
            parts.append(
                f'<rect x="{MAP_LEFT + column * width:.2f}" y="{top + 1}" width="{width + 0.1:.2f}" '
                f'height="{row_height - 2}" fill="rgb({colour})" fill-opacity="{min(abs(value) / bound, 1.0):.3f}">'
                f"<title>{'+' if value >= 0 else ''}{_digits(value, 4)}</title></rect>"
            )
    for row, numbers in enumerate(curves):
        low, spread = min(numbers, default=0.0), (max(numbers, default=0.0) - min(numbers, default=0.0)) or 1.0
        points = " ".join(
            f"{x(position):.1f},{(row + 0.9) * row_height - 0.8 * row_height * (number - low) / spread:.1f}"
            for position, number in enumerate(numbers, start=1)
        )
        parts.append(f'<polyline fill="none" stroke="currentColor" stroke-width="1.2" points="{points}"/>')
    if marked:
        parts.append(
            f'<line x1="{x(marked):.1f}" x2="{x(marked):.1f}" y1="0" y2="{height}" stroke="currentColor" '
            'stroke-dasharray="4 3"/>'
        )
    parts += [
        f'<line x1="{x(tick):.1f}" x2="{x(tick):.1f}" y1="{height}" y2="{height + 4}" stroke="currentColor" '
        f'stroke-opacity=".65"/><text x="{x(tick):.1f}" y="{height + 16}" text-anchor="middle" '
        f'fill="currentColor" fill-opacity=".65" font-size="11">{tick}</text>'
        for tick in ticks(length)
    ]
    parts.append(
        f'<text x="{MAP_LEFT + MAP_WIDTH / 2:g}" y="{height + 32}" text-anchor="middle" fill="currentColor" '
        f'fill-opacity=".65" font-size="12">{escape(label)}</text>'
    )
    box = f'viewBox="0 0 {MAP_LEFT + MAP_WIDTH + 10} {height + 38}" width="{MAP_LEFT + MAP_WIDTH + 10}"'
    return f'<svg {box} style="display:block;max-width:100%">{"".join(parts)}</svg>'


def ticks(length: int) -> list[int]:
    """The first and about ``MAX_TICKS`` round positions from 1 to ``length``."""
    sizes = (factor * 10**power for power in count() for factor in (1, 2, 5))
    step = next(size for size in sizes if length <= MAX_TICKS * size)
    return sorted({1, *range(step, length + 1, step)} - ({2} if step == 2 else set()))


def curve(values: Sequence[float], *, label: str) -> str:
    """A small curve of numbers with its first and its last value."""
    if len(values) < 2:
        return ""
    low, high = min(values), max(values)
    span = high - low or 1.0
    points = " ".join(
        f"{2 + (CURVE_WIDTH - 4) * index / (len(values) - 1):.1f},{2 + (CURVE_HEIGHT - 4) * (high - value) / span:.1f}"
        for index, value in enumerate(values)
    )
    picture = (
        f'<svg width="{CURVE_WIDTH}" height="{CURVE_HEIGHT}" style="display:block"><polyline fill="none" '
        f'stroke="rgb({BLUE})" stroke-width="1.5" points="{points}"/></svg>'
    )
    return picture + remark(f"{label}: {values[0]:.4g} → {values[-1]:.4g}")


def beside(*parts: str) -> str:
    """Parts next to each other."""
    cells = "".join(f'<div style="margin-right:28px">{part}</div>' for part in parts if part)
    return f'<div style="display:flex;flex-wrap:wrap;align-items:flex-start">{cells}</div>'
