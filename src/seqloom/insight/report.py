"""An explanation for people and programs: printed, as JSON, and as plots in a folder."""

import shutil
import sys
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from seqloom import files, terminal
from seqloom.formats import format_percent, shorten
from seqloom.insight.attention_plot import attention_lines, draw_attention, draw_attention_heads
from seqloom.insight.attribution_plot import attribution_lines, draw_attribution
from seqloom.insight.beam_tree import TREE_NOTE, beam_lines, draw_beam
from seqloom.insight.ctc_lattice import draw_lattice
from seqloom.insight.ctc_plot import FrameProbabilities, ctc_lines, draw_ctc, timing_lines
from seqloom.insight.embedding_map import draw_embedding_map, print_embedding_map
from seqloom.insight.explanation import ALIGNMENT, Explanation
from seqloom.insight.frame_strip import draw_frame_attention
from seqloom.insight.gates import draw_gates
from seqloom.insight.heatmap_text import draw_heatmap_text, heatmap_lines, wrap_columns
from seqloom.insight.image_attention import draw_image_attention, image_attention_lines
from seqloom.insight.label_paths import path_lines
from seqloom.insight.plotting import escape_dollars, titled
from seqloom.insight.prefix_tree import prefix_table
from seqloom.insight.token_names import show_whitespace
from seqloom.insight.unrolled import UnrolledNetwork
from seqloom.insight.unrolled_plot import draw_unrolled
from seqloom.insight.word_contexts import draw_contexts, print_contexts

WIDTH = 100  # characters of a line if standard output is not a terminal
HEADS_PER_ROW = 8
PAGE = "explanation.html"


def report(
    explanation: Explanation,
    folder: Path,
    *,
    network: UnrolledNetwork | None = None,
    suffix: str = ".png",  # of the plots
    as_json: bool = False,
) -> None:
    """Print an explanation and write its plots into a folder."""
    if not as_json:
        print_explanation(explanation)
    existed = (folder / PAGE).exists()
    plots = draw_explanation(explanation, folder, network=network, suffix=suffix)
    page = _write_page(explanation, folder) if explanation.attribution is not None else ""
    if as_json:
        written: dict[str, Any] = {"plots": list(map(str, plots))} | ({"page": page} if page else {})
        written |= {"network": network.to_dict()} if network is not None else {}
        terminal.print_lines(terminal.json_line({**explanation.to_dict(), **written}))
        return
    replaced = " (replaces the page of the last explanation; --output chooses another folder)" if existed else ""
    lines = [f"Plots: {', '.join(map(str, plots))}"] * bool(plots) + [f"Page: {page}{replaced}"] * bool(page)
    terminal.print_lines(*(["", *lines] if lines else []))


