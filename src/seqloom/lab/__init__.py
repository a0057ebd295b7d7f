"""Experiments that test claims of the literature, one per file, whose name is the name on the command line."""

import importlib
import pkgutil
import typing

if typing.TYPE_CHECKING:
    from seqloom.lab.experiment import Experiment

SHARED = ("cell_comparison", "curves", "estimate", "experiment", "network", "panels", "runner", "texts", "translation")
"""Modules that are not experiments."""


def names() -> list[str]:
    """The names of all experiments."""
    return sorted(entry.name for entry in pkgutil.iter_modules(__path__) if entry.name not in SHARED)


def find(name: str) -> "type[Experiment]":
    """The class of an experiment; ValueError with all names and the nearest one if there is no such experiment."""
    if name not in names():
        from seqloom.config.hints import nearest

        near = nearest(name, names())
        hint = f"did you mean {near!r}? " if near else ""
        raise ValueError(f"there is no experiment {name!r}: {hint}Available: {', '.join(names())}")
    module = importlib.import_module(f"{__name__}.{name}")
    experiment: type[Experiment] = getattr(module, name.title().replace("_", ""))
    return experiment
