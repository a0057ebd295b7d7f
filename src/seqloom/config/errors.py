"""Errors of a configuration: those of pydantic with the key, the value, and the nearest name."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import date, time
from typing import Any, NamedTuple

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from seqloom.config.hints import belongs_to_its_table, nearest, suggestions
from seqloom.config.schema import (
    Sections,
    all_keys,
    choices,
    discriminator,
    element,
    fields,
    is_section,
    member_for,
    members,
    nested,
    tagged,
)
from seqloom.config.toml import KeyPath, dotted, literal, one_of

Keys = Mapping[KeyPath, bool]  # True for tables

_REWORDED = (  # a sentence of pydantic → what is expected, in terms of TOML
    (r"Input should be (?=greater|less)", "a number "),
    (r"Input should be an object", "a table"),
    (r"Input should be a valid array", "a list"),
    (r"Input should be a valid boolean", "true or false"),
    (r"Input should be a valid (?=integer)", "an "),
    (r"Input should be a valid", "a"),
    (r"Input should be ", ""),
    (r"String should have ", ""),
    (r"Tuple should have (.*) after validation.*", r"\1"),
    (r"String should match", "a string that matches"),
)


class ConfigError(ValueError):
    """An invalid configuration; each line of the message is ``file:line: problem`` or ``command line: problem``."""

    def __init__(self, *lines: str) -> None:
        super().__init__("\n".join(lines))


def argument_error(name: str, error: ValidationError) -> ConfigError:
    """The error for wrong arguments of a section that is built in Python, such as ``Beam(size=0)``."""
    lines = []
    for problem in error.errors(include_url=False):
        key = ".".join(map(str, problem["loc"]))
        match problem["type"]:
            case "missing":
                lines.append(f"{name}: missing argument {key}")
            case "extra_forbidden":
                lines.append(f"{name}: unknown argument {key}")
            case "value_error" | "assertion_error":
                lines.append(f"{name}: {key + ': ' if key else ''}{problem['ctx']['error']}")
            case _:
                lines.append(f"{name}: {key}: expected {_reworded(problem['msg'])}, got {problem['input']!r:.60}")
    return ConfigError(*lines)


class Problem(NamedTuple):
    """One error of a configuration."""

    path: KeyPath  # of a missing key: the table that lacks it
    message: str


class _Located(NamedTuple):
    """An error of pydantic, and the value that it is about."""

    error: ErrorDetails
    path: KeyPath
    annotation: Any
    value: Any
    owner: Any  # the section that the value is a field of, if it is one
    unions: tuple[KeyPath, ...]  # the values on the way that may have several types


def find_problems(sections: Sections, values: Mapping[str, Any]) -> list[Problem]:
    """Everything that keeps the tables from being the sections; empty if strict validation succeeds."""
    keys = all_keys(sections)
    problems = [_unknown((name,), value, keys=keys) for name, value in values.items() if name not in sections]
    for name, section in sections.items():
        cleaned = _clean(section, values.get(name, {}), (name,), keys=keys, problems=problems)
        reported = {problem.path for problem in problems}
        try:
            section.model_validate_json(json.dumps(cleaned))
        except ValidationError as invalid:
            errors = [
                _locate(section, cleaned, (name,), error=error)
                for error in invalid.errors(include_url=False)
                if error["type"] != "default_factory_not_called"  # a default that depends on another wrong value
            ]
            wrong = {error.path[:-1] for error in errors}  # lists with wrong items, which are not counted
            errors = [error for error in errors if error.error["type"] != "too_short" or error.path not in wrong]
            problems += (problem for problem in _describe(errors, keys=keys) if problem.path not in reported)
    return problems


def problems_of_table(name: str, section: type[BaseModel], values: Mapping[str, Any]) -> list[Problem]:
    """The problems of a table that do not depend on others: wrong values, typos and synonyms of its keys."""
    keys = all_keys({name: section})
    return [
        problem
        for problem in find_problems({name: section}, {name: values})
        if len(problem.path) > 1 and (problem.path in keys or belongs_to_its_table(problem.path, keys))
    ]


def find_unknown(path: KeyPath, table: Mapping[str, Any], keys: Keys) -> Iterator[Problem]:
    """The keys of a table, and of the tables in it, that are not among ``keys``, where a similar one is."""
    for name, value in table.items():
        here, is_table = (*path, name), isinstance(value, dict)
        if here not in keys and suggestions(here, keys, table=is_table):
            yield _unknown(here, value, keys=keys, allowed={})
        elif keys.get(here) and is_table:
            yield from find_unknown(here, value, keys)


def _clean(annotation: Any, value: Any, path: KeyPath, *, keys: Keys, problems: list[Problem]) -> Any:
    """The value without what JSON cannot hold and what a file may not set; a problem for each."""
    if isinstance(value, dict):
        section = member_for(annotation, value)
        settable = fields(section) if is_section(section) else {}
        kept = {}
        for name, item in value.items():
            if is_section(section) and name in section.model_fields and name not in settable:
                problems.append(_unknown((*path, name), item, keys=keys, allowed=settable))
            else:
                inner = element(annotation, value, name)
                kept[name] = _clean(inner, item, (*path, name), keys=keys, problems=problems)
        return kept
    if isinstance(value, list):
        return [
            _clean(element(annotation, value, index), item, (*path, index), keys=keys, problems=problems)
            for index, item in enumerate(value)
        ]
    if isinstance(value, date | time):
        problems.append(Problem(path, f"{dotted(path)}: dates and times need quotes, got {literal(value)}"))
        return str(value)
    return value


def _locate(section: type[BaseModel], table: Any, path: KeyPath, *, error: ErrorDetails) -> _Located:
    """Follow pydantic's location, in which the type that was tried of a union is a step of its own."""
    annotation: Any = section
    declared, value, owner, unions = annotation, table, None, []
    for step in error["loc"]:
        if len(members(annotation)) > 1:
            unions.append(path)
            annotation = member_for(annotation, value)
        else:
            exists = step in value if isinstance(value, dict) else isinstance(step, int) and step < len(value)
            owner = member_for(annotation, value)
            declared = annotation = element(annotation, value, step)
            value, path = value[step] if exists else None, (*path, step)
    return _Located(error, path, declared, value, owner if is_section(owner) else None, tuple(unions))


