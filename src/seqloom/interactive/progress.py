"""Progress of a training run in a notebook: a bar and a table of the evaluations, updated in place."""

import math
import sys
import time
from collections.abc import Callable
from typing import Any, Self

from seqloom import html
from seqloom.formats import format_duration
from seqloom.terminal import TrainingProgress

UPDATE_SECONDS = 0.3  # between two updates of the display
SHOWN_EVALUATIONS = 12  # rows of the table
SHOWN_METRICS = 4  # columns


def in_notebook() -> bool:
    """Whether this program runs in the kernel of a notebook, which can show HTML and update it."""
    if "IPython" not in sys.modules:
        return False
    from IPython.core.getipython import get_ipython

    shell = get_ipython()
    return shell is not None and bool(getattr(shell, "kernel", None))


def training_display(*, quiet: bool = False) -> "TrainingProgress | NotebookProgress":
    """A listener that shows training: HTML in a notebook, a bar in a terminal, lines of text elsewhere."""
    if quiet or not in_notebook():
        return TrainingProgress(quiet=quiet)
    return NotebookProgress(_display())


def _display() -> Callable[[str], object]:
    """A function that shows HTML in the output of the current cell and replaces what it showed before."""
    from IPython.display import HTML, display

    handle: Any = display(HTML(""), display_id=True)
    return lambda content: handle.update(HTML(content))


class NotebookProgress:
    """A listener that shows training in a notebook: a bar with loss, speed and time left, and the evaluations."""

    def __init__(self, show: Callable[[str], object]) -> None:
        self.show = show
        self.started = time.monotonic()
        self.shown = 0.0  # when the display was updated
        self.items = 0
        self.event: Any = None
        self.first_update = 0  # of a run that is resumed
        self.run: Any = None
        self.losses: list[float] = []
        self.warnings: list[str] = []
        self.evaluations: list[tuple[float, dict[str, Any], bool]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        if self.event is not None:
            self.show(self.html(stopped=any(exception)))

    def __call__(self, run: Any, event: Any) -> None:
        """Show an event of a training run."""
        if self.event is None:
            self.started, self.first_update = time.monotonic(), event.update
        self.run, self.event = run, event
        self.items += event.items
        if event.logged and math.isfinite(event.loss):
            self.losses.append(event.loss)
        self.warnings += [event.warning] * bool(event.warning)
        if event.evaluation is not None:
            metrics = {name: value for name, value in event.evaluation.metrics.items() if isinstance(value, float)}
            self.evaluations.append((event.epoch, metrics, event.best))
        if event.evaluation is not None or time.monotonic() - self.shown > UPDATE_SECONDS:
            self.show(self.html())
            self.shown = time.monotonic()

    def html(self, *, stopped: bool = False) -> str:
        """The display as HTML."""
        event = self.event
        return html.block(
            *map(html.remark, (*self.run.notes, *self.run.warnings, *self.warnings)),
            html.heading(self.run.path, self._status(stopped=stopped)),
            "" if event.finished else html.bar(event.update / event.updates if event.updates else 0.0, self._time()),
            html.beside(self._table(), html.curve(self.losses, label="training loss")),
        )

    def _status(self, *, stopped: bool) -> str:
        event, seconds = self.event, time.monotonic() - self.started
        if event.finished:
            return f"finished: {event.finished}, {format_duration(seconds)}"
        parts = [
            "stopped" if stopped else "",
            f"epoch {event.epoch:.2f}",
            f"loss {event.loss:.4f}" if math.isfinite(event.loss) else "",
            f"{self.items / max(seconds, 1e-9):,.0f} {event.unit}/s" if self.items else "",
            "evaluating" if event.pending and not stopped else "",
        ]
        return "  ".join(part for part in parts if part)

    def _time(self) -> str:
        event, seconds = self.event, time.monotonic() - self.started
        done = event.update - self.first_update
        if not event.updates or not done:
            return format_duration(seconds)
        total = seconds * (event.updates - self.first_update) / done
        return f"{format_duration(seconds)} of about {format_duration(total)}"

    def _table(self) -> str:
        if not self.evaluations:
            return ""
        names = list(self.evaluations[-1][1])[:SHOWN_METRICS]
        rows = [
            [
                f"{epoch:.2f}",
                *(f"{metrics[name]:.4g}" if name in metrics else "" for name in names),
                html.remark("best") if best else "",
            ]
            for epoch, metrics, best in self.evaluations[-SHOWN_EVALUATIONS:]
        ]
        return html.table(["epoch", *names, ""], rows, right=range(len(names) + 1))
