"""The variants of a comparison: changes to a configuration or other files, each with the same budget and seeds."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from seqloom.config import Document, read
from seqloom.run_config import Config

BASE = "base"
"""The name of the variant without changes."""

MAX_FOLDER_NAME = 80  # characters


class Budget(NamedTuple):
    """When the training of each variant ends; without minutes and tokens, as its configuration says."""

    minutes: float = 0.0
    tokens: int = 0

    def overrides(self) -> list[str]:
        """The overrides that set this limit and remove all others."""
        if self.minutes and self.tokens:
            raise ValueError("minutes and tokens exclude each other: give one of them")
        if not self.minutes and not self.tokens:
            return []
        return ["train.epochs=0", "train.updates=0", f"train.minutes={self.minutes}", f"train.tokens={self.tokens}"]

    def __str__(self) -> str:
        if self.minutes:
            return f"{self.minutes:g} minutes per run"
        return f"{self.tokens:,} tokens per run" if self.tokens else "as configured"


class Variant(NamedTuple):
    """A configuration that is compared with others."""

    name: str
    folder: str  # name of the folder with its runs
    configs: tuple[Config, ...]  # one for each seed


def parse_variants(path: Path, names: Sequence[str], *, budget: Budget, seeds: int) -> list[Variant]:
    """The variants of a configuration, each given as ``key=value,key=value``, a TOML file, or ``base``.

    If all of them are files, the configuration itself comes first. Raises ValueError if any of them is not valid.
    """
    all_names = list(names)
    if all(_is_file(name) for name in all_names):
        all_names.insert(0, str(path))
    if repeated := [name for index, name in enumerate(all_names) if name in all_names[:index]]:
        raise ValueError(f"the variant {repeated[0]} is given twice")
    if len(all_names) < 2:
        raise ValueError(f"{all_names[0]} is the only variant: add {BASE} or another variant to compare it with")
    result: list[Variant] = []
    for name in all_names:
        first = Config.build(_document(path, name, budget.overrides()))
        seed_range = range(first.train.seed, first.train.seed + seeds)
        configs = [first._replace(train=first.train.model_copy(update={"seed": seed})) for seed in seed_range]
        result.append(Variant(name, _folder(name, {other.folder for other in result}), tuple(configs)))
    if len(tasks := {variant.configs[0].name for variant in result}) > 1:
        raise ValueError(f"all variants must have the same task, found {', '.join(sorted(tasks))}")
    return result


def _is_file(name: str) -> bool:
    return name.endswith(".toml") and ("=" not in name or Path(name).is_file())


def _document(path: Path, name: str, budget: list[str]) -> Document:
    if _is_file(name):
        return read(Path(name), budget)
    if name == BASE:
        return read(path, budget)
    if "=" not in name:
        raise ValueError(f"{name!r} is not a variant, expected section.key=value, a .toml file, or {BASE}")
    # Split only at commas followed by section.key=: values such as lists contain commas, too.
    return read(path, [*re.split(r",(?=[\w-]+(?:\.[\w-]+)+=)", name), *budget])


def _folder(name: str, taken: set[str]) -> str:
    kept = slice(-MAX_FOLDER_NAME, None) if _is_file(name) else slice(MAX_FOLDER_NAME)  # a path keeps its end
    short = re.sub(r"[^\w.=-]+", "_", name.removesuffix(".toml"))[kept].strip("._") or "variant"
    number = 1
    while (folder := short if number == 1 else f"{short}-{number}") in taken:
        number += 1
    return folder
