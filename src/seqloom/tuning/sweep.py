"""A sweep: trials one after the other until there are enough, each in a process of its own, and what they show."""

import json
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import tomli_w

from seqloom import config as configuration
from seqloom import files, tasks
from seqloom.comparison import subprocess_trial
from seqloom.comparison.compare import print_to_stderr, read_first
from seqloom.config import ConfigError, Document
from seqloom.config.toml import literal
from seqloom.interrupt import Interrupted
from seqloom.run import Run
from seqloom.run_config import Config
from seqloom.training.config import TrainConfig
from seqloom.training_data import FILES_ONLY, changed_file
from seqloom.tuning.report import Sweep, summarize, write_results
from seqloom.tuning.space import TABLE, Domain, SweepConfig, assign, count_combinations, parse_sweep, with_space
from seqloom.workflow import create_unused_folder

if TYPE_CHECKING:
    from seqloom.tuning.journal import Journal, RunningTrial

OUTPUT = Path("runs/sweep")
MAX_FAILURES = 3
"""A sweep ends if its first trials all fail."""

Watch = Callable[[], bool]
"""Called again and again while a trial is training; True stops it."""


class RunTrial(Protocol):
    """Trains a configuration in a folder, or resumes the run in it, until it ends or ``watch`` stops it."""

    def __call__(self, config: Config, folder: Path, *, watch: Watch) -> dict[str, Any]: ...


@dataclass(frozen=True)
class SweepPlan:
    """What a sweep varies, and how."""

    document: Document
    base: Config
    settings: SweepConfig
    space: dict[str, Domain]

    @classmethod
    def build(cls, document: Document) -> "SweepPlan":
        """The plan of a document with a table ``[sweep]``; ConfigError lists everything that is wrong with it."""
        base = Config.build(assign(document, {}))
        settings, space = parse_sweep(document, {"task": tasks.find(base.name), "train": TrainConfig})
        if not base.task.dev and not base.task.dev_fraction:
            raise ConfigError(
                f"{document.location('task.dev_fraction')}: a sweep compares scores on development data: set task.dev, "
                "or task.dev_fraction to more than 0"
            )
        return cls(document, base, settings, space)

    @property
    def metric(self) -> str:
        """What the trials are compared by."""
        return self.base.task.main_metric

    def config(self, values: Mapping[str, Any]) -> Config:
        """The configuration of a trial."""
        config = Config.build(assign(self.document, values))
        if config.task.main_metric != self.metric:
            metrics = f"{self.metric} and {config.task.main_metric}"
            raise ConfigError(f"{self.document.location(TABLE)}: all trials need the same metric, found {metrics}")
        return config

    def base_values(self) -> dict[str, Any] | None:
        """The values that the configuration itself has; None if one of them is outside the search space."""
        sections = {"task": self.base.task, "train": self.base.train}
        dumped = {name: section.model_dump(mode="json") for name, section in sections.items()}
        values = {}
        for name, domain in self.space.items():
            value: Any = dumped
            for step in name.split("."):
                value = value.get(step) if isinstance(value, dict) else None
            if value is None or not domain.contains(value):
                return None
            values[name] = value
        return values

    def text(self) -> str:
        """The configuration with its search space as TOML."""
        return f"{self.base.text()}\n{tomli_w.dumps({TABLE: self.document.values[TABLE]})}"

    def compared(self) -> tuple[str, dict[str, Domain]]:
        """What has to be the same when a sweep is continued."""
        return self.base.text(), self.space


def sweep(
    config: str | Path | Document,  # TOML file with a table [sweep], or the folder of a sweep to continue
    overrides: Sequence[str] = (),  # section.key=value, applied to the file
    *,
    space: Mapping[str, Any] | None = None,  # values to try by section.key: lists, or tables with min and max
    output: str | Path | None = None,  # folder of the sweep; None: runs/sweep, or runs/sweep-2 and so on
    report: Callable[[str], object] = print_to_stderr,  # receives a line at the start and at the end of each trial
    run_trial: RunTrial | None = None,  # None: in a process of its own
) -> Sweep:
    """Train with many settings and return what they have shown.

    The same call with the same ``output`` continues a sweep that was interrupted, or joins one that is running.
    """
    folder, document = _read(config, overrides, output=output)
    plan = SweepPlan.build(with_space(document, space or {}))
    if run_trial is None:
        read_first(plan.base, FILES_ONLY)
    try:
        from seqloom.tuning.journal import Journal
    except ModuleNotFoundError as error:
        if error.name != "optuna":
            raise
        message = "a sweep needs Optuna, which is not installed; run pip install 'seqloom[sweep]'"
        raise ModuleNotFoundError(message, name="optuna") from None
    folder = folder or create_unused_folder(OUTPUT)
    _open_folder(folder, plan)
    journal = Journal(folder, plan.settings, plan.space, higher_is_better=plan.base.task.higher_is_better)
    try:
        _run_trials(journal, plan, run_trial or partial(subprocess_trial.run_trial_in_subprocess, brief=True), report)
    except (Interrupted, KeyboardInterrupt):
        raise Interrupted(folder) from None
    finally:
        result = summarize(journal, plan.metric)
        train = plan.base.train
        write_results(result, plan.base.name, plot_format=train.plot_format, theme=train.plot_theme)
    return result


