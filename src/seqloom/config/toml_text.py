"""Keys and values as TOML writes them."""

from collections.abc import Iterable, Mapping
from typing import Any

import tomli_w


def key(name: str) -> str:
    """A key, quoted where TOML requires it."""
    return tomli_w.dumps({name: 0}).removesuffix(" = 0\n")


def dotted(path: Iterable[str | int]) -> str:
    """A path of keys and list indices, such as ``task.layers[2].hidden``."""
    steps = [f"[{step}]" if isinstance(step, int) else f".{key(step)}" for step in path]
    return "".join(steps).removeprefix(".")


def literal(value: Any) -> str:
    """A value on one line."""
    if isinstance(value, Mapping):
        inner = ", ".join(f"{key(name)} = {literal(item)}" for name, item in value.items())
        return f"{{ {inner} }}" if inner else "{}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(literal, value))}]"
    return tomli_w.dumps({"x": value}).removeprefix("x = ").removesuffix("\n")


def one_of(values: Iterable[Any]) -> str:
    """``one of: "adam", "sgd"``, or the only value."""
    words = [literal(value) for value in values]
    return words[0] if len(words) == 1 else f"one of: {', '.join(words)}"
