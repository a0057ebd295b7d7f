"""n-gram models in ARPA format, as used by SRILM, KenLM and speech recognisers."""

import gzip
import math
import re
from array import array
from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from io import TextIOWrapper
from pathlib import Path
from typing import IO, NamedTuple, Self, cast

import numpy as np
from numpy.typing import NDArray

from seqloom import files
from seqloom.data.readers.text_files import DataError, Location, lines
from seqloom.models.ngram.ngram import MISSING, Floats, Integers, NGram, look_up

START, END = "<s>", "</s>"
LOG_10 = math.log(10)
ZERO = -99.0
"""The logarithm of zero, by convention of the format."""
WHITESPACE = re.compile("[ \t\n\r\0]")
NAMES = {" ": "<space>", "\t": "<tab>", "\r": "<return>"}
"""Tokens that cannot be words of the format, and the words that stand for them."""
UNKNOWN_WORDS = ("<unk>", "<UNK>")
SLICE = 1 << 16  # n-grams formatted at once


def write_arpa(
    model: NGram,
    symbols: Sequence[str],  # (V,); those of start and end are written as <s> and </s>
    path: Path,
) -> None:
    """Write a model with nine digits, so that reading it back gives the same model."""
    names = to_arpa_words(symbols)
    if len(names) != model.vocabulary:
        raise ValueError(f"expected {model.vocabulary} tokens, one for each of the model, found {len(names)}")
    names[model.start], names[model.end] = START, END
    seen: dict[str, int] = {}
    for index, name in enumerate(names):
        if not name or WHITESPACE.search(name):
            raise ValueError(
                f"token {index} is {name!r}, but ARPA words are not empty and have no whitespace: use e.g. '<space>'"
            )
        if seen.setdefault(name, index) != index:
            raise ValueError(f"tokens {seen[name]} and {index} are both {name!r}, expected different ones")
    with files.replacing(path) as file:
        packed = gzip.GzipFile("", "wb", fileobj=file, mtime=0) if path.suffix == ".gz" else nullcontext(file)
        with packed as stream:
            write(model, names, cast(IO[bytes], stream))


def to_arpa_words(symbols: Iterable[str]) -> list[str]:
    """Tokens as words of the format."""
    return [NAMES.get(symbol, symbol) for symbol in symbols]


def from_arpa_words(names: Iterable[str]) -> list[str]:
    """Words of the format as the characters that they stand for."""
    originals = {name: character for character, name in NAMES.items()}
    return [originals.get(name, name) for name in names]


def write(model: NGram, names: Sequence[str], stream: IO[bytes]) -> None:
    table = np.array(names, dtype=object)
    file = TextIOWrapper(stream, encoding="utf-8", newline="\n")
    file.write("\\data\\\n")
    for order, values in enumerate(model.log_probabilities, start=1):
        file.write(f"ngram {order}={len(values)}\n")
    for order, values in enumerate(model.log_probabilities, start=1):
        file.write(f"\n\\{order}-grams:\n")
        for first in range(0, len(values), SLICE):
            rows = np.arange(first, min(first + SLICE, len(values)))
            columns = [format_logarithms(values[rows])]
            columns.append([" ".join(row) for row in table[ngram_words(model, rows, order=order)]])
            if order < model.order:
                columns.append(format_logarithms(model.log_backoffs[order - 1][rows]))
            file.writelines("\t".join(row) + "\n" for row in zip(*columns, strict=True))
    file.write("\n\\end\\\n")
    file.detach()


def ngram_words(model: NGram, rows: Integers, *, order: int) -> Integers:  # (N,) → (N, order)
    """The words of n-grams."""
    columns = []
    for keys in reversed(model.keys[: order - 1]):
        rows, word = np.divmod(keys[rows], model.vocabulary)
        columns.append(word)
    return np.stack([rows, *reversed(columns)], axis=1)


def format_logarithms(values: Floats) -> list[str]:
    """Natural logarithms as text in base 10."""
    return [f"{max(value, ZERO):.9g}" for value in (values.astype(np.float64) / LOG_10).tolist()]


def natural_logarithms(values: "array[float]") -> Floats:
    """Natural logarithms from base 10."""
    with np.errstate(over="ignore"):
        return (np.array(values) * LOG_10).astype(np.float32)


class Section(NamedTuple):
    """The n-grams of one order, in the order of the file."""

    words: Integers  # (N, order)
    probabilities: Floats  # (N,)
    backoffs: Floats  # (N,)
    lines: Integers  # (N,)

    def select(self, rows: Integers) -> Self:
        return type(self)(self.words[rows], self.probabilities[rows], self.backoffs[rows], self.lines[rows])


def read_arpa(path: Path) -> tuple[NGram, tuple[str, ...]]:
    """A model and its words, in the order of the file; without <unk> where the file has none."""
    return Reader(path).read()


def read_words(path: Path) -> tuple[str, ...]:
    """Only the words of a model, in the order of the file."""
    reader = Reader(path)
    reader.read_unigrams()
    return tuple(reader.index)


class ArpaVocabulary(NamedTuple):
    """The words of a file as our models number them: the start, the unknown word, the end, then the others in order."""

    names: tuple[str, ...]
    ids: Integers  # (words,), the id of each word of the file

    @classmethod
    def from_words(cls, words: Sequence[str]) -> Self:
        unknown = next((name for name in UNKNOWN_WORDS if name in words), UNKNOWN_WORDS[0])
        first = (START, unknown, END)
        names = (*first, *(word for word in words if word not in first))
        index = {name: position for position, name in enumerate(names)}
        return cls((START, UNKNOWN_WORDS[0], *names[2:]), np.array([index[word] for word in words]))

    def renumber(self, model: NGram) -> NGram:
        """The model with our ids; an unknown word without a probability gets the smallest that can be written."""
        renumbered = model.renumber(self.ids, vocabulary=len(self.names))
        unigrams = renumbered.log_probabilities[0]
        unigrams[1] = max(unigrams[1], ZERO * LOG_10)
        return renumbered


