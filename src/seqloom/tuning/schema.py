"""The JSON Schema of the configuration of a task, its search space included."""

from collections.abc import Mapping
from typing import Any

from seqloom import tasks
from seqloom.config.json_schema import DEFINITIONS, json_schema
from seqloom.config.schema import Sections
from seqloom.training.config import TrainConfig
from seqloom.tuning.space import TABLE, SweepConfig

NUMBER = {"type": "number"}
DOMAIN = {
    "anyOf": [
        {"type": "array", "minItems": 2, "description": "Values to try."},
        {
            "type": "object",
            "description": "Range of numbers to try.",
            "properties": {"min": NUMBER, "max": NUMBER, "step": NUMBER, "log": {"type": "boolean"}},
            "required": ["min", "max"],
            "additionalProperties": False,
        },
    ]
}


def config_schema(task: str) -> dict[str, Any]:
    """The JSON Schema of the configuration of a task."""
    sections: Sections = {"task": tasks.find(task), "train": TrainConfig}
    schema = json_schema({**sections, TABLE: SweepConfig}, title=f"Seqloom configuration of {task}")
    definitions: dict[str, Any] = schema["definitions"]
    task_section = definitions[tasks.find(task).__name__]
    task_section["required"] = ["name", *task_section.get("required", [])]
    spaces = {_space_name(name): _space(section, definitions) for name, section in definitions.items()}
    sweep = definitions[SweepConfig.__name__]
    for name, section in sections.items():
        sweep["properties"][name] = {"$ref": f"{DEFINITIONS}{_space_name(section.__name__)}"}
    definitions |= {"SearchDomain": DOMAIN} | {name: space for name, space in spaces.items() if space}
    return schema


def _space_name(section: str) -> str:
    return f"{section}SearchSpace"


def _space(section: Mapping[str, Any], definitions: Mapping[str, Any]) -> dict[str, Any]:
    """The table of ``[sweep]`` for a section: for each key values to try, for each table such a table."""
    properties = {}
    for name, value in section.get("properties", {}).items():
        options = [{"$ref": f"{DEFINITIONS}SearchDomain"}]
        for option in (value, *value.get("anyOf", []), *value.get("oneOf", []), *value.get("allOf", [])):
            inner = str(option.get("$ref", "")).removeprefix(DEFINITIONS)
            if "properties" in definitions.get(inner, {}):
                options.append({"$ref": f"{DEFINITIONS}{_space_name(inner)}"})
            elif option.get("type") == "object":
                options.append({"type": "object"})
        properties[name] = {"description": value.get("description", ""), "anyOf": options}
    return {"type": "object", "properties": properties, "additionalProperties": False} if properties else {}
