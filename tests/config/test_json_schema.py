"""JSON Schema: valid by its own rules, and accepts and refuses what the sections do."""

from typing import Any

import jsonschema
import pytest
from hypothesis import given
from tests.config.sections import Task, Train, tasks

from seqloom.config.json_schema import DIALECT, json_schema

SCHEMA = json_schema({"task": Task, "train": Train}, title="Test")
VALIDATOR = jsonschema.Draft7Validator(SCHEMA)


def test_a_schema_is_valid_and_self_contained() -> None:
    jsonschema.Draft7Validator.check_schema(SCHEMA)
    assert (SCHEMA["$schema"], SCHEMA["title"], SCHEMA["additionalProperties"]) == (DIALECT, "Test", False)
    assert SCHEMA["required"] == ["task"]  # all keys of [train] have defaults
    assert "null" not in str(SCHEMA)
    assert SCHEMA["definitions"]["Task"]["properties"]["train"]["description"] == "File to learn from."


@given(tasks)
def test_what_a_section_dumps_is_accepted(task: Task) -> None:
    assert list(VALIDATOR.iter_errors({"task": task.model_dump(mode="json", exclude_none=True)})) == []


@pytest.mark.parametrize(
    "table",
    [
        {},
        {"train": "x", "trian": "y"},
        {"train": 3},
        {"train": "x", "pair": [1.0, 2]},
        {"train": "x", "encoder": {"connect": "resdual"}},
        {"train": "x", "decode": {"name": "beam", "sze": 3}},
    ],
)
def test_mistakes_are_refused(table: dict[str, Any]) -> None:
    assert not VALIDATOR.is_valid({"task": table})
    assert not VALIDATOR.is_valid({"task": {"train": "x"}, "trian": table})
