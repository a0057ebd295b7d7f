"""A configuration with a search space, and trials that are computed instead of trained."""

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from seqloom.run import Run
from seqloom.run_config import Config

TEXT = "the cat sat on the mat\na dog sat on a cat\nthe dog and the cat sat\n" * 4
CONFIG = """\
[task]
name = "language_model"
train = "{folder}/train.txt"
dev = "{folder}/dev.txt"
embedding_size = 8

[task.decoder]
hidden_size = 8

[train]
updates = 4
evaluate_every = 1
bptt_steps = 7
batch_size = 2
learning_rate = 0.001

[sweep]
trials = 8
train.learning_rate = {{ min = 1e-4, max = 1e-1, log = true }}
task.decoder.cell = ["lstm", "gru"]
"""

FakeTrial = Callable[..., dict[str, Any]]


@pytest.fixture
def config(tmp_path: Path) -> Path:
    (tmp_path / "train.txt").write_text(TEXT)
    (tmp_path / "dev.txt").write_text("the cat sat on a mat\nthe mat sat\na dog\n\nthe dog and a mat sat on the cat\n")
    path = tmp_path / "lm.toml"
    path.write_text(CONFIG.format(folder=tmp_path))
    return path


def perplexity(config: Config, evaluation: int) -> float:
    """A function of the settings with its minimum at learning rate 0.01 and cell gru."""
    distance = (math.log10(config.train.learning_rate) + 2) ** 2
    is_lstm = bool(config.task.decoder.cell == "lstm")  # type: ignore[attr-defined]
    return 5 + distance + is_lstm + 4 / evaluation


@pytest.fixture
def fake_trial() -> FakeTrial:
    """Writes the run and the evaluations of a trial, and stops when ``watch`` says so."""

    def run_trial(config: Config, folder: Path, *, watch: Callable[[], bool]) -> dict[str, Any]:
        if not folder.exists():
            Run.create(folder, config=config.text(), learned="{}", environment={})
        value = math.nan
        with (folder / "metrics.jsonl").open("w") as file:
            for evaluation in range(1, (config.train.updates or 4) + 1):
                value = perplexity(config, evaluation)
                file.write(json.dumps({"update": evaluation, "dev": {"perplexity": value}}) + "\n")
                file.flush()
                if watch():
                    return {"error": "stopped"}
        return {"metrics": {"perplexity": value}, "minutes": 0.5}

    return run_trial