def _describe(located: Iterable[_Located], *, keys: Keys) -> Iterator[Problem]:
    """A problem for each place; what the types of a union expect is joined by ``or``."""
    entered = {union for error in located for union in error.unions if len(error.path) > len(union)}
    places: dict[KeyPath, list[_Located]] = {}
    for error in located:
        if error.path not in entered:  # another type of the union fits, but for something inside
            places.setdefault(error.path, []).append(error)
    for path, errors in places.items():
        if problem := _structural(errors[0], keys=keys):
            yield problem
        else:
            expected = [_expected(error) for error in errors if error.error["type"] != "extra_forbidden"]
            column = (*path[:-1], f"{path[-1]}_column")
            if expected == ["a table"] and isinstance(errors[0].value, str) and column in keys:
                hint = f'; did you mean "{dotted(column)}"?'
                yield Problem(path, f"{dotted(path)}: expected a table, got {_short(errors[0].value)}{hint}")
                continue
            yield _mismatch(path, errors[0].value, expected=expected, allowed=choices(errors[0].annotation))


def _structural(located: _Located, *, keys: Keys) -> Problem | None:
    """The problem of a key that is unknown or missing, or that a validator of ours rejects."""
    error, path, annotation, value, owner, _ = located
    match error["type"]:
        case "extra_forbidden":
            return _unknown(path, value, keys=keys, allowed=fields(owner) if owner else {})
        case "missing":
            return _missing(path, owner.model_fields[path[-1]] if owner else None)
        case "union_tag_not_found" | "union_tag_invalid":
            sections = nested(annotation)
            path, tags = (*path, discriminator(sections)), list(tagged(sections))
            if error["type"] == "union_tag_invalid":
                return _mismatch(path, value[path[-1]], expected=[one_of(tags)], allowed=tags)
            return Problem(path[:-1], f'missing key "{dotted(path)}"; expected {one_of(tags)}')
        case "value_error" | "assertion_error":
            where = f"[{dotted(path)}]" if isinstance(value, dict) else f"{dotted(path)} = {_short(value)}"
            return Problem(path, f"{where}: {' '.join(str(error['ctx']['error']).split())}")
    return None


def _expected(located: _Located) -> str:
    if located.error["type"] == "literal_error":
        return one_of(choices(located.annotation))
    return _reworded(located.error["msg"])


def _reworded(message: str) -> str:
    for sentence, expectation in _REWORDED:
        message = re.sub(f"^{sentence}", expectation, message)
    return message


def _mismatch(path: KeyPath, value: Any, *, expected: list[str], allowed: Iterable[Any]) -> Problem:
    text = " or ".join(dict.fromkeys(expected))
    names = [name for name in allowed if isinstance(name, str)]
    near = nearest(value, names) if isinstance(value, str) and len(names) > 1 else ""
    hint = f'; did you mean "{near}"?' if near else ""
    return Problem(path, f"{dotted(path)}: expected {text}{';' if ': ' in text else ','} got {_short(value)}{hint}")


def _unknown(path: KeyPath, value: Any, *, keys: Keys, allowed: Mapping[str, FieldInfo] | None = None) -> Problem:
    """A key or table that does not exist; ``allowed`` are the fields of its table, None at the top level."""
    here = {(*path[:-1], name): bool(nested(field.annotation)) for name, field in (allowed or {}).items()}
    known, table = {**keys, **here}, isinstance(value, dict)
    if path not in keys and (near := suggestions(path, known, table=table)):  # otherwise a field of another section
        hint = f"did you mean {' or '.join(_name(key, table=known[key]) for key in near)}?"
    elif allowed is None:
        hint = f"allowed tables: {', '.join(f'[{dotted(key)}]' for key in keys if len(key) == 1)}"
    else:
        hint = f"allowed keys: {', '.join(allowed) or 'none'}"
    return Problem(path, f"unknown {'table' if table else 'key'} {_name(path, table=table)}; {hint}")


def _missing(path: KeyPath, field: FieldInfo | None) -> Problem:
    if not field:
        return Problem(path[:-1], f"missing value {dotted(path)}")
    tables, allowed = nested(field.annotation), choices(field.annotation)
    about = f": {field.description}" if field.description else f"; expected {one_of(allowed)}" if allowed else ""
    return Problem(path[:-1], f"missing {'table' if tables else 'key'} {_name(path, table=bool(tables))}{about}")


def _name(path: KeyPath, *, table: bool) -> str:
    return f"[{dotted(path)}]" if table else f'"{dotted(path)}"'


def _short(value: Any) -> str:
    text = literal(value)
    return text if len(text) <= 60 else f"{text[:57]}…"
