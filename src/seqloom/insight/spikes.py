"""What a transcriber hears at each frame, spikes between blanks (Graves et al. 2006): text, and a picture."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from seqloom.data.readers.pixels import SUFFIXES as IMAGES
from seqloom.data.text.tokenizers import Tokenizer
from seqloom.insight.alignment import SHADES, literal, visible
from seqloom.insight.curves import BLACK, GREY, SLATE
from seqloom.insight.shaded import BARS, laid_out
from seqloom.insight.symbols import readable
from seqloom.layers.embedding import PADDING as BLANK
from seqloom.models.transcription.transcriber import Transcriber

if TYPE_CHECKING:
    from matplotlib.axes import Axes

NOTHING = "·"
"""Stands in text where a blank is the most probable."""
LIKELY = 0.1
"""A symbol that is as probable as this somewhere is shown, said or not."""
MOST = 10  # symbols that are shown though they are not said
ROWS = 8  # lines of text that show what was heard
EVERY = 10  # frames from one number of the ruler to the next
LONGEST = 250
"""Frames that are drawn side by side; more become several rows."""
COLOURS = ("#1f6fb4", "#d1495b", "#2e8b57", "#8e5aa8", "#e08a1e", "#178f9d", "#b5527f", "#6b7d1e", "#8a5a3c", "#3d4fa1")

Matrix = NDArray[np.float64]


@dataclass(frozen=True)
class Spikes:
    """How probable symbols are at each frame; a frame may stand for several of those that were given."""

    said: list[str]  # the symbols of the answer
    names: list[str]  # of the symbols that are said, or probable somewhere
    probabilities: list[list[float]]  # of each of them: one number for each frame
    blank: list[float]  # of each frame
    best: list[str]  # the most probable symbol of each frame; empty: the blank
    unit: float  # how long a frame is
    seconds: bool  # in seconds; otherwise in frames as they were given
    joined: int  # so many frames as they were given, or of the spectrum, became one
    kind: str  # of what was heard: image, sound, strokes or numbers


def listen(
    module: Transcriber,
    values: Tensor,  # (1, N) samples, or (1, T, D) frames
    mask: Tensor,  # (1, N) or (1, T)
    encoding: Tokenizer,
    *,
    said: Sequence[str],  # the symbols of the answer
    joined: int,  # frames that become one
    name: str = "",  # of the file
) -> tuple[Spikes, Matrix]:  # and (T, D), the frames before any of them are joined
    """What a model heard in one recording."""
    logits, real, _ = module(values, mask)
    found: Matrix = logits[0][real[0]].double().softmax(dim=-1).cpu().numpy()  # (T, V)
    spectrum: Any = module.spectrum
    seen = values[0] if spectrum is None else spectrum(values, mask)[0][0]
    step = 1.0 if spectrum is None else spectrum.step / spectrum.rate
    symbols = encoding.vocabulary.symbols
    best = found.argmax(axis=1).tolist() if found.size else []
    own = encoding.vocabulary.encode(list(said))
    chosen = _chosen(found, own)
    spikes = Spikes(
        said=[readable(encoding, symbols[number], number) for number in own],
        names=[readable(encoding, symbols[number], number) for number in chosen],
        probabilities=[found[:, number].tolist() for number in chosen],
        blank=found[:, BLANK].tolist(),
        best=["" if number == BLANK else readable(encoding, symbols[number], number) for number in best],
        unit=joined * step,
        seconds=spectrum is not None,
        joined=joined,
        kind="sound" if spectrum is not None else _kind(seen, name),
    )
    return spikes, seen.double().cpu().numpy()


def _chosen(found: Matrix, said: Sequence[int]) -> list[int]:
    """The symbols that are said, in their order, then others that are probable somewhere."""
    peaks = found.max(axis=0, initial=0.0)
    own = list(dict.fromkeys(number for number in said if number != BLANK))
    others = [number for number in np.argsort(-peaks).tolist() if number not in (BLANK, *own)]
    return own + [number for number in others if peaks[number] >= LIKELY][:MOST]


def _kind(values: Tensor, name: str) -> str:  # (T, D)
    if name.lower().endswith(IMAGES):
        return "image"
    pens = values[:, 2] if values.shape[1] == 3 else values[:0, 0]
    return "strokes" if len(pens) and bool(((pens == 0) | (pens == 1)).all()) else "numbers"


def spike_lines(
    found: Spikes,
    seen: Matrix,  # (T, D), what was heard
    *,
    width: int = 100,  # letters of a line
) -> list[str]:
    """Frame by frame: what was heard, the most probable symbol, and a bar as high as all symbols are probable."""
    cells = [visible(symbol) or NOTHING for symbol in found.best]
    wide = max(map(len, cells), default=1)
    wide += wide > 1  # words and phones stand apart
    bars = [BARS[round(min(max(1 - value, 0.0), 1.0) * (len(BARS) - 1))] for value in found.blank]
    heard = _shades(found, seen)
    parts = max(math.ceil(len(cells) / max(width // wide // EVERY * EVERY, EVERY)), 1)
    across = max(math.ceil(len(cells) / parts / EVERY), 1) * EVERY  # no part is much shorter than the others
    lines: list[str] = []
    for first in range(0, len(cells), across):
        last = min(first + across, len(cells))
        lines += [""] if lines else []
        lines += ["".join(SHADES[shade] * wide for shade in row[first:last]).rstrip() for row in heard]
        lines.append("".join(cell.ljust(wide) for cell in cells[first:last]).rstrip())
        lines.append("".join(bar * wide for bar in bars[first:last]).rstrip())
        lines.append(_ruler(first, last, found, wide=wide))
    return lines


def _ruler(first: int, last: int, found: Spikes, *, wide: int) -> str:
    """The time where each tenth frame begins."""
    marks = [f"╵{_time(frame * found.unit, found)}" for frame in range(first, last, EVERY)]
    return "".join(mark.ljust(EVERY * wide) for mark in marks).rstrip()


def _time(value: float, found: Spikes) -> str:
    return f"{value:.2f} s" if found.seconds else f"{value:g}"


def _shades(found: Spikes, seen: Matrix) -> list[list[int]]:
    """What was heard, as lines of shades, the highest first; strokes and single numbers have no lines."""
    length = len(found.best)
    if found.kind == "strokes" or seen.shape[1] < 2 or not length:
        return []
    bands = _scaled(seen, each=found.kind == "numbers").T  # (D, T)
    if found.kind == "image" and bands.mean() > 0.5:
        bands = 1 - bands  # ink is what there is less of
    several = math.ceil(len(bands) / ROWS)
    pooled = np.stack([bands[row : row + several].mean(axis=0) for row in range(0, len(bands), several)])
    edges = range(0, pooled.shape[1], found.joined)
    joined = np.stack([pooled[:, edge : edge + found.joined].mean(axis=1) for edge in edges], axis=1)[:, :length]
    shades: list[list[int]] = np.ceil(joined * (len(SHADES) - 1) - 0.5).astype(int).tolist()
    return shades if found.kind == "image" else shades[::-1]


def _scaled(
    seen: Matrix,  # (T, D)
    *,
    each: bool,  # by itself: its numbers have nothing in common
) -> Matrix:
    """Numbers from 0 to 1: what is usual, without a few that are far away."""
    if not seen.size:
        return seen
    low, high = np.quantile(seen, (0.01, 0.99), axis=0 if each else None)
    result: Matrix = np.clip((seen - low) / np.maximum(high - low, 1e-9), 0, 1)
    return result


def transcript_lines(answer: Any, found: Spikes, *, width: int = 100) -> Iterator[str]:
    """When each symbol was said, and each word, if words are something else."""
    spoken = [(found.said, answer.times)]
    if _wordy(answer):
        spoken = [(answer.words, answer.word_times), *spoken]
    for names, times in spoken:
        columns = [
            (visible(name), _time(start, found), _time(end, found))
            for name, (start, end) in zip(names, times, strict=True)
        ]
        if columns:
            kind = "word" if names is answer.words else "symbol"
            yield from ("", f"When each {kind} begins and ends{'' if found.seconds else ', in frames'}:")
            yield from laid_out(columns, gap=1, width=width)


def _wordy(answer: Any) -> bool:
    """Whether words are something to show beside the symbols."""
    return len(answer.words) > 1 and answer.words != answer.symbols


def draw_spikes(
    found: Spikes,
    seen: Matrix,  # (T, D), what was heard
    answer: Any,  # its symbols and words, and when they were said
    path: str | Path,
    *,
    title: str = "",
) -> None:
    """Above what was heard, below the probabilities of the symbols over time, and of the blank as a dashed line."""
    from matplotlib.figure import Figure

    length = len(found.best)
    if not length:
        raise ValueError("there is nothing to draw: nothing was heard")
    parts = math.ceil(length / LONGEST)
    across = math.ceil(length / parts)
    width = min(max(0.12 * across + 1.4, 7.0), 17.0)
    high = 1.5 if found.kind != "image" else (width - 1.2) * seen.shape[1] / (across * found.joined)
    heights = [min(max(high, 0.5), 2.4), 2.3]
    extra = 0.35 if title else 0.0
    figure = Figure(figsize=(width, parts * (sum(heights) + 0.55) + extra), layout="constrained")
    panels = figure.subplots(2 * parts, 1, squeeze=False, height_ratios=heights * parts)[:, 0]
    for part in range(parts):
        first, last = part * across, min((part + 1) * across, length)
        upper, lower = panels[2 * part : 2 * part + 2]
        _draw_seen(upper, found, seen, range(first, last))
        _draw_probabilities(lower, found, first, last)
        _draw_said((upper, lower), found, answer, first, last)
        for axes in (upper, lower):
            axes.set_xlim(first * found.unit, (first + across) * found.unit)
            axes.tick_params(colors=SLATE, labelsize=8)
            for side in axes.spines.values():
                side.set_color("#b8c0ca")
        upper.set_xticks([])
    panels[-1].set_xlabel("seconds" if found.seconds else "frames", color=SLATE, fontsize=9)
    panels[1].legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False, fontsize=8, labelcolor=BLACK)
    if title:
        panels[0].set_title(literal(title), loc="left", fontsize=10, fontweight="bold", color=BLACK)
    chosen = Path(path)
    chosen.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(chosen, dpi=150)


def _draw_seen(axes: "Axes", found: Spikes, seen: Matrix, frames: range) -> None:
    """What was heard in some frames: an image, a spectrum, the height of a pen, or numbers."""
    step = found.unit / found.joined
    chosen = slice(frames.start * found.joined, frames.stop * found.joined)
    part = seen[chosen]
    start = frames.start * found.unit
    end = start + len(part) * step
    axes.set_yticks([])
    if found.kind == "strokes" or part.shape[1] == 1:
        times = start + (np.arange(len(part)) + 0.5) * step
        heights = seen[:, 0] if part.shape[1] == 1 else _pen(seen)
        axes.plot(times, heights[chosen], color=BLACK, linewidth=1.2)
        return
    axes.imshow(
        _scaled(seen, each=found.kind == "numbers")[chosen].T,
        aspect="auto",
        origin="upper" if found.kind == "image" else "lower",
        cmap="gray" if found.kind == "image" else "magma",
        extent=(start, end, 0, 1),
        vmin=0,
        vmax=1,
        interpolation="nearest",
    )


def _pen(strokes: Matrix) -> Matrix:  # (T, 3) → (T,)
    """How high the pen is; where it was lifted there is nothing."""
    heights: Matrix = np.cumsum(strokes[:, 1])
    heights[strokes[:, 2] == 1] = np.nan
    return heights


def _draw_probabilities(axes: "Axes", found: Spikes, first: int, last: int) -> None:
    times = (np.arange(first, last) + 0.5) * found.unit
    axes.plot(times, found.blank[first:last], color=GREY, linewidth=1.1, linestyle=(0, (4, 2)), label="blank")
    for number, (name, values) in enumerate(zip(found.names, found.probabilities, strict=True)):
        colour = COLOURS[number % len(COLOURS)]
        drawn = values[first:last]
        label = None if name in found.said else literal(visible(name))  # what is said stands above its spikes
        axes.plot(times, drawn, color=colour, linewidth=1.6 if name in found.said else 0.9, label=label)
        axes.fill_between(times, drawn, color=colour, alpha=0.15, linewidth=0)
    axes.set_yticks([0, 0.5, 1])
    axes.set_ylabel("probability", color=SLATE, fontsize=9)
    axes.grid(visible=True, axis="y", color="#e6e9ed", linewidth=0.8)
    axes.set_axisbelow(True)


def _draw_said(panels: tuple["Axes", "Axes"], found: Spikes, answer: Any, first: int, last: int) -> None:
    """The symbols above their spikes, the words above them, and where symbols stand in what was heard."""
    upper, lower = panels
    start, end = first * found.unit, last * found.unit
    colours = dict(zip(found.names, COLOURS * math.ceil(len(found.names) / len(COLOURS)), strict=False))
    size = 9 if all(len(symbol) == 1 for symbol in found.said) else 7
    for symbol, (begun, done) in zip(found.said, answer.times, strict=True):
        middle = (begun + done) / 2
        if start <= middle < end:
            colour = colours.get(symbol, BLACK)
            lower.text(middle, 1.05, literal(visible(symbol)), ha="center", va="bottom", fontsize=size, color=colour)
            upper.axvspan(begun, done, color=colour, alpha=0.22, linewidth=0)
    wordy = _wordy(answer)
    lower.set_ylim(-0.03, 1.45 if wordy else 1.25)
    for word, (begun, done) in zip(answer.words, answer.word_times, strict=True) if wordy else ():
        if start <= begun < end:
            lower.plot([begun, min(done, end)], [1.22, 1.22], color=SLATE, linewidth=1.2, solid_capstyle="butt")
            lower.text((begun + min(done, end)) / 2, 1.25, literal(word), ha="center", fontsize=8, color=BLACK)
