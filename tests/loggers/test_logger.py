"""What all loggers get, and what happens if one is not installed."""

import math
import sys
from pathlib import Path
from typing import Any

import pytest

from seqloom.loggers import logger as loggers
from seqloom.loggers.logger import check_installed, flat_config, open_loggers, scalars, store_identifier
from seqloom.run import Run
from seqloom.training.config import LoggerName, TrainConfig
from seqloom.training.progress import Evaluation, Progress

NAMES: tuple[LoggerName, ...] = ("tensorboard", "mlflow", "wandb")


@pytest.fixture
def run(tmp_path: Path) -> Run:
    config = '[task]\nname = "tag"\nsizes = [3, 4]\n[task.encoder]\ncell = "lstm"\n[train]\nepochs = 2\nquiet = true\n'
    return Run.create(tmp_path / "run", config=config, learned="{}", environment={})


def event(**changes: Any) -> Progress:
    values: dict[str, Any] = dict.fromkeys(("snapshot", "weights"), dict)
    values |= {"update": 7, "updates": 9, "epoch": 1.5, "loss": 0.5, "learning_rate": 0.1, "gradient_norm": 2.0}
    values |= {"clipped": 0.25, "items": 3, "skipped": 0, "logged": False, "pending": False, "evaluation": None}
    return Progress(**{**values, "best": False, "kept": False, "finished": "", **changes})


class Recorded(loggers.Logger):
    """Remembers its calls."""

    calls: list[Any] = []  # noqa: RUF012

    def __init__(self, run: Run, *, update: int) -> None:
        self.calls.append(("open", run.path.name, update))

    def log(self, values: Any, *, update: int) -> None:
        self.calls.append((update, values))

    def finish(self, best: Any) -> None:
        self.calls.append(("finish", best))

    def close(self) -> None:
        self.calls.append("close")


def test_a_logger_gets_log_entries_evaluations_and_the_best_metrics(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loggers, "_find", lambda _: Recorded)
    monkeypatch.setattr(Run, "best_metrics", lambda _: {"accuracy": 0.9, "labels": {}})
    Recorded.calls.clear()
    evaluation = Evaluation(0.9, {"accuracy": 0.9, "counts": [1], "interval": None}, "accuracy")
    with open_loggers(["tensorboard"], run, update=6) as log:
        log(run, event())
        log(run, event(logged=True))
        log(run, event(logged=True, gradient_norm=None))
        log(run, event(evaluation=evaluation))
        log(run, event(finished="done"))
    rates = {"train/loss": 0.5, "train/learning_rate": 0.1, "epoch": 1.5}
    assert Recorded.calls == [
        ("open", "run", 6),
        (7, rates | {"train/gradient_norm": 2.0, "train/clipped": 0.25}),
        (7, rates),
        (7, {"dev/accuracy": 0.9}),
        ("finish", {"accuracy": 0.9}),
        "close",
    ]


def test_scalars_are_numbers() -> None:
    metrics = {"a": 1, "b": 0.5, "c": True, "d": [1], "e": {"f": 1}, "g": "h", "i": math.inf}
    assert scalars(metrics) == {"a": 1.0, "b": 0.5, "i": math.inf}


def test_a_configuration_is_flat(run: Run) -> None:
    assert flat_config(run) == {
        "task.name": "tag",
        "task.sizes": "[3, 4]",
        "task.encoder.cell": "lstm",
        "train.epochs": 2,
        "train.quiet": True,
    }


def test_an_identifier_is_kept_with_the_run(run: Run) -> None:
    assert loggers.stored_identifier(run, "wandb") == ""
    store_identifier(run, "wandb", "abc")
    assert loggers.stored_identifier(run, "wandb") == "abc"


@pytest.mark.parametrize("name", NAMES)
def test_a_missing_package_is_named_with_the_command_that_installs_it(
    name: LoggerName, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, name, None)
    expected = rf"^train.log_to has \"{name}\", which is not installed; run pip install 'seqloom\[{name}\]'$"
    with pytest.raises(ModuleNotFoundError, match=expected):
        check_installed([name])


def test_log_to_is_a_name_or_a_list_of_names() -> None:
    assert TrainConfig().loggers == ()
    assert TrainConfig(log_to="wandb").loggers == ("wandb",)
    assert TrainConfig(log_to=("mlflow", "wandb")).loggers == ("mlflow", "wandb")
