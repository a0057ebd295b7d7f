"""What is compared: variants of a configuration, or several of them, each with the same budget and the same seeds."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from seqloom.config import Document, read
from seqloom.run_config import Config

BASE = "base"
"""The variant that is the configuration as it stands."""

LONGEST = 80  # characters of a folder's name


class Budget(NamedTuple):
    """What each training may cost; without minutes and tokens, what its configuration says."""

    minutes: float = 0.0
    tokens: int = 0

    def overrides(self) -> list[str]:
        """The changes of a configuration that make it end there, and nowhere before."""
        if self.minutes and self.tokens:
            raise ValueError("--minutes and --tokens are given, wanted one of them: the budget has one measure")
        if not self.minutes and not self.tokens:
            return []
        return ["train.epochs=0", "train.updates=0", f"train.minutes={self.minutes}", f"train.tokens={self.tokens}"]

    def __str__(self) -> str:
        if self.minutes:
            return f"{self.minutes:g} minutes each"
        return f"{self.tokens:,} tokens each" if self.tokens else "as each configuration says"


class Variant(NamedTuple):
    """A configuration among others."""

    name: str
    folder: str  # of its runs
    configs: tuple[Config, ...]  # the same with several seeds


def variants(path: Path, names: Sequence[str], *, budget: Budget, seeds: int) -> list[Variant]:
    """Each variant (``key=value,key=value``, a file, or ``base``) of a configuration; what is wrong is raised now.

    Where all are files of their own, the configuration itself is the first.
    """
    chosen = list(names)
    if all(_is_file(name) for name in chosen):
        chosen.insert(0, str(path))
    if twice := [name for index, name in enumerate(chosen) if name in chosen[:index]]:
        raise ValueError(f"the variant {twice[0]} is given twice")
    if len(chosen) < 2:
        raise ValueError(f"there is one variant, {chosen[0]}, and nothing to compare it with: add {BASE}, or another")
    found: list[Variant] = []
    for name in chosen:
        first = Config.build(_document(path, name, budget.overrides()))
        several = range(first.train.seed, first.train.seed + seeds)
        configs = [first._replace(train=first.train.model_copy(update={"seed": seed})) for seed in several]
        found.append(Variant(name, _folder(name, {other.folder for other in found}), tuple(configs)))
    if len(tasks := {variant.configs[0].name for variant in found}) > 1:
        raise ValueError(f"the variants have several tasks, wanted one: {', '.join(sorted(tasks))}")
    return found


def _is_file(name: str) -> bool:
    return name.endswith(".toml") and ("=" not in name or Path(name).is_file())


def _document(path: Path, name: str, budget: list[str]) -> Document:
    if _is_file(name):
        return read(Path(name), budget)
    if name == BASE:
        return read(path, budget)
    if "=" not in name:
        raise ValueError(f"{name!r} is no variant, wanted section.key=value, a .toml file, or {BASE}")
    # A value may hold commas: those of a list or a table are followed by no section.key=.
    return read(path, [*re.split(r",(?=[\w-]+(?:\.[\w-]+)+=)", name), *budget])


def _folder(name: str, taken: set[str]) -> str:
    kept = slice(-LONGEST, None) if _is_file(name) else slice(LONGEST)  # of a path, the end
    short = re.sub(r"[^\w.=-]+", "_", name.removesuffix(".toml"))[kept].strip("._") or "variant"
    number = 1
    while (folder := short if number == 1 else f"{short}-{number}") in taken:
        number += 1
    return folder
