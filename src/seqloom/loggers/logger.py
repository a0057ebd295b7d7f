"""What loggers of all kinds share: which values of a training run they get, and how they are opened and closed."""

import json
import tomllib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from importlib import import_module
from typing import Any

from seqloom import files
from seqloom.run import Run
from seqloom.training.config import LoggerName
from seqloom.training.progress import Progress


class Logger(ABC):
    """Passes a run on to another program. A run that is resumed continues the same log."""

    @abstractmethod
    def __init__(self, run: Run, *, update: int) -> None:
        """Open the log of a run that has trained for ``update`` updates."""

    @abstractmethod
    def log(self, values: Mapping[str, float], *, update: int) -> None:
        """Add values, such as ``train/loss``, at an update."""

    @abstractmethod
    def finish(self, best: Mapping[str, float]) -> None:
        """Add the metrics of the best checkpoint of a run that has ended."""

    @abstractmethod
    def close(self) -> None:
        """Write what was not written yet."""


@contextmanager
def open_loggers(names: Sequence[LoggerName], run: Run, *, update: int) -> Iterator["LoggerListener"]:
    """A listener that passes events on to loggers; they are closed at the end, whatever happens."""
    with ExitStack() as stack:
        loggers = []
        for name in names:
            logger: Logger = _find(name)(run, update=update)
            stack.callback(logger.close)
            loggers.append(logger)
        yield LoggerListener(loggers)


def check_installed(names: Sequence[LoggerName]) -> None:
    """ModuleNotFoundError with the command that installs a package, if one is missing."""
    for name in names:
        _find(name)


def _find(name: LoggerName) -> type[Logger]:
    module = import_module(f"seqloom.loggers.{name}")
    logger: type[Logger] = next(
        value
        for value in vars(module).values()
        if isinstance(value, type) and issubclass(value, Logger) and value is not Logger
    )
    try:
        import_module(name)  # the package has the name of the logger, and so has the extra that installs it
    except ModuleNotFoundError as error:
        if error.name != name:
            raise
        message = f"train.log_to has \"{name}\", which is not installed; run pip install 'seqloom[{name}]'"
        raise ModuleNotFoundError(message, name=error.name) from None
    return logger


class LoggerListener:
    """Passes the events of a training run on to loggers."""

    def __init__(self, loggers: Sequence[Logger]) -> None:
        self.loggers = loggers

    def __call__(self, run: Run, event: Progress) -> None:
        """Log an update or an evaluation."""
        if not self.loggers:
            return
        values: dict[str, float] = {}
        if event.logged:
            values |= {"train/loss": event.loss, "train/learning_rate": event.learning_rate, "epoch": event.epoch}
            if event.gradient_norm is not None:
                values |= {"train/gradient_norm": event.gradient_norm, "train/clipped": event.clipped}
        if event.evaluation is not None:
            values |= {f"dev/{name}": value for name, value in scalars(event.evaluation.metrics).items()}
        for logger in self.loggers:
            if values:
                logger.log(values, update=event.update)
            if event.finished:
                logger.finish(scalars(run.best_metrics()))


def scalars(metrics: Mapping[str, Any]) -> dict[str, float]:
    """The metrics that are numbers."""
    return {
        name: float(value)
        for name, value in metrics.items()
        if isinstance(value, int | float) and not isinstance(value, bool)
    }


def flat_config(run: Run) -> dict[str, bool | int | float | str]:
    """The configuration of a run by ``section.key``; lists as text."""
    flat: dict[str, bool | int | float | str] = {}

    def add(table: Mapping[str, Any], prefix: str) -> None:
        for name, value in table.items():
            if isinstance(value, dict):
                add(value, f"{prefix}{name}.")
            else:
                flat[f"{prefix}{name}"] = value if isinstance(value, bool | int | float | str) else str(value)

    add(tomllib.loads(run.config), "")
    return flat


def stored_identifier(run: Run, name: LoggerName) -> str:
    """The identifier under which an earlier process has logged a run; empty if there is none."""
    path = run.path / f"{name}.json"
    return str(json.loads(path.read_text(encoding="utf-8"))["id"]) if path.exists() else ""


def store_identifier(run: Run, name: LoggerName, identifier: str) -> None:
    """Remember under which identifier a run is logged."""
    files.write(run.path / f"{name}.json", json.dumps({"id": identifier}) + "\n")
