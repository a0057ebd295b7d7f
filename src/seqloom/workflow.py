"""From a configuration to a trained run: read, fit, train, evaluate, save."""

import math
import os
import platform
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import replace
from datetime import UTC, datetime
from importlib.metadata import version
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import nn

import seqloom
from seqloom import files
from seqloom.checkpoint import RunError, Snapshot, write_tensors
from seqloom.config import with_changes
from seqloom.data.dataset_summary import DatasetSummary, all_repeated, findings
from seqloom.data.loading import BatchLoader
from seqloom.data.readers.memory import IN_MEMORY
from seqloom.data.readers.text_files import pluralize
from seqloom.data.split import Read
from seqloom.diagnosis.training_doctor import TrainingDoctor
from seqloom.evaluation import compare_with_baseline, predict_all, score, split_details
from seqloom.interrupt import Interrupted, interruptible, is_closed_output
from seqloom.layers.layer import count_parameters
from seqloom.layers.layer_error import LayerError, describe_error
from seqloom.learning_monitor import LearningMonitor
from seqloom.loggers.logger import check_installed, open_loggers
from seqloom.metrics.confidence import MetricSums, SignificanceTest
from seqloom.models.baseline import TargetCounter, load_baseline
from seqloom.models.encoder import LayerFactory
from seqloom.run import Run, refuse_existing
from seqloom.run_config import Config, custom_layer, load_config, resume_changes
from seqloom.run_recorder import RunRecorder
from seqloom.sample_answers import describe_samples, sample_answers
from seqloom.training import engine, schedules
from seqloom.training.config import LIMITS, TrainConfig
from seqloom.training.cores import busy_note, default_threads
from seqloom.training.distributed import ProcessGroup, process_group
from seqloom.training.divergence import Diverged
from seqloom.training.memory import LongestExamples, check_training_memory
from seqloom.training.progress import Evaluation, Position, Progress
from seqloom.training.snapshots import flatten_state
from seqloom.training.stored_state import check_facts, read_position
from seqloom.training_data import (
    FILES_ONLY,
    DataReaders,
    Sources,
    check_unchanged,
    data_readers,
    fingerprints,
    no_dev_examples,
    suggesting_task,
    with_detected,
)
from seqloom.warm_start import VocabularySource, WarmStart

Listener = Callable[[Run, Progress], object]


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
        if output:
            refuse_existing(output)
        new = _prepare(config.with_layer(layer), sources, _warm_start(start_from, layer, vocabulary))
        run = _create_once(group, lambda: _create(new, output, sources))
        with _removing_untrained(run, group) as note_event:
            _run_training(
                run,
                new.config,
                new.module,
                readers=new.readers,
                dev=new.dev,
                start=None,
                listeners=[note_event, *listeners],
                group=group,
                targets=new.targets,
                repeated=new.repeated,
                plots=plots,
            )
    return run


@contextmanager
def _removing_untrained(run: Run, group: ProcessGroup) -> Iterator[Listener]:
    """Remove a run that this process has created if its training fails before the first update; takes the events.

    An interrupted training can be resumed, and a divergence examined: their runs stay.
    """
    is_trained = False

    def note_event(run: Run, event: Progress) -> None:  # noqa: ARG001
        nonlocal is_trained
        is_trained = True

    try:
        yield note_event
    except (Interrupted, Diverged):
        raise
    except Exception:
        if group.is_main and not is_trained:
            with suppress(RunError):  # the error of the training is the one to report
                run.remove()
        raise


class NewTraining(NamedTuple):
    """What a new training starts from."""

    config: Config  # with the fitted task
    module: nn.Module  # with its initial weights
    readers: DataReaders
    dev: list[Any]
    targets: TargetCounter  # of the training examples
    notes: tuple[str, ...]
    warnings: tuple[str, ...]
    repeated: int  # dev examples, if all of them also occur in the training data