class Reader:
    """Reads a file line by line, and collects its vocabulary."""

    def __init__(self, path: Path) -> None:
        self.location = Location(str(path), 1)
        self.lines = lines(path)
        self.line = ""
        self.index: dict[str, int] = {}

    def read_unigrams(self) -> tuple[list[int], Section]:
        """Read the header and the 1-grams; returns the number of n-grams of each order and the 1-grams."""
        self._step()
        self._expect("\\data\\")
        sizes = self._sizes()
        first = self._section(1, sizes[0])
        absent = [name for name in (START, END) if name not in self.index]
        if absent:
            raise DataError(self.location, f"the 1-grams do not contain {' and '.join(absent)}")
        first.probabilities[self.index[START]] = -np.inf  # by convention any value; never predicted
        return sizes, first

    def read(self) -> tuple[NGram, tuple[str, ...]]:
        sizes, first = self.read_unigrams()
        sections = [first]
        keys: list[Integers] = []
        for order, size in enumerate(sizes[1:], start=2):
            section = self._section(order, size)
            key = self._keys(section, keys)
            position = np.argsort(key, kind="stable")
            keys.append(key[position])
            sections.append(section.select(position))
            repeated = np.append(False, keys[-1][1:] == keys[-1][:-1])
            self._refuse(sections[-1], repeated, "this n-gram occurs twice")
        self._expect("\\end\\")
        model = NGram(
            len(self.index),
            self.index[START],
            self.index[END],
            keys=tuple(keys),
            log_probabilities=tuple(section.probabilities for section in sections),
            log_backoffs=tuple(section.backoffs for section in sections[:-1]),
        )
        return model, tuple(self.index)

    def _step(self) -> None:
        """Advance to the next non-empty line; an empty string after the last one."""
        for location, line in self.lines:
            if line.strip():
                self.location, self.line = location, line
                return
        self.line = ""

    def _expect(self, title: str) -> None:
        if self.line.strip() != title:
            actual = repr(self.line[:80]) if self.line else "the end of the file"
            raise DataError(self.location, f"expected {title}, found {actual}")
        self._step()

    def _sizes(self) -> list[int]:
        sizes: list[int] = []
        while match := re.fullmatch(r"\s*ngram\s+([0-9]{1,3})\s*=\s*([0-9]{1,18})\s*", self.line):
            if int(match[1]) != len(sizes) + 1:
                raise DataError(
                    self.location, f"expected the size of order {len(sizes) + 1}, found that of order {match[1]}"
                )
            sizes.append(int(match[2]))
            self._step()
        if not sizes:
            raise DataError(self.location, f"expected the number of n-grams, 'ngram 1=…', found {self.line[:80]!r}")
        return sizes

    def _section(self, order: int, size: int) -> Section:
        """The n-grams of one order; those of order 1 are the vocabulary."""
        title = self.location
        self._expect(f"\\{order}-grams:")
        index = self.index
        words, probabilities, backoffs, line_numbers = array("q"), array("d"), array("d"), array("q")
        while self.line and not self.line.startswith("\\"):
            parts = [part for part in self.line.replace("\t", " ").split(" ") if part]
            if not order < len(parts) < order + 3:
                raise DataError(
                    self.location, f"expected a probability, {order} words and a back-off, found {len(parts)} fields"
                )
            if order == 1 and index.setdefault(parts[1], len(index)) != len(line_numbers):
                raise DataError(self.location, f"the word {parts[1]!r} occurs twice")
            try:
                probabilities.append(float(parts[0]))
                backoffs.append(float(parts[-1]) if len(parts) == order + 2 else 0.0)
                words.extend([index[word] for word in parts[1 : order + 1]])
            except ValueError as error:
                raise DataError(self.location, f"expected a logarithm: {error}") from None
            except KeyError as error:
                raise DataError(self.location, f"the word {error} is not among the 1-grams") from None
            line_numbers.append(self.location.line)
            self._step()
        if len(line_numbers) != size:
            raise DataError(title, f"expected {size} {order}-grams as in the header, found {len(line_numbers)}")
        section = Section(
            np.array(words).reshape(size, order),
            natural_logarithms(probabilities),
            natural_logarithms(backoffs),
            np.array(line_numbers),
        )
        self._refuse(section, ~(section.probabilities <= 0), "expected the logarithm of a probability, at most 0")
        self._refuse(section, ~np.isfinite(section.backoffs), "expected a finite logarithm as back-off")
        section.probabilities[np.array(probabilities) <= ZERO] = -np.inf
        return section

    def _keys(self, section: Section, keys: Sequence[Integers]) -> Integers:
        """The keys of the n-grams, in the order of the file."""
        columns: list[Integers] = list(section.words.T)
        rows = columns[0]
        for known, word in zip(keys, columns[1:-1], strict=True):
            rows = look_up(known, rows, words=word, vocabulary=len(self.index))
        self._refuse(section, rows == MISSING, "the file does not contain this n-gram without its last word")
        return rows * len(self.index) + columns[-1]

    def _refuse(self, section: Section, wrong: NDArray[np.bool_], message: str) -> None:
        (rows,) = np.nonzero(wrong)
        if rows.size:
            raise DataError(self.location._replace(line=int(section.lines[rows].min())), message)
