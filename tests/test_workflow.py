"""From a configuration to a run: reproducible, also if it is killed, interrupted or resumed; clear errors otherwise."""

import contextlib
import errno
import itertools
import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from tests.contracts.tiny import CASES, build
from tests.killing import command, differences, finish, launch, outcome, prepare, timeless_rows
from typer.testing import CliRunner

from seqloom import config, tasks, workflow
from seqloom.checkpoint import RunError
from seqloom.cli.main import app
from seqloom.config import ConfigError
from seqloom.evaluation import split_details
from seqloom.interrupt import Interrupted
from seqloom.model import load
from seqloom.run import Run
from seqloom.run_config import Config, load_config
from seqloom.training import engine
from seqloom.training.divergence import Diverged
from seqloom.training.progress import Progress

ROOT = Path(__file__).parent.parent
posix = pytest.mark.skipif(sys.platform == "win32", reason="needs fork and signals")


def settings(folder: Path, name: str = "language_model", **train: Any) -> Any:
    common = {"updates": 12, "evaluate_every": 5, "log_every": 2}
    if name == "language_model":
        common |= {"bptt_steps": 4, "average_checkpoints": 2}
    return build(CASES[name], folder, **common | train)


def at(update: int, action: Callable[[], object]) -> workflow.Listener:
    """Act once, after ``update`` updates."""

    def listen(run: Run, event: Progress) -> None:
        if event.update == update and not event.evaluation:
            action()

    return listen


def send(number: int) -> None:
    os.kill(os.getpid(), number)


# A run


