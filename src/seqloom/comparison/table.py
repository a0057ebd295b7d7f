"""The table of a comparison: a row for each variant, with its paired difference from the first one."""

import math
from collections.abc import Mapping, Sequence
from itertools import groupby
from statistics import fmean, stdev
from typing import Any

from seqloom.metrics.confidence import SIGNIFICANT, cross_validated_test, paired_difference

Trial = Mapping[str, Any]
"""The results of ``run_trial``, or a seed and an error."""

DIFFERENCE_NOTE = (
    "difference: from the first variant, with the 95 % confidence interval of a paired bootstrap over the development "
    "examples (1,000 resamples, the same for all variants, averaged over seeds); better or worse if the interval "
    "excludes 0."
)
FOLDS_DIFFERENCE_NOTE = (
    "difference: from the first variant, with the 95 % confidence interval and the p value of the corrected paired "
    "t-test over folds (Nadeau & Bengio 2003); better or worse if p < 0.05."
)


def note(rows: Sequence[Mapping[str, Any]]) -> str:
    """What the columns of a table mean."""
    folds = any(row["folds"] for row in rows)
    spread = f"±: standard deviation over {'folds' if folds else 'seeds'}."
    return f"{spread} {FOLDS_DIFFERENCE_NOTE if folds else DIFFERENCE_NOTE}" if len(rows) > 1 else spread


def summarize(trials: Mapping[str, Sequence[Trial]]) -> list[dict[str, Any]]:
    """A row for each variant, computed from those of its trials that did not fail."""
    rows = []
    finished = {name: [trial for trial in all_trials if "error" not in trial] for name, all_trials in trials.items()}
    first = next(iter(finished.values()))
    for name, all_trials in trials.items():
        done = finished[name]
        errors = [f"{trial_name(trial)}: {trial['error']}" for trial in all_trials if "error" in trial]
        row: dict[str, Any] = {
            "variant": name,
            "seeds": list(dict.fromkeys(trial["seed"] for trial in done)),
            "folds": list(dict.fromkeys(trial["fold"] for trial in done if trial.get("fold"))),
            "errors": errors,
        }
        rows.append(row if not done else row | _averages(done) | _difference(first, done, is_first=done is first))
    return rows


def trial_name(trial: Trial) -> str:
    """The fold and the seed of a trial."""
    return f"fold {trial['fold']}, seed {trial['seed']}" if trial.get("fold") else f"seed {trial['seed']}"


def _by_fold(trials: Sequence[Trial]) -> dict[str, list[Trial]]:
    """The trials of each fold; without cross-validation, each trial by itself."""
    if not all(trial.get("fold") for trial in trials):
        return {str(index): [trial] for index, trial in enumerate(trials)}
    return {fold: list(group) for fold, group in groupby(trials, key=lambda trial: str(trial["fold"]))}


def _averages(trials: Sequence[Trial]) -> dict[str, Any]:
    names = [name for name, value in trials[0]["metrics"].items() if isinstance(value, float | int)]
    folds = _by_fold(trials).values()
    metrics = {
        name: mean_and_std([mean_and_std([trial["metrics"].get(name) for trial in fold])[0] for fold in folds])
        for name in names
    }
    metric = trials[0]["metric"]
    mean, std = metrics.get(metric, (None, None))
    return {
        "metric": metric,
        "higher_is_better": trials[0]["higher_is_better"],
        "mean": mean,
        "std": std,
        "parameters": trials[0]["parameters"],
        "train_items_per_second": mean_and_std([trial["train_items_per_second"] for trial in trials])[0],
        "predict_items_per_second": mean_and_std([trial["predict_items_per_second"] for trial in trials])[0],
        "memory_mb": max((trial["memory_mb"] for trial in trials if trial["memory_mb"] is not None), default=None),
        "minutes": fmean(trial["minutes"] for trial in trials),
        "epochs": mean_and_std([trial.get("epochs") for trial in trials])[0],
        "updates": mean_and_std([trial.get("updates") for trial in trials])[0],
        "metrics": {name: {"mean": mean, "std": std} for name, (mean, std) in metrics.items()},
    }


def mean_and_std(values: Sequence[float | None]) -> tuple[float | None, float | None]:
    """Mean and standard deviation of the known values; None where there are too few, or one is not finite."""
    known = [value for value in values if value is not None]
    if not all(map(math.isfinite, known)):
        return sum(known) / len(known), None
    return (fmean(known) if known else None), (stdev(known) if len(known) > 1 else None)


def _difference(first: Sequence[Trial], other: Sequence[Trial], *, is_first: bool) -> dict[str, Any]:
    """How a variant differs from the first one, or a note why that cannot be computed."""
    unknown: dict[str, Any] = {"difference": None, "interval": None, "p_value": None, "better": None}
    if is_first:
        return unknown | {"note": ""}
    if any(trial.get("fold") for trial in (*first, *other)):
        return unknown | _difference_over_folds(first, other)
    pair, note = _pair(first, other)
    if note:
        return unknown | {"note": note}
    metric = first[0]["metric"]
    means = [fmean(trial["metrics"][metric] for trial in side) for side in pair]
    low, high = paired_difference(*([trial["bootstrap_samples"] for trial in side] for side in pair))
    significant = low > 0 or high < 0
    return unknown | {
        "difference": means[1] - means[0],
        "interval": [low, high],
        "better": ((low > 0) is first[0]["higher_is_better"]) if significant else None,
        "note": "",
    }


