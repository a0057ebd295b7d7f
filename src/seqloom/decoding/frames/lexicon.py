"""A lexicon: the words that may be found, and how each of them is spelt in symbols, as a prefix tree in flat arrays."""

import hashlib
import os
import tempfile
from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import chain, pairwise
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from seqloom.kernels.llvm.jit_cache import cache_folder

Integers = npt.NDArray[np.int32]

ARRAYS = ("symbols", "parents", "first", "words_at", "words_first", "letters", "letters_first", "separators")
KEPT = 20
"""Lexica in the cache; those that were not used for longest are removed."""


class Lexicon:
    """Words with their spellings; a word may have several, and several words one and the same.

    With a ``separator``, a symbol that stands between words, a word is complete when the separator or the end comes;
    without one (phones) directly.

    Nodes of the tree are numbered level by level, the root is 0: the children of a node stand side by side, by symbol.
    A separator is spelt at the end of each word.
    """

    symbols: Integers  # (N,) the one that leads to each node; -1 for the root
    parents: Integers  # (N,)
    first: Integers  # (N + 1,) first child of each node
    words_at: Integers  # words that are complete at the nodes
    words_first: Integers  # (N + 1,) the first of them, of each node
    tree: tuple[Any, Any] | None = None  # what the last search has made of it, and what for

    def __init__(self, spellings: Iterable[tuple[str, Sequence[int]]], *, separator: int | None = None) -> None:
        given = list(spellings)
        numbers: dict[str, int] = {}
        words = np.fromiter((numbers.setdefault(word, len(numbers)) for word, _ in given), np.int64, len(given))
        lengths = np.fromiter((len(spelling) for _, spelling in given), np.int64, len(given))
        flat = np.fromiter(chain.from_iterable(spelling for _, spelling in given), np.int64, int(lengths.sum()))
        if not given:
            raise ValueError("a lexicon needs at least one word")
        if not lengths.all():
            raise ValueError(f"the word {given[int(lengths.argmin())][0]!r} has an empty spelling")
        wrong = np.flatnonzero((flat < 0) | (flat == (-1 if separator is None else separator)))
        if wrong.size:
            which = int(np.searchsorted(np.cumsum(lengths), wrong[0], side="right"))
            raise ValueError(
                f"the spelling of {given[which][0]!r} holds {flat[wrong[0]]}, wanted symbols from 0 on"
                + ("" if separator is None else f" without the separator {separator}")
            )
        self.separator = separator
        self.words = list(numbers)  # in the order of their first spelling
        if separator is not None:
            flat = np.insert(flat, np.cumsum(lengths), separator)
            lengths = lengths + 1
        self._build(words, flat, lengths)

    def _build(self, words: npt.NDArray[np.int64], flat: npt.NDArray[np.int64], lengths: npt.NDArray[np.int64]) -> None:
        offsets, rows, nodes = np.cumsum(lengths) - lengths, np.arange(len(lengths)), np.zeros(len(lengths), np.int64)
        width = int(flat.max()) + 1
        symbols, parents, ends = [np.array([-1])], [np.array([-1])], np.zeros(len(lengths), np.int64)
        size, depth = 1, 0
        while rows.size:
            edges, which = np.unique(nodes * width + flat[offsets[rows] + depth], return_inverse=True)
            symbols.append(edges % width)
            parents.append(edges // width)
            nodes, depth = size + which, depth + 1
            size += len(edges)
            done = lengths[rows] == depth
            ends[rows[done]] = nodes[done]
            rows, nodes = rows[~done], nodes[~done]
        self.symbols = np.concatenate(symbols).astype(np.int32)
        self.parents = np.concatenate(parents).astype(np.int32)
        self.first = np.searchsorted(self.parents, np.arange(size + 1)).astype(np.int32)
        at = np.unique(ends * len(self.words) + words)  # a spelling that is given twice counts once
        self.words_at = (at % len(self.words)).astype(np.int32)
        self.words_first = np.searchsorted(at // len(self.words), np.arange(size + 1)).astype(np.int32)

    def __len__(self) -> int:
        """The number of words."""
        return len(self.words)

    @cached_property
    def leaves(self) -> tuple[Integers, npt.NDArray[np.int64]]:
        """The nodes at which words are complete, word by word; and the first of each word (W + 1,)."""
        nodes = np.repeat(np.arange(len(self.symbols), dtype=np.int32), np.diff(self.words_first))
        counts = np.bincount(self.words_at, minlength=len(self))
        return nodes[np.argsort(self.words_at, kind="stable")], np.concatenate([[0], np.cumsum(counts)])

    def check(self, *, symbols: int, blank: int) -> None:
        """ValueError unless it can be searched for in frames of so many symbols."""
        largest = int(self.symbols.max())
        if largest >= symbols:
            raise ValueError(f"the lexicon spells with symbol {largest}, wanted symbols below {symbols}")
        if (self.symbols == blank).any():
            raise ValueError(f"the lexicon spells with the blank, {blank}")

    def save(self, folder: Path) -> None:
        """Write all arrays to a folder that does not exist yet."""
        encoded = [word.encode(errors="surrogatepass") for word in self.words]
        arrays = {name: getattr(self, name) for name in ARRAYS[:5]}
        arrays["letters"] = np.frombuffer(b"".join(encoded), np.uint8)
        arrays["letters_first"] = np.cumsum([0, *map(len, encoded)])
        arrays["separators"] = np.array([] if self.separator is None else [self.separator], np.int64)
        folder.mkdir(parents=True)
        for name, array in arrays.items():
            np.save(folder / f"{name}.npy", array, allow_pickle=False)

    @classmethod
    def load(cls, folder: Path) -> Self:
        """The lexicon of a folder; its arrays stay on disk until they are read."""
        # "c": as if they could be written to, so that kernels are not compiled for another type.
        found = {name: np.asarray(np.lib.format.open_memmap(folder / f"{name}.npy", mode="c")) for name in ARRAYS}
        made = cls.__new__(cls)
        for name in ARRAYS[:5]:
            setattr(made, name, found[name])
        letters, first = found["letters"].tobytes(), found["letters_first"].tolist()
        made.words = [letters[start:end].decode(errors="surrogatepass") for start, end in pairwise(first)]
        made.separator = next(iter(found["separators"].tolist()), None)
        if not _sound(made):
            raise ValueError(f"{folder} holds no lexicon, or a damaged one")
        return made

    @classmethod
    def cached(cls, spellings: Iterable[tuple[str, Sequence[int]]], *, separator: int | None = None) -> Self:
        """The lexicon, from the user's cache folder if it was built before."""
        given = list(spellings)
        content = hashlib.sha256(repr(("lexicon 1", separator)).encode())
        for word, spelling in given:
            content.update(f"{word}\0{' '.join(map(str, spelling))}\n".encode(errors="surrogatepass"))
        folder = cache_folder().parent / "lexica" / content.hexdigest()[:32]
        try:
            found = cls.load(folder)
            os.utime(folder)
        except (OSError, ValueError):
            found = None
        if found is None or found.words != list(dict.fromkeys(word for word, _ in given)):
            found = cls(given, separator=separator)
            _keep(found, folder)
        return found


def _keep(lexicon: Lexicon, folder: Path) -> None:
    """Write beside, then move into place; a cache that cannot be written costs time only."""
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix="new-") as beside:
            lexicon.save(Path(beside) / "lexicon")
            _remove(folder)  # a damaged one
            (Path(beside) / "lexicon").rename(folder)
        kept = sorted(folder.parent.glob("?" * 32), key=lambda path: path.stat().st_mtime)
        for old in kept[:-KEPT]:
            _remove(old)
    except OSError:
        pass


def _sound(lexicon: Lexicon) -> bool:
    """Whether all numbers name what exists: kernels do not look."""
    size = len(lexicon.symbols)
    if {len(lexicon.parents), len(lexicon.first) - 1, len(lexicon.words_first) - 1} != {size} or not size:
        return False
    if lexicon.first[-1] != size or lexicon.words_first[-1] != len(lexicon.words_at) or lexicon.words_first[0] != 0:
        return False
    if lexicon.first[0] != 1 or (np.diff(lexicon.first) < 0).any() or (np.diff(lexicon.words_first) < 0).any():
        return False
    inner = lexicon.parents[1:]
    later = (inner >= 0) & (inner < np.arange(1, size))
    known = (lexicon.words_at >= 0) & (lexicon.words_at < len(lexicon.words))
    return bool(later.all() and known.all() and (lexicon.symbols[1:] >= 0).all())


def _remove(folder: Path) -> None:
    if folder.is_dir():
        for name in ARRAYS:
            (folder / f"{name}.npy").unlink(missing_ok=True)
        folder.rmdir()
