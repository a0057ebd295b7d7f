"""Fields of known names: what they accept, and the choices that editors see."""

from typing import Annotated, Any

import jsonschema
import pytest
from pydantic import Field

from seqloom.config import ConfigSection
from seqloom.config.json_schema import json_schema
from seqloom.config.names import KnownNames

CELLS = KnownNames("cell", lambda: ["lstm", "gru"])


class Layers(ConfigSection):
    """Layers."""

    one: Annotated[str, CELLS] = Field("lstm", description="A cell.")
    several: Annotated[str | tuple[str, ...], CELLS] = Field("lstm", description="A cell, or one for each layer.")


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"one": "gru", "several": "lstm"}, ""),
        ({"several": ("lstm", "gru")}, ""),
        ({"one": "lstn"}, 'unknown cell "lstn"; did you mean "lstm"? (allowed: lstm, gru)'),
        ({"several": "x"}, 'unknown cell "x" (allowed: lstm, gru)'),
        ({"several": ("lstm", "GRU")}, 'unknown cell "GRU"; did you mean "gru"? (allowed: lstm, gru)'),
    ],
)
def test_names_are_checked_by_sections_and_by_their_json_schema(values: dict[str, Any], message: str) -> None:
    validator = jsonschema.Draft7Validator(json_schema({"layers": Layers}, title="Test"))
    as_json = {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}
    assert validator.is_valid({"layers": as_json}) == (not message)
    if message:
        with pytest.raises(ValueError) as error:  # noqa: PT011  the message is compared
            Layers(**values)
        assert message in str(error.value)
    else:
        assert Layers(**values).model_dump(include=set(values)) == values
