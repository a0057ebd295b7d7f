"""The runs below a folder for the table of the studio: read from their files, with nothing to log and no database."""

import hashlib
import json
import math
import os
import re
import secrets
import threading
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from seqloom import checkpoint, files
from seqloom.data.readers import audio_files, pixels
from seqloom.data.readers.memory import IN_MEMORY
from seqloom.run import FILES, Run, RunError
from seqloom.run_config import load_config
from seqloom.run_summary import flatten
from seqloom.studio.metrics_follower import MetricsFollower

SPARKLINE = 60  # points
NOTE = "note.txt"
MAX_NOTE = 10_000  # characters
MAX_DEPTH = 4  # folders below the one that is shown
STAMPED = (
    *(*FILES, checkpoint.MANIFEST),  # never change
    *("summary.json", "metrics.jsonl", "best/training.json", NOTE, "diverged.safetensors"),
)
HIDDEN_KEYS = ("task.name", "task.train", "task.dev")
READING_KEYS = re.compile(r"task\.(\w*columns?|target|target_type|label_type|data_type|horizon|objective)")
"""Settings without which the same files are other examples, or have other targets."""


@dataclass(frozen=True)
class Score:
    """The metric that chooses the best model, at one evaluation."""

    value: float
    low: float | None = None  # of its 95 % confidence interval
    high: float | None = None
    update: int = 0
    epoch: float = 0.0


@dataclass(frozen=True)
class RunEntry:
    """A run in the table."""

    id: str  # path below the folder
    task: str = ""
    state: str = "stopped"  # training, finished, stopped, diverged or damaged
    problem: str = ""  # of a damaged run
    metric: str = ""
    higher_is_better: bool = True
    best: Score | None = None
    last: Score | None = None
    scores: Mapping[str, float] = field(default_factory=dict)  # all metrics of the best model
    baseline: float | None = None
    started: str = ""
    seconds: float = 0.0
    finished: str = ""  # why training ended
    parameters: int = 0
    epoch: float = 0.0
    update: int = 0
    loss: float | None = None  # the latest
    curve: tuple[float | None, ...] = ()  # the metric at each evaluation, or the loss
    settings: Mapping[str, Any] = field(default_factory=dict)  # all, by section.key
    input_kind: str = ""  # text, texts (words), pairs, image, sound, numbers, or the suffix of files; empty: unknown
    dev_data: str = ""  # the same for runs with the same dev examples, wherever their files are; empty: unknown
    changed: tuple[str, ...] = ()  # keys that the user has set to another value than the default
    note: str = ""


@dataclass(frozen=True)
class _Stamp:
    """When the files of a run were last changed."""

    times: tuple[tuple[str, int, int], ...]
    is_training: bool

    def same_run(self, other: "_Stamp") -> bool:
        """Whether the files that never change in a run are the same, so that it need not be verified again."""
        fixed = len(FILES) + 1  # and the manifest, which come first
        return self.times[:fixed] == other.times[:fixed]


@dataclass(frozen=True)
class _Known:
    """A run as it was read last."""

    stamp: _Stamp
    entry: RunEntry
    shown: dict[str, Any]  # the entry for JSON
    metrics: MetricsFollower | None  # None: the run is damaged


