"""From a configuration to a trained run: read, fit, train, evaluate, save."""

import os
import platform
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from importlib.metadata import version
from itertools import count
from pathlib import Path
from typing import Any

import torch
from torch import nn

import seqloom
from seqloom import pictures
from seqloom.checkpoint import BadRun, Snapshot, write_tensors
from seqloom.data.loading import BatchLoader
from seqloom.data.readers.text_files import fingerprint, resolve
from seqloom.data.split import Read, hold_out
from seqloom.interrupt import Interrupted, interruptible
from seqloom.model import Config, assess, document, opened
from seqloom.models.encoder import LayerFactory
from seqloom.run import Run, refuse_existing
from seqloom.training.distributed import SERIAL_LIMIT, Team, join
from seqloom.training.lessons import is_taught, teach
from seqloom.training.loop import Diverged, Evaluation, Progress
from seqloom.training.loop import train as iterate
from seqloom.training.snapshots import flatten

Listener = Callable[[Run, Progress], object]


DRAW_SECONDS = 60
"""Between two drawings of the learning curves during a training."""


@dataclass(frozen=True)
class Data:
    """The readers of the training and the development examples."""

    train: Read
    dev: Read


def data(config: Config) -> Data:
    """Where the examples of a task come from; the development examples may be a share of the training file."""
    task = config.task

    def reader(source: Path) -> Read:
        return lambda: task.read(source)

    train = reader(resolve(task.train))
    if task.dev:
        return Data(train, reader(resolve(task.dev)))
    if not task.dev_fraction:
        return Data(train, lambda: iter(()))
    return Data(*hold_out(train, task.dev_fraction, seed=config.train.seed, sequential=task.sequential, gap=task.gap))


def train(
    config: Config | str | Path,  # or the name of a TOML file
    overrides: Sequence[str] = (),  # of a file: section.key=value
    *,
    output: str | Path | None = None,  # folder of the run; None: runs/<task>, or runs/<task>-2 and so on
    layer: LayerFactory | None = None,
    listeners: Sequence[Listener] = (),
) -> Run:
    """Train a model in a new run."""
    if not isinstance(config, Config):
        config = Config.build(document(str(config), overrides))
    with join() as team, _machine(config):
        config = config.with_layer(layer)
        if output:
            refuse_existing(output)
        sources = data(config)
        config = config._replace(task=config.task.fit(sources.train()))
        module = _fresh(config)  # what cannot be built leaves no run behind
        run = _shared(team, lambda: _create(config, output))
        _go(run, config, module, sources, None, listeners, team)
    return run


def resume(path: Path, *, layer: LayerFactory | None = None, listeners: Sequence[Listener] = ()) -> Run:
    """Go on with a run that was stopped, bit for bit as if it had not been."""
    run = Run.open(path)
    config = opened(run, layer=layer)
    with join() as team, _machine(config):
        _check_data(run, config)
        sources = data(config)
        start = run.load("last") if run.saved("last") else None
        if start is None:  # pretrained vectors, which are a part of the weights later, are read once more
            config = config._replace(task=config.task.fit(sources.train()))
        _go(run, config, _fresh(config), sources, start, listeners, team)
    return run


def leads() -> bool:
    """Whether this process is the one that speaks for its team."""
    return os.environ.get("RANK", "0") == "0"


def _create(config: Config, output: str | Path | None) -> Run:
    assert config.task.learned is not None  # noqa: S101  it was fitted
    folder = output or free(Path("runs", config.name))
    learned = config.task.learned.model_dump_json()
    facts = environment() | {"data": _fingerprints(config)}
    run = Run.create(folder, config=config.text(), learned=learned, environment=facts)
    for remark in config.task.remarks:
        run.log(remark)
    return replace(run, remarks=config.task.remarks)


def _fingerprints(config: Config) -> dict[str, Any]:
    """Of all files that the training reads."""
    return {name: fingerprint(name) for name in config.task.files}


def _check_data(run: Run, config: Config) -> None:
    """Refuse to go on with other data than the run began with."""
    if name := changed(run, config):
        raise BadRun(f"{name}: is not as it was when {run.path} began, and a run goes on with the same data only")


def changed(run: Run, config: Config) -> str:
    """The first file that is not as it was when a run began; empty: there is none."""
    before = run.environment.get("data", {})
    return next((name for name, found in _fingerprints(config).items() if found != before.get(name, found)), "")


def free(folder: Path) -> Path:
    """The folder, or the first of folder-2, folder-3 … that does not exist."""
    names = (folder if number == 1 else folder.with_name(f"{folder.name}-{number}") for number in count(1))
    return next(path for path in names if not os.path.lexists(path))