def print_explanation(explanation: Explanation) -> None:
    """Print an explanation."""
    width = shutil.get_terminal_size((WIDTH, 24)).columns if sys.stdout.isatty() else WIDTH
    terminal.print_lines(*[explanation.headline] * bool(explanation.headline))
    if explanation.frames is not None and explanation.image is not None:
        _print_transcript(explanation.prediction, explanation.frames, explanation.image, width=width)
    if explanation.label_choices:
        choices = [
            (
                choice.word,
                choice.label,
                format_percent(choice.probability, 1),
                choice.alternative,
                format_percent(choice.alternative_probability, 1),
            )
            for choice in explanation.label_choices
        ]
        terminal.table(("word", "label", "probability", "alternative", "probability"), choices)
    if explanation.label_probabilities:
        terminal.table(
            (explanation.label_kind, "probability"),
            [(label, format_percent(probability, 2)) for label, probability in explanation.shown_labels.items()],
        )
        terminal.print_lines(*filter(None, [explanation.other_labels]))
    if explanation.nbest_tokens:
        terminal.print_lines("", "N-best list, with the log-probability of each token:")
        pairs = zip(explanation.prediction.nbest, explanation.nbest_tokens, strict=True)
        for rank, (candidate, tokens) in enumerate(pairs, start=1):
            terminal.print_lines("", *_candidate_lines(rank, candidate, tokens, width=width))
    if explanation.attribution is not None:
        terminal.print_lines("", *attribution_lines(explanation.attribution, width=width))
    if (values := explanation.token_values) is not None:
        top = values.maximum or max(values.values, default=0.0)
        lines = heatmap_lines(values.tokens, values.values, maximum=values.maximum, width=width)
        terminal.print_lines("", f"{values.label[:1].upper()}{values.label[1:]} (█ = {top:.3g}):", *lines)
    _print_attention(explanation, width=width)
    if explanation.layer_weights is not None:
        weights = explanation.layer_weights
        terminal.print_lines("", f"Weights of the language model's layers (scale {weights.scale:.3g}):")
        rows = [(name, f"{weight:.1%}") for name, weight in zip(weights.layers, weights.weights, strict=True)]
        terminal.table(("layer", "weight"), rows)
    if explanation.contexts:
        terminal.print_lines("")
        print_contexts(explanation.contexts)
    if explanation.nearest:
        terminal.print_lines("", "Nearest sentences, by the cosine of their vectors:")
        near = [(f"{sentence.similarity:.3f}", shorten(sentence.text, width - 12)) for sentence in explanation.nearest]
        terminal.table(("similarity", "sentence"), near)
    if explanation.embedding_map is not None:
        print_embedding_map(explanation.embedding_map)
    if explanation.beam:
        terminal.print_lines("", f"Beam search tree: {TREE_NOTE}.")
        terminal.print_lines(*beam_lines(explanation.beam))
    if explanation.prefixes:
        header, prefix_rows, others = prefix_table(explanation.prefixes)
        terminal.print_lines("", f"Beam in the frames where its best text changes ({others:,} more: see --json):")
        terminal.table(header, prefix_rows)
    if explanation.paths is not None:
        terminal.print_lines("", f"CTC paths of {explanation.paths.label!r} (· = blank), with probability and share:")
        terminal.print_lines(*path_lines(explanation.paths))
    terminal.print_lines(*(["", *(f"Note: {note}" for note in explanation.notes)] if explanation.notes else []))


def _print_attention(explanation: Explanation, *, width: int) -> None:
    attention = explanation.attention
    if attention is None:
        return
    name = "" if attention.name == "attention" else f" ({attention.name})"
    if explanation.grid is not None:
        terminal.print_lines("", f"Attention over the image for each word{name}:")
        terminal.print_lines(*image_attention_lines(explanation.image_attention, attention.rows, width=width))
    else:
        is_video = explanation.image is not None and explanation.image.ndim == 4
        columns = ", one column per frame" if is_video else ""
        title = "Alignment" if attention.name == ALIGNMENT else f"Attention weights{name}"
        terminal.print_lines("", f"{title}, one row per output position{columns}:")
        terminal.print_lines(*attention_lines(attention.weights, attention.columns, attention.rows, width=width))


def _print_transcript(prediction: Any, frames: FrameProbabilities, inputs: NDArray[Any], *, width: int) -> None:
    terminal.print_lines("", "Most probable token at each frame (· = blank):")
    terminal.print_lines(*ctc_lines(frames, inputs, width=width), *timing_lines(prediction, frames, width=width))
    terminal.print_lines("", "N-best list, with log scores:")
    rows = [
        (candidate.text, f"{candidate.score:.4f}", f"{candidate.acoustic:.4f}", f"{candidate.language:.4f}")
        for candidate in prediction.nbest
    ]
    terminal.table(("transcript", "score", "acoustic", "language model"), rows)


def _candidate_lines(rank: int, candidate: Any, tokens: list[str], *, width: int) -> Iterator[str]:
    yield f"{rank}. {candidate.text}"
    parts = [("score", candidate.score), ("log-probability", candidate.log_probability)]
    parts += candidate.score_parts
    yield f"   {', '.join(f'{name} {value:.4f}' for name, value in parts)}"
    values = [f"{value:.2f}" if value < -0.005 else "0" for value in candidate.log_probabilities]
    columns = list(zip(map(show_whitespace, tokens), values, strict=True))
    for line in wrap_columns(columns, gap=1, width=width - 3):
        yield f"   {line}".rstrip()


