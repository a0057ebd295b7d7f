"""Example configurations: at least one for each task, each trains on built-in data in about a minute."""

import difflib
import importlib.resources

FOLDER = importlib.resources.files(__name__)


def names() -> list[str]:
    """The names of all examples."""
    return sorted(entry.name.removesuffix(".toml") for entry in FOLDER.iterdir() if entry.name.endswith(".toml"))


def text(name: str) -> str:
    """The TOML text of an example."""
    if name not in names():
        near = "".join(f"did you mean {match!r}? " for match in difflib.get_close_matches(name, names(), n=1))
        raise ValueError(f"there is no example {name!r}: {near}Available: {', '.join(names())}")
    return (FOLDER / f"{name}.toml").read_text(encoding="utf-8")


def listing() -> str:
    """A line for each example: its name and its first comment."""
    return "".join(f"{name:16}{text(name).partition(chr(10))[0].removeprefix('# ')}\n" for name in names())
