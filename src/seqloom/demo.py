"""A first model of each task, from built-in data to answers in about a minute."""

import json
import os
import shlex
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import torch

from seqloom import terminal, workflow
from seqloom.config import Document
from seqloom.data.builtin.datasets import Files
from seqloom.lab import memory
from seqloom.lab.demonstration import Demonstration, Trained
from seqloom.lab.first_models import DEMONSTRATIONS
from seqloom.model import Config, load

RUN_FILES = {
    "config.toml": "the complete configuration",
    "learned.json": "what the training file taught before any gradient: symbols, labels, scales",
    "env.json": "versions and machine",
    "metrics.jsonl": "loss and scores over time",
    "results.png": "the same as a picture",
    "attention.png": "attention over the first input, for each output token",
    "embedding_map.png": "some words as points: their first two principal components",
    "image_attention.png": "attention over the first image, for each word of its caption",
    "ctc.png": "token probabilities over the columns of the first image",
    "train.log": "what happened when",
    "best": "the model with the best score on dev",
    "last": "the last model, and all that is needed to go on with the training",
}


def run(task: str, *, output: Path, seed: int = 1, quick: bool = False, quiet: bool = False) -> dict[str, Any]:
    """Train, evaluate and use a model; prints what it does for people, unless ``quiet``."""
    if task == "memory":
        return remember(output, seed=seed, quick=quick, quiet=quiet)
    if task not in DEMONSTRATIONS:
        names = [*DEMONSTRATIONS, "memory"]
        near = "".join(f"did you mean {name!r}? " for name in get_close_matches(task, names, n=1, cutoff=0.5))
        raise ValueError(f"there is no demonstration {task!r}: {near}Wanted one of {', '.join(names)}")
    threads = torch.get_num_threads()
    # The models are small; and so the result does not depend on the number of cores.
    torch.set_num_threads(1)
    try:
        return demonstrate(task, output, seed=seed, quick=quick, quiet=quiet)
    finally:
        torch.set_num_threads(threads)


def demonstrate(task: str, output: Path, *, seed: int, quick: bool, quiet: bool) -> dict[str, Any]:
    chosen = DEMONSTRATIONS[task]
    started = time.perf_counter()
    folder = _folder(output, f"demo-{task}")
    files = _write(chosen, folder / "data")
    if not quiet:
        terminal.say(
            chosen.about,
            f"The data are in {folder / 'data'}; training takes {'seconds' if quick else 'about a minute'}.",
        )
    config = _config(task, chosen, files, {"train.seed": seed, **(chosen.quick if quick else {})})
    with terminal.Watch(quiet=quiet) as watch:
        trained = workflow.train(config, output=folder / "run", listeners=[watch])
    model = load(trained.path)
    found = Trained(model, files, model.evaluate(files.test), trained.path)
    baseline = chosen.baselines(found)
    seconds = time.perf_counter() - started
    examples = chosen.show(replace(found, typed=_typed(chosen.inputs, quiet=quiet)))
    paths = sorted(str(path.relative_to(trained.path)) for path in trained.path.rglob("[!.]*") if path.is_file())
    result = {
        "task": task,
        "run": str(trained.path),
        "metric": chosen.metric,
        "test": dict(found.test),
        "baseline": baseline,
        "examples": examples,
        "files": paths,
        "seconds": seconds,
    }
    if not quiet:
        _tell(chosen, result, files)
    return result


def _typed(inputs: Sequence[str], *, quiet: bool) -> list[str]:
    """What a person at a terminal wants to be answered; for each that is left empty, one of the inputs."""
    if quiet or not (sys.stdin.isatty() and sys.stdout.isatty()):
        return list(inputs)
    terminal.say("", *(["Now type your own, or press Enter:"] if inputs else []))
    typed = []
    for given in inputs:
        try:
            typed.append(input(f"  instead of {given!r}: ").strip() or given)
        except EOFError:
            typed.append(given)
    return typed


