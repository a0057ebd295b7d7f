"""A comparison: train every variant with every seed, one after the other, and tabulate the results."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from seqloom.compare.table import markdown, summarize
from seqloom.compare.trial import results_path, write_json, write_text
from seqloom.compare.variants import Budget, Variant, variants
from seqloom.interrupt import Interrupted
from seqloom.run import Run
from seqloom.run_config import Config
from seqloom.terminal import json_value
from seqloom.workflow import changed_file, environment

RunTrial = Callable[[Config, Path], dict[str, Any]]


def compare(
    path: Path,
    names: Sequence[str],
    *,
    output: Path,
    run_trial: RunTrial,  # trains a configuration in a folder
    budget: Budget,
    seeds: int = 1,
    report: Callable[[str], object] = print,  # receives a line before each training
) -> list[dict[str, Any]]:
    """Train each variant with each seed; the rows of the table, also written to compare.md and compare.json.

    Finished runs in the output folder are not repeated, and interrupted ones are resumed.
    """
    all_variants = variants(path, names, budget=budget, seeds=seeds)
    for variant in all_variants:
        for config in variant.configs:
            _check_existing_run(config, _run_folder(output, variant, config))
    trials: dict[str, list[dict[str, Any]]] = {variant.name: [] for variant in all_variants}
    for number, variant in enumerate(all_variants):
        for index, config in enumerate(variant.configs):
            folder = _run_folder(output, variant, config)
            results = _finished_results(folder)
            if results is None:
                position = number * seeds + index + 1
                report(f"run {position} of {len(all_variants) * seeds}: {variant.name}, seed {config.train.seed}")
                try:
                    results = run_trial(config, folder)
                except Interrupted:
                    raise Interrupted(output) from None
                if "error" in results:
                    report(f"failed: {results['error']}")
            trials[variant.name].append({"seed": config.train.seed, **results})
            if results.get("is_counting_model") and (config.task.dev or config.task.sequential):
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
        raise ValueError(f"{folder}: was trained with another configuration or budget; choose another --output")
    if name := changed_file(run, config):
        raise ValueError(f"{name}: has changed since {folder} was trained; choose another --output")


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
