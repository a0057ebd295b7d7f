"""The keys of each task and the types of their values in keys.json, so that mistakes are found without importing torch.

``python -m seqloom.tasks.key_table`` writes the file; a test requires it to be up to date.
"""

import json
import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, create_model
from pydantic.fields import FieldInfo

from seqloom import tasks
from seqloom.config.names import KnownNames
from seqloom.config.schema import fields, nested
from seqloom.config.toml import KeyPath
from seqloom.files import write

FILE = Path(__file__).with_name("keys.json")
SOURCES = FILE.parent.parent

FOLDERS = {"cell": "cells"}
"""Folders whose files have the names that a key may name."""

SAME_TIME = 60.0
"""Seconds within which an installation or a checkout writes all files."""

Types = dict[str, dict[str, Any]]
"""The type of each key as JSON Schema, or its known names; {} where it is not plain. Names of tables end with a dot."""
PLAIN = {"integer": int, "number": float, "boolean": bool, "string": str}
LIMITS = {"minimum": "ge", "exclusiveMinimum": "gt", "maximum": "le", "exclusiveMaximum": "lt"}


def types(task: str) -> Types:
    """The keys of a task with the types of their values; empty if there is no such task."""
    return _stored(FILE).get(task, {})


def read(task: str) -> dict[KeyPath, bool]:
    """The keys of a task as paths, True for tables; empty if there is no such task."""
    keys: dict[KeyPath, bool] = {tuple(name.rstrip(".").split(".")): name.endswith(".") for name in types(task)}
    return {("task",): True, **keys} if keys else {}


def plain_section(task: str, values: Mapping[str, Any]) -> type[BaseModel]:
    """A section with those of the given keys of a task whose types are plain; it allows all others."""
    return _plain_section(types(task), values, "task")


def may_be_new(name: str) -> bool:
    """Whether a field of this name, or a name that it may have, may be newer than the file."""
    newer = _newer_sources(FILE, FILE.stat().st_mtime)
    field = re.compile(rf"^    {re.escape(name)}: ", re.MULTILINE)
    is_new = any("from pydantic import" in text and field.search(text) for text in newer.values())
    return is_new or any(source.parent.name == FOLDERS.get(name) for source in newer)


def render() -> str:
    """The content of the file, a key on each line."""
    tables = []
    for task in tasks.names():
        keys = _types_of([tasks.find(task)], "task")
        lines = ",\n".join(f"{json.dumps(key)}: {json.dumps(schema)}" for key, schema in keys.items())
        tables.append(f"{json.dumps(task)}: {{\n{lines}\n}}")
    return "{\n" + ",\n".join(tables) + "\n}\n"


@cache
def _stored(file: Path) -> dict[str, Types]:
    stored: dict[str, Types] = json.loads(file.read_text(encoding="utf-8"))
    return stored


@cache
def _newer_sources(_file: Path, written: float) -> dict[Path, str]:
    """The source files that have changed since, and their texts."""
    changed = [source for source in SOURCES.rglob("*.py") if source.stat().st_mtime > written + SAME_TIME]
    return {source: source.read_text(encoding="utf-8") for source in changed}


def _types_of(sections: Sequence[type[BaseModel]], path: str) -> Types:
    """The types of the keys of a table; plain only where all sections that it may be have the same one."""
    tables = [_section_types(section, path) for section in sections]
    keys = dict.fromkeys(key for table in tables for key in table)
    options = {key: [table.get(key, {}) for table in tables] for key in keys}
    return {key: first if all(other == first for other in others) else {} for key, (first, *others) in options.items()}


def _section_types(section: type[BaseModel], path: str) -> Types:
    keys: Types = {}
    for name, field in fields(section).items():
        key, inner = f"{path}.{name}", nested(field.annotation)
        keys |= {f"{key}.": {}, **_types_of(inner, key)} if inner else {key: _plain_type(field)}
    return keys


def _plain_type(field: FieldInfo) -> dict[str, Any]:
    annotation: Any = field.annotation
    for mark in field.metadata:
        if isinstance(mark, KnownNames):
            return {"what": mark.what, "names": list(mark.find_all()), "list": field.annotation is not str}
        annotation = Annotated[annotation, mark]
    schema = TypeAdapter(annotation).json_schema()
    is_plain = schema.get("type") in PLAIN and schema.keys() <= {"type", "enum", *LIMITS}
    return schema if is_plain else {}


def _plain_section(known: Types, values: Mapping[str, Any], path: str) -> type[BaseModel]:
    chosen: dict[str, Any] = {}
    for name, value in values.items():
        key = f"{path}.{name}"
        if known.get(key):
            chosen[name] = (_annotation(known[key]), ...)
        elif isinstance(value, dict) and f"{key}." in known:
            chosen[name] = (_plain_section(known, value, key), ...)
    return create_model("Table", __config__=ConfigDict(strict=True, extra="allow"), **chosen)


def _annotation(schema: Mapping[str, Any]) -> Any:
    if "names" in schema:
        kind: Any = str | tuple[str, ...] if schema["list"] else str
        return Annotated[kind, KnownNames(schema["what"], lambda: schema["names"])]
    if "enum" in schema:
        return Literal[tuple(schema["enum"])]
    limits: dict[str, Any] = {LIMITS[name]: value for name, value in schema.items() if name in LIMITS}
    return Annotated[PLAIN[schema["type"]], Field(**limits)]


if __name__ == "__main__":
    write(FILE, render())
