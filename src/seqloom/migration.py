"""Runs of older formats, brought to the current one when they are opened; their files are not changed."""

import json
import re
import tomllib
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import tomli_w
from torch import Tensor

FORMAT = 2
"""The format of the runs that are written: a change that older runs do not open with needs a new one."""

Values = dict[str, Any]


def _same(values: Any) -> Any:
    return values


class Migration(NamedTuple):
    """How a run of one format becomes one of the next."""

    config: Callable[[Values], Values] = _same  # the tables of config.toml
    learned: Callable[[Values], Values] = _same  # learned.json
    weights: Callable[[dict[str, Tensor]], dict[str, Tensor]] = _same  # by name


def _frame_encoder(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    """The encoder of a transcriber and its features are modules of their own."""

    def rename(name: str) -> str:
        if name.startswith("normalise."):
            return f"encoder.features.{name}"
        return re.sub(r"^encoder\.(?=\d+\.)", "encoder.layers.", name)

    return {rename(name): tensor for name, tensor in weights.items()}


def _signals(learned: Values) -> Values:
    """All tasks describe signals in the same way."""
    if "statistics" in learned:  # transcribe
        statistics = learned["statistics"]
        return learned | {"statistics": {"kind": "sound" if statistics["rate"] else "vectors", **statistics}}
    if "means" in learned and "weights" in learned:  # classify
        kept = {name: value for name, value in learned.items() if name not in ("means", "deviations", "channel_names")}
        mean = learned["means"]
        signal = {
            "kind": "vectors",
            "size": len(mean),
            "mean": mean,
            "deviation": learned["deviations"],
            "channel_names": learned.get("channel_names", []),
        }
        return kept | {"signal": signal if mean else None}
    if "vector_size" in learned:  # caption
        size, mean, deviation = (learned[name] for name in ("vector_size", "mean", "deviation"))
        kept = {name: value for name, value in learned.items() if name not in ("vector_size", "mean", "deviation")}
        kind = "vectors" if size else "image"
        return kept | {"signal": {"kind": kind, "size": size or len(mean), "mean": mean, "deviation": deviation}}
    return learned


MIGRATIONS: Mapping[int, Migration] = {1: Migration(learned=_signals, weights=_frame_encoder)}
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
