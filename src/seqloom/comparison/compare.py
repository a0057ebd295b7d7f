"""A comparison: train every variant with every seed, one after the other, and tabulate the results."""

import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from seqloom.comparison import subprocess_trial
from seqloom.comparison.table import Comparison, markdown, summarize
from seqloom.comparison.trial import results_path, write_json, write_text
from seqloom.comparison.variants import Budget, Variant, parse_variants
from seqloom.interrupt import Interrupted
from seqloom.run import Run
from seqloom.run_config import Config
from seqloom.terminal import json_value
from seqloom.workflow import changed_file, environment, unused_folder

RunTrial = Callable[[Config, Path], dict[str, Any]]
"""Trains a configuration in a folder and returns its results."""

OUTPUT = Path("runs/compare")
"""The default output folder; if it exists, runs/compare-2 and so on."""


def _print_to_stderr(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


def compare(
    config: str | Path,  # TOML file
    variants: Sequence[str],  # each "key=value,key=value", the path of a TOML file, or "base"
    *,
    minutes: float = 0.0,  # training budget of each run; 0: not limited
    tokens: int = 0,  # training budget of each run, instead of minutes; 0: not limited
    seeds: int = 1,
    output: str | Path | None = None,  # folder of the runs; None: runs/compare, or runs/compare-2 and so on
    report: Callable[[str], object] = _print_to_stderr,  # receives a line before each training
    run_trial: RunTrial | None = None,  # None: train in a process of its own
) -> Comparison:
    """Train each variant with each seed; the rows of the table, also written to compare.md and compare.json.

    Each variant is compared with the first one, example by example. Finished runs in the output folder are not
    repeated, and interrupted ones are resumed.
    """
    run_trial = run_trial or subprocess_trial.run_trial_in_subprocess
    output = Path(output or unused_folder(OUTPUT))
    budget = Budget(minutes, tokens)
    all_variants = parse_variants(Path(config), variants, budget=budget, seeds=seeds)
    for variant in all_variants:
        for run_config in variant.configs:
            _check_existing_run(run_config, _run_folder(output, variant, run_config))
    trials: dict[str, list[dict[str, Any]]] = {variant.name: [] for variant in all_variants}
    for number, variant in enumerate(all_variants):
        for index, run_config in enumerate(variant.configs):
            folder = _run_folder(output, variant, run_config)
            results = _finished_results(folder)
            if results is None:
                position = number * seeds + index + 1
                report(f"run {position} of {len(all_variants) * seeds}: {variant.name}, seed {run_config.train.seed}")
                try:
                    results = run_trial(run_config, folder)
                except Interrupted:
                    raise Interrupted(output) from None
                if "error" in results:
                    report(f"failed: {results['error']}")
            trials[variant.name].append({"seed": run_config.train.seed, **results})
            if results.get("is_counting_model") and (run_config.task.dev or run_config.task.sequential):
                break  # the result does not depend on the seed
    rows = summarize(trials)
    _write_results(output, rows, trials, all_variants, budget=budget)
    return rows


def _run_folder(output: Path, variant: Variant, config: Config) -> Path:
    return output / variant.folder / f"seed-{config.train.seed}"


def _check_existing_run(config: Config, folder: Path) -> None:
    """Refuse to continue a run with another configuration or other data."""
    if not folder.exists():
        return
    run = Run.open(folder)
    if run.config != config.text():
        raise ValueError(f"{folder}: was trained with another configuration or budget; choose another output folder")
    if name := changed_file(run, config):
        raise ValueError(f"{name}: has changed since {folder} was trained; choose another output folder")


def _finished_results(folder: Path) -> dict[str, Any] | None:
    """The results of an earlier trial; None if there are none or it failed."""
    if not folder.exists() or not results_path(folder).exists():
        return None
    results: dict[str, Any] = json.loads(results_path(folder).read_text())
    return None if "error" in results else results


def _write_results(
    output: Path,
    rows: list[dict[str, Any]],
    trials: dict[str, list[dict[str, Any]]],
    all_variants: Sequence[Variant],
    *,
    budget: Budget,
) -> None:
    first = all_variants[0].configs[0]
    machine = environment()
    seeds = [config.train.seed for config in all_variants[0].configs]
    threads = {variant.configs[0].train.threads or machine["threads"] for variant in all_variants}
    held_out = (
        f"{100 * first.task.dev_fraction:g} % of it, held out" if first.task.dev_fraction else "no development data"
    )
    notes = [
        f"Task {first.name}, trained on {first.task.train}, compared on {first.task.dev or held_out}.",
        f"Budget: {budget}. Seeds: {', '.join(map(str, seeds))}. Threads: {', '.join(map(str, sorted(threads)))}.",
        f"Seqloom {machine['seqloom']}, torch {machine['torch']}, Python {machine['python']}, {machine['system']}.",
    ]
    without_samples = {
        name: [{key: value for key, value in trial.items() if key != "bootstrap_samples"} for trial in same_variant]
        for name, same_variant in trials.items()
    }
    settings = {"task": first.name, "budget": budget._asdict(), "environment": machine}
    write_json(output / "compare.json", json_value({**settings, "rows": rows, "trials": without_samples}))
    write_text(output / "compare.md", markdown(f"{first.name}: {len(all_variants)} variants compared", rows, notes))