def draw_explanation(
    explanation: Explanation,
    folder: Path,
    *,
    network: UnrolledNetwork | None = None,  # to draw unrolled over time
    suffix: str = ".png",  # or .svg, .pdf
) -> list[Path]:
    """Draw an explanation into a folder; the files, or none if matplotlib is not installed."""
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Glyph")  # reported when the plot is saved
            plots = _draw(explanation, folder, suffix)
            for trace, labels in explanation.gates:
                plots.append(folder / f"gates-{trace.name}{suffix}")
                names = [escape_dollars(show_whitespace(label)) for label in labels]
                draw_gates(trace, plots[-1], labels=names or None)
            if network is not None:
                plots.append(folder / f"unrolled{suffix}")
                draw_unrolled(network, plots[-1])
    except ModuleNotFoundError as error:
        sys.stderr.write(f"No plots: {error.name} is not installed; run pip install 'seqloom[plots]'\n")
        return []
    except OSError as error:
        raise _cannot_write(folder, error) from None
    return plots


def _cannot_write(folder: Path, error: OSError) -> ValueError:
    reason = files.os_error_message(error)
    return ValueError(f"cannot write to {error.filename or folder}: {reason}; choose another folder with --output")


def _write_page(explanation: Explanation, folder: Path) -> str:
    try:
        files.write(folder / PAGE, explanation.to_html())
    except OSError as error:
        raise _cannot_write(folder, error) from None
    return str(folder / PAGE)


def _draw(explanation: Explanation, folder: Path, suffix: str) -> list[Path]:
    plots: list[Path] = []

    def new(name: str) -> Path:
        plots.append(folder / f"{name}{suffix}")
        return plots[-1]

    attention, frames, image = explanation.attention, explanation.frames, explanation.image
    title = titled(explanation.title)
    if frames is not None and image is not None and frames.most_probable:
        draw_ctc(frames, image, explanation.prediction, new("ctc"), title=title)
    if attention is not None and image is not None and explanation.grid is not None:
        weights = explanation.image_attention
        draw_image_attention(image, weights, attention.rows, new("image_attention"), title=title)
    elif attention is not None and image is not None and image.ndim == 4:
        draw_frame_attention(image, attention.weights, attention.rows, new("frame_attention"), title=title)
    elif attention is not None:
        name = attention.name.removeprefix("attention").strip(" ,:") or explanation.title
        label = "probability" if attention.name == ALIGNMENT else "attention weight"
        drawn = attention.weights, attention.columns, attention.rows
        draw_attention(*drawn, new("attention"), title=titled(name), label=label)
    if explanation.heads and explanation.grid is None:
        first = explanation.heads[0]
        maps = [(head.name, head.weights) for head in explanation.heads]
        heads_per_layer = max(Counter(head.name.partition(",")[0] for head in explanation.heads).values())
        across = min(heads_per_layer, HEADS_PER_ROW)
        draw_attention_heads(maps, first.columns, first.rows, new("heads"), panels_per_row=across)
    if explanation.attribution is not None:
        draw_attribution(explanation.attribution, new("attribution"), title=title)
    if (values := explanation.token_values) is not None:
        path = new("tokens")
        draw_heatmap_text(values.tokens, values.values, path, maximum=values.maximum, title=title, label=values.label)
    if choices := explanation.label_choices:
        draw_heatmap_text(
            [choice.word for choice in choices],
            [1 - choice.probability for choice in choices],
            new("labels"),
            maximum=1.0,
            captions=[f"{choice.label} {format_percent(choice.probability)}" for choice in choices],
            title=title if explanation.title else titled("labels"),
            label="1 − label probability",
        )
    if explanation.contexts:
        draw_contexts(explanation.contexts, new("contexts"))
    if explanation.embedding_map is not None:
        draw_embedding_map(explanation.embedding_map, new("embedding_map"))
    if explanation.paths is not None and explanation.paths.lattice is not None:
        text, lattice = explanation.paths.label, explanation.paths.lattice
        draw_lattice(lattice, new("lattice"), text=text, title=titled("CTC lattice"))
    if explanation.beam:
        draw_beam(explanation.beam, new("beam"), title=title)
    return plots
