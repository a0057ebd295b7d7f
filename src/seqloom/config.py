"""Typed parts of a configuration ↔ TOML, with errors that name file, line and the nearest word."""

import json
import sys
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, time
from pathlib import Path
from typing import Any, Self

import tomli_w
from pydantic import BaseModel, ConfigDict
from pydantic.fields import FieldInfo
from pydantic_core import to_jsonable_python

from seqloom.toml_places import Steps, TOMLSyntaxError, load
from seqloom.wording import choices, dotted, fields, key, literal, problems, suggest, tables, tag, wanted

LARGEST = 1_000_000  # bytes of a file
COMMAND_LINE = "command line"
COLUMNS = 120  # of a template


class ConfigSection(BaseModel):
    """A frozen, typed piece of configuration: the object that a table of the TOML file describes.

    Each field says on its own line what it is (``Field(description=...)``); its default is written there and nowhere
    else. A field that may be None has None as its default, since TOML cannot say None. A field with ``exclude=True``
    is no configuration: a file can neither set it nor show it.
    """

    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, arbitrary_types_allowed=True, ser_json_inf_nan="constants"
    )


class ConfigError(ValueError):
    """A configuration that cannot be used; each line is ``file:line: message`` or ``command line: message``."""

    def __init__(self, *lines: str) -> None:
        super().__init__("\n".join(lines))


@dataclass(frozen=True)
class Document:
    """A configuration as written: values, and where each of them stands."""

    name: str
    values: dict[str, Any]
    lines: dict[Steps, int]  # 0: given on the command line

    @classmethod
    def empty(cls, overrides: Sequence[str] = ()) -> Self:
        """A document that the command line alone fills."""
        values: dict[str, Any] = {}
        lines: dict[Steps, int] = {(): 0}
        if wrong := _override(values, lines, overrides=overrides):
            raise ConfigError(*wrong)
        return cls(COMMAND_LINE, values, lines)

    def get(self, name: str) -> Any | None:
        """The value of ``task.name``, or None."""
        value: Any = self.values
        for step in name.split("."):
            value = value.get(step) if isinstance(value, dict) else None
        return value

    def place(self, name: str) -> str:
        """Where ``task.name`` stands, or else the table that it would stand in: ``file:line`` or ``command line``."""
        return self._place(tuple(name.split(".")))

    def build(self, **parts: type[ConfigSection]) -> dict[str, ConfigSection]:
        """Each table as its part; ConfigError with everything that is not as the parts want it."""
        found = problems(parts, self.values)
        if found:
            found.sort(key=lambda problem: self._line(problem.path) or sys.maxsize)
            raise ConfigError(*(f"{self._place(path)}: {message}" for path, message in found))
        tables = {name: json.dumps(self.values.get(name, {})) for name in parts}
        return {name: part.model_validate_json(tables[name]) for name, part in parts.items()}

    def _line(self, path: Steps) -> int:
        while path not in self.lines:
            path = path[:-1]
        return self.lines[path]

    def _place(self, path: Steps) -> str:
        line = self._line(path)
        return f"{self.name}:{line}" if line else COMMAND_LINE


def read(path: Path, overrides: Sequence[str] = ()) -> Document:
    """The configuration in a file, changed by ``section.key=value``."""
    try:
        with path.open("rb") as file:
            content = file.read(LARGEST + 1)
    except OSError as error:
        raise ConfigError(f"{path}:1: cannot be read: {error.strerror}") from None
    if len(content) > LARGEST:
        raise ConfigError(f"{path}:1: is larger than {LARGEST:,} bytes, wanted a configuration")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"{path}:{line}: is not UTF-8 text: found byte 0x{content[error.start]:02x}") from None
    return parse(text, str(path), overrides=overrides)


