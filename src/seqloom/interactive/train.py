"""``seqloom.train`` and ``seqloom.resume``: from a configuration or from data in memory, with a display of progress."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from seqloom import tasks, workflow
from seqloom.config import ConfigError, Document
from seqloom.config import read as read_config
from seqloom.config.schema import fields, members
from seqloom.data.readers import memory, tables
from seqloom.data.readers.memory import IN_MEMORY
from seqloom.formats import describe_type
from seqloom.interactive.progress import training_display
from seqloom.models.encoder import LayerFactory
from seqloom.run import Run
from seqloom.run_config import Config
from seqloom.run_document import find_data_files
from seqloom.tasks.task import Task
from seqloom.training.config import TrainConfig
from seqloom.training_data import FILES_ONLY, Sources
from seqloom.warm_start import VocabularySource
from seqloom.workflow import Listener

Changes = str | Sequence[str] | Mapping[str, Any]


def train(
    config: Config | Mapping[str, Any] | str | Path | None = None,  # a TOML file or its tables; or the name of a task
    *changes: Changes,  # "train.epochs=2", or {"train.epochs": 2}
    task: str = "",  # the name of a task, instead of a configuration
    data: Any = None,  # a path, a data frame, a dict of columns, a list, or an array
    dev: Any = None,  # development data like ``data``; None: hold out task.dev_fraction of the training data
    output: str | Path | None = None,  # run folder; None: runs/<task>, or runs/<task>-2 and so on
    layer: LayerFactory | None = None,  # a custom cell or layer
    start_from: str | Path | None = None,  # a run whose weights are the initial ones
    vocabulary: VocabularySource = "shared",  # with start_from: that run's, or that of the data, mapped to it
    listeners: Sequence[Listener] = (),
    quiet: bool = False,  # show no progress
    plots: bool = True,  # draw learning curves and predictions into the run folder
    overrides: Changes = (),  # the same as ``changes``
    **settings: Any,
) -> Run:
    """Train a model in a new run folder, by a configuration or from a task and its data.

    ``settings`` are keys of the task or of training: ``epochs=3``, ``encoder={"cell": "gru"}``. Of a task that reads
    columns, ``text="review"`` names the column of the texts; targets may also be given themselves, ``label=[...]``.
    """
    if isinstance(config, Config):
        if changes or overrides or settings or task or data is not None or dev is not None:
            raise ValueError("a Config is complete: give the path of a TOML file to change it by other arguments")
        built, sources = config, FILES_ONLY
    else:
        document, sources = configure(config, (*changes, overrides), task=task, data=data, dev=dev, settings=settings)
        built = Config.build(document, source=sources.train)
    with training_display(quiet=quiet or not workflow.is_main_process()) as display:
        return workflow.train(
            built,
            output=output,
            layer=layer,
            start_from=start_from,
            vocabulary=vocabulary,
            listeners=[display, *listeners],
            sources=sources,
            plots=plots,
        )


def resume(
    run: Run | str | Path,
    *changes: str,  # such as "train.epochs=30", to continue a finished run
    data: Any = None,  # the same data again, if they were in memory
    dev: Any = None,
    layer: LayerFactory | None = None,
    listeners: Sequence[Listener] = (),
    quiet: bool = False,  # show no progress
) -> Run:
    """Resume an interrupted run, bit for bit as if it had never stopped, or continue a finished one."""
    if not isinstance(run, str | Path | Run):
        raise TypeError(f"expected a run or its path, found {describe_type(run)}")
    path = run.path if isinstance(run, Run) else Path(run)
    data, dev = _split(data, dev)
    sources = Sources(*(None if given is None else memory.as_source(given) for given in (data, dev)))
    with training_display(quiet=quiet or not workflow.is_main_process()) as display:
        return workflow.resume(path, changes, layer=layer, listeners=[display, *listeners], sources=sources)


def configure(
    config: Any, changes: Sequence[Any], *, task: str, data: Any, dev: Any, settings: Mapping[str, Any]
) -> tuple[Document, Sources]:
    """The configuration that the arguments of ``train`` describe, and the data among them that are in memory."""
    if isinstance(config, str) and config in tasks.names() and not task and not Path(config).exists():
        config, task = None, config
    if isinstance(config, str) and "=" in config and not Path(config).is_file():
        config, changes = None, (config, *changes)
    texts, values = _split_changes(changes)
    document = _document(config, texts, task=task, data=data)
    kind = _kind(document)
    data, dev = _split(data, dev)
    data, dev, keys = _apply_settings(kind, data, dev, settings)
    sources = Sources(_in_memory(data), _in_memory(dev))
    return document.with_arguments({**_files(data, dev), **_plain(values), **_plain(keys)}), sources


def _document(config: Any, overrides: Sequence[str], *, task: str, data: Any) -> Document:
    if config is None:
        if not task or data is None:
            missing = " and ".join(name for name, given in (("task", task), ("data", data is not None)) if not given)
            raise ValueError(f"nothing to train: give {missing}, or the path of a configuration; {_usage(data)}")
        if task not in tasks.names():
            tasks.find(task)  # raises ValueError
        return Document.empty(overrides, values={"task.name": task})
    if task:
        raise ValueError(f"give either a configuration or a task, not both; {_usage(data)}")
    if isinstance(config, Mapping) and isinstance(config.get("task"), Mapping):
        return Document.empty(overrides).with_arguments(_plain(config))
    if not isinstance(config, str | Path):
        raise TypeError(f"expected the path of a configuration, found {describe_type(config)}; {_usage(config)}")
    path = Path(config)
    if path.suffix.lower() != ".toml" and (tables.suffix(path) in (*tables.SUFFIXES, ".txt") or path.is_dir()):
        raise ValueError(f"{path}: is data, not a configuration; {_usage(str(config))}")
    return read_config(path, overrides)


def _kind(document: Document) -> type[Task]:
    name = document.get("task.name")
    if not isinstance(name, str):
        raise ConfigError(f'{document.location("task")}: missing key "task.name"')
    return tasks.find(name)


def _usage(data: Any) -> str:
    """A call that would do, with the columns of the data if they have any."""
    shown = repr(data) if isinstance(data, str) else "data"
    names = _column_names(data)
    column = f", text={names[0]!r}, label={names[-1]!r}" if len(names) > 1 else ""
    listed = f" (its columns are {', '.join(names)[:200]})" if names else ""
    return (
        f'for example seqloom.train(task="classify", data={shown}{column}){listed}; tasks: {", ".join(tasks.names())}'
    )


def _column_names(data: Any) -> tuple[str, ...]:
    return tables.read_table(data).names if not isinstance(data, str | Path) and tables.is_table(data) else ()


def _split_changes(changes: Sequence[Any]) -> tuple[list[str], dict[str, Any]]:
    """Changes as texts, ``section.key=value``, and as values by ``section.key``."""
    texts: list[str] = []
    values: dict[str, Any] = {}
    for change in changes:
        if isinstance(change, str):
            texts.append(change)
        elif isinstance(change, Mapping) and all(isinstance(name, str) for name in change):
            values.update(change)
        elif isinstance(change, list | tuple) and all(isinstance(text, str) for text in change):
            texts.extend(change)
        else:
            raise TypeError(
                f'expected changes such as "train.epochs=2" or {{"train.epochs": 2}}, found {describe_type(change)}; '
                "data are given by name: data=…"
            )
    return texts, values


def _split(data: Any, dev: Any) -> tuple[Any, Any]:
    """Training and development data; a dict of tables may hold both."""
    train, other = memory.splits(data)
    return train, other if dev is None else dev


def _in_memory(data: Any) -> Any:
    return None if data is None or isinstance(data, str | Path) else memory.as_source(data)


def _files(data: Any, dev: Any) -> dict[str, str]:
    """The configuration of data: their paths, or that they are in memory."""
    values: dict[str, str] = {}
    if isinstance(data, str | Path):
        values |= find_data_files(str(data))
    elif data is not None:
        values |= {"task.train": IN_MEMORY, "task.dev": ""}
    if dev is not None:
        values["task.dev"] = str(dev) if isinstance(dev, str | Path) else IN_MEMORY
    return values


def _apply_settings(
    kind: type[Task], data: Any, dev: Any, settings: Mapping[str, Any]
) -> tuple[Any, Any, dict[str, Any]]:
    """The data with targets that were given apart from them, and the settings by ``section.key``."""
    keys: dict[str, Any] = {}
    names = fields(kind)
    if any(name.endswith("_column") and name != "text_column" for name in names):  # each input has a target
        data, dev = (
            memory.with_targets(*given, noun=kind.target_name) if _is_pair_of_lists(given) else given
            for given in (data, dev)
        )
    for name, value in settings.items():
        if "." in name:
            keys[name] = value
        elif f"{name}_column" in names and (isinstance(value, str | int | np.integer) or _are_columns(value, data)):
            keys[f"task.{name}_column"] = value
        elif f"{name}_column" in names and not isinstance(value, Mapping) and value is not None:
            data = memory.with_targets(data, value, noun=name)
        else:
            section = "train" if name in fields(TrainConfig) and name not in names else "task"
            keys[f"{section}.{name}"] = [value] if isinstance(value, str) and _is_list(names, name) else value
    return data, dev, keys


def _are_columns(value: Any, data: Any) -> bool:
    """Whether a list names columns of the data."""
    if not isinstance(value, list | tuple) or not value or not all(isinstance(name, str) for name in value):
        return False
    return isinstance(data, str | Path) or set(value) <= set(_column_names(data))


def _is_pair_of_lists(data: Any) -> bool:
    """Whether data are inputs and targets, apart: ``(X, y)``."""
    if not isinstance(data, tuple) or len(data) != 2:
        return False
    return all(hasattr(part, "__len__") and not isinstance(part, str | tuple | Mapping) for part in data)


def _is_list(names: Mapping[str, Any], name: str) -> bool:
    """Whether a key takes a list of strings."""
    return name in names and any(
        getattr(member, "__origin__", None) is tuple for member in members(names[name].annotation)
    )


def _plain(values: Mapping[str, Any]) -> dict[str, Any]:
    """Values as TOML holds them: no NumPy numbers, no tuples, no paths, no None."""
    return {name: _plain_value(value) for name, value in values.items() if value is not None}


def _plain_value(value: Any) -> Any:
    if isinstance(value, Mapping):
        return _plain(value)
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, list | tuple | np.ndarray):
        return [_plain_value(item) for item in value]
    if isinstance(value, Path):
        return str(value)
    if value is None or isinstance(value, str | int | float | bool):
        return value
    raise TypeError(f"expected a setting as in a TOML file, found {describe_type(value)}")
