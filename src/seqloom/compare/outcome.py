"""What a run is, and what it reached."""

from pathlib import Path
from typing import Any

from seqloom.layers.recurrent.recurrent import Recurrent
from seqloom.models.encoder import LayerFactory
from seqloom.run import Run
from seqloom.run_config import load_config


def outcome(run: Run) -> dict[str, Any]:
    """What the best model of a run reached on the development data."""
    metrics: dict[str, Any] = run.load_best().facts.get("metrics", {})
    return metrics


def describe(path: Path, *, layer: LayerFactory | None = None) -> dict[str, Any]:
    """What a run is and what it reached."""
    run = Run.open(path)
    config = load_config(run, layer=layer)
    module = config.task.build_model()
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
