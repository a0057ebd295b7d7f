"""Which inputs mattered: printed as bars around the words, in HTML and as plots."""

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from textwrap import fill
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from seqloom import html
from seqloom.formats import format_number, format_percent, format_signed, shorten
from seqloom.insight.attribution import Attribution
from seqloom.insight.heatmap_text import draw_heatmap_text, signed_heatmap_lines
from seqloom.insight.picture_attribution import draw_picture_attribution, picture_html, picture_lines
from seqloom.insight.plotting import BLACK, SLATE, diverging_colours, escape_dollars, save_figure
from seqloom.insight.token_names import show_whitespace

METHOD_NAMES = {
    "integrated_gradients": "integrated gradients",
    "input_x_gradient": "input × gradient",
    "occlusion": "occlusion",
}
SHOWN_CHANNELS = 12  # in the terminal and in HTML
MAX_COLUMNS = 120  # time steps of a heat map in HTML; more are summed
NAME_LENGTH = 14  # characters of the name of a channel
MAX_DATES = 7  # time stamps below a plot
CHARACTERS_PER_INCH = 14  # of the label beside the colour scale
MAX_SIGNALS = 24  # channels whose values are drawn above their colours


def attribution_lines(attribution: Attribution, *, width: int = 100) -> Iterator[str]:
    """The words with bars above those that raise the score, and below those that lower it."""
    yield f"{_question(attribution)} ({_method(attribution)}):"
    if attribution.pictures is not None:
        yield from picture_lines(attribution, width=width)
    elif attribution.channel_values:
        yield from _channel_lines(attribution, width=width)
    else:
        words = [show_whitespace(word) for word in attribution.words]
        yield from signed_heatmap_lines(words, attribution.word_values, width=width)
    yield ""
    yield from _remarks(attribution)


def attribution_html(attribution: Attribution) -> Iterator[str]:
    """The words on coloured backgrounds, or the channels as a heat map."""
    yield html.heading(_question(attribution), f"({_method(attribution)})")
    more, less = ("raises", "lowers") if attribution.is_number else ("for", "against")
    negative, positive = f"{less} {attribution.target}", f"{more} {attribution.target}"
    if attribution.pictures is not None:
        yield picture_html(attribution)
        yield html.colour_scale(_bound(attribution.values), negative=negative, positive=positive, strongest=1.0)
    elif attribution.channel_values:
        values, shown = _channels(attribution)
        binned = _binned(values[shown], MAX_COLUMNS)
        yield _channel_html(attribution, binned, shown)
        if len(values) > len(shown):
            yield html.remark(f"… {len(values) - len(shown)} more channels")
        yield html.colour_scale(_bound(binned), negative=negative, positive=positive, strongest=1.0)
    else:
        words = [show_whitespace(word) for word in attribution.words]
        marked = attribution.position - 1 if len(words) == len(attribution.tokens) else -1
        yield html.coloured_words(words, attribution.word_values, marked=marked)
        yield html.colour_scale(_bound(attribution.word_values), negative=negative, positive=positive)
    for remark in _remarks(attribution):
        yield html.remark(remark)


def draw_attribution(attribution: Attribution, path: str | Path, *, title: str = "") -> None:
    """Draw the tokens on coloured backgrounds, or the channels over time as a heat map."""
    label = f"contribution to {'' if attribution.is_number else 'the log-odds of '}{attribution.target}"
    about = f" of {attribution.word}" if attribution.word else ""
    subject = f"{attribution.target}{about}" if about else ""
    heading = ", ".join(part for part in (": ".join(filter(None, (title, subject))), _method(attribution)) if part)
    if attribution.pictures is not None:
        draw_picture_attribution(attribution, path, title=heading, label=label)
    elif attribution.channel_values:
        _draw_channels(attribution, path, title=heading, label=label + about)
    else:
        draw_heatmap_text(attribution.tokens, attribution.values, path, title=heading, label=label + about, signed=True)


def _question(attribution: Attribution) -> str:
    units = "words" if any(len(word) > 1 for word in attribution.words) else "characters"
    inputs = "channels and time steps" if attribution.channel_values else units
    if attribution.pictures is not None:
        inputs = "frames" if attribution.grid is None else "cells of the image"
    elif attribution.step_seconds:
        inputs = "features of the sound and times"
    if not attribution.word:
        return f"Which {inputs} mattered for {attribution.target}"
    element = "time step" if attribution.channel_values else f"{attribution.word!r}, word"
    target = attribution.target if attribution.is_number else f"the label {attribution.target}"
    return f"Which {inputs} mattered for {target} of {element} {attribution.position}"


