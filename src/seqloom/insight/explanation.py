"""What is behind an answer, for a person: as text, and as pictures, which need matplotlib."""

import shutil
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from seqloom import terminal
from seqloom.insight.alignment import alignment_lines, draw_alignment, draw_alignments, visible
from seqloom.insight.alignments import Alignment
from seqloom.insight.beam import Branch, beam_lines, draw_beam
from seqloom.insight.contexts import Pair, draw_contexts, levels, show_contexts
from seqloom.insight.panels import draw_panels, panel_lines
from seqloom.insight.shaded import draw_shaded, laid_out, shaded_lines
from seqloom.insight.spikes import Spikes, draw_spikes, spike_lines, transcript_lines
from seqloom.layers.scalar_mix import ScalarMix
from seqloom.layers.transformer.block import TransformerBlock
from seqloom.models.pooling import AttentionPooling as Pooling

WIDTH = 100  # letters of a line where there is no terminal to ask
MOST = 8  # heads side by side
SHOWN = 8  # labels in the table of a classifier


@dataclass(frozen=True)
class Look:
    """How much was looked at each column for each row."""

    name: str  # which layer and head
    rows: list[str]
    columns: list[str]
    weights: list[list[float]]  # each row adds up to one, or to zero where there was nothing to see


@dataclass(frozen=True)
class Weighted:
    """A number for each symbol that was read."""

    what: str  # the numbers are
    symbols: list[str]
    values: list[float]  # from 0 on
    largest: float  # they could be; 0: there is no bound


@dataclass(frozen=True)
class Choice:
    """The label of a word, and the most probable one besides it."""

    word: str
    label: str
    probability: float
    second: str
    second_probability: float


@dataclass(frozen=True)
class Shares:
    """How much each layer of a language model counts in the vectors that a task takes from it."""

    layers: list[str]
    shares: list[float]  # they add up to one
    scale: float


@dataclass(frozen=True)
class Explanation:
    """What is behind an answer."""

    task: str
    source: str
    answer: Any  # what predict gives
    said: list[list[str]] = field(default_factory=list)  # the symbols of each of answer.best, with the end
    look: Look | None = None  # the last layer's attention, the mean of its heads
    heads: list[Look] = field(default_factory=list)  # of each layer and head, if asked for
    weighted: Weighted | None = None
    choices: list[Choice] = field(default_factory=list)  # of taggers
    beam: list[Branch] = field(default_factory=list)  # if asked for, parents before their children
    mixture: Shares | None = None
    contexts: list[Pair] = field(default_factory=list)  # of words that occur at several places
    spikes: Spikes | None = None  # of transcripts
    remarks: list[str] = field(default_factory=list)
    grid: tuple[int, int] | None = None  # the columns of the look are these rows and columns of the image
    image: NDArray[Any] | None = field(default=None, repr=False)  # (H, W, 3); of transcripts (T, D), what was heard

    def data(self) -> dict[str, Any]:
        """All but the image as lists, numbers and texts."""
        return {name: value for name, value in asdict(self).items() if name != "image"}

    @property
    def cells(self) -> NDArray[np.float64]:  # (T, rows, columns)
        """Where it looked in the image."""
        if self.look is None or self.grid is None:
            raise ValueError("the model did not look at parts of an image")
        return np.array(self.look.weights).reshape(-1, *self.grid)


class Asked(nn.Module):
    """A question to a model as one call, so that what happens inside can be looked at."""

    def __init__(self, module: nn.Module, ask: Callable[[], Any]) -> None:
        super().__init__()
        self.module = module
        self._ask = ask

    def forward(self) -> Any:
        return self._ask()


Layers = Sequence[tuple[str, Tensor]]
"""Names of layers, and where they looked: (heads, T, S)."""


def layers_of(module: nn.Module, found: Sequence[Alignment], *, own: bool) -> Layers:
    """The layers that look at themselves, or those that look elsewhere: names and weights (heads, T, S)."""
    chosen = []
    for each in found:
        parent, _, last = each.name.rpartition(".")
        itself = isinstance(module.get_submodule(parent), TransformerBlock) and last == "attention"
        pooled = isinstance(module.get_submodule(each.name), Pooling)
        if itself is own and not pooled:
            chosen.append(each.weights[0].double())
    return [(f"layer {number}", weights) for number, weights in enumerate(chosen, start=1)]


def average(layers: Layers, rows: list[str], columns: list[str]) -> Look | None:
    """The last layer, the mean of its heads."""
    if not layers:
        return None
    name, weights = layers[-1]
    single = name if len(layers) > 1 else "attention"
    shown = f"{name}, mean of {len(weights)} heads" if len(weights) > 1 else single
    return Look(shown, rows, columns, weights.mean(dim=0).tolist())


def every(layers: Layers, rows: list[str], columns: list[str]) -> list[Look]:
    """Each head of each layer."""
    return [
        Look(f"{name}, head {number}", rows, columns, head.tolist())
        for name, weights in layers
        for number, head in enumerate(weights, start=1)
    ]


def shares_of(module: nn.Module) -> Shares | None:
    """How the layers of the language model in a module are mixed; None if there is none."""
    for part in module.modules():
        if isinstance(part, ScalarMix):
            shares = part.shares.tolist()
            return Shares(levels(len(shares)), shares, float(part.scale))
    return None