def test_an_unknown_device_is_reported_before_a_run_is_created(tmp_path: Path) -> None:
    for device in ("nowhere", "cuda:99"):
        with pytest.raises(
            ValueError, match=f'train.device is "{device}", which this machine does not have; expected cpu'
        ):
            workflow.train(settings(tmp_path, device=device), output=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_folders_are_numbered_and_never_overwritten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    chosen = settings(tmp_path, "classify", updates=1)
    paths = [str(workflow.train(chosen).path) for _ in range(2)]
    assert paths == ["runs/classify", "runs/classify-2"]
    with pytest.raises(RunError, match="already exists"):
        workflow.train(chosen, output=Path("runs/classify"))
    unused = iter([Path("runs/classify-2"), Path("runs/classify-3")])  # another training has just taken the first
    monkeypatch.setattr(workflow, "unused_folder", lambda _: next(unused))
    assert str(workflow.train(chosen).path) == "runs/classify-3"


@pytest.mark.parametrize("name", ["language_model, ngram", "tag, hmm"])
def test_a_counting_model_is_trained_as_a_run(name: str, tmp_path: Path) -> None:
    run = workflow.train(build(CASES[name], tmp_path), output=tmp_path / "run")
    before = outcome_of_best(run)
    (row,) = timeless_rows(run.path)
    scores, details = split_details(load(run.path).evaluate(load(run.path).task.dev))
    assert scores == row["dev"]
    assert details == {**run.details(), "baseline": details["baseline"]}
    workflow.resume(run.path)  # counts once more
    assert outcome_of_best(run) == before
    assert timeless_rows(run.path) == [row]


def many_labels(folder: Path, labels: int) -> Any:
    """Four examples of each label, one of them for development."""
    for name, times in (("train.txt", 3), ("dev.txt", 1)):
        (folder / name).write_text("".join(f"label{number:04} word{number}\n" for number in range(labels)) * times)
    task = {
        "name": "classify",
        "train": str(folder / "train.txt"),
        "dev": str(folder / "dev.txt"),
        "embedding_size": 3,
        "encoder": {"hidden_size": 3},
    }
    train = {"updates": 2, "evaluate_every": 1, "batch_size": 200}
    return Config.build(config.Document.empty(values={"task": task, "train": train}))


@pytest.mark.parametrize("labels", [650, 2500])
def test_many_labels_are_trained_and_resumed(labels: int, tmp_path: Path) -> None:
    chosen = many_labels(tmp_path, labels)
    with pytest.raises(Interrupted):
        workflow.train(chosen, output=tmp_path / "run", listeners=[at(1, partial(send, signal.SIGINT))])
    run = workflow.resume(tmp_path / "run")
    assert len([row for row in run.rows() if "dev" in row]) == 2
    assert max(map(len, (run.path / "metrics.jsonl").read_bytes().splitlines())) < 1000
    assert (run.path / "best" / "training.json").stat().st_size < 2000
    details = run.details()
    assert len(details["per_label"]) == labels
    wrong = round(labels * (1 - run.best_metrics()["accuracy"]))
    assert sum(row["count"] for row in details["confusions"]) == wrong > 0


def outcome_of_best(run: Run) -> Any:
    return [(run.path / "best" / name).read_bytes() for name in ("model.safetensors", "training.json")]


def test_a_jump_of_the_clock_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    times = itertools.cycle([0.0, 4e9, 1e9])  # 1970, 2096, 2001
    monkeypatch.setattr(time, "time", lambda: next(times))
    run = workflow.train(settings(tmp_path, "classify", updates=3, minutes=10), output=tmp_path / "run")
    assert run.summary()["finished"] == "3 updates done"
    assert workflow.resume(run.path, ["train.updates=5"]).summary()["finished"] == "5 updates done"


def test_training_ends_after_minutes(tmp_path: Path) -> None:
    events: list[Progress] = []
    chosen = settings(tmp_path, "classify", minutes=1e-7)
    workflow.train(chosen, output=tmp_path / "run", listeners=[lambda _, event: events.append(event)])
    assert events[-1].finished == "1e-07 minutes elapsed"
    assert events[-1].update == 1


# Killed (promises 1 and 2); scripts/kill does it at a hundred random moments


@posix
@pytest.mark.parametrize("workers", [0, 2])
def test_a_killed_and_resumed_run_is_identical(workers: int, tmp_path: Path) -> None:
    chosen = settings(tmp_path, save_every_minutes=1e-9, workers=workers)
    whole = workflow.train(chosen, output=tmp_path / "whole")
    path = tmp_path / "killed"
    context = multiprocessing.get_context("fork")
    for update in (1, 5, 7, 12):  # the first, one with an evaluation, one without, the last
        go = partial(workflow.resume, path) if path.exists() else partial(workflow.train, chosen, output=path)
        process = context.Process(target=go, kwargs={"listeners": [at(update, lambda: send(signal.SIGKILL))]})
        process.start()
        process.join()
        assert process.exitcode == -signal.SIGKILL
    workflow.resume(path)
    assert differences(outcome(whole.path), outcome(path)) == []
    workflow.resume(path)  # what is finished stays as it is
    assert differences(outcome(whole.path), outcome(path)) == []


def test_a_run_without_a_checkpoint_starts_from_the_beginning(tmp_path: Path) -> None:
    chosen = settings(tmp_path)
    whole = workflow.train(chosen, output=tmp_path / "whole")
    with pytest.raises(ZeroDivisionError):  # before anything is saved
        workflow.train(chosen, output=tmp_path / "run", listeners=[at(3, lambda: 1 / 0)])
    run = Run.open(tmp_path / "run")
    assert run.rows()
    assert not run.saved("last")
    workflow.resume(run.path)
    assert differences(outcome(whole.path), outcome(run.path)) == []


# Interrupted (promise 24)


@posix
@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_an_interruption_saves_after_the_current_update(name: str, tmp_path: Path) -> None:
    number = signal.Signals[name]
    chosen = settings(tmp_path)
    whole = workflow.train(chosen, output=tmp_path / "whole")
    before = signal.getsignal(number)
    with pytest.raises(Interrupted, match=r"run$"):
        workflow.train(chosen, output=tmp_path / "run", listeners=[at(3, lambda: send(number))])
    assert signal.getsignal(number) is before
    assert Run.open(tmp_path / "run").load("last").facts["position"]["update"] == 3
    workflow.resume(tmp_path / "run")
    assert differences(outcome(whole.path), outcome(tmp_path / "run")) == []


@pytest.mark.parametrize("code", [errno.EPIPE, errno.EIO])
def test_closed_output_saves_and_stops(code: int, tmp_path: Path) -> None:
    """``seqloom train | head``, or a terminal that has been closed."""

    def fail() -> None:
        raise OSError(code, os.strerror(code))

    chosen = settings(tmp_path)
    whole = workflow.train(chosen, output=tmp_path / "whole")
    with pytest.raises(Interrupted, match=r"run$"):
        workflow.train(chosen, output=tmp_path / "run", listeners=[at(3, fail)])
    assert Run.open(tmp_path / "run").load("last").facts["position"]["update"] == 3
    workflow.resume(tmp_path / "run")
    assert differences(outcome(whole.path), outcome(tmp_path / "run")) == []


@posix
@pytest.mark.parametrize("epoch", [1, 3])
def test_an_interruption_stops_reading(epoch: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = settings(tmp_path, "classify", updates=0, epochs=4, shuffle_buffer=3, batch_size=2, evaluate_every=0)
    whole = workflow.train(chosen, output=tmp_path / "whole")
    kind = type(chosen.task)
    read, passes = kind.read, 0

    def slow(self: Any, source: Any) -> Any:
        nonlocal passes
        passes += (tmp_path / "run").exists()
        for number, example in enumerate(read(self, source)):
            if passes == epoch and number == 5:
                send(signal.SIGTERM)
                passes += 100
            yield example

    with monkeypatch.context() as patch:
        patch.setattr(kind, "read", slow)
        with pytest.raises(Interrupted):
            workflow.train(chosen, output=tmp_path / "run")
    workflow.resume(tmp_path / "run")
    assert differences(outcome(whole.path), outcome(tmp_path / "run")) == []


@posix
def test_an_interruption_stops_an_evaluation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = settings(tmp_path)
    whole = workflow.train(chosen, output=tmp_path / "whole")
    kind = type(chosen.task)
    predict = kind.predict

    def slow(self: Any, model: Any, batch: Any) -> Any:
        send(signal.SIGINT)
        return predict(self, model, batch)

    with monkeypatch.context() as patch:
        patch.setattr(kind, "predict", slow)
        with pytest.raises(Interrupted):
            workflow.train(chosen, output=tmp_path / "run")
    assert Run.open(tmp_path / "run").load("last").facts["position"]["update"] == 5
    workflow.resume(tmp_path / "run")
    assert differences(outcome(whole.path), outcome(tmp_path / "run")) == []


@posix
def test_a_second_interruption_stops_immediately(tmp_path: Path) -> None:
    def twice() -> None:
        send(signal.SIGINT)
        send(signal.SIGINT)
        raise AssertionError("training continued")

    with pytest.raises(KeyboardInterrupt):
        workflow.train(settings(tmp_path), output=tmp_path / "run", listeners=[at(3, twice)])


@posix
def test_the_command_says_how_to_resume(tmp_path: Path) -> None:
    """The one test with a process of its own: the signal, the exit code, the message."""
    config = prepare(tmp_path, updates=100_000)
    process = launch(command(config, tmp_path / "run"), tmp_path)
    assert process.stderr is not None
    assert "the tokens are characters" in process.stderr.readline()
    assert "training example" in process.stderr.readline()
    assert "update 7 " in process.stderr.readline()
    process.send_signal(signal.SIGINT)
    _, output = process.communicate()
    assert process.returncode == 130
    assert output.splitlines()[-1] == f"stopped and saved; continue with: seqloom train --resume {tmp_path / 'run'}"
    assert Run.open(tmp_path / "run").load("last").facts["position"]["update"] >= 7


def test_a_second_process_is_refused(tmp_path: Path) -> None:
    run = workflow.train(settings(tmp_path, "classify", updates=1), output=tmp_path / "run")
    with run.lock():
        result = CliRunner().invoke(app, ["train", "--resume", str(run.path)])
    assert result.exit_code == 1
    assert result.stderr == f"seqloom: {run.path}: in use by process {os.getpid()}, which is training\n"


# Diverged (promise 13)


def diverging(folder: Path) -> Any:
    return settings(folder, "classify", learning_rate=1e30, clip_norm=0.0, updates=50, evaluate_every=20)


def test_divergence_saves_the_batch_and_keeps_finite_weights(tmp_path: Path) -> None:
    last: list[Progress] = []
    with pytest.raises(Diverged):
        workflow.train(diverging(tmp_path), output=tmp_path / "run", listeners=[lambda _, event: last.append(event)])
    assert last[-1].skipped == 9
    assert all(torch.isfinite(tensor).all() for tensor in last[-1].weights().values())
    batch = load_file(tmp_path / "run" / "diverged.safetensors")
    assert sorted(batch) == ["batch.0.0.0", "batch.0.0.1", "batch.0.1"]  # symbols, mask, labels
    assert len({len(tensor) for tensor in batch.values()}) == 1
    assert "not finite in 10 updates in a row" in (tmp_path / "run" / "train.log").read_text()


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_a_diverged_model_is_never_saved(optimizer: str, tmp_path: Path) -> None:
    config = settings(tmp_path, "classify", learning_rate=1e30, optimizer=optimizer, updates=2, evaluate_every=1)
    with pytest.raises(Diverged, match="after update 1 "):
        workflow.train(config, output=tmp_path / "run")
    run = Run.open(tmp_path / "run")
    assert not run.saved("best")
    assert not run.saved("last")
    assert "training diverged" in (tmp_path / "run" / "train.log").read_text()


def test_word_vectors_that_diverge_are_not_saved(tmp_path: Path) -> None:
    config = build(CASES["embed"], tmp_path, epochs=50, learning_rate=1e9)
    with pytest.raises(Diverged, match="not finite"):
        workflow.train(config, output=tmp_path / "run")
    run = Run.open(tmp_path / "run")
    if run.saved("best"):  # of an evaluation before it diverged
        assert load(run.path).predict(["a"])


# The same seed (promise 19)

PROGRAM = """
import sys
from pathlib import Path
import torch
from tests.test_workflow import train_all
from seqloom import run_plots
from seqloom.model import load
torch.set_num_threads(1)
run_plots.draw = lambda *_, **__: None  # what is drawn is not compared
train_all(Path(sys.argv[1]), workers=2)
load(Path(sys.argv[1], "tag")).predict(["the cat"])
assert "torch._dynamo" not in sys.modules  # its import would take over a second
"""


def train_all(folder: Path, *, workers: int) -> None:
    """A run of each task; file names are relative, since scores name files."""
    folder.mkdir()
    with contextlib.chdir(folder):
        for name in (
            "tag, crf",
            "classify",
            "language_model",
            "forecast",
            "translate",
            "caption",
            "transcribe",
            "embed",
            "handwriting",
            "music",
        ):
            own = Path("data", name)
            own.mkdir(parents=True)
            chosen = build(CASES[name], own, updates=4, evaluate_every=3, workers=workers)
            workflow.train(chosen, output=name.split(",")[0])


def test_the_same_seed_gives_the_same_run_in_any_process(tmp_path: Path) -> None:
    """This process and one with another hash seed and another number of workers."""
    paths = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    command = [sys.executable, "-c", PROGRAM, str(tmp_path / "other")]
    process = launch(command, tmp_path, PYTHONHASHSEED="4321", PYTHONPATH=paths)
    train_all(tmp_path / "one", workers=0)
    finish(process)
    for name in tasks.names():
        one, other = (tmp_path / folder / name for folder in ("one", "other"))
        assert differences(outcome(one), outcome(other)) == []
        assert (one / "learned.json").read_bytes() == (other / "learned.json").read_bytes()


def test_another_seed_gives_another_run(tmp_path: Path) -> None:
    runs = [workflow.train(settings(tmp_path, seed=seed), output=tmp_path / str(seed)) for seed in (1, 2)]
    assert differences(*(outcome(run.path) for run in runs))


def test_a_model_that_cannot_be_built_leaves_no_run(tmp_path: Path) -> None:
    case = CASES["translate, transformer"]
    decoder = {"cell": "transformer", "hidden_size": 7, "options": {"heads": 2}}
    config = build(case._replace(fields={**case.fields, "decoder": decoder}), tmp_path)
    with pytest.raises(ValueError, match="heads is 2, expected a divisor of the width 7"):
        workflow.train(config, output=tmp_path / "run")
    assert not (tmp_path / "run").exists()


# Data


def test_a_custom_layer_is_refused_by_a_task_without_layers(tmp_path: Path) -> None:
    config = settings(tmp_path)
    window = config._replace(task=config.task.model_copy(update={"model": "window"}))
    with pytest.raises(ValueError, match="has no recurrent layers that a custom layer could replace"):
        workflow.train(window, output=tmp_path / "run", layer=lambda size: torch.nn.Linear(size, 4))
    assert not (tmp_path / "run").exists()


# Continued and trimmed runs


def test_a_finished_run_continues_as_if_it_had_never_stopped(tmp_path: Path) -> None:
    constant = {"schedule": "constant", "evaluate_every": 6}
    whole = workflow.train(settings(tmp_path, "classify", updates=12, **constant), output=tmp_path / "whole")
    part = workflow.train(settings(tmp_path, "classify", updates=6, **constant), output=tmp_path / "part")
    again = workflow.resume(part.path, ["train.updates=12"])
    assert again.summary()["finished"] == "12 updates done"
    assert differences(outcome(whole.path), outcome(part.path)) == []
    assert load_config(Run.open(part.path)).train.updates == 12
    assert "resumed with train.updates = 12" in (part.path / "train.log").read_text()
    workflow.resume(part.path)  # nothing is left to do
    assert differences(outcome(whole.path), outcome(part.path)) == []


def test_a_run_that_ended_early_continues_with_more_patience(tmp_path: Path) -> None:
    chosen = settings(tmp_path, "classify", updates=30, evaluate_every=1, patience=1, learning_rate=1e-12)
    run = workflow.train(chosen, output=tmp_path / "run")
    assert run.summary()["finished"] == "no improvement in 1 evaluation"
    with pytest.raises(ValueError, match=r"nothing left to train .no improvement in 1 evaluation.: raise the limit"):
        workflow.resume(run.path, ["train.updates=40"])
    assert load_config(run).train.updates == 30
    workflow.resume(run.path, ["train.patience=0"])
    assert run.summary()["finished"] == "30 updates done"


def test_a_run_is_not_resumed_with_a_limit_that_it_has_passed(tmp_path: Path) -> None:
    run = workflow.train(settings(tmp_path, "classify", epochs=3, updates=0), output=tmp_path / "run")
    before = outcome(run.path)
    with pytest.raises(RunError, match=r"train.epochs = 2 is below the 3 epochs that are done; .* give a larger one"):
        workflow.resume(run.path, ["train.epochs=2"])
    with pytest.raises(RunError, match=r"train.updates = 1 is below the \d+ updates that are done"):
        workflow.resume(run.path, ["train.updates=1"])
    assert differences(before, outcome(run.path)) == []


@pytest.mark.parametrize("override", ["train.seed=2", "train.batch_size=7", "task.embedding_size=3"])
def test_settings_that_the_state_depends_on_are_fixed(override: str, tmp_path: Path) -> None:
    run = workflow.train(settings(tmp_path, "classify", updates=1), output=tmp_path / "run")
    key = override.partition("=")[0]
    with pytest.raises(ConfigError, match=f"{key} cannot be changed when a run is resumed; start a new run"):
        workflow.resume(run.path, [override])
    with pytest.raises(ConfigError, match="unknown key"):
        workflow.resume(run.path, ["train.epoch=2"])


def test_a_stretched_schedule_is_mentioned(tmp_path: Path) -> None:
    chosen = settings(tmp_path, "classify", updates=2, schedule="cosine")
    run = workflow.resume(workflow.train(chosen, output=tmp_path / "run").path, ["train.updates=4"])
    assert run.notes[1] == 'train.schedule = "cosine" is stretched to the new limit: the learning rate rises again'
    chosen = settings(tmp_path, "classify", updates=1000, schedule="cosine")
    with pytest.raises(Interrupted):
        workflow.train(chosen, output=tmp_path / "stopped", listeners=[at(1, partial(send, signal.SIGINT))])
    run = workflow.resume(tmp_path / "stopped", ["train.updates=2"])
    assert run.notes[1] == 'train.schedule = "cosine" is shortened to the new limit: the learning rate falls sooner'


# A training that fails at once


@pytest.mark.parametrize("updates", [0, 1])
def test_a_run_stays_only_if_something_was_trained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, updates: int
) -> None:
    original = engine.train

    def failing(*arguments: Any, **options: Any) -> Any:
        for number, event in enumerate(original(*arguments, **options)):
            if number == updates:
                raise MemoryError("too little")
            yield event

    monkeypatch.setattr(engine, "train", failing)
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "other").touch()
    with pytest.raises(MemoryError, match="too little"):
        workflow.train(settings(tmp_path, "classify"), output=tmp_path / "runs" / "run")
    assert sorted(path.name for path in (tmp_path / "runs").iterdir()) == ["other", "run"][: 1 + updates]


def test_a_folder_below_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "reviews.csv").touch()
    with pytest.raises(RunError, match=r"reviews\.csv is a file, not a folder: choose another folder"):
        workflow.train(settings(tmp_path, "classify"), output=tmp_path / "reviews.csv" / "a" / "b")
