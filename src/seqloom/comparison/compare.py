"""A comparison: train every variant with every seed and fold, one after the other, and tabulate the results."""

import json
import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from seqloom import files
from seqloom.comparison import subprocess_trial
from seqloom.comparison.matching import match_parameters as match_sizes
from seqloom.comparison.result import Comparison
from seqloom.comparison.table import summarize, trial_name
from seqloom.comparison.trial import results_path, write_json
from seqloom.comparison.variants import Budget, Variant, VariantLike, parse_variants, settings_for_all
from seqloom.config import Document
from seqloom.data.readers.memory import IN_MEMORY
from seqloom.data.readers.text_files import pluralize, resolve
from seqloom.insight.comparison_plot import draw_compared_curves
from seqloom.insight.plotting import plot_theme
from seqloom.interrupt import Interrupted
from seqloom.run import Run, RunError
from seqloom.run_config import Config
from seqloom.tasks.task import Task
from seqloom.terminal import json_value
from seqloom.training_data import FILES_ONLY, Sources, changed_file, suggesting_task, with_detected
from seqloom.workflow import create_unused_folder, environment

RunTrial = Callable[..., dict[str, Any]]
"""Trains a configuration in a folder, with the options of ``run_trial_in_subprocess``, and returns its results."""

Report = Callable[[str], object]
"""Receives lines of progress."""

OUTPUT = Path("runs/compare")
"""The default output folder; if it exists, runs/compare-2 and so on."""


def print_to_stderr(line: str) -> None:
    """Print a line of progress."""
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


def compare(
    config: str | Path | Config | Document,  # TOML file
    variants: Sequence[VariantLike],
    overrides: Sequence[str] = (),  # section.key=value, for all variants
    *,
    minutes: float = 0.0,  # training budget of each run; 0: not limited
    tokens: int = 0,  # training budget of each run, instead of minutes; 0: not limited
    seeds: int = 1,
    folds: int = 0,  # cross-validation on the training file; 0: none
    match_parameters: bool = False,  # change the width of each variant so that all are as large as the first one
    output: str | Path | None = None,  # folder of the runs; None: runs/compare, or runs/compare-2 and so on
    report: Report = print_to_stderr,  # receives a line before each training
    run_trial: RunTrial | None = None,  # None: train in a process of its own, or in this one if data are in memory
    sources: Sources = FILES_ONLY,  # data in memory
) -> Comparison:
    """Train each variant with each seed and compare it with the first one; everything is written to the output folder.

    A variant is a text ("base", "key=value,key=value", "layer=module:name", or the path of a TOML file), a mapping of
    its changes, or a custom layer or cell. Finished runs in the output folder are not repeated, and interrupted ones
    are resumed.
    """
    if run_trial is None:
        in_memory = sources.train is not None or sources.dev is not None
        here = partial(subprocess_trial.run_trial_here, sources=sources)
        run_trial = here if in_memory else subprocess_trial.run_trial_in_subprocess
    budget = Budget(minutes, tokens)
    options: dict[str, Any] = {"budget": budget, "seeds": seeds, "folds": folds, "overrides": overrides}
    all_variants = _with_data(parse_variants(config, variants, source=sources.train, **options), report, sources)
    if match_parameters:
        all_variants = match_sizes(all_variants, sources)
    for variant in all_variants if output else ():
        for run_config in variant.configs:
            _check_existing_run(run_config, _run_folder(Path(output or ""), variant, run_config), sources)
    output = Path(output) if output else create_unused_folder(OUTPUT)
    trials: dict[str, list[dict[str, Any]]] = {variant.name: [] for variant in all_variants}
    shown: set[tuple[str, str]] = set()  # data about which warnings have been shown
    position, total = 0, sum(len(variant.configs) for variant in all_variants)
    for line in (_describe_runs(len(all_variants), seeds, folds), *settings_for_all(all_variants)):
        report(line)
    for variant in all_variants:
        counted: set[str] = set()  # folds that need no other seed
        for run_config in variant.configs:
            position += 1
            fold = run_config.task.dev_fold
            if fold in counted:
                continue
            folder = _run_folder(output, variant, run_config)
            trial: dict[str, Any] = {"seed": run_config.train.seed, "fold": fold}
            results = _finished_results(folder)
            if results is None:
                report(f"run {position} of {total}: {variant.name}, {trial_name(trial)}")
                try:
                    data = (run_config.task.train, run_config.task.dev)
                    results = run_trial(run_config, folder, layer=variant.layer, show_warnings=data not in shown)
                    shown.add(data)
                except Interrupted:
                    raise Interrupted(output) from None
                if "error" in results:
                    report(f"failed: {results['error']}")
            trials[variant.name].append(trial | results)
            if results.get("is_counting_model") and (fold or run_config.task.dev or run_config.task.sequential):
                counted.add(fold)  # the result does not depend on the seed
    rows = summarize(trials)
    for row, variant in zip(rows, all_variants, strict=True):
        row["adapted"] = variant.note
    return _write_results(Comparison(rows, output), trials, all_variants, budget=budget)


def _describe_runs(variants: int, seeds: int, folds: int) -> str:
    """How many trainings follow, such as ``6 runs: 3 variants × 2 seeds``."""
    counts = {"variant": variants, "seed": seeds, "fold": folds or 1}
    factors = " × ".join(pluralize(count, noun) for noun, count in counts.items() if count > 1)
    total = pluralize(math.prod(counts.values()), "run")
    return f"{total}: {factors}" if factors else total


