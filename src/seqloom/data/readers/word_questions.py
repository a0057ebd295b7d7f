"""Questions about words: as people type them, and the test files of the field."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Literal

from seqloom.data.readers.text_files import DataError, Location, Source, lines

Kind = Literal["neighbours", "analogy", "similarity", "odd", "unclear"]
LOOKED_AT = 5  # lines of a file that tell what it is


@dataclass(frozen=True, slots=True)
class Question:
    """Words, and what is asked of them."""

    location: Location
    kind: Kind
    words: tuple[str, ...]
    signs: tuple[int, ...]  # 1: with it, -1: without it
    truth: str = ""  # of a test: the word that is meant
    group: str = ""
    human: float | None = None  # of a test: how similar people find them

    def __len__(self) -> int:
        return len(self.words)


def ask(location: Location, text: str) -> Question:
    """What a line asks: a word, its neighbours; two, their similarity; more, the odd one; words with + and -, a sum."""
    fields = text.split()
    if len(fields) > 1 and any(field in ("+", "-") for field in fields):
        if fields[0] not in ("+", "-"):
            fields = ["+", *fields]
        signs, words = fields[::2], fields[1::2]
        if len(signs) != len(words) or any(sign not in ("+", "-") for sign in signs):
            return Question(location, "unclear", (), ())
        return Question(location, "analogy", tuple(words), tuple(1 if sign == "+" else -1 for sign in signs))
    kinds: tuple[Kind, ...] = ("unclear", "neighbours", "similarity", "odd")
    return Question(location, kinds[min(len(fields), 3)], tuple(fields), (1,) * len(fields))


def asked(source: Source, *, encoding: str = "utf-8") -> Iterator[Question]:
    """The questions of a file or a list, one on each line."""
    for location, text in lines(source, encoding=encoding):
        yield ask(location, text)


def kind_of(source: Source, *, encoding: str = "utf-8") -> Literal["analogies", "pairs", "text"]:
    """What a file is, by its first lines: ``: group`` opens analogies; two words and a number are a pair."""
    if not isinstance(source, Path):
        first = [text for text in islice(source, LOOKED_AT) if isinstance(text, str)]
    elif source == Path("-") or source.is_dir():
        return "text"
    else:
        first = []
        for _, text in lines(source, encoding=encoding):
            if text.strip() and not text.startswith("#"):
                first.append(text[:1000])
            if len(first) == LOOKED_AT:
                break
    if first and re.match(r":\s*\S", first[0]):
        return "analogies"
    numbered = [text for text in first if _pair(text)]
    return "pairs" if numbered and len(numbered) >= len(first) - 1 else "text"  # the first line may be a head


def labelled(source: Source, *, encoding: str = "utf-8") -> Iterator[Question]:
    """The questions of a test file, with their answers."""
    if kind_of(source, encoding=encoding) == "analogies":
        yield from _analogies(source, encoding)
        return
    for number, (location, text) in enumerate(_filled(source, encoding)):
        found = _pair(text)
        if found:
            first, second, human = found
            yield Question(location, "similarity", (first, second), (1, 1), human=human)
        elif number:
            raise DataError(location, f"found {text[:60]!r}; two words and a number are wanted")


def _analogies(source: Source, encoding: str) -> Iterator[Question]:
    group = ""
    for location, text in _filled(source, encoding):
        if text.startswith(":"):
            group = text[1:].strip()
            continue
        words = text.split()
        if len(words) != 4:
            raise DataError(location, f"found {len(words)} words; four, or : and the name of a group, are wanted")
        yield Question(location, "analogy", tuple(words[:3]), (-1, 1, 1), truth=words[3], group=group)


def _filled(source: Source, encoding: str) -> Iterator[tuple[Location, str]]:
    for location, text in lines(source, encoding=encoding):
        if text.strip() and not text.startswith("#"):
            yield location, text


def _pair(text: str) -> tuple[str, str, float] | None:
    """Two words and a number, separated by tabs, commas, semicolons or blanks; SimLex has a word's kind before it."""
    for separator in ("\t", ",", ";", None):
        fields = [field.strip() for field in text.split(separator)]
        if len(fields) >= 3:
            break
    else:
        return None
    for value in fields[2:4] if len(fields) > 3 else fields[2:]:
        if re.fullmatch(r"-?\d+(\.\d+)?", value):
            return fields[0], fields[1], float(value)
    return None
