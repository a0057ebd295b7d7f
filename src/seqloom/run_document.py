"""What a person configures: a TOML file, or a task and its data. Errors in them are found without importing torch."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from seqloom import config as configuration
from seqloom import tasks
from seqloom.config import ConfigError, Document
from seqloom.config.schema import all_keys
from seqloom.config.toml import one_of
from seqloom.data.readers import (
    audio_files,
    data_parts,
    labelled_formats,
    midi,
    parallel,
    sentence_tables,
    text_pairs,
    text_tables,
)
from seqloom.data.readers.columns import no_named_column
from seqloom.data.readers.tables import read_table, suffix
from seqloom.data.readers.text_files import DataError, expand, refuse_stream, resolve
from seqloom.tasks import key_table
from seqloom.training.config import TrainConfig


def read_document(path: str, overrides: Sequence[str] = (), *, task: str = "", data: str = "") -> Document:
    """The configuration of a file, or of a task and its data, changed by ``section.key=value``."""
    is_key = bool(task or data) and path.startswith(("task.", "train.", "sweep."))
    if ("=" in path or is_key) and not Path(path).is_file():
        path, overrides = "", [path, *overrides]
    if path and task and not data and Path(path).suffix.lower() != ".toml":
        raise ValueError(f"give a data file with --data: --task {task} --data {path}")
    if path and (task or data):
        raise ValueError(f"give either a configuration ({path}) or --task and --data, not both")
    if path:
        return configuration.read(Path(path), overrides)
    if data and not task:
        raise ValueError(f"--data {data} needs --task, too: {', '.join(tasks.names())}")
    if task and not data:
        raise ValueError(f"--task {task} needs --data FILE, too; seqloom init {task} writes a configuration")
    if not task or not data:
        raise ValueError("nothing to train or check: give a configuration (see seqloom init), or --task and --data")
    try:
        tasks.check_name(task)
    except ValueError as error:
        raise ValueError(f"--task: {error}") from None
    return Document.empty(overrides, values={"task.name": task, **find_data_files(data)})


def check_task(document: Document) -> None:
    """ConfigError if a document names no task, or one that does not exist."""
    name, location = document.get("task.name"), document.location
    if name is None:
        raise ConfigError(f'{location("task")}: missing key "task.name"; expected {one_of(tasks.names())}')
    try:
        tasks.check_name(name)
    except ValueError as error:
        raise ConfigError(f"{location('task.name')}: task.name: {error}") from None


def check_tables(document: Document) -> None:
    """ConfigError for wrong values and unknown keys of both tables; what is left needs the task, and torch."""
    document.check_table("train", TrainConfig)
    name = document.get("task.name")
    if isinstance(name, str) and (keys := key_table.read(name)):
        known = {**keys, **all_keys({"train": TrainConfig})}
        document.check_keys("task", known, may_exist=key_table.may_be_new)
        section = key_table.plain_section(name, document.values["task"])
        document.check_table("task", section, may_be_wrong=key_table.may_be_new)


def check_files(document: Document) -> None:
    """DataError if the training or the development file does not exist, or cannot be read several times."""
    for key in ("task.train", "task.dev"):
        name = document.get(key)
        if isinstance(name, str) and name:
            _check_file(name)


COLUMNS = {
    "classify": (labelled_formats.TEXT.key, text_pairs.SECOND_TEXT.key, labelled_formats.LABEL.key),
    "tag": (sentence_tables.WORD.key, sentence_tables.LABEL.key),
    "translate": (parallel.SOURCE.key, parallel.TARGET.key),
    "language_model": (text_tables.KEY,),
    "embed": (text_tables.KEY,),
    "forecast": ("columns", "target", "group_column", "future_covariates", "static_covariates"),
}
"""Keys that name columns of the training file itself, and never of files that it lists."""
TEXT_TABLES = (".csv", ".tsv", ".tab", ".jsonl", ".ndjson")


def check_columns(document: Document) -> None:
    """DataError if a configured column is missing in the header of a training file that is a table of text."""
    chosen = {key: _names(document.get(f"task.{key}")) for key in COLUMNS.get(str(document.get("task.name")), ())}
    file, separator, encoding = (document.get(f"task.{key}") for key in ("train", "separator", "encoding"))
    if not any(chosen.values()) or not isinstance(file, str):
        return
    path = expand(resolve(file))[0]
    if suffix(path) not in TEXT_TABLES or path.is_dir():
        return
    try:
        table = read_table(path, separator=str(separator or ""), encoding=str(encoding or "utf-8"))
    except ValueError:  # reported when the data are read
        return
    missing = [(key, name) for key, names in chosen.items() for name in names if name not in table.names]
    if table.names and missing:
        key, name = missing[0]
        raise no_named_column(table, name, key=key)


def _names(value: Any) -> list[str]:
    """The names of columns in a setting; a number is the index of a column."""
    return [name for name in (value if isinstance(value, list) else [value]) if isinstance(name, str) and name]


def _check_file(name: str) -> None:
    if not name.isprintable() and any("\ud800" <= character <= "\udfff" for character in name):
        raise DataError(ascii(name), "the name is not valid UTF-8, as a configuration is: rename the file")
    refuse_stream(resolve(name))


def _makes_data(path: Path) -> bool:
    """Whether a file shows that its folder is one set of data."""
    suffixes = (*audio_files.SUFFIXES, *midi.SUFFIXES)
    return path.stem in ("labels", "metadata") or path.name == "wav.scp" or path.suffix.lower() in suffixes


DATA_FILES = {"task.train": data_parts.TRAIN, "task.dev": data_parts.DEV}
"""What the names of the files of a folder contain, in lower case."""


def find_data_files(data: str) -> dict[str, str]:
    """The training and the development file of a folder, by their names; a file or folder of labels is for training."""
    _check_file(data)
    folder = resolve(data)
    if not folder.is_dir():
        return {"task.train": data}
    files = {}
    for key, pattern in DATA_FILES.items():
        names = sorted(path.name for path in folder.iterdir() if pattern.search(path.name.lower()))
        if len(names) > 1:
            raise ValueError(
                f"{data}: several files could be {key}: {', '.join(names)}; give the file itself, two files of a "
                "translation as train.{en,de}.txt, or the file of the words with task.parallel, such as "
                '\'task.parallel=["seq.in", "seq.out"]\', if another file has their labels'
            )
        if names:
            files[key] = str(Path(data, names[0]))
    others = list(folder.glob("[!.]*"))
    if not files and any(path.is_dir() or _makes_data(path) for path in others):
        return {"task.train": data}  # one folder per label, or recordings with or without a table of labels
    if others and all(path.suffix.lower() == ".txt" for path in others) and not data_parts.are_parts(others):
        return {"task.train": data}  # one text per file
    if "task.train" not in files:
        raise ValueError(f"{data}: no file has 'train' in its name; give the file itself, or write a configuration")
    return files