def _prepare(config: Config, sources: Sources, warm_start: WarmStart | None) -> NewTraining:
    """Read the data, fit the task and build the model; what is wrong with any of them leaves no run behind."""
    config, notes = with_detected(config, sources)
    readers = data_readers(config, sources)
    targets = TargetCounter(config.task.baseline_targets)
    summary = _summary(config)
    longest = LongestExamples(config.train)
    with suggesting_task(config, sources):
        config = config._replace(task=config.task.fit(summary.watch(longest.watch(targets.watch(readers.train())))))
    notes = (*notes, *filter(None, [readers.limit.note(), _busy_note(config)]))
    dev = list(readers.dev())
    if not dev and (config.task.dev or config.task.dev_fraction or config.task.dev_fold):
        error = ValueError(no_dev_examples(config, targets.examples, sources))
        for note in notes:  # what was read in which way may be the reason
            error.add_note(note)
        raise error
    if warm_start is None:
        module = _init_model(config)
    else:
        config = config._replace(task=warm_start.adapt(config.task))
        module = _init_model(config)
        notes = (*notes, *warm_start.load(config.task, module))
    config.task.check_inputs(dev)
    config.task.check_targets(dev)
    too_long = None if config.task.no_max_length_reason else config.train.too_long
    check_training_memory(module, longest, dev, config.train, steps=config.task.steps, too_long=too_long)
    dev_summary = _summarize_dev(config, dev)
    repeated = len(dev) if dev_summary is not None and all_repeated(summary, dev_summary) else 0
    warnings = (*findings(summary, dev_summary), *config.task.warnings)
    notes = (*notes, _sizes(module, targets.examples, len(dev)))
    return NewTraining(config, module, readers, dev, targets, notes, warnings, repeated)


def _sizes(module: nn.Module, trained: int, dev: int) -> str:
    """A note of how much there is to train with, and what is trained."""
    parameters = count_parameters(module)
    examples = pluralize(trained, "training example")
    return ", ".join(
        [examples, *[f"{dev:,} dev"] * bool(dev), *[pluralize(parameters, "parameter")] * bool(parameters)]
    )


def _warm_start(path: str | Path | None, layer: LayerFactory | None, vocabulary: VocabularySource) -> WarmStart | None:
    """The run whose weights are the initial ones, if there is one."""
    if path is None:
        return None
    run = Run.open(path)
    run.refuse_int8("trained further")
    return WarmStart(run, load_config(run, layer=layer), vocabulary)


def _summary(config: Config) -> DatasetSummary:
    task = config.task
    return DatasetSummary(
        task.summarize_example,
        target_name=task.target_name,
        target_column=getattr(task, "label_column", None),
        merges_labels=hasattr(task, "lowercase_labels"),
        keep=1,
    )


def _summarize_dev(config: Config, dev: Sequence[Any]) -> DatasetSummary | None:
    """What the development data hold; None if there are none."""
    summary = _summary(config)
    for example in dev:
        summary.add(example)
    return summary if dev else None


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
    run.refuse_int8("resumed")
    config = load_config(run, layer=layer)
    if run.summary().get("finished") and not run.saved("last"):
        if not overrides:
            return run
        raise RunError(f'{path}: only its best weights were kept (train.keep = "best"); start a new run with --from')
    changes = resume_changes(overrides)
    planned = config.train
    config = config._replace(train=with_changes(config.train, "train", changes))
    check_installed(config.train.loggers)
    with process_group() as group, _torch_settings(config):
        check_unchanged(run, config, sources)
        readers = data_readers(config, sources)
        start = run.load("last") if run.saved("last") else None
        targets = None
        if start is None:  # pretrained vectors are not in learned.json: they have to be read again
            targets = TargetCounter(config.task.baseline_targets)
            config = config._replace(task=config.task.fit(targets.watch(readers.train())))
        if start is None:
            module = _init_model(config)
        else:
            _check_limits(run, config, check_facts(start), changes)
            torch.manual_seed(config.train.seed)
            module = config.task.load_model(start.model, run.path).to(config.train.device)
        before = run.summary()
        notes = (*(_changes_notes(planned, changes, start) if changes else ()), *_threads_notes(run, config))
        run = replace(run, notes=notes)
        if group.is_main:
            if changes:
                run.write_summary(before | {"train": before.get("train", {}) | changes})
            for note in notes:
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


