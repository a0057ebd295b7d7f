"""What the defaults reach on real data: one training per row of defaults.toml, and the table in docs/training.md."""

import json
import random
import re
import shlex
import shutil
import tarfile
import tomllib
import zipfile
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks import prepare
from seqloom import terminal
from seqloom.data.builtin import datasets
from seqloom.data.readers.text_files import resolve
from seqloom.formats import format_number
from seqloom.model import load
from seqloom.run import Run
from seqloom.run_config import Config, load_config
from seqloom.run_document import read_document
from seqloom.run_summary import summarize
from seqloom.workflow import train

ROOT = Path(__file__).parent.parent
ROWS: dict[str, dict[str, Any]] = tomllib.loads((ROOT / "benchmarks" / "defaults.toml").read_text())
RESULTS, PAGE = ROOT / "docs" / "defaults.json", ROOT / "docs" / "training.md"
HEAD = "| task | data | minutes | epochs | metric | dev | baseline | published |\n|---|---|---|---|---|---|---|---|\n"


def main(names: Sequence[str]) -> None:
    """Train the named rows, or all; keep the results of the others, and write the table into docs/training.md."""
    if unknown := [name for name in names if name not in ROWS]:
        raise SystemExit(f"unknown row {unknown[0]!r} (available: {', '.join(ROWS)})")
    for name in names or ROWS:
        print(f"{name}: {command(name)}", flush=True)
        keep(name, result(name, train_run(name)))
    update_page()


def command(name: str) -> str:
    """The command that a user would type."""
    row = ROWS[name]
    words = ["seqloom", "train", "--task", row["task"], "--data", row["data"], *row.get("overrides", ())]
    return " ".join(word if re.fullmatch(r"[\w$./=-]+", word) else shlex.quote(word) for word in words)


def train_run(name: str) -> Run:
    """A new run of a row, with one thread."""
    row = ROWS[name]
    if "prepare" in row:
        prepare.FOLDER.mkdir(parents=True, exist_ok=True)
        PREPARE[row["prepare"]]()
    output = Path("runs/defaults", name)
    if output.exists():
        shutil.rmtree(output)
    overrides = [*row.get("overrides", ()), "train.threads=1"]
    config = Config.build(read_document("", overrides, task=row["task"], data=row["data"]))
    with terminal.TrainingProgress() as progress:
        return train(config, output=output, listeners=[progress])


def result(name: str, run: Run) -> dict[str, Any]:
    """The figures of a run."""
    row, summary = ROWS[name], summarize(run, load_config(run))
    metrics = (
        load(run.path, own_files=True).evaluate(str(resolve(row["evaluate"]))) if "evaluate" in row else summary.metrics
    )
    epochs = [each["epoch"] for each in run.rows()]
    return {
        "minutes": round(summary.seconds / 60, 1),
        "epochs": epochs[-1] if epochs else 0.0,
        "metric": summary.metric,
        "value": metrics[summary.metric],
        "interval": metrics.get(f"{summary.metric}_interval"),
        "baseline": summary.baseline_scores.get(summary.metric),
        "metrics": {key: value for key, value in metrics.items() if isinstance(value, float | int)},
        "versions": summary.versions,
    }


def keep(name: str, figures: dict[str, Any]) -> None:
    """Write the figures of one row; those of the others stay."""
    results = {**_results(), name: figures}
    RESULTS.write_text(json.dumps({key: results[key] for key in ROWS if key in results}, indent=1) + "\n")


def _results() -> dict[str, Any]:
    results: dict[str, Any] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    return results


def render() -> str:
    """The table as Markdown."""
    return HEAD + "".join(f"| {' | '.join(_cells(name, figures))} |\n" for name, figures in _results().items())


def _cells(name: str, figures: dict[str, Any]) -> Iterator[str]:
    row, baseline = ROWS[name], figures["baseline"]
    yield from (row["task"], row["set"], f"{figures['minutes']:.1f}", format_number(figures["epochs"], 3))
    yield figures["metric"].replace("score", "Spearman, WordSim-353") if "evaluate" in row else figures["metric"]
    yield format_number(figures["value"], 3)
    yield "" if baseline is None else format_number(baseline, 3)
    yield row.get("published", "")


def update_page() -> None:
    """Replace the table in docs/training.md."""
    text = PAGE.read_text()
    start = text.index(HEAD.partition("\n")[0])
    end = text.index("\n\n", start) + 1
    PAGE.write_text(text[:start] + render() + text[end:])


def _yesno() -> None:
    """A list of all recordings with their words, which the file names show."""
    with tarfile.open(prepare.data_file("yesno/waves_yesno.tar.gz")) as archive:
        names = sorted(entry.name for entry in archive if entry.name.endswith(".wav"))
    words = {"0": "no", "1": "yes"}
    rows = (f"{name}\t{' '.join(words[digit] for digit in Path(name).stem.split('_'))}\n" for name in names)
    (prepare.FOLDER / "yesno.tsv").write_text("".join(rows))


def _names() -> None:
    """All names once, in one file and in random order, so that the held-out ones are like the others."""
    prepare.names()
    files = (prepare.FOLDER / "names").glob("*.txt")
    names = sorted({line for file in files for line in file.read_text().splitlines()})
    random.Random(1).shuffle(names)  # noqa: S311
    (prepare.FOLDER / "all_names.txt").write_text("".join(f"{name}\n" for name in names))


def _brown() -> None:
    """The sentences of the Brown corpus without their tags."""
    with zipfile.ZipFile(prepare.data_file("brown/brown.zip")) as archive:
        texts = [
            archive.read(name).decode() for name in sorted(archive.namelist()) if re.match(r"brown/c[a-r]\d", name)
        ]
    lines = (line.split() for text in texts for line in text.splitlines())
    rows = (" ".join(token.rpartition("/")[0] for token in line) + "\n" for line in lines if line)
    (prepare.FOLDER / "brown.txt").write_text("".join(rows))


def _generated(name: str) -> None:
    """A built-in data set."""
    folder = prepare.FOLDER / name
    if folder.exists():
        shutil.rmtree(folder)
    datasets.build(name, folder)


PREPARE: dict[str, Callable[[], None]] = {
    "yesno": _yesno,
    "names": _names,
    "brown": _brown,
    "shapes": partial(_generated, "shapes"),
    "an4": prepare.speech,
    "fsdd": prepare.digit_strings,
    "omniglot": prepare.omniglot,
    "pen_strokes": partial(_generated, "pen_strokes"),
    "tunes": partial(_generated, "tunes"),
    "music": prepare.music,
}
