"""docs/benchmarks.md, drawn from what ``seqloom bench … --json`` has printed."""

import json
import sys
from collections import defaultdict
from dataclasses import asdict
from pathlib import Path
from typing import Any

from seqloom.info import collect

Rows = list[dict[str, Any]]

TITLES = {
    "ctc": "Connectionist temporal classification",
    "recurrent": "Recurrent layers",
    "training": "Whole trainings",
    "translate": "Translation",
    "embed": "Word vectors",
}


def draw(folder: Path) -> str:
    """The page for a folder that holds ``environment.json`` and one file for each benchmark."""
    environment = json.loads((folder / "environment.json").read_text())
    versions = ", ".join(f"{name} {version}" for name, version in environment["versions"].items())
    machine = f"{environment['processor']}, {environment['cores']} cores, vectors of {environment['vector_bits']} bits"
    text = [
        "# Benchmarks",
        "",
        "Drawn by `scripts/benchmarks` from the files in `docs/benchmarks/`. Contestants take turns in one process",
        "with the same number of threads; figures are medians, a ratio above 1 means that ours is better. Absolute",
        "figures move from machine to machine and from hour to hour: only the ratios mean something. Times are in",
        "milliseconds. The limit is the time of the matrix products alone at the highest rate that one product reached",
        "before the run: the processor's clock moves, so that it can be off by a few per cent.",
        "",
        f"{versions}; {machine}.",
    ]
    for path in sorted(folder.glob("*.json")):
        if path.stem in TITLES:
            text += ["", f"## {TITLES[path.stem]}", "", f"    seqloom bench {path.stem}", ""]
            text += _benchmark(json.loads(path.read_text()))
            remarks = path.with_suffix(".md")
            text += ["", remarks.read_text().rstrip()] if remarks.exists() else []
    return "\n".join(text) + "\n"


def _benchmark(results: Rows) -> list[str]:
    named = [result for result in results if result["goal"] is not None]
    shapes = [result for result in named if result["unit"] == "ms" and result["peer_name"].startswith("nn.")]
    goals = [result for result in named if result not in shapes]
    worst = min(shapes, key=lambda result: result["ratio"]) if shapes else None
    text = ["| goal | threads | against | ratio | wanted | |", "|---|---|---|---|---|---|"]
    for result in goals:
        reached = "reached" if result["ratio"] >= result["goal"] else "missed"
        text.append(
            f"| {result['case']} | {result['threads']} | {result['peer_name']} "
            f"| {result['ratio']:.2f}{_best(result)} | {result['goal']:.2f} | {reached} |"
        )
    if worst is not None:
        reached = "reached" if worst["ratio"] >= worst["goal"] else "missed"
        text.append(
            f"| slowest shape in training: {worst['case']} | {worst['threads']} | {worst['peer_name']} "
            f"| {worst['ratio']:.2f} | {worst['goal']:.2f} | {reached} |"
        )
    if any(result["goal"] is None and result["unit"] == "tokens/s" for result in results):
        text += _rates([result for result in results if result["unit"] == "tokens/s"], "tokens")
    utterances = [result for result in results if result["unit"] == "utterances/s"]
    text += _rates(utterances, "utterances") if utterances else []
    groups: dict[tuple[int, str], Rows] = defaultdict(list)
    for result in results:
        if result["unit"] == "ms":
            groups[(result["threads"], result["peer_name"])].append(result)
    for (threads, peer), members in groups.items():
        text += ["", f"### Against {peer}, {threads} thread{'s' * (threads > 1)}", ""]
        text += [
            "| case (time, batch, input, hidden) | ours | best | theirs | best | ratio | limit |",
            "|---|---|---|---|---|---|---|",
        ]
        for result in members:
            limit = "" if result["limit"] is None else f"{result['limit']:.1f}"
            text.append(
                f"| {result['case']} | {result['ours']:.2f} | {result['ours_best']:.2f} "
                f"| {result['peer']:.2f} | {result['peer_best']:.2f} | {result['ratio']:.2f} | {limit} |"
            )
    return text


def _rates(results: Rows, things: str) -> list[str]:
    text = ["", f"### All peers, {things} in a second", ""]
    text += ["| case | threads | against | ours | theirs | ratio | limit |", "|---|---|---|---|---|---|---|"]
    for result in results:
        limit = "" if result["limit"] is None else f"{result['limit']:,.0f}"
        text.append(
            f"| {result['case']} | {result['threads']} | {result['peer_name']} | {result['ours']:,.0f} "
            f"| {result['peer']:,.0f} | {result['ratio']:.2f} | {limit} |"
        )
    return text


def _best(result: dict[str, Any]) -> str:
    return f" (limit {result['limit']:.2f})" if result["unit"] == "times as fast" and result["limit"] else ""


def remember(folder: Path) -> None:
    """Note on what machine, and with which versions, the figures of a folder are measured."""
    found = asdict(collect())
    wanted = {name: found[name] for name in ("versions", "processor", "cores", "vector_bits")}
    (folder / "environment.json").write_text(json.dumps(wanted, indent=1) + "\n")


if __name__ == "__main__":
    docs = Path(__file__).parents[3] / "docs"
    if sys.argv[1:] == ["remember"]:
        remember(docs / "benchmarks")
    else:
        (docs / "benchmarks.md").write_text(draw(docs / "benchmarks"))
