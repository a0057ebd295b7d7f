"""Runs of older formats, brought to the current one when they are opened; their files are not changed."""

import json
import tomllib
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import tomli_w
from torch import Tensor

FORMAT = 1
"""The format of the runs that are written: a change that older runs do not open with needs a new one."""

Values = dict[str, Any]


def _same(values: Any) -> Any:
    return values


class Migration(NamedTuple):
    """How a run of one format becomes one of the next."""

    config: Callable[[Values], Values] = _same  # the tables of config.toml
    learned: Callable[[Values], Values] = _same  # learned.json
    weights: Callable[[dict[str, Tensor]], dict[str, Tensor]] = _same  # by name


MIGRATIONS: Mapping[int, Migration] = {}
"""The migration from each older format to the one after it; ``tests/artefacts`` keeps runs of all formats."""


def migrate_texts(config: str, learned: str, version: int) -> tuple[str, str]:
    """The configuration and the learned values of a run in the current format."""
    if version == FORMAT:
        return config, learned
    tables, values = tomllib.loads(config), json.loads(learned)
    for older in range(version, FORMAT):
        tables, values = MIGRATIONS[older].config(tables), MIGRATIONS[older].learned(values)
    return tomli_w.dumps(tables), json.dumps(values)


def migrate_weights(weights: dict[str, Tensor], version: int) -> dict[str, Tensor]:
    """The weights of a run in the current format."""
    for older in range(version, FORMAT):
        weights = MIGRATIONS[older].weights(weights)
    return weights
