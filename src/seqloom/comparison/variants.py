"""The variants of a comparison: changes to a configuration, other files or layers, with the same budget and seeds."""

import re
import shlex
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from seqloom.config import Document, parse, read
from seqloom.config.toml import literal
from seqloom.models.encoder import LayerFactory
from seqloom.run_config import Config, find_layer
from seqloom.training.config import LIMITS, MACHINE_AND_RECORD

BASE = "base"
"""The name of the variant without changes."""

LAYER = "layer="
"""How the custom layer of a variant begins, such as ``layer=module:name``."""

MAX_FOLDER_NAME = 80  # characters

FOR_ALL = frozenset(f"train.{name}" for name in (*LIMITS, *MACHINE_AND_RECORD))
"""Keys that are usually set for all variants."""

VariantLike = str | Mapping[str, Any] | LayerFactory
"""A variant as text, as a mapping of its changes (a custom layer under ``layer``), or as a custom layer."""


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


class VariantLayer(NamedTuple):
    """The custom layer of a variant."""

    factory: LayerFactory
    name: str  # module:name, by which another process can import it; empty: it cannot


class Variant(NamedTuple):
    """A configuration that is compared with others."""

    name: str
    folder: str  # name of the folder with its runs
    configs: tuple[Config, ...]  # one for each fold and seed
    layer: VariantLayer | None = None
    note: str = ""  # what was adapted, to be shown below the table
    changed: frozenset[str] = frozenset()  # keys that it changes, such as train.epochs


class _Changes(NamedTuple):
    """What a variant changes."""

    name: str
    overrides: tuple[str, ...] = ()
    file: str = ""  # another configuration
    layer: VariantLayer | None = None

    @property
    def is_base(self) -> bool:
        """Whether it changes nothing."""
        return not self.overrides and self.layer is None

    @property
    def keys(self) -> frozenset[str]:
        """The keys that it changes; ``layer`` stands for a custom layer."""
        own = (override.partition("=")[0] for override in self.overrides)
        return frozenset([*own, *["layer"] * (self.layer is not None)])


def parse_variants(
    config: str | Path | Config | Document,  # TOML file
    variants: Sequence[VariantLike],
    *,
    budget: Budget,
    seeds: int,
    folds: int = 0,  # 0: no cross-validation
    overrides: Sequence[str] = (),  # section.key=value, for all variants; their own changes come later
    source: Any = None,  # training data in memory
) -> list[Variant]:
    """The variants of a configuration, each given as ``key=value,key=value``, a TOML file, a layer, or ``base``.

    If all of them are files, the configuration itself comes first. One variant is enough if there are several seeds or
    folds. Raises ValueError if any of them is not valid.
    """
    if folds == 1 or folds < 0:
        raise ValueError(f"folds is {folds}, expected at least 2, or 0 for no cross-validation")
    all_changes = [_changes(variant) for variant in variants]
    if isinstance(config, str | Path) and all(changes.file for changes in all_changes):
        all_changes.insert(0, _Changes(str(config), file=str(config)))
    names = [changes.name for changes in all_changes]
    if repeated := [name for index, name in enumerate(names) if name in names[:index]]:
        raise ValueError(f"the variant {repeated[0]} is given twice")
    if len(names) < 2 and seeds < 2 and not folds:  # several trainings of one variant have a mean and a spread
        others = "another variant" if all_changes[0].is_base else f"{BASE} or another variant"
        raise ValueError(f"{names[0]} is the only variant: add {others} to compare it with, or set --seeds or --folds")
    result: list[Variant] = []
    for changes in all_changes:
        own = [*overrides, *changes.overrides, *budget.overrides(), *(["task.dev=", "task.dev_fold="] if folds else [])]
        if changes.file and source is not None:
            raise ValueError(f"the variant {changes.file} is a file; with data in memory, expected changes or layers")
        first = Config.build(_document(changes.file or config, own), source=source)
        if folds and not first.task.can_hold_out:
            raise ValueError(f"the task {first.name} cannot be cross-validated: its training data have no targets")
        if changes.layer:
            first = first.with_layer(changes.layer.factory)
        folder = _folder(changes, {other.folder for other in result})
        configs = _with_seeds_and_folds(first, seeds, folds)
        result.append(Variant(changes.name, folder, configs, changes.layer, changed=changes.keys))
    if len(tasks := {variant.configs[0].name for variant in result}) > 1:
        raise ValueError(f"all variants must have the same task, found {', '.join(sorted(tasks))}")
    return result


