"""The whole of a comparison: every variant with every seed, one training after the other."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from seqloom.compare.table import markdown, summarize
from seqloom.compare.trial import beside, write, write_text
from seqloom.compare.variants import Budget, Variant, variants
from seqloom.interrupt import Interrupted
from seqloom.options import finite
from seqloom.run import Run
from seqloom.run_config import Config
from seqloom.workflow import changed_file, environment

Measure = Callable[[Config, Path], dict[str, Any]]


def compare(
    path: Path,
    names: Sequence[str],
    *,
    output: Path,
    measure: Measure,  # one training, in a folder
    budget: Budget,
    seeds: int = 1,
    say: Callable[[str], object] = print,  # which training comes next
) -> list[dict[str, Any]]:
    """Train each variant with each seed; a row for each, also in the output's compare.md and compare.json.

    What is finished in the output is taken from there, and what was interrupted goes on.
    """
    chosen = variants(path, names, budget=budget, seeds=seeds)
    for variant in chosen:
        for config in variant.configs:
            _refuse_others(config, _place(output, variant, config))
    trials: dict[str, list[dict[str, Any]]] = {variant.name: [] for variant in chosen}
    for number, variant in enumerate(chosen):
        for index, config in enumerate(variant.configs):
            place = _place(output, variant, config)
            found = _finished(place)
            if found is None:
                done = number * seeds + index + 1
                say(f"training {done} of {len(chosen) * seeds}: {variant.name}, seed {config.train.seed}")
                try:
                    found = measure(config, place)
                except Interrupted:
                    raise Interrupted(output) from None
                if "failed" in found:
                    say(f"failed: {found['failed']}")
            trials[variant.name].append({"seed": config.train.seed, **found})
            if found.get("counted") and (config.task.dev or config.task.sequential):
                break  # counts know no seed
    rows = summarize(trials)
    _keep(output, rows, trials, chosen, budget=budget)
    return rows


def _place(output: Path, variant: Variant, config: Config) -> Path:
    return output / variant.folder / f"seed-{config.train.seed}"


def _refuse_others(config: Config, place: Path) -> None:
    if not place.exists():
        return
    run = Run.open(place)
    if run.config != config.text():
        raise ValueError(f"{place}: was trained by another configuration or budget; choose another --output")
    if name := changed_file(run, config):
        raise ValueError(f"{name}: is not as it was when {place} was trained; choose another --output")


def _finished(place: Path) -> dict[str, Any] | None:
    """What was measured before, if it came to an end."""
    if not place.exists() or not beside(place).exists():
        return None
    found: dict[str, Any] = json.loads(beside(place).read_text())
    return None if "failed" in found else found


def _keep(
    output: Path,
    rows: list[dict[str, Any]],
    trials: dict[str, list[dict[str, Any]]],
    chosen: Sequence[Variant],
    *,
    budget: Budget,
) -> None:
    first = chosen[0].configs[0]
    machine = environment()
    seeds = [config.train.seed for config in chosen[0].configs]
    threads = {variant.configs[0].train.threads or machine["threads"] for variant in chosen}
    share = f"a share of {first.task.dev_fraction:g} of it" if first.task.dev_fraction else "no development data"
    dev = first.task.dev or share
    facts = [
        f"Task {first.name}, trained on {first.task.train}, compared on {dev}.",
        f"Budget: {budget}. Seeds: {', '.join(map(str, seeds))}. Threads: {', '.join(map(str, sorted(threads)))}.",
        f"Seqloom {machine['seqloom']}, torch {machine['torch']}, Python {machine['python']}, {machine['system']}.",
    ]
    kept = {
        name: [{key: value for key, value in trial.items() if key != "samples"} for trial in several]
        for name, several in trials.items()
    }
    facts_of_all = {"task": first.name, "budget": budget._asdict(), "environment": machine}
    write(output / "compare.json", finite({**facts_of_all, "rows": rows, "trials": kept}))
    write_text(output / "compare.md", markdown(f"{first.name}: {len(chosen)} variants compared", rows, facts))