def _pair(first: Sequence[Trial], other: Sequence[Trial]) -> tuple[list[Sequence[Trial]], str]:
    """The trials of two variants that predicted the same development examples, or a note why there are none."""
    if not first:
        return [], "no difference: the first variant failed"
    if first[0]["metric"] != other[0]["metric"]:
        return [], f"no difference: its metric is {other[0]['metric']}, that of the first variant {first[0]['metric']}"
    if len({trial["dev_digest"] for trial in (*first, *other)}) > 1:  # a held-out share changes with the seed
        digests = {trial["seed"]: trial["dev_digest"] for trial in first}
        common = {trial["seed"] for trial in other if digests.get(trial["seed"]) == trial["dev_digest"]}
        first, other = ([trial for trial in side if trial["seed"] in common] for side in (first, other))
        if not common:
            return [], "no difference: it has other development examples"
    if not all(trial["dev_examples"] for trial in (*first, *other)):
        return [], "no difference: there are no development examples"
    if not all(trial["bootstrap_samples"] for trial in (*first, *other)):
        return [], f"no difference: {first[0]['metric']} is not computed from scores of single examples"
    sizes = {(trial["dev_digest"], trial["bootstrap_rows"]) for trial in (*first, *other)}
    if len(sizes) > len({digest for digest, _ in sizes}):  # samples of different sizes cannot be paired
        return [], "no difference: it splits the development examples differently"
    if any(rows == 1 for _, rows in sizes):
        return [], "no difference: a confidence interval needs more than one development example"
    if not all(map(_is_finite, (*first, *other))):
        return [], f"no difference: {first[0]['metric']} is not always finite"
    return [first, other], ""


def _difference_over_folds(first: Sequence[Trial], other: Sequence[Trial]) -> dict[str, Any]:
    """How a variant differs from the first one on the folds that both have finished."""
    if not first:
        return {"note": "no difference: the first variant failed"}
    metric, higher = first[0]["metric"], first[0]["higher_is_better"]
    if other[0]["metric"] != metric:
        return {"note": f"no difference: its metric is {other[0]['metric']}, that of the first variant {metric}"}
    means = [
        {fold: fmean(trial["metrics"][metric] for trial in trials) for fold, trials in _by_fold(side).items()}
        for side in (first, other)
    ]
    differences = [means[1][fold] - mean for fold, mean in means[0].items() if fold in means[1]]
    if len(differences) < 2:
        return {"note": "no difference: fewer than two folds are finished"}
    if not all(map(math.isfinite, differences)):
        return {"note": f"no difference: {metric} is not always finite"}
    test = cross_validated_test(differences)
    return {
        "difference": test.mean,
        "interval": list(test.interval),
        "p_value": test.p_value,
        "better": (test.mean > 0) is higher if test.p_value < SIGNIFICANT else None,
        "note": "",
    }


def _is_finite(trial: Trial) -> bool:
    return all(map(math.isfinite, (trial["metrics"][trial["metric"]], *trial["bootstrap_samples"])))


def format_table(rows: Sequence[Mapping[str, Any]]) -> tuple[list[str], list[list[str]]]:
    """Column headings, and the cells of each row."""
    metric = next((row["metric"] for row in rows if "metric" in row), "score")
    speeds = ["train items/s", "predict items/s"]
    columns = ["variant", metric, "difference", "parameters", *speeds, "memory (MB)", "minutes"]
    cells = list(map(_cells, rows))
    if len(rows) > 1:
        return columns, cells
    difference = columns.index("difference")  # there is nothing to differ from
    columns, *cells = [line[:difference] + line[difference + 1 :] for line in (columns, *cells)]
    return columns, cells


def _cells(row: Mapping[str, Any]) -> list[str]:
    if "metric" not in row:
        return [row["variant"], "failed", *[""] * 6]
    std = "" if row["std"] is None else f" ± {row['std']:.2g}"
    difference = ""
    if row["interval"] is not None:
        low, high = row["interval"]
        verdict = {True: " better", False: " worse", None: ""}[row["better"]]
        p_value = "" if row["p_value"] is None else f" p={row['p_value']:.2g}"
        difference = f"{row['difference']:+.4g} [{low:+.4g}, {high:+.4g}]{p_value}{verdict}"
    counts = [row["parameters"], row["train_items_per_second"], row["predict_items_per_second"], row["memory_mb"]]
    return [
        row["variant"],
        "" if row["mean"] is None else f"{row['mean']:.5g}{std}",
        difference,
        *("" if count is None else f"{count:,.0f}" for count in counts),
        f"{row['minutes']:.2f}",
    ]


def footnotes(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Errors, why there is no difference, and trainings that were too short, to be printed below the table."""
    lines = []
    for row in rows:
        lines += [f"{row['variant']}, {error}" for error in row["errors"]]
        texts = (row.get("adapted"), row.get("note"), _too_short(row))
        lines += [f"{row['variant']}: {text}" for text in texts if text]
    return lines


def _too_short(row: Mapping[str, Any]) -> str:
    """A note on a training of less than an epoch; empty: it was longer, or has no epochs."""
    epochs = row.get("epochs")
    if epochs is None or epochs >= 1:
        return ""
    return f"trained for less than one epoch ({row['updates']:,.0f} updates), so that its score says little"


def markdown(title: str, rows: Sequence[Mapping[str, Any]], notes: Sequence[str]) -> str:
    """The table and its notes as a Markdown page."""
    columns, lines = format_table(rows)
    table = ["|".join(["", *(cell.replace("|", "\\|") for cell in line), ""]) for line in (columns, *lines)]
    table.insert(1, "|".join(["", *["---"] * len(columns), ""]))
    items = [*notes, note(rows), *footnotes(rows)]
    return "\n".join([f"# {title}", "", *table, "", *(f"- {item}" for item in items), ""])
