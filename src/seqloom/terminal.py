"""What a person sees: tables and a progress bar on a terminal, plain lines when piped."""

import math
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Self

ERRORS = {"substitutions": "replaced", "insertions": "put in", "deletions": "left out"}
"""What can be wrong with a symbol of a transcript."""


def table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table to standard output: ruled on a terminal, aligned columns when piped. Numbers stand on the right."""
    if sys.stdout.isatty():
        from rich.console import Console
        from rich.table import Table

        drawn = Table(*columns)
        for index, column in enumerate(drawn.columns):
            column.justify = "right" if _numeric(row[index] for row in rows) else "left"
        for row in rows:
            drawn.add_row(*row)
        Console().print(drawn, markup=False)
        return
    widths = [max(len(row[index]) for row in (columns, *rows)) for index in range(len(columns))]
    for row in (columns, *rows):
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def say(*sentences: str) -> None:
    """Print each on a line of standard output."""
    for sentence in sentences:
        print(sentence)


def number(value: object) -> str:
    """A value as it stands in a table."""
    if isinstance(value, float):
        return f"{value:.5g}"
    return ", ".join(map(number, value)) if isinstance(value, list | tuple) else str(value)


def numbers(found: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The rows of a table of scores; nested details are left to JSON, intervals stand behind what they are of."""
    rows = []
    for name, value in found.items():
        if name.endswith("_interval") or isinstance(value, dict | list):
            continue
        low, high = found.get(f"{name}_interval", (None, None))
        rows.append((name, number(value) + (f"  [{number(low)}, {number(high)}]" if low is not None else "")))
    return rows


def mistakes(found: Mapping[str, Any], *, most: int = 5) -> None:
    """Print the errors of transcripts, if the scores have any: how many of which kind, which symbols, and where."""
    counts = {name: value for name, value in found.items() if name.endswith("_errors") and isinstance(value, dict)}
    say(*[""] * bool(counts))
    for name, value in counts.items():
        parts = [f"{value[kind]} {word}" for kind, word in ERRORS.items()]
        unit = name.removesuffix("_errors").upper()
        say(f"Errors of the {unit}: {', '.join(parts)}, of {value['symbols']} symbols.")
    if found.get("confusions"):
        say("", "Most often:")
        shown = {"": "(nothing)", " ": "(space)"}
        rows = [
            (*(shown.get(each[side], each[side]) for side in ("wanted", "found")), str(each["times"]))
            for each in found["confusions"][:most]
        ]
        table(("wanted", "found", "times"), rows)
    if found.get("worst"):
        say("", "Where most is wrong (S replaced, I put in, D left out):")
        for text in found["worst"][:most]:
            say("", text)


@contextmanager
def progress(total: int) -> Iterator[Callable[[str], None]]:
    """A function to call at the beginning of each of ``total`` pieces of work, with its name.

    Shows a bar on a terminal and a line for each piece otherwise, on standard error: standard output is for results.
    """
    if not sys.stderr.isatty():
        yield lambda name: print(name, file=sys.stderr, flush=True)
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.description}", markup=False))
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=total)
        begun = 0

        def begin(name: str) -> None:
            nonlocal begun
            bar.update(task, description=name, completed=begun)
            begun += 1

        yield begin


def _numeric(cells: Iterator[str]) -> bool:
    try:
        return bool([float(cell.rstrip("%×")) for cell in cells])
    except ValueError:
        return False


class Watch:
    """Shows a training: a bar with rate, time left, loss and best score on a terminal, lines when piped."""

    def __init__(self, *, quiet: bool = False) -> None:
        self.quiet = quiet
        self.bar: Any = None
        self.best = ""
        self.begun = False
        self.seen = 0
        self.since = time.monotonic()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *reason: object) -> None:
        if self.bar is not None:
            self.bar.stop()

    def __call__(self, run: Any, event: Any) -> None:
        """Take notice of what a training did."""
        if self.quiet:
            return
        if not self.begun:
            self.begun = True
            for remark in run.remarks:
                print(remark, file=sys.stderr, flush=True)
        self.seen += event.items
        if event.evaluation is not None and event.best:
            metric = event.evaluation.metric
            self.best = f"{metric} {event.evaluation.metrics[metric]:.4g}"
        if sys.stderr.isatty():
            self._draw(run, event)
        if event.logged or event.evaluation is not None:
            self._print(event)

    def _print(self, event: Any) -> None:
        place = f"epoch {event.epoch:.2f}  update {event.update}"
        if event.evaluation is not None:
            numbers = {name: value for name, value in event.evaluation.metrics.items() if isinstance(value, float)}
            shown = "  ".join(f"{name} {value:.4g}" for name, value in list(numbers.items())[:4])
            line = f"{place}  dev: {shown}{'  (best)' if event.best else ''}"
        else:
            seconds, self.since = time.monotonic() - self.since, time.monotonic()
            speed = self.seen / max(seconds, 1e-9)
            line = f"{place}  loss {event.loss:.4f}  rate {event.rate:.3g}  {speed:,.0f} {event.unit}/s"
            self.seen = 0
            if self.bar is not None:
                return  # the bar shows it
        if self.bar is not None:
            self.bar.console.print(line, markup=False, highlight=False)
        else:
            print(line, file=sys.stderr, flush=True)

    def _draw(self, run: Any, event: Any) -> None:
        if self.bar is None:
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

            self.bar = Progress(
                TextColumn("{task.description}", markup=False),
                BarColumn(),
                TimeElapsedColumn(),
                TimeRemainingColumn(),
                TextColumn("{task.fields[shown]}", markup=False),
                console=Console(stderr=True),
            )
            self.bar.start()
            self.line = self.bar.add_task(str(run.path), total=event.updates, completed=event.update, shown="")
        seconds = time.monotonic() - self.since
        parts = [
            f"epoch {event.epoch:.2f}",
            "" if math.isnan(event.loss) else f"loss {event.loss:.4f}",
            f"{self.seen / max(seconds, 1e-9):,.0f} {event.unit}/s" if self.seen else "",
            "evaluating" if event.pending else "",
            f"best {self.best}" if self.best else "",
        ]
        self.bar.update(
            self.line, total=event.updates, completed=event.update, shown="  ".join(part for part in parts if part)
        )
