"""The doctor for a training run: its model on labelled data, and the record of its training."""

import os
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, cast

from torch import Tensor

from seqloom.data.batch import Batch
from seqloom.data.fingerprint import fingerprint
from seqloom.data.loading import BatchLoader
from seqloom.data.readers.memory import IN_MEMORY, as_source
from seqloom.data.readers.text_files import DataError, expand, resolve
from seqloom.diagnosis.diagnosis import Diagnosis
from seqloom.diagnosis.doctor import TARGETS, Names, diagnose
from seqloom.diagnosis.report import report
from seqloom.diagnosis.thresholds import SGD_LEARNING_RATE
from seqloom.diagnosis.training_findings import with_training_findings
from seqloom.diagnosis.training_record import TrainingRecord, training_record
from seqloom.insight.plotting import SUFFIXES, check_theme
from seqloom.model import Model, with_unopened_data
from seqloom.models.encoder import LayerFactory
from seqloom.run import Run
from seqloom.run_config import Config, default_learning_rate, load_config
from seqloom.tasks.task import PredictionOptions, Task
from seqloom.training_data import data_readers

PARTS = {"encoder": "encoder", "decoder": "decoder", "characters": "character encoder"}
"""Sections of a configuration with layers that read sequences, and what their part of the model is called."""
LOGGED_DIVERGENCE = re.compile(r"\S+ \S+ training diverged: (?P<reason>.*?)(; lower train\.learning_rate.*)?$")
LOGGED_UPDATE = re.compile(r"\S+ \S+ (update \d+: loss|finished: )")
MAX_ROWS = 64
"""Sequences that are examined at most."""
MAX_STEPS = 512
"""Longer sequences are examined only if there are no others."""
MAX_ELEMENTS = 8192
"""Steps of all examined sequences together, with padding: memory and time grow with them."""


class _Data(NamedTuple):
    examples: list[Any]
    source: str  # for people
    notes: list[str]


def doctor_run(
    path: str | Path,
    file: str = "",  # labelled data; empty: the dev data of the run, if they can be read safely
    *,
    examples: Sequence[Any] = (),  # of its dev data, if they were read already
    layer: LayerFactory | None = None,
    reach: int = 0,
    targets: int = TARGETS,
    folder: str = "",  # of the recordings or images that the file lists
    captions: str = "",
) -> Diagnosis:
    """Examine a run: its best checkpoint on labelled data, and the record of its training."""
    run = Run.open(path)
    config = load_config(run, layer=layer)
    options = {name: value for name, value in (("folder", folder), ("captions", captions)) if value}
    measured = _examine_best(run, config, file, examples=examples, options=options, reach=reach, targets=targets)
    record = _training_record(run, config)
    findings = with_training_findings(measured.findings, record, run.summary().get("baseline_scores", {}))
    return replace(measured, findings=findings, training=record)


def _examine_best(
    run: Run,
    config: Config,
    file: str,
    *,
    examples: Sequence[Any],
    options: Mapping[str, str],  # of the task, where its files are
    reach: int,
    targets: int,
) -> Diagnosis:
    """The best checkpoint on labelled data; no findings but a note where nothing can be measured."""
    if not (run.saved("best") or run.saved("last")):
        return _unmeasured(run, ["the run has no checkpoint: only the record of its training was examined"])
    task = config.task.with_options(**cast(PredictionOptions, options))
    task = with_unopened_data(task, options, run)
    model = Model(config._replace(task=task), task.load_model(run.load_best().model, run.path), name=run.name)
    if examples:
        data = _Data(list(examples), _source(config), [])
    else:
        data = _labelled(model, file) if file else _own_data(run, config, model)
    if task.is_self_trained:
        return _unmeasured(run, [f"the model of {run.path} is not trained by gradients, which the doctor follows"])
    if not data.examples:
        return _unmeasured(run, data.notes)
    return _examine(model, data, reach=reach, targets=targets)


def _unmeasured(run: Run, notes: list[str]) -> Diagnosis:
    return Diagnosis(run.name, "", [], [], notes=notes)


def report_run(
    path: Path,
    file: str,
    *,
    output: Path | None,  # folder of the pictures; None: draw none
    suffix: str,  # of the pictures: .png, .svg or .pdf; empty: as the run says
    theme: str = "",  # of the pictures: light or dark; empty: as the run says
    as_json: bool,
    **options: Any,  # as for doctor_run
) -> None:
    """Examine a run, print the findings and draw them."""
    if suffix and suffix not in SUFFIXES:
        raise ValueError(f"plots cannot be written as {suffix}: choose one of {', '.join(SUFFIXES)}")
    settings = load_config(Run.open(path), layer=options.get("layer")).train
    background = check_theme(theme or settings.plot_theme)
    diagnosis = doctor_run(path, file, **options)
    report(diagnosis, output, suffix=suffix or f".{settings.plot_format}", theme=background, as_json=as_json)


def examine_model(model: Model, source: Any, *, reach: int, targets: int) -> Diagnosis:
    """Examine a loaded model on labelled data: a file, a table or pairs in memory, or a batch of its task."""
    if model.task.is_self_trained:
        raise TypeError(f"a model of the task {model.task.name} that is not trained by gradients cannot be examined")
    if isinstance(source, Batch):
        batch = source
        return diagnose(
            model.module,
            lambda: model.task.loss(model.module, batch).total,
            name=model.name or type(model.module).__name__,
            names=task_names(model.task),
            reach=reach,
            targets=targets,
        )
    return _examine(model, _labelled(model, source), reach=reach, targets=targets)


