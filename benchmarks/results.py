"""Train the configurations in benchmarks/configs on real data and write docs/results.json and docs/results.md."""

import argparse
import json
import re
import shutil
import time
import tomllib
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from benchmarks import missed_goals, prepare
from seqloom import terminal
from seqloom.data.readers.text_files import resolve
from seqloom.info import describe_run, machine_info
from seqloom.model import load
from seqloom.run import Run
from seqloom.run_config import Config
from seqloom.run_document import read_document
from seqloom.workflow import train

WRITING_BIAS = 1.0  # of handwriting that is read: tidy
CONFIGS = Path("benchmarks/configs")
RESULTS = Path("docs/results.json")
PAGE = Path("docs/results.md")
CURVES = Path("docs/results_curves.png")
RUNS = Path("runs/results")


def train_run(
    name: str, path: Path, *, overrides: list[str], retrain: bool, start: str | None = None
) -> tuple[Run, float]:
    """The run of a configuration and its training time in minutes; reuses an existing run unless ``retrain``.

    A run that is trained again is kept as NAME.previous, in place of an older one. A training starts from
    the weights of the run ``start``, if there is one.
    """
    output = RUNS / name
    if output.exists() and not retrain:
        run = Run.open(output)
        return run, run.load("last").facts["seconds"] / 60
    if output.exists():
        previous = output.with_name(f"{name}.previous")
        shutil.rmtree(previous, ignore_errors=True)
        output.rename(previous)
    config = Config.build(read_document(str(path), overrides))
    started = time.monotonic()
    with terminal.TrainingProgress() as progress:
        run = train(
            config, output=output, start_from=RUNS / start if start else None, vocabulary="mapped", listeners=[progress]
        )
    return run, (time.monotonic() - started) / 60


def prepare_data(config: str) -> Path:
    """Write the files that a configuration reads, where they have to be made; the configuration."""
    if config in prepare.PREPARE:
        prepare.FOLDER.mkdir(parents=True, exist_ok=True)
        prepare.PREPARE[config]()
    return CONFIGS / f"{config}.toml"


def write_drawings(run: Path, texts: str, path: Path) -> None:
    """Let a model of handwriting write the texts of a file."""
    model = load(run)
    lines = []
    for number, example in enumerate(model.task.read(resolve(texts)), start=1):
        (drawing,) = model.draw(example.text, bias=WRITING_BIAS, seed=number)
        lines.append(json.dumps({"strokes": drawing.strokes.tolist(), "text": example.text}) + "\n")
    path.write_text("".join(lines))


