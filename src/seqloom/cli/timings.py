"""Print the timings of transcripts in a format of other programs, or write a file for each recording."""

from collections import Counter, deque
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePath
from typing import Any

from seqloom import files, terminal
from seqloom.data.timed_text import FORMATS, SUFFIXES, TimedText
from seqloom.tasks.task import Task

SEPARATE = ("textgrid", "srt", "vtt")
"""Formats that hold one recording."""


class TimingWriter:
    """Writes the transcripts of the examples that it has watched, in the same order."""

    def __init__(self, task: Task, timings: str, folder: Path | None) -> None:
        timings = timings.lower()
        if timings not in FORMATS:
            instead = "; --json without --timings prints JSON" if timings == "json" else ""
            raise ValueError(f"--timings: expected one of {', '.join(FORMATS)}, got {timings!r}{instead}")
        task.require_timings()
        self.task, self.timings, self.folder = task, timings, folder
        self.examples: deque[tuple[str, float]] = deque()  # name and length of those without an answer
        self.names: set[str] = set()  # of written files
        self.numbers: Counter[str] = Counter()  # of files that recordings of the same name have
        self.first: TimedText | None = None  # waits to be printed, in case there is another one

    def watch(self, examples: Iterable[Any]) -> Iterator[Any]:
        """The same examples."""
        for example in examples:
            self.examples.append((getattr(example, "name", ""), self.task.input_length(example)))
            yield example

    def write(self, predictions: Iterable[Any]) -> None:
        """Print or write the timings of predictions."""
        for prediction in predictions:
            name, duration = self.examples.popleft()
            text = self.task.timed_text(prediction, name=name, duration=duration)
            if self.folder is not None:
                self._write_file(text)
            elif self.timings not in SEPARATE:
                self._print(text, prefix=f"{text.name}\t" if self.timings == "tsv" and text.name else "")
            elif self.first is not None:
                raise ValueError(
                    f"--timings {self.timings}: a file holds one recording, but there are several; --output FOLDER "
                    "writes one for each"
                )
            else:
                self.first = text

    def finish(self) -> None:
        """Print what waits."""
        if self.first is not None:
            self._print(self.first)

    def _print(self, text: TimedText, prefix: str = "") -> None:
        lines = FORMATS[self.timings](text).removesuffix("\n").split("\n")
        terminal.print_lines(*(f"{prefix}{line}" for line in lines if line or not prefix))

    def _write_file(self, text: TimedText) -> None:
        assert self.folder is not None  # noqa: S101  only called with one
        stem = PurePath(text.name).stem or "recording"
        self.numbers[stem] += 1
        while (name := _numbered(stem, self.numbers[stem])) in self.names:
            self.numbers[stem] += 1
        self.names.add(name)
        path = self.folder / f"{name}{SUFFIXES[self.timings]}"
        files.write(path, FORMATS[self.timings](text))
        terminal.print_lines(str(path))


def _numbered(stem: str, number: int) -> str:
    return stem if number == 1 else f"{stem}-{number}"
