"""Runs an experiment: measures its trials, judges the claim, and writes the results and the figure."""

import json
import os
import platform
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

import torch
from pydantic import TypeAdapter

import seqloom
from seqloom import files, lab, terminal
from seqloom.config import parse_section
from seqloom.config.schema import fields
from seqloom.config.toml import literal
from seqloom.formats import format_duration
from seqloom.insight.plotting import save_figure
from seqloom.lab.experiment import TOPICS, Experiment, Preset, Table, Verdict

RESULTS = "results.json"
FIGURES = ("figure.png", "figure.svg")
"""The files in the folder of an experiment's results."""


@dataclass(frozen=True)
class Result:
    """A finished experiment: its options, its measurements, and what they say about the claim."""

    name: str
    experiment: Experiment
    preset: Preset
    rows: tuple[Any, ...]  # of type experiment.row
    verdict: Verdict
    minutes: float  # of wall-clock time
    cpu_minutes: float

    @property
    def caution(self) -> str:
        """Why the verdict must not be relied on; empty: it may be."""
        if self.preset != "quick":
            return ""
        return (
            "Quick mode measures too little to decide anything, whatever the verdict says: run "
            f"seqloom lab {self.name} without --quick."
        )

    def to_json(self) -> dict[str, Any]:
        """Everything as values that JSON can represent; an infinite interval is null."""
        experiment = self.experiment
        content = {
            **describe(self.name),
            "preset": self.preset,
            "options": experiment.model_dump(mode="json"),
            "verdict": asdict(self.verdict) | ({"caution": self.caution} if self.caution else {}),
            "rows": [asdict(row) for row in self.rows],
            "minutes": round(self.minutes, 2),
            "cpu_minutes": round(self.cpu_minutes, 2),
            "versions": {
                "seqloom": seqloom.__version__,
                "python": platform.python_version(),
                "torch": torch.__version__,
            },
        }
        plain: dict[str, Any] = terminal.json_value(content)
        return plain

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Self:
        """Stored results, judged again by the present rule."""
        kind = lab.find(content["name"])
        experiment = kind.model_validate_json(json.dumps(content["options"]))
        rows: tuple[Any, ...] = TypeAdapter(tuple[kind.row, ...]).validate_json(json.dumps(content["rows"]))  # type: ignore[name-defined]  # a type at run time
        return cls(
            content["name"],
            experiment,
            content["preset"],
            rows,
            experiment.verdict(rows),
            content["minutes"],
            content["cpu_minutes"],
        )


def describe(name: str) -> dict[str, Any]:
    """What an experiment is about."""
    experiment = lab.find(name)
    return {
        "name": name,
        "topic": experiment.topic,
        "question": experiment.question,
        "claim": experiment.claim,
        "source": experiment.source,
        "rule": experiment.rule,
    }


def describe_all() -> list[dict[str, Any]]:
    """What all experiments are about, by topic."""
    return sorted(map(describe, lab.names()), key=lambda row: (TOPICS.index(row["topic"]), row["name"]))


def option_table(name: str) -> Table:
    """The options of an experiment with their values by default and with --thorough."""
    experiment = lab.find(name)
    thorough = {**experiment.thorough}
    rows = []
    for option, field in fields(experiment).items():
        default = field.get_default(call_default_factory=True)
        values = [_literal(value) for value in (default, thorough.get(option, default))]
        rows.append([option, values[0], values[1] if values[1] != values[0] else "", field.description or ""])
    return ["option", "default", "--thorough", "meaning"], rows


def _literal(value: Any) -> str:
    return literal(list(value) if isinstance(value, tuple) else value)


def configure(name: str, overrides: Sequence[str] = (), *, preset: Preset = "default") -> Experiment:
    """An experiment with the options of a preset, changed by ``option=value``."""
    kind = lab.find(name)
    return parse_section(kind, name, overrides, **kind.preset(preset))


def run(name: str, experiment: Experiment, *, preset: Preset = "default") -> Result:
    """Measure all trials, with progress on standard error, and judge the claim; ``preset`` is what it was made from."""
    trials = experiment.trials()
    started, started_cpu = time.perf_counter(), time.process_time()
    rows: list[Any] = []
    with _one_thread(), terminal.progress(len(trials)) as start:
        for trial in trials:
            start(trial.name)
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(experiment.seed)
                rows += trial.measure()
    minutes, cpu_minutes = (time.perf_counter() - started) / 60, (time.process_time() - started_cpu) / 60
    return Result(name, experiment, preset, tuple(rows), experiment.verdict(rows), minutes, cpu_minutes)


@contextmanager
def _one_thread() -> Iterator[None]:
    """The tensors are small, and with one thread the result does not depend on the number of cores."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


@contextmanager
def results_folder(name: str, output: Path | None) -> Iterator[Path]:
    """The folder for the results, made before the measurement; removed if that fails and nothing was written."""
    folder = _numbered_folder(Path("runs"), f"lab-{name}") if output is None else output
    if (folder / RESULTS).exists():
        raise ValueError(f"{folder} already holds the results of an experiment: choose another folder with --output")
    existed = folder.is_dir()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ValueError(f"cannot create the folder {folder}: {error.strerror}") from None
    try:
        yield folder
    finally:
        if not existed and not any(folder.iterdir()):
            folder.rmdir()


def _numbered_folder(parent: Path, name: str) -> Path:
    """A path that does not exist yet."""
    number = 1
    while os.path.lexists(folder := parent / (name if number == 1 else f"{name}-{number}")):
        number += 1
    return folder


def write(result: Result, folder: Path) -> list[Path]:
    """Write the results and the figure; without matplotlib, only the results."""
    files.write(folder / RESULTS, dump(result))
    try:
        draw(result, [folder / name for name in FIGURES])
    except ModuleNotFoundError as error:
        terminal.print_note(f"no figure: {error.name} is not installed; run pip install 'seqloom[plots]'")
        return [folder / RESULTS]
    return [folder / RESULTS, *(folder / name for name in FIGURES)]


def dump(result: Result) -> str:
    """The results as JSON text with one measurement per line."""
    content = result.to_json()
    rows = ",\n  ".join(json.dumps(row, ensure_ascii=False) for row in content.pop("rows"))
    head = json.dumps(content, indent=1, ensure_ascii=False).removesuffix("\n}")
    return f'{head},\n "rows": [\n  {rows}\n ]\n}}\n'


def draw(result: Result, paths: Sequence[Path]) -> None:
    """Draw the figure in the formats of the paths. Needs matplotlib."""
    figure = result.experiment.draw(result.rows)
    for path in paths:
        save_figure(figure, path)


def print_claim(name: str) -> None:
    """Print what an experiment is about."""
    experiment = lab.find(name)
    terminal.print_wrapped(f"Question: {experiment.question}")
    terminal.print_wrapped(f"Claim: {experiment.claim} ({experiment.source})")
    terminal.print_lines("")


def print_result(result: Result, paths: Sequence[Path]) -> None:
    """Print measurements, verdict and files."""
    terminal.table(*result.experiment.table(result.rows))
    terminal.print_lines("")
    terminal.print_wrapped(f"Verdict: {result.verdict.status}. {result.verdict.sentence} {result.caution}".rstrip())
    terminal.print_wrapped(f"Rule: {result.experiment.rule}")
    terminal.print_lines("", f"{format_duration(60 * result.minutes)}. Written: {', '.join(map(str, paths))}")
