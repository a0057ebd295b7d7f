"""Tasks, one per file or folder, whose name is the name in the configuration (``task.name``)."""

import importlib
import pkgutil
import typing

if typing.TYPE_CHECKING:
    from seqloom.tasks.task import Task

SHARED = ("capabilities", "key_table", "targets", "task")
"""Modules that are not tasks."""


def names() -> list[str]:
    """The names of all tasks."""
    return sorted(entry.name for entry in pkgutil.iter_modules(__path__) if entry.name not in SHARED)


def check_name(name: object) -> None:
    """ValueError with all names and the nearest one if there is no such task; imports none."""
    if name not in names():
        from seqloom.config.hints import nearest
        from seqloom.config.toml import literal, one_of

        near = nearest(str(name), names())
        hint = f'did you mean "{near}"? Expected' if near else "expected"
        raise ValueError(f"unknown task {literal(name)}; {hint} {one_of(names())}")


def find(name: object) -> "type[Task]":
    """The class of a task; ValueError with all names and the nearest one if there is no such task."""
    check_name(name)
    module = importlib.import_module(f"{__name__}.{name}")
    task: type[Task] = getattr(module, str(name).title().replace("_", ""))
    return task
