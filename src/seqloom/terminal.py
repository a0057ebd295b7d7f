"""Terminal output: tables and progress bars, plain text if it is piped, and JSON."""

import json
import math
import os
import re
import shutil
import sys
import textwrap
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Self

from seqloom.formats import format_loss, format_number, format_value, shorten, visible

MAX_TARGETS = 8  # numbers to predict whose scores are printed
MAX_WARNINGS = 5  # about the data of a file


def table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table to standard output: plain columns if piped, with rules and right-aligned numbers on a terminal."""
    if sys.stdout.isatty():
        from rich.console import Console
        from rich.table import Table

        rich_table = Table(*columns)
        for index, column in enumerate(rich_table.columns):
            column.justify = "right" if _is_numeric(row[index] for row in rows) else "left"
        for row in rows:
            rich_table.add_row(*map(visible, row))
        Console().print(rich_table, markup=False)
        return
    print_lines(*table_lines(columns, rows))


def table_lines(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """A table as plain text, in columns of equal width."""
    widths = [max(len(row[index]) for row in (columns, *rows)) for index in range(len(columns))]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in (columns, *rows)
    ]


def print_lines(*lines: str) -> None:
    """Print lines to standard output."""
    for line in lines:
        print(visible(line))


def print_note(text: str) -> None:
    """Print a remark to standard error, which leaves standard output to the results."""
    print(f"note: {visible(text)}", file=sys.stderr, flush=True)


def prepare_output() -> None:
    """Make printing work on any stream: characters that it cannot show are escaped, a closed one takes everything."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_WRONLY), "w", encoding="utf-8"))
        elif hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def print_warning(text: str) -> None:
    """Print a warning to standard error."""
    print(f"warning: {visible(text)}", file=sys.stderr, flush=True)


def print_data_warnings(file: str, warnings: Sequence[str]) -> None:
    """Print what is wrong with the data of a file; of many warnings, the first ones."""
    for warning in warnings[:MAX_WARNINGS]:
        print_warning(f"{file}: {warning}")
    if len(warnings) > MAX_WARNINGS:
        print_warning(f"{file}: {len(warnings) - MAX_WARNINGS:,} more warnings; --json has all")


def print_json(value: object) -> None:
    """Print a value as indented JSON."""
    print(_json_text(value, indent=2))


def json_line(value: object) -> str:
    """A value as one line of JSON."""
    return _json_text(value)


def _json_text(value: object, indent: int | None = None) -> str:
    """JSON in UTF-8, in which all control characters are escaped."""
    text = json.dumps(json_value(value), indent=indent, ensure_ascii=_is_ascii_output(), allow_nan=False)
    return re.sub(r"[\x7f-\x9f\u2028\u2029]", lambda match: f"\\u{ord(match[0]):04x}", text)


def _is_ascii_output() -> bool:
    """Whether characters have to be escaped as JSON does it."""
    return (getattr(sys.stdout, "encoding", None) or "utf-8").lower().replace("-", "") != "utf8"


