"""The memory experiment, run and shown: how far back three recurrent networks remember."""

import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from seqloom import terminal
from seqloom.lab import memory


def run_memory(output: Path, *, seed: int, quick: bool, quiet: bool) -> dict[str, Any]:
    """Train every network at every length; print a table and a verdict, and draw them."""
    try:
        output.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ValueError(f"cannot create the folder {output}: {error.strerror}") from None
    short = memory.MemoryExperiment(lengths=(5, 10), updates=100, seed=seed)
    experiment = short if quick else memory.MemoryExperiment(seed=seed)
    started = time.perf_counter()
    outcomes = []
    with terminal.progress(len(experiment.cases())) as start:
        for network, length in experiment.cases():
            start(f"{network}, {length} steps")
            outcomes.append(experiment.measure(network, length))
    plot: Path | None = output / "memory.png"
    try:
        memory.draw(outcomes, output / "memory.png", chance=experiment.chance)
    except ModuleNotFoundError as error:
        sys.stderr.write(f"No plot: {error.name} is not installed; run pip install 'seqloom[plots]'\n")
        plot = None
    if not quiet:
        terminal.print_lines(
            "Each network sees a symbol, then a number of distractor steps, and must then name the symbol.",
            f"The forget gates of the LSTMs are open at the start (bias {experiment.forget_bias:g}).",
            f"Accuracy (chance: {experiment.chance:.0%}), and ∇, the gradient that reaches the symbol before training:",
        )
        terminal.table(*memory.tabulate(outcomes))
        terminal.print_lines(memory.verdict(outcomes), *([f"Plot: {plot}"] if plot else []))
    return {
        "task": "memory",
        "outcomes": [asdict(outcome) for outcome in outcomes],
        "verdict": memory.verdict(outcomes),
        "plot": str(plot) if plot else None,
        "seconds": time.perf_counter() - started,
    }
