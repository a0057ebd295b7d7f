"""What the trials of several variants say together: a row for each, compared with the first one."""

import math
from collections.abc import Mapping, Sequence
from statistics import fmean, stdev
from typing import Any

from seqloom.metrics.confidence import paired_difference

Trial = Mapping[str, Any]

NOTE = (
    "±: standard deviation over seeds. Difference: from the first variant, with the 95 % interval of a paired "
    "bootstrap over the development examples (1,000 draws, the same for all; the mean over the seeds in each); "
    "better or worse where the interval excludes 0."
)


def summarize(trials: Mapping[str, Sequence[Trial]]) -> list[dict[str, Any]]:
    """A row for each variant, of those of its trials that came to an end."""
    rows = []
    ended = {name: [trial for trial in several if "failed" not in trial] for name, several in trials.items()}
    first = next(iter(ended.values()))
    for name, several in trials.items():
        done = ended[name]
        failed = [f"seed {trial['seed']}: {trial['failed']}" for trial in several if "failed" in trial]
        row: dict[str, Any] = {"variant": name, "seeds": [trial["seed"] for trial in done], "failed": failed}
        rows.append(row if not done else row | _figures(done) | _beside(first, done, is_first=done is first))
    return rows


def _figures(trials: Sequence[Trial]) -> dict[str, Any]:
    names = [name for name, value in trials[0]["metrics"].items() if isinstance(value, float | int)]
    metrics = {name: spread([trial["metrics"].get(name) for trial in trials]) for name in names}
    metric = trials[0]["metric"]
    mean, deviation = metrics.get(metric, (None, None))
    return {
        "metric": metric,
        "higher_is_better": trials[0]["higher_is_better"],
        "mean": mean,
        "deviation": deviation,
        "parameters": trials[0]["parameters"],
        "trained_per_second": spread([trial["trained_per_second"] for trial in trials])[0],
        "predicted_per_second": spread([trial["predicted_per_second"] for trial in trials])[0],
        "memory": max(trial["memory"] for trial in trials),
        "minutes": fmean(trial["minutes"] for trial in trials),
        "metrics": {name: {"mean": mean, "deviation": deviation} for name, (mean, deviation) in metrics.items()},
    }


def spread(values: Sequence[float | None]) -> tuple[float | None, float | None]:
    """Mean and standard deviation of what there is; None where there is too little, or no finite number."""
    known = [value for value in values if value is not None]
    if not all(map(math.isfinite, known)):
        return sum(known) / len(known), None
    return (fmean(known) if known else None), (stdev(known) if len(known) > 1 else None)


def _beside(first: Sequence[Trial], other: Sequence[Trial], *, is_first: bool) -> dict[str, Any]:
    """How much more a variant reached than the first one."""
    if is_first:
        return {"difference": None, "interval": None, "better": None, "remark": ""}
    found: dict[str, Any] = {"difference": None, "interval": None, "better": None}
    pair, remark = _paired(first, other)
    if remark:
        return found | {"remark": remark}
    metric = first[0]["metric"]
    means = [fmean(trial["metrics"][metric] for trial in side) for side in pair]
    low, high = paired_difference(*([trial["samples"] for trial in side] for side in pair))
    apart = low > 0 or high < 0
    return found | {
        "difference": means[1] - means[0],
        "interval": [low, high],
        "better": ((low > 0) is first[0]["higher_is_better"]) if apart else None,
        "remark": "",
    }


def _paired(first: Sequence[Trial], other: Sequence[Trial]) -> tuple[list[Sequence[Trial]], str]:
    """The trials of both that were asked the same, or why there are none."""
    if not first:
        return [], "no difference: the first variant failed"
    if first[0]["metric"] != other[0]["metric"]:
        return [], f"no difference: its metric is {other[0]['metric']}, the first one's {first[0]['metric']}"
    if len({trial["asked"] for trial in (*first, *other)}) > 1:  # a share that is held out changes with the seed
        seeds = {trial["seed"]: trial["asked"] for trial in first}
        common = {trial["seed"] for trial in other if seeds.get(trial["seed"]) == trial["asked"]}
        first, other = ([trial for trial in side if trial["seed"] in common] for side in (first, other))
        if not common:
            return [], "no difference: its development examples are others"
    if not all(trial["examples"] for trial in (*first, *other)):
        return [], "no difference: there are no development examples"
    if not all(trial["samples"] for trial in (*first, *other)):
        return [], f"no difference: {first[0]['metric']} is not made of scores of single examples"
    asked = {(trial["asked"], trial["rows"]) for trial in (*first, *other)}
    if len(asked) > len({name for name, _ in asked}):  # samples of other sizes are no pairs
        return [], "no difference: it divides the development examples in another way"
    if any(rows == 1 for _, rows in asked):
        return [], "no difference: one development example tells nothing about others"
    if not all(map(_finite, (*first, *other))):
        return [], f"no difference: {first[0]['metric']} is not always a finite number"
    return [first, other], ""


def _finite(trial: Trial) -> bool:
    return all(map(math.isfinite, (trial["metrics"][trial["metric"]], *trial["samples"])))


def cells(rows: Sequence[Mapping[str, Any]]) -> tuple[list[str], list[list[str]]]:
    """The table for people: its columns, and a line for each row."""
    metric = next((row["metric"] for row in rows if "metric" in row), "score")
    columns = ["variant", metric, "difference", "parameters", "trained/s", "predicted/s", "memory MB", "minutes"]
    return columns, [_line(row) for row in rows]


def _line(row: Mapping[str, Any]) -> list[str]:
    if "metric" not in row:
        return [row["variant"], "failed", *[""] * 6]
    deviation = "" if row["deviation"] is None else f" ± {row['deviation']:.2g}"
    between = ""
    if row["interval"] is not None:
        low, high = row["interval"]
        verdict = {True: " better", False: " worse", None: ""}[row["better"]]
        between = f"{row['difference']:+.4g} [{low:+.4g}, {high:+.4g}]{verdict}"
    counts = [row["parameters"], row["trained_per_second"], row["predicted_per_second"], row["memory"]]
    return [
        row["variant"],
        "" if row["mean"] is None else f"{row['mean']:.5g}{deviation}",
        between,
        *("" if count is None else f"{count:,.0f}" for count in counts),
        f"{row['minutes']:.2f}",
    ]


def remarks(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """What the table cannot say: failures, and why there is no difference."""
    found = []
    for row in rows:
        found += [f"{row['variant']}, {failure}" for failure in row["failed"]]
        found += [f"{row['variant']}: {row['remark']}"] if row.get("remark") else []
    return found


def markdown(title: str, rows: Sequence[Mapping[str, Any]], facts: Sequence[str]) -> str:
    """The table as a page to keep."""
    columns, lines = cells(rows)
    table = ["|".join(["", *(cell.replace("|", "\\|") for cell in line), ""]) for line in (columns, *lines)]
    table.insert(1, "|".join(["", *["---"] * len(columns), ""]))
    items = [*facts, NOTE, *remarks(rows)]
    return "\n".join([f"# {title}", "", *table, "", *(f"- {item}" for item in items), ""])
