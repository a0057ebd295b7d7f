"""Questions about words as users type them, and the test files of analogies and word similarities."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Literal

from seqloom.data.readers.text_files import STANDARD_INPUT, DataError, Location, Source, lines

Kind = Literal["neighbours", "analogy", "similarity", "odd", "unclear"]
DETECTION_LINES = 5  # lines that show the kind of a file


@dataclass(frozen=True, slots=True)
class Question:
    """A question about words; in a test file, with its expected answer."""

    location: Location
    kind: Kind
    words: tuple[str, ...]
    signs: tuple[int, ...]  # 1: add the word, -1: subtract it
    truth: str = ""  # expected answer of an analogy
    group: str = ""
    human: float | None = None  # similarity rated by people

    def __len__(self) -> int:
        return len(self.words)

    @property
    def text(self) -> str:
        """The question as it is typed, such as ``king - man + woman``."""
        if self.kind != "analogy":
            return " ".join(self.words)
        first = self.signs.index(1)  # a word that is added comes first
        rest = [*zip(self.signs, self.words, strict=True)]
        del rest[first]
        return self.words[first] + "".join(f" {'+' if sign > 0 else '-'} {word}" for sign, word in rest)


def parse_question(location: Location, text: str) -> Question:
    """One word: its neighbours; two: their similarity; more: the odd one out; words with + and -: an analogy."""
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


def read_questions(source: Source, *, encoding: str = "utf-8") -> Iterator[Question]:
    """The questions of a file or list, one per line."""
    for location, text in lines(source, encoding=encoding):
        yield parse_question(location, text)


def detect(source: Source, *, encoding: str = "utf-8") -> Literal["analogies", "pairs", "text"]:
    """The kind of a file by its first lines: ``: group`` starts analogies, two words and a number are a pair."""
    if not isinstance(source, Path):
        first = [text for text in islice(source, DETECTION_LINES) if isinstance(text, str)]
    elif source == STANDARD_INPUT or source.is_dir():
        return "text"
    else:
        first = []
        for _, text in lines(source, encoding=encoding):
            if text.strip() and not text.startswith("#"):
                first.append(text[:1000])
            if len(first) == DETECTION_LINES:
                break
    if first and re.match(r":\s*\S", first[0]):
        return "analogies"
    pairs = sum(_pair(text) is not None for text in first)
    return "pairs" if pairs and pairs >= len(first) - 1 else "text"  # the first line may be a header


def read_test(source: Source, *, encoding: str = "utf-8") -> Iterator[Question]:
    """The questions of a test file with their answers."""
    if detect(source, encoding=encoding) == "analogies":
        yield from _analogies(source, encoding)
        return
    for number, (location, text) in enumerate(_content_lines(source, encoding)):
        pair = _pair(text)
        if pair:
            first, second, human = pair
            yield Question(location, "similarity", (first, second), (1, 1), human=human)
        elif number:
            raise DataError(location, f"expected two words and a number, found {text[:60]!r}")


def _analogies(source: Source, encoding: str) -> Iterator[Question]:
    group = ""
    for location, text in _content_lines(source, encoding):
        if text.startswith(":"):
            group = text[1:].strip()
            continue
        words = text.split()
        if len(words) != 4:
            raise DataError(location, f"expected four words, or ':' and the name of a group, found {len(words)} words")
        yield Question(location, "analogy", tuple(words[:3]), (-1, 1, 1), truth=words[3], group=group)


def _content_lines(source: Source, encoding: str) -> Iterator[tuple[Location, str]]:
    for location, text in lines(source, encoding=encoding):
        if text.strip() and not text.startswith("#"):
            yield location, text


def _pair(text: str) -> tuple[str, str, float] | None:
    """Two words and a number, separated by tabs, commas, semicolons or spaces; SimLex has a part of speech between."""
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
