"""From a configuration to a trained run: read, fit, train, evaluate, save."""

import math
import os
import platform
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from importlib.metadata import version
from itertools import count
from pathlib import Path
from typing import Any

import torch
from torch import nn

import seqloom
from seqloom import run_plots, terminal
from seqloom.checkpoint import RunError, Snapshot, write_tensors
from seqloom.config import with_changes
from seqloom.data.dataset_summary import DatasetSummary, findings
from seqloom.data.loading import BatchLoader
from seqloom.data.readers.memory import IN_MEMORY, digest
from seqloom.data.readers.text_files import STANDARD_INPUT, DataError, fingerprint, resolve
from seqloom.data.split import Read, hold_out, hold_out_fold
from seqloom.evaluation import evaluate, split_details
from seqloom.interrupt import Interrupted, interruptible
from seqloom.loggers.logger import check_installed, open_loggers
from seqloom.models.baseline import TargetCounter
from seqloom.models.encoder import LayerFactory
from seqloom.run import Run, refuse_existing
from seqloom.run_config import Config, load_config, resume_changes
from seqloom.run_summary import model_card, summarize
from seqloom.training import engine, schedules
from seqloom.training.distributed import ProcessGroup, process_group
from seqloom.training.memory import LongestExamples, check_memory
from seqloom.training.progress import Evaluation, Progress
from seqloom.training.self_trained import SelfTrained
from seqloom.training.snapshots import flatten_state
from seqloom.warm_start import VocabularySource, WarmStart

Listener = Callable[[Run, Progress], object]

DRAW_SECONDS = 60
"""Minimum time between two drawings of the learning curves during training."""


@dataclass(frozen=True)
class DataReaders:
    """Readers of the training and the development examples."""

    train: Read
    dev: Read


@dataclass(frozen=True)
class Sources:
    """Data in memory, which take the place of the files of a configuration."""

    train: Any = None  # as a task reads it; None: the file of the configuration
    dev: Any = None

    def training_source(self, config: Config) -> Any:
        return resolve(config.task.train) if self.train is None else self.train

    def dev_source(self, config: Config) -> Any:
        return resolve(config.task.dev) if self.dev is None else self.dev


FILES_ONLY = Sources()


def data_readers(config: Config, sources: Sources = FILES_ONLY) -> DataReaders:
    """The readers of a configuration; without development data, a share of the training data is held out."""
    task = config.task

    def reader(source: Any) -> Read:
        return lambda: task.read(source)

    limit = config.train.max_length
    read_train = reader(sources.training_source(config))

    def train() -> Iterator[Any]:
        return (example for example in read_train() if not limit or len(example) <= limit)

    if task.dev:
        return DataReaders(train, reader(sources.dev_source(config)))
    if task.fold:

        def stratum(example: Any) -> str:
            labels = task.summarize_example(example).labels
            return labels[0] if len(labels) == 1 else ""

        return DataReaders(*hold_out_fold(train, *task.fold, sequential=task.sequential, gap=task.gap, stratum=stratum))
    if not task.dev_fraction:
        return DataReaders(train, lambda: iter(()))
    return DataReaders(
        *hold_out(train, task.dev_fraction, seed=config.train.seed, sequential=task.sequential, gap=task.gap)
    )


def with_detected(config: Config, sources: Sources = FILES_ONLY) -> tuple[Config, tuple[str, ...]]:
    """The configuration with the settings that the training data show, such as their columns, and notes about them."""
    source = sources.training_source(config)
    if isinstance(source, Path) and source == STANDARD_INPUT:
        return config, ()
    task, notes = config.task.resolve(source)
    name = config.task.train if sources.train is None else "data"
    return config._replace(task=task), tuple(f"{name}: {note}" for note in notes)