class Catalog:
    """All runs below a folder; a run is read again when its files change."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.resolve()
        self._known: dict[str, _Known] = {}
        self._start, self._changes = secrets.token_hex(8), 0
        self._lock = threading.Lock()  # requests are answered by several threads

    @property
    def version(self) -> str:
        """Changes whenever a run does."""
        return f"{self._start}-{self._changes}"

    def entries(self) -> list[RunEntry]:
        """The runs, those that were started last first."""
        return [known.entry for known in self._read_all()]

    def table(self) -> list[dict[str, Any]]:
        """The same for JSON."""
        return [known.shown for known in self._read_all()]

    def entry(self, identity: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        """A run of the table for JSON, and the rows of its metrics; the other runs are not read."""
        with self._lock:
            known = self._refresh(identity, self.folder / identity)
            return known.shown, list(known.metrics.rows) if known.metrics else []

    def _read_all(self) -> list[_Known]:
        paths = {str(path.relative_to(self.folder)): path for path in self._find(self.folder, MAX_DEPTH)}
        with self._lock:
            for identity in set(self._known) - set(paths):
                del self._known[identity]
                self._changes += 1
            for identity, path in paths.items():
                self._refresh(identity, path)
            return sorted(self._known.values(), key=lambda known: known.entry.started, reverse=True)

    def find(self, identity: str) -> Path | None:
        """The folder of a run in the table; None for anything else, so that no address leads out of the folder."""
        if identity not in self._known:
            self.entries()
        return self.folder / identity if identity in self._known else None

    def _refresh(self, identity: str, path: Path) -> _Known:
        stamp, known = _stamp(path), self._known.get(identity)
        if known is None or known.stamp != stamp:
            metrics = known.metrics if known and known.stamp.same_run(stamp) else None
            known = self._known[identity] = _read(identity, path, stamp, metrics)
            self._changes += 1
        return known

    def _find(self, folder: Path, depth: int) -> Iterator[Path]:
        if (folder / checkpoint.MANIFEST).is_file() and (folder / "config.toml").is_file():
            yield folder
            return
        if depth:
            try:
                inner = sorted(entry.path for entry in os.scandir(folder) if entry.is_dir(follow_symlinks=False))
            except OSError:
                return
            for path in inner:
                if not Path(path).name.startswith("."):
                    yield from self._find(Path(path), depth - 1)


def _stamp(path: Path) -> _Stamp:
    times = []
    for name in STAMPED:
        try:
            status = (path / name).stat()
        except OSError:
            continue
        times.append((name, status.st_mtime_ns, status.st_size))
    return _Stamp(tuple(times), Run.is_training(path))


def _read(identity: str, path: Path, stamp: _Stamp, metrics: MetricsFollower | None) -> _Known:
    try:
        metrics = metrics or MetricsFollower(Run.open(path))
        metrics.read()
        entry = _describe(identity, metrics, is_training=stamp.is_training)
    except (RunError, OSError, ValueError, LookupError, TypeError) as error:
        entry, metrics = RunEntry(identity, state="damaged", problem=str(error)), None
    return _Known(stamp, entry, entry_json(entry), metrics)


def _describe(identity: str, metrics: MetricsFollower, *, is_training: bool) -> RunEntry:
    run, rows = metrics.run, metrics.rows
    path = run.path
    values = tomllib.loads(run.config)
    settings = dict(flatten(values))
    facts, summary = run.facts(), run.summary()
    task = str(values.get("task", {}).get("name", ""))
    metric, higher = _metric(run, summary)
    evaluations = [
        (row, _score(row["dev"], metric, row))
        for row in rows
        if isinstance(row.get("dev"), dict) and metric in row["dev"]
    ]
    losses = [float(row["loss"]) for row in rows if isinstance(row.get("loss"), int | float)]
    best = _score(facts.get("metrics", {}), metric, facts) if metric in facts.get("metrics", {}) else None
    curve = [score.value for _, score in evaluations] or losses
    finished = str(summary.get("finished", ""))
    state = "training" if is_training else "finished" if finished else "stopped"
    if not is_training and (path / "diverged.safetensors").is_file():
        state = "diverged"
    last_row = rows[-1] if rows else {}
    baseline = summary.get("baseline_scores", {}).get(metric)
    return RunEntry(
        id=identity,
        task=task,
        state=state,
        metric=metric,
        higher_is_better=higher,
        best=best,
        last=evaluations[-1][1] if evaluations else None,
        scores={name: float(value) for name, value in facts.get("metrics", {}).items() if _is_number(value)},
        baseline=float(baseline) if isinstance(baseline, int | float) else None,
        started=str(summary.get("started", "")),
        seconds=float(summary.get("seconds", 0.0)),
        finished=finished,
        parameters=int(summary.get("parameters", 0) or 0),
        epoch=float(last_row.get("epoch", 0.0)),
        update=int(last_row.get("update", 0)),
        loss=losses[-1] if losses else None,
        curve=tuple(_finite(value) for value in thin(curve, SPARKLINE)),
        settings={key: value for key, value in settings.items() if key not in HIDDEN_KEYS},
        input_kind=_input_kind(summary.get("samples")),
        dev_data=_dev_data(settings, run.environment.get("data")),
        changed=tuple(key for key in summary.get("settings", {}) if isinstance(key, str)),
        note=read_note(path),
    )


def _input_kind(samples: object) -> str:
    """What a model reads, by the samples of the dev data that its training has recorded."""
    inputs = (
        [str(each.get("input", "")) for each in samples if isinstance(each, dict)] if isinstance(samples, list) else []
    )
    if not inputs:
        return ""
    if not any(inputs):
        return "numbers"
    suffixes = {Path(text).suffix.lower() for text in inputs}
    if (
        len(suffixes) == 1
        and suffixes != {""}
        and not any(character.isspace() for text in inputs for character in text)
    ):
        (suffix,) = suffixes
        return "image" if suffix in pixels.SUFFIXES else "sound" if suffix in audio_files.SUFFIXES else suffix
    if all(" ||| " in text for text in inputs):
        return "pairs"
    return "texts" if any("\t" in text for text in inputs) else "text"


def _dev_data(settings: Mapping[str, Any], recorded: object) -> str:
    """A hash of the dev data by their recorded fingerprints and how they are read; empty: none is recorded."""
    prints = recorded if isinstance(recorded, dict) else {}
    part = "dev" if settings.get("task.dev") else "train"
    name = settings.get(f"task.{part}")
    used = [prints.get(key) for key in (name, f"{name} (listed files)", f"{part} {IN_MEMORY}")]
    if not any(used):
        return ""
    held_out = () if part == "dev" else ("task.dev_fraction", "task.dev_fold")
    keys = [key for key in settings if READING_KEYS.fullmatch(key)]
    if settings.get("task.name") == "language_model":
        keys.append("task.text.unit")  # a perplexity is that of a token
    values = [(key, settings.get(key)) for key in (*held_out, *sorted(keys))]
    return hashlib.sha256(json.dumps([used, values], default=str).encode()).hexdigest()[:16]


def _metric(run: Run, summary: Mapping[str, Any]) -> tuple[str, bool]:
    """The metric that chooses the best model; runs of earlier versions do not store it."""
    if isinstance(summary.get("metric"), str):
        return summary["metric"], bool(summary.get("higher_is_better", True))
    task = load_config(run).task
    return task.main_metric, task.higher_is_better


def _score(metrics: Mapping[str, Any], metric: str, row: Mapping[str, Any]) -> Score:
    low, high = metrics.get(f"{metric}_interval") or (None, None)
    return Score(float(metrics[metric]), low, high, int(row.get("update") or 0), float(row.get("epoch") or 0.0))


def thin(values: list[float], most: int) -> list[float]:
    """A limited number of the values, evenly spaced, the first and the last among them."""
    if len(values) <= most:
        return values
    return [values[round(index * (len(values) - 1) / (most - 1))] for index in range(most)]


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def read_note(path: Path) -> str:
    """What a person wrote about a run."""
    try:
        return (path / NOTE).read_text(encoding="utf-8", errors="replace")[:MAX_NOTE]
    except OSError:
        return ""


def write_note(path: Path, text: str) -> None:
    """Keep a note in the folder of a run."""
    if len(text) > MAX_NOTE:
        raise ValueError(f"a note is limited to {MAX_NOTE:,} characters, got {len(text):,}")
    files.write(path / NOTE, text, inside=path)


def entry_json(entry: RunEntry) -> dict[str, Any]:
    """An entry for JSON, without NaN."""
    return json.loads(json.dumps(asdict(entry), default=str), parse_constant=lambda _: None)  # type: ignore[no-any-return]
