"""One training, measured: what it reached, how fast it was, how much memory it took."""

import hashlib
import json
import re
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from seqloom.compare.outcome import outcome
from seqloom.evaluation import predict_all
from seqloom.metrics.confidence import bootstrap
from seqloom.model import Model, load
from seqloom.run import Run
from seqloom.run_config import Config
from seqloom.training.progress import Progress
from seqloom.training.self_trained import CountingModel
from seqloom.workflow import Listener, data, resume, train

WARM = 32  # examples that are answered before time is measured
COLLATED = 256  # examples that are counted at once


class Pace:
    """Items per second of the updates; evaluations do not count, nor, where others came, the first that compiles."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self.clock = clock
        self.last = clock()
        self.first = 0.0, 0  # seconds and items
        self.rest = 0.0, 0

    def __call__(self, run: Run, event: Progress) -> None:  # noqa: ARG002  a listener's signature
        """Take notice of what a training did."""
        now = self.clock()
        if event.evaluation is None:
            seconds, items = now - self.last, event.items
            if self.first[1]:
                self.rest = self.rest[0] + seconds, self.rest[1] + items
            else:
                self.first = seconds, items
        self.last = now

    @property
    def rate(self) -> float | None:
        seconds, items = self.rest if self.rest[1] else self.first
        return items / seconds if items and seconds else None


def measure(config: Config, folder: Path, listeners: Sequence[Listener] = ()) -> dict[str, Any]:
    """Train a configuration in a folder, or go on there, and tell what a comparison wants to know."""
    pace = Pace()
    run = (
        resume(folder, listeners=[pace, *listeners])
        if folder.exists()
        else train(config, output=folder, listeners=[pace, *listeners])
    )
    cost = _cost(run, pace)
    if config.train.threads:
        torch.set_num_threads(config.train.threads)
    model = load(run.path)
    task = model.task
    return {
        "seed": config.train.seed,
        "metric": task.main_metric,
        "higher_is_better": task.higher_is_better,
        "metrics": outcome(run),
        "parameters": sum(parameter.numel() for parameter in model.module.parameters()),
        **cost,
        "minutes": run.load("last").facts["seconds"] / 60,  # also those before an interruption
        "counted": isinstance(model.module, CountingModel),
        **_ask(model),
    }


def _cost(run: Run, pace: Pace) -> dict[str, Any]:
    """Pace and memory of the training, kept in its run: who was interrupted later does not train once more."""
    kept = run.path / "cost.json"
    if pace.rate is None and kept.exists():
        found: dict[str, Any] = json.loads(kept.read_text(encoding="utf-8"))
        return found
    cost = {"trained_per_second": pace.rate, "memory": peak()}
    write(kept, cost)
    return cost


def _ask(model: Model) -> dict[str, Any]:
    """The development examples answered once more, with the clock running."""
    config, task = model.config, model.task
    dev = list(data(config).dev())
    if not dev:
        return {"examples": 0, "asked": "", "predicted_per_second": None, "rows": 0, "samples": []}
    predict_all(config, model.module, dev[:WARM])
    started = time.perf_counter()
    found = predict_all(config, model.module, dev)
    seconds = time.perf_counter() - started
    items = sum(task.collate(dev[start : start + COLLATED]).items for start in range(0, len(dev), COLLATED))
    sums = task.metric_sums(found, dev)
    places = "\n".join(str(example.location) for example in dev)
    return {
        "examples": len(dev),
        "asked": hashlib.sha256(places.encode()).hexdigest(),
        "predicted_per_second": items / seconds,
        "rows": 0 if sums is None else len(sums.rows),
        "samples": [] if sums is None else bootstrap(sums).tolist(),
    }


def peak() -> float:
    """The most memory that this process had, in MB."""
    status = Path("/proc/self/status")
    if status.exists():  # what getrusage says of a process may still be its parent's peak
        found = re.search(r"VmHWM:\s+(\d+) kB", status.read_text())
        return int(found[1]) / 1024 if found else 0.0
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if sys.platform == "darwin" else 2**10)


def beside(folder: Path) -> Path:
    """Where the measurements of a run stand."""
    return folder.with_name(f"{folder.name}.json")


def write(path: Path, found: object) -> None:
    """Write JSON that is whole or not there."""
    write_text(path, json.dumps(found, indent=2) + "\n")


def write_text(path: Path, text: str) -> None:
    """The same for any text."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(f"{path.name}.new")
    new.write_text(text, encoding="utf-8")
    new.replace(path)
