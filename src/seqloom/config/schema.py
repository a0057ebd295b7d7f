"""Sections of a configuration: their base class, and the fields, choices and nested sections that they declare."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic.fields import FieldInfo

from seqloom.config.toml import KeyPath

Sections = Mapping[str, type[BaseModel]]
"""The top-level tables of a configuration."""


if TYPE_CHECKING:
    from pydantic._internal._model_construction import ModelMetaclass as SectionType
else:

    class SectionType(type(BaseModel)):
        """A call of a section reports wrong arguments in our own words; files are validated without a call."""

        def __call__(cls, *args: Any, **values: Any) -> Any:
            try:
                return super().__call__(*args, **values)
            except ValidationError as error:
                from seqloom.config.errors import argument_error

                raise argument_error(cls.__name__, error) from None


class ConfigSection(BaseModel, metaclass=SectionType):
    """A frozen, typed table of the TOML file.

    Each field states its meaning (``Field(description=...)``) and its default on its own line and nowhere else. An
    optional field has the default None, because TOML has no null. A field with ``exclude=True`` is not part of the
    configuration: a file can neither set it nor show it.
    """

    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, arbitrary_types_allowed=True, ser_json_inf_nan="constants"
    )


@dataclass(frozen=True)
class Unlisted:
    """Marks a field that templates leave out: ``Annotated[str, Unlisted()]``."""


def is_listed(field: FieldInfo) -> bool:
    """Whether templates show a field."""
    return not any(isinstance(mark, Unlisted) for mark in field.metadata)


def fields(section: type[BaseModel]) -> dict[str, FieldInfo]:
    """The fields that a file may set: those not excluded from a dump."""
    return {name: field for name, field in section.model_fields.items() if not field.exclude}


def members(annotation: Any) -> list[Any]:
    """The types of a union other than None; of any other annotation, the annotation itself."""
    while get_origin(annotation) is Annotated:
        annotation = get_args(annotation)[0]
    if get_origin(annotation) in (Union, UnionType):
        return [member for inner in get_args(annotation) for member in members(inner)]
    return [] if annotation in (None, NoneType) else [annotation]


def choices(annotation: Any) -> list[Any]:
    """The values that a Literal allows; none for other types."""
    return [value for member in members(annotation) if get_origin(member) is Literal for value in get_args(member)]


def nested(annotation: Any) -> list[type[BaseModel]]:
    """The sections among the members of an annotation."""
    return [member for member in members(annotation) if is_section(member)]


def is_section(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


def discriminator(sections: Iterable[type[BaseModel]]) -> str:
    """The field that tells these sections apart: a Literal in each of them; empty if there is none."""
    literals = [{name for name, field in part.model_fields.items() if choices(field.annotation)} for part in sections]
    shared = set.intersection(*literals) if literals else set()
    return next((name for part in sections for name in part.model_fields if name in shared), "")


def tagged(sections: Iterable[type[BaseModel]]) -> dict[Any, type[BaseModel]]:
    """The sections of a discriminated union by the value of their discriminator."""
    name = discriminator(sections)
    return {tag: part for part in sections if name for tag in choices(part.model_fields[name].annotation)}


def member_for(annotation: Any, value: Any) -> Any:
    """The member of a union that a table or a list is validated against; Any if it is ambiguous."""
    options = members(annotation)
    if isinstance(value, dict):
        sections = nested(annotation)
        if len(sections) > 1:
            tag = value.get(discriminator(sections))
            return tagged(sections).get(tag, Any) if isinstance(tag, str) else Any
        options = sections or [option for option in options if get_origin(option) is dict]
    elif isinstance(value, list):
        options = [option for option in options if get_origin(option) in (tuple, list)]
    return options[0] if len(options) == 1 else Any


def element(annotation: Any, value: Any, step: str | int) -> Any:
    """The annotation of one element of a table or a list; Any if it is unknown."""
    member = member_for(annotation, value)
    if is_section(member):
        return member.model_fields[step].annotation if step in member.model_fields else Any
    arguments = get_args(member)
    if get_origin(member) is tuple and isinstance(step, int) and arguments[-1] is not Ellipsis:
        return arguments[min(step, len(arguments) - 1)]
    return arguments[-1] if get_origin(member) is dict else arguments[0] if arguments else Any


def all_keys(sections: Sections) -> dict[KeyPath, bool]:
    """The path of every key of a configuration; True for tables."""
    keys: dict[KeyPath, bool] = {}
    for name, section in sections.items():
        keys[name,] = True
        keys.update(_keys(section, (name,)))
    return keys


def _keys(section: type[BaseModel], path: KeyPath) -> Iterator[tuple[KeyPath, bool]]:
    for name, field in fields(section).items():
        inner = nested(field.annotation)
        yield (*path, name), bool(inner)
        for part in inner:
            yield from _keys(part, (*path, name))
