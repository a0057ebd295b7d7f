"""Measure how much the memory grows in training and prediction with inputs of random lengths; see scripts/leak."""

import argparse
import random
import resource
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from tests.contracts import tiny

from seqloom.model import Model
from seqloom.run_config import Config
from seqloom.training import engine
from seqloom.training.distributed import SINGLE
from seqloom.training.progress import Position
from seqloom.workflow import batch_loader

WARM_UP = 500  # steps after which the growth is measured: caches and the allocator have filled
LONGEST = 200  # words
LIMIT = 20.0  # MB


def resident() -> float:
    """Megabytes of memory that this process has now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 1e6


def growth(step: Callable[[int], object], times: int) -> float:
    """Megabytes by which the memory grows in ``times`` steps, after some to warm up."""
    for number in range(WARM_UP):
        step(number)
    before = resident()
    for number in range(times):
        step(WARM_UP + number)
    return resident() - before


def text(draw: random.Random) -> str:
    words = ["high", "above", "over", "low", "below", "under", "it", "goes"]
    return " ".join(draw.choices(words, k=draw.randint(1, LONGEST)))


def measure(case: str, times: int, folder: Path) -> tuple[float, float]:
    """The growth in training and in prediction, in megabytes."""
    draw = random.Random(1)  # noqa: S311  no secret
    config = tiny.build(tiny.CASES[case], folder)
    task = config.task.fit(config.task.read(folder / tiny.CASES[case].file))
    module = task.build_model()
    config = Config(task, config.train)
    rule = engine.update_rule(module, batch_loader(config, lambda: iter(()), SINGLE), task.loss, config.train)

    def train(_: int) -> None:
        rows = [(text(draw), draw.choice(["up", "down"])) for _ in range(4)]
        rule.update([task.collate(list(task.read(rows)))], Position(), lambda _: 1e-3)

    module.train()
    trained = growth(train, times)
    model = Model(config, module)
    return trained, growth(lambda _: model.predict([text(draw)]), times)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="scripts/leak", description=__doc__)
    parser.add_argument("--times", type=int, default=10_000, help="training steps, and predictions")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        trained, predicted = measure("classify", options.times, Path(folder))
    sys.stdout.write(
        f"{options.times} training steps: {trained:+.1f} MB, {options.times} predictions: {predicted:+.1f} MB\n"
    )
    return int(max(trained, predicted) > LIMIT)


if __name__ == "__main__":
    sys.exit(main())
