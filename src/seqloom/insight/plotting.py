"""Style and files of all plots. Plots need matplotlib, which each function imports when it is called."""

import math
import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seqloom import files, terminal
from seqloom.insight.theme import THEMES, Theme, darken

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BLACK, SLATE, GREY = "#2b2f36", "#4a5260", "#8a97a6"
BLUE, RED, SAND, ORANGE = "#1f6fb4", "#d1495b", "#b99b5f", "#d67114"
GRID, FRAME = "#e6e9ed", "#b8c0ca"
COLOURS = ("#1f6fb4", "#d1495b", "#2e8b57", "#8e5aa8", "#e08a1e", "#178f9d", "#b5527f", "#6b7d1e", "#8a5a3c", "#3d4fa1")
"""Colours of curves and classes."""
FAMILIES = (
    "DejaVu Sans",
    *("Noto Sans CJK SC", "Noto Sans CJK JP", "Source Han Sans SC", "Droid Sans Fallback", "WenQuanYi Zen Hei"),
    *("Hiragino Sans GB", "PingFang SC", "Microsoft YaHei", "Yu Gothic", "Malgun Gothic", "Arial Unicode MS"),
    *("Noto Sans Devanagari", "Noto Sans Thai", "Noto Sans Arabic", "Noto Sans", "Unifont"),
)
"""Fonts that are used if they are installed; a character comes from the first one that has it."""
SUFFIXES = (".png", ".svg", ".pdf")
"""Formats of plots; the suffix of a file chooses one."""

_run_name: ContextVar[str] = ContextVar("_run_name", default="")
_suffix: ContextVar[str] = ContextVar("_suffix", default=".png")
_theme: ContextVar[Theme] = ContextVar("_theme", default="light")
_reported: set[str] = set()  # characters that no font has, each reported once


@contextmanager
def plot_theme(theme: Theme) -> Iterator[None]:
    """Draw all plots meanwhile on a light or on a dark background."""
    token = _theme.set(check_theme(theme))
    try:
        yield
    finally:
        _theme.reset(token)


def check_theme(theme: str) -> Theme:
    """The theme of this name; ValueError if there is none."""
    for known in THEMES:
        if theme == known:
            return known
    raise ValueError(f"expected the theme {' or '.join(THEMES)}, got {theme!r}")


@contextmanager
def named_plots(name: str, *, suffix: str = ".png", theme: Theme = "light") -> Iterator[None]:
    """Put the name of a run before the titles of all plots that are drawn meanwhile; ``plot_path`` has the suffix."""
    tokens = _run_name.set(name), _suffix.set(suffix)
    try:
        with plot_theme(theme):
            yield
    finally:
        _run_name.reset(tokens[0])
        _suffix.reset(tokens[1])


def plot_path(folder: Path, name: str) -> Path:
    """The file of a plot in the format of the run."""
    return folder / f"{name}{_suffix.get()}"


def diverging_colours() -> Any:
    """A colour map for signed values: orange below zero, white at zero, blue above."""
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list("orange_blue", [ORANGE, "#ffffff", BLUE])


def titled(title: str) -> str:
    """A title with the name of the run before it, if there is one."""
    return ": ".join(part for part in (_run_name.get(), title) if part)


def escape_dollars(text: str) -> str:
    """Escape dollar signs, which matplotlib would read as the start of a formula."""
    return text.replace("$", r"\$")


def save_figure(figure: "Figure", path: str | Path, *, dpi: int = 150, title: str = "") -> None:
    """Write a figure in the common style to a file (PNG, SVG or PDF by its suffix), creating its folder if needed."""
    from matplotlib import rc_context

    target = Path(path) if Path(path).suffix else Path(f"{path}.png")
    if title:
        figure.suptitle(escape_dollars(title), x=0.01, ha="left", fontsize=11, fontweight="bold", color=BLACK)
    apply_style(figure)
    if _theme.get() == "dark":
        darken(figure)
    metadata = (
        {"Date": None} if target.suffix == ".svg" else {"CreationDate": None} if target.suffix == ".pdf" else None
    )
    options: Any = {"svg.hashsalt": "seqloom", "pdf.fonttype": 42}
    with warnings.catch_warnings(record=True) as caught, rc_context(options), files.replacing(target) as file:
        warnings.simplefilter("always")
        figure.savefig(file, format=target.suffix[1:], dpi=dpi, metadata=metadata)
    _report_missing(str(warning.message) for warning in caught)


def apply_style(figure: "Figure") -> None:
    """Fonts and colours that all plots share."""
    from matplotlib.text import Text

    families = list(_families())
    for text in figure.findobj(Text):
        text.set_fontfamily(families)
    for axes in figure.axes:
        axes.tick_params(colors=SLATE)
        for label in (axes.xaxis.label, axes.yaxis.label):
            label.set_color(SLATE)
        for side in axes.spines.values():
            side.set_color(FRAME)


@cache
def _families() -> tuple[str, ...]:
    """The fonts of FAMILIES that are installed."""
    from matplotlib import font_manager

    installed = {font.name for font in font_manager.fontManager.ttflist}
    return tuple(name for name in FAMILIES if name in installed)


def _report_missing(messages: Iterator[str]) -> None:
    """Say which characters no installed font has; each is said once."""
    missing = {match[1] for message in messages if (match := re.match(r"Glyph (\d+) ", message))}
    characters = sorted({chr(int(number)) for number in missing} - _reported)
    if characters:
        _reported.update(characters)
        shown = "".join(characters[:20]) + ("…" if len(characters) > 20 else "")
        terminal.print_note(
            f"no installed font has the characters {shown}, drawn as boxes; install one, such as Noto Sans CJK"
        )


def panel_figure(panels: int, *, width: float, height: float, across: int = 0) -> "Figure":
    """A figure with panels side by side, or ``across`` of them in a row."""
    from matplotlib.figure import Figure

    across = across or panels
    down = math.ceil(panels / across)
    figure = Figure(figsize=(width * across, height * down), layout="constrained")
    for index in range(panels):
        style_axes(figure.add_subplot(down, across, index + 1))
    return figure


def style_axes(axes: Any) -> None:
    """Axes for curves and points: a light grid, and no frame above and on the right."""
    axes.grid(visible=True, color=GRID, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(colors=SLATE, labelsize=9)


def sorted_units(values: Any) -> list[int]:  # (units, T)
    """An order in which hidden units are easy to read: by the time of their largest deviation, then by their mean."""
    import numpy as np

    array = np.asarray(values, dtype=float)
    if array.shape[1] < 2:
        order: Sequence[int] = np.argsort(
            array[:, 0] if array.shape[1] else np.zeros(len(array)), kind="stable"
        ).tolist()
        return list(order)
    peaks = np.abs(array - array.mean(axis=1, keepdims=True)).argmax(axis=1)
    return np.lexsort((-array.mean(axis=1), peaks)).tolist()  # type: ignore[no-any-return]
