"""The JSON Schema of a configuration, with which editors complete and check TOML files."""

from typing import Any

from pydantic import create_model
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import core_schema

from seqloom.config.schema import ConfigSection, Sections

DIALECT = "http://json-schema.org/draft-07/schema#"
"""The newest version that TOML language servers support."""


DEFINITIONS = "#/definitions/"
"""Where the schema of each section is."""


def json_schema(sections: Sections, *, title: str) -> dict[str, Any]:
    """The schema of a file with these tables; a table is required if one of its keys is."""
    fields: dict[str, Any] = {name: (section, ...) for name, section in sections.items()}
    model = create_model("Configuration", __base__=ConfigSection, **fields)
    schema = model.model_json_schema(ref_template=f"{DEFINITIONS}{{model}}", schema_generator=_Generator)
    schema = _draft_7(schema)
    schema["definitions"] = schema.pop("$defs", {})
    required = [name for name, section in sections.items() if _is_required(section)]
    return {"$schema": DIALECT, **schema, "title": title, "required": required}


def _is_required(section: Any) -> bool:
    return any(field.is_required() and not field.exclude for field in section.model_fields.values())


class _Generator(GenerateJsonSchema):
    """Leaves fields out that a file cannot set."""

    def field_is_present(self, field: Any) -> bool:
        return not field.get("serialization_exclude")

    def nullable_schema(self, schema: core_schema.NullableSchema) -> dict[str, Any]:
        return self.generate_inner(schema["schema"])  # TOML has no null

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> dict[str, Any]:
        generated = super().default_schema(schema)
        if generated.get("default", 0) is None:
            del generated["default"]
        return generated


def _draft_7(schema: Any) -> Any:
    """The same schema in the words of draft 7: the elements of a tuple are ``items``."""
    if isinstance(schema, list):
        return [_draft_7(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    converted = {name: _draft_7(value) for name, value in schema.items()}
    if "prefixItems" in converted:
        converted["items"] = converted.pop("prefixItems")
    return converted
