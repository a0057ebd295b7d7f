"""What is wrong with a configuration, in our words: the key, what was found, what is wanted and the nearest word."""

import json
from collections.abc import Iterable, Mapping
from datetime import date, time
from difflib import get_close_matches
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin

import tomli_w
from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from seqloom.toml_places import Steps

_KINDS = {  # bool before int, of which it is a kind
    bool: ("true or false", "Booleans"),
    int: ("a whole number", "whole numbers"),
    float: ("a number", "numbers"),
    str: ("text", "texts"),
    Path: ("text", "texts"),
    dict: ("a table", "tables"),
    BaseModel: ("a table", "tables"),
    list: ("a list", "lists"),
    tuple: ("a list", "lists"),
    time: ("a time", "times"),
    date: ("a date", "dates"),
}
_LIMITS = {
    "greater_than_equal": "at least {ge}",
    "greater_than": "more than {gt}",
    "less_than_equal": "at most {le}",
    "less_than": "less than {lt}",
    "multiple_of": "a multiple of {multiple_of}",
    "finite_number": "finite",
    "string_too_short": "at least {min_length} characters long",
    "string_too_long": "at most {max_length} characters long",
    "string_pattern_mismatch": "of the form {pattern}",
    "too_short": "at least {min_length} values long",
    "too_long": "at most {max_length} values long",
}


class Problem(NamedTuple):
    """A sentence about a place."""

    path: Steps  # where it is; of a missing key: its table
    message: str


def problems(parts: Mapping[str, type[BaseModel]], values: Mapping[str, Any]) -> list[Problem]:
    """All that keeps the tables from being the parts; nothing where strict validation will succeed."""
    homes: dict[str, list[str]] = {}
    for name, part in parts.items():
        _settle(part, (name,), homes=homes)
    found = [_unknown((name,), value, parts, homes=homes) for name, value in values.items() if name not in parts]
    for name, part in parts.items():
        found += _check(part, values.get(name, {}), (name,), homes=homes)
    return found


def suggest(word: str, allowed: Iterable[str], *, before: str = '"', after: str = '"') -> str:
    """``: did you mean "hidden"?`` or nothing."""
    plain = {name.lower().replace("-", "_"): name for name in allowed}
    near = get_close_matches(word.lower().replace("-", "_"), plain, n=1)
    return f": did you mean {before}{plain[near[0]]}{after}?" if near else ""


def dotted(path: Iterable[str | int]) -> str:
    """``task.layers[2].hidden``."""
    parts = [f"[{part}]" if isinstance(part, int) else f".{key(part)}" for part in path]
    return "".join(parts).removeprefix(".")


def key(name: str) -> str:
    """A key as TOML writes it, with quotes where needed."""
    return tomli_w.dumps({name: 0}).removesuffix(" = 0\n")


def literal(value: Any) -> str:
    """A value as TOML writes it, on one line."""
    if isinstance(value, Mapping):
        inner = ", ".join(f"{key(name)} = {literal(item)}" for name, item in value.items())
        return f"{{ {inner} }}" if inner else "{}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(literal, value))}]"
    return tomli_w.dumps({"x": value}).removeprefix("x = ").removesuffix("\n")


def members(annotation: Any) -> list[Any]:
    """What a value of this type may be, besides None."""
    while get_origin(annotation) is Annotated:
        annotation = get_args(annotation)[0]
    if get_origin(annotation) in (Union, UnionType):
        return [member for inner in get_args(annotation) for member in members(inner)]
    return [] if annotation in (None, NoneType) else [annotation]


def choices(annotation: Any) -> list[Any]:
    """The values that a Literal allows; nothing for other types."""
    return [value for member in members(annotation) if get_origin(member) is Literal for value in get_args(member)]


def tables(annotation: Any) -> list[type[BaseModel]]:
    """The parts among the members of a type."""
    return [member for member in members(annotation) if isinstance(member, type) and issubclass(member, BaseModel)]


def fields(part: type[BaseModel]) -> dict[str, FieldInfo]:
    """The fields that a file may set: what is excluded from a dump is no configuration."""
    return {name: field for name, field in part.model_fields.items() if not field.exclude}