def train(
    config: Config,
    *,
    output: str | Path | None = None,  # run folder; None: runs/<task>, or runs/<task>-2 and so on
    layer: LayerFactory | None = None,
    start_from: str | Path | None = None,  # a run whose weights are the initial ones
    vocabulary: VocabularySource = "shared",  # with start_from: that run's, or that of the data, mapped to it
    listeners: Sequence[Listener] = (),
    sources: Sources = FILES_ONLY,
    plots: bool = True,  # draw learning curves and predictions
) -> Run:
    """Train a model in a new run folder."""
    check_installed(config.train.loggers)
    with process_group() as group, _torch_settings(config):
        config = config.with_layer(layer)
        if output:
            refuse_existing(output)
        config, notes = with_detected(config, sources)
        notes = (*notes, *_skipped(config, sources))
        readers = data_readers(config, sources)
        targets = TargetCounter(config.task.baseline_targets)
        summary = _summary(config)
        longest = LongestExamples(rows=max(config.train.batch_size // config.train.accumulate, 1))
        config = config._replace(task=config.task.fit(summary.watch(longest.watch(targets.watch(readers.train())))))
        dev = list(readers.dev())
        if start_from is None:
            module = _init_model(config)  # before the directory: a model that cannot be built leaves no run behind
        else:
            source = Run.open(start_from)
            warm = WarmStart(source, load_config(source, layer=layer), vocabulary)
            config = config._replace(task=warm.adapt(config.task))
            module = _init_model(config)
            notes = (*notes, *warm.load(config.task, module))
        _check_memory(config, module, longest, dev)
        warnings = (*_findings(summary, dev, config), *config.task.warnings)
        run = _create_once(group, lambda: _create(config, output, sources, notes=notes, warnings=warnings))
        _run_training(
            run,
            config,
            module,
            readers=readers,
            dev=dev,
            start=None,
            listeners=listeners,
            group=group,
            targets=targets,
            plots=plots,
        )
    return run


def _skipped(config: Config, sources: Sources) -> tuple[str, ...]:
    """A note about the training examples that are longer than train.max_length."""
    limit = config.train.max_length
    source = sources.training_source(config)
    if not limit or (isinstance(source, Path) and source == STANDARD_INPUT):
        return ()
    first, skipped, total = None, 0, 0
    for example in config.task.read(source):
        total += 1
        if len(example) > limit:
            first, skipped = first or example.location, skipped + 1
    if not skipped:
        return ()
    if skipped == total:
        raise DataError(config.task.train, f"all {total:,} examples are longer than train.max_length = {limit:,}")
    return (f"{first}: {skipped:,} of {total:,} examples are longer than {limit:,} (train.max_length) and skipped",)


def _check_memory(config: Config, module: nn.Module, train: LongestExamples, dev: Sequence[Any]) -> None:
    """DataError with the place of the longest example if its batch cannot fit into memory."""
    if config.train.device != "cpu" or config.train.bptt_steps or isinstance(module, SelfTrained):
        return
    steps = config.task.steps
    if train.longest is not None:
        rows = 1 if config.train.batch_tokens else train.batch_rows()
        for count in sorted({1, rows}):
            check_memory(module, train.longest, steps=steps(train.longest), rows=count, training=True)
    if dev:
        longest = max(dev, key=len)
        check_memory(module, longest, steps=steps(longest), training=False)


def _summary(config: Config) -> DatasetSummary:
    return DatasetSummary(config.task.summarize_example, target_name=config.task.target_name, keep=1)


def _findings(train: DatasetSummary, dev: Sequence[Any], config: Config) -> list[str]:
    """What may be wrong with the data."""
    if not dev:
        return findings(train, None)
    summary = _summary(config)
    for example in dev:
        summary.add(example)
    return findings(train, summary)


def resume(
    path: Path,
    overrides: Sequence[str] = (),  # train.key=value, such as more epochs for a finished run
    *,
    layer: LayerFactory | None = None,
    listeners: Sequence[Listener] = (),
    sources: Sources = FILES_ONLY,  # the same data again, if they were in memory
) -> Run:
    """Resume an interrupted run, bit for bit as if it had never stopped, or continue a finished one."""
    run = Run.open(path)
    config = load_config(run, layer=layer)
    if run.summary().get("finished") and not run.saved("last"):
        if not overrides:
            return run
        raise RunError(f'{path}: only its best weights were kept (train.keep = "best"); start a new run with --from')
    changes = resume_changes(overrides)
    config = config._replace(train=with_changes(config.train, "train", changes))
    check_installed(config.train.loggers)
    with process_group() as group, _torch_settings(config):
        _check_data(run, config, sources)
        readers = data_readers(config, sources)
        start = run.load("last") if run.saved("last") else None
        targets = None
        if start is None:  # pretrained vectors are not in learned.json: they have to be read again
            targets = TargetCounter(config.task.baseline_targets)
            config = config._replace(task=config.task.fit(targets.watch(readers.train())))
        module = _init_model(config)
        before = run.summary()
        if changes:
            run = replace(run, notes=_changes_notes(config, changes, start))
            if group.is_main:
                run.write_summary(before | {"train": before.get("train", {}) | changes})
                for note in run.notes:
                    run.log(note)
        events = _run_training(
            run, config, module, readers=readers, start=start, listeners=listeners, group=group, targets=targets
        )
        if changes and not events and group.is_main:
            run.write_summary(before)
            raise ValueError(
                f"{path}: nothing left to train ({before.get('finished')}): raise the limit that has ended it, such as "
                "train.epochs, which counts from the start of the run"
            )
    return run


def _changes_notes(config: Config, changes: Mapping[str, Any], start: Snapshot | None) -> tuple[str, ...]:
    """What is changed when a run is resumed, and what that does to the learning rate."""
    notes = ["resumed with " + ", ".join(f"train.{name} = {value}" for name, value in changes.items())]
    limits = {"epochs", "updates", "tokens", "minutes"}
    if start is not None and limits & changes.keys() and config.train.schedule in schedules.NEED_TOTAL_UPDATES:
        notes.append(
            f'train.schedule = "{config.train.schedule}" is stretched to the new limit: the learning rate rises again'
        )
    return tuple(notes)


def is_main_process() -> bool:
    """Whether this process prints and writes, as torchrun's environment variables say."""
    return os.environ.get("RANK", "0") == "0"


def _create(
    config: Config,
    output: str | Path | None,
    sources: Sources,
    *,
    notes: tuple[str, ...],
    warnings: tuple[str, ...],
) -> Run:
    assert config.task.learned is not None  # noqa: S101  the task is fitted
    folder = output or unused_folder(Path("runs", config.name))
    learned = config.task.learned.model_dump_json()
    facts = environment() | {"data": _fingerprints(config, sources)}
    run = Run.create(folder, config=config.text(), learned=learned, environment=facts)
    for line in (*notes, *warnings):
        run.log(line)
    return replace(run, notes=notes, warnings=warnings)


def _fingerprints(config: Config, sources: Sources = FILES_ONLY) -> dict[str, Any]:
    """Fingerprints of all data that training reads."""
    task = config.task
    prints = {name: fingerprint(name) for name in task.files if name != IN_MEMORY}
    in_memory = {"train": sources.train, "dev": sources.dev}
    return prints | {
        f"{name} {IN_MEMORY}": digest(task.read(source)) for name, source in in_memory.items() if source is not None
    }


def _check_data(run: Run, config: Config, sources: Sources) -> None:
    """Refuse to resume without the data, or with different data."""
    missing = [
        name
        for name, file, source in (("data", config.task.train, sources.train), ("dev", config.task.dev, sources.dev))
        if file == IN_MEMORY and source is None
    ]
    if missing:
        again = ", ".join(f"{name}=…" for name in missing)
        raise RunError(
            f"{run.path}: was trained on data in memory; give the same data again: "
            f'seqloom.resume("{run.path}", {again})'
        )
    if name := changed_file(run, config, sources):
        raise RunError(
            f"{name}: has changed since {run.path} was started; a run can only be resumed with the same data"
        )


def changed_file(run: Run, config: Config, sources: Sources = FILES_ONLY) -> str:
    """The first data file that has changed since a run was started; empty: none has."""
    before = run.environment.get("data", {})
    return next((name for name, now in _fingerprints(config, sources).items() if now != before.get(name, now)), "")


def unused_folder(folder: Path) -> Path:
    """The folder, or the first of folder-2, folder-3 … that does not exist."""
    names = (folder if number == 1 else folder.with_name(f"{folder.name}-{number}") for number in count(1))
    return next(path for path in names if not os.path.lexists(path))


def environment() -> dict[str, Any]:
    """Versions and machine, as recorded in every run."""
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


def _init_model(config: Config) -> nn.Module:
    """The model with its initial weights, which are the same in every process."""
    torch.manual_seed(config.train.seed)
    return config.task.build_model().to(config.train.device)


def _run_training(
    run: Run,
    config: Config,
    module: nn.Module,
    *,
    readers: DataReaders,
    dev: list[Any] | None = None,  # None: not read yet
    start: Snapshot | None,
    listeners: Sequence[Listener],
    group: ProcessGroup,
    targets: TargetCounter | None,  # of a new run
    plots: bool = True,
) -> int:
    """Train to the end; the number of events, which is 0 if the training had already finished."""
    events_seen = 0
    with run.lock() if group.is_main else nullcontext(), interruptible() as interrupted:
        torch.manual_seed(config.train.seed + 7919 * group.rank)  # other dropout masks in each process
        dev = list(readers.dev()) if dev is None else dev
        if not dev and (config.task.dev or config.task.dev_fraction or config.task.dev_fold):
            raise ValueError("there are no development examples: set task.dev, or raise task.dev_fraction (0: none)")
        config.task.check_targets(dev)
        if targets is not None and group.is_main:
            run.write_summary(_facts(config, module, targets, dev))
        batches = batch_loader(config, readers.train, group)
        rule = engine.update_rule(module, batches, config.task.loss, config.train, group=group)
        group = rule.group  # not every model is trained by all processes
        rows = start.facts["rows"] if start else 0
        if group.is_main:
            run.truncate_rows(rows)
        seconds = float(start.facts["seconds"]) if start else 0.0
        recorder = RunRecorder(run, config, group, dev=dev, rows=rows, seconds=seconds, plots=plots)

        def evaluate(model: nn.Module) -> Evaluation:
            return _evaluate(run, config, model, dev=dev, group=group, interrupted=interrupted)

        events = engine.train(
            rule, evaluate=evaluate if dev else None, time_fraction=recorder.time_fraction, start=start
        )
        update = start.facts["position"]["update"] if start else 0
        try:
            with open_loggers(config.train.loggers if group.is_main else (), run, update=update) as log:
                for event in events:
                    events_seen += 1
                    recorder.record(event)
                    if group.is_main:
                        log(run, event)
                        for listener in listeners:
                            listener(run, event)
                    if group.any_rank(flag=interrupted()) and not event.finished:
                        recorder.save(event)
                        if group.is_main:
                            recorder.describe(event)
                        raise Interrupted(run.path)
        except engine.Diverged as error:
            if group.is_main:
                if error.batch:
                    batch = [(part.inputs, part.target) for part in error.batch]
                    write_tensors(run.path / "diverged.safetensors", flatten_state(batch, "batch"))
                run.log(str(error))
            raise
    return events_seen


def _facts(config: Config, module: nn.Module, targets: TargetCounter, dev: Sequence[Any]) -> dict[str, Any]:
    """What is known about a run when its training starts: when that was, sizes, and the baseline."""
    baseline = config.task.fit_baseline(targets.counts, dev)
    return {
        "started": datetime.now(UTC).astimezone().isoformat(timespec="seconds"),
        "examples": {"train": targets.examples, "dev": len(dev)},
        "parameters": sum(parameter.numel() for parameter in module.parameters()),
        "baseline": None if baseline is None else baseline.model_dump(),
        "baseline_scores": config.task.score_baseline(baseline, dev) if baseline is not None and dev else {},
    }


def batch_loader(config: Config, read: Read, group: ProcessGroup) -> BatchLoader:
    """The training batches of a process."""
    settings = config.train
    return BatchLoader(
        read,
        config.task.collate,
        batch_size=settings.batch_size,
        batch_tokens=settings.batch_tokens,
        bptt_steps=settings.bptt_steps,
        seed=settings.seed,
        shuffle_buffer=settings.shuffle_buffer,
        workers=settings.workers,
        parts=settings.accumulate * group.size,
        local_parts=range(group.rank * settings.accumulate, (group.rank + 1) * settings.accumulate),
    )


class RunRecorder:
    """Writes the log, the metrics and the checkpoints of a training run."""

    def __init__(
        self,
        run: Run,
        config: Config,
        group: ProcessGroup,
        *,
        dev: Sequence[Any],
        rows: int,  # of metrics.jsonl so far
        seconds: float,  # of training before it was resumed
        plots: bool = True,
    ) -> None:
        self.run, self.config, self.group, self.dev, self.rows = run, config, group, dev, rows
        self.plots = plots
        self.started = time.monotonic() - seconds
        self.saved = self.drawn = time.monotonic()

    def time_fraction(self) -> float:
        """The share of train.minutes that has passed."""
        minutes = self.config.train.minutes
        return (time.monotonic() - self.started) / 60 / minutes if minutes else 0.0

    def record(self, event: Progress) -> None:
        """Log an event, and write checkpoints and plots when they are due."""
        if self.group.is_main:
            self._log(event)
        due = self.group.any_rank(flag=time.monotonic() - self.saved > 60 * self.config.train.save_every_minutes)
        if event.best and event.evaluation is not None:
            facts = {"update": event.update, "epoch": event.epoch, "metrics": event.evaluation.metrics}
            if self.group.is_main:
                self.run.write_details(terminal.json_value(event.evaluation.details))
                self.run.save("best", Snapshot(event.weights(), {}, facts))
        if due or event.pending or event.evaluation or event.finished:
            self.save(event)
        drawing_due = event.finished or (event.evaluation and time.monotonic() - self.drawn > DRAW_SECONDS)
        if self.group.is_main and self.plots and drawing_due:
            run_plots.draw(self.run, self.config, dev=self.dev if event.finished else ())
            self.drawn = time.monotonic()
        if self.group.is_main and event.finished:
            self.describe(event)

    def describe(self, event: Progress) -> None:
        """Write the state of the training and the model card, at its end or when it is interrupted."""
        state = {"finished": event.finished, "seconds": time.monotonic() - self.started, "update": event.update}
        self.run.write_summary(self.run.summary() | state)
        self.run.write_card(model_card(summarize(self.run, self.config), previous=self.run.card()))
        if event.finished and self.config.train.keep == "best":
            self.run.keep_best()

    def save(self, event: Progress) -> None:
        """Write a checkpoint to resume from; all processes of the group take part."""
        snapshot = event.snapshot()
        facts = {**snapshot.facts, "rows": self.rows, "seconds": time.monotonic() - self.started}
        if self.group.is_main:
            self.run.save("last", snapshot._replace(facts=facts))
        self.saved = time.monotonic()

    def _log(self, event: Progress) -> None:
        if event.logged:
            values = {"loss": event.loss, "learning_rate": event.learning_rate}
            if event.gradient_norm is not None:
                values |= {"gradient_norm": event.gradient_norm, "clipped": event.clipped}
            self._write_row(values | ({"skipped": event.skipped} if event.skipped else {}), event)
        if event.evaluation is not None:
            self._write_row({"dev": event.evaluation.metrics}, event)
        if event.finished:
            self.run.log(f"finished: {event.finished}")

    def _write_row(self, values: dict[str, Any], event: Progress) -> None:
        row = {"update": event.update, "epoch": round(event.epoch, 6), **values}
        self.run.record(row)
        self.rows += 1
        shown = values.get("dev", values)
        numbers = (
            f"{name} {terminal.format_number(value, 6)}"
            for name, value in shown.items()
            if isinstance(value, float | int)
        )
        self.run.log(f"update {event.update}: {'dev ' if 'dev' in values else ''}{', '.join(numbers)}")


def _evaluate(
    run: Run,
    config: Config,
    module: nn.Module,
    *,
    dev: Sequence[Any],
    group: ProcessGroup,
    interrupted: Callable[[], bool],
) -> Evaluation:
    def stop_if_interrupted() -> None:
        if group.size == 1 and interrupted():
            raise Interrupted(run.path)

    results = evaluate(config, module, dev, group=group, before_batch=stop_if_interrupted)
    metrics, details = split_details(results)
    value = float(metrics[config.task.main_metric])
    if math.isnan(metrics.get("loss") or 0.0):  # some labels or words are right even if all outputs are NaN
        value = math.nan
    return Evaluation(value if config.task.higher_is_better else -value, metrics, config.task.main_metric, details)


def _create_once(group: ProcessGroup, create: Callable[[], Run]) -> Run:
    """The run that the main process creates, opened by the others once it exists."""
    run = create() if group.is_main else None
    name = group.all_gather(str(run.path if run else "").encode())[0].decode()
    return run or Run.open(name)


@contextmanager
def _torch_settings(config: Config) -> Iterator[None]:
    """Check the device, and set the number of threads while training."""
    device = config.train.device
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError, ImportError):  # which one depends on the kind of device
        available = ", ".join(_devices())
        raise ValueError(
            f'train.device is "{device}", which this machine does not have; expected {available}'
        ) from None
    before = torch.get_num_threads()
    if config.train.threads:
        torch.set_num_threads(config.train.threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _devices() -> list[str]:
    """The devices that torch can use here."""
    devices = ["cpu"]
    if torch.cuda.is_available():
        devices += ["cuda", *(f"cuda:{number}" for number in range(torch.cuda.device_count()))]
    return devices + ["mps"] * torch.backends.mps.is_available()