def _method(attribution: Attribution) -> str:
    name = METHOD_NAMES[attribution.method]
    if attribution.steps:
        return f"{name}, {attribution.steps} steps"
    return f"{name} in windows of {attribution.window} steps" if attribution.window > 1 else name


def _remarks(attribution: Attribution) -> Iterator[str]:
    """The scores between which the values lie, and how far the values are from adding up to their difference."""
    score, baseline = attribution.score, attribution.baseline_score
    if attribution.is_number:
        value, zero = (format_number(number) for number in (score, baseline))
        yield f"{attribution.target}: {value}; {zero} if all inputs are zero vectors."
    else:
        yield _log_odds(attribution)
    if not attribution.is_complete:
        yield (
            f"Completeness gap: the values add up to {format_signed(math.fsum(attribution.values))}, the scores differ "
            f"by {format_signed(score - baseline)} ({attribution.relative_gap:.1%} of all contributions, after "
            f"{attribution.steps} steps)."
        )


def _log_odds(attribution: Attribution) -> str:
    score, baseline = attribution.score, attribution.baseline_score
    return (
        f"Log-odds of {attribution.target}: {format_signed(score)} (probability {_probability(score)}); "
        f"{format_signed(baseline)} ({_probability(baseline)}) if all inputs are zero vectors."
    )


def _probability(log_odds: float) -> str:
    return format_percent(1 / (1 + math.exp(-max(min(log_odds, 700.0), -700.0))), 1)


def _channels(attribution: Attribution) -> tuple[NDArray[np.float64], list[int]]:
    """The values (channels, T), and the channels with the largest contributions in their own order."""
    values = np.array(attribution.channel_values).T
    return values, sorted(np.argsort(-np.abs(values).sum(axis=1), kind="stable")[:SHOWN_CHANNELS].tolist())


def _name(attribution: Attribution, channel: int) -> str:
    """The name of a channel, or else its number from 1."""
    return shorten(attribution.channels[channel], NAME_LENGTH) if attribution.channels else str(channel + 1)


def _channel_lines(attribution: Attribution, *, width: int) -> Iterator[str]:
    values, shown = _channels(attribution)
    rows = [("channel", "contribution", "strongest at")]
    for channel in shown:
        step = int(np.abs(values[channel]).argmax())
        total = format_signed(values[channel][:: attribution.window or 1].sum())
        rows.append(
            (_name(attribution, channel), total, f"{_time(attribution, step)}: {format_signed(values[channel][step])}")
        )
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for cells in rows:
        yield "  ".join(f"{cell:{cell_width}}" for cell, cell_width in zip(cells, widths, strict=True)).rstrip()
    if len(values) > len(shown):
        yield f"… {len(values) - len(shown)} more channels"
    (steps,) = _binned(np.array([attribution.values]), min(width, MAX_COLUMNS))
    end = values.shape[1]
    whole = f"steps 1 to {end}"
    if attribution.step_seconds:
        start = attribution.start_seconds
        whole = f"{f'{start:.2f}' if start else '0'} to {start + end * attribution.step_seconds:.2f} s"
    if attribution.times:
        whole = f"{attribution.times[0]} to {attribution.times[-1]}"
    yield from ("", f"All channels over time, {whole}:")
    yield from signed_heatmap_lines(["─"] * len(steps), steps.tolist(), width=width, numbers=False)


def _time(attribution: Attribution, step: int) -> str:
    """A time step counted from 0, its time stamp, or its start in seconds."""
    if attribution.times:
        return attribution.times[step]
    if not attribution.step_seconds:
        return f"step {step + 1}"
    return f"{attribution.start_seconds + step * attribution.step_seconds:.2f} s"


def _binned(values: NDArray[np.float64], columns: int) -> NDArray[np.float64]:  # (rows, T) → (rows, ≤ columns)
    """Sums over equal parts of the time."""
    size = math.ceil(values.shape[1] / columns)
    binned: NDArray[np.float64] = np.add.reduceat(values, range(0, values.shape[1], size), axis=1)
    return binned


def _bound(values: ArrayLike) -> float:
    """The largest absolute value, which has the strongest colour."""
    return float(np.abs(values).max(initial=0.0)) or 1.0


