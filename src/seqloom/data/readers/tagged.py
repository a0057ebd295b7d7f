"""Sequences with a label per element: words from CoNLL, CoNLL-U, parallel files or plain lines, and vectors."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from seqloom.data.readers.conll import Block, conll, conllu
from seqloom.data.readers.text_files import STANDARD_INPUT, DataError, Location, Source, lines, parallel
from seqloom.data.readers.vectors import VectorSequence, frames, npz

CONLLU = ("id", "form", "lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc")
Column = int | str
"""The index of a column from 0 (negative: from the end), or its name in CoNLL-U."""


@dataclass(frozen=True, slots=True)
class Sentence:
    """Words, with their labels if known."""

    location: Location  # location of the first word
    words: tuple[str, ...]
    labels: tuple[str, ...] | None = None
    lines: Sequence[int] = ()  # line of each word; empty if all are on one line

    def __len__(self) -> int:
        return len(self.words)

    def at(self, word: int) -> Location:
        return self.location._replace(line=self.lines[word]) if self.lines else self.location


TaggedSequence = Sentence | VectorSequence

Format = Literal["auto", "conll", "conllu", "lines", "vectors"]


@dataclass(frozen=True)
class TaggedReader:
    """Reads sentences or vectors from files; tasks/tag.py documents the options."""

    format: Format = "auto"
    encoding: str = "utf-8"
    words: Column | None = None
    labels: Column | None = None
    parallel: tuple[str, str] | None = None  # parts of the file names of words and labels
    frames: bool = False  # read vectors if the file name does not show the format

    def read(self, source: Source) -> Iterator[TaggedSequence]:
        if not isinstance(source, Path):
            return read_items(source)
        if self.parallel is not None and self.format == "auto" and source != STANDARD_INPUT:
            return read_parallel(source, self.parallel, encoding=self.encoding)
        kind = detect(source, frames=self.frames) if self.format == "auto" else self.format
        if kind == "vectors":
            return read_frames(source, labels=self.labels)
        if kind == "lines":
            return read_lines(source, encoding=self.encoding)
        columns = read_conllu if kind == "conllu" else read_conll
        return columns(source, words=self.words, labels=self.labels, encoding=self.encoding)


def detect(path: Path, *, frames: bool) -> Format:
    """The format of a file by its name; ``frames``: read vectors if the name does not show it."""
    suffix = Path(path.name.removesuffix(".gz")).suffix.lower()
    names: dict[str, Format] = {".conllu": "conllu", ".csv": "vectors", ".npz": "vectors"}
    return names.get(suffix, "vectors" if frames else "lines" if path == STANDARD_INPUT else "conll")


def read_conll(
    source: Source, *, words: Column | None = None, labels: Column | None = None, encoding: str = "utf-8"
) -> Iterator[Sentence]:
    """CoNLL: by default the first column is the word and the last the label; a single column has no labels."""
    for block in conll(source, encoding=encoding):
        width = len(block.rows[0])
        first = _column(block.location, 0 if words is None else words, width, names=())
        second = None if width == 1 else _column(block.location, -1 if labels is None else labels, width, names=())
        yield _sentence(block, first, second)


def read_conllu(
    source: Source, *, words: Column | None = None, labels: Column | None = None, encoding: str = "utf-8"
) -> Iterator[Sentence]:
    """CoNLL-U; a sentence whose labels are all ``_`` has none."""
    for block in conllu(source, encoding=encoding):
        first = _column(block.location, "form" if words is None else words, len(CONLLU), names=CONLLU)
        second = _column(block.location, "upos" if labels is None else labels, len(CONLLU), names=CONLLU)
        known = any(row[second] != "_" for row in block.rows)
        yield _sentence(block, first, second if known else None)


def read_parallel(source: Path, names: tuple[str, str], *, encoding: str = "utf-8") -> Iterator[Sentence]:
    """Words and labels in two files, line by line; the second file may be missing.

    The last occurrence of the first name in the path is replaced by the second: ``("seq.in", "seq.out")``.
    """
    before, part, after = str(source).rpartition(names[0])
    if not part:
        raise DataError(str(source), f"{names[0]!r} (task.parallel) does not occur in the file name")
    labels = Path(before + names[1] + after)
    if not labels.exists():
        yield from read_lines(source, encoding=encoding)
        return
    for location, text, tags in parallel(source, labels, encoding=encoding):
        words, word_labels = tuple(text.split()), tuple(tags.split())
        if len(words) != len(word_labels):
            raise DataError(location, f"found {len(words)} words, but {len(word_labels)} labels in {labels}")
        yield Sentence(location, words, word_labels)


def read_lines(source: Source, *, encoding: str = "utf-8") -> Iterator[Sentence]:
    """Words separated by whitespace, without labels."""
    for location, text in lines(source, encoding=encoding):
        yield Sentence(location, tuple(text.split()))


def read_frames(source: Path, *, labels: Column | None = None) -> Iterator[VectorSequence]:
    """Labelled vectors: rows of a CSV file with empty lines between sequences, or a .npz file."""
    if source.name.lower().endswith(".npz"):
        yield from npz(source)
        return
    if isinstance(labels, str):
        raise DataError(str(source), f"expected the index of the label column, found the name {labels!r}")
    yield from frames(source, label=-1 if labels is None else labels)


def read_items(items: Sequence[Any]) -> Iterator[TaggedSequence]:
    """Python values: lines of text, lists of words, arrays (T, D), Sentence and VectorSequence objects."""
    if isinstance(items, str):
        raise DataError("input", "expected a list of strings, found a single string")
    for number, item in enumerate(items, start=1):
        location = Location("input", number)
        if isinstance(item, Sentence | VectorSequence):
            yield item
        elif isinstance(item, str):
            yield Sentence(location, tuple(item.split()))
        elif isinstance(item, list | tuple) and all(isinstance(word, str) for word in item):
            yield Sentence(location, tuple(item))
        else:
            yield VectorSequence(location, _array(location, item))


def _array(location: Location, item: Any) -> NDArray[np.float32]:
    try:
        values = np.asarray(item, dtype=np.float32)
    except (TypeError, ValueError):
        raise DataError(
            location, f"expected a string, a list of words or an array (T, D), found {type(item).__name__}"
        ) from None
    if values.ndim != 2 or not np.isfinite(values).all():
        raise DataError(location, f"expected finite numbers (T, D), found an array {values.shape}")
    return values


def _column(location: Location, column: Column, width: int, *, names: Sequence[str]) -> int:
    if isinstance(column, str):
        if column.lower() not in names:
            expected = f"one of {', '.join(names)}" if names else "an index, since only CoNLL-U names its columns"
            raise DataError(location, f"no column {column!r}; expected {expected}")
        return names.index(column.lower())
    if not -width <= column < width:
        raise DataError(location, f"no column {column} among {width} (the first is 0, the last -1)")
    return column % width


def _sentence(block: Block, words: int, labels: int | None) -> Sentence:
    numbers = [block.at(row).line for row in range(len(block.rows))]
    consecutive = range(numbers[0], numbers[0] + len(numbers))
    return Sentence(
        block.location,
        tuple(row[words] for row in block.rows),
        None if labels is None else tuple(row[labels] for row in block.rows),
        consecutive if numbers == list(consecutive) else tuple(numbers),
    )


def are_spans(labels: Iterable[str]) -> bool:
    """Whether all labels are O or have one of the prefixes B-, I-, E- and S-."""
    names = set(labels) - {"O"}
    return bool(names) and all(name[:2] in ("B-", "I-", "E-", "S-") and len(name) > 2 for name in names)


def invalid_transitions(sentences: Iterable[Sentence]) -> Iterator[tuple[Location, str]]:
    """Each I- or E- label that does not continue a span of its type, with its location."""
    for sentence in sentences:
        for word, (before, label) in enumerate(pairwise(("O", *(sentence.labels or ())))):
            if label[:2] in ("I-", "E-") and not (before[:2] in ("B-", "I-") and before[2:] == label[2:]):
                follows = f"follows {before}" if word else "is the first label"
                yield sentence.at(word), f"{label} {follows}, so there is no span to continue"
