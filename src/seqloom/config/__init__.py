"""Typed configuration sections, read from TOML files and overrides, with errors that name file and line."""

from seqloom.config.document import COMMAND_LINE, Document, dump, parse, parse_section, read, with_changes
from seqloom.config.errors import ConfigError
from seqloom.config.schema import ConfigSection
from seqloom.config.template import template

__all__ = [
    "COMMAND_LINE",
    "ConfigError",
    "ConfigSection",
    "Document",
    "dump",
    "parse",
    "parse_section",
    "read",
    "template",
    "with_changes",
]
