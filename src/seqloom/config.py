"""Typed parts of a configuration ↔ TOML, with errors that name file, line and the nearest word."""

from pydantic import BaseModel, ConfigDict


class Part(BaseModel):
    """A frozen, typed piece of configuration: the object that a table of the TOML file describes.

    Each field says on its own line what it is (``Field(description=...)``); its default is written there and nowhere else.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, arbitrary_types_allowed=True)
