"""Tasks: the file's name is the name in the configuration."""

import difflib
import importlib
import pkgutil
import typing

if typing.TYPE_CHECKING:
    from seqloom.tasks.task import Task


def names() -> list[str]:
    """All tasks."""
    return sorted(entry.name for entry in pkgutil.iter_modules(__path__) if entry.name != "task")


def find(name: object) -> "type[Task]":
    """The task of that name, or an error with the nearest name and all of them."""
    if name not in names():
        near = difflib.get_close_matches(str(name), names(), n=1, cutoff=0.5)
        hint = f"did you mean {near[0]!r}? " if near else ""
        raise ValueError(f"task.name is {name!r}: {hint}Wanted one of {', '.join(names())}")
    module = importlib.import_module(f"{__name__}.{name}")
    found: type[Task] = getattr(module, str(name).title().replace("_", ""))
    return found
