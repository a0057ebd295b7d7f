"""Dense parts of an explanation in a notebook: gates and states, heads, regions of an image, frames, the search."""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from seqloom import html
from seqloom.formats import format_number
from seqloom.insight.beam_tree import TREE_NOTE, BeamNode, beam_lines
from seqloom.insight.ctc_plot import BLANK_SIGN, FrameProbabilities
from seqloom.insight.explanation import AttentionMap, Explanation
from seqloom.insight.frame_strip import png_address
from seqloom.insight.gates import LabelledTrace, unit_panels
from seqloom.insight.token_names import show_whitespace

WIDTH, HEIGHT = 200, 80  # pixels of a picture
MAX_NAMES = 40  # of time steps below a picture
MAX_STEPS = 2_000  # time steps of a picture
MAX_HEADS = 24
MAX_TOKENS = 10  # rows of frames
MAX_FRAMES = 400
REGION = 96  # pixels of an image with its attention
COLOURS = np.array([[214, 113, 20], [31, 111, 180]], np.uint8)  # below and above 0, as in seqloom.html


def gates_html(traces: Sequence[LabelledTrace]) -> Iterator[str]:
    """A block for each recurrent layer: its gates and states, units from top to bottom in one order, time to the right.

    Units that act at the same time are next to each other. Of an image, each unit has its rows.
    """
    for trace, labels in traces:
        panels = unit_panels(trace, 0, min(trace.length, MAX_STEPS))
        pictures = []
        for name, values in panels.items():
            effect = f"open: {trace.effects[name]}" if name in trace.effects else ""
            pictures.append(_picture(values, name, effect, [show_whitespace(label) for label in labels]))
        more = f", the first {MAX_STEPS:,} of {trace.length:,} steps" if trace.length > MAX_STEPS else ""
        lines, steps = panels[f"{next(iter(trace.states))} (state)"].shape
        size = f"{lines} units × {steps} steps"
        if trace.rows:
            size = f"{lines // trace.rows} units × {trace.rows} rows × {steps} columns"
        yield html.heading(trace.name or "layer", f"{size}{more}") + html.beside(*pictures)


def heads_html(heads: Sequence[AttentionMap]) -> Iterator[str]:
    """The attention of each layer and head."""
    pictures = [
        _picture(np.array(head.weights), head.name, "", [show_whitespace(name) for name in head.columns], limit=1.0)
        for head in heads[:MAX_HEADS]
        if head.weights and head.weights[0]
    ]
    if pictures:
        more = f"{MAX_HEADS} of {len(heads)}" if len(heads) > MAX_HEADS else ""
        yield html.heading("attention of every head", more) + html.beside(*pictures)


def regions_html(explanation: Explanation) -> Iterator[str]:
    """Where in the image each word looks: what it does not attend to is dark."""
    image = explanation.image
    if explanation.grid is None or explanation.attention is None or image is None or image.ndim != 3:
        return
    pixels = image if image.dtype == np.uint8 else (255 * np.clip(image, 0, 1)).astype(np.uint8)
    rows = np.arange(len(pixels)) * explanation.grid[0] // len(pixels)
    columns = np.arange(pixels.shape[1]) * explanation.grid[1] // pixels.shape[1]
    addresses = []
    for weights in explanation.image_attention:
        share = (weights / (weights.max() or 1.0))[rows][:, columns, None]  # (H, W, 1)
        addresses.append(png_address((pixels * (0.25 + 0.75 * share)).astype(np.uint8)))
    words = [show_whitespace(word) for word in explanation.attention.rows]
    yield html.pictures([png_address(pixels), *addresses], names=["the image", *words], width=REGION)


def frames_html(frames: FrameProbabilities) -> str:
    """The probability of each token and of the blank in each frame."""
    strongest = sorted(zip(frames.tokens, frames.probabilities, strict=True), key=lambda each: -max(each[1]))
    kept = dict(sorted(strongest[:MAX_TOKENS], key=lambda each: int(np.argmax(each[1]))))
    rows = {show_whitespace(token): values[:MAX_FRAMES] for token, values in kept.items()}
    rows[f"{BLANK_SIGN} (blank)"] = frames.blank[:MAX_FRAMES]
    more = f", the first {MAX_FRAMES} of {len(frames.blank):,}" if len(frames.blank) > MAX_FRAMES else ""
    unit = "s" if frames.in_seconds else "input frames"
    label = f"frames of {format_number(frames.frame_length, 3)} {unit}{more}; probability of each token"
    return html.signed_heatmap(list(rows), list(rows.values()), label=label)


def beam_html(nodes: Sequence[BeamNode]) -> str:
    """The hypotheses of a search as a tree."""
    lines = "\n".join(html.escape(line) for line in beam_lines(nodes))
    return (
        html.heading("search", TREE_NOTE)
        + f'<pre style="margin:4px 0;line-height:1.3;overflow-x:auto;background:none">{lines}</pre>'
    )


def _picture(
    values: ArrayLike,  # (rows, columns)
    title: str,
    remark: str,
    names: Sequence[str],  # of the columns; empty: none
    *,
    limit: float = 0.0,  # value of the strongest colour; 0: the largest
) -> str:
    """Numbers as colours on the ground of the page, with their range and the names of their columns."""
    array = np.asarray(values, dtype=np.float64)
    low, high = float(array.min()), float(array.max())
    bound = limit or max(abs(low), abs(high)) or 1.0
    pixels: NDArray[np.uint8] = np.empty((*array.shape, 4), np.uint8)
    pixels[..., :3] = COLOURS[(array >= 0).astype(int)]
    pixels[..., 3] = np.round(255 * np.minimum(np.abs(array) / bound, 1))
    scale = f"{format_number(low, 2)} … {format_number(high, 2)}"
    columns = ""
    if names and len(names) == array.shape[1] <= MAX_NAMES:
        cells = "".join(
            f'<span style="flex:1 1 0;min-width:0;overflow:hidden;text-align:center">{html.escape(name)}</span>'
            for name in names
        )
        columns = f'<div style="display:flex;width:{WIDTH}px;font-size:10px;white-space:pre">{cells}</div>'
    return (
        f'<div style="width:{WIDTH}px;margin-bottom:8px">{html.heading(title, scale)}<br>'
        f'<img src="{png_address(pixels)}" alt="{html.escape(f"{title}: {scale}")}" style="width:{WIDTH}px;'
        f'height:{HEIGHT}px;image-rendering:pixelated;border:1px solid rgba(128,128,128,.35);display:block">'
        f"{columns}{html.remark(remark)}</div>"
    )
