"""Inputs that cannot fit into memory end with their place, and long ones are skipped on request."""

from collections import deque
from pathlib import Path
from typing import Any

import pytest
from torch import nn

from seqloom import workflow
from seqloom.check import check_data
from seqloom.config import Document
from seqloom.data.loading import BatchLoader
from seqloom.data.readers.text_files import DataError
from seqloom.model import load
from seqloom.run_config import Config
from seqloom.training import memory
from seqloom.training.config import TrainConfig
from seqloom.training.gradient_update import GradientUpdate
from seqloom.training.memory import LongestExamples, step_bytes
from seqloom.training_data import with_detected

SHORT = "".join(
    f"{'good' if number % 2 else 'bad'}\ta {'fine' if number % 2 else 'poor'} film\n" for number in range(40)
)
SMALL = [
    *("task.name=classify", "task.encoder.hidden_size=4", "task.embedding_size=4", "train.epochs=1"),
    *("task.encoder.layers=1", "train.batch_size=8", "task.dev_fraction=0.2"),
]


def write(folder: Path, *, words: int) -> Path:
    (folder / "train.tsv").write_text(f"{SHORT}good\t{'word ' * words}\n")
    return folder / "train.tsv"


def train(file: Path, *changes: str) -> Any:
    config = Config.build(Document.empty([*SMALL, f"task.train={file}", *changes]))
    return workflow.train(config, output=file.parent / "run", plots=False)


def test_an_input_that_cannot_fit_ends_with_its_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = write(tmp_path, words=400_000)
    monkeypatch.setattr(memory, "available_memory", lambda: 10**8)
    with pytest.raises(DataError) as error:
        train(file)
    assert str(error.value).startswith(f"{file}:41: an input of 400,000 steps needs about ")
    assert "but 0.1 GB are available; set train.max_length below 400,000 to truncate it" in str(error.value)
    assert not (tmp_path / "run").exists()


def test_long_examples_are_truncated_and_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = write(tmp_path, words=400_000)
    monkeypatch.setattr(memory, "available_memory", lambda: 10**8)
    run = train(file, "train.max_length=100")
    note = f"{file}:41: 1 of 33 training examples is longer than 100 (train.max_length) and truncated"
    assert note in run.notes
    assert note in (run.path / "train.log").read_text()
    with pytest.raises(DataError, match=r"input:2: an input of 3,000,000 steps needs about"):
        load(run.path).predict(["a fine film", "word " * 3_000_000])
    assert len(load(run.path).predict(["a fine film", "word " * 3000])) == 2
    (tmp_path / "run").rename(tmp_path / "before")
    with pytest.raises(DataError, match=r"all 33 examples are longer than 2 \(train\.max_length\)"):
        train(file, "train.max_length=2", "train.too_long=skip")


def test_check_ends_with_the_place_of_an_input_that_cannot_fit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = write(tmp_path, words=400_000)
    monkeypatch.setattr(memory, "available_memory", lambda: 10**8)
    monkeypatch.setattr(GradientUpdate, "dry_run", lambda _: pytest.fail("the update was computed"))
    report = check_data(Config.build(Document.empty([*SMALL, f"task.train={file}"])))
    assert any(f"{file}:41: an input of 400,000 steps needs about " in problem for problem in report.problems)


@pytest.mark.parametrize(
    ("change", "peak"),  # measured: peak memory of an update of 5,000 to 10,000 steps, relative to what it keeps
    [
        ("task.encoder.cell=lstm", 1.28),
        ("task.encoder.cell=gru", 1.28),
        ("task.encoder.cell=elman", 1.53),
        ("task.encoder.cell=coupled", 1.22),
        ("task.encoder.cell=layer_norm_lstm", 1.14),
        ("task.encoder.cell=transformer", 1.15),
        ("task.encoder.zoneout=0.1", 1.47),
        ("task.prenet.layers=2", 1.3),
    ],
)
def test_the_estimate_is_not_below_the_memory_of_an_update(change: str, peak: float, tmp_path: Path) -> None:
    file = write(tmp_path, words=300)
    size = ["task.name=classify", "task.encoder.hidden_size=32", "task.embedding_size=32", "train.batch_size=2"]
    config = Config.build(Document.empty([*size, f"task.train={file}", change]))
    config = with_detected(config)[0]
    examples = sorted(config.task.read(file), key=len, reverse=True)
    task = config.task.fit(examples)
    module = task.build_model()
    loader = BatchLoader(lambda: iter(examples), task.collate, batch_size=2, shuffle=False)  # the long one, a short one
    kept = GradientUpdate(module, loader, task.loss, config.train).dry_run()
    longest = LongestExamples(config.train)
    assert len(list(longest.watch(examples))) == 41
    assert longest.batch_rows() == 2
    estimate = 2 * 300 * step_bytes(module, training=True)
    assert peak * kept < estimate < 4 * kept


def test_short_examples_are_padded_to_the_longest_one() -> None:
    longest = LongestExamples(TrainConfig(batch_size=32))
    deque(longest.watch([range(400_000), *[range(5)] * 50]), maxlen=0)
    assert longest.batch_rows() == 2
    longest = LongestExamples(TrainConfig(batch_size=32))
    deque(longest.watch([range(2_000_000), *[range(1_000_000)] * 3, *[range(5)] * 50]), maxlen=0)
    assert longest.batch_rows() == 4


def test_a_large_batch_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    class Example:
        location = "a:1"

        def __len__(self) -> int:
            return 1000

    module = nn.LSTM(10, 100)
    monkeypatch.setattr(memory, "available_memory", lambda: 10**8)
    memory.check_memory(module, Example(), steps=1000, rows=10, training=True)
    with pytest.raises(DataError, match=r"64 inputs of up to 1,000 steps need about 0\.\d GB .* train\.batch_tokens"):
        memory.check_memory(module, Example(), steps=1000, rows=64, training=True)


def test_the_limit_of_a_container_counts(tmp_path: Path) -> None:
    (tmp_path / "memory.max").write_text("1000\n")
    (tmp_path / "memory.current").write_text("400\n")
    assert memory._cgroup(tmp_path) == 600
    (tmp_path / "memory.max").write_text("max\n")
    assert memory._cgroup(tmp_path) is None
    (tmp_path / "meminfo").write_text("MemTotal: 9 kB\nMemAvailable:    5 kB\n")
    assert memory._meminfo(tmp_path / "meminfo") == 5120
