"""A configuration as written: TOML files and ``section.key=value`` overrides, with the location of every value."""

import copy
import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, time
from pathlib import Path
from typing import Any, Self, TypeVar, cast

import tomli_w
from pydantic import BaseModel, ValidationError
from pydantic_core import to_jsonable_python

from seqloom.config.errors import ConfigError, Problem, find_problems, find_unknown, problems_of_table
from seqloom.config.hints import nearest_file
from seqloom.config.schema import ConfigSection, fields
from seqloom.config.toml import KeyPath, TOMLSyntaxError, dotted, literal, load

MAX_BYTES = 1_000_000  # of a file
COMMAND_LINE = "command line"
ARGUMENTS = "arguments"
_DATA_FILE = "if this is a data file, use --task TASK --data FILE"
Section = TypeVar("Section", bound=ConfigSection)


@dataclass(frozen=True)
class Document:
    """The values of a configuration, and the line of each."""

    name: str
    values: dict[str, Any]
    lines: dict[KeyPath, int]  # 0: given on the command line, or as arguments of a function
    origin: str = COMMAND_LINE  # where values without a line come from

    @classmethod
    def empty(cls, overrides: Sequence[str] = (), *, values: Mapping[str, Any] | None = None) -> Self:
        """A document without a file: ``values`` by ``section.key``, changed by ``section.key=value``."""
        nested: dict[str, Any] = {}
        for name, value in (values or {}).items():
            *path, last = name.split(".")
            table = nested
            for step in path:
                table = table.setdefault(step, {})
            table[last] = value
        lines: dict[KeyPath, int] = {(): 0}
        if problems := _override(nested, lines, overrides=overrides):
            raise ConfigError(*problems)
        return cls(COMMAND_LINE, nested, lines)

    def with_arguments(self, values: Mapping[str, Any]) -> Self:
        """The same document with values by ``section.key`` that are arguments of a function; tables are merged."""
        changed: dict[str, Any] = copy.deepcopy(self.values)
        lines = dict(self.lines)
        for name, value in values.items():
            _set(changed, lines, tuple(name.split(".")), value)
        return replace(self, values=changed, lines=lines, origin=ARGUMENTS)

    def with_overrides(self, overrides: Sequence[str]) -> Self:
        """A copy changed by ``section.key=value``, as on the command line."""
        values, lines = copy.deepcopy(self.values), dict(self.lines)
        if problems := _override(values, lines, overrides=overrides):
            raise ConfigError(*problems)
        return replace(self, values=values, lines=lines)

    def with_defaults(self, defaults: Mapping[str, Any]) -> Self:
        """A document that also has these values by ``section.key``, where it says nothing else.

        The defaults of a table with a ``name``, such as a search, are meant for that name only.
        """
        values = copy.deepcopy(self.values)
        for name, default in defaults.items():
            *path, last = name.split(".")
            table: Any = values
            for step in path:
                table = table.setdefault(step, {}) if isinstance(table, dict) else {}
            named = defaults.get(".".join((*path, "name")))
            if isinstance(table, dict) and (named is None or table.get("name", named) == named):
                table.setdefault(last, default)
        return replace(self, values=values)

    def get(self, name: str) -> Any | None:
        """The value of ``task.name``, or None."""
        value: Any = self.values
        for step in name.split("."):
            value = value.get(step) if isinstance(value, dict) else None
        return value

    def location(self, name: str) -> str:
        """Where ``task.name`` is set, or else its table: ``file:line`` or ``command line``."""
        return self._location(tuple(name.split(".")))

    def build(self, **sections: type[ConfigSection]) -> dict[str, ConfigSection]:
        """Each table as its section; ConfigError with everything that is wrong, in the order of the lines."""
        self._refuse(find_problems(sections, self.values))
        tables = {name: json.dumps(self.values.get(name, {})) for name in sections}
        return {name: section.model_validate_json(tables[name]) for name, section in sections.items()}

    def check_table(
        self, name: str, section: type[BaseModel], *, may_be_wrong: Callable[[str], bool] = lambda _: False
    ) -> None:
        """ConfigError with what is wrong in a table, as far as that does not depend on the others.

        ``may_be_wrong`` says of which keys the section may be outdated.
        """
        table = self.values.get(name, {})
        problems = problems_of_table(name, section, table) if isinstance(table, dict) else []
        self._refuse([problem for problem in problems if not may_be_wrong(str(problem.path[-1]))])

    def check_keys(
        self,
        name: str,
        keys: Mapping[KeyPath, bool],  # True for tables
        *,
        may_exist: Callable[[str], bool] = lambda _: False,  # whether ``keys`` may lack a key of this name
    ) -> None:
        """ConfigError with the keys of a table that do not exist."""
        table = self.values.get(name, {})
        problems = find_unknown((name,), table, keys) if isinstance(table, dict) else ()
        self._refuse([problem for problem in problems if not may_exist(str(problem.path[-1]))])

    def _refuse(self, problems: list[Problem]) -> None:
        if problems:
            problems.sort(key=lambda problem: self._line(problem.path) or sys.maxsize)
            raise ConfigError(*(f"{self._location(path)}: {message}" for path, message in problems))

    def _line(self, path: KeyPath) -> int:
        while path not in self.lines:
            path = path[:-1]
        return self.lines[path]

    def _location(self, path: KeyPath) -> str:
        line = self._line(path)
        return f"{self.name}:{line}" if line else self.origin