def environment() -> dict[str, Any]:
    """What a run depends on besides its configuration."""
    packages = ("torch", "numpy", "llvmlite", "tokenizers")
    return {
        "seqloom": seqloom.__version__,
        "python": platform.python_version(),
        **{name: version(name) for name in packages},
        "system": platform.platform(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "command": sys.argv[1:],
    }


def _fresh(config: Config) -> nn.Module:
    """The model before its training; every process begins with the same weights."""
    torch.manual_seed(config.train.seed)
    return config.task.build_model().to(config.train.device)


def _go(
    run: Run,
    config: Config,
    module: nn.Module,
    sources: Data,
    start: Snapshot | None,
    listeners: Sequence[Listener],
    team: Team,
) -> None:
    with run.lock() if team.leads else nullcontext(), interruptible() as interrupted:
        torch.manual_seed(config.train.seed + 7919 * team.rank)
        dev = list(sources.dev())
        if not dev and (config.task.dev or config.task.dev_fraction):
            raise ValueError(
                "there are no development examples: give task.dev, or raise task.dev_fraction (0: go without)"
            )
        taught = is_taught(module)
        if taught and not team.leads:
            return
        team = SERIAL_LIMIT if taught else team  # they take several threads, and no process besides
        rows = start.facts["rows"] if start else 0
        if team.leads:
            run.rewind(rows)
        keeper = Keeper(run, config, team, dev=dev, rows=rows, seconds=_spent(start))
        evaluate = (lambda model: _evaluation(run, config, model, dev, team, interrupted)) if dev else None
        if taught:
            progress = teach(module, sources.train, config.train, evaluate=evaluate, spent=keeper.spent, start=start)
        else:
            progress = iterate(
                module,
                _batches(config, sources.train, team),
                config.task.loss,
                config.train,
                evaluate=evaluate,
                spent=keeper.spent,
                start=start,
                team=team,
            )
        try:
            for event in progress:
                keeper.keep(event)
                for listener in listeners if team.leads else ():
                    listener(run, event)
                if team.agree(stop=interrupted()) and not event.finished:
                    keeper.save(event)
                    raise Interrupted(run.path)
        except Diverged as error:
            if team.leads:
                batch = [(part.inputs, part.target) for part in error.batch]
                write_tensors(run.path / "diverged.safetensors", flatten(batch, "batch"))
                run.log(str(error))
            raise


def _batches(config: Config, read: Read, team: Team) -> BatchLoader:
    settings = config.train
    return BatchLoader(
        read,
        config.task.collate,
        rows=settings.batch_size,
        tokens=settings.batch_tokens,
        steps=settings.bptt_steps,
        seed=settings.seed,
        pool=settings.shuffle_buffer,
        workers=settings.workers,
        parts=settings.accumulate * team.size,
        own=range(team.rank * settings.accumulate, (team.rank + 1) * settings.accumulate),
    )


class Keeper:
    """Writes down what happens: the log, the metrics, the checkpoints."""

    def __init__(self, run: Run, config: Config, team: Team, *, dev: Sequence[Any], rows: int, seconds: float) -> None:
        self.run, self.config, self.team, self.dev, self.rows = run, config, team, dev, rows
        self.started = time.monotonic() - seconds
        self.saved = self.drawn = time.monotonic()

    def spent(self) -> float:
        """The share of the minutes that is over."""
        minutes = self.config.train.minutes
        return (time.monotonic() - self.started) / 60 / minutes if minutes else 0.0

    def keep(self, event: Progress) -> None:
        """Record an event, and save what it calls for."""
        if self.team.leads:
            self._record(event)
        due = self.team.agree(stop=time.monotonic() - self.saved > 60 * self.config.train.save_every_minutes)
        if event.best and event.evaluation is not None:
            facts = {"update": event.update, "epoch": event.epoch, "metrics": event.evaluation.metrics}
            if self.team.leads:
                self.run.save("best", Snapshot(event.weights(), {}, facts))
        if due or event.pending or event.evaluation or event.finished:
            self.save(event)
        if self.team.leads and (event.finished or (event.evaluation and time.monotonic() - self.drawn > DRAW_SECONDS)):
            pictures.draw(self.run, self.config, dev=self.dev if event.finished else ())
            self.drawn = time.monotonic()

    def save(self, event: Progress) -> None:
        """A checkpoint to go on from; all processes of a team take part."""
        snapshot = event.snapshot()
        facts = {**snapshot.facts, "rows": self.rows, "seconds": time.monotonic() - self.started}
        if self.team.leads:
            self.run.save("last", snapshot._replace(facts=facts))
        self.saved = time.monotonic()

    def _record(self, event: Progress) -> None:
        if event.logged:
            values = {"loss": event.loss, "rate": event.rate}
            if event.norm is not None:
                values |= {"norm": event.norm, "clipped": event.clipped}
            self._row(values | ({"skipped": event.skipped} if event.skipped else {}), event)
        if event.evaluation is not None:
            self._row({"dev": event.evaluation.metrics}, event)
        if event.finished:
            self.run.log(f"finished: {event.finished}")

    def _row(self, values: dict[str, Any], event: Progress) -> None:
        row = {"update": event.update, "epoch": round(event.epoch, 6), **values}
        self.run.record(row)
        self.rows += 1
        shown = values.get("dev", values)
        numbers = (f"{name} {value:.6g}" for name, value in shown.items() if isinstance(value, float | int))
        self.run.log(f"update {event.update}: {'dev ' if 'dev' in values else ''}{', '.join(numbers)}")


def _evaluation(
    run: Run, config: Config, module: nn.Module, dev: Sequence[Any], team: Team, interrupted: Callable[[], bool]
) -> Evaluation:
    def alive() -> None:
        if team.size == 1 and interrupted():
            raise Interrupted(run.path)

    metrics = assess(config, module, dev, team=team, alive=alive)
    value = float(metrics[config.task.main_metric])
    return Evaluation(value if config.task.higher_is_better else -value, metrics, config.task.main_metric)


def _spent(start: Snapshot | None) -> float:
    return float(start.facts["seconds"]) if start else 0.0


def _shared(team: Team, create: Callable[[], Run]) -> Run:
    """The run that the first process makes, opened by the others once it is there."""
    run = create() if team.leads else None
    name = team.gather(str(run.path if run else "").encode())[0].decode()
    return run or Run.open(name)


@contextmanager
def _machine(config: Config) -> Iterator[None]:
    """The threads that are asked for, and a device that exists."""
    device = config.train.device
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:  # torch's own, by the kind of device
        raise ValueError(f'train.device is "{device}": {str(error).splitlines()[0]}') from None
    before = torch.get_num_threads()
    if config.train.threads:
        torch.set_num_threads(config.train.threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)
