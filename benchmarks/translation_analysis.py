"""Analysis of trained translation models: BLEU by source length, and quality and speed by beam size.

python -m benchmarks.translation_analysis lengths FILE RUN RUN … --output picture.png
python -m benchmarks.translation_analysis beam-sizes FILE RUN --sizes 1 4 16
"""

import argparse
import time
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from seqloom import terminal
from seqloom.length_report import distinct_names
from seqloom.metrics.text import bleu
from seqloom.model import load

EDGES = (1, 8, 11, 14, 17, 21, 1000)
"""Bin edges, in words of the source."""
WARM_UP = 64  # sentences translated before timing starts
COLORS = ("#1f6fb4", "#d1495b", "#b99b5f", "#4a5260")


class Bin(NamedTuple):
    """Sentences whose sources have a similar length."""

    words: str
    sentences: int
    bleu: float  # lowercased
    interval: tuple[float, float]


def bleu_by_length(run: str, file: str) -> list[Bin]:
    model = load(run)
    examples = list(model.task.read(Path(file)))
    answers = [answer for batch in model.predict_batches(iter(examples)) for answer in batch]
    bins = []
    for low, high in pairwise(EDGES):
        indices = [index for index, example in enumerate(examples) if low <= len(example.source.split()) < high]
        if indices:
            score = bleu(
                [answers[i].text for i in indices], [examples[i].target or "" for i in indices], lowercase=True
            )
            name = f"{low}–{high - 1}" if high != EDGES[-1] else f"{low} and more"
            bins.append(Bin(name, len(indices), score.score, score.interval))
    return bins


def plot(curves: dict[str, list[Bin]], path: Path) -> None:
    """One line per run, with 95 % confidence intervals."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.2, 4.2), layout="constrained")
    axes = figure.add_subplot()
    for color, (name, bins) in zip(COLORS, curves.items(), strict=False):
        positions = range(len(bins))
        low, high = zip(*(each.interval for each in bins), strict=True)
        axes.fill_between(positions, low, high, color=color, alpha=0.15)
        axes.plot(positions, [each.bleu for each in bins], "o-", color=color, label=name)
    first = next(iter(curves.values()))
    axes.set_xticks(range(len(first)), [f"{each.words}\n({each.sentences})" for each in first])
    axes.set_xlabel("words in the source (number of sentences)")
    axes.set_title("BLEU by source length", loc="left", fontweight="bold", color="#2b2f36")
    axes.set_ylim(bottom=0)
    axes.grid(visible=True, axis="y", color="#e6e9ed")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)


def by_beam_size(run: str, file: str, *, sizes: Sequence[int]) -> list[tuple[str, ...]]:
    """BLEU, mean log-probability of the output and sentences per second for each beam size."""
    rows: list[tuple[str, ...]] = []
    for size in sizes:
        model = load(run, search=f"beam size={size} length_penalty=length" if size > 1 else "greedy")
        examples = sorted(model.task.read(Path(file)), key=len)
        list(model.predict_batches(iter(examples[:WARM_UP])))  # compiles kernels and packs weights
        started = time.perf_counter()
        answers = [answer for batch in model.predict_batches(iter(examples)) for answer in batch]
        seconds = time.perf_counter() - started
        outputs, references = [answer.text for answer in answers], [example.target or "" for example in examples]
        cased, lower = bleu(outputs, references), bleu(outputs, references, lowercase=True)
        log_probability = sum(answer.nbest[0].log_probability for answer in answers) / len(answers)
        rows.append(
            (
                str(size),
                f"{lower.score:.2f}",
                f"{cased.score:.2f}",
                f"{log_probability:.3f}",
                f"{len(answers) / seconds:.0f}",
            )
        )
    return rows


def main() -> None:
    """Print a table, and for lengths save a plot."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.translation_analysis", description="Analyse trained translation models."
    )
    parser.add_argument("analysis", choices=["lengths", "beam-sizes"], help="what to vary")
    parser.add_argument("file", help="sentence pairs to translate")
    parser.add_argument("run", nargs="+", help="run folders; beam-sizes uses the first")
    parser.add_argument("--sizes", nargs="+", type=int, default=[1, 4, 16], help="beam sizes")
    parser.add_argument("--output", type=Path, default=Path("lengths.png"), help="file of the plot")
    options = parser.parse_args()
    if options.analysis == "beam-sizes":
        head = ("beam", "bleu_lower", "bleu", "log-probability", "sentences/s")
        terminal.table(head, by_beam_size(options.run[0], options.file, sizes=options.sizes))
        return
    names = distinct_names([str(Path(run).resolve()) for run in options.run])
    curves = {name: bleu_by_length(run, options.file) for name, run in zip(names, options.run, strict=True)}
    first = next(iter(curves.values()))
    table = [
        (each.words, str(each.sentences), *(f"{bins[index].bleu:.1f}" for bins in curves.values()))
        for index, each in enumerate(first)
    ]
    terminal.table(("words", "sentences", *curves), table)
    plot(curves, options.output)


if __name__ == "__main__":
    main()
