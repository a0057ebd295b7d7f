"""The search space of a sweep: the table ``[sweep]``, whose keys mirror those of the configuration."""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_origin

from pydantic import Field

from seqloom.config import COMMAND_LINE, ConfigError, ConfigSection, Document
from seqloom.config.errors import find_problems
from seqloom.config.hints import nearest, suggestions
from seqloom.config.schema import Sections, all_keys, choices, fields, members, nested
from seqloom.config.toml import KeyPath, dotted, literal, one_of
from seqloom.run_config import SWEEP

TABLE = SWEEP
EXAMPLE = "train.learning_rate = { min = 1e-4, max = 1e-2, log = true }"
RANGE = "{ min = …, max = … }"
RANGE_KEYS = ("min", "max", "log", "step")
_ELSEWHERE = {  # what other libraries call the bounds of a range
    **dict.fromkeys(("low", "lower", "minimum", "from", "start", "lo"), "min"),
    **dict.fromkeys(("high", "upper", "maximum", "to", "stop", "end", "hi"), "max"),
    **dict.fromkeys(("log_scale", "log_uniform", "loguniform", "logarithmic"), "log"),
    **dict.fromkeys(("q", "quantum", "interval", "stride"), "step"),
}

Sampler = Literal["tpe", "gp", "cmaes", "qmc", "random", "grid"]
Pruner = Literal["median", "successive_halving", "hyperband", "none"]


class SweepConfig(ConfigSection):
    """Settings of a sweep; the tables [sweep.task] and [sweep.train] hold the values to try."""

    trials: int = Field(20, ge=1, description="Number of trials, of all processes together.")
    minutes: float = Field(0.0, ge=0, description="Start no trial after this many minutes (0: no limit).")
    sampler: Sampler = Field("tpe", description="How the next values are chosen.")
    pruner: Pruner = Field("median", description="When a trial that is worse than others is stopped early.")
    prune_after_trials: int = Field(5, ge=0, description="Finished trials before any trial is pruned.")
    prune_after_evaluations: int = Field(1, ge=1, description="Evaluations of a trial before it is pruned.")
    seed: int = Field(1, ge=0, description="Random seed of the sampler; train.seed is that of each training.")


@dataclass(frozen=True)
class Choice:
    """One of several values, in no order."""

    values: tuple[Any, ...]

    def contains(self, value: Any) -> bool:
        return literal(value) in map(literal, self.values)

    def grid(self) -> Sequence[Any]:
        return self.values

    def extremes(self) -> Iterator[tuple[Any, KeyPath]]:
        """The values to check before the first trial, each with the key that holds it."""
        for index, value in enumerate(self.values):
            yield value, (index,)


@dataclass(frozen=True)
class NumberRange:
    """A number between two bounds, both included."""

    low: float
    high: float
    log: bool = False
    step: float | None = None
    integer: bool = False

    def contains(self, value: Any) -> bool:
        if isinstance(value, bool) or not isinstance(value, int | float) or not self.low <= value <= self.high:
            return False
        steps = (value - self.low) / self.step if self.step else 0.0
        return math.isclose(steps, round(steps), abs_tol=1e-9)

    def grid(self) -> Sequence[float]:
        """All values of a range in steps; none if it is continuous."""
        step = self.step or (1 if self.integer and not self.log else None)
        if step is None:
            return ()
        count = math.floor((self.high - self.low) / step + 1e-9) + 1
        return [self.low + index * step for index in range(count)]

    def extremes(self) -> Iterator[tuple[Any, KeyPath]]:
        yield self.low, ("min",)
        yield self.high, ("max",)


Domain = Choice | NumberRange
Space = Mapping[str, Domain]
"""The values to try, by ``section.key``."""


def parse_sweep(document: Document, sections: Sections) -> tuple[SweepConfig, dict[str, Domain]]:
    """The settings and the search space of a document; ConfigError with everything that is wrong with them.

    ``sections`` are those of the configuration that is varied.
    """
    table = document.values.get(TABLE)
    if not isinstance(table, dict):
        message = f"missing table [{TABLE}]: list the values to try, such as {EXAMPLE}"
        raise ConfigError(f"{document.location(TABLE)}: {message}")
    parser = _Parser(document, sections)
    for name, value in table.items():
        if name in sections:
            parser.walk((name,), value)
        elif name not in SweepConfig.model_fields:
            parser.unknown((name,), value)
    settings = {name: value for name, value in table.items() if name in SweepConfig.model_fields}
    parser.problems += [(path, message) for path, message in find_problems({TABLE: SweepConfig}, {TABLE: settings})]
    if not parser.problems and not parser.domains:
        message = f"no values to try: add keys such as {TABLE}.train.learning_rate = [0.001, 0.01]"
        parser.problems.append(((TABLE,), message))
    if not parser.problems and settings.get("sampler") == "grid":
        parser.check_grid()
    if parser.problems:
        located = [(_line(document, path), text) for path, text in parser.problems]
        located.sort(key=lambda problem: problem[0] or math.inf)
        raise ConfigError(*(f"{f'{document.name}:{line}' if line else COMMAND_LINE}: {text}" for line, text in located))
    config = SweepConfig.model_validate_json(json.dumps(settings))
    return config, {dotted(path): domain for path, domain in parser.domains.items()}


