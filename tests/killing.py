"""Kill and resume trainings, and compare them bit for bit with an uninterrupted one; see scripts/kill."""

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import seqloom

UPDATES = 300
CONFIG = """
[task]
name = "language_model"
train = "train.txt"
dev = "dev.txt"
embedding_size = 6
input_dropout = 0.2

[task.text]
unit = "characters"

[task.decoder]
hidden_size = 8
dropout = 0.2

[train]
updates = {updates}
batch_size = 4
bptt_steps = 5
accumulate = 2
learning_rate = 0.01
schedule = "plateau"
average_checkpoints = 2
evaluate_every = 37
log_every = 7
save_every_minutes = 0.001
threads = 1
"""


def prepare(folder: Path, *, updates: int = UPDATES) -> Path:
    """A configuration and its data in a folder."""
    letters = random.Random(1)  # noqa: S311  a text, not a secret
    for name, lines in (("train.txt", 60), ("dev.txt", 8)):
        words = ("".join(letters.choices("abcdef ", k=letters.randint(0, 30))) for _ in range(lines))
        (folder / name).write_text("".join(f"{word}\n" for word in words))
    path = folder / "kill.toml"
    path.write_text(CONFIG.format(updates=updates))
    return path


def command(config: Path, run: Path, *, ranks: int = 1) -> list[str]:
    """The command that starts a run, or resumes it if it exists."""
    processes = ["torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks), "-m"] if ranks > 1 else []
    rest = ["--resume", str(run)] if run.exists() else [config.name, "--output", str(run)]
    return [sys.executable, "-m", *processes, "seqloom", "train", *rest]


def launch(arguments: Sequence[str], folder: Path, **environment: str) -> subprocess.Popen[str]:
    """Start a process with one thread, whose standard error can be read."""
    source = str(Path(seqloom.__file__).parent.parent)
    settings = {"PYTHONPATH": source, "OMP_NUM_THREADS": "1", "TORCH_CPP_LOG_LEVEL": "ERROR", **environment}
    return subprocess.Popen(
        arguments,
        cwd=folder,
        env={**os.environ, **settings},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(process: subprocess.Popen[str]) -> str:
    """Wait for a process that must succeed; returns its standard error."""
    _, errors = process.communicate()
    if process.returncode:
        raise RuntimeError(f"{process.args!r} returned {process.returncode}:\n{errors}")
    return errors


def children(process: int) -> list[int]:
    """The child processes of a process and their children (Linux only)."""
    try:
        direct = [int(child) for child in Path(f"/proc/{process}/task/{process}/children").read_text().split()]
    except OSError:
        return []
    return direct + [grandchild for child in direct for grandchild in children(child)]


def kill(process: subprocess.Popen[str], *, one: Callable[[Sequence[int]], int] | None = None) -> None:
    """Send SIGKILL to a process and its children, or to ``one`` of the children; then wait for the process."""
    below = children(process.pid)
    for number in [one(below)] if one and below else [process.pid, *below]:
        try:
            os.kill(number, signal.SIGKILL)
        except ProcessLookupError:
            continue
    process.communicate()


def timeless_rows(run: Path) -> list[dict[str, Any]]:
    """The rows of metrics.jsonl without the elapsed time."""
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_bytes().splitlines()]
    return [{name: value for name, value in row.items() if name != "seconds"} for row in rows]


def outcome(run: Path) -> dict[str, Any]:
    """The weights, training state and metrics of a run, without the elapsed time."""
    files: dict[str, Any] = {"metrics": json.dumps(timeless_rows(run))}
    for name in ("best", "last"):
        for file in ("model.safetensors", "training.safetensors"):
            files[f"{name}/{file}"] = (run / name / file).read_bytes()
        facts = json.loads((run / name / "training.json").read_text())
        facts.pop("seconds", None)
        files[f"{name}/training.json"] = facts
    return files


def differences(one: dict[str, Any], other: dict[str, Any]) -> list[str]:
    return [name for name in one if one[name] != other[name]]


def wait_for_start(run: Path, before: bytes, process: subprocess.Popen[str]) -> bool:
    """Wait until the process trains; False if it ends before that."""
    lock = run / ".lock"
    while process.poll() is None:
        if lock.exists() and lock.read_bytes() not in (b"", before):
            return True
        time.sleep(0.005)
    return False


def main() -> int:
    """Kill and resume at random moments; the exit code is 0 if all runs equal the uninterrupted one."""
    parser = argparse.ArgumentParser(prog="scripts/kill", description=__doc__)
    parser.add_argument("--times", type=int, default=100, help="total number of kills")
    parser.add_argument("--ranks", type=int, default=1, help="processes that train together, through torchrun")
    parser.add_argument("--updates", type=int, default=UPDATES, help="updates of each run")
    parser.add_argument("--seed", type=int, default=1, help="random seed of the moments")
    options = parser.parse_args()
    moments = random.Random(options.seed)  # noqa: S311
    with tempfile.TemporaryDirectory(prefix="seqloom-kill-") as name:
        folder = Path(name)
        config = prepare(folder, updates=options.updates)
        process = launch(command(config, folder / "whole", ranks=options.ranks), folder)
        wait_for_start(folder / "whole", b"", process)
        started = time.monotonic()
        finish(process)
        seconds = time.monotonic() - started
        expected = outcome(folder / "whole")
        report(f"uninterrupted: {seconds:.1f} s of training, {expected['metrics'].count(b'dev')} evaluations")
        done = right = number = 0
        while done < options.times:
            number += 1
            run = folder / f"run{number}"
            kills = disturb(config, run, moments, seconds, limit=options.times - done, ranks=options.ranks)
            wrong = differences(expected, outcome(run))
            done, right = done + kills, right + (0 if wrong else kills)
            report(f"run {number}: {kills} kills, {'differs: ' + ', '.join(wrong) if wrong else 'identical'}")
    sys.stdout.write(f"{right} of {done}\n")
    return int(right < done)


def disturb(config: Path, run: Path, moments: random.Random, seconds: float, *, limit: int, ranks: int) -> int:
    """Train to the end with kills at random moments, at most ``limit`` of them; returns the number of kills."""
    kills = 0
    while True:
        lock = run / ".lock"
        process = launch(command(config, run, ranks=ranks), config.parent)
        if kills == limit:
            finish(process)
            return kills
        wait_for_start(run, lock.read_bytes() if lock.exists() else b"", process)
        try:
            _, errors = process.communicate(timeout=moments.uniform(0, seconds / 2))
        except subprocess.TimeoutExpired:
            kill(process, one=moments.choice if ranks > 1 and moments.random() < 0.5 else None)
            kills += 1
            continue
        if process.returncode:
            raise RuntimeError(f"{process.args!r} returned {process.returncode}:\n{errors}")
        return kills


def report(text: str) -> None:
    sys.stderr.write(f"{text}\n")


if __name__ == "__main__":
    sys.exit(main())
