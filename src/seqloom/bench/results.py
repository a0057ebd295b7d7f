"""Quality on real data: trains the configurations of benchmarks/, and draws docs/results.md from what they reached."""

import argparse
import json
import shutil
import time
import tomllib
from pathlib import Path
from typing import Any

from seqloom import terminal
from seqloom.bench import prepare
from seqloom.compare.outcome import describe, outcome
from seqloom.info import collect
from seqloom.model import load
from seqloom.run import Run
from seqloom.run_config import Config, read_document
from seqloom.workflow import train

FOLDER = Path("benchmarks")
RESULTS = Path("docs/results.json")
PAGE = Path("docs/results.md")


def trained(name: str, path: Path, overrides: list[str], *, again: bool) -> tuple[Run, float]:
    """The run of a configuration and the minutes that it took; one that is there is trained anew if ``again``."""
    output = Path("runs/results", name)
    if output.exists() and not again:
        run = Run.open(output)
        return run, run.load("last").facts["seconds"] / 60
    if output.exists():
        shutil.rmtree(output)
    config = Config.build(read_document(str(path), overrides))
    started = time.monotonic()
    with terminal.Watch() as watch:
        run = train(config, output=output, listeners=[watch])
    return run, (time.monotonic() - started) / 60


def measure(name: str, figure: dict[str, Any], *, again: bool) -> dict[str, Any]:
    """Train one configuration and score it where the figure says."""
    kind = figure.get("config", figure.get("run", name))
    if kind in prepare.PREPARE:
        prepare.FOLDER.mkdir(parents=True, exist_ok=True)
        prepare.PREPARE[kind]()
    path = FOLDER / f"{kind}.toml"
    source = figure.get("run", name)  # of which this is one more figure
    run, minutes = trained(source, path, figure.get("overrides", []), again=again and source == name)
    asked = {option: figure[option] for option in ("search", "lexicon", "language") if option in figure}
    found = load(run.path, **asked).evaluate(figure["file"]) if "file" in figure else outcome(run)
    return {
        "name": name,
        "data": figure["data"],
        "split": figure["split"],
        "metric": figure["metric"],
        "value": found[figure["metric"]],
        "interval": found.get(f"{figure['metric']}_interval"),
        "goal": figure.get("goal"),
        "lower": figure.get("lower", False),
        "compare": figure.get("compare", ""),
        "command": f"scripts/results {name}",
        "config": str(path),
        "minutes": minutes,
        "parameters": describe(run.path)["parameters"],
        "versions": collect().versions,
        "all": {key: value for key, value in found.items() if isinstance(value, float | int)},
    }


def draw(results: list[dict[str, Any]]) -> str:
    """The page."""
    text = [
        "# Results on real data",
        "",
        "Drawn by `scripts/results` from `docs/results.json`. Each line is one training, with the configuration in",
        "`benchmarks/` and the command beside it; `SEQLOOM_DATA` names the folder of the data sets.",
        "Everything was chosen on the dev data. A dev figure is the best of a training's evaluations, by which its",
        "model was chosen; a test figure was measured once, at the end.",
        "",
        "| data | split | metric | value | 95 % | goal | | for comparison | minutes | parameters | command |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for row in results:
        low, high = row["interval"] or (None, None)
        interval = "" if low is None else f"{low:.4g}–{high:.4g}"
        goal = "" if row["goal"] is None else f"{'≤' if row['lower'] else '≥'} {row['goal']:g}"
        cells = [row["data"], row["split"], row["metric"], f"{row['value']:.4g}", interval, goal, verdict(row)]
        cells += [row["compare"], f"{row['minutes']:.1f}", f"{row['parameters']:,}", f"`{row['command']}`"]
        text.append(f"| {' | '.join(cells)} |")
    remarks = RESULTS.parent / "results_remarks.md"
    return "\n".join(text) + "\n" + ("\n" + remarks.read_text() if remarks.exists() else "")


def verdict(row: dict[str, Any]) -> str:
    if row["goal"] is None:
        return ""
    reached = row["value"] <= row["goal"] if row["lower"] else row["value"] >= row["goal"]
    return "reached" if reached else "missed"


def main() -> None:
    """Measure what is named, keep the rest, draw the page."""
    figures: dict[str, dict[str, Any]] = tomllib.loads((FOLDER / "figures.toml").read_text())
    parser = argparse.ArgumentParser(prog="scripts/results", description=__doc__)
    parser.add_argument("name", nargs="*", choices=[*figures, []], help="what to train; nothing: draw the page only")
    parser.add_argument("--keep", action="store_true", help="score the run in runs/results if there is one")
    given = parser.parse_args()
    for name in given.name:
        row = measure(name, figures[name], again=not given.keep)
        kept = json.loads(RESULTS.read_text()) if RESULTS.exists() else []
        rows = {**{old["name"]: old for old in kept}, name: row}
        ordered = [rows[key] for key in figures if key in rows]
        RESULTS.write_text(json.dumps(ordered, indent=1) + "\n")
        print(f"{name}: {row['metric']} {row['value']:.5g} in {row['minutes']:.1f} minutes {verdict(row)}")
    if RESULTS.exists():
        PAGE.write_text(draw(json.loads(RESULTS.read_text())))


if __name__ == "__main__":
    main()