def parse(text: str, name: str, *, overrides: Sequence[str] = ()) -> Document:
    """The configuration in a text; ``name`` stands for the file in errors."""
    values: dict[str, Any] = {}
    lines: dict[Steps, int] = {}
    wrong = []
    try:
        values, lines = load(text)
    except TOMLSyntaxError as error:
        wrong.append(f"{name}:{error.line}: {error}")
    lines[()] = 1
    wrong += _override(values, lines, overrides=overrides)
    if wrong:
        raise ConfigError(*wrong)
    return Document(name, values, lines)


def _override(values: dict[str, Any], lines: dict[Steps, int], *, overrides: Sequence[str]) -> list[str]:
    """Set values from ``section.key=value``; returns what is wrong with them."""
    wrong = []
    for override in overrides:
        name, equals, text = override.partition("=")
        path = _path(name)
        if not equals or not path or not _is_text(override):
            wrong.append(f"{COMMAND_LINE}: {override!r} is no override, wanted section.key=value in UTF-8")
            continue
        table: Any = values
        for depth, step in enumerate(path[:-1], start=1):
            lines.setdefault(path[:depth], 0)
            table = table.setdefault(step, {})
            if not isinstance(table, dict):
                wrong.append(
                    f"{COMMAND_LINE}: {override!r} needs a table [{dotted(path[:depth])}], found {literal(table)}"
                )
                break
        else:
            table[path[-1]] = _value(text)
            for known in [known for known in lines if known[: len(path)] == path]:
                del lines[known]
            lines[path] = 0
    return wrong


def _is_text(argument: str) -> bool:
    """Python holds bytes of an argument that are no UTF-8 as surrogates."""
    return not any("\ud800" <= character <= "\udfff" for character in argument)


def _path(name: str) -> tuple[str, ...]:
    """The steps of a dotted key; none where it is no key."""
    try:
        inner: Any = {} if "\n" in name else load(f"{name} = 0")[0]
    except TOMLSyntaxError:
        return ()
    steps = []
    while inner:
        ((step, inner),) = inner.items()
        steps.append(step)
    return tuple(steps)


def _value(text: str) -> Any:
    """A value of TOML, or else the text itself; as no part holds dates, neither does the command line."""
    try:
        (value,) = load(f"only = {{ value = {text} }}")[0].values()  # braces allow neither comment nor new line
    except ValueError:
        return text
    return text if value.keys() != {"value"} or isinstance(value["value"], date | time) else value["value"]


def dump(**parts: ConfigSection) -> str:
    """All fields of the parts as TOML, so that a later change of a default changes nothing."""
    return tomli_w.dumps({name: part.model_dump(mode="json", exclude_none=True) for name, part in parts.items()})


def template(parts: Mapping[str, type[ConfigSection]], values: Mapping[str, Any] | None = None) -> str:
    """A complete TOML with a comment for each key: its default, or what ``values`` has for ``section.key``.

    A required field needs such a value or ``Field(examples=[...])``.
    """
    writer = _Template(values or {})
    written = [
        table for name, part in parts.items() for table in writer.tables(part, (name,), about=_about(part), kinds={})
    ]
    if strange := sorted(writer.values.keys() - writer.known):
        raise ValueError(f"the template has no key {strange[0]}{suggest(strange[0], writer.known)}")
    return "\n".join(written)


