"""One training run of a comparison: its scores, its speed and its memory."""

import hashlib
import json
import re
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from seqloom import files
from seqloom.evaluation import predict_all
from seqloom.layers.layer import count_parameters
from seqloom.metrics.confidence import bootstrap
from seqloom.model import Model, load
from seqloom.models.encoder import LayerFactory
from seqloom.run import Run
from seqloom.run_config import Config
from seqloom.training.progress import Progress
from seqloom.training_data import FILES_ONLY, Sources, data_readers
from seqloom.workflow import Listener, resume, train

WARMUP_EXAMPLES = 32  # predicted before the time is measured
COUNTING_BATCH = 256  # examples that are collated at once to count their items


class ThroughputMeter:
    """A listener that measures the items per second of updates, without evaluations.

    The first update, which compiles kernels, counts only if there is no other.
    """

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self.clock = clock
        self.last = clock()
        self.first = 0.0, 0  # seconds and items
        self.others = 0.0, 0

    def __call__(self, run: Run, event: Progress) -> None:  # noqa: ARG002  a listener's signature
        """Add an event of a training run."""
        now = self.clock()
        if event.evaluation is None:
            seconds, items = now - self.last, event.items
            if self.first[1]:
                self.others = self.others[0] + seconds, self.others[1] + items
            else:
                self.first = seconds, items
        self.last = now

    @property
    def items_per_second(self) -> float | None:
        """None: nothing was trained."""
        seconds, items = self.others if self.others[1] else self.first
        return items / seconds if items and seconds else None


FAILURES = (ValueError, TypeError, OSError, RuntimeError, MemoryError, ModuleNotFoundError)
"""Exceptions that a trial may raise; they do not end a comparison."""


def run_trial(
    config: Config,
    folder: Path,
    listeners: Sequence[Listener] = (),
    *,
    layer: LayerFactory | None = None,  # custom layer
    brief: bool = False,  # without what takes another prediction of the development data
    show_warnings: bool = True,  # noqa: ARG001  about the data; the listeners show them
    sources: Sources = FILES_ONLY,  # data in memory
) -> dict[str, Any]:
    """Train a configuration in a folder, or resume the run in it; the scores and costs that are compared."""
    meter = ThroughputMeter()
    run = (
        resume(folder, layer=layer, listeners=[meter, *listeners], sources=sources)
        if folder.exists()
        else train(config, output=folder, layer=layer, listeners=[meter, *listeners], sources=sources)
    )
    cost = _training_cost(run, meter)
    if config.train.threads:
        torch.set_num_threads(config.train.threads)
    model = load(run.path, layer=layer, own_files=True)
    task = model.config.task
    return {
        "seed": config.train.seed,
        "metric": task.main_metric,
        "higher_is_better": task.higher_is_better,
        "metrics": run.best_metrics(),
        "parameters": count_parameters(model.module),
        **cost,
        "minutes": run.summary()["seconds"] / 60,  # including those before an interruption
        "is_counting_model": task.is_counting_model,
        **_length_of_training(run),
        **({} if brief else _predict_dev(model, sources)),
    }


def _length_of_training(run: Run) -> dict[str, Any]:
    """How many epochs and updates a training made."""
    rows = run.rows()
    return {"epochs": rows[-1]["epoch"], "updates": rows[-1]["update"]} if rows else {"epochs": None, "updates": None}


def _training_cost(run: Run, meter: ThroughputMeter) -> dict[str, Any]:
    """Speed and memory of the training, stored in the run: a finished training is not repeated to measure them."""
    path = run.path / "cost.json"
    if meter.items_per_second is None and path.exists():
        stored: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return stored
    cost = {"train_items_per_second": meter.items_per_second, "memory_mb": peak_memory()}
    write_json(path, cost)
    return cost


def _predict_dev(model: Model, sources: Sources) -> dict[str, Any]:
    """Predict the development data once more: the speed, and bootstrap samples of the metric."""
    config, task = model.config, model.config.task
    dev = list(data_readers(config, sources).dev())
    if not dev:
        empty: dict[str, Any] = {"dev_examples": 0, "dev_digest": "", "predict_items_per_second": None}
        return empty | {"bootstrap_rows": 0, "bootstrap_samples": []}
    predict_all(config, model.module, dev[:WARMUP_EXAMPLES])
    started = time.perf_counter()
    predictions = predict_all(config, model.module, dev)
    seconds = time.perf_counter() - started
    starts = range(0, len(dev), COUNTING_BATCH)
    items = sum(task.collate(dev[start : start + COUNTING_BATCH]).items for start in starts)
    sums = task.metric_sums(predictions, dev)
    locations = "\n".join(str(example.location) for example in dev)
    return {
        "dev_examples": len(dev),
        "dev_digest": hashlib.sha256(locations.encode()).hexdigest(),
        "predict_items_per_second": items / seconds,
        "bootstrap_rows": 0 if sums is None else len(sums.rows),
        "bootstrap_samples": [] if sums is None else bootstrap(sums).tolist(),
    }


def trial_error(error: BaseException) -> dict[str, Any]:
    """The results of a trial that has failed."""
    return {"error": str(error) or type(error).__name__}


def peak_memory() -> float:
    """The peak memory of this process in MB."""
    status = Path("/proc/self/status")
    if status.exists():  # getrusage may still return the peak of the parent process
        match = re.search(r"VmHWM:\s+(\d+) kB", status.read_text())
        return int(match[1]) / 1024 if match else 0.0
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if sys.platform == "darwin" else 2**10)


def results_path(folder: Path) -> Path:
    """The file with the results of a trial, beside the folder of its run."""
    return folder.with_name(f"{folder.name}.json")


def write_json(path: Path, value: object) -> None:
    """Write JSON atomically."""
    files.write(path, json.dumps(value, indent=2) + "\n")