def read(path: Path, overrides: Sequence[str] = ()) -> Document:
    """The configuration of a file with ``section.key=value`` overrides."""
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        near = nearest_file(path)
        raise ConfigError(f"{path}: no such file" + (f"; did you mean {near}?" if near else "")) from None
    except OSError as error:
        raise ConfigError(f"{path}: cannot read the configuration: {error.strerror}") from None
    if len(content) > MAX_BYTES:
        raise ConfigError(f"{path}: not a configuration: larger than {MAX_BYTES:,} bytes; {_DATA_FILE}")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"{path}:{line}: not UTF-8 text: byte 0x{content[error.start]:02x}") from None
    return parse(text, str(path), overrides=overrides)


def parse(text: str, name: str, *, overrides: Sequence[str] = ()) -> Document:
    """The configuration of a text; ``name`` is its file name in error messages."""
    values: dict[str, Any] = {}
    lines: dict[KeyPath, int] = {}
    problems = []
    try:
        values, lines = load(text)
    except TOMLSyntaxError as error:
        hint = "" if name.endswith(".toml") else f"; {_DATA_FILE}"
        problems.append(f"{name}:{error.line}: {error}{hint}")
    lines[()] = 1
    problems += _override(values, lines, overrides=overrides)
    if problems:
        raise ConfigError(*problems)
    return Document(name, values, lines)


def parse_section(section: type[Section], table: str, pairs: Iterable[str], **values: Any) -> Section:
    """A section from ``key=value`` texts of the command line and from ``values``; ``table`` is its name in errors."""
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals or not _is_text(pair):
            raise ConfigError(f"{COMMAND_LINE}: invalid option {pair!r} of {table}; expected key=value in UTF-8")
        values[name] = _value(text)
    return _build(section, table, values)


def with_changes(section: Section, table: str, changes: Mapping[str, Any]) -> Section:
    """A validated copy of a section with some fields changed; ``table`` is its name in errors."""
    values = {name: getattr(section, name) for name in type(section).model_fields} | dict(changes)
    try:
        return type(section).model_validate(values)
    except ValidationError:
        hidden = type(section).model_fields.keys() - fields(type(section))
        plain = {name: value for name, value in values.items() if name not in hidden and value is not None}
        _build(type(section), table, to_jsonable_python(plain, exclude_none=True))  # raises ConfigError
        raise


def dump(**sections: ConfigSection) -> str:
    """All fields of the sections as TOML, defaults included, so that a later change of a default has no effect."""
    return tomli_w.dumps(
        {name: section.model_dump(mode="json", exclude_none=True) for name, section in sections.items()}
    )


def _build(section: type[Section], table: str, values: dict[str, Any]) -> Section:
    built = Document(COMMAND_LINE, {table: values}, {(): 0}).build(**{table: section})
    return cast(Section, built[table])


def _override(values: dict[str, Any], lines: dict[KeyPath, int], *, overrides: Sequence[str]) -> list[str]:
    """Set values from ``section.key=value``; returns the problems."""
    problems = []
    for override in overrides:
        name, equals, text = override.partition("=")
        path = _path(name)
        if not _is_text(override):
            problems.append(f"{COMMAND_LINE}: the override {override!r} is not UTF-8")
            continue
        if not equals or not path:
            example = f"{name}=VALUE" if len(path) > 1 else "train.epochs=5"
            problems.append(
                f"{COMMAND_LINE}: {override!r} is not an override; write section.key=value, such as {example}"
            )
            continue
        table: Any = values
        for depth, step in enumerate(path[:-1], start=1):
            lines.setdefault(path[:depth], 0)
            table = table.setdefault(step, {})
            if not isinstance(table, dict):
                reason = f"{dotted(path[:depth])} is {literal(table)}, not a table"
                problems.append(f"{COMMAND_LINE}: cannot set {dotted(path)}: {reason}")
                break
        else:
            table[path[-1]] = _value(text)
            for known in [known for known in lines if known[: len(path)] == path]:
                del lines[known]
            lines[path] = 0
    return problems


def _set(values: dict[str, Any], lines: dict[KeyPath, int], path: tuple[str, ...], value: Any) -> None:
    """Set a value, or all values of a table, that has no line."""
    if isinstance(value, dict) and value:
        for name, inner in value.items():
            _set(values, lines, (*path, str(name)), inner)
        return
    table = values
    for depth, step in enumerate(path[:-1], start=1):
        lines.setdefault(path[:depth], 0)
        if not isinstance(table.get(step), dict):
            table[step] = {}
        table = table[step]
    table[path[-1]] = value
    for known in [known for known in lines if known[: len(path)] == path]:
        del lines[known]
    lines[path] = 0


def _is_text(argument: str) -> bool:
    """False for bytes that are not UTF-8, which Python holds as surrogates."""
    return not any("\ud800" <= character <= "\udfff" for character in argument)


def _path(name: str) -> tuple[str, ...]:
    """The steps of a dotted key; empty if it is not a key."""
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
    """A value of TOML, or else the text itself; dates stay text, as no section has dates."""
    try:
        (value,) = load(f"only = {{ value = {text} }}")[0].values()  # braces allow neither comment nor new line
    except ValueError:
        return text
    return text if value.keys() != {"value"} or isinstance(value["value"], date | time) else value["value"]
