"""How long examples are, and what is counted of each side of a pair."""

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor

from seqloom.data.readers.text_files import Location

SHOWN = 3  # locations of each finding


@dataclass(frozen=True)
class LengthSummary:
    """How long examples are."""

    minimum: int
    median: float
    mean: float
    most: int  # 95 % are at most as long
    maximum: int
    histogram: dict[str, int]  # examples by their length, from a power of two to the next

    @classmethod
    def of(cls, lengths: Counter[int]) -> "LengthSummary":
        values, counts = (np.array(each) for each in zip(*sorted(lengths.items()), strict=True))
        below = counts.cumsum()
        total = int(below[-1])
        ranks = [(total + 1) // 2, total // 2 + 1, math.ceil(0.95 * total)]  # from 1
        low, high, most = values[np.searchsorted(below, ranks)].tolist()
        histogram: Counter[int] = Counter()
        for length, count in lengths.items():
            histogram[length.bit_length()] += count
        return cls(
            minimum=int(values[0]),
            median=(low + high) / 2,
            mean=float(values @ counts / total),
            most=most,
            maximum=int(values[-1]),
            histogram={_span(bits): histogram[bits] for bits in range(min(histogram), max(histogram) + 1)},
        )


def _span(bits: int) -> str:
    first, last = (1 << bits) >> 1, (1 << bits) - 1
    return str(first) if first >= last else f"{first}-{last}"


class Findings:
    """The first few of what was found; all are counted."""

    def __init__(self) -> None:
        self.total = 0
        self.first: list[Any] = []

    def note(self, finding: Any) -> None:
        self.total += 1
        if len(self.first) < SHOWN:
            self.first.append(finding)

    def __bool__(self) -> bool:
        return self.total > 0

    def __str__(self) -> str:
        return join_names(self.first, self.total)


@dataclass(frozen=True)
class SideSummary:
    """One side of the pairs of a file."""

    empty: int
    unknown: float | None  # share of its symbols
    lengths: LengthSummary


class SideCounter:
    """What is gathered of one side while pairs are read."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.lengths: Counter[int] = Counter()
        self.empty = Findings()  # locations
        self.symbols = self.unknown = 0

    def add(self, length: int, location: Location) -> None:
        self.lengths[length] += 1
        if not length:
            self.empty.note(location)

    def count(self, symbols: Tensor) -> None:  # (N,)
        self.symbols += len(symbols)
        self.unknown += int((symbols == 1).sum())

    def facts(self) -> SideSummary:
        return SideSummary(self.empty.total, self.share if self.symbols else None, LengthSummary.of(self.lengths))

    @property
    def share(self) -> float:
        """Of unknown symbols."""
        return self.unknown / max(self.symbols, 1)

    def compare(self, train: "SideCounter") -> Iterator[str]:
        """What is worth knowing about a side of the development data."""
        if self.unknown:
            why = "they all look the same" if self.name == "source" else "no model can say them"
            yield f"dev: {self.share:.2%} of the symbols of the {self.name} do not occur in train: {why}"
        if self.unknown and self.name == "source" and not train.unknown:
            yield "dev: no symbol of train is unknown, so that nothing is learnt about it: raise task.source.min_count"


def counted(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def join_names(things: Sequence[object], total: int = 0) -> str:
    """The first of them, and dots where there are more."""
    return ", ".join(map(str, things[:SHOWN])) + (", …" if max(total, len(things)) > SHOWN else "")
