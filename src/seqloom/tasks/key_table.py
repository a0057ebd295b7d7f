"""The keys of each task in keys.json, so that unknown ones are found without importing torch.

``python -m seqloom.tasks.key_table`` writes the file; a test requires it to be up to date.
"""

import json
import re
from pathlib import Path

from seqloom import tasks
from seqloom.config.schema import all_keys
from seqloom.config.toml import KeyPath
from seqloom.files import write

FILE = Path(__file__).with_name("keys.json")
SOURCES = FILE.parent.parent

SAME_TIME = 60.0
"""Seconds within which an installation or a checkout writes all files."""


def read(task: str) -> dict[KeyPath, bool]:
    """The keys of a task as paths, True for tables; empty if there is no such task."""
    names: list[str] = json.loads(FILE.read_text(encoding="utf-8")).get(task, [])
    keys: dict[KeyPath, bool] = {tuple(name.rstrip(".").split(".")): name.endswith(".") for name in names}
    return {("task",): True, **keys} if keys else {}


def may_be_new(name: str) -> bool:
    """Whether a section may have got a field of this name after the file was written."""
    written = FILE.stat().st_mtime + SAME_TIME
    field = re.compile(rf"^    {re.escape(name)}: ", re.MULTILINE)
    changed = (source for source in SOURCES.rglob("*.py") if source.stat().st_mtime > written)
    texts = (source.read_text(encoding="utf-8") for source in changed)
    return any("from pydantic import" in text and field.search(text) for text in texts)


def render() -> str:
    """The content of the file: a dot after the names of tables."""
    tables = {name: all_keys({"task": tasks.find(name)}) for name in tasks.names()}
    names = {
        task: [".".join(map(str, key)) + "." * keys[key] for key in keys if key[1:]] for task, keys in tables.items()
    }
    return json.dumps(names, indent=0) + "\n"


if __name__ == "__main__":
    write(FILE, render())