def _check_limits(run: Run, config: Config, position: Position, changes: Mapping[str, Any]) -> None:
    """Raise a RunError if a run is resumed with a limit that it has already passed."""
    settings = config.train
    done = {"epochs": position.epoch + (position.batch > 0), "updates": position.update, "tokens": position.seen}
    for name, reached in done.items():
        is_limit = name != "epochs" or not (settings.updates or settings.tokens)
        if is_limit and 0 < changes.get(name, 0) < reached:
            state = "begun" if name == "epochs" and position.batch else "done"
            raise RunError(
                f"{run.path}: train.{name} = {changes[name]} is below the {reached:,} {name} that are {state}; "
                "it counts from the start of the run: give a larger one"
            )


def _busy_note(config: Config) -> str:
    """What is to be said about threads that nobody has chosen."""
    return "" if config.train.threads else busy_note(torch.get_num_threads())


def _threads_notes(run: Run, config: Config) -> tuple[str, ...]:
    """A note if the number of threads is not that of the start: sums are added in another order."""
    before, now = run.environment.get("threads"), torch.get_num_threads()
    if before in (None, now):
        return tuple(filter(None, [_busy_note(config)]))
    note = f"resumed with {now} thread{'s' * (now != 1)}, started with {before}: results may differ in their last bits"
    return (f"{note}; train.threads={before} keeps them identical",)


def _changes_notes(planned: TrainConfig, changes: Mapping[str, Any], start: Snapshot | None) -> tuple[str, ...]:
    """What is changed when a run is resumed, and what that does to the learning rate."""
    notes = ["resumed with " + ", ".join(f"train.{name} = {value}" for name, value in changes.items())]
    limits = set(LIMITS) & changes.keys()
    if start is not None and limits and planned.schedule in schedules.NEED_TOTAL_UPDATES:
        later = any((changes[name] or math.inf) > (getattr(planned, name) or math.inf) for name in limits)
        effect = (
            "stretched to the new limit: the learning rate rises again"
            if later
            else ("shortened to the new limit: the learning rate falls sooner")
        )
        notes.append(f'train.schedule = "{planned.schedule}" is {effect}')
    return tuple(notes)


def is_main_process() -> bool:
    """Whether this process prints and writes, as torchrun's environment variables say."""
    return os.environ.get("RANK", "0") == "0"


def _create(new: NewTraining, output: str | Path | None, sources: Sources) -> Run:
    task = new.config.task
    assert task.learned is not None  # noqa: S101  the task is fitted
    facts = environment() | {"data": fingerprints(new.config, sources)}
    texts = {"config": new.config.text(), "learned": task.learned.model_dump_json()}
    run = None
    while run is None:
        folder = output or unused_folder(Path("runs", new.config.name))
        try:
            run = Run.create(folder, environment=facts, **texts)
        except RunError:
            if output or not os.path.lexists(folder):  # else another training has just taken the name
                raise
    for line in (*new.notes, *new.warnings):
        run.log(line)
    return replace(run, notes=new.notes, warnings=new.warnings)


def unused_folder(folder: Path) -> Path:
    """The folder, or the first of folder-2, folder-3 … that does not exist."""
    names = (folder if number == 1 else folder.with_name(f"{folder.name}-{number}") for number in count(1))
    return next(path for path in names if not os.path.lexists(path))


