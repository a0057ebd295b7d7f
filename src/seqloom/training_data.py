"""The data of a training run: its readers, what they show, and whether they are still the same."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from seqloom.checkpoint import RunError
from seqloom.data.fingerprint import fingerprint, fingerprint_files
from seqloom.data.length_limit import LengthLimit
from seqloom.data.readers.memory import IN_MEMORY, digest
from seqloom.data.readers.suited_task import SuitedTask, find_suited_task
from seqloom.data.readers.text_files import (
    STANDARD_INPUT,
    WARNING,
    DataError,
    MissingTargetError,
    expand,
    pluralize,
    refuse_stream,
    resolve,
)
from seqloom.data.split import Read, hold_out, hold_out_fold
from seqloom.run import Run
from seqloom.run_config import Config


@dataclass(frozen=True)
class DataReaders:
    """Readers of the training and the development examples."""

    train: Read
    dev: Read
    limit: LengthLimit  # of the training examples


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
FIRST_LINES = 3
"""Lines in which an error shows that a file is of another kind; later, it is an error in a file of the right kind."""


def data_readers(config: Config, sources: Sources = FILES_ONLY) -> DataReaders:
    """The readers of a configuration; without development data, a share of the training data is held out."""
    task = config.task

    def reader(source: Any) -> Read:
        return lambda: task.read(source)

    limit = length_limit(config)
    read_train = reader(_readable_again(sources.training_source(config)))

    def readers(train: Read, dev: Read) -> DataReaders:
        if not task.dev:
            train = _refusing_none(train, read_train, config, sources)
        return DataReaders(limit.limit(train) if limit.length else train, dev, limit)

    if task.dev:
        return readers(read_train, reader(_readable_again(sources.dev_source(config))))
    if task.fold:

        def stratum(example: Any) -> str:
            labels = task.summarize_example(example).labels
            return labels[0] if len(labels) == 1 else ""

        return readers(
            *hold_out_fold(read_train, *task.fold, sequential=task.sequential, gap=task.gap, stratum=stratum)
        )
    if not task.dev_fraction:
        return readers(read_train, lambda: iter(()))
    return readers(*hold_out(read_train, task.dev_fraction, sequential=task.sequential, gap=task.gap))


def _refusing_none(train: Read, read: Read, config: Config, sources: Sources) -> Read:
    """The reader of what remains for training of all examples; DataError if there are some, but none remains."""
    task = config.task

    def read_examples() -> Iterator[Any]:
        is_empty = True
        for example in train():
            is_empty = False
            yield example
        if not is_empty or not (total := sum(1 for _ in read())):
            return
        held_out = sum(1 for _ in data_readers(config, sources).dev())
        one = held_out == 1
        overlap = (
            f", and the other {total - held_out:,} overlap with {'it' if one else 'them'}" if total > held_out else ""
        )
        raise DataError(
            task.train if sources.train is None else "data",
            f"found no examples to train on: of {pluralize(total, 'example')}, {held_out:,} {'is' if one else 'are'} "
            f"held out for development{overlap}. {_sentence(task.held_out_advice(sources.training_source(config)))}",
        )

    return read_examples


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]


def no_dev_examples(config: Config, trained: int, sources: Sources = FILES_ONLY) -> str:
    """Why there are no development examples beside those to train on, and what to do."""
    task = config.task
    if task.dev:
        return f"{task.dev}: there are no examples"
    source = sources.training_source(config)
    is_single = next(islice(task.read(source), 1, None), None) is None  # also if training cuts it into parts
    if is_single and (advice := task.single_example_advice(source)):
        return f"{task.train}: all of it is one sequence, of which no part can be held out: {advice}"
    examples = pluralize(trained, "example")
    if task.fold:
        return f"there are no development examples: of {examples}, none is in fold {task.dev_fold} (task.dev_fold)"
    return (
        f"there are no development examples: holding out {task.dev_fraction:.0%} of {examples} left none; "
        "set task.dev, or raise task.dev_fraction (0: none)"
    )


def _readable_again(source: Any) -> Any:
    """The same source; DataError if it is a file that can be read only once."""
    if isinstance(source, Path):
        refuse_stream(source)
    return source


def length_limit(config: Config) -> LengthLimit:
    """The largest length of training examples; 0: they have none."""
    task, settings = config.task, config.train
    return LengthLimit(settings.max_length, settings.too_long, measure=task.measure, shorten=task.shorten)


def with_detected(config: Config, sources: Sources = FILES_ONLY) -> tuple[Config, tuple[str, ...]]:
    """The configuration with the settings that the training data show, such as their columns, and notes about them."""
    source = _readable_again(sources.training_source(config))
    suited = None if config.task.says_how_to_read else _suited_task(config, source)
    advice = suited.advice(source) if suited is not None and suited.misread_by(config.name) else ""
    if advice and config.task.has_formats:
        raise DataError(
            str(source) if isinstance(source, Path) else "input",
            f"{advice}. To train the task {config.name} nevertheless, set task.format",
        )
    with suggesting_task(config, sources):
        task, notes = config.task.resolve(source)
    notes = (*notes, f"the task {config.name} is trained as configured, but {advice}") if advice else notes
    name = config.task.train if sources.train is None else "data"
    return config._replace(task=task), tuple(_located(note, name) for note in notes)


def _located(note: str, name: str) -> str:
    """A note with the name of the training data, unless it is about the development data."""
    text = note.removeprefix(WARNING)
    return note.removesuffix(text) + (text if text.startswith("dev file ") else f"{name}: {text}")


ALSO = ". Also "
"""Between an error and the task that the data suit."""


@contextmanager
def suggesting_task(config: Config, sources: Sources = FILES_ONLY) -> Iterator[None]:
    """Reads or fits training data; an error about data that suit another task names that task."""
    try:
        yield
    except DataError as failure:
        error = _with_count(config, sources, failure) if isinstance(failure, MissingTargetError) else failure
        advice = _advice(config, sources, error)
        if not advice and error is failure:
            raise
        if not advice:
            raise error from None
        raise DataError(error.location, f"{error.message}{ALSO}{advice}") from None


def _with_count(config: Config, sources: Sources, error: MissingTargetError) -> DataError:
    """The error of an example without a target, with the number of such examples."""
    total = missing = 0
    with suppress(DataError):  # further examples may not be readable
        for example in config.task.read(sources.training_source(config)):
            total += 1
            missing += not config.task.summarize_example(example).labelled
    if missing < 2:
        return DataError(error.location, f"{error.message}: {error.remedy}")
    counted = f"{missing:,} of {total:,} examples have none"
    return DataError(error.location, f"{error.message}; {counted}: {error.remedy}")


def _advice(config: Config, sources: Sources, error: DataError) -> str:
    """The task that the training data suit, if an error is about them and does not say so; empty: none."""
    with suppress(DataError):  # there is no such file
        source = sources.training_source(config)
        suited = _suited_task(config, source)
        is_early = getattr(error.location, "line", 0) <= FIRST_LINES
        if suited is not None and suited.task != config.name and (suited.certain or is_early):
            advice = suited.advice(source)
            located = not isinstance(source, Path) or str(error.location).startswith(str(source))
            return advice if located and advice not in error.message else ""
    return ""


def _suited_task(config: Config, source: Any) -> SuitedTask | None:
    return find_suited_task(source, encoding=getattr(config.task, "encoding", "utf-8"))


def fingerprints(config: Config, sources: Sources = FILES_ONLY) -> dict[str, Any]:
    """Fingerprints of all data that training reads."""
    task = config.task
    prints = {name: fingerprint(name) for name in task.files if name != IN_MEMORY}
    for source, files in _listed_files(config).items():
        prints[f"{source} (listed files)"] = fingerprint_files(files)
    in_memory = {"train": sources.train, "dev": sources.dev}
    return prints | {
        f"{name} {IN_MEMORY}": digest(task.read(source)) for name, source in in_memory.items() if source is not None
    }


def _listed_files(config: Config) -> dict[str, list[Path]]:
    """The files that the data files name, such as images and recordings."""
    task = config.task
    sources = [name for name in (task.train, task.dev) if name and name not in (IN_MEMORY, str(STANDARD_INPUT))]
    listed = {name: task.listed_files(resolve(name)) for name in sources}
    return {name: files for name, files in listed.items() if files}


def check_unchanged(run: Run, config: Config, sources: Sources) -> None:
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
    for name in config.task.files:
        if name != IN_MEMORY:
            _refuse_special(name, run)
    if name := changed_file(run, config, sources):
        raise RunError(
            f"{name}: has changed since {run.path} was started; a run can only be resumed with the same data"
        )


def count_trained(
    config: Config,
    source: Any,  # a path, or data in memory
    examples: Sequence[Any],  # of the source
    *,
    recorded: Mapping[str, Any],  # fingerprints of the data that a run was trained on
) -> int:
    """How many of the examples a run was trained on, if they are its training data and not only a part of them."""
    task = config.task
    if isinstance(source, Path):
        same = source != STANDARD_INPUT and recorded.get(task.train) == fingerprint(str(source))
        same = same and _selected_rows(source) == _selected_rows(Path(task.train))
    else:
        name = f"train {IN_MEMORY}"
        same = name in recorded and recorded[name] == digest(examples)
    if not same or task.dev:
        return len(examples) if same else 0
    held_out = data_readers(config, Sources(train=source)).dev()
    return len(examples) - sum(1 for _ in held_out)


def _selected_rows(path: Path) -> str:
    """The range of rows after the name of a file; empty: all of them."""
    return path.name.removeprefix(expand(path)[0].name)


def dev_examples(
    config: Config,
    recorded: Mapping[str, Any],  # fingerprints of the data that the run was trained on
) -> Iterator[Any]:
    """The development examples of a run, or training examples if it has none.

    DataError if they are not the data that the run recorded: a run from someone else may name any file.
    """
    for name in config.task.files:
        if name == IN_MEMORY or name not in recorded:
            raise DataError(name, "the run has no file with its data")
        for path in expand(resolve(name)):
            if _is_special(path):
                raise DataError(name, "expected a file or a folder")
        if fingerprint(name) != recorded[name]:
            raise DataError(name, "has changed since the run was trained")
    readers = data_readers(config)
    first = next(readers.dev(), None)
    return readers.train() if first is None else readers.dev()


def _refuse_special(name: str, run: Run) -> None:
    """Raise RunError if a run names standard input, a pipe or a device, which may never end."""
    for path in expand(resolve(name)):
        if _is_special(path):
            raise RunError(f"{name}: expected a file or a folder; {run.path} cannot be resumed with other data")


def _is_special(path: Path) -> bool:
    return path == STANDARD_INPUT or (path.exists() and not path.is_file() and not path.is_dir())


def changed_file(run: Run, config: Config, sources: Sources = FILES_ONLY) -> str:
    """The first data file that has changed since a run was started; empty: none has."""
    before = run.environment.get("data", {})
    changed = next((name for name, now in fingerprints(config, sources).items() if now != before.get(name, now)), "")
    source = changed.removesuffix(" (listed files)")
    if source == changed:
        return changed
    started = (run.path / "env.json").stat().st_mtime
    newer = [file for file in _listed_files(config).get(source, []) if file.stat().st_mtime >= started]
    more = f" and {len(newer) - 1:,} more" if len(newer) > 1 else ""
    return f"{newer[0]}{more}, listed in {source}" if newer else f"a file listed in {source}"