def settings_for_all(variants: Sequence[Variant]) -> list[str]:
    """A hint for each variant that seems to be meant as a setting for all: its limit or its machine is all it changes.

    Elsewhere, such as in ``seqloom train``, ``train.epochs=1`` is such a setting. Variants of one key are compared.
    """
    times = Counter(key for variant in variants for key in variant.changed)
    return [
        f"{variant.name} is a variant; to set it for all variants: "
        + " ".join(f"--override {shlex.quote(part)}" for part in split_changes(variant.name))
        for variant in variants
        if variant.changed and variant.changed <= FOR_ALL and all(times[key] == 1 for key in variant.changed)
    ]


def split_changes(text: str) -> list[str]:
    """The changes of a variant, separated at commas followed by section.key= or layer=: lists contain commas, too."""
    return re.split(rf",(?=(?:{LAYER}|[\w-]+(?:\.[\w-]+)+=))", text)


def _with_seeds_and_folds(config: Config, seeds: int, folds: int) -> tuple[Config, ...]:
    """The configuration for each fold and each seed."""
    return tuple(
        Config(
            config.task.model_copy(update={"dev_fold": f"{fold}/{folds}"}) if folds else config.task,
            config.train.model_copy(update={"seed": seed}),
        )
        for fold in range(1, max(folds, 1) + 1)
        for seed in range(config.train.seed, config.train.seed + seeds)
    )


def _changes(variant: VariantLike) -> _Changes:
    if isinstance(variant, str):
        if _is_file(variant):
            return _Changes(variant, file=variant)
        if variant == BASE:
            return _Changes(variant)
        if "=" not in variant:
            raise ValueError(
                f"{variant!r} is not a variant, expected section.key=value, a .toml file, {LAYER}module:name, or {BASE}"
            )
        parts = split_changes(variant)
        layers = [part.removeprefix(LAYER) for part in parts if part.startswith(LAYER)]
        if len(layers) > 1:
            raise ValueError(f"the variant {variant} has {len(layers)} layers, expected one")
        layer = None if not layers or (factory := find_layer(layers[0])) is None else VariantLayer(factory, layers[0])
        return _Changes(variant, tuple(part for part in parts if not part.startswith(LAYER)), layer=layer)
    if callable(variant):
        variant = {"layer": variant}
    if not isinstance(variant, Mapping):
        raise TypeError(f"a variant is {type(variant).__name__}, expected a text, a mapping of changes, or a layer")
    values = dict(variant)
    factory = values.pop("layer", None)
    layer = None
    if factory is not None:
        layer = VariantLayer(factory, _import_name(factory)) if callable(factory) else None
        layer = layer or VariantLayer(_found(factory), factory)
    texts = {key: value if isinstance(value, str) else literal(value) for key, value in values.items()}
    shown = [f"{LAYER}{_layer_name(factory)}"] if layer else []
    name = ",".join([*shown, *(f"{key}={text}" for key, text in texts.items())]) or BASE
    return _Changes(name, tuple(f"{key}={literal(value)}" for key, value in values.items()), layer=layer)


def _found(name: str) -> LayerFactory:
    factory = find_layer(name)
    if factory is None:
        raise ValueError("layer is empty, expected a layer, a cell, or module:name")
    return factory


def _layer_name(layer: str | Callable[..., Any]) -> str:
    return layer if isinstance(layer, str) else getattr(layer, "__qualname__", type(layer).__qualname__)


def _import_name(layer: LayerFactory) -> str:
    """``module:name`` of a layer that another process can import; empty if it was defined on the fly."""
    module, name = getattr(layer, "__module__", ""), getattr(layer, "__qualname__", "")
    is_importable = module != "__main__" and getattr(sys.modules.get(module), name, None) is layer
    return f"{module}:{name}" if is_importable else ""


def _is_file(name: str) -> bool:
    return name.endswith(".toml") and ("=" not in name or Path(name).is_file())


def _document(config: str | Path | Config | Document, overrides: Sequence[str]) -> Document:
    if isinstance(config, Document):
        return config.with_overrides(overrides)
    if isinstance(config, Config):
        return parse(config.text(), "configuration", overrides=overrides)
    return read(Path(config), overrides)


def _folder(changes: _Changes, taken: set[str]) -> str:
    kept = slice(-MAX_FOLDER_NAME, None) if changes.file else slice(MAX_FOLDER_NAME)  # a path keeps its end
    short = re.sub(r"[^\w.=-]+", "_", changes.name.removesuffix(".toml"))[kept].strip("._") or "variant"
    number = 1
    while (folder := short if number == 1 else f"{short}-{number}") in taken:
        number += 1
    return folder
