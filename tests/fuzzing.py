"""Damage runs, sign them again, and check that each gives an answer or a clear error; see scripts/fuzz."""

import argparse
import json
import os
import random
import resource
import shutil
import signal
import struct
import sys
import tempfile
import time
import tomllib
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import tomli_w
import torch
from tests.contracts import tiny

from seqloom import checkpoint, info, model, terminal
from seqloom.checkpoint import RunError, Snapshot
from seqloom.config import ConfigError
from seqloom.data.readers.text_files import DataError
from seqloom.run import FILES, Run
from seqloom.training.divergence import Diverged
from seqloom.workflow import environment, resume, train

SECONDS = 5
MEMORY = 10  # times the size of the folder, beyond
BASE_MEMORY = 64 << 20  # what a model needs, however small
TRAINING_MEMORY = 512 << 20  # the same for a training
SUBWORDS = {"unit": "subwords", "vocab_size": 300}
CASES = {
    **tiny.CASES,
    "classify, subwords": tiny.CASES["classify"]._replace(
        fields={**tiny.CASES["classify"].fields, "text": SUBWORDS},
    ),
    "language_model, unigram": tiny.CASES["language_model"]._replace(
        fields={**tiny.CASES["language_model"].fields, "text": {"unit": "subwords", "algorithm": "unigram"}},
    ),
    "translate, subwords": tiny.CASES["translate"]._replace(
        fields={**tiny.CASES["translate"].fields, "source": SUBWORDS, "target": SUBWORDS},
    ),
}
INTEGERS = (-1, 0, 1, 2, 3, 7, 100, 10**5, 10**7, 10**9, 7 * 10**8, 2**31, 2**40, 2**62, 2**63 - 1)
FLOATS = (-1.0, 0.0, 1e-30, 0.5, 1.0, 100.0, 1e12, 1e30, 3e38, 1e300, float("inf"), float("nan"))
TEXTS = (
    "",
    "-",
    "/dev/zero",
    "/dev/stdin",
    "$HOME/x",
    "{folder}/fifo",
    "..",
    "\x1b[2J",
    "<pad>",
    "beam",
    "a" * 1000,
    "0",
)


class Seed(NamedTuple):
    """An intact run, and inputs for it; without inputs it is resumed."""

    name: str
    path: Path
    questions: Sequence[Any]


def make_run(name: str, folder: Path) -> Seed:
    """The run of a case with random weights, which is quicker than training and just as good here."""
    case = CASES[name]
    folder.mkdir()
    config = tiny.build(case, folder)
    source = folder / case.file
    task = config.task.resolve(source)[0]
    task = task.fit(task.read(source))
    torch.manual_seed(1)
    module = task.build_model()
    if task.is_counting_model:
        module.count(task.read(source))  # type: ignore[operator]
    run = Run.create(
        folder / "run",
        config=config._replace(task=task).text(),
        learned=task.learned.model_dump_json(),  # type: ignore[union-attr]
        environment=environment(),
    )
    run.save("best", Snapshot(module.state_dict(), {}, {"epoch": 1, "update": 1, "metrics": {"loss": 1.0}}))
    facts = {"started": "2026-01-01", "examples": {"train": 9}, "seconds": 1.5}
    run.write_summary(facts | {"parameters": 9, "baseline_scores": {"accuracy": 0.5}, "settings": {"train.epochs": 1}})
    return Seed(name, run.path, case.questions)


def train_run(name: str, folder: Path) -> Seed:
    """The run of a case after one epoch, which can be resumed."""
    case = CASES[name]
    folder.mkdir()
    config = tiny.build(case, folder, epochs=1)
    return Seed(name, train(config, output=folder / "run", plots=False).path, ())


def sign(run: Path) -> None:
    """Write new manifests, as anybody can."""
    for folder, names in ((run, FILES), *[(run / name, checkpoint.FILES) for name in ("best", "last")]):
        if folder.exists():
            (folder / checkpoint.MANIFEST).unlink()
            checkpoint.write_manifest(folder, names)