def measure(name: str, figure: dict[str, Any], *, retrain: bool) -> dict[str, Any]:
    """Train one configuration, and the ones it needs, and evaluate it as its entry in figures.toml says."""
    if missing := [run for run in runs_of_others(figure) if not (RUNS / run).exists()]:
        whole = figure.get("run", "")
        parts = {f"{whole}_{fold}": whole for fold in figure.get("folds", [])}
        bases = (re.sub(r"_seed\d+$", "", run) for run in missing)
        first = dict.fromkeys(parts.get(base, base) for base in bases)
        raise SystemExit(
            f"{name} evaluates {', '.join(missing)}, not trained yet; first: scripts/results {' '.join(first)}"
        )
    for needed in [*figure.get("needs", []), *filter(None, [figure.get("from")])]:
        if not (RUNS / needed).exists():
            train_run(needed, prepare_data(needed), overrides=[], retrain=False)
    if "vectors" in figure:
        load(RUNS / figure["vectors"]).export(prepare.FOLDER / f"{figure['vectors']}.vec")
    config = figure.get("config", figure.get("run", name))
    path = prepare_data(config)
    run_name = figure.get("run", name)  # may be the run of another figure
    runs = {
        each: train_run(each, path, overrides=overrides, retrain=retrain and run_name == name, start=start)
        for each, overrides in variants(run_name, figure).items()
        for start in [start_of(each, run_name, figure)]
    }
    if "writer" in figure:
        write_drawings(RUNS / figure["writer"], figure["texts"], Path(figure["file"]))
    decoding: dict[str, Any] = {option: figure[option] for option in ("search", "lexicon", "lm") if option in figure}
    others = [RUNS / other for other in figure.get("ensemble", [])]
    trained = {each: run for each, (run, _) in runs.items()}
    first_run = next(iter(trained.values()))
    metric: str = figure["metric"]
    interval: list[float] | None = None
    if "folds" in figure:
        folds = {fold: score_fold(fold, run_name, trained, figure, decoding) for fold in figure["folds"]}
        values = [mean(of_seed) for of_seed in zip(*folds.values(), strict=True)]
        every = {fold: mean(of_fold) for fold, of_fold in folds.items()}
    else:
        scores = [
            load(run.path, own_files=True, ensemble=others, **decoding).evaluate(figure["file"])
            if "file" in figure
            else run.best_metrics()
            for run in trained.values()
        ]
        values = [each[metric] for each in scores]
        every = {key: value for key, value in scores[0].items() if isinstance(value, float | int)}
        interval = scores[0].get(f"{metric}_interval") if len(values) == 1 else None
    return {
        "name": name,
        "data": figure["data"],
        "split": figure["split"],
        "metric": metric,
        "value": mean(values),
        "seeds": values if len(values) > 1 else [],
        "interval": interval,
        "goal": figure.get("goal"),
        "lower": figure.get("lower", False),
        "compare": figure.get("compare", ""),
        "command": f"scripts/results {name}",
        "config": str(path),
        "minutes": mean(minutes for _, minutes in runs.values()),
        "parameters": describe_run(first_run.path)["parameters"],
        "versions": machine_info().versions,
        "curve": [] if others or "folds" in figure else missed_goals.learning_curve(first_run, metric),
        "all": every,
    }


def score_fold(
    fold: str, name: str, runs: dict[str, Run], figure: dict[str, Any], decoding: dict[str, Any]
) -> list[float]:
    """The metric of a fold: of the last evaluation of each seed, or of the ensemble of all seeds (``together``)."""
    first, *others = (runs[name_of_seed(f"{name}_{fold}", seed)] for seed in range(1, figure.get("seeds", 1) + 1))
    if figure.get("together"):
        ensemble = load(first.path, own_files=True, ensemble=[other.path for other in others], **decoding)
        return [ensemble.evaluate(figure["file"].format(fold=fold))[figure["metric"]]]
    return [last_metrics(run)[figure["metric"]] for run in (first, *others)]


def runs_of_others(figure: dict[str, Any]) -> list[str]:
    """The runs of other figures that a figure evaluates."""
    own = variants(figure["run"], figure) if "run" in figure else {}
    return [*own, *figure.get("ensemble", [])]


def variants(name: str, figure: dict[str, Any]) -> dict[str, list[str]]:
    """The overrides of each training of a figure by the name of its run: of ``seeds`` and ``folds``.

    The name of a fold takes the place of {fold} in the overrides.
    """
    overrides: list[str] = figure.get("overrides", [])
    parts = {name: overrides}
    if "folds" in figure:
        parts = {f"{name}_{fold}": [each.format(fold=fold) for each in overrides] for fold in figure["folds"]}
    seeds = range(1, figure.get("seeds", 1) + 1)
    return {
        name_of_seed(part, seed): [*chosen, *[f"train.seed={seed}"] * (len(seeds) > 1)]
        for part, chosen in parts.items()
        for seed in seeds
    }


def start_of(name: str, first: str, figure: dict[str, Any]) -> str | None:
    """The run from whose weights a training starts, if from one: that of the same seed, where there are several."""
    start: str | None = figure.get("from")
    if start is None:
        return None
    same_seed = start + name.removeprefix(first)
    return same_seed if (RUNS / same_seed).exists() else start


