"""Token probabilities of a CTC model over time (Graves et al. 2006): a plot, and text for a terminal."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from seqloom.data.readers.pixels import SUFFIXES as IMAGE_SUFFIXES
from seqloom.data.text.tokenizers import Tokenizer
from seqloom.insight.attention_plot import SHADES, shade_levels
from seqloom.insight.heatmap_text import BARS, wrap_columns
from seqloom.insight.plotting import BLACK, COLOURS, FRAME, GREY, GRID, SLATE, escape_dollars, save_figure
from seqloom.insight.token_names import display_token, show_whitespace
from seqloom.layers.embedding import PADDING as BLANK
from seqloom.models.transcription.transcriber import FrameTranscriber

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BLANK_SIGN = "·"
"""Printed where the blank is the most probable symbol."""
LIKELY = 0.1
"""Tokens that reach this probability anywhere are shown, even if they are not in the transcript."""
MAX_OTHERS = 10  # tokens shown that are not in the transcript
INPUT_ROWS = 8  # lines of text that show the input
TICK = 10  # frames from one tick of the time axis to the next, in text
FRAMES_PER_ROW = 250
"""Frames that are drawn side by side; longer inputs are wrapped."""

Matrix = NDArray[np.float64]


@dataclass(frozen=True)
class FrameProbabilities:
    """Token probabilities at each output frame, which may cover several input frames."""

    transcript: list[str]  # the predicted tokens
    tokens: list[str]  # those in the transcript, and those that are likely anywhere
    probabilities: list[list[float]]  # of each of these tokens, at each frame
    blank: list[float]  # probability of the blank at each frame
    most_probable: list[str]  # token at each frame; empty: the blank
    frame_length: float  # of an output frame, in seconds or in input frames
    in_seconds: bool
    reduction: int  # input frames per output frame
    input_kind: str  # image, sound, strokes or numbers


def frame_probabilities(
    model: FrameTranscriber,
    values: Tensor,  # (1, N) samples, or (1, T, D) frames
    mask: Tensor,  # (1, N) or (1, T)
    encoding: Tokenizer,
    *,
    transcript: Sequence[str],  # the predicted tokens
    reduction: int,  # input frames per output frame
    file_name: str = "",
) -> tuple[FrameProbabilities, Matrix]:  # and (T, D), the input frames
    """The token probabilities of one recording."""
    logits, real, _ = model(values, mask)
    probabilities: Matrix = logits[0][real[0]].double().softmax(dim=-1).cpu().numpy()  # (T, V)
    spectrum: Any = model.frame_encoder.features.spectrum
    frames = values[0] if spectrum is None else spectrum(values, mask)[0][0]
    if frames.ndim == 4:  # of a video, the brightness of each row of pixels
        frames = frames.mean(dim=(2, 3))
    seconds = 1.0 if spectrum is None else spectrum.hop / spectrum.sample_rate
    vocabulary = encoding.vocabulary

    def display(index: int) -> str:
        return display_token(encoding, vocabulary.tokens[index])

    most_probable = probabilities.argmax(axis=1).tolist() if probabilities.size else []
    predicted = vocabulary.encode(list(transcript))
    shown = _shown_tokens(probabilities, predicted)
    result = FrameProbabilities(
        transcript=[display(index) for index in predicted],
        tokens=[display(index) for index in shown],
        probabilities=[probabilities[:, index].tolist() for index in shown],
        blank=probabilities[:, BLANK].tolist(),
        most_probable=["" if index == BLANK else display(index) for index in most_probable],
        frame_length=reduction * seconds,
        in_seconds=spectrum is not None,
        reduction=reduction,
        input_kind="sound" if spectrum is not None else _input_kind(frames, file_name),
    )
    return result, frames.double().cpu().numpy()


def _shown_tokens(probabilities: Matrix, predicted: Sequence[int]) -> list[int]:
    """The predicted tokens in their order, then others that are likely anywhere."""
    peaks = probabilities.max(axis=0, initial=0.0)
    own = list(dict.fromkeys(index for index in predicted if index != BLANK))
    others = [index for index in np.argsort(-peaks).tolist() if index not in (BLANK, *own)]
    return own + [index for index in others if peaks[index] >= LIKELY][:MAX_OTHERS]


def _input_kind(values: Tensor, file_name: str) -> str:  # (T, D)
    if file_name.lower().endswith(IMAGE_SUFFIXES):
        return "image"
    pen_lifts = values[:, 2] if values.shape[1] == 3 else values[:0, 0]
    return "strokes" if len(pen_lifts) and bool(((pen_lifts == 0) | (pen_lifts == 1)).all()) else "numbers"


def ctc_lines(
    frames: FrameProbabilities,
    inputs: Matrix,  # (T, D)
    *,
    width: int = 100,  # characters of a line
) -> list[str]:
    """Frame by frame: the input, the most probable token, and a bar for the probability that it is not blank."""
    cells = [show_whitespace(token) or BLANK_SIGN for token in frames.most_probable]
    cell_width = max(map(len, cells), default=1)
    cell_width += cell_width > 1  # a space between words or phones
    bars = [BARS[round(min(max(1 - value, 0.0), 1.0) * (len(BARS) - 1))] for value in frames.blank]
    shades = _input_shades(frames, inputs)
    parts = max(math.ceil(len(cells) / max(width // cell_width // TICK * TICK, TICK)), 1)
    across = max(math.ceil(len(cells) / parts / TICK), 1) * TICK  # parts of about the same length
    lines: list[str] = []
    for first in range(0, len(cells), across):
        last = min(first + across, len(cells))
        lines += [""] if lines else []
        lines += ["".join(SHADES[shade] * cell_width for shade in row[first:last]).rstrip() for row in shades]
        lines.append("".join(cell.ljust(cell_width) for cell in cells[first:last]).rstrip())
        lines.append("".join(bar * cell_width for bar in bars[first:last]).rstrip())
        lines.append(_time_axis(first, last, frames, cell_width=cell_width))
    return lines


def _time_axis(first: int, last: int, frames: FrameProbabilities, *, cell_width: int) -> str:
    """The time at which each tenth frame starts."""
    ticks = [f"╵{_format_time(frame * frames.frame_length, frames)}" for frame in range(first, last, TICK)]
    return "".join(tick.ljust(TICK * cell_width) for tick in ticks).rstrip()


def _format_time(value: float, frames: FrameProbabilities) -> str:
    return f"{value:.2f} s" if frames.in_seconds else f"{value:g}"


def _input_shades(frames: FrameProbabilities, inputs: Matrix) -> list[list[int]]:
    """The input as lines of shades, the highest feature first; strokes and single numbers have no lines."""
    length = len(frames.most_probable)
    if frames.input_kind == "strokes" or inputs.shape[1] < 2 or not length:
        return []
    features = _scaled(inputs, per_feature=frames.input_kind == "numbers").T  # (D, T)
    if frames.input_kind == "image" and features.mean() > 0.5:
        features = 1 - features  # dark ink on a bright page
    rows = math.ceil(len(features) / INPUT_ROWS)
    pooled = np.stack([features[row : row + rows].mean(axis=0) for row in range(0, len(features), rows)])
    edges = range(0, pooled.shape[1], frames.reduction)
    columns = [pooled[:, edge : edge + frames.reduction].mean(axis=1) for edge in edges]
    shades = shade_levels(np.stack(columns, axis=1)[:, :length])
    return shades if frames.input_kind == "image" else shades[::-1]


def _scaled(
    inputs: Matrix,  # (T, D)
    *,
    per_feature: bool,  # scale each feature by itself
) -> Matrix:
    """Numbers from 0 to 1; outliers are clipped."""
    if not inputs.size:
        return inputs
    low, high = np.quantile(inputs, (0.01, 0.99), axis=0 if per_feature else None)
    result: Matrix = np.clip((inputs - low) / np.maximum(high - low, 1e-9), 0, 1)
    return result


def timing_lines(prediction: Any, frames: FrameProbabilities, *, width: int = 100) -> Iterator[str]:
    """Start and end of each token, and of each word if words are something else."""
    timings = [("Token", frames.transcript, prediction.times)]
    if _has_words(prediction):
        timings = [("Word", prediction.words, prediction.word_times), *timings]
    for kind, names, times in timings:
        columns = [
            (show_whitespace(name), _format_time(start, frames), _format_time(end, frames))
            for name, (start, end) in zip(names, times, strict=True)
        ]
        if columns:
            yield from ("", f"{kind} timings, start and end{'' if frames.in_seconds else ' in frames'}:")
            yield from wrap_columns(columns, gap=1, width=width)


def _has_words(prediction: Any) -> bool:
    """Whether words are worth showing beside the tokens."""
    return len(prediction.words) > 1 and prediction.words != prediction.tokens


def draw_ctc(
    frames: FrameProbabilities,
    inputs: Matrix,  # (T, D)
    prediction: Any,  # with symbols, times, words and word_times
    path: str | Path,
    *,
    title: str = "",
) -> None:
    """Draw the input above, and below it the probability of each token and, dashed, of the blank over time."""
    from matplotlib.figure import Figure

    length = len(frames.most_probable)
    if not length:
        raise ValueError("there is nothing to draw: the input has no frames")
    parts = math.ceil(length / FRAMES_PER_ROW)
    across = math.ceil(length / parts)
    width = min(max(0.12 * across + 1.4, 7.0), 17.0)
    is_image = frames.input_kind == "image"
    input_height = (width - 1.2) * inputs.shape[1] / (across * frames.reduction) if is_image else 1.5
    heights = [min(max(input_height, 0.5), 2.4), 2.3]
    title_height = 0.35 if title else 0.0
    above = [_pen_panel_height(inputs, width)] if frames.input_kind == "strokes" and inputs.shape[1] > 2 else []
    size = (width, parts * (sum(heights) + 0.55) + sum(above) + title_height)
    figure = Figure(figsize=size, layout="constrained")
    ratios = above + heights * parts
    first_panel, *_ = panels = figure.subplots(len(ratios), 1, squeeze=False, height_ratios=ratios)[:, 0].tolist()
    if above:
        _draw_pen(panels.pop(0), frames, inputs, prediction)
    for part in range(parts):
        first, last = part * across, min((part + 1) * across, length)
        upper, lower = panels[2 * part : 2 * part + 2]
        _draw_input(upper, frames, inputs, range(first, last))
        _draw_probabilities(lower, frames, first, last)
        _draw_transcript((upper, lower), frames, prediction, first, last)
        for axes in (upper, lower):
            axes.set_xlim(first * frames.frame_length, (first + across) * frames.frame_length)
            axes.tick_params(colors=SLATE, labelsize=8)
            for side in axes.spines.values():
                side.set_color(FRAME)
        upper.set_xticks([])
    panels[-1].set_xlabel("time (s)" if frames.in_seconds else "input frame", color=SLATE, fontsize=9)
    panels[1].legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False, fontsize=8, labelcolor=BLACK)
    if title:
        first_panel.set_title(escape_dollars(title), loc="left", fontsize=10, fontweight="bold", color=BLACK)
    save_figure(figure, path)


def _draw_input(axes: "Axes", frames: FrameProbabilities, inputs: Matrix, part: range) -> None:
    """Some frames of the input: an image, a spectrogram, the height of a pen, or numbers."""
    step = frames.frame_length / frames.reduction
    chosen = slice(part.start * frames.reduction, part.stop * frames.reduction)
    values = inputs[chosen]
    start = part.start * frames.frame_length
    end = start + len(values) * step
    axes.set_yticks([])
    names = {"image": "image", "sound": "frequency", "strokes": "pen height", "numbers": "feature"}
    axes.set_ylabel(names.get(frames.input_kind, "input"), color=SLATE, fontsize=9)
    if frames.input_kind == "strokes" or values.shape[1] == 1:
        times = start + (np.arange(len(values)) + 0.5) * step
        heights = inputs[:, 0] if values.shape[1] == 1 else _pen_height(inputs)
        axes.plot(times, heights[chosen], color=BLACK, linewidth=1.2)
        return
    is_image = frames.input_kind == "image"
    axes.imshow(
        _scaled(inputs, per_feature=frames.input_kind == "numbers")[chosen].T,
        aspect="auto",
        origin="upper" if is_image else "lower",
        cmap="gray" if is_image else "magma",
        extent=(start, end, 0, 1),
        vmin=0,
        vmax=1,
        interpolation="nearest",
    )


def _pen_height(strokes: Matrix) -> Matrix:  # (T, 3) → (T,)
    """The height of the pen; NaN where it is lifted."""
    heights: Matrix = np.cumsum(strokes[:, 1])
    heights[strokes[:, 2] == 1] = np.nan
    return heights


def _pen_panel_height(strokes: Matrix, width: float) -> float:
    """Inches for the path of the pen, so that it keeps its proportions if it is neither very flat nor very high."""
    x, y = np.cumsum(strokes[:, 0]), np.cumsum(strokes[:, 1])
    return float(np.clip((width - 1.2) * np.ptp(y) / max(float(np.ptp(x)), 1e-9), 0.7, 2.4))


def _draw_pen(axes: "Axes", frames: FrameProbabilities, strokes: Matrix, prediction: Any) -> None:
    """The path of the pen on the page, each part in the colour of the token that was read there."""
    x, y = np.cumsum(strokes[:, 0]), _pen_height(strokes)
    times = (np.arange(len(strokes)) + 0.5) * frames.frame_length / frames.reduction
    middles = [(start + end) / 2 for start, end in prediction.times]
    owners = np.searchsorted([(left + right) / 2 for left, right in pairwise(middles)], times)
    colours = dict(zip(frames.tokens, COLOURS * math.ceil(len(frames.tokens) / len(COLOURS)), strict=False))
    for number, token in enumerate(frames.transcript or [""]):
        rows = np.flatnonzero(owners == number)
        part = slice(rows[0], rows[-1] + 2) if len(rows) else slice(0, 0)
        axes.plot(x[part], y[part], color=colours.get(token, BLACK), linewidth=1.6, solid_capstyle="round")
    axes.set_aspect("equal", adjustable="datalim")
    axes.set_xticks([])
    axes.set_yticks([])
    axes.set_ylabel("pen", color=SLATE, fontsize=9)


def _draw_probabilities(axes: "Axes", frames: FrameProbabilities, first: int, last: int) -> None:
    times = (np.arange(first, last) + 0.5) * frames.frame_length
    axes.plot(times, frames.blank[first:last], color=GREY, linewidth=1.1, linestyle=(0, (4, 2)), label="blank")
    for number, (token, values) in enumerate(zip(frames.tokens, frames.probabilities, strict=True)):
        colour = COLOURS[number % len(COLOURS)]
        curve = values[first:last]
        predicted = token in frames.transcript
        label = None if predicted else escape_dollars(show_whitespace(token))  # predicted tokens stand above the peaks
        axes.plot(times, curve, color=colour, linewidth=1.6 if predicted else 0.9, label=label)
        axes.fill_between(times, curve, color=colour, alpha=0.15, linewidth=0)
    axes.set_yticks([0, 0.5, 1])
    axes.set_ylabel("probability", color=SLATE, fontsize=9)
    axes.grid(visible=True, axis="y", color=GRID, linewidth=0.8)
    axes.set_axisbelow(True)


def _draw_transcript(
    panels: tuple["Axes", "Axes"], frames: FrameProbabilities, prediction: Any, first: int, last: int
) -> None:
    """The predicted tokens above their peaks, the words above them, and the extent of each token in the input."""
    upper, lower = panels
    start, end = first * frames.frame_length, last * frames.frame_length
    colours = dict(zip(frames.tokens, COLOURS * math.ceil(len(frames.tokens) / len(COLOURS)), strict=False))
    size = 9 if all(len(token) == 1 for token in frames.transcript) else 7
    for token, (token_start, token_end) in zip(frames.transcript, prediction.times, strict=True):
        middle = (token_start + token_end) / 2
        if start <= middle < end:
            colour, name = colours.get(token, BLACK), escape_dollars(show_whitespace(token))
            lower.text(middle, 1.05, name, ha="center", va="bottom", fontsize=size, color=colour)
            upper.axvspan(token_start, token_end, color=colour, alpha=0.22, linewidth=0)
    has_words = _has_words(prediction)
    lower.set_ylim(-0.03, 1.45 if has_words else 1.25)
    for word, (word_start, word_end) in zip(prediction.words, prediction.word_times, strict=True) if has_words else ():
        if start <= word_start < end:
            right = min(word_end, end)
            lower.plot([word_start, right], [1.22, 1.22], color=SLATE, linewidth=1.2, solid_capstyle="butt")
            lower.text((word_start + right) / 2, 1.25, escape_dollars(word), ha="center", fontsize=8, color=BLACK)
