"""The base class of all configuration sections, and the error for an invalid configuration."""

import tomli_w
from pydantic import BaseModel, ConfigDict


class ConfigSection(BaseModel):
    """A frozen, typed table of the TOML file.

    Each field states its meaning (``Field(description=...)``) and its default on its own line and nowhere else. An
    optional field has the default None, because TOML has no null. A field with ``exclude=True`` is not part of the
    configuration: a file can neither set it nor show it.
    """

    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, arbitrary_types_allowed=True, ser_json_inf_nan="constants"
    )


class ConfigError(ValueError):
    """An invalid configuration; each line of the message is ``file:line: problem`` or ``command line: problem``."""

    def __init__(self, *lines: str) -> None:
        super().__init__("\n".join(lines))


def dump(**sections: ConfigSection) -> str:
    """All fields of the sections as TOML, defaults included, so that a later change of a default has no effect."""
    return tomli_w.dumps(
        {name: section.model_dump(mode="json", exclude_none=True) for name, section in sections.items()}
    )