def _folder(output: Path, name: str) -> Path:
    """A new folder of that name, with a number behind it if there is one already."""
    number = 1
    while True:
        folder = output / (name if number == 1 else f"{name}-{number}")
        try:
            folder.mkdir(parents=True)
        except FileExistsError:
            if not os.path.lexists(folder):  # a file is in the way
                raise ValueError(f"cannot make the folder {folder}: {output} is no folder") from None
        except OSError as error:
            raise ValueError(f"cannot make the folder {folder}: {error.strerror}") from None
        else:
            return folder
        number += 1


def _write(chosen: Demonstration, folder: Path) -> Files:
    try:
        return chosen.build(folder)
    except ModuleNotFoundError as error:
        raise ValueError(f"the data come with {error.name}, which is missing: pip install 'seqloom[digits]'") from None


def _config(task: str, chosen: Demonstration, files: Files, changes: Mapping[str, Any]) -> Config:
    names = {"task.name": task, "task.train": str(files.train), "task.dev": str(files.dev)}
    values = {**names, **chosen.settings, **changes}
    return Config.build(Document.empty([f"{name}={json.dumps(value)}" for name, value in values.items()]))


def _tell(chosen: Demonstration, result: Mapping[str, Any], files: Files) -> None:
    """What was learnt, and how to go on."""

    def figure(value: float) -> str:
        return f"{value:.1%}" if chosen.percent else f"{value:.4g}"

    path, test = result["run"], shlex.quote(str(files.test))
    rows = [("this model", figure(result["test"][chosen.metric]))]
    rows += [(name, figure(value)) for name, value in result["baseline"].items()]
    terminal.say("", f"On data that it has never seen ({files.test}):")
    terminal.table(("model", chosen.metric), rows)
    terminal.say("")
    chosen.tell(result["examples"])
    terminal.say("", f"Everything is in the run {path}:")
    present = {name: what for name, what in RUN_FILES.items() if Path(path, name).exists()}
    terminal.table(("file", "what it is"), list(present.items()))
    quoted = shlex.quote(path)
    terminal.say(
        "",
        f"Done in {result['seconds']:.0f} seconds. To go on:",
        f"  {chosen.following.format(run=quoted, test=test)}",
        f"  seqloom evaluate {quoted} {test}",
        f"  seqloom info {quoted}",
        f"  seqloom train {shlex.quote(str(Path(path, 'config.toml')))} train.epochs=20 --output my-run",
    )


def remember(output: Path, *, seed: int, quick: bool, quiet: bool) -> dict[str, Any]:
    """How far back three recurrent networks remember: a table, a picture, a verdict."""
    try:
        output.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ValueError(f"cannot make the folder {output}: {error.strerror}") from None
    short = memory.Memory(lengths=(5, 10), updates=100, seed=seed)
    experiment = short if quick else memory.Memory(seed=seed)
    started = time.perf_counter()
    outcomes = []
    with terminal.progress(len(experiment.cases())) as begin:
        for network, length in experiment.cases():
            begin(f"{network}, {length} steps")
            outcomes.append(experiment.measure(network, length))
    picture: Path | None = output / "memory.png"
    try:
        memory.draw(outcomes, output / "memory.png", chance=experiment.chance)
    except ModuleNotFoundError as error:
        sys.stderr.write(f"No picture, since {error.name} is missing: pip install 'seqloom[plots]'\n")
        picture = None
    if not quiet:
        terminal.say(
            "A symbol is shown, then come steps with distractors, then the network has to name the symbol.",
            f"The LSTMs begin with their forget gates open (bias {experiment.forget_bias:g}).",
            f"Right answers ({experiment.chance:.0%} by luck), "
            "and ∇, the gradient that reaches the symbol before training:",
        )
        terminal.table(*memory.tabulate(outcomes))
        terminal.say(memory.verdict(outcomes), *([f"Picture: {picture}"] if picture else []))
    return {
        "task": "memory",
        "outcomes": [asdict(outcome) for outcome in outcomes],
        "verdict": memory.verdict(outcomes),
        "picture": str(picture) if picture else None,
        "seconds": time.perf_counter() - started,
    }
