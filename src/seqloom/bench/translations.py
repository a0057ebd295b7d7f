"""Trained translators looked at closely: BLEU by the length of the source, and what wider beams bring and cost.

python -m seqloom.bench.translations lengths FILE RUN RUN … --output picture.png
python -m seqloom.bench.translations widths FILE RUN --widths 1 4 16
"""

import argparse
import time
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from seqloom import terminal
from seqloom.metrics.text import bleu
from seqloom.model import load

EDGES = (1, 8, 11, 14, 17, 21, 1000)
"""Words of the source where the next group begins."""
WARM = 64  # sentences that are answered before the clock starts
COLOURS = ("#1f6fb4", "#d1495b", "#b99b5f", "#4a5260")


def by_length(run: str, file: str) -> list[tuple[str, int, float, tuple[float, float]]]:
    """For each group of sources its lengths in words, how many there are, BLEU without capitals and its interval."""
    model = load(run)
    examples = list(model.task.read(Path(file)))
    answers = [answer for some in model.predict_batches(iter(examples)) for answer in some]
    rows = []
    for low, high in pairwise(EDGES):
        chosen = [index for index, example in enumerate(examples) if low <= len(example.source.split()) < high]
        if chosen:
            score = bleu([answers[i].text for i in chosen], [examples[i].target or "" for i in chosen], lower=True)
            name = f"{low}–{high - 1}" if high != EDGES[-1] else f"{low} and more"
            rows.append((name, len(chosen), score.score, score.interval))
    return rows


def draw(curves: dict[str, list[tuple[str, int, float, tuple[float, float]]]], path: Path) -> None:
    """A line for each run, with its intervals."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.2, 4.2), layout="constrained")
    axes = figure.add_subplot()
    for colour, (name, rows) in zip(COLOURS, curves.items(), strict=False):
        places = range(len(rows))
        axes.fill_between(places, [row[3][0] for row in rows], [row[3][1] for row in rows], color=colour, alpha=0.15)
        axes.plot(places, [row[2] for row in rows], "o-", color=colour, label=name)
    first = next(iter(curves.values()))
    axes.set_xticks(range(len(first)), [f"{name}\n({count})" for name, count, _, _ in first])
    axes.set_xlabel("words of the source (sentences)")
    axes.set_title("BLEU by the length of the source", loc="left", fontweight="bold", color="#2b2f36")
    axes.set_ylim(bottom=0)
    axes.grid(visible=True, axis="y", color="#e6e9ed")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)


def widths(run: str, file: str, sizes: Sequence[int]) -> list[tuple[str, ...]]:
    """BLEU, sentences in a second and the mean log-probability of each answer, for each width of the beam."""
    rows: list[tuple[str, ...]] = []
    for size in sizes:
        model = load(run, search=f"beam size={size} penalty=length" if size > 1 else "greedy")
        examples = sorted(model.task.read(Path(file)), key=len)
        list(model.predict_batches(iter(examples[:WARM])))  # compiled and packed before the clock starts
        started = time.perf_counter()
        answers = [answer for some in model.predict_batches(iter(examples)) for answer in some]
        seconds = time.perf_counter() - started
        found, wanted = [answer.text for answer in answers], [example.target or "" for example in examples]
        cased, lower = bleu(found, wanted), bleu(found, wanted, lower=True)
        likely = sum(answer.best[0].log_probability for answer in answers) / len(answers)
        rows.append(
            (
                str(size),
                f"{lower.score:.2f}",
                f"{cased.score:.2f}",
                f"{likely:.3f}",
                f"{len(answers) / seconds:.0f}",
            )
        )
    return rows


def main() -> None:
    """Look, print a table, draw a picture."""
    parser = argparse.ArgumentParser(prog="seqloom.bench.translations", description=__doc__)
    parser.add_argument("what", choices=["lengths", "widths"])
    parser.add_argument("file", help="pairs to translate")
    parser.add_argument("run", nargs="+")
    parser.add_argument("--widths", nargs="+", type=int, default=[1, 4, 16])
    parser.add_argument("--output", type=Path, default=Path("lengths.png"))
    given = parser.parse_args()
    if given.what == "widths":
        head = ("beam", "bleu_lower", "bleu", "log-probability", "sentences/s")
        terminal.table(head, widths(given.run[0], given.file, given.widths))
        return
    curves: dict[str, Any] = {Path(run).name: by_length(run, given.file) for run in given.run}
    names = [row[:2] for row in next(iter(curves.values()))]
    table = [
        (words, str(count), *(f"{rows[index][2]:.1f}" for rows in curves.values()))
        for index, (words, count) in enumerate(names)
    ]
    terminal.table(("words", "sentences", *curves), table)
    draw(curves, given.output)


if __name__ == "__main__":
    main()