def last_metrics(run: Run) -> dict[str, Any]:
    """Development metrics of the last evaluation, which no selection of a checkpoint makes too good."""
    metrics: dict[str, Any] = [row["dev"] for row in run.rows() if "dev" in row][-1]
    return metrics


def name_of_seed(name: str, seed: int) -> str:
    """The run of a figure by the number of its seed."""
    return name if seed == 1 else f"{name}_seed{seed}"


def render(results: list[dict[str, Any]]) -> str:
    """docs/results.md as text."""
    text = [
        "# Results on real data",
        "",
        "Each row is one training run of a configuration in `benchmarks/configs`, started by the command in the last",
        "column; `SEQLOOM_DATA` is the folder of the data sets. Choices were made on dev, and test was evaluated once,",
        "at the end; the notes below name the exceptions. A dev value is that of the best checkpoint, which was",
        "selected by it, or, as a mean over held-out parts, that of the last one. ± is the standard deviation over",
        "runs that differ only in `train.seed`; the value is their mean. `scripts/results` generates this page from",
        "`docs/results.json`.",
        "",
        "| data | split | metric | value | 95 % interval | goal | | for comparison | minutes | parameters | command |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for row in results:
        low, high = row["interval"] or (None, None)
        interval = "" if low is None else f"{low:.4g}–{high:.4g}"
        goal = "" if row["goal"] is None else f"{'≤' if row['lower'] else '≥'} {row['goal']:g}"
        seeds = row.get("seeds", [])
        spread = f" ± {stdev(seeds):.2g} ({len(seeds)} seeds)" if seeds else ""
        cells = [row["data"], row["split"], row["metric"], f"{row['value']:.4g}{spread}", interval, goal, verdict(row)]
        cells += [row["compare"], f"{row['minutes']:.1f}", f"{row['parameters']:,}", f"`{row['command']}`"]
        text.append(f"| {' | '.join(cells)} |")
    if drawn := missed_goals.curves_to_draw(results):
        text += [
            "",
            "Results that miss their goals: the metric on dev, without a lexicon or a language model, over the minutes",
            "of training. The dashed line is the goal, which may be one for test data.",
            "",
        ]
        names = ", ".join(row["name"] for row in drawn)
        text += [f"![Learning curves with goals: {names}]({CURVES.name})"]
    remarks = RESULTS.parent / "results_remarks.md"
    return "\n".join(text) + "\n" + ("\n" + remarks.read_text() if remarks.exists() else "")


def verdict(row: dict[str, Any]) -> str:
    if row["goal"] is None:
        return ""
    return "missed" if missed_goals.misses(row) else "reached"


def main() -> None:
    """Train and evaluate the named figures, keep the other results, and regenerate the page."""
    figures: dict[str, dict[str, Any]] = tomllib.loads((CONFIGS / "figures.toml").read_text())
    parser = argparse.ArgumentParser(prog="scripts/results", description=__doc__)
    parser.add_argument(
        "name",
        nargs="*",
        choices=[*figures, []],
        metavar="NAME",
        help="figures of benchmarks/configs/figures.toml to train and evaluate; none: only regenerate the page",
    )
    parser.add_argument(
        "--keep", action="store_true", help="evaluate the existing run in runs/results instead of training again"
    )
    options = parser.parse_args()
    for name in options.name:
        row = measure(name, figures[name], retrain=not options.keep)
        previous = json.loads(RESULTS.read_text()) if RESULTS.exists() else []
        rows = {**{old["name"]: old for old in previous}, name: row}
        ordered = [rows[key] for key in figures if key in rows]
        RESULTS.write_text(json.dumps(ordered, indent=1) + "\n")
        print(f"{name}: {row['metric']} {row['value']:.5g} in {row['minutes']:.1f} minutes {verdict(row)}")
    if RESULTS.exists():
        results = json.loads(RESULTS.read_text())
        PAGE.write_text(render(results))
        if missed_goals.curves_to_draw(results):
            missed_goals.draw(results, CURVES)


if __name__ == "__main__":
    main()
