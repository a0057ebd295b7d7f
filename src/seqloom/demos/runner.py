"""Runs a demo: train the task's example on built-in data, evaluate it, show some answers and what to do next."""

import json
import os
import shlex
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import torch

from seqloom import demos, examples, lab, tasks, terminal, workflow
from seqloom.config import Document, parse
from seqloom.data.builtin import datasets
from seqloom.data.builtin.datasets import Files
from seqloom.demos.demo import Demo, DemoRun
from seqloom.model import load
from seqloom.run_config import Config

RUN_FILES = {
    "config.toml": "complete configuration",
    "learned.json": "vocabularies, labels and scales of the training data",
    "env.json": "versions and machine",
    "metrics.jsonl": "loss and scores over time",
    "results.png": "learning curves",
    "attention.png": "attention over the input for each output character",
    "embedding_map.png": "some word vectors, projected to two dimensions",
    "image_attention.png": "attention over the first image for each word",
    "forecast.png": "forecast and true values at the end of the dev data",
    "ctc.png": "output probabilities for the first image, column by column",
    "train.log": "training log",
    "best": "checkpoint with the best dev score",
    "last": "latest checkpoint, with everything needed to resume training",
}


def run(task: str, *, output: Path, seed: int = 1, quick: bool = False, quiet: bool = False) -> dict[str, Any]:
    """Train, evaluate and use a model; report each stage unless ``quiet``."""
    names = tasks.names()
    if task in lab.names():
        raise ValueError(f"{task} is an experiment, not a demo: run seqloom lab {task}")
    if task not in names:
        near = "".join(f"did you mean {name!r}? " for name in get_close_matches(task, names, n=1, cutoff=0.5))
        raise ValueError(f"there is no demo {task!r}: {near}Available: {', '.join(names)}")
    threads = torch.get_num_threads()
    # The models are small, and with one thread the result does not depend on the number of cores.
    torch.set_num_threads(1)
    try:
        return _run_task(task, output, seed=seed, quick=quick, quiet=quiet)
    finally:
        torch.set_num_threads(threads)


def _run_task(task: str, output: Path, *, seed: int, quick: bool, quiet: bool) -> dict[str, Any]:
    demo = demos.find(task)
    started = time.perf_counter()
    folder = _new_folder(output, f"demo-{task}")
    files = _write_data(task, folder / "data")
    if not quiet:
        duration = "a few seconds" if quick else "up to a minute"
        terminal.print_lines(demo.description, f"The data are in {folder / 'data'}. Training takes {duration}.")
    config = Config.build(_document(task, files, {"train.seed": seed, **(demo.quick if quick else {})}))
    with terminal.TrainingProgress(quiet=quiet) as progress:
        trained = workflow.train(config, output=folder / "run", listeners=[progress])
    model = load(trained.path, own_files=True)
    finished = DemoRun(model, files, model.evaluate(files.test), trained.path)
    baselines = demo.baselines(finished)
    seconds = time.perf_counter() - started
    answers = demo.answers(replace(finished, inputs=_read_inputs(demo.inputs, quiet=quiet)))
    paths = sorted(str(path.relative_to(trained.path)) for path in trained.path.rglob("[!.]*") if path.is_file())
    result = {
        "task": task,
        "run": str(trained.path),
        "metric": demo.metric,
        "test": dict(finished.scores),
        "baseline": baselines,
        "examples": answers,
        "files": paths,
        "seconds": seconds,
    }
    if not quiet:
        _report(demo, result, files, quick=quick)
    return result


def _read_inputs(inputs: Sequence[str], *, quiet: bool) -> list[str]:
    """The inputs, each replaced by what a person at a terminal types instead."""
    if quiet or not (sys.stdin.isatty() and sys.stdout.isatty()):
        return list(inputs)
    terminal.print_lines("", *(["Type your own inputs, or press Enter to keep the suggestions:"] if inputs else []))
    typed = []
    for suggestion in inputs:
        try:
            typed.append(input(f"  {suggestion!r}: ").strip() or suggestion)
        except EOFError:
            typed.append(suggestion)
    return typed


def _new_folder(output: Path, name: str) -> Path:
    """A new folder of that name, with a number appended if it exists."""
    number = 1
    while True:
        folder = output / (name if number == 1 else f"{name}-{number}")
        try:
            folder.mkdir(parents=True)
        except FileExistsError:
            if not os.path.lexists(folder):  # a file is in the way
                raise ValueError(f"cannot create the folder {folder}: {output} is not a folder") from None
        except OSError as error:
            raise ValueError(f"cannot create the folder {folder}: {error.strerror}") from None
        else:
            return folder
        number += 1


def _write_data(task: str, folder: Path) -> Files:
    """The built-in data set that the example names: ``python_tags`` of ``python_tags/train.conll``."""
    name = Path(str(parse(examples.text(task), task).get("task.train"))).parts[0]
    try:
        return datasets.build(name, folder)
    except ModuleNotFoundError as error:
        raise ValueError(
            f"the data set {name} needs {error.name}, which is not installed: pip install 'seqloom[digits]'"
        ) from None


def _document(task: str, files: Files, changes: Mapping[str, Any]) -> Document:
    """The example configuration with the paths of the data and some changes."""
    overrides = {"task.train": str(files.train), "task.dev": str(files.dev), **changes}
    written = [f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in overrides.items()]
    return parse(examples.text(task), f"{task}.toml", overrides=written)


def _report(demo: Demo, result: Mapping[str, Any], files: Files, *, quick: bool) -> None:
    """Print scores, answers, files and commands to try."""

    def score(value: float) -> str:
        return f"{value:.1%}" if demo.percent else f"{value:.4g}"

    path, test = result["run"], shlex.quote(str(files.test))
    rows = [("this model", score(result["test"][demo.metric]))]
    rows += [(name, score(value)) for name, value in result["baseline"].items()]
    terminal.print_lines("", f"Results on the test data ({files.test}):")
    terminal.table(("model", demo.metric), rows)
    if quick:
        terminal.print_lines("", "Quick mode: trained for a few seconds only, so the scores are poor.")
    terminal.print_lines("")
    demo.show(result["examples"])
    terminal.print_lines("", f"Files in the run folder {path}:")
    present = {name: what for name, what in RUN_FILES.items() if Path(path, name).exists()}
    terminal.table(("file", "content"), list(present.items()))
    quoted = shlex.quote(path)
    terminal.print_lines(
        "",
        f"Done in {result['seconds']:.0f} seconds. Try next:",
        f"  {demo.next_command.format(run=quoted, test=test)}",
        f"  seqloom evaluate {quoted} {test}",
        f"  seqloom info {quoted}",
        f"  seqloom train {shlex.quote(str(Path(path, 'config.toml')))} train.seed=2 --output my-run",
    )
