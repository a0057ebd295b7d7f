"""What is wrong with data and configuration, found before any time is spent on training."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from seqloom import terminal
from seqloom.data.dataset_summary import DatasetSummary, SplitSummary
from seqloom.data.length_summary import counted, join_names
from seqloom.data.loading import BatchLoader
from seqloom.data.readers.text_files import resolve
from seqloom.data.split import Read
from seqloom.data.text.tokenizers import Tokenizer
from seqloom.data.text.vocabulary import Vocabulary
from seqloom.evaluation import evaluate
from seqloom.run_config import Config
from seqloom.tasks.task import Task
from seqloom.training import schedules
from seqloom.training.lessons import first_lesson, is_taught
from seqloom.workflow import data

FAILURES = (ValueError, TypeError, RuntimeError, LookupError, ArithmeticError, MemoryError, OSError, ImportError)
"""What wrong data or a wrong configuration may raise: it is reported."""

RARE = 5  # a label that occurs less often can hardly be learnt
MANY_UNKNOWN = 0.1  # share of the symbols
LABELS = 15  # rows of the table of labels
BAR = 30  # characters of the longest bar


@dataclass(frozen=True)
class Report:
    """What was found: ``problems`` would fail or are surely wrong, ``remarks`` are worth knowing."""

    task: str
    splits: dict[str, SplitSummary]  # train, dev
    vocabularies: dict[str, int]  # their sizes
    parameters: int | None  # of the model; None: it could not be built
    updates: int | None  # in an epoch; None: not known, the data are streamed
    streams: bool  # the training data are too many to be kept in memory
    bytes: dict[str, int]  # that training needs, estimated: examples, model, batch
    problems: list[str]
    remarks: list[str]


def examine(config: Config) -> Report:
    """Read all data, and make one update with the longest examples. The data are not kept."""
    return _Examination(config).report()


class _Examination:
    def __init__(self, config: Config) -> None:
        self.config = config
        self.problems: list[str] = []
        self.remarks: list[str] = []
        self.parameters: int | None = None
        self.lesson = 0  # examples in one, where a model trains itself
        self.bytes = {"examples": 0, "model": 0, "batch": 0}

    def report(self) -> Report:
        config, settings = self.config, self.config.train
        readers = self._readers()
        found = {name: self._survey(name, read) for name, read in readers.items()}
        task = self._fit(readers, found)
        if task is not None:
            for name, survey in found.items():
                examples = _until_error(readers[name])
                doubts = (task.infeasible, task.infeasible_when_augmented) if name == "train" else (task.infeasible,)
                self._try(partial(survey.count_symbols, examples, task.collate, *doubts))
                if survey.infeasible.total == survey.examples > 0:
                    self.problems.append(f"{name}: every example is impossible, first {survey.infeasible}")
        for name, survey in found.items():
            self.remarks += [f"{name}: {remark}" for remark in survey.remarks()]
        train, dev = found.get("train"), found.get("dev")
        if train and dev:
            self._compare(train, dev)
        elif train:
            self.remarks.append("there are no development data: nothing tells which model is the best, or how good")
        if train and task is not None:
            self._try(lambda: self._run(config._replace(task=task), train, dev), "with the longest examples: ")
        streams = train is not None and train.examples > settings.shuffle_buffer
        if streams and settings.schedule in schedules.NEED_THE_END and not settings.updates:
            self.problems.append(
                f'train.schedule is "{settings.schedule}", which needs to know the last update, and the data are '
                f"streamed, since there are more than {settings.shuffle_buffer:,} examples (train.shuffle_buffer): set train.updates"
            )
        self.bytes["examples"] = sum(
            survey.size(settings.shuffle_buffer if survey is train else survey.examples) for survey in found.values()
        )
        return Report(
            task=config.name,
            splits={name: survey.split(self._source(name), train) for name, survey in found.items()},
            vocabularies=_vocabularies(task),
            parameters=self.parameters,
            updates=None if streams or not train else self._updates(train),
            streams=streams,
            bytes=self.bytes,
            problems=self.problems,
            remarks=self.remarks,
        )

    def _try(self, work: Callable[[], object], where: str = "") -> None:
        try:
            work()
        except FAILURES as error:
            problem = f"{where}{str(error) or type(error).__name__}"
            if not any(str(error) and known.endswith(str(error)) for known in self.problems):
                self.problems.append(problem)

    def _readers(self) -> dict[str, Read]:
        """How to read each file that is there; where there is no dev file, a part of the training file is that."""
        task = self.config.task
        found: dict[str, Read] = {}
        for name, file in (("train", task.train), ("dev", task.dev)):
            if file:
                self._try(partial(_find, name, file, task, found))
        if "train" in found and not task.dev and task.dev_fraction:
            self._try(lambda: found.update(vars(data(self.config))))
        return found

    def _source(self, name: str) -> str:
        task = self.config.task
        if task.dev or not task.dev_fraction:
            return task.dev if name == "dev" else task.train
        return f"{task.train}, {task.dev_fraction if name == 'dev' else 1 - task.dev_fraction:.0%} of it"

    def _survey(self, name: str, read: Read) -> DatasetSummary:
        survey = DatasetSummary(keep=max(self.config.train.batch_size, self.config.train.batch_tokens // 8))

        def gather() -> None:
            for example in read():
                survey.add(example)
            if not survey.examples:
                raise ValueError(f"{self._source(name)}: there are no examples")

        self._try(gather)
        if survey.unlabelled:
            several = counted(survey.unlabelled.total, "example")
            missing = survey.contents.answers.removesuffix("s")
            self.problems.append(f"{name}: {several} without a {missing}, first {survey.unlabelled}")
        return survey

    def _fit(self, readers: dict[str, Read], found: dict[str, DatasetSummary]) -> Task | None:
        """The fitted task, if the training examples that can be read allow it."""
        fitted: list[Task] = []
        if "train" in found and found["train"].examples and not found["train"].unlabelled:
            self._try(lambda: fitted.append(self.config.task.fit(_until_error(readers["train"]))))
        return fitted[0] if fitted else None

    def _compare(self, train: DatasetSummary, dev: DatasetSummary) -> None:
        """The development data beside the training data."""
        if again := dev.contents.describe(train.contents):
            every = len(dev.contents.repeated(train.contents)[0]) == len(dev.contents)
            text = f"dev: {'all' if every else 'some'} of its content stands in train: {again}"
            (self.problems if every else self.remarks).append(text)
        if unseen := [label for label in dev.labels if label not in train.labels]:
            shown = [f"{label!r} ({dev.labels[label]:,} times, first {dev.first[label]})" for label in unseen]
            several = counted(len(unseen), "label")
            self.remarks.append(f"dev: {several} not in train, so that no model can say it: {join_names(shown)}")
        if rare := [label for label, times in train.labels.items() if times < RARE]:
            shown = [f"{label!r} ({train.labels[label]}, first {train.first[label]})" for label in rare]
            self.remarks.append(f"train: {counted(len(rare), 'label')} less than {RARE} times: {join_names(shown)}")
        for name in [name for name in dev.sides if name in train.sides]:
            self.remarks += dev.sides[name].compare(train.sides[name])
        share = dev.unknown_share or 0.0
        if share > MANY_UNKNOWN and not dev.sides:
            self.remarks.append(f"dev: {share:.1%} of the symbols are unknown, as they do not occur in train")
        task = self.config.task
        if share and not train.unknown and hasattr(task, "text") and not getattr(task, "word_dropout", 0):
            self.remarks.append(
                f"dev: {share:.2%} of the symbols are unknown and none of train is, so that nothing is learnt about "
                "them: raise task.text.min_count"
            )

    def _run(self, config: Config, train: DatasetSummary, dev: DatasetSummary | None) -> None:
        """One update and one evaluation, as training would make them, with the longest examples."""
        settings = config.train
        with torch.random.fork_rng(devices=[]):
            module: Any = config.task.build_model().to(settings.device)
            self.parameters = sum(parameter.numel() for parameter in module.parameters())
            copies = 2 + (settings.momentum > 0 if settings.optimizer == "sgd" else 2)  # weights, gradient, averages
            self.bytes["model"] = 4 * (1 if is_taught(module) else copies) * self.parameters
            if is_taught(module):
                self.lesson = getattr(module, "lesson", train.examples)
                first_lesson(module, train.longest)
            else:
                self._update(config, module, train.longest)
            if dev and dev.examples and not dev.unlabelled:
                evaluate(config, module, dev.longest)

    def _update(self, config: Config, module: nn.Module, examples: Sequence[Any]) -> None:
        module.train()
        for part in next(_batches(config, examples).epoch(0), []):
            kept = _Kept()
            with torch.autograd.graph.saved_tensors_hooks(kept.add, lambda tensor: tensor):
                loss = config.task.loss(module, part.to(config.train.device))
            loss.total.backward()
            self.bytes["batch"] = max(self.bytes["batch"], sum(kept.sizes.values()))
            gradients = [parameter.grad for parameter in module.parameters() if parameter.grad is not None]
            if not all(bool(tensor.isfinite().all()) for tensor in (loss.total, *gradients)):
                raise ValueError("the loss or its gradient is not finite")

    def _updates(self, train: DatasetSummary) -> int | None:
        """In an epoch; with ``batch_tokens`` the number differs a little from epoch to epoch."""
        settings = self.config.train
        if self.lesson:
            return math.ceil(train.examples / self.lesson)
        if settings.bptt_steps:
            return (
                None
                if train.symbols is None
                else math.ceil(math.ceil(train.symbols / settings.batch_size) / settings.bptt_steps)
            )
        lengths = [range(length) for length in train.lengths.elements()]  # their len is all that is asked for
        return _batches(self.config, lengths).count(0)


class _Kept:
    """The memory that is kept for the way back, by its address; parameters do not count."""

    def __init__(self) -> None:
        self.sizes: dict[int, int] = {}

    def add(self, tensor: Tensor) -> Tensor:
        if not isinstance(tensor, nn.Parameter):
            self.sizes[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor


def _batches(config: Config, examples: Sequence[Any]) -> BatchLoader:
    """The given examples in the shape that training has, in their order."""
    settings = config.train
    return BatchLoader(
        lambda: iter(examples),
        config.task.collate,
        rows=settings.batch_size,
        tokens=settings.batch_tokens,
        steps=settings.bptt_steps,
        shuffle=False,
        pool=max(len(examples), 1),
        parts=settings.accumulate,
        own=range(settings.accumulate),
    )


def _find(name: str, file: str, task: Task, found: dict[str, Read]) -> None:
    found[name] = partial(task.read, resolve(file))


def _until_error(read: Read) -> Iterator[Any]:
    """The examples before the first that cannot be read, which was reported."""
    try:
        yield from read()
    except FAILURES:
        return


def _vocabularies(task: Task | None) -> dict[str, int]:
    learned = dict(task.learned or ()) if task is not None else {}
    found = {name: value.vocabulary if isinstance(value, Tokenizer) else value for name, value in learned.items()}
    return {name: len(value) for name, value in found.items() if isinstance(value, Vocabulary)}


def show(report: Report) -> None:
    """Print a report for a person."""
    splits = report.splits
    if splits:
        terminal.table(("", *splits), _facts(list(splits.values())))
        _show_histogram("length", {name: s.lengths.histogram for name, s in splits.items() if s.lengths})
        _show_histogram("label", {name: split.labels for name, split in splits.items()})
    sizes = ", ".join(f"{name} {size / 1e6:,.1f}" for name, size in report.bytes.items())
    rows = [
        *((f"vocabulary of {name}", f"{size:,}") for name, size in report.vocabularies.items()),
        ("parameters", _cell(report.parameters)),
        ("updates in an epoch", _cell(report.updates)),
        ("training data", "streamed from the file" if report.streams else "kept in memory"),
        ("megabytes, about", f"{sum(report.bytes.values()) / 1e6:,.1f} ({sizes})"),
    ]
    terminal.say("")
    terminal.table(("training", report.task), rows)
    terminal.say("")
    terminal.say(*(f"remark: {remark}" for remark in report.remarks))
    terminal.say(*(f"problem: {problem}" for problem in report.problems))
    terminal.say(f"{counted(len(report.problems), 'problem')} found." if report.problems else "No problems found.")


FACTS = {
    "source": "source",
    "examples": "examples",
    "elements": "elements",
    "without elements": "empty",
    "content repeated": "repeated",
    "content in train": "in_train",
}
LENGTHS = {"shortest": "minimum", "median": "median", "mean": "mean", "95 % at most": "most", "longest": "maximum"}


def _facts(splits: Sequence[SplitSummary]) -> list[tuple[str, ...]]:
    unknown = ["-" if split.unknown is None else f"{split.unknown:.2%}" for split in splits]
    return [
        *((name, *(_cell(getattr(split, key)) for split in splits)) for name, key in FACTS.items()),
        ("unknown symbols", *unknown),
        *((name, *(_cell(getattr(split.lengths, key, None)) for split in splits)) for name, key in LENGTHS.items()),
        *(
            row
            for side in dict.fromkeys(name for split in splits for name in split.sides)
            for row in _side(side, splits)
        ),
    ]


def _side(name: str, splits: Sequence[SplitSummary]) -> list[tuple[str, ...]]:
    """Of the sources or of the targets of pairs."""
    sides = [split.sides.get(name) for split in splits]
    shares = ["-" if side is None or side.unknown is None else f"{side.unknown:.2%}" for side in sides]
    return [
        (f"{name}: unknown symbols", *shares),
        (f"{name}: without symbols", *(_cell(side and side.empty) for side in sides)),
        *(
            (f"{name}: {what}", *(_cell(side and getattr(side.lengths, key)) for side in sides))
            for what, key in LENGTHS.items()
        ),
    ]


def _cell(value: object) -> str:
    if value is None:
        return "-"
    return f"{value:,}" if isinstance(value, int) else terminal.number(value)


def _show_histogram(what: str, counts: dict[str, dict[str, int]]) -> None:
    """One row for each name in any split, with a bar for the first split."""
    names = list(dict.fromkeys(name for each in counts.values() for name in each))
    if not names:
        return
    if what == "length":
        names.sort(key=lambda name: int(name.partition("-")[0]))
    first = next(iter(counts.values()))
    most = max(first.values(), default=0) or 1
    rows = [
        (name, *(f"{each.get(name, 0):,}" for each in counts.values()), "#" * round(BAR * first.get(name, 0) / most))
        for name in names[:LABELS]
    ]
    terminal.say("")
    terminal.table((what, *counts, ""), rows)
    if len(names) > LABELS:
        terminal.say(f"and {counted(len(names) - LABELS, what)} more")
