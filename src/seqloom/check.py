"""Checks of the data and the configuration, before any time is spent on training."""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import nn

from seqloom import terminal
from seqloom.data.dataset_summary import (
    RARE,
    DatasetSummary,
    SplitSummary,
    all_repeated,
    compare_splits,
    join_names,
)
from seqloom.data.length_limit import LengthLimit
from seqloom.data.loading import BatchLoader
from seqloom.data.readers.missing_values import FILLED, MissingValueError
from seqloom.data.readers.text_files import WARNING, pluralize, resolve
from seqloom.data.split import Read
from seqloom.data.text.tokenizers import Tokenizer
from seqloom.data.text.vocabulary import Vocabulary
from seqloom.evaluation import evaluate
from seqloom.formats import format_value
from seqloom.layers.layer import count_parameters
from seqloom.run_config import Config
from seqloom.tasks.task import Task
from seqloom.training.engine import update_rule
from seqloom.training.memory import LongestExamples, check_training_memory
from seqloom.training.update_rule import UpdateRule
from seqloom.training_data import ALSO, data_readers, length_limit, no_dev_examples, suggesting_task, with_detected

FAILURES = (ValueError, TypeError, RuntimeError, LookupError, ArithmeticError, MemoryError, OSError, ImportError)
"""Exceptions that bad data or a bad configuration may raise; they are reported."""

MANY_UNKNOWN = 0.1  # fraction of unknown tokens from which on it is reported
MAX_ROWS = 15  # of a histogram
BAR_WIDTH = 30  # characters of the longest bar


@dataclass(frozen=True)
class Report:
    """The result of a check: ``problems`` make training fail or are certainly wrong, ``warnings`` may be."""

    task: str
    splits: dict[str, SplitSummary]  # train, dev
    vocabularies: dict[str, int]  # their sizes
    parameters: int | None  # of the model; None: it could not be built
    updates: int | None  # per epoch; None: not known, the data are streamed or the model could not be built
    streams: bool  # the training data are too large to be kept in memory
    bytes: dict[str, int]  # estimated memory for training: examples, model, batch
    notes: list[str]  # what was detected in the data, such as their columns
    problems: list[str]
    warnings: list[str]


def check_data(config: Config) -> Report:
    """Read all data once, then compute one update and one evaluation with the longest examples."""
    check = _Check(config)
    report = check.report()
    if not check.remedy:
        return report
    # What else is wrong is found by reading on with the gaps filled.
    task = config.task.model_copy(update=check.remedy)
    further = check_data(config._replace(task=task))
    return replace(
        further,
        problems=[*check.gaps, *further.problems],
        warnings=[warning for warning in further.warnings if FILLED not in warning],
    )