def show(found: Explanation) -> None:
    """Print an explanation."""
    width = shutil.get_terminal_size((WIDTH, 24)).columns if sys.stdout.isatty() else WIDTH
    answer = found.answer
    if found.spikes is not None and found.image is not None:
        _show_transcript(found, found.spikes, found.image, width=width)
    elif found.choices:
        rows = [
            (each.word, each.label, f"{each.probability:.1%}", each.second, f"{each.second_probability:.1%}")
            for each in found.choices
        ]
        terminal.table(("word", "label", "probability", "or else", "probability"), rows)
    elif hasattr(answer, "best"):
        terminal.say(f"{found.source} → {answer.text}", "")
        terminal.say("What it found, the best first, and the log-probability of each symbol:")
        for rank, (each, symbols) in enumerate(zip(answer.best, found.said, strict=True), start=1):
            terminal.say("", *_candidate(rank, each, symbols, width=width))
    elif hasattr(answer, "probabilities"):
        likely = sorted(answer.probabilities.items(), key=lambda pair: -pair[1])[:SHOWN]
        terminal.table(("label", "probability"), [(name, f"{value:.2%}") for name, value in likely])
    elif hasattr(answer, "perplexity"):
        terminal.say(f"log-probability {answer.log_probability:.4f}, perplexity {answer.perplexity:.4g}")
    else:
        terminal.say(str(answer))
    if found.weighted is not None:
        what, symbols, values, largest = (getattr(found.weighted, name) for name in Weighted.__dataclass_fields__)
        top = largest or max(values, default=0.0)
        lines = shaded_lines(symbols, values, largest=largest, width=width)
        terminal.say("", f"{what[:1].upper()}{what[1:]} (█ is {top:.3g}):", *lines)
    if found.grid is not None and found.look is not None:
        terminal.say("", f"Where it looked for each word ({found.look.name}):")
        terminal.say(*panel_lines(found.cells, found.look.rows, width=width))
    elif found.look is not None:
        terminal.say("", f"Where it looked for each symbol ({found.look.name}):")
        terminal.say(*alignment_lines(found.look.weights, found.look.columns, found.look.rows, width=width))
    if found.mixture is not None:
        terminal.say("", f"How much each layer of the language model counts (all times {found.mixture.scale:.3g}):")
        shares = zip(found.mixture.layers, found.mixture.shares, strict=True)
        terminal.table(("layer", "share"), [(name, f"{share:.1%}") for name, share in shares])
    if found.contexts:
        terminal.say("")
        show_contexts(found.contexts)
    if found.beam:
        terminal.say("", "The beam; straight down what went on best, with scores and why each branch ended:")
        terminal.say(*beam_lines(found.beam))
    terminal.say(*(["", *(f"Remark: {remark}" for remark in found.remarks)] if found.remarks else []))


def _show_transcript(found: Explanation, spikes: Spikes, seen: NDArray[Any], *, width: int) -> None:
    terminal.say(f"{found.source} → {found.answer.text}", "", "What is most probable at each frame; · is the blank:")
    terminal.say(*spike_lines(spikes, seen, width=width), *transcript_lines(found.answer, spikes, width=width))
    terminal.say("", "What it found, the best first, with logarithms of probabilities:")
    numbers = ("score", "acoustic", "language")
    rows = [(each.text, *(f"{getattr(each, name):.4f}" for name in numbers)) for each in found.answer.best]
    terminal.table(("transcript", *numbers), rows)


def _candidate(rank: int, candidate: Any, symbols: list[str], *, width: int) -> Iterator[str]:
    yield f"{rank}. {candidate.text}"
    yield f"   score {candidate.score:.4f}, log-probability {candidate.log_probability:.4f}"
    values = [f"{value:.2f}" if value < -0.005 else "0" for value in candidate.log_probabilities]
    for line in laid_out(list(zip(map(visible, symbols), values, strict=True)), gap=1, width=width - 3):
        yield f"   {line}".rstrip()


def draw(found: Explanation, folder: Path) -> list[Path]:
    """Write the pictures of an explanation; their paths."""
    drawn: list[Path] = []

    def new(name: str) -> Path:
        drawn.append(folder / name)
        return drawn[-1]

    look, weighted, title = found.look, found.weighted, _title(found)
    if found.spikes is not None and found.image is not None and found.spikes.best:
        draw_spikes(found.spikes, found.image, found.answer, new("spikes.png"), title=title)
    if look is not None and found.image is not None and found.grid is not None:
        draw_panels(found.image, found.cells, look.rows, new("looked.png"), title=title)
    elif look is not None:
        name = "alignment.png" if hasattr(found.answer, "best") else "attention.png"
        draw_alignment(look.weights, look.columns, look.rows, new(name), title=look.name.removeprefix("attention"))
    if found.heads and found.grid is None:
        first = found.heads[0]
        maps = [(each.name, each.weights) for each in found.heads]
        across = max(Counter(each.name.partition(",")[0] for each in found.heads).values())
        draw_alignments(maps, first.columns, first.rows, new("heads.png"), across=min(across, MOST))
    if weighted is not None:
        draw_shaded(
            weighted.symbols,
            weighted.values,
            new("symbols.png"),
            largest=weighted.largest,
            title=title,
            what=weighted.what,
        )
    if found.choices:
        draw_shaded(
            [each.word for each in found.choices],
            [1 - each.probability for each in found.choices],
            new("labels.png"),
            largest=1.0,
            below=[f"{each.label} {each.probability:.0%}" for each in found.choices],
            what="probability of other labels",
        )
    if found.contexts:
        draw_contexts(found.contexts, new("contexts.png"))
    if found.beam:
        draw_beam(found.beam, new("beam.png"), title=title)
    return drawn


def _title(found: Explanation) -> str:
    answer = found.answer
    if hasattr(answer, "best"):
        return f"{found.source} → {answer.text}" if found.grid is None else str(answer.text)
    if hasattr(answer, "probabilities") and not found.choices:
        return f"{answer.label}, {answer.probability:.1%}"
    return f"perplexity {answer.perplexity:.4g}" if hasattr(answer, "perplexity") else ""