def json_value(value: Any) -> Any:
    """The same value with None in place of NaN and infinity, which JSON cannot represent."""
    if isinstance(value, dict):
        return {name: json_value(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [json_value(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def score_table(
    metrics: Mapping[str, Any], baseline: Mapping[str, float], *, source: str
) -> tuple[list[str], list[list[str]]]:
    """The columns and rows of a table of scores, with confidence intervals and those of the baseline where known."""
    rows = []
    for name, value in metrics.items():
        if name.endswith("_interval") or isinstance(value, dict | list | str):
            continue
        low, high = metrics.get(f"{name}_interval", (None, None))
        interval = "" if low is None else f"[{format_value(low)}, {format_value(high)}]"
        rows.append([name, format_value(value), interval, format_value(baseline[name]) if name in baseline else ""])
    columns = ["metric", source, "95 % interval", "baseline"]
    kept = [index for index in range(4) if index < 2 or any(row[index] for row in rows)]
    return [columns[index] for index in kept], [[row[index] for index in kept] for row in rows]


def print_scores(metrics: Mapping[str, Any], baseline: Mapping[str, float], *, source: str) -> None:
    """Print a table of scores, and below it what is not a number."""
    columns, rows = score_table(metrics, baseline, source=source)
    table(columns, rows)
    print_lines(*(f"{name}: {value}" for name, value in metrics.items() if isinstance(value, str)))


def print_wrapped(text: str) -> None:
    """Print a sentence on lines that fit the terminal, or 80 columns."""
    print_lines(*textwrap.wrap(text, text_width(), break_long_words=False, break_on_hyphens=False))


def print_pairs(pairs: Mapping[str, str]) -> None:
    """Print names and values in two columns; values are not cut, so that commands can be copied."""
    width = max(map(len, pairs), default=0)
    print_lines(*(f"{name:{width}}  {value}" for name, value in pairs.items()))


def text_width() -> int:
    """Columns for sentences: those of the terminal up to 100, or 80."""
    return min(shutil.get_terminal_size().columns, 100) if sys.stdout.isatty() else 80


def print_results(
    metrics: Mapping[str, Any],
    baseline: Mapping[str, float],
    *,
    source: str,
    sentences: Sequence[str] = (),  # what the scores mean
    most: int = 5,
) -> None:
    """Print scores, what they mean, and details.

    The first of many scores of a forecast are not those that decide: it begins with what they mean and with the
    baselines.
    """
    baselines: Mapping[str, Any] = metrics.get("baselines") or {}
    for sentence in sentences if baselines else ():
        print_wrapped(sentence)
    if baselines:
        print_lines(*[""] * bool(sentences))
        _print_baselines(metrics, baselines)
        print_lines("", "All metrics:")
    print_scores(metrics, baseline, source=source)
    if sentences and not baselines:
        print_lines("")
        for sentence in sentences:
            print_wrapped(sentence)
    print_details(metrics, most=most)


def print_details(metrics: Mapping[str, Any], *, most: int = 5) -> None:
    """Print the scores of labels, the most frequent confusions, error counts and the worst transcripts, if any."""
    _print_label_scores(metrics, most=2 * most)
    _print_target_scores(metrics)
    _print_series_scores(metrics, most=2 * most)
    counts = {name: value for name, value in metrics.items() if name.endswith("_errors") and isinstance(value, dict)}
    print_lines(*[""] * bool(counts))
    for name, value in counts.items():
        errors = [f"{value[kind]} {kind}" for kind in ("substitutions", "insertions", "deletions")]
        unit = name.removesuffix("_errors").upper()
        print_lines(f"{unit}: {', '.join(errors)} in {value['tokens']} tokens.")
    if metrics.get("confusions"):
        total = len(metrics["confusions"])
        print_lines("", f"Most frequent errors ({most} of {total:,}):" if total > most else "Most frequent errors:")
        names = {"": "(nothing)", " ": "(space)"}
        columns = tuple(metrics["confusions"][0])
        rows = [
            tuple(names.get(confusion[column], shorten(str(confusion[column]), 30)) for column in columns)
            for confusion in metrics["confusions"][:most]
        ]
        table(columns, rows)
    if metrics.get("worst"):
        print_lines("", "Worst transcripts (S substitution, I insertion, D deletion):")
        for text in metrics["worst"][:most]:
            print_lines("", text)


def _print_target_scores(metrics: Mapping[str, Any]) -> None:
    """Print the scores of each target, if there are several numbers to predict."""
    scores: Mapping[str, Mapping[str, float]] = metrics.get("per_target") or {}
    if scores:
        columns = list(dict.fromkeys(name for row in scores.values() for name in row))
        rows = [
            (name, *(format_value(row[column]) if column in row else "" for column in columns))
            for name, row in list(scores.items())[:MAX_TARGETS]
        ]
        more = f" (the first {MAX_TARGETS} of {len(scores):,}; --json shows all)" if len(scores) > MAX_TARGETS else ""
        print_lines("", f"Targets{more}:")
        table(("target", *columns), rows)


def _print_series_scores(metrics: Mapping[str, Any], *, most: int) -> None:
    """Print the errors of each series, if there are several; of many, those with the largest errors."""
    scores: Mapping[str, Mapping[str, float]] = metrics.get("per_series") or {}
    if not scores:
        return
    columns = tuple(next(iter(scores.values())))
    rows = [(shorten(name, 30), *(format_value(row[column]) for column in columns)) for name, row in scores.items()]
    count = f"{most} of {len(rows):,}, " if len(rows) > most else ""
    print_lines("", f"Series ({count}the largest errors first):")
    table(("series", *columns), rows[:most])


def _print_baselines(metrics: Mapping[str, Any], baselines: Mapping[str, Mapping[str, float]]) -> None:
    """Print the errors of a forecast beside those of its baselines."""
    columns = [name for name in next(iter(baselines.values())) if name in metrics]
    rows = [
        (title, *(format_value(row[column]) if column in row else "" for column in columns))
        for title, row in (("model", metrics), *baselines.items())
    ]
    table(("forecast", *columns), rows)


def _print_label_scores(metrics: Mapping[str, Any], *, most: int) -> None:
    """Print precision, recall and F1 of each label; of many labels, those with the most errors."""
    scores: Mapping[str, Any] = metrics.get("per_label") or metrics.get("per_type") or {}
    if not scores:
        return
    noun, names = "Labels" if "per_label" in metrics else "Spans", list(scores)
    if len(names) > most:
        missed = {name: round((1 - scores[name]["recall"]) * scores[name]["support"]) for name in names}
        names = sorted((name for name in names if missed[name]), key=lambda name: -missed[name])[:most]
        if not names:
            return
        print_lines("", f"{noun} with the most errors ({len(names)} of {len(scores):,}):")
    else:
        print_lines("", f"{noun}:")
    columns = ("precision", "recall", "f1")
    rows = [
        (shorten(name, 30), *(f"{scores[name][column]:.3f}" for column in columns), f"{scores[name]['support']:,}")
        for name in names
    ]
    table(("label", *columns, "count"), rows)


def fit(parts: Sequence[str], width: int) -> str:
    """As many of the parts as fit on a line, at least the first."""
    first, *others = [part for part in parts if part] or [""]
    for part in others:
        if len(first) + 2 + len(part) <= width:
            first += f"  {part}"
    return first


@contextmanager
def progress(total: int) -> Iterator[Callable[[str], None]]:
    """A function to call with the name of each of ``total`` steps when it starts.

    Shows a bar on a terminal, or else a line for each step, on standard error: standard output is for results.
    """
    if not sys.stderr.isatty():
        yield lambda name: print(name, file=sys.stderr, flush=True)
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.description}", markup=False))
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=total)
        started = 0

        def start(name: str) -> None:
            nonlocal started
            bar.update(task, description=name, completed=started)
            started += 1

        yield start


def _is_numeric(cells: Iterator[str]) -> bool:
    try:
        return bool([float(cell.rstrip("%×")) for cell in cells if cell])
    except ValueError:
        return False


class TrainingProgress:
    """A listener that shows training: a bar with loss, speed, time left and best score, or lines if piped."""

    def __init__(self, *, quiet: bool = False) -> None:
        self.quiet = quiet
        self.bar: Any = None
        self.best = self.loss = ""
        self.width, self.status_width = 100, 0  # columns of the terminal, and of it those for the status
        self.started = False
        self.items = 0  # since the last line
        self.since = time.monotonic()  # when the last line was printed

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        if self.bar is not None:
            self.bar.stop()

    def __call__(self, run: Any, event: Any) -> None:
        """Show an event of a training run."""
        if self.quiet:
            return
        if not self.started:
            self.started = True
            for line in (*run.notes, *run.warnings):
                self._print(line)
        self.items += event.items
        if event.evaluation is not None and event.best:
            metric = event.evaluation.metric
            self.best = f"{metric} {format_number(event.evaluation.metrics[metric], 4)}"
        if sys.stderr.isatty():
            self._update_bar(run, event)
        if event.logged or event.evaluation is not None:
            self._print_line(event)
        if event.warning:
            self._print(f"warning: {event.warning}")

    def _print_line(self, event: Any) -> None:
        position = f"epoch {event.epoch:.2f}  update {event.update}"
        if event.evaluation is not None:
            metrics = {name: value for name, value in event.evaluation.metrics.items() if isinstance(value, float)}
            first = event.evaluation.metric
            names = [first, *(name for name in metrics if name != first)][:4]
            best = "  (best)" if event.kept else ""
            scores = [f"{name} {format_number(metrics[name], 4)}" for name in names if name in metrics]
            line = f"{position}  dev: {fit(scores, self.width - len(position) - len('  dev: ') - len(best))}{best}"
        else:
            seconds, self.since = time.monotonic() - self.since, time.monotonic()
            speed = f"{self.items / max(seconds, 1e-9):,.0f} {event.unit}/s"
            line = f"{position}  loss {format_loss(event.loss)}  learning rate {event.learning_rate:.3g}  {speed}"
            self.items = 0
            if self.bar is not None:
                return  # the bar shows the same
        self._print(line)

    def _print(self, line: str) -> None:
        """Print a line above the bar."""
        line = visible(line)
        if self.bar is not None:
            self.bar.console.print(line, markup=False, highlight=False)
        else:
            print(line, file=sys.stderr, flush=True)

    def _update_bar(self, run: Any, event: Any) -> None:
        if self.bar is None:
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

            console = Console(stderr=True)
            self.width = console.width
            narrow = self.width < 100
            name = str(run.path)
            longest = 12 if narrow else 20
            if len(name) > longest:
                name = f"…{name[1 - longest :]}"
            bar_width = 14 if narrow else 18 if self.width < 120 else 26
            self.bar = Progress(
                TextColumn("{task.description}", markup=False),
                BarColumn(bar_width=bar_width),
                *([] if narrow else [TimeElapsedColumn()]),
                TimeRemainingColumn(),
                TextColumn("{task.fields[status]}", markup=False),
                console=console,
                transient=True,  # what it shows at the end is in the summary
            )
            times = " 0:00:00" if narrow else " 0:00:00 0:00:00"
            self.status_width = self.width - len(name) - bar_width - len(times) - 3
            self.bar.start()
            self.task = self.bar.add_task(name, total=event.updates, completed=event.update, status="")
        seconds = time.monotonic() - self.since
        if not math.isnan(event.loss):
            self.loss = f"loss {format_loss(event.loss)}"
        parts = [  # the most important first
            "evaluating" if event.pending else f"epoch {event.epoch:.2f}",
            self.loss,
            f"best {self.best}" if self.best else "",
            f"{self.items / max(seconds, 1e-9):,.0f} {event.unit}/s" if self.items else "",
        ]
        self.bar.update(self.task, total=event.updates, completed=event.update, status=fit(parts, self.status_width))