def _channel_html(attribution: Attribution, binned: NDArray[np.float64], shown: Sequence[int]) -> str:
    """The heat map of some channels, with their signals as curves."""
    names = [_name(attribution, channel) if attribution.channels else f"channel {channel + 1}" for channel in shown]
    size = math.ceil(len(attribution.values) / MAX_COLUMNS)
    signal = None if attribution.signal is None else np.nan_to_num(np.asarray(attribution.signal, dtype=float))
    curves = [] if signal is None else signal[:, list(shown)].T.tolist()
    label = "time step" if size == 1 else f"time step, in parts of {size}"
    if attribution.times:
        label += f" ({attribution.times[0]} to {attribution.times[-1]})"
    return html.signed_heatmap(
        names, binned.tolist(), label=label, size=size, curves=curves, marked=attribution.position
    )


def _draw_channels(attribution: Attribution, path: str | Path, *, title: str, label: str) -> None:
    from matplotlib.colors import Normalize
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    values = np.array(attribution.channel_values).T  # (channels, T)
    channels, length = values.shape
    bound = _bound(values)
    spectrum = attribution.signal if attribution.step_seconds else None
    start = attribution.start_seconds
    ends = (start, start + length * attribution.step_seconds) if attribution.step_seconds else (0.5, length + 0.5)
    height = 2.6 if spectrum is not None else min(max(0.45 * channels, 1.2), 9.0)
    figure = Figure(figsize=(9.0, height * (1 if spectrum is None else 2) + 1.4), layout="constrained")
    if spectrum is not None:
        above, axes = figure.subplots(2, 1)
        _draw_spectrum(above, np.asarray(spectrum).T, ends)
    else:
        axes = figure.add_subplot()
    colours = axes.imshow(
        values,
        aspect="auto",
        cmap=diverging_colours(),
        norm=Normalize(-bound, bound),
        interpolation="nearest",
        extent=(*ends, channels + 0.5, 0.5) if spectrum is None else (*ends, 0.5, channels + 0.5),
        origin="upper" if spectrum is None else "lower",
    )
    if spectrum is None and attribution.signal is not None and channels <= MAX_SIGNALS:
        for channel, line in enumerate(np.asarray(attribution.signal, dtype=float).T, start=1):
            spread = float(np.ptp(line)) or 1.0
            heights = channel + 0.4 - 0.8 * (line - line.min()) / spread
            axes.plot(np.arange(1, length + 1), heights, color=BLACK, linewidth=0.9)
    if attribution.position:
        axes.axvline(attribution.position, color=SLATE, linewidth=0.8, linestyle=(0, (3, 2)))
    if attribution.channels and channels <= MAX_SIGNALS:
        axes.set_yticks(
            range(1, channels + 1), [escape_dollars(_name(attribution, channel)) for channel in range(channels)]
        )
    else:
        axes.yaxis.set_major_locator(MaxNLocator(nbins=20, integer=True))
    axes.xaxis.set_major_locator(MaxNLocator(MAX_DATES if attribution.times else "auto", integer=spectrum is None))
    if times := attribution.times:
        axes.xaxis.set_major_formatter(lambda step, _: times[int(step) - 1] if 1 <= step <= length else "")
        axes.set_xlabel("time", fontsize=9)
    else:
        axes.set_xlabel("time step" if spectrum is None else "time (s)", fontsize=9)
    axes.set_ylabel("channel" if spectrum is None else "feature", fontsize=9)
    axes.tick_params(labelsize=8)
    for border in range(1, channels if spectrum is None else 1):
        axes.axhline(border + 0.5, color="white", linewidth=0.8)
    bar: Any = figure.colorbar(colours, ax=axes, pad=0.01, fraction=0.03)
    bar.set_label(escape_dollars(fill(label, round(height * CHARACTERS_PER_INCH))), fontsize=8, color=SLATE)
    bar.ax.tick_params(labelsize=7.5, colors=SLATE)
    save_figure(figure, path, title=title)


def _draw_spectrum(axes: Any, features: NDArray[Any], ends: tuple[float, float]) -> None:  # (features, T)
    """The sound as the model reads it, from one time to another."""
    extent = (*ends, 0.5, len(features) + 0.5)
    axes.imshow(features, aspect="auto", origin="lower", cmap="Greys", interpolation="nearest", extent=extent)
    axes.set_ylabel("feature", fontsize=9)
    axes.tick_params(labelsize=8)