def create_unused_folder(folder: Path) -> Path:
    """Create the folder, or the first of folder-2, folder-3 … that does not exist; no other process gets the same."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    while True:
        unused = unused_folder(folder)
        with suppress(FileExistsError):
            unused.mkdir()
            return unused


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
    repeated: int = 0,  # dev examples, if all of them also occur in the training data
    plots: bool = True,
) -> int:
    """Train to the end; the number of events, which is 0 if the training had already finished."""
    events_seen = 0
    with run.lock() if group.is_main else nullcontext(), interruptible() as interrupted:
        torch.manual_seed(config.train.seed + 7919 * group.rank)  # other dropout masks in each process
        dev = _read_dev(config, readers) if dev is None else dev
        if targets is not None and group.is_main:
            run.write_summary(_facts(config, module, targets, dev) | {"dev_in_train": repeated})
        read = _stoppable(readers.train, run, interrupted) if group.size == 1 else readers.train
        batches = batch_loader(config, read, group)
        rule = engine.update_rule(module, batches, config.loss_function(), config.train, group=group)
        group = rule.group  # not every model is trained by all processes
        rows = start.facts["rows"] if start else 0
        if group.is_main:
            run.truncate_rows(rows)
        seconds = float(start.facts["seconds"]) if start else 0.0
        recorder = RunRecorder(run, config, group, dev=dev, rows=rows, seconds=seconds, plots=plots)

        baseline = load_baseline(run) if dev and group.is_main else None
        sums = None if baseline is None else config.task.baseline_sums(baseline, dev)

        def evaluate(model: nn.Module) -> Evaluation:
            return _evaluate(run, config, model, dev=dev, baseline=sums, group=group, interrupted=interrupted)

        events = engine.train(
            rule, evaluate=evaluate if dev else None, time_fraction=recorder.time_fraction, start=start
        )
        scores = run.summary().get("baseline_scores", {})
        monitor = LearningMonitor(config.task, scores, run=run.path, limit=config.train.limit)
        position = read_position(start.facts) if start else Position()
        done = len(position.scores)
        doctor = TrainingDoctor(config, module, dev if group.is_main else (), evaluations=done)
        update = position.update
        event: Progress | None = None
        try:
            with open_loggers(config.train.loggers if group.is_main else (), run, update=update) as log:
                for each in events:
                    events_seen += 1
                    event = _with_warnings(run, config, each, monitor, doctor)
                    recorder.record(event)
                    if group.is_main:
                        log(run, event)
                    is_shown = not group.is_main or _show(run, event, listeners)
                    if not event.finished:
                        _stop_if(run, flag=group.any_rank(flag=interrupted() or not is_shown))
        except Interrupted:
            if event is not None:
                recorder.save(event)
                if group.is_main:
                    recorder.describe(event)
            raise
        except Diverged as error:
            if run.saved("best") or run.saved("last"):  # otherwise there is no model to examine
                error.advice = f"{_doctor_command(run, config)} shows where gradients grow"
            if group.is_main:
                _keep_diverged(run, error)
            raise
        except RuntimeError as error:  # such as a gradient that torch cannot compute
            if name := custom_layer(config.task):
                raise LayerError(f"the training of the layer {name} failed: {describe_error(error)}") from error
            raise
    return events_seen


def _read_dev(config: Config, readers: DataReaders) -> list[Any]:
    """The development examples of a run that is resumed."""
    dev = list(readers.dev())
    config.task.check_targets(dev)
    return dev


def _with_warnings(
    run: Run, config: Config, event: Progress, monitor: LearningMonitor, doctor: TrainingDoctor
) -> Progress:
    """The same event with what the monitor and the doctor have to say about it."""
    warning = monitor.watch(event)
    if warning:
        warning = f"{warning.removesuffix('.')}. {_doctor_command(run, config)} looks for the reason."
    examination = doctor.watch(event)
    warnings = " ".join(filter(None, (warning, examination.warning)))
    return replace(event, warning=warnings, diagnosis=examination.summary)


def _doctor_command(run: Run, config: Config) -> str:
    """The command that examines a run; its dev data are named, since a run's own files are not opened blindly."""
    source = config.task.dev or config.task.train
    return f"seqloom doctor {shlex.quote(str(run.path))} {'FILE' if source == IN_MEMORY else shlex.quote(source)}"


def _stop_if(run: Run, *, flag: bool) -> None:
    if flag:
        raise Interrupted(run.path)


def _show(run: Run, event: Progress, listeners: Sequence[Listener]) -> bool:
    """Pass an event to the listeners; False if nobody reads any more what they print."""
    try:
        for listener in listeners:
            listener(run, event)
    except OSError as error:
        if not is_closed_output(error):
            raise
        return False
    return True


