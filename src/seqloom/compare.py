"""What runs are and what they reached, one by one and side by side."""

import re
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from seqloom.config import read
from seqloom.layers.recurrent import Recurrent
from seqloom.model import Config, opened
from seqloom.models.encoder import GivenLayer
from seqloom.run import Run
from seqloom.workflow import Listener, free, train


def outcome(run: Run) -> dict[str, Any]:
    """What the best model of a run reached on the development data."""
    metrics: dict[str, Any] = run.load_best().facts.get("metrics", {})
    return metrics


def describe(path: Path, *, layer: GivenLayer | None = None) -> dict[str, Any]:
    """What a run is and what it reached."""
    run = Run.open(path)
    config = opened(run, layer=layer)
    module = config.task.model()
    layers = sorted({part.path for part in module.modules() if isinstance(part, Recurrent)})
    facts = run.load_best().facts
    return {
        "task": config.name,
        "parameters": sum(parameter.numel() for parameter in module.parameters()),
        "recurrent layers": "; ".join(layers) or "none",
        "best at update": facts.get("update", "not evaluated yet"),
        **facts.get("metrics", {}),
        **{name: run.environment[name] for name in ("seqloom", "torch", "python") if name in run.environment},
    }


def compare(
    path: Path,
    variants: Sequence[str],
    *,
    output: Path,
    listen: Callable[[], AbstractContextManager[Listener]],
) -> list[dict[str, Any]]:
    """Train each variant (``key=value,key=value``) of a configuration; one row of scores for each."""
    rows = []
    output = free(output)
    configs = [Config.build(read(path, variant.split(","))) for variant in variants]
    for variant, config in zip(variants, configs, strict=True):
        name = re.sub(r"[^\w.=-]+", "_", variant)
        started = time.monotonic()
        with listen() as listener:
            run = train(config, output=output / name, listeners=[listener])
        found = {key: value for key, value in outcome(run).items() if isinstance(value, float | int)}
        parameters = describe(run.path)["parameters"]
        rows.append(
            {"variant": variant, "parameters": parameters, "minutes": (time.monotonic() - started) / 60, **found}
        )
    return rows