def _with_data(variants: Sequence[Variant], report: Callable[[str], object], sources: Sources) -> list[Variant]:
    """The variants with the columns that their data show; ValueError if data of any variant cannot be read."""
    result, problems = [], []
    all_notes: dict[str, None] = {}
    for variant in variants:
        try:
            task, notes = read_first(variant.configs[0], sources)
        except (ValueError, TypeError, OSError, ModuleNotFoundError) as error:
            problems.append(f"{variant.name}: {error}")
            continue
        all_notes |= dict.fromkeys(notes)
        configs = [
            config._replace(task=task.model_copy(update={"dev_fold": config.task.dev_fold}))
            for config in variant.configs
        ]
        result.append(variant._replace(configs=tuple(configs)))
    if problems:
        raise ValueError("\n".join(problems))
    for line in all_notes:
        report(line)
    return result


def read_first(config: Config, sources: Sources) -> tuple[Task, tuple[str, ...]]:
    """The task with the columns that its data show, and notes, once the first example of each file has been read."""
    detected, notes = with_detected(config, sources)
    task = detected.task
    for name in task.files:
        if name != IN_MEMORY and not resolve(name).exists():
            raise FileNotFoundError(f"{name}: no such file")
    for name, source in ((task.train, sources.training_source), (task.dev, sources.dev_source)):
        with suggesting_task(config, sources):
            if name and next(iter(task.read(source(detected))), None) is None:
                raise ValueError(f"{name}: there are no examples")
    return task, notes


def _run_folder(output: Path, variant: Variant, config: Config) -> Path:
    fold = f"fold-{config.task.fold[0]}-" if config.task.fold else ""
    return output / variant.folder / f"{fold}seed-{config.train.seed}"


def _check_existing_run(config: Config, folder: Path, sources: Sources) -> None:
    """Refuse to continue a run with another configuration or other data."""
    if not folder.exists():
        return
    run = Run.open(folder)
    if run.config != config.text():
        raise ValueError(f"{folder}: was trained with another configuration or budget; choose another output folder")
    if name := changed_file(run, config, sources):
        raise ValueError(f"{name}: has changed since {folder} was trained; choose another output folder")


def _finished_results(folder: Path) -> dict[str, Any] | None:
    """The results of an earlier trial; None if there are none or it failed."""
    if not folder.exists() or not results_path(folder).exists():
        return None
    results: dict[str, Any] = json.loads(results_path(folder).read_text())
    return None if "error" in results else results


def _write_results(
    comparison: Comparison,
    trials: dict[str, list[dict[str, Any]]],
    all_variants: Sequence[Variant],
    *,
    budget: Budget,
) -> Comparison:
    first = all_variants[0].configs[0]
    machine = environment()
    seeds = dict.fromkeys(config.train.seed for config in all_variants[0].configs)
    threads = {variant.configs[0].train.threads or machine["threads"] for variant in all_variants}
    held_out = (
        f"{100 * first.task.dev_fraction:g} % of it, held out" if first.task.dev_fraction else "no development data"
    )
    if first.task.fold:
        held_out = f"each of its {first.task.fold[1]} folds"
    notes = [
        f"Task {first.name}, trained on {first.task.train}, compared on {first.task.dev or held_out}.",
        f"Budget: {budget}. Seeds: {', '.join(map(str, seeds))}. Threads: {', '.join(map(str, sorted(threads)))}.",
        f"Seqloom {machine['seqloom']}, torch {machine['torch']}, Python {machine['python']}, {machine['system']}.",
    ]
    without_samples = {
        name: [{key: value for key, value in trial.items() if key != "bootstrap_samples"} for trial in same_variant]
        for name, same_variant in trials.items()
    }
    count = len(all_variants)
    title = f"{first.name}: {count} variants compared" if count > 1 else f"{first.name}: {all_variants[0].name}"
    comparison = replace(comparison, title=title, notes=tuple(notes), plot=_draw(comparison, all_variants))
    settings = {"task": first.name, "budget": budget._asdict(), "environment": machine}
    written = {**settings, "rows": comparison.rows, "trials": without_samples}
    write_json(comparison.path / "compare.json", json_value(written))
    files.write(comparison.path / "compare.md", comparison.markdown())
    return comparison


def _draw(comparison: Comparison, all_variants: Sequence[Variant]) -> Path | None:
    """Draw the learning curves of all runs together, if matplotlib is installed and there are any."""
    curves: dict[str, list[list[dict[str, Any]]]] = {}
    for variant in all_variants:
        folders = [_run_folder(comparison.path, variant, config) for config in variant.configs]
        try:
            curves[variant.name] = [Run.open(folder).rows() for folder in folders if folder.exists()]
        except RunError:
            continue  # a run that failed
    row = next((row for row in comparison.rows if "metric" in row), None)
    if row is None:
        return None
    settings = all_variants[0].configs[0].train
    path = comparison.path / f"curves.{settings.plot_format}"
    try:
        with plot_theme(settings.plot_theme):
            drawn = draw_compared_curves(curves, path, metric=row["metric"], higher_is_better=row["higher_is_better"])
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "matplotlib":
            raise
        return None
    return path if drawn is not None else None