def assign(document: Document, values: Mapping[str, Any]) -> Document:
    """The document without ``[sweep]`` and with values by ``section.key``; errors name their lines in ``[sweep]``."""
    lines = dict(document.lines)
    changed = {name: table for name, table in document.values.items() if name != TABLE}
    for name, value in values.items():
        path = tuple(name.split("."))
        changed = _with_value(changed, path, value)
        lines[path] = _line(document, (TABLE, *path))
    return Document(document.name, changed, lines)


def _with_value(table: Mapping[str, Any], path: Sequence[str | int], value: Any) -> dict[str, Any]:
    """A copy of nested tables with one value set."""
    first, *rest = path
    inner = table.get(str(first))
    return {**table, str(first): _with_value(inner if isinstance(inner, dict) else {}, rest, value) if rest else value}


def _line(document: Document, path: KeyPath) -> int:
    """The line of a key, or else of its table; 0 on the command line."""
    while path not in document.lines:
        path = path[:-1]
    return document.lines[path]


class _Parser:
    def __init__(self, document: Document, sections: Sections) -> None:
        self.document, self.sections = document, sections
        self.keys = all_keys(sections)
        self.annotations = dict(_annotations(sections))
        self.domains: dict[KeyPath, Domain] = {}
        self.problems: list[tuple[KeyPath, str]] = []

    def walk(self, path: KeyPath, value: Any, *, inside: bool = False) -> None:
        """Read the domains of a key and of those below it; ``inside``: of a key that holds a table of any names."""
        if path not in self.keys and not inside:
            self.unknown(path, value)
        elif isinstance(value, list):
            self.add(path, self.choice(path, value))
        elif isinstance(value, dict) and (self.keys.get(path) or self.is_free_table(path, value)):
            for name, inner in value.items():
                self.walk((*path, name), inner, inside=not self.keys.get(path))
        elif isinstance(value, dict):
            self.add(path, self.range(path, value))
        else:
            expected = "a table" if self.keys.get(path) else f"a list of values or a range {RANGE}"
            fixed = "" if self.keys.get(path) else f"; a fixed value is written as {dotted(path)} = {literal(value)}"
            self.report(path, f"expected {expected}, got {literal(value)}{fixed}")

    def is_free_table(self, path: KeyPath, value: dict[str, Any]) -> bool:
        """Whether a table holds values of a key such as ``options``, and is no range."""
        holds_tables = any(get_origin(member) is dict for member in members(self.annotations.get(path, Any)))
        return holds_tables and not {"min", "max"} & value.keys()

    def add(self, path: KeyPath, domain: Domain | None) -> None:
        """Add a domain whose values are valid for its key."""
        if domain is None:
            return
        self.domains[path] = domain
        for value, step in domain.extremes():
            place = (TABLE, *path, *step)
            changed = _with_value({name: self.document.values.get(name, {}) for name in self.sections}, path, value)
            for problem_path, message in find_problems(self.sections, changed):
                if problem_path[: len(path)] == path:
                    self.problems.append((place, message))

    def choice(self, path: KeyPath, values: list[Any]) -> Choice | None:
        texts = list(map(literal, values))
        if repeated := [text for index, text in enumerate(texts) if text in texts[:index]]:
            self.report(path, f"{repeated[0]} is listed twice")
        elif len(values) < 2:
            fixed = f"; a fixed value is written as {dotted(path)} = {texts[0]}" if values else ""
            self.report(path, f"expected at least two values, got {literal(values)}{fixed}")
        else:
            return Choice(tuple(values))
        return None

    def range(self, path: KeyPath, table: dict[str, Any]) -> NumberRange | None:
        before = len(self.problems)
        for name in [name for name in table if name not in RANGE_KEYS]:
            near = _ELSEWHERE.get(name.lower()) or nearest(name, RANGE_KEYS)
            hint = f'did you mean "{near}"?' if near else f"a range has the keys {', '.join(RANGE_KEYS)}"
            self.problems.append(((TABLE, *path, name), f'unknown key "{dotted((TABLE, *path, name))}"; {hint}'))
        missing = [name for name in ("min", "max") if name not in table]
        if missing and len(self.problems) == before:
            self.report(path, f"a range needs {' and '.join(missing)}: {RANGE}, or give a list of values")
        annotation = self.annotations.get(path, Any)
        types = [] if annotation is Any else members(annotation)
        integer = int in types and float not in types
        if types and int not in types and float not in types:
            allowed = choices(annotation)
            values = f", {one_of(allowed)}" if allowed else ""
            self.report(path, f"a range needs a key with numbers; give a list of values{values}")
        if len(self.problems) == before:
            self.check_numbers(path, table, integer=integer)
        if len(self.problems) > before:
            return None
        if not types:
            integer = all(isinstance(table.get(name, 1), int) for name in ("min", "max", "step"))
        number = int if integer else float
        step = number(table["step"]) if "step" in table else None
        return NumberRange(number(table["min"]), number(table["max"]), table.get("log", False), step, integer)

    def check_numbers(self, path: KeyPath, table: dict[str, Any], *, integer: bool) -> None:
        expected, types = ("an integer", int) if integer else ("a number", int | float)
        for name in ("min", "max", "step"):
            value = table.get(name, 1)
            if isinstance(value, bool) or not isinstance(value, types) or not math.isfinite(value):
                self.report((*path, name), f"expected {expected}, got {literal(value)}")
                return
        low, high, log = table["min"], table["max"], table.get("log", False)
        if not isinstance(log, bool):
            self.report((*path, "log"), f"expected true or false, got {literal(log)}")
        elif low >= high:
            self.report(path, f"min must be less than max, got {literal(low)} and {literal(high)}")
        elif log and low <= 0:
            self.report((*path, "min"), f"a logarithmic range needs a min greater than 0, got {literal(low)}")
        elif log and "step" in table:
            self.report((*path, "step"), "a logarithmic range has no step: remove log or step")
        elif "step" in table and not 0 < table["step"] <= high - low:
            self.report((*path, "step"), f"expected a number between 0 and max − min, got {literal(table['step'])}")

    def check_grid(self) -> None:
        for path, domain in self.domains.items():
            if not domain.grid():
                self.report(path, 'sampler "grid" needs a list of values or a step')

    def report(self, path: KeyPath, message: str) -> None:
        self.problems.append(((TABLE, *path), f"{dotted((TABLE, *path))}: {message}"))

    def unknown(self, path: KeyPath, value: Any) -> None:
        """A key that the configuration does not have."""
        full = (TABLE, *path)
        known: dict[KeyPath, bool] = {(TABLE, *key): table for key, table in self.keys.items()}
        known |= {(TABLE, name): False for name in SweepConfig.model_fields}
        is_table = isinstance(value, dict) and not {"min", "max"} & value.keys()
        near = suggestions(full, known, table=is_table)
        here = [key[-1] for key in known if key[:-1] == full[:-1]]
        names = " or ".join(f'"{dotted(key)}"' for key in near)
        hint = f"did you mean {names}?" if near else f"allowed keys: {', '.join(map(str, here))}"
        self.problems.append((full, f'unknown key "{dotted(full)}"; {hint}'))


def _annotations(sections: Sections, path: KeyPath = ()) -> Iterator[tuple[KeyPath, Any]]:
    """The annotation of every key."""
    for name, section in sections.items():
        yield from _section_annotations(section, (*path, name))


def _section_annotations(section: Any, path: KeyPath) -> Iterator[tuple[KeyPath, Any]]:
    for name, field in fields(section).items():
        yield (*path, name), field.annotation
        for part in nested(field.annotation):
            yield from _section_annotations(part, (*path, name))


def with_space(document: Document, space: Mapping[str, Any]) -> Document:
    """The document with further values to try, by ``section.key``."""
    values, lines = document.values, dict(document.lines)
    for name, domain in space.items():
        path = (TABLE, *name.split("."))
        values = _with_value(values, path, list(domain) if isinstance(domain, tuple) else domain)
        lines = {known: line for known, line in lines.items() if known[: len(path)] != path}
        lines[path] = 0
    return Document(document.name, values, lines)


def count_combinations(space: Space) -> int:
    """The number of combinations of listed values; 0: a key has a range."""
    if not all(isinstance(domain, Choice) for domain in space.values()):
        return 0
    return math.prod(len(domain.grid()) for domain in space.values())
