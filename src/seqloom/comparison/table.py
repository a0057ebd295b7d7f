"""The table of a comparison: a row for each variant, with its paired difference from the first one."""

import math
from collections.abc import Mapping, Sequence
from statistics import fmean, stdev
from typing import Any

from seqloom import html
from seqloom.metrics.confidence import paired_difference

Trial = Mapping[str, Any]
"""The results of ``run_trial``, or a seed and an error."""

NOTE = (
    "±: standard deviation over seeds. difference: from the first variant, with the 95 % confidence interval of a "
    "paired bootstrap over the development examples (1,000 resamples, the same for all variants, averaged over seeds); "
    "better or worse if the interval excludes 0."
)


class Comparison(list[dict[str, Any]]):
    """The rows of a comparison, one for each variant: a list that shows itself as a table."""

    def __repr__(self) -> str:
        columns, rows = format_table(self)
        widths = [max(len(row[index]) for row in (columns, *rows)) for index in range(len(columns))]
        lines = (
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
            for row in (columns, *rows)
        )
        return "\n".join([*lines, *footnotes(self)])

    def _repr_html_(self) -> str:
        columns, rows = format_table(self)
        cells = [[html.escape(cell) for cell in row] for row in rows]
        notes = map(html.remark, (*footnotes(self), NOTE))
        return html.block(html.table(columns, cells, right=range(1, len(columns))), *notes)


def summarize(trials: Mapping[str, Sequence[Trial]]) -> Comparison:
    """A row for each variant, computed from those of its trials that did not fail."""
    rows = Comparison()
    finished = {name: [trial for trial in all_trials if "error" not in trial] for name, all_trials in trials.items()}
    first = next(iter(finished.values()))
    for name, all_trials in trials.items():
        done = finished[name]
        errors = [f"seed {trial['seed']}: {trial['error']}" for trial in all_trials if "error" in trial]
        row: dict[str, Any] = {"variant": name, "seeds": [trial["seed"] for trial in done], "errors": errors}
        rows.append(row if not done else row | _averages(done) | _difference(first, done, is_first=done is first))
    return rows


def _averages(trials: Sequence[Trial]) -> dict[str, Any]:
    names = [name for name, value in trials[0]["metrics"].items() if isinstance(value, float | int)]
    metrics = {name: mean_and_std([trial["metrics"].get(name) for trial in trials]) for name in names}
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
        "memory_mb": max(trial["memory_mb"] for trial in trials),
        "minutes": fmean(trial["minutes"] for trial in trials),
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
    unknown: dict[str, Any] = {"difference": None, "interval": None, "better": None}
    if is_first:
        return unknown | {"note": ""}
    pair, note = _pair(first, other)
    if note:
        return unknown | {"note": note}
    metric = first[0]["metric"]
    means = [fmean(trial["metrics"][metric] for trial in side) for side in pair]
    low, high = paired_difference(*([trial["bootstrap_samples"] for trial in side] for side in pair))
    significant = low > 0 or high < 0
    return {
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


def _is_finite(trial: Trial) -> bool:
    return all(map(math.isfinite, (trial["metrics"][trial["metric"]], *trial["bootstrap_samples"])))


def format_table(rows: Sequence[Mapping[str, Any]]) -> tuple[list[str], list[list[str]]]:
    """Column headings, and the cells of each row."""
    metric = next((row["metric"] for row in rows if "metric" in row), "score")
    speeds = ["train items/s", "predict items/s"]
    return ["variant", metric, "difference", "parameters", *speeds, "memory (MB)", "minutes"], list(map(_cells, rows))


def _cells(row: Mapping[str, Any]) -> list[str]:
    if "metric" not in row:
        return [row["variant"], "failed", *[""] * 6]
    std = "" if row["std"] is None else f" ± {row['std']:.2g}"
    difference = ""
    if row["interval"] is not None:
        low, high = row["interval"]
        verdict = {True: " better", False: " worse", None: ""}[row["better"]]
        difference = f"{row['difference']:+.4g} [{low:+.4g}, {high:+.4g}]{verdict}"
    counts = [row["parameters"], row["train_items_per_second"], row["predict_items_per_second"], row["memory_mb"]]
    return [
        row["variant"],
        "" if row["mean"] is None else f"{row['mean']:.5g}{std}",
        difference,
        *("" if count is None else f"{count:,.0f}" for count in counts),
        f"{row['minutes']:.2f}",
    ]


def footnotes(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Errors, and why there is no difference, to be printed below the table."""
    lines = []
    for row in rows:
        lines += [f"{row['variant']}, {error}" for error in row["errors"]]
        lines += [f"{row['variant']}: {row['note']}"] if row.get("note") else []
    return lines


def markdown(title: str, rows: Sequence[Mapping[str, Any]], notes: Sequence[str]) -> str:
    """The table and its notes as a Markdown page."""
    columns, lines = format_table(rows)
    table = ["|".join(["", *(cell.replace("|", "\\|") for cell in line), ""]) for line in (columns, *lines)]
    table.insert(1, "|".join(["", *["---"] * len(columns), ""]))
    items = [*notes, NOTE, *footnotes(rows)]
    return "\n".join([f"# {title}", "", *table, "", *(f"- {item}" for item in items), ""])
