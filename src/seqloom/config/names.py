"""Settings that name something of a known set, such as a cell, or list several names."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, core_schema

Name = str | tuple[str, ...]
"""A name, or several."""


@dataclass(frozen=True)
class KnownNames:
    """A field whose names must be known: ``Annotated[Name, KnownNames("cell", find_all)]``."""

    what: str  # what has these names, for messages
    find_all: Callable[[], Iterable[str]]

    def check(self, value: Name) -> Name:
        """Return the value; ValueError if one of its names is unknown."""
        known = list(self.find_all())
        for name in (value,) if isinstance(value, str) else value:
            if name not in known:
                near = get_close_matches(name.lower(), known, n=1, cutoff=0.5)
                hint = f'; did you mean "{near[0]}"?' if near else ""
                raise ValueError(f'unknown {self.what} "{name}"{hint} (allowed: {", ".join(known)})')
        return value

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_after_validator_function(self.check, handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        name = {"type": "string", "enum": list(self.find_all())}  # editors offer these names
        return {"anyOf": [name, {"type": "array", "items": name}]}
