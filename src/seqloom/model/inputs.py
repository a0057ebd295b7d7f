"""What a person gives to a model, such as a text, an array, a table or a file, as examples of its task."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from seqloom.data.readers import tables
from seqloom.data.readers.memory import as_source
from seqloom.data.readers.text_files import TABLE, DataError, resolve
from seqloom.formats import describe_type, shorten
from seqloom.tasks.task import PredictionOptions, Task

STANDARD_INPUT = {"format": "auto", "encoding": "utf-8"}
"""How standard input is read unless options say otherwise."""
FILE_NAME = re.compile(r"\S*[^\s.]\.[A-Za-z]\w{1,6}(\.gz)?|\S*[/\\]\S*|\$\w+\S*")
"""Strings that are taken for the names of files: one word with a suffix or a slash."""
SETTING = re.compile(r"(task|train)(\.[a-z_]+)+=.*", re.DOTALL)
AGAIN = "a text that looks like a file name is read from standard input"
"""How such a text is given on the command line."""


@dataclass(frozen=True)
class InputReader:
    """Reads the inputs of a fitted task."""

    task: Task

    def read(
        self,
        source: Any,  # the path of a file, or texts, arrays or a table
        *,
        file_format: str = "",  # instead of that of the training data
        encoding: str = "",
    ) -> Iterator[Any]:
        """The examples to predict; standard input, ``-``, has one on each line, in UTF-8, unless options are given."""
        source = resolve(source) if isinstance(source, str) else as_source(source)
        return self._input_task(source, file_format, encoding).read_inputs(source)

    def note(self, source: Any, *, file_format: str = "", encoding: str = "") -> str:
        """What ``read`` takes a file for, where that is not evident; empty: nothing to say."""
        source = resolve(source) if isinstance(source, str) else as_source(source)
        return self._input_task(source, file_format, encoding).input_note(source)

    def _input_task(self, source: Any, file_format: str, encoding: str) -> Task:
        defaults = STANDARD_INPUT if isinstance(source, Path) and source == Path("-") else {}
        options = {name: value for name, value in defaults.items() if name in self.task.option_fields}
        options |= _non_empty(format=file_format, encoding=encoding)
        return self.task.with_options(**cast(PredictionOptions, options))

    def source(self, source: Any, *, again: str = "") -> Any:
        """A string that names no file, and looks neither like one nor like a setting, as the only text of a list.

        ``again`` says how a text that looks like a file name is given.
        """
        if not isinstance(source, str) or self.task.inputs_are_files:
            return source
        try:
            return resolve(source)
        except DataError as error:
            again = again or f"a text is given in a list: predict([{shorten(source, 60)!r}])"
            if SETTING.fullmatch(source):
                settings = "settings are those of the training and cannot be changed any more"
                raise DataError(source, f"{settings}; {again}" if self.task.reads_text else settings) from None
            if not self.task.reads_text:
                raise
            if not FILE_NAME.fullmatch(source):
                return [source]
            raise DataError(error.location, f"{error.message}; {again}") from None

    def example(self, source: Any) -> Any:
        """One input as an example of the task; of a file, its first one."""
        return self.example_and_notes(source)[0]

    def example_and_notes(self, source: Any) -> tuple[Any, list[str]]:
        """The same, and a note if a file or a table has more examples."""
        if hasattr(source, "location"):  # already an example
            return source, []
        if self._has_examples(source):
            return self.first(source)
        check_not_empty(source)
        return next(iter(self.task.read_inputs([source]))), []

    def first(self, source: Any) -> tuple[Any, list[str]]:
        """The first example of a file or a table, and a note if there are more."""
        examples = iter(self.read(source))
        first = next(examples, None)
        place = source if isinstance(source, str | Path) else "data"
        if first is None:
            raise ValueError(f"{place}: there are no examples")
        try:
            is_only = next(examples, None) is None
        except DataError:  # there are more, which are not explained
            is_only = False
        identity = getattr(first, "identity", "")
        which = f"the first of several examples is explained{f' (id {identity})' if identity else ''}"
        notes = [f"{place}: {note}"] if (note := self.note(source)) else []
        return first, notes if is_only else [*notes, f"{place}: only {which}"]

    def _has_examples(self, source: Any) -> bool:
        """Whether a source is a file or a table, not one input."""
        named = isinstance(source, Path) or (isinstance(source, str) and self.task.inputs_are_files)
        return named or tables.is_table(source)

    def labelled(self, source: Any) -> tuple[Any, list[Any]]:
        """Labelled data as they are read, and their examples."""
        data = resolve(source) if isinstance(source, str) else as_source(source)
        examples = list(self.task.read(data))
        if not examples:
            raise ValueError(f"{source if isinstance(source, str | Path) else 'data'}: there are no examples")
        self.task.check_targets(examples)
        return data, examples

    def continued(self, prime: Any) -> Any:
        """The first example of what is to be continued; None: nothing is."""
        if prime is None or hasattr(prime, "location"):
            return prime
        source = resolve(prime) if isinstance(prime, str) else as_source(prime)
        example = next(iter(self.task.read(source)), None)
        if example is None:
            raise ValueError(f"{prime}: there are no examples")
        return example


def check_not_empty(source: Any) -> None:
    """Raise if there is nothing to explain."""
    if not hasattr(source, "__len__"):
        raise TypeError(f"expected a text or an array to explain, found {describe_type(source)}")
    if not len(source.strip() if isinstance(source, str) else source):
        raise ValueError("the input is empty: there is nothing to explain")


def origin(example: Any) -> str:
    """The file of an example, and its id or line there; empty: it was not read from a file."""
    file, line = example.location
    identity = getattr(example, "identity", "")
    if file in ("input", "standard input", TABLE):
        return ""
    return f"{file}, id {identity}" if identity else f"{file}, line {line}"


def _non_empty(**options: Any) -> dict[str, Any]:
    """The options that are not empty."""
    return {name: value for name, value in options.items() if value}
