"""Symbols and labels ↔ numbers."""

import difflib
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Self

from pydantic import Field, model_validator

from seqloom.config import ConfigSection
from seqloom.data.readers.text_files import DataError, Location

PAD, UNKNOWN = "<pad>", "<unk>"
START, END = "<s>", "</s>"


class Vocabulary(ConfigSection):
    """Symbols by number: padding, unknown, specials, then the symbols from the most to the least frequent."""

    symbols: tuple[str, ...] = Field(description="Each symbol at its number; 0 is <pad>, 1 is <unk>.")

    @model_validator(mode="after")
    def check(self) -> Self:
        if self.symbols[:2] != (PAD, UNKNOWN):
            raise ValueError(f"a vocabulary begins with {PAD} and {UNKNOWN}, found {self.symbols[:2]}")
        if len(self.numbers) < len(self.symbols):
            raise ValueError("a vocabulary holds each symbol once")
        return self

    @cached_property
    def numbers(self) -> dict[str, int]:
        return {symbol: number for number, symbol in enumerate(self.symbols)}

    def index(self, symbol: str) -> int:
        return self.numbers.get(symbol, 1)

    def encode(self, symbols: Iterable[str]) -> list[int]:
        find = self.numbers.get
        return [find(symbol, 1) for symbol in symbols]

    def decode(self, ids: Iterable[int]) -> list[str]:
        return [self.symbols[number] for number in ids]

    def __len__(self) -> int:
        return len(self.symbols)

    def __contains__(self, symbol: str) -> bool:
        return symbol in self.numbers


def count(symbols: Iterable[str], *, size: int = 0, minimum: int = 1, specials: Sequence[str] = ()) -> Vocabulary:
    """The vocabulary of what occurs at least ``minimum`` times, specials included at most ``size`` symbols (0: all)."""
    return ranked(Counter(symbols), size=size, minimum=minimum, specials=specials)


def ranked(counts: Counter[str], *, size: int, minimum: int, specials: Sequence[str]) -> Vocabulary:
    """``count`` of what is counted already."""
    first = (PAD, UNKNOWN, *specials)
    if 0 < size < len(first):
        raise ValueError(f"size is {size}; there are {len(first)} special symbols: {' '.join(first)}")
    frequent = (symbol for symbol, number in counts.items() if number >= minimum and symbol not in first)
    chosen = sorted(frequent, key=lambda symbol: (-counts[symbol], symbol))
    return Vocabulary(symbols=(*first, *(chosen[: size - len(first)] if size else chosen)))


class Labels(ConfigSection):
    """The names of the classes, in the order of the alphabet."""

    names: tuple[str, ...] = Field(description="Each name at its number.")

    @model_validator(mode="after")
    def check(self) -> Self:
        if len(self.numbers) < len(self.names):
            raise ValueError("each label has its own name")
        return self

    @classmethod
    def of(cls, names: Iterable[str]) -> Self:
        return cls(names=tuple(sorted(set(names))))

    @cached_property
    def numbers(self) -> dict[str, int]:
        return {name: number for number, name in enumerate(self.names)}

    def index(self, name: str, *, location: Location | str = "label") -> int:
        number = self.numbers.get(name)
        if number is None:
            raise self.unseen(name, location)
        return number

    def unseen(self, name: str, location: Location | str) -> DataError:
        near = difflib.get_close_matches(name[:100], self.names, n=1)
        hint = f"the nearest is {near[0]!r}" if near else f"there are {', '.join(self.names[:20])}"
        return DataError(location, f"the label {name[:100]!r} does not occur in the training data; {hint}")

    def __len__(self) -> int:
        return len(self.names)

    def __contains__(self, name: str) -> bool:
        return name in self.numbers
