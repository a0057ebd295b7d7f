"""The commented TOML file that ``seqloom init`` prints."""

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, get_origin

import tomli_w
from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import to_jsonable_python

from seqloom.config.hints import nearest
from seqloom.config.schema import Sections, choices, discriminator, fields, is_listed, members, nested, tagged
from seqloom.config.toml import dotted, key, literal

COLUMNS = 120
PLACEHOLDER = "path/to/"
"""The folder of files in a template, which a user has to replace."""


def template(
    sections: Sections,
    values: Mapping[str, Any] | None = None,
    *,
    left_open: Mapping[str, str] | None = None,  # how the default depends on what is not known yet
) -> str:
    """A complete TOML file with a comment for each key.

    Each value is that of ``values`` by ``section.key``, or else the default. A required field needs such a value or
    ``Field(examples=[...])``. The keys of ``left_open`` are commented out, with what their default depends on.
    """
    writer = _Writer(values or {}, left_open or {})
    written = [
        table for name, section in sections.items() for table in writer.tables(section, (name,), about=_about(section))
    ]
    if unknown := sorted((writer.values.keys() | writer.left_open.keys()) - writer.known):
        near = nearest(unknown[0], writer.known)
        raise ValueError(f"the template has no key {unknown[0]}{f'; did you mean {near}?' if near else ''}")
    return "\n".join(written)


class _Writer:
    def __init__(self, values: Mapping[str, Any], left_open: Mapping[str, str]) -> None:
        self.values, self.left_open = values, left_open  # by dotted key
        self.known: set[str] = set()

    def tables(
        self,
        section: type[BaseModel],
        path: tuple[str, ...],
        *,
        about: str,
        default: Any = None,  # an instance of the section, whose values replace the defaults of its fields
        tags: Mapping[str, list[Any]] | None = None,  # of a discriminated union: the discriminator and its values
        absent: bool = False,  # the table is optional: all of it is a comment
    ) -> Iterator[str]:
        """The table of a section and those inside it."""
        rows, inner = [], []
        for name, field in fields(section).items():
            here = (*path, name)
            value = self.value(field, here, default=default, absent=absent)
            if not is_listed(field):
                continue
            if nested(field.annotation) and (value is None or isinstance(value, BaseModel)):
                inner.append((field, here, value))
                continue
            allowed = _allowed(field.annotation)
            if tags and name in tags:
                allowed = f"One of {', '.join(map(literal, tags[name]))}; each has its own keys."
            line = _assign(name, value, field=field, absent=absent)
            reason = self.left_open.get(dotted(here), "")
            if reason and not absent:
                line = f"# {line}"
            rows.append((line, [field.description or "", allowed, f"Default: {reason}." if reason else ""]))
        lines = [*_comment(about, columns=COLUMNS), f"[{dotted(path)}]", *_align(rows, COLUMNS - 2 * absent)]
        yield "".join(f"{line}\n" if line.startswith("#") or not absent else f"# {line}\n" for line in lines)
        for field, here, value in inner:
            yield from self.table(field, here, value=value, absent=absent)

    def table(self, field: FieldInfo, path: tuple[str, ...], *, value: Any, absent: bool) -> Iterator[str]:
        """The tables of a field that holds a section: that of the default, or the one that ``values`` chooses."""
        sections = nested(field.annotation)
        name = discriminator(sections) if len(sections) > 1 else ""
        by_tag = tagged(sections) if name else {}
        section = by_tag.get(self.values.get(dotted((*path, name))), sections[0] if value is None else type(value))
        given = any(key.startswith(f"{dotted(path)}.") for key in self.values)
        yield from self.tables(
            section,
            path,
            about=field.description or _about(section),
            default=value if isinstance(value, section) else None,
            tags={name: list(by_tag)} if name else None,
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
            return field.get_default(call_default_factory=True, validated_data={})
        examples = [*(field.examples or []), *choices(field.annotation)]
        if not examples and not nested(field.annotation) and not absent:
            raise ValueError(f"{name} has no default and no example")
        return examples[0] if examples else None


def _about(section: type[BaseModel]) -> str:
    return (section.__doc__ or "").strip().partition("\n")[0]


def _allowed(annotation: Any) -> str:
    """The choices of a field that has several."""
    allowed = choices(annotation)
    table = " or a table" if any(get_origin(member) is dict for member in members(annotation)) else ""
    return f"One of {', '.join(map(literal, allowed))}{table}." if len(allowed) > 1 else ""


def _assign(name: str, value: Any, *, field: FieldInfo, absent: bool) -> str:
    """``key = value``, commented out if there is no value."""
    if value is None:
        example = literal(to_jsonable_python(field.examples[0])) if field.examples else "…"
        return f"{'' if absent else '# '}{key(name)} = {example}"
    plain = to_jsonable_python(value, exclude_none=True)
    line = f"{key(name)} = {literal(plain)}"
    return line if len(line) < COLUMNS or not isinstance(plain, list) else tomli_w.dumps({name: plain}).rstrip()


def _align(rows: Sequence[tuple[str, list[str]]], columns: int) -> Iterator[str]:
    """Comments in one column to the right of the values, or above a wide value."""
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
    """A comment on one line if it fits, else with each sentence on its own lines."""
    joined = f"# {' '.join(filter(None, sentences))}".rstrip()
    if len(joined) <= columns:
        return [joined] if any(sentences) else []
    wrap = textwrap.TextWrapper(columns, initial_indent="# ", subsequent_indent="# ", break_on_hyphens=False).wrap
    return [line for sentence in sentences for line in wrap(sentence)]