def tag(parts: Iterable[type[BaseModel]]) -> str:
    """The field that tells these parts apart: a Literal in each of them."""
    literals = [{name for name, field in part.model_fields.items() if choices(field.annotation)} for part in parts]
    shared = set.intersection(*literals) if literals else set()
    return next((name for part in parts for name in part.model_fields if name in shared), "")


def _settle(part: type[BaseModel], path: Steps, *, homes: dict[str, list[str]]) -> None:
    """Note for each field the tables that have it."""
    for name, field in fields(part).items():
        homes.setdefault(name, []).append(dotted(path))
        for inner in tables(field.annotation):
            _settle(inner, (*path, name), homes=homes)


def _unknown(path: Steps, value: Any, allowed: Iterable[str], *, homes: Mapping[str, list[str]]) -> Problem:
    """A key or table that nobody asked for; ``allowed`` are the names that may stand there."""
    *table, last = path
    what, before, after = f"key {literal(last)} in [{dotted(table)}]", '"', '"'
    if isinstance(value, dict):
        what, before, after = f"table [{dotted(path)}]", f"[{dotted(table)}." if table else "[", "]"
    elif not table:
        what = f"key {literal(last)} outside of any table"
    others = dict.fromkeys(homes.get(str(last), []))
    hint = suggest(str(last), allowed, before=before, after=after)
    if others and dotted(table) not in others:
        hint = f": did you mean the one in {' or '.join(f'[{home}]' for home in others)}?"
    names = ", ".join(name if table else f"[{name}]" for name in allowed)
    return Problem(path, f"unknown {what}{hint} (allowed: {names})")


def _check(part: type[BaseModel], table: Any, path: Steps, *, homes: Mapping[str, list[str]]) -> list[Problem]:
    found: list[Problem] = []
    cleaned = _clean(part, table, path, homes=homes, found=found)
    spoken = {problem.path for problem in found}
    try:
        part.model_validate_json(json.dumps(cleaned))
    except ValidationError as refused:
        worded = [_word(part, cleaned, path, homes=homes, error=error) for error in refused.errors(include_url=False)]
        found += [problem for problem in dict.fromkeys(worded) if problem and problem.path not in spoken]
        found = found or [Problem(path, f"[{dotted(path)}] has values that do not go together")]
    return found


def _table(annotation: Any, value: Any) -> type[BaseModel] | None:
    """The part that a table means to be."""
    parts = tables(annotation) if isinstance(value, dict) else []
    if len(parts) < 2:
        return parts[0] if parts else None
    name = tag(parts)
    return next(
        (part for part in parts if name and value.get(name) in choices(part.model_fields[name].annotation)), None
    )


def _inside(annotation: Any, value: Any, step: str | int) -> Any:
    """The type of an element of a table or list of type ``annotation``."""
    if part := _table(annotation, value):
        return part.model_fields[str(step)].annotation if step in part.model_fields else Any
    for member in members(annotation):
        origin, inner = get_origin(member), get_args(member)
        if isinstance(value, dict) and origin is dict:
            return inner[1]
        if isinstance(value, list) and origin is tuple and inner[-1] is not Ellipsis:
            return inner[min(int(step), len(inner) - 1)]
        if isinstance(value, list) and inner and origin is not Literal:
            return inner[0]
    return Any


def _clean(annotation: Any, value: Any, path: Steps, *, homes: Mapping[str, list[str]], found: list[Problem]) -> Any:
    """The value without what JSON cannot say and what a file may not set; each is a problem."""
    if isinstance(value, dict):
        part = _table(annotation, value)
        kept = {}
        for name, item in value.items():
            if part and name in part.model_fields and name not in fields(part):
                found.append(_unknown((*path, name), item, fields(part), homes=homes))
            else:
                inner = _inside(annotation, value, name)
                kept[name] = _clean(inner, item, (*path, name), homes=homes, found=found)
        return kept
    if isinstance(value, list):
        inner = [_inside(annotation, value, index) for index in range(len(value))]
        return [
            _clean(inner[index], item, (*path, index), homes=homes, found=found) for index, item in enumerate(value)
        ]
    if isinstance(value, date | time):
        found.append(_wrong(annotation, value, path))
        return str(value)
    return value