def mutate_value(draw: random.Random, value: Any) -> Any:
    """Another value, mostly of the same type."""
    if draw.random() < 0.1:
        return draw.choice([None, [], {}, 1, "x", 1.5, True, [[1]], {"a": 1}])
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return draw.choice([*INTEGERS, value + 1, value - 1, value * 2])
    if isinstance(value, float):
        return draw.choice(FLOATS)
    if isinstance(value, str):
        position = draw.randrange(len(value) + 1)
        return draw.choice([*TEXTS, value * 2, value[:position], value[:position] + "\x00\u00e9" + value[position:]])
    return draw.choice([value[:-1], value + value, value[::-1]]) if isinstance(value, list) else {}


def mutate_tree(draw: random.Random, tree: Any) -> Any:
    """The same JSON value with one part changed, removed or added."""
    places: list[tuple[Any, Any]] = []

    def collect(node: Any) -> None:
        keys = list(node) if isinstance(node, dict) else range(min(len(node), 50)) if isinstance(node, list) else ()
        for key in keys:
            places.append((node, key))
            collect(node[key])

    collect(tree)
    if not places:
        return mutate_value(draw, tree)
    node, key = draw.choice(places)
    action = draw.random()
    if action < 0.1:
        del node[key]
    elif action < 0.15 and isinstance(node, dict):
        node[f"{key}_2"] = node[key]
    elif isinstance(node[key], str) and node[key].startswith("{"):  # the JSON of a tokenizer
        node[key] = json.dumps(mutate_tokenizer(draw, json.loads(node[key])))
    else:
        node[key] = mutate_value(draw, node[key])
    return tree


def mutate_tokenizer(draw: random.Random, tree: Any) -> Any:
    replace = {"type": "Replace", "pattern": {"Regex": "(a*)*b"}, "content": "aaaa"}
    additions: list[dict[str, Any]] = [
        {
            "padding": {
                "strategy": {"Fixed": 10**9},
                "direction": "Right",
                "pad_to_multiple_of": None,
                "pad_id": 0,
                "pad_type_id": 0,
                "pad_token": "x",
            }
        },
        {"truncation": {"direction": "Right", "max_length": 10**12, "strategy": "LongestFirst", "stride": 0}},
        {"normalizer": {"type": "Sequence", "normalizers": [{**replace, "pattern": {"String": "a"}}] * 40}},
        {"normalizer": replace},
        {"decoder": {**replace, "pattern": {"String": ""}}},
        {"pre_tokenizer": {"type": "Split", "pattern": {"Regex": "(a|a)*c"}, "behavior": "Isolated", "invert": False}},
    ]
    if draw.random() < 0.3:
        return tree | draw.choice(additions)
    return mutate_tree(draw, tree)


def mutate_tensors(draw: random.Random, path: Path) -> None:
    data = path.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header, body = json.loads(data[8 : 8 + length]), data[8 + length :]
    names = [name for name in header if name != "__metadata__"]
    action = draw.random()
    if action < 0.4 or not names:
        header = mutate_tree(draw, header)
    elif action < 0.9:
        tensors = checkpoint.read_tensors(path)
        name = draw.choice(list(tensors))
        tensor = tensors[name].clone()
        changes: list[Callable[[], Any]] = [
            lambda: tensors.pop(name),
            lambda: tensors.update({f"{name}.x": tensor}),
            lambda: tensors.update({name: tensor.reshape(-1)}),
            lambda: tensors.update({name: tensor[None]}),
            lambda: tensors.update({name: tensor[:0] if tensor.ndim else tensor[None]}),
            lambda: tensors.update({name: torch.cat([tensor, tensor]) if tensor.ndim else tensor}),
            lambda: tensors.update({name: tensor.to(draw.choice([torch.int64, torch.float64, torch.bool]))}),
            lambda: tensors.update({name: torch.full_like(tensor, draw.choice([-1, 0, 1, 10**6]))}),
            lambda: tensors.update({name: tensor.flip(0) if tensor.ndim else tensor}),
            lambda: tensors.update({name: tensor * draw.choice([-1, 0, 1000, 10**6])}),
        ]
        if tensor.is_floating_point():
            changes.append(lambda: tensors.update({name: torch.full_like(tensor, draw.choice(FLOATS))}))
        draw.choice(changes)()
        path.unlink()
        checkpoint.write_tensors(path, {key: value.clone() for key, value in tensors.items()})
        return
    else:
        position = draw.randrange(len(body) + 1)
        body = draw.choice([body[:position], body + body, body[:position] + os.urandom(0) + body[position + 1 :]])
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + body)


