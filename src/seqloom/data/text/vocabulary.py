"""Vocabularies: tokens and labels ↔ ids."""

import difflib
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Self

from pydantic import Field, model_validator

from seqloom.config import ConfigSection
from seqloom.data.readers.decimal_marks import unit_of
from seqloom.data.readers.text_files import DataError, Location

PAD, UNKNOWN = "<pad>", "<unk>"
START, END = "<s>", "</s>"
MASK = "[MASK]"
"""A hidden token, in texts for masked language models."""


class Vocabulary(ConfigSection):
    """Tokens by id: padding, unknown, specials, then the others by decreasing frequency."""

    tokens: tuple[str, ...] = Field(description="Tokens in the order of their ids; 0 is <pad>, 1 is <unk>.")

    @model_validator(mode="after")
    def check(self) -> Self:
        if self.tokens[:2] != (PAD, UNKNOWN):
            raise ValueError(f"expected {PAD} and {UNKNOWN} at the start of a vocabulary, found {self.tokens[:2]}")
        if len(self.ids) < len(self.tokens):
            raise ValueError("duplicate tokens in a vocabulary")
        return self

    @cached_property
    def ids(self) -> dict[str, int]:
        return {token: index for index, token in enumerate(self.tokens)}

    def index(self, token: str) -> int:
        return self.ids.get(token, 1)

    def encode(self, tokens: Iterable[str]) -> list[int]:
        find = self.ids.get
        return [find(token, 1) for token in tokens]

    def decode(self, ids: Iterable[int]) -> list[str]:
        return [self.tokens[index] for index in ids]

    def __len__(self) -> int:
        return len(self.tokens)

    def __contains__(self, token: str) -> bool:
        return token in self.ids


def build_vocabulary(
    tokens: Iterable[str], *, size: int = 0, min_count: int = 1, specials: Sequence[str] = ()
) -> Vocabulary:
    """The tokens that occur at least ``min_count`` times; at most ``size`` with the special tokens (0: all)."""
    return vocabulary_from_counts(Counter(tokens), size=size, min_count=min_count, specials=specials)


def vocabulary_from_counts(
    counts: Counter[str], *, size: int = 0, min_count: int = 1, specials: Sequence[str] = ()
) -> Vocabulary:
    """As ``build_vocabulary``, from counts of tokens."""
    first = (PAD, UNKNOWN, *specials)
    if 0 < size < len(first):
        raise ValueError(f"vocab_size is {size}, but there are {len(first)} special tokens: {' '.join(first)}")
    frequent = (token for token, count in counts.items() if count >= min_count and token not in first)
    ordered = sorted(frequent, key=lambda token: (-counts[token], token))
    return Vocabulary(tokens=(*first, *(ordered[: size - len(first)] if size else ordered)))


MIN_EXAMPLES = 20  # fewer do not show whether labels recur, or are others than those of the training data


class Labels(ConfigSection):
    """Class names in alphabetical order."""

    names: tuple[str, ...] = Field(description="Names in the order of their ids.")

    @model_validator(mode="after")
    def check(self) -> Self:
        if len(self.ids) < len(self.names):
            raise ValueError("duplicate label names")
        return self

    @classmethod
    def of(cls, names: Iterable[str]) -> Self:
        return cls(names=tuple(sorted(set(names))))

    @cached_property
    def ids(self) -> dict[str, int]:
        return {name: index for index, name in enumerate(self.names)}

    def index(self, name: str, *, location: Location | str = "label") -> int:
        index = self.ids.get(name)
        if index is None:
            raise self.unseen_error(name, location)
        return index

    def check_known(self, labels: Sequence[tuple[Location, str]], *, outside: str = "") -> None:
        """Raise a DataError if none of the labels is one of these.

        ``outside``, the label of all elements that are in no span, is ignored if there are enough others.
        """
        inside = [(location, name) for location, name in labels if not outside or name != outside]
        others = ""
        if MIN_EXAMPLES <= len(inside) < len(labels):
            labels, others = inside, f" except {outside!r}"
        if not labels or any(name in self.ids for _, name in labels):
            return
        unseen = list(dict.fromkeys(name[:40] for _, name in labels))
        new, known = (
            ", ".join(map(repr, names[:5])) + (", …" if len(names) > 5 else "") for names in (unseen, self.names)
        )
        raise DataError(
            labels[0][0],
            f"no label{others} occurs in the training data, so that all answers{others} are wrong: found {new}; known "
            f"are {known}"
            + (f"; did you mean {near!r} instead of {unseen[0]!r}?" if (near := self.nearest(unseen[0])) else ""),
        )

    def nearest(self, name: str) -> str:
        """The label that a name may mean: the same in another case, longer, or spelt alike; empty if there is none."""
        folded = {known.casefold(): known for known in reversed(self.names)}
        short = name[:100].casefold()
        longer = [known for key, known in folded.items() if len(short) > 1 and key.startswith(short)]
        alike = [folded[key] for key in difflib.get_close_matches(short, folded, n=1)]
        return next(iter([*filter(None, [folded.get(short)]), *longer, *alike]), "")

    def describe_unseen(self, names: Iterable[str]) -> str:
        """Those of the names that are no labels, with what they may mean; empty if all are."""
        unseen = [name for name in names if name not in self.ids]
        near = ((name, self.nearest(name)) for name in unseen[:5])
        shown = [f"{name[:40]!r}" + (f" (did you mean {label!r}?)" if label else "") for name, label in near]
        return ", ".join(shown) + ", …" * (len(unseen) > 5)

    def unseen_error(self, name: str, location: Location | str) -> DataError:
        similar = difflib.get_close_matches(name[:100], self.names, n=1)
        hint = f"did you mean {similar[0]!r}?" if similar else f"known labels: {', '.join(self.names[:20])}"
        return DataError(location, f"label {name[:100]!r} does not occur in the training data; {hint}")

    def __len__(self) -> int:
        return len(self.names)

    def __contains__(self, name: str) -> bool:
        return name in self.ids


def labels_problem(counts: Counter[str], *, noun: str = "example") -> str:
    """Why labels with these counts are probably no classes; empty if they may be."""
    examples = counts.total()
    if len(counts) == 1 and examples > 1:
        return f"all {examples:,} {noun}s have the same label {next(iter(counts))[:40]!r}"
    single = sum(count == 1 for count in counts.values())
    if examples >= MIN_EXAMPLES and 2 * single > examples:
        names = ", ".join(repr(name[:30]) for name in list(counts)[:3])
        unit = unit_of(next(iter(counts)))
        remedy = f"; to predict them as numbers, remove {unit}" if unit and all(map(unit_of, counts)) else ""
        return f"{single:,} of {examples:,} {noun}s have a label that occurs only once ({names}, …){remedy}"
    return ""
