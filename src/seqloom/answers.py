"""The predictions of a model in order: a list that shows itself as a table, in text and in notebooks."""

from collections.abc import Iterable, Sequence
from dataclasses import fields
from typing import Any, SupportsIndex, overload

from seqloom import html
from seqloom.formats import format_percent, shorten

SHOWN = 10  # predictions
INPUT_LENGTH, VALUE_LENGTH = 50, 60  # characters


EMPTY_INPUT = "the input is empty, so that this answer says nothing about it"
"""The warning beside the answer to an empty input, which there is so that answers stay aligned with inputs."""


def describe_empty(count: int, total: int, *, first: str, answer: str = "answer") -> str:
    """How many inputs are empty, and where the first of them are."""
    are, answers = ("are", f"their {answer}s say") if count > 1 else ("is", f"its {answer} says")
    inputs = f"{count:,} of {total:,} inputs" if total > 1 else "the input"
    return f"{inputs} {are} empty ({first}): {answers} nothing"


def with_warning(answer: dict[str, Any], warning: str) -> dict[str, Any]:
    """An answer as JSON with a warning about its input; it may have one of its own."""
    return {**answer, "warning": "; ".join(filter(None, (answer.get("warning"), warning)))} if warning else answer


class Answers(list[Any]):
    """Predictions, one for each input. ``answers["label"]`` is the list of all labels, and so for any other field."""

    def __init__(self, answers: Iterable[Any], inputs: Sequence[str] = (), notes: Sequence[str] = ()) -> None:
        super().__init__(answers)
        self.inputs = list(inputs)  # texts to show beside the predictions
        self.notes = list(notes)  # sentences to show below them, such as that the model knows no word of an input

    @overload
    def __getitem__(self, index: SupportsIndex) -> Any: ...
    @overload
    def __getitem__(self, index: slice) -> "Answers": ...
    @overload
    def __getitem__(self, index: str) -> list[Any]: ...
    def __getitem__(self, index: SupportsIndex | slice | str) -> Any:
        """A prediction, a slice of them, or a field of each."""
        if isinstance(index, str):
            names = [field.name for field in fields(self[0])] if self else [index]
            if index not in names:
                raise KeyError(f"{index}; the predictions have {', '.join(names)}")
            return [getattr(answer, index) for answer in self]
        if isinstance(index, slice):
            return Answers(super().__getitem__(index), self.inputs[index])
        return super().__getitem__(index)

    def __reduce__(self) -> tuple[Any, ...]:
        return Answers, (list(self), self.inputs, self.notes)

    def __repr__(self) -> str:
        if not self:
            return "no predictions"
        if hasattr(self[0], "table"):
            blocks = ["\n".join(_lines(*answer.table())) for answer in self[:SHOWN]]
            return "\n".join(["\n\n".join(blocks), *self._more()])
        return "\n".join([*_lines(*self._table()), *self._more()])

    def _repr_html_(self) -> str:
        if not self:
            return html.remark("no predictions")
        columns, rows = self._table()
        shown = [
            [self._cell(name, cell, answer) for name, cell in zip(columns, row, strict=True)]
            for row, answer in zip(rows, self, strict=False)
        ]
        return html.block(html.table(columns, shown), *map(html.remark, self._more()))

    def _table(self) -> tuple[list[str], list[list[str]]]:
        """Headings and rows of texts: the input, and the fields that are single values."""
        shown = self[:SHOWN]
        scalars = [
            field.name
            for field in fields(shown[0])
            if all(isinstance(getattr(answer, field.name), str | int | float | bool) for answer in shown)
        ]
        if hasattr(shown[0], "_repr_html_"):
            scalars = []
        names = ["input"] if any(shown.inputs) else []
        columns = names + (scalars or ["prediction"])
        rows = []
        for number, answer in enumerate(shown):
            row = [shorten(shown.inputs[number], INPUT_LENGTH)] if names else []
            row += [_text(getattr(answer, name)) for name in scalars] or [_one_line(answer)]
            rows.append(row)
        return columns, rows

    def _cell(self, name: str, text: str, answer: Any) -> str:
        if name == "probability":
            return html.bar(answer.probability, format_percent(answer.probability, 1))
        if name == "prediction" and hasattr(answer, "_repr_html_"):
            content: str = answer._repr_html_()
            return content
        return html.escape(shorten(text, 2 * VALUE_LENGTH))

    def _more(self) -> list[str]:
        return [*([f"… {len(self) - SHOWN:,} more"] if len(self) > SHOWN else []), *self.notes]


def _lines(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """A table as lines of text."""
    cells = [columns, *([shorten(cell, VALUE_LENGTH) for cell in row] for row in rows)]
    widths = [max(len(row[index]) for row in cells) for index in range(len(columns))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in cells]


def _text(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _one_line(answer: Any) -> str:
    return " ".join(str(answer).replace("\t", "/").split("\n")).strip()
