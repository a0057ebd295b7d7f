"""Settings that name something of a known set, such as a cell."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, core_schema


@dataclass(frozen=True)
class KnownNames:
    """A field of known names, one or a list: ``Annotated[str | tuple[str, ...], KnownNames("cell", find_all)]``."""

    what: str  # what has these names, for messages
    find_all: Callable[[], Iterable[str]]

    def check(self, value: str | tuple[str, ...]) -> str | tuple[str, ...]:
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
        return _with_choices(handler(schema), list(self.find_all()))  # editors offer these names


def _with_choices(schema: dict[str, Any], names: list[str]) -> dict[str, Any]:
    """A JSON schema in which every string is one of the names."""
    if schema.get("type") == "string":
        return {**schema, "enum": names}
    if "items" in schema:
        return {**schema, "items": _with_choices(schema["items"], names)}
    return {**schema, "anyOf": [_with_choices(each, names) for each in schema["anyOf"]]}