def _examine(model: Model, data: _Data, *, reach: int, targets: int) -> Diagnosis:
    task, module = model.task, model.module
    batch, notes = make_batch(model.config._replace(task=task), data.examples)
    return diagnose(
        module,
        lambda: _loss(task, module, batch),
        name=model.name or type(module).__name__,
        names=task_names(task),
        source=data.source,
        reach=reach,
        targets=targets,
        notes=[*data.notes, *notes],
    )


def _loss(task: Task, module: Any, batch: Batch) -> Tensor:
    return task.loss(module, batch).total


def task_names(task: Task) -> Names:
    """How the parts of a task's model are called: as the sections of its configuration."""
    fields = type(task).model_fields
    parts = {name: called for name, called in PARTS.items() if name in fields}
    default = task.custom_layer_field or next(iter(parts), "model")
    return Names(default, parts, "task.pooling" if "pooling" in fields else "")


def make_batch(config: Config, examples: Sequence[Any]) -> tuple[Batch, list[str]]:
    """A batch of real sequences, spread evenly over the examples, and notes about those it does not have."""
    task = config.task
    if config.train.bptt_steps:  # all sequences are read as one
        loader = BatchLoader(
            lambda: iter(examples),
            task.collate,
            batch_size=min(config.train.batch_size, 16),
            bptt_steps=min(max(config.train.bptt_steps, 100), MAX_STEPS),
            shuffle=False,
            shuffle_buffer=len(examples),
        )
        return next(iter(loader.epoch(0)))[0], []
    usable = [example for example in examples if not task.infeasible(example)]
    steps = {id(example): task.steps(example) for example in usable}
    short = [example for example in usable if 2 <= steps[id(example)] <= MAX_STEPS]
    notes = []
    if not short:
        short = sorted(usable, key=lambda example: steps[id(example)])[:4]
        if not short:
            raise ValueError("none of the examples can be examined: they are empty, or too short for their targets")
    elif len(short) < len(usable):
        skipped = sum(steps[id(example)] > MAX_STEPS for example in usable)
        notes = [f"{skipped} sequences of more than {MAX_STEPS} steps were not examined"] if skipped else []
    longest = max(steps[id(example)] for example in short)
    rows = max(min(MAX_ROWS, len(short), MAX_ELEMENTS // max(longest, 1)), min(len(short), 4))
    chosen = [short[(2 * number + 1) * len(short) // (2 * rows)] for number in range(rows)]
    return task.collate(chosen), notes


def _labelled(model: Model, source: Any) -> _Data:
    data = resolve(source) if isinstance(source, str) else as_source(source)
    examples = list(model.task.read(data))
    shown = str(source) if isinstance(source, str | Path) else ""
    if not examples:
        raise ValueError(f"{shown or 'data'}: there are no examples")
    model.task.check_targets(examples)
    return _Data(examples, shown, [])


def _own_data(run: Run, config: Config, model: Model) -> _Data:
    """The dev data that a run names, if they are still the files that it was trained with.

    A run may come from someone else: a file that it names is read only if its content is known by its fingerprint, so
    that nothing foreign is read or shown. Data that name further files have to be named by the user.
    """
    name = config.task.dev or config.task.train
    again = f"seqloom doctor {run.path} FILE"
    refusal = ""
    if name == IN_MEMORY:
        refusal = "the run was trained on data in memory"
    elif any(getattr(config.task, field, "") for field in config.task.data_files.values()):
        refusal = "its data name further files"
    elif not _is_plain_file(name):
        refusal = f"{name} is not a file on this machine"
    elif run.environment.get("data", {}).get(name) != fingerprint(name):
        refusal = f"{name} is not what the run was trained with"
    elif config.task.listed_files(resolve(name)):
        refusal = f"{name} lists further files"
    if refusal:
        return _Data([], "", [f"gradients, gates and units were not measured, since {refusal}: {again} measures them"])
    examples = list(config.task.read(resolve(name)) if config.task.dev else data_readers(config).dev())
    if not examples:
        return _Data([], "", [f"the run has no dev data: {again} measures gradients, gates and units"])
    model.task.check_targets(examples)
    return _Data(examples, _source(config), [])


def _source(config: Config) -> str:
    """The dev data of a run, for people."""
    return config.task.dev or f"{config.task.train} (its held-out part)"


def _is_plain_file(name: str) -> bool:
    """Whether a name stands for regular files that exist; nothing is opened, and no other machine is asked."""
    if name.startswith(("\\\\", "//")) or name == "-":
        return False
    with suppress(DataError, OSError):
        return all(os.path.isfile(path) for path in expand(resolve(name)))  # noqa: PTH113  follows links, like resolve
    return False


def _facts(run: Run) -> Mapping[str, Any]:
    """The facts of the best checkpoint; none if there is no checkpoint."""
    return run.load_best().facts if run.saved("best") or run.saved("last") else {}


def _training_record(run: Run, config: Config) -> TrainingRecord | None:
    task, settings = config.task, config.train
    return training_record(
        run.rows(),
        metric=task.main_metric,
        higher_is_better=task.higher_is_better,
        clip_norm=settings.clip_norm,
        learning_rate=settings.learning_rate,
        optimizer=settings.optimizer,
        degenerate=str(_facts(run).get("degenerate") or ""),
        finished=run.summary().get("finished", ""),
        diverged=_divergence(run),
        run=str(run.path),
        default_learning_rate=SGD_LEARNING_RATE
        if config.train.optimizer == "sgd"
        else default_learning_rate(run, config.task),
    )


def _divergence(run: Run) -> str:
    """Why the training diverged, as its log says; empty: it did not, or it was resumed since."""
    for line in reversed(run.log_end()):
        if match := LOGGED_DIVERGENCE.match(line):
            return match["reason"]
        if LOGGED_UPDATE.match(line):
            break
    return ""