def mutate_bytes(draw: random.Random, path: Path) -> None:
    data = bytearray(path.read_bytes())
    for _ in range(draw.randint(1, 4)):
        if data:
            data[draw.randrange(len(data))] = draw.randrange(256)
    path.write_bytes(bytes(data))


TO_PREDICT = {
    "config.toml": 8,
    "learned.json": 8,
    "best/model.safetensors": 6,
    "best/training.json": 1,
    "env.json": 1,
    "summary.json": 1,
}
"""How often each file is changed."""
TO_RESUME = {
    "config.toml": 4,
    "learned.json": 4,
    "last/model.safetensors": 4,
    "last/training.json": 6,
    "last/training.safetensors": 6,
    "metrics.jsonl": 1,
    "summary.json": 1,
    "env.json": 1,
}
"""The same for runs that are resumed."""


def mutate(draw: random.Random, run: Path, files: Mapping[str, int] = TO_PREDICT) -> str:
    """Change a run in one or two places; returns the files that were changed."""
    changed = []
    for _ in range(draw.choice([1, 1, 1, 2])):
        file = draw.choices(list(files), list(files.values()))[0]
        path = run / file
        changed.append(file)
        try:
            if draw.random() < 0.08 or path.suffix == ".jsonl":
                mutate_bytes(draw, path)
            elif path.suffix == ".safetensors":
                mutate_tensors(draw, path)
            elif path.suffix == ".json":
                path.write_text(json.dumps(mutate_tree(draw, json.loads(path.read_text()))))
            else:
                tree = mutate_tree(draw, tomllib.loads(path.read_text()))
                path.write_text(tomli_w.dumps(_without_none(tree)).replace("{folder}", str(run.parent)))
        except (RunError, OSError, UnicodeError, RecursionError, ValueError, TypeError, OverflowError, RuntimeError):
            pass  # damaged by the first change already
    return " + ".join(changed)


def _without_none(tree: Any) -> Any:
    if isinstance(tree, dict):
        return {key: _without_none(value) for key, value in tree.items() if value is not None}
    return [_without_none(value) for value in tree if value is not None] if isinstance(tree, list) else tree


class Outcome(NamedTuple):
    """What became of a damaged run."""

    kind: str  # answer, error, or what must not happen
    text: str
    seconds: float
    megabytes: float  # beyond those of an idle process


def use(path: Path, questions: Sequence[Any]) -> Outcome:
    """Describe a run, load it and predict; what must not happen is an exception that is not ours."""
    described = _outcome(lambda: terminal.json_line(info.describe_run(path)))
    answered = _outcome(lambda: " | ".join(map(str, model.load(path).predict(list(questions)))))
    return answered if described.kind in ("answer", "error") else described


def use_again(path: Path) -> Outcome:
    """Resume a run."""
    return _outcome(lambda: str(resume(path, ["train.epochs=2"]).summary().get("finished")))