class _Check:
    def __init__(self, config: Config) -> None:
        self.config = config
        self.notes: list[str] = []
        self.problems: list[str] = []
        self.warnings: list[str] = []
        self.trained = 0  # training examples
        self.gaps: list[str] = []  # problems that are missing values
        self.remedy: dict[str, Any] = {}  # settings of the task with which these are filled
        self.parameters: int | None = None
        self.rule: UpdateRule | None = None  # None: the model could not be built
        self.limit: LengthLimit | None = None  # of the training examples
        self.bytes = {"examples": 0, "model": 0, "batch": 0}

    def report(self) -> Report:
        self._try(self._detect)
        self._try(self.config.check_precision)
        config, settings = self.config, self.config.train
        readers = self._readers()
        summaries = {name: self._summarize(name, read) for name, read in readers.items()}
        self.notes += filter(None, [self.limit.note() if self.limit else ""])
        task = self._fit(readers, summaries)
        if task is not None:
            for name, summary in summaries.items():
                examples = _until_error(readers[name])
                reasons = (task.infeasible, task.infeasible_when_augmented) if name == "train" else (task.infeasible,)
                self._try(partial(summary.count_tokens, examples, task.collate, *reasons))
                if summary.infeasible.total == summary.examples > 0:
                    self.problems.append(f"{name}: no example can be used, first {summary.infeasible}")
        for name, summary in summaries.items():
            known = None if name == "train" else summaries.get("train")
            self.warnings += [f"{name}: {warning}" for warning in summary.warnings(train=known)]
        train, dev = summaries.get("train"), summaries.get("dev")
        if train and dev:
            self._compare(train, dev)
        elif train and not (config.task.dev or config.task.dev_fraction or config.task.fold):
            self.warnings.append(
                "there are no development data, so the best model cannot be selected: set task.dev or task.dev_fraction"
            )
        if train and task is not None:
            self._try(lambda: self._try_training(config._replace(task=task), train, dev), "with the longest examples: ")
        streams = train is not None and train.examples > settings.shuffle_buffer
        self.bytes["examples"] = sum(
            summary.size(settings.shuffle_buffer if summary is train else summary.examples)
            for summary in summaries.values()
        )
        return Report(
            task=config.name,
            splits={name: summary.split(self._source(name), train) for name, summary in summaries.items()},
            vocabularies=_vocabularies(task),
            parameters=self.parameters,
            updates=None if streams or not train else self._updates(train),
            streams=streams,
            bytes=self.bytes,
            notes=self.notes,
            problems=self.problems,
            warnings=self.warnings,
        )

    def _try(self, work: Callable[[], object], where: str = "") -> None:
        """Do some work, and report its failure unless it was reported before."""
        try:
            with suggesting_task(self.config):
                work()
        except FAILURES as error:
            problem = f"{where}{str(error) or type(error).__name__}"
            advice = str(error).partition(ALSO)[2]  # to train another task: everything else follows from that
            repeated = [text for text in (str(error), advice) if text]
            if not any(text in known for known in self.problems for text in repeated):
                self.problems.append(problem)
                if isinstance(error, MissingValueError):
                    self.gaps.append(problem)
                    self.remedy |= error.remedy

    def _detect(self) -> None:
        self.config, notes = with_detected(self.config)
        self.notes += [note for note in notes if not note.startswith(WARNING)]
        self.warnings += [note.removeprefix(WARNING) for note in notes if note.startswith(WARNING)]

    def _readers(self) -> dict[str, Read]:
        """A reader of each file that exists; without a development file, of the share that is held out."""
        task = self.config.task
        readers: dict[str, Read] = {}
        for name, file in (("train", task.train), ("dev", task.dev)):
            if file:
                self._try(partial(_add_reader, readers, name, file, task))
        if "train" in readers and not task.dev and (task.dev_fraction or task.fold):
            self._try(partial(self._hold_out, readers))
        elif "train" in readers and self.config.train.max_length:
            self.limit = length_limit(self.config)
            readers["train"] = self.limit.limit(readers["train"])
        return readers

    def _hold_out(self, readers: dict[str, Read]) -> None:
        parts = data_readers(self.config)
        readers |= {"train": parts.train, "dev": parts.dev}
        self.limit = parts.limit

    def _source(self, name: str) -> str:
        task = self.config.task
        if task.fold and not task.dev:
            return (
                f"{task.train}, fold {task.dev_fold}" if name == "dev" else f"{task.train} without fold {task.dev_fold}"
            )
        if task.dev or not task.dev_fraction:
            return task.dev if name == "dev" else task.train
        return f"{task.train}, {task.dev_fraction if name == 'dev' else 1 - task.dev_fraction:.0%} of it"

    def _summarize(self, name: str, read: Read) -> DatasetSummary:
        task, settings = self.config.task, self.config.train
        summary = DatasetSummary(
            task.summarize_example,
            target_name=task.target_name,
            target_column=getattr(task, "label_column", None),
            merges_labels=hasattr(task, "lowercase_labels"),
            keep=max(settings.batch_size, settings.batch_tokens // 8),
        )

        def add_examples() -> None:
            for example in read():
                summary.add(example)
            if not summary.examples and name == "dev" and self.trained:
                raise ValueError(no_dev_examples(self.config, self.trained))
            if not summary.examples:
                raise ValueError(f"{self._source(name)}: there are no examples")

        self._try(add_examples)
        self.trained = summary.examples if name == "train" else self.trained
        if summary.unlabelled:
            count = pluralize(summary.unlabelled.total, "example")
            self.problems.append(f"{name}: {count} without a {task.target_name}, first {summary.unlabelled}")
        return summary

    def _fit(self, readers: dict[str, Read], summaries: dict[str, DatasetSummary]) -> Task | None:
        """The task fitted to the training examples, if those that can be read allow it."""
        fitted: list[Task] = []
        if "train" in summaries and summaries["train"].examples and not summaries["train"].unlabelled:
            self._try(lambda: fitted.append(self.config.task.fit(_until_error(readers["train"]))))
        return fitted[0] if fitted else None

    def _compare(self, train: DatasetSummary, dev: DatasetSummary) -> None:
        """Compare the development data with the training data."""
        for line in compare_splits(train, dev):
            repeated = "also occurs in train" in line
            certain = (
                all_repeated(train, dev)
                if repeated
                else dev.labels.keys().isdisjoint(train.labels) and bool(dev.labels)
            )
            (self.problems if certain else self.warnings).append(line)
        if rare := [label for label, times in train.labels.items() if times < RARE]:
            shown = [f"{label!r} ({train.labels[label]}, first {train.first[label]})" for label in rare]
            count = pluralize(len(rare), "label")
            self.warnings.append(f"train: {count} occurring fewer than {RARE} times: {join_names(shown)}")
        for name in [name for name in dev.sides if name in train.sides]:
            lines = list(dev.sides[name].compare(train.sides[name]))
            (self.problems if dev.sides[name].unknown_fraction == 1 else self.warnings).extend(lines)
        share = dev.unknown_fraction or 0.0
        if share > MANY_UNKNOWN and not dev.sides:
            (self.problems if share == 1 else self.warnings).append(
                f"dev: {share:.1%} of the tokens are unknown: they do not occur in train"
            )
        task = self.config.task
        if share and not train.unknown and hasattr(task, "text") and not getattr(task, "word_dropout", 0):
            self.warnings.append(
                f"dev: {share:.2%} of the tokens are unknown but none in train, so that the model learns nothing "
                "about unknown tokens: raise task.text.min_count"
            )

    def _try_training(self, config: Config, train: DatasetSummary, dev: DatasetSummary | None) -> None:
        """Compute one update and one evaluation, as training would, with the longest examples."""
        settings = config.train
        with torch.random.fork_rng(devices=[]):
            module = config.task.build_model().to(settings.device)
            self.parameters = count_parameters(module)
            self.rule = update_rule(module, _batches(config, train.longest), config.loss_function(), settings)
            self.bytes["model"] = 4 * self.rule.copies * self.parameters
            self._check_memory(config, module, train, dev)
            self.bytes["batch"] = self.rule.dry_run()
            if dev and dev.examples and not dev.unlabelled:
                evaluate(config, module, dev.longest)

    @staticmethod
    def _check_memory(config: Config, module: nn.Module, train: DatasetSummary, dev: DatasetSummary | None) -> None:
        longest = LongestExamples(config.train)
        deque(longest.watch(train.longest), maxlen=0)
        too_long = None if config.task.no_max_length_reason else config.train.too_long
        dev_examples = dev.longest if dev else []
        check_training_memory(module, longest, dev_examples, config.train, steps=config.task.steps, too_long=too_long)

    def _updates(self, train: DatasetSummary) -> int | None:
        """Updates per epoch."""
        if self.rule is None:
            return None
        return self.rule.count_updates(list(train.lengths.elements()), tokens=train.tokens)


def _batches(config: Config, examples: Sequence[Any]) -> BatchLoader:
    """Examples in this order, batched as in training."""
    settings = config.train
    return BatchLoader(
        lambda: iter(examples),
        config.task.collate,
        batch_size=settings.batch_size,
        batch_tokens=settings.batch_tokens,
        bptt_steps=settings.bptt_steps,
        shuffle=False,
        shuffle_buffer=max(len(examples), 1),
        parts=settings.accumulate,
        local_parts=range(settings.accumulate),
    )


def _add_reader(readers: dict[str, Read], name: str, file: str, task: Task) -> None:
    readers[name] = partial(task.read, resolve(file))


def _until_error(read: Read) -> Iterator[Any]:
    """The examples before the first one that cannot be read, which is already reported."""
    try:
        yield from read()
    except FAILURES:
        return


def _vocabularies(task: Task | None) -> dict[str, int]:
    """The sizes of the vocabularies of a fitted task."""
    learned = dict(task.learned or ()) if task is not None else {}
    values = {name: value.vocabulary if isinstance(value, Tokenizer) else value for name, value in learned.items()}
    return {name: len(value) for name, value in values.items() if isinstance(value, Vocabulary)}


def print_report(report: Report) -> None:
    """Print a report as tables and sentences."""
    splits = {name: split for name, split in report.splits.items() if split.examples or not report.problems}
    terminal.print_lines(*report.notes)
    if splits:
        terminal.table(("", *splits), _split_rows(list(splits.values())))
        _print_histogram("length", {name: s.lengths.histogram for name, s in splits.items() if s.lengths})
        _print_histogram("label", {name: split.labels for name, split in splits.items()})
    sizes = ", ".join(f"{name} {size / 1e6:,.1f}" for name, size in report.bytes.items())
    rows = [
        ("task", report.task),
        *((f"vocabulary of {name}", f"{size:,}") for name, size in report.vocabularies.items()),
        ("parameters", _cell(report.parameters)),
        ("updates per epoch", _cell(report.updates)),
        ("training data", "streamed from the file" if report.streams else "kept in memory"),
        ("memory (MB, estimated)", f"{sum(report.bytes.values()) / 1e6:,.1f} ({sizes})"),
    ]
    if splits:
        terminal.print_lines("")
        terminal.table(("property", "value"), rows)
        terminal.print_lines("")
    terminal.print_lines(*(f"warning: {warning}" for warning in report.warnings))
    terminal.print_lines(*(f"problem: {problem}" for problem in report.problems))
    problems = pluralize(len(report.problems), "problem") if report.problems else "no problems"
    warnings = [pluralize(len(report.warnings), "warning")] if report.warnings else []
    terminal.print_lines(f"{', '.join([*warnings, problems]).capitalize()} found.")


SPLIT_ROWS = {
    "source": "source",
    "examples": "examples",
    "elements": "elements",
    "empty examples": "empty",
    "duplicates": "duplicates",
    "duplicates of train": "in_train",
}
LENGTH_ROWS = {
    "shortest": "minimum",
    "median length": "median",
    "mean length": "mean",
    "95th percentile": "p95",
    "longest": "maximum",
}


def _split_rows(splits: Sequence[SplitSummary]) -> list[tuple[str, ...]]:
    unknown = ["-" if split.unknown is None else f"{split.unknown:.2%}" for split in splits]
    return [
        *((name, *(_cell(getattr(split, key)) for split in splits)) for name, key in SPLIT_ROWS.items()),
        ("unknown tokens", *unknown),
        *((name, *(_cell(getattr(split.lengths, key, None)) for split in splits)) for name, key in LENGTH_ROWS.items()),
        *_target_rows(splits),
        *(
            row
            for side in dict.fromkeys(name for split in splits for name in split.sides)
            for row in _side_rows(side, splits)
        ),
    ]


def _target_rows(splits: Sequence[SplitSummary]) -> Iterator[tuple[str, ...]]:
    """The rows of numbers to predict."""
    count = max((len(split.targets) for split in splits), default=0)
    for index in range(count):
        ranges = [split.targets[index] if index < len(split.targets) else None for split in splits]
        name = next(one.name for one in ranges if one is not None)
        for key in ("minimum", "mean", "maximum", "standard_deviation"):
            yield (f"{name}: {key.replace('_', ' ')}", *(_cell(one and getattr(one, key)) for one in ranges))


def _side_rows(name: str, splits: Sequence[SplitSummary]) -> list[tuple[str, ...]]:
    """The rows of one side of pairs: sources or targets."""
    sides = [split.sides.get(name) for split in splits]
    shares = ["-" if side is None or side.unknown is None else f"{side.unknown:.2%}" for side in sides]
    return [
        (f"{name}: unknown tokens", *shares),
        (f"{name}: empty", *(_cell(side and side.empty) for side in sides)),
        *(
            (f"{name}: {what}", *(_cell(side and getattr(side.lengths, key)) for side in sides))
            for what, key in LENGTH_ROWS.items()
        ),
    ]


def _cell(value: object) -> str:
    if value is None:
        return "-"
    return f"{value:,}" if isinstance(value, int) else format_value(value)


def _print_histogram(what: str, counts: dict[str, dict[str, int]]) -> None:
    """A row for each name that occurs in any split, with a bar for the first split."""
    names = list(dict.fromkeys(name for each in counts.values() for name in each))
    if not names:
        return
    if what == "length":
        names.sort(key=lambda name: int(name.partition("-")[0]))
    first = next(iter(counts.values()))
    most = max(first.values(), default=0) or 1
    rows = [
        (
            name,
            *(f"{each.get(name, 0):,}" for each in counts.values()),
            "#" * round(BAR_WIDTH * first.get(name, 0) / most),
        )
        for name in names[:MAX_ROWS]
    ]
    terminal.print_lines("")
    terminal.table((what, *counts, ""), rows)
    if len(names) > MAX_ROWS:
        count = len(names) - MAX_ROWS
        terminal.print_lines(f"and {count:,} more {what}{'s' if count > 1 else ''}")
