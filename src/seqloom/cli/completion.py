"""Shell completion of tasks, overrides and run folders, without importing torch."""

import hashlib
import json
import os
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import chain, islice
from pathlib import Path
from typing import Any

import typer

import seqloom
from seqloom import lab, tasks
from seqloom.cache import CacheFolder

MAX_RUNS = 200  # folders that are offered at once
Keys = Mapping[str, list[str]]
"""By ``section.key``: the values that are offered, which are all allowed ones or the default."""


def complete_task(incomplete: str) -> list[str]:
    """The names of tasks."""
    return [name for name in tasks.names() if name.startswith(incomplete)]


def complete_experiment(incomplete: str) -> list[str]:
    """The names of the experiments of the lab."""
    return [name for name in lab.names() if name.startswith(incomplete)]


def complete_run(incomplete: str) -> list[str]:
    """The run folders whose path starts like this, up to four levels deep."""
    root = Path(incomplete).anchor or ("./" if incomplete.startswith("./") else "")
    start = _escape(incomplete.removeprefix(root))
    patterns = (f"{start}*{below}/config.toml" for below in ("", "/*", "/*/*", "/*/*/*"))
    files = chain.from_iterable(Path(root).glob(pattern) for pattern in patterns)
    runs = (str(file.parent) for file in files if (file.parent / "manifest.json").is_file())
    return sorted(("./" if root == "./" else "") + run for run in islice(runs, MAX_RUNS))


def _escape(text: str) -> str:
    return "".join(f"[{character}]" if character in "*?[" else character for character in text)


def complete_config(ctx: typer.Context, incomplete: str) -> list[str]:
    """Overrides if --task replaces the configuration; else nothing, so that the shell offers files."""
    return complete_override(ctx, incomplete) if ctx.params.get("task") else []


def complete_override(ctx: typer.Context, incomplete: str) -> list[str]:
    """``section.key=`` and, once the key is complete, its values."""
    if incomplete.startswith("-"):
        return []
    keys = _keys_of(ctx)
    words = [str(word) for word in ctx.params.get("overrides") or ()]
    if os.environ.get("_SEQLOOM_COMPLETE") == "complete_bash":  # bash splits words at =
        if words[-1:] == ["="] and len(words) > 1:
            return keys.get(words[-2], [])
        if not incomplete and words and words[-1] in keys:
            return keys[words[-1]]
    name, equals, _ = incomplete.partition("=")
    matching = [name] if equals and name in keys else [key for key in keys if key.startswith(incomplete)]
    if len(matching) == 1:  # the shell adds no space after what several candidates have in common
        (key,) = matching
        return [f"{key}=", *(f"{key}={value}" for value in keys[key])]
    return [f"{key}=" for key in matching]


def _keys_of(ctx: typer.Context) -> Keys:
    """The keys of the given task, or of all tasks if it is unknown."""
    task = ctx.params.get("task")
    with suppress(OSError, ValueError):
        task = task or tomllib.loads(Path(str(ctx.params["config"])).read_text(encoding="utf-8"))["task"]["name"]
    with suppress(KeyError):
        return all_keys()[str(task)]
    return {name: values for keys in all_keys().values() for name, values in keys.items()}


def all_keys() -> dict[str, Keys]:
    """The keys of each task; read from a cache, because the tasks import torch, which takes seconds."""
    folder, entry = CacheFolder("completion", quiet=True), f"{_package_digest()}.json"
    if content := folder.read(entry):
        cached: dict[str, Keys] = json.loads(content)
        return cached
    keys: dict[str, Keys] = {name: dict(_find_keys(name)) for name in tasks.names()}
    folder.write(entry, json.dumps(keys).encode())
    return keys


def _package_digest() -> str:
    """Another one after each change of the package."""
    package = Path(seqloom.__file__).parent
    digest = hashlib.sha256(seqloom.__version__.encode())
    for source in sorted(package.rglob("*.py")):
        status = source.stat()
        digest.update(f"{source} {status.st_mtime_ns} {status.st_size}\n".encode())
    return digest.hexdigest()[:16]


def _find_keys(task: str) -> Iterator[tuple[str, list[str]]]:
    from seqloom.config.names import KnownNames
    from seqloom.config.schema import choices, fields, nested
    from seqloom.config.toml import literal
    from seqloom.training.config import TrainConfig

    def walk(section: Any, prefix: str) -> Iterator[tuple[str, list[str]]]:
        for name, field in fields(section).items():
            inner = nested(field.annotation)
            for part in inner:
                yield from walk(part, f"{prefix}{name}.")
            if not inner:
                default = field.get_default(call_default_factory=True, validated_data={})
                named = [name for mark in field.metadata if isinstance(mark, KnownNames) for name in mark.find_all()]
                values = (
                    named or choices(field.annotation) or ([True, False] if isinstance(default, bool) else [default])
                )
                shown = [value for value in values if isinstance(value, bool | int | float | str)]
                texts = [value if isinstance(value, str) else literal(value) for value in shown]
                yield f"{prefix}{name}", [text for text in texts if text]

    yield from walk(tasks.find(task), "task.")
    yield from walk(TrainConfig, "train.")