def _outcome(action: Callable[[], str]) -> Outcome:
    started, before = time.process_time(), _peak()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of overflows
            kind, text = "answer", action()
    except (RunError, ConfigError, DataError, Diverged) as error:
        kind, text = "error", str(error)
    except BaseException as error:  # noqa: BLE001  that is what is looked for
        place = traceback.extract_tb(error.__traceback__)[-1].filename
        ours = isinstance(error, ValueError) and "seqloom" in Path(place).parts  # a sentence of ours
        kind, text = ("error", str(error)) if ours else (type(error).__name__, traceback.format_exc())
    return Outcome(kind, text[-3000:], time.process_time() - started, (_peak() - before) / 1024)


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def use_in_child(seed: Seed, path: Path) -> Outcome:
    """The outcome in a process with limited time and memory."""
    size = sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
    allowed = (BASE_MEMORY if seed.questions else TRAINING_MEMORY) + MEMORY * size
    read, write = os.pipe()
    child = os.fork()
    if not child:
        os.close(read)
        for stream in (0, 1, 2):
            os.dup2(os.open(os.devnull, os.O_RDWR), stream)
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + 2 * allowed,) * 2)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        signal.alarm(6 * SECONDS)  # other processes may be busy
        resource.setrlimit(resource.RLIMIT_CPU, (2 * SECONDS, 2 * SECONDS))
        outcome = use(path, seed.questions) if seed.questions else use_again(path)
        os.write(write, json.dumps(outcome).encode()[:60000])
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        data = pipe.read()
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if not data:
        return Outcome(f"ended by {signal.Signals(-status).name}" if status < 0 else f"exit {status}", "", 0.0, 0.0)
    outcome = Outcome(*json.loads(data))
    if outcome.seconds > SECONDS:
        return outcome._replace(kind=f"slow {outcome.kind}")
    return outcome._replace(kind=f"large {outcome.kind}") if outcome.megabytes * 1e6 > allowed else outcome


def fuzz(seeds: Sequence[Seed], folder: Path, *, first: int, count: int, show: bool = False) -> Counter[str]:
    """The outcomes of ``count`` damaged runs, which depend on their numbers alone."""
    kinds: Counter[str] = Counter()
    for number in range(first, first + count):
        draw = random.Random(number)  # noqa: S311  no secret
        seed = draw.choice(seeds)
        path = folder / "run"
        shutil.rmtree(path, ignore_errors=True)
        shutil.copytree(seed.path, path)
        if not seed.questions:
            for earlier in path.glob("*.previous"):  # instead of which the damaged one is looked at
                shutil.rmtree(earlier)
        files = mutate(draw, path, TO_PREDICT if seed.questions else TO_RESUME)
        sign(path)
        outcome = use_in_child(seed, path)
        kinds[outcome.kind] += 1
        if outcome.kind not in ("answer", "error"):
            _print(f"{number}: {seed.name}: {files}: {outcome.kind}\n{outcome.text}")
        elif show:
            _print(f"{number}: {seed.name}: {files}: {outcome.kind}: {outcome.text[:300]}")
    return kinds


def _print(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="scripts/fuzz", description=__doc__)
    parser.add_argument("--times", type=int, default=10_000, help="damaged runs")
    parser.add_argument("--first", type=int, default=0, help="number of the first one, which is its random seed")
    parser.add_argument("--case", action="append", default=[], help="only this kind of run")
    parser.add_argument("--resume", action="store_true", help="resume the runs instead of predicting with them")
    parser.add_argument("--show", action="store_true", help="print the errors and answers, too")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.mkfifo(folder / "fifo")
        names = options.case or list(CASES)
        make = train_run if options.resume else make_run
        seeds = [make(case, folder / str(number)) for number, case in enumerate(names)]
        for seed in seeds if not options.resume else ():  # compiles the kernels
            intact = use(seed.path, seed.questions)
            if intact.kind != "answer":
                raise SystemExit(f"{seed.name}: {intact.text}")
        kinds = fuzz(seeds, folder, first=options.first, count=options.times, show=options.show)
    _print(", ".join(f"{count} {kind}" for kind, count in kinds.most_common()))
    return int(bool(kinds.keys() - {"answer", "error"}))


if __name__ == "__main__":
    sys.exit(main())
