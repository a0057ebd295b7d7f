"""A short training with a logger, once as a whole and once interrupted by a crash and resumed."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import seqloom
from seqloom.run import Run
from seqloom.workflow import resume

TEXT = "the cat sat on the mat\na dog sat on a cat\nthe dog and the cat sat\n" * 4
CONFIG = """\
[task]
name = "language_model"
train = "train.txt"
dev = "train.txt"
embedding_size = 8

[task.decoder]
hidden_size = 8

[train]
updates = 8
evaluate_every = 2
log_every = 1
batch_size = 4
log_to = "{name}"
"""

Log = Callable[[str], Run]


class Crash(Exception):
    """Ends a training as a killed process does."""


def crash(run: Run, event: Any) -> None:
    if event.update == 5:
        raise Crash


@pytest.fixture
def crashed_and_resumed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Log:
    """Trains with a logger; the update after the last checkpoint is lost and repeated."""

    def train(name: str) -> Run:
        monkeypatch.chdir(tmp_path)
        Path("train.txt").write_text(TEXT)
        Path("lm.toml").write_text(CONFIG.format(name=name))
        with pytest.raises(Crash):
            seqloom.train("lm.toml", output="runs/logged", listeners=[crash])
        return resume(Path("runs/logged"))

    return train


def expected_scalars(run: Run) -> dict[str, list[tuple[int, float]]]:
    """What a logger has to hold, from the metrics of the run."""
    values: dict[str, list[tuple[int, float]]] = {}
    for row in run.rows():
        named = {"train/loss": row.get("loss"), "train/learning_rate": row.get("learning_rate")}
        named |= {f"dev/{name}": value for name, value in row.get("dev", {}).items() if isinstance(value, float)}
        for name, value in named.items():
            if value is not None:
                values.setdefault(name, []).append((row["update"], value))
    return values