def _word(
    part: type[BaseModel], value: Any, path: Steps, *, homes: Mapping[str, list[str]], error: ErrorDetails
) -> Problem | None:
    """One of pydantic's errors in our words; None where another error says more."""
    kind, steps, context = error["type"], list(error["loc"]), error.get("ctx", {})
    last = str(steps.pop()) if kind in ("missing", "extra_forbidden") else ""
    annotation: Any = part
    for step in steps:
        if len(members(annotation)) > 1:  # pydantic puts the member that it tried into the location
            chosen = _table(annotation, value)
            if not chosen:
                untold = isinstance(value, dict) and tag(tables(annotation))
                return _untold(annotation, value, path) if untold else _wrong(annotation, value, path)
            if step not in (chosen.__name__, value.get(tag(tables(annotation)))):
                return None
            annotation = chosen
        elif step != "[key]":
            annotation, value, path = _inside(annotation, value, step), value[step], (*path, step)
    owner = _table(annotation, value)
    if owner and kind == "extra_forbidden":
        return _unknown((*path, last), value[last], fields(owner), homes=homes)
    if owner and kind == "missing":
        return _missing(path, last, owner.model_fields[last])
    if kind.startswith("union_tag"):
        return _untold(annotation, value, path)
    if kind in ("value_error", "assertion_error"):
        where = f"[{dotted(path)}]" if isinstance(value, dict) else f"{dotted(path)} is {_short(value)}"
        return Problem(path, f"{where}: {' '.join(str(context['error']).split())}")
    if kind in _LIMITS:
        limits = {name: f"{limit:g}" if isinstance(limit, float) else limit for name, limit in context.items()}
        return Problem(path, f"{dotted(path)} must be {_LIMITS[kind].format(**limits)}, found {_short(value)}")
    return _wrong(annotation, value, path)


def _untold(annotation: Any, value: dict[str, Any], path: Steps) -> Problem:
    """A table that does not say which of several parts it is."""
    name = tag(tables(annotation))
    allowed = [choice for part in tables(annotation) for choice in choices(part.model_fields[name].annotation)]
    if name in value:
        return _wrong(Literal[tuple(allowed)], value[name], (*path, name))
    return Problem(path, f'missing key "{name}" in [{dotted(path)}]: {_one_of(allowed)}')


def _missing(path: Steps, name: str, field: FieldInfo) -> Problem:
    what = f"table [{dotted((*path, name))}]" if tables(field.annotation) else f'key "{name}" in [{dotted(path)}]'
    about = field.description or (_one_of(choices(field.annotation)) if choices(field.annotation) else "")
    return Problem(path, f"missing {what}{f': {about}' if about else ''}")


def _wrong(annotation: Any, value: Any, path: Steps) -> Problem:
    allowed = [choice for choice in choices(annotation) if isinstance(choice, str)]
    near = suggest(value, allowed) if isinstance(value, str) and len(allowed) > 1 else ""
    found = _short(value) if allowed and isinstance(value, str) else _describe(value)
    return Problem(path, f"{dotted(path)} is {found}, wanted {wanted(annotation)}{near}")


def _describe(value: Any) -> str:
    if isinstance(value, dict):
        return "a table"
    if isinstance(value, bool):
        return _short(value)
    kind = next(word for known, (word, _) in _KINDS.items() if isinstance(value, known))
    return f"{_short(value)} ({kind})"


def _short(value: Any) -> str:
    text = literal(value)
    return text if len(text) <= 60 else f"{text[:57]}…"


def wanted(annotation: Any) -> str:
    """What a value of this type has to be."""
    words = [_one_of(allowed)] if (allowed := choices(annotation)) else []
    for member in members(annotation):
        inner = [argument for argument in get_args(member) if argument is not Ellipsis]
        if get_origin(member) is Literal:
            continue
        word, _ = _kind(member)
        if get_origin(member) is tuple and Ellipsis not in get_args(member):
            word = f"a list of {len(inner)} values"
        elif word == "a list" and inner:
            word = f"a list of {' or '.join(dict.fromkeys(_kind(option)[1] for option in members(inner[0])))}"
        words.append(word)
    return " or ".join(dict.fromkeys(words))


def _kind(member: Any) -> tuple[str, str]:
    home = get_origin(member) or member
    known = (words for kind, words in _KINDS.items() if isinstance(home, type) and issubclass(home, kind))
    return next(known, ("another value", "values"))


def _one_of(allowed: list[Any]) -> str:
    words = [literal(value) for value in allowed]
    return words[0] if len(words) == 1 else f"one of {', '.join(words)}"
