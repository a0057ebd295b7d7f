"""docs/benchmarks.md, generated from the JSON files in docs/benchmarks."""

import json
from collections import defaultdict
from dataclasses import asdict
from pathlib import Path

from benchmarks.measure import Result
from benchmarks.report import count_threads, verdict
from seqloom.info import machine_info

DOCS = Path(__file__).parent.parent / "docs"
FOLDER, PAGE = DOCS / "benchmarks", DOCS / "benchmarks.md"

TITLES = {
    "attention": "Attention on long inputs",
    "bfloat16": "Training in bfloat16",
    "compiled": "Models compiled for C",
    "ctc": "Connectionist temporal classification",
    "embed": "Word vectors",
    "int8": "Models in int8",
    "recurrent": "Recurrent layers",
    "training": "Training loops",
    "translate": "Translation",
}

INTRODUCTION = """\
# Benchmarks

`scripts/benchmarks NAME` runs one of these benchmarks (`--quick` for a short run, `--json` for its results as JSON).
`scripts/benchmarks all` measures everything and regenerates this page from the files in `docs/benchmarks/`.

All implementations are timed in turn, in one process and with the same number of threads. Values are medians. A ratio
above 1 means that Seqloom is better. Absolute values depend on the machine and its load, so compare the ratios only.

The limit is the time that the matrix products alone would take at the highest rate measured for a single product before
the run; since the clock rate of the processor varies, it can be off by a few per cent."""


def render(folder: Path) -> str:
    """The page for a folder with ``environment.json`` and, per benchmark, a JSON file and remarks in Markdown."""
    environment = json.loads((folder / "environment.json").read_text())
    versions = ", ".join(f"{name} {version}" for name, version in environment["versions"].items())
    machine = f"{environment['processor']}, {environment['cores']} cores, {environment['vector_bits']}-bit vectors"
    lines = [INTRODUCTION, "", f"{versions}; {machine}."]
    for name, title in TITLES.items():
        path = folder / f"{name}.json"
        if path.exists():
            results = [Result(**row) for row in json.loads(path.read_text())]
            lines += ["", f"## {title}", "", "```sh", f"scripts/benchmarks {name}", "```", "", *_tables(results)]
            remarks = path.with_suffix(".md")
            lines += ["", remarks.read_text().rstrip()] if remarks.exists() else []
    return "\n".join(lines) + "\n"


def _tables(results: list[Result]) -> list[str]:
    lines = _goals([result for result in results if result.goal is not None])
    if any(result.goal is None and result.unit == "tokens/s" for result in results):
        lines += _rates([result for result in results if result.unit == "tokens/s"], "tokens")
    utterances = [result for result in results if result.unit == "utterances/s"]
    lines += _rates(utterances, "utterances") if utterances else []
    groups: dict[tuple[int, str], list[Result]] = defaultdict(list)
    for result in results:
        if result.unit == "ms":
            groups[(result.threads, result.peer_name)].append(result)
    for (threads, peer), members in groups.items():
        lines += ["", f"### Compared with {peer} ({count_threads(threads)})", ""]
        lines += [
            "| case | Seqloom (ms) | best | peer (ms) | best | ratio | limit (ms) |",
            "|---|---|---|---|---|---|---|",
        ]
        for result in members:
            limit = "" if result.limit is None else f"{result.limit:.1f}"
            lines.append(
                f"| {result.case} | {result.ours:.2f} | {result.ours_best:.2f} "
                f"| {result.peer:.2f} | {result.peer_best:.2f} | {result.ratio:.2f} | {limit} |"
            )
    return lines


def _goals(results: list[Result]) -> list[str]:
    """All goals but those of single shapes against torch.nn, of which only the worst is listed."""
    shapes = [result for result in results if result.unit == "ms" and result.peer_name.startswith("nn.")]
    lines = ["| benchmark | threads | compared with | ratio | goal | |", "|---|---|---|---|---|---|"]
    for result in results:
        if result not in shapes:
            limit = f" (limit {result.limit:.2f})" if result.unit == "times as fast" and result.limit else ""
            lines.append(
                f"| {result.case} | {result.threads} | {result.peer_name} "
                f"| {result.ratio:.2f}{limit} | {result.goal:.2f} | {verdict(result)} |"
            )
    if shapes:
        worst = min(shapes, key=lambda result: result.ratio)
        lines.append(
            f"| slowest shape in training: {worst.case} | {worst.threads} | {worst.peer_name} "
            f"| {worst.ratio:.2f} | {worst.goal:.2f} | {verdict(worst)} |"
        )
    return lines


def _rates(results: list[Result], items: str) -> list[str]:
    lines = ["", f"### All peers, {items} per second", ""]
    lines += ["| case | threads | compared with | Seqloom | peer | ratio | limit |", "|---|---|---|---|---|---|---|"]
    for result in results:
        limit = "" if result.limit is None else f"{result.limit:,.0f}"
        lines.append(
            f"| {result.case} | {result.threads} | {result.peer_name} | {result.ours:,.0f} "
            f"| {result.peer:,.0f} | {result.ratio:.2f} | {limit} |"
        )
    return lines


def write_environment(folder: Path) -> None:
    """Record the versions and the machine that the results of a folder are measured with."""
    environment = asdict(machine_info())
    kept = {name: environment[name] for name in ("versions", "processor", "cores", "vector_bits")}
    (folder / "environment.json").write_text(json.dumps(kept, indent=1) + "\n")


def main() -> None:
    """Regenerate the page from the JSON files."""
    PAGE.write_text(render(FOLDER))


if __name__ == "__main__":
    main()