def _stoppable(read: Read, run: Run, interrupted: Callable[[], bool]) -> Read:
    """A reader that raises Interrupted once a signal has arrived: reading may take long."""

    def read_examples() -> Iterator[Any]:
        for example in read():
            _stop_if(run, flag=interrupted())
            yield example

    return read_examples


def _keep_diverged(run: Run, error: Diverged) -> None:
    """Write the batch at which a training diverged, and the reason."""
    if error.batch:
        batch = [(part.inputs, part.target) for part in error.batch]
        with files.replacement(run.path / "diverged.safetensors") as partial:
            write_tensors(partial, flatten_state(batch, "batch"))
    run.log(str(error))


def _facts(config: Config, module: nn.Module, targets: TargetCounter, dev: Sequence[Any]) -> dict[str, Any]:
    """What is known about a run when its training starts: when that was, sizes, and the baseline."""
    baseline = config.task.fit_baseline(targets.counts, dev)
    return {
        "started": datetime.now(UTC).astimezone().isoformat(timespec="seconds"),
        "examples": {"train": targets.examples, "dev": len(dev)},
        "parameters": count_parameters(module),
        "metric": config.task.main_metric,
        "higher_is_better": config.task.higher_is_better,
        "samples": describe_samples(config.task, dev),
        "baseline": None if baseline is None else baseline.model_dump(),
        "baseline_scores": config.task.score_baseline(baseline, dev) if baseline is not None and dev else {},
    }


def batch_loader(config: Config, read: Read, group: ProcessGroup) -> BatchLoader:
    """The training batches of a process."""
    settings = config.train
    return BatchLoader(
        read,
        config.task.collate,
        augment=config.task.augment_example,
        batch_size=settings.batch_size,
        batch_tokens=settings.batch_tokens,
        bptt_steps=settings.bptt_steps,
        seed=settings.seed,
        shuffle_buffer=settings.shuffle_buffer,
        workers=settings.workers,
        parts=settings.accumulate * group.size,
        local_parts=range(group.rank * settings.accumulate, (group.rank + 1) * settings.accumulate),
    )


def _evaluate(
    run: Run,
    config: Config,
    module: nn.Module,
    *,
    dev: Sequence[Any],
    baseline: MetricSums | None,  # in the main process
    group: ProcessGroup,
    interrupted: Callable[[], bool],
) -> Evaluation:
    def stop_if_interrupted() -> None:
        _stop_if(run, flag=group.size == 1 and interrupted())

    task = config.task
    predictions = predict_all(config, module, dev, group=group, before_batch=stop_if_interrupted)
    results, degenerate, answers, test = group.broadcast(
        lambda: (
            score(task, predictions, dev),
            task.degenerate_predictions(predictions, dev),
            sample_answers(task, predictions, dev),
            compare_with_baseline(task, predictions, dev, baseline),
        )
    )
    metrics, details = split_details(results)
    value = float(metrics[task.main_metric])
    if math.isnan(metrics.get("loss") or 0.0):  # some labels or words are right even if all outputs are NaN
        value = math.nan
    sign = 1 if task.higher_is_better else -1
    tested = SignificanceTest(*test) if test is not None else None  # other processes get a list
    return Evaluation(sign * value, metrics, task.main_metric, details, degenerate, answers, tested)


def _create_once(group: ProcessGroup, create: Callable[[], Run]) -> Run:
    """The run that the main process creates, opened by the others once it exists."""
    run = create() if group.is_main else None
    name = group.all_gather(str(run.path if run else "").encode())[0].decode()
    return run or Run.open(name)


@contextmanager
def _torch_settings(config: Config) -> Iterator[None]:
    """Check the device and the precision, and set the number of threads while training."""
    device = config.train.device
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError, ImportError):  # which one depends on the kind of device
        available = ", ".join(_devices())
        raise ValueError(
            f'train.device is "{device}", which this machine does not have; expected {available}'
        ) from None
    config.check_precision()
    before = torch.get_num_threads()
    torch.set_num_threads(config.train.threads or default_threads(before))
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
