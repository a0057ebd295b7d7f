"""Small pieces of HTML for notebooks: tables, bars, coloured words and curves, in the colours of the page."""

import html
from collections.abc import Iterable, Mapping, Sequence

BLUE = "31, 111, 180"  # red, green, blue; legible on white and on black
ORANGE = "214, 113, 20"
CELL = "padding:2px 12px 2px 0;text-align:{align};vertical-align:top"
CURVE_WIDTH, CURVE_HEIGHT = 220, 56
MAP_LEFT, MAP_WIDTH, MAP_ROW = 90, 620, 20  # of a heat map: names, cells, height of a row


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
        strength = min(abs(value) / bound, 1.0) * 0.75
        colour = BLUE if value >= 0 else ORANGE
        frame = ";outline:1.5px solid currentColor" if index == marked else ""
        spans.append(
            f'<span title="{value:.4g}" style="background:rgba({colour},{strength:.3f});padding:1px 3px;'
            f'border-radius:3px{frame}">{escape(word)}</span>'
        )
    return f'<span style="line-height:1.9">{" ".join(spans)}</span>'


def sign_legend(positive: str, negative: str) -> str:
    """What the colours of positive and negative values mean."""
    boxes = "".join(
        f'<span style="background:rgba({colour},.75);border-radius:3px;padding:0 8px;margin-right:5px"></span>'
        f'<span style="opacity:.65;margin-right:16px">{escape(text)}</span>'
        for colour, text in ((BLUE, positive), (ORANGE, negative))
    )
    return f"<span>{boxes}</span>"


def labelled_words(words: Sequence[str], labels: Sequence[str]) -> str:
    """Words with a small label below each; the label O is not shown."""
    spans = "".join(
        '<span style="display:inline-block;text-align:center;margin:0 8px 4px 0;line-height:1.25">'
        f'{escape(word)}<br><span style="font-size:10px;color:rgb({BLUE})">'
        f"{escape(label) if label != 'O' else '&nbsp;'}</span></span>"
        for word, label in zip(words, labels, strict=True)
    )
    return f"<span>{spans}</span>"


def heatmap(rows: Sequence[str], columns: Sequence[str], values: Sequence[Sequence[float]]) -> str:
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
    return (
        '<table style="border-collapse:collapse;margin:0;font-size:inherit"><tr style="background:none">'
        f'<td style="border:none"></td>{head}</tr>{"".join(lines)}</table>'
    )


def signed_heatmap(rows: Sequence[str], values: Sequence[Sequence[float]], *, label: str) -> str:
    """Rows of coloured cells: blue if positive, orange if negative; with a label below."""
    bound = max((abs(value) for line in values for value in line), default=0.0) or 1.0
    width = MAP_WIDTH / max(max(map(len, values), default=1), 1)
    parts = []
    for row, (name, line) in enumerate(zip(rows, values, strict=True)):
        top = row * MAP_ROW
        parts.append(
            f'<text x="{MAP_LEFT - 8}" y="{top + MAP_ROW - 6}" text-anchor="end" fill="currentColor" font-size="12">'
            f"{escape(name)}</text>"
        )
        for column, value in enumerate(line):
            colour = BLUE if value >= 0 else ORANGE
            parts.append(
                f'<rect x="{MAP_LEFT + column * width:.2f}" y="{top + 1}" width="{width + 0.1:.2f}" '
                f'height="{MAP_ROW - 2}" fill="rgb({colour})" fill-opacity="{min(abs(value) / bound, 1.0):.3f}">'
                f"<title>{value:+.4g}</title></rect>"
            )
    height = len(rows) * MAP_ROW
    parts.append(
        f'<text x="{MAP_LEFT}" y="{height + 15}" fill="currentColor" fill-opacity=".65" font-size="12">'
        f"{escape(label)}</text>"
    )
    size = f'viewBox="0 0 {MAP_LEFT + MAP_WIDTH} {height + 20}" width="{MAP_LEFT + MAP_WIDTH}"'
    return f'<svg {size} style="display:block;max-width:100%">{"".join(parts)}</svg>'


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
