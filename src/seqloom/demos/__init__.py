"""Demos: one file per task; each trains the task's example configuration on built-in data and shows what it learned."""

import importlib
import typing

if typing.TYPE_CHECKING:
    from seqloom.demos.demo import Demo


def find(task: str) -> "Demo":
    """The demo of a task."""
    demo: Demo = importlib.import_module(f"{__name__}.{task}").DEMO
    return demo