class _Template:
    def __init__(self, values: Mapping[str, Any]) -> None:
        self.values = values  # by dotted key
        self.known: set[str] = set()

    def tables(
        self,
        part: type[BaseModel],
        path: tuple[str, ...],
        *,
        about: str,
        default: Any = None,  # an instance of the part, whose values come before the defaults of its fields
        kinds: Mapping[str, list[Any]],  # where there are several parts: the key that tells them apart, its values
        absent: bool = False,  # the table is optional: all of it is a comment
    ) -> Iterator[str]:
        rows, inner = [], []
        for name, field in fields(part).items():
            here = (*path, name)
            value = self.value(field, here, default=default, absent=absent)
            if tables(field.annotation) and (value is None or isinstance(value, BaseModel)):
                inner.append((field, here, value))
                continue
            among = f"O{wanted(field.annotation)[1:]}." if len(choices(field.annotation)) > 1 else ""
            if name in kinds:
                among = f"One of {', '.join(map(literal, kinds[name]))}; each has keys of its own."
            rows.append((_assign(name, value, field=field, absent=absent), [field.description or "", among]))
        lines = [*_comment(about, columns=COLUMNS), f"[{dotted(path)}]", *_align(rows, COLUMNS - 2 * absent)]
        yield "".join(f"{line}\n" if line.startswith("#") or not absent else f"# {line}\n" for line in lines)
        for field, here, value in inner:
            yield from self.table(field, here, value=value, absent=absent)

    def table(self, field: FieldInfo, path: tuple[str, ...], *, value: Any, absent: bool) -> Iterator[str]:
        """The table of a field that holds a part: of the default's kind, or of the kind that ``values`` names."""
        parts = tables(field.annotation)
        name = tag(parts) if len(parts) > 1 else ""
        kinds = {choice: part for part in parts if name for choice in choices(part.model_fields[name].annotation)}
        part = kinds.get(self.values.get(dotted((*path, name))), parts[0] if value is None else type(value))
        given = any(name.startswith(f"{dotted(path)}.") for name in self.values)
        yield from self.tables(
            part,
            path,
            about=field.description or _about(part),
            default=value if isinstance(value, part) else None,
            kinds={name: list(kinds)} if name else {},
            absent=absent or (value is None and not field.is_required() and not given),
        )

    def value(self, field: FieldInfo, path: tuple[str, ...], *, default: Any, absent: bool) -> Any:
        name = dotted(path)
        self.known.add(name)
        if name in self.values:
            return self.values[name]
        if default is not None:
            return getattr(default, path[-1])
        if not field.is_required():
            return field.get_default(call_default_factory=True)
        examples = [*(field.examples or []), *choices(field.annotation)]
        if not examples and not tables(field.annotation) and not absent:
            raise ValueError(f"{name} has no default and no example")
        return examples[0] if examples else None


def _about(part: type[BaseModel]) -> str:
    return (part.__doc__ or "").strip().partition("\n")[0]


def _assign(name: str, value: Any, *, field: FieldInfo, absent: bool) -> str:
    """``key = value``, as a comment where there is no value."""
    if value is None:
        example = literal(to_jsonable_python(field.examples[0])) if field.examples else "…"
        return f"{'' if absent else '# '}{key(name)} = {example}"
    plain = to_jsonable_python(value, exclude_none=True)
    line = f"{key(name)} = {literal(plain)}"
    return line if len(line) < COLUMNS or not isinstance(plain, list) else tomli_w.dumps({name: plain}).rstrip()


def _align(rows: Sequence[tuple[str, list[str]]], columns: int) -> Iterator[str]:
    """Comments behind the values in one column, continued below; above a value that is wide."""
    widest = columns // 2 - 12
    column = max((len(text) for text, comment in rows if any(comment) and len(text) <= widest), default=0) + 2
    for text, comment in rows:
        if len(text) > widest or not any(comment):
            yield from _comment(*comment, columns=columns)
            yield from text.split("\n")
        else:
            first, *others = _comment(*comment, columns=columns - column)
            yield f"{text:{column}}{first}"
            yield from (f"{'':{column}}{other}" for other in others)


def _comment(*sentences: str, columns: int) -> list[str]:
    """On one line where they fit, each on lines of its own where they do not."""
    joined = f"# {' '.join(filter(None, sentences))}".rstrip()
    if len(joined) <= columns:
        return [joined] if any(sentences) else []
    wrap = textwrap.TextWrapper(columns, initial_indent="# ", subsequent_indent="# ", break_on_hyphens=False).wrap
    return [line for sentence in sentences for line in wrap(sentence)]