def _read(
    config: str | Path | Document, overrides: Sequence[str], *, output: str | Path | None
) -> tuple[Path | None, Document]:
    """The folder of a sweep if it is known, and its configuration."""
    if isinstance(config, Document):
        return Path(output) if output else None, config
    path = Path(config)
    if not path.is_dir():
        return Path(output) if output else None, configuration.read(path, overrides)
    if output:
        raise ValueError(f"{path} is a folder: give a configuration, or the folder of a sweep and no output folder")
    if not (path / "sweep.toml").is_file():
        raise ValueError(f"{path}: not a sweep: it has no sweep.toml")
    return path, configuration.read(path / "sweep.toml", overrides)


def _open_folder(folder: Path, plan: SweepPlan) -> None:
    """Create the folder of a sweep; refuse one that was started with another configuration or other data."""
    path = folder / "sweep.toml"
    if not path.exists():
        if folder.exists() and any(folder.iterdir()):
            raise ValueError(f"{folder}: already exists and is not a sweep: choose another output folder")
        files.write(path, plan.text())
        return
    if SweepPlan.build(configuration.read(path)).compared() != plan.compared():
        raise ValueError(
            f"{folder}: was started with another configuration or search space; choose another output folder"
        )
    for run in sorted((folder / "trials").glob("*/manifest.json"))[:1]:
        if name := changed_file(Run.open(run.parent), plan.base):
            raise ValueError(f"{name}: has changed since {folder} was started; choose another output folder")


def _run_trials(journal: "Journal", plan: SweepPlan, run_trial: RunTrial, report: Callable[[str], object]) -> None:
    settings, started = plan.settings, time.monotonic()
    total = settings.trials
    if settings.sampler == "grid":
        total = journal.queue_grid(total if "trials" in settings.model_fields_set else None)
    elif (combinations := count_combinations(plan.space)) and combinations <= total:
        total = journal.queue_grid(None)  # each of them once
    elif not journal.trials() and (values := plan.base_values()):
        journal.queue(values)
    while True:
        for number in journal.requeue_stale():
            report(f"trial {number} was interrupted; it will be continued")
        trials = journal.trials()
        failures = [trial.error for trial in trials if trial.state == "failed"]
        if len(failures) >= min(MAX_FAILURES, total) and len(failures) == len(trials):
            raise ValueError(f"all trials so far have failed: {failures[-1]}")
        if len(trials) >= total and not any(trial.state == "waiting" for trial in trials):
            return
        if settings.minutes and time.monotonic() - started > 60 * settings.minutes:
            return
        with journal.start(total) as trial:
            if trial is not None:
                _run_one(trial, plan, run_trial, report)


def _run_one(trial: "RunningTrial", plan: SweepPlan, run_trial: RunTrial, report: Callable[[str], object]) -> None:
    assignments = "  ".join(f"{name}={_shown(value)}" for name, value in trial.values.items())
    report(f"trial {trial.number}: {assignments}")
    reader = EvaluationReader(trial.folder / "metrics.jsonl", plan.metric)
    pruned = False

    def watch() -> bool:
        nonlocal pruned
        trial.keep_alive()
        pruned = pruned or any(trial.report(value) for value in reader.read())
        return pruned

    try:
        results = run_trial(plan.config(trial.values), trial.folder, watch=watch)
    except ConfigError as error:
        results = {"error": str(error)}
    watch()  # the evaluations since the last call
    value = results.get("metrics", {}).get(plan.metric, math.nan)
    if pruned:
        trial.prune()
        report(f"trial {trial.number}: pruned after {trial.evaluations} evaluation{'s' * (trial.evaluations != 1)}")
    elif "error" in results or not math.isfinite(value):
        reason = results.get("error", f"{plan.metric} is {value}")
        trial.fail(reason)
        report(f"trial {trial.number}: failed: {reason}")
    else:
        trial.finish(value, results["minutes"])
        best = trial.journal.best()
        assert best is not None  # noqa: S101  this one has finished
        note = "best" if best.number == trial.number else f"best: {best.value:.5g}, trial {best.number}"
        report(f"trial {trial.number}: {plan.metric} {value:.5g} ({note})")


def _shown(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else literal(value).strip('"')


class EvaluationReader:
    """Reads the metric of each evaluation from the metrics of a run while it is being trained."""

    def __init__(self, path: Path, metric: str) -> None:
        self.path, self.metric = path, metric
        self.offset = 0  # of the first line that was not read yet
        self.count = self.seen = 0  # evaluations: returned, and read up to the offset

    def read(self) -> Iterator[float]:
        """The values since the last call; a run that is resumed repeats lines, which are skipped."""
        try:
            with self.path.open("rb") as file:
                if self.path.stat().st_size < self.offset:
                    self.offset = self.seen = 0
                file.seek(self.offset)
                content = file.read()
        except FileNotFoundError:
            return
        complete = content[: content.rfind(b"\n") + 1]
        self.offset += len(complete)
        for line in complete.splitlines():
            value = json.loads(line).get("dev", {}).get(self.metric)
            if value is not None:
                self.seen += 1
                if self.seen > self.count:
                    self.count += 1
                    yield float(value)
