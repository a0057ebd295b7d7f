"""What a sweep has shown: its trials as a table, the importance of each key, pictures, and the best configuration."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seqloom import files
from seqloom.comparison.trial import write_json
from seqloom.config.toml import literal
from seqloom.insight.plotting import plot_theme
from seqloom.insight.sweep_plot import Axis, Line, draw_importance, draw_parallel_coordinates
from seqloom.insight.theme import Theme
from seqloom.run import Run
from seqloom.terminal import json_value
from seqloom.tuning.space import Choice, Space

if TYPE_CHECKING:
    from seqloom.tuning.journal import Journal, Trial

MIN_TRIALS = 4
"""Finished trials without which importance is not computed."""


@dataclass(frozen=True)
class Sweep:
    """The result of a sweep."""

    path: Path  # folder of the sweep
    metric: str
    higher_is_better: bool
    trials: "list[Trial]"
    best: "Trial | None"  # None: no trial has finished
    importance: dict[str, float]  # share of each key in the variation of the metric; empty: too few trials
    space: Space

    @property
    def best_config(self) -> Path:
        """The configuration of the best trial, for ``seqloom train``."""
        return self.path / "best.toml"

    @property
    def best_run(self) -> Path:
        """The run of the best trial, for ``seqloom.load``."""
        if self.best is None:
            raise ValueError(f"{self.path}: no trial has finished")
        return self.path / "trials" / str(self.best.number)

    def table(self) -> tuple[list[str], list[list[str]]]:
        """Column headings, and the cells of each trial: the best first, then pruned, failed and unfinished ones."""
        names = short_names(list(self.space))
        order = ["finished", "pruned", "failed", "running", "waiting"]
        sign = -1 if self.higher_is_better else 1
        trials = sorted(self.trials, key=lambda trial: (order.index(trial.state), sign * (trial.value or 0.0)))
        rows = [
            [
                str(trial.number),
                "" if trial.value is None else f"{trial.value:.5g}",
                *(_cell(trial.values.get(name)) for name in self.space),
                "" if trial.minutes is None else f"{trial.minutes:.2f}",
                trial.state if trial.state != "pruned" else f"pruned after {len(trial.evaluations)}",
            ]
            for trial in trials
        ]
        return ["trial", self.metric, *(names[name] for name in self.space), "minutes", "state"], rows

    def importance_table(self) -> tuple[list[str], list[list[str]]]:
        """Column headings, and the cells of each key: the most important first."""
        return ["key", "importance"], [[name, f"{100 * share:.0f} %"] for name, share in self.importance.items()]

    def notes(self) -> list[str]:
        """Reasons for failed trials, and what the table does not say."""
        notes = [f"trial {trial.number} failed: {trial.error}" for trial in self.trials if trial.error]
        if not self.importance:
            notes.append(
                f"The importance of each key needs at least {MIN_TRIALS} finished trials with different scores."
            )
        return notes

    def __str__(self) -> str:
        columns, rows = self.table()
        widths = [max(len(row[index]) for row in (columns, *rows)) for index in range(len(columns))]
        lines = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in (columns, *rows)]
        return "\n".join(lines)


def summarize(journal: "Journal", metric: str) -> Sweep:
    """The result of a sweep so far."""
    return Sweep(
        path=journal.folder,
        metric=metric,
        higher_is_better=journal.higher_is_better,
        trials=journal.trials(),
        best=journal.best(),
        importance=journal.importance(MIN_TRIALS),
        space=journal.space,
    )


def write_results(sweep: Sweep, task: str, *, plot_format: str = "png", theme: Theme = "light") -> None:
    """Write best.toml, sweep.md, sweep.json and, if matplotlib is installed, the pictures."""
    facts = {"task": task, "metric": sweep.metric, "higher_is_better": sweep.higher_is_better}
    trials = [asdict(trial) for trial in sweep.trials]
    best = sweep.best.number if sweep.best else None
    results = {**facts, "best": best, "importance": sweep.importance, "trials": trials}
    write_json(sweep.path / "sweep.json", json_value(results))
    files.write(sweep.path / "sweep.md", _page(sweep, task))
    if sweep.best is None:
        return
    values = ", ".join(f"{name} = {literal(value)}" for name, value in sweep.best.values.items())
    heading = f"# Trial {sweep.best.number} of {sweep.path.name}: {sweep.metric} {sweep.best.value:.5g} with {values}\n"
    files.write(sweep.best_config, heading + Run.open(sweep.best_run).config)
    try:
        with plot_theme(theme):
            _draw(sweep, f".{plot_format}")
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "matplotlib":
            raise


def _draw(sweep: Sweep, suffix: str) -> None:
    names = short_names(list(sweep.space))
    axes = {
        name: Axis(names[name], categories=[_cell(value) for value in domain.values])
        if isinstance(domain, Choice)
        else Axis(names[name], low=domain.low, high=domain.high, log=domain.log)
        for name, domain in sweep.space.items()
    }
    lines = [
        Line(
            [_cell(trial.values[name]) if axis.categories else trial.values[name] for name, axis in axes.items()],
            trial.value,
            finished=trial.state == "finished",
        )
        for trial in sweep.trials
        if trial.value is not None
    ]
    draw_parallel_coordinates(
        list(axes.values()),
        lines,
        sweep.path / f"parallel_coordinates{suffix}",
        metric=sweep.metric,
        higher_is_better=sweep.higher_is_better,
        title=f"{sweep.path.name}: {len(lines)} trials",
    )
    if sweep.importance:
        path = sweep.path / f"importance{suffix}"
        draw_importance(sweep.importance, path, metric=sweep.metric, title=sweep.path.name)


def _page(sweep: Sweep, task: str) -> str:
    """The tables as a Markdown page."""
    parts = [f"# {task}: {len(sweep.trials)} trials", "", *_markdown(*sweep.table()), ""]
    if sweep.importance:
        parts += [f"## Importance for {sweep.metric}", "", *_markdown(*sweep.importance_table()), ""]
    return "\n".join([*parts, *(f"- {note}" for note in sweep.notes()), ""])


def _markdown(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    lines = ["|".join(["", *(cell.replace("|", "\\|") for cell in row), ""]) for row in (columns, *rows)]
    return [lines[0], "|".join(["", *["---"] * len(columns), ""]), *lines[1:]]


def short_names(names: Sequence[str]) -> Mapping[str, str]:
    """The last part of each key, with as many parts before it as it takes to tell the keys apart."""
    short = {}
    for name in names:
        steps = name.split(".")
        short[name] = next(
            ".".join(steps[-count:])
            for count in range(1, len(steps) + 1)
            if sum(f".{other}".endswith("." + ".".join(steps[-count:])) for other in names) == 1 or count == len(steps)
        )
    return short


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.4g}" if isinstance(value, float) else value if isinstance(value, str) else literal(value)
