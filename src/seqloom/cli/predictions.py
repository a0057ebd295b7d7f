"""Print predictions as they come, with the files or texts that they are for and with remarks on standard error."""

import glob
import os.path
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from seqloom import terminal
from seqloom.answers import EMPTY_INPUT, describe_empty, with_warning
from seqloom.data.dataset_summary import Findings
from seqloom.data.readers.text_files import DataError, resolve
from seqloom.formats import escape_breaks, quote_names, single_precision
from seqloom.tasks.task import Task

SHOWN = 5  # warnings that are printed
ESCAPED = "each text is on one line: its line breaks are written as \\n, tabs as \\t and backslashes as \\\\"


class Origin(NamedTuple):
    """Where an example comes from, as far as its answer says so."""

    name: str | None = None  # of the file, or the text itself; None: there is only one
    is_text: bool = False
    identity: str = ""  # of a sequence in a table; empty: it has none
    warning: str = ""  # about the input


class NamedInput(NamedTuple):
    """A file, or a text that was given itself, and its examples."""

    name: str
    examples: Iterable[Any]
    is_text: bool = False


class PredictionPrinter:
    """Prints the answers to the examples that it has watched, in the same order."""

    def __init__(
        self,
        task: Task,
        *,
        as_json: bool,
        names: bool,
        interactive: bool,
        to_json: Callable[[Any], dict[str, Any]] | None = None,  # None: that of the task
    ) -> None:
        self.task, self.as_json, self.names, self.interactive = task, as_json, names, interactive
        self.to_json = to_json or task.to_json
        self.origins: deque[Origin] = deque()  # of the examples that have no answer yet
        self.answers = self.affected = 0
        self.unknown: dict[str, None] = {}
        self.warnings: dict[str, int] = {}  # of predictions, with their numbers
        self.empty = Findings()  # locations of empty inputs that have an answer
        self.has_escapes = False  # whether texts were written on one line
        self.by_line = False  # whether an empty line has an empty answer, as on standard input

    def watch(self, sources: Iterable[NamedInput]) -> Iterator[Any]:
        """The examples of all sources."""
        for number, source in enumerate(sources, start=1):
            is_folder = not source.is_text and _is_folder(source.name)
            for example in source.examples:
                name, identity = source.name if self.names else None, getattr(example, "identity", "")
                if is_folder:
                    name = getattr(example, "name", "") or example.location.file
                if identity and identity == os.path.basename(name or source.name):  # noqa: PTH119  the file is the example
                    name, identity = name or source.name, ""
                if len(example) or not self.by_line:
                    warning = self._warn(example, number if source.is_text else None)
                    self.origins.append(Origin(name, source.is_text, identity, warning))
                yield example

    def _warn(self, example: Any, number: int | None) -> str:
        """What is to be said about an input, which is counted; ``number`` is that of a text among the inputs."""
        if self.task.is_empty_input(example):
            place = example.location
            self.empty.add(place if number is None else place._replace(line=number))
            return EMPTY_INPUT
        warning = self.task.input_warning(example)
        self._count_warning(warning)
        return warning

    def print(self, predictions: Sequence[Any]) -> None:
        """Print predictions; None is the answer to an empty line of standard input."""
        for prediction in predictions:
            if not self.as_json and not self.answers and (legend := getattr(prediction, "legend", "")):
                terminal.print_note(legend)
            if prediction is None:
                terminal.print_lines("null" if self.as_json else "")
                continue
            origin = self.origins.popleft() if self.origins else Origin()
            parts = {"input" if origin.is_text else "file": origin.name, "id": origin.identity or None}
            known = {key: part for key, part in parts.items() if part is not None}
            if self.as_json:
                answer = with_warning(_short_numbers(self.to_json(prediction)), origin.warning)
                terminal.print_lines(terminal.json_line({**known, **answer}))
            else:
                text = str(self._on_one_line(prediction))
                prefix = "".join(f"{self._escaped(part)}\t" for part in known.values())
                lines = text.split("\n") if prefix and text else [text]
                terminal.print_lines(*(f"{prefix}{line}" if line or not text else line for line in lines))
            self._count(prediction)
        sys.stdout.flush()

    def _on_one_line(self, prediction: Any) -> Any:
        """A prediction whose texts have no line breaks, so that answers can be matched with inputs."""
        if not isinstance(getattr(prediction, "text", None), str):
            return prediction
        always = self.task.answers_have_line_breaks
        changes: dict[str, Any] = {"text": self._escaped(prediction.text, always=always)}
        if nbest := getattr(prediction, "nbest", []):
            changes["nbest"] = [replace(each, text=self._escaped(each.text, always=always)) for each in nbest]
        return replace(prediction, **changes)

    def _escaped(self, text: str, *, always: bool = False) -> str:
        """A text on one line; ``always``: a text without line breaks as well, so that backslashes have one meaning."""
        if not always and not any(mark in text for mark in "\n\r\t"):
            return text
        escaped = escape_breaks(text)
        self.has_escapes |= escaped != text
        return escaped

    def _count(self, prediction: Any) -> None:
        self.answers += 1
        self._count_warning(getattr(prediction, "warning", ""))
        if unknown := getattr(prediction, "unknown", []):
            self.affected += 1
            self.unknown |= dict.fromkeys(unknown)
            if self.interactive:
                terminal.print_note(f"the model does not know {quote_names(unknown)}")

    def _count_warning(self, warning: str) -> None:
        if warning:
            self.warnings[warning] = self.warnings.get(warning, 0) + 1

    def finish(self) -> None:
        """Remark on what the model did not know, and repeat the warnings of predictions."""
        if not self.answers and not self.interactive:
            terminal.print_note("the input is empty, there is nothing to predict")
        if self.has_escapes:
            terminal.print_note(ESCAPED)
        if self.empty:
            terminal.print_note(describe_empty(self.empty.total, self.answers, first=str(self.empty)))
        for number, (warning, repeated) in enumerate(self.warnings.items()):
            if number == SHOWN:
                terminal.print_note(f"… {len(self.warnings) - SHOWN:,} more warnings; --json shows all")
                break
            terminal.print_note(f"{warning}{f' ({repeated:,} times)' if repeated > 1 else ''}")
        if self.affected and not self.interactive:
            count = "the input contains" if self.answers == 1 else f"{self.affected} of {self.answers} inputs contain"
            terminal.print_note(f"{count} tokens that the model does not know: {quote_names(list(self.unknown))}")


def expand_patterns(names: Sequence[str]) -> list[str]:
    """The names, patterns such as ``*.wav`` replaced by the files that they match, as most shells do."""
    expanded: list[str] = []
    for name in names:
        matches = sorted(glob.glob(name)) if glob.has_magic(name) and not os.path.lexists(name) else []  # noqa: PTH207
        expanded += matches or [name]
    return expanded


def _is_folder(name: str) -> bool:
    try:
        return resolve(name).is_dir()
    except DataError:  # reported where the file is read
        return False


def _short_numbers(value: Any) -> Any:
    """The same value with the digits of single precision, in which models compute."""
    if isinstance(value, dict):
        return {name: _short_numbers(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_short_numbers(inner) for inner in value]
    return single_precision(value) if isinstance(value, float) else value
