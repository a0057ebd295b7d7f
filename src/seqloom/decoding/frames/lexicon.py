"""A lexicon: the words of a search and how each is spelled in tokens, as a prefix tree in flat arrays."""

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

from seqloom.cache import CacheFolder

Integers = npt.NDArray[np.int32]

ARRAYS = ("tokens", "parents", "first", "words_at", "words_first", "letters", "letters_first", "separators")
CHECKSUM = "sha256.npy"  # the file that holds that of the arrays
MAX_CACHED = 20
"""Lexica in the cache; the least recently used are removed."""


class Lexicon:
    """Words with their spellings; a word may have several spellings, and several words may share one.

    With a ``separator``, a token between words, a word is complete at the separator or at the end of the recording;
    without one (phones), as soon as its last token is read.

    Nodes of the tree are numbered level by level from the root, 0; the children of a node are adjacent, in the order
    of their tokens. The spelling of each word ends with the separator.
    """

    tokens: Integers  # (N,) the token on the edge to each node; -1 for the root
    parents: Integers  # (N,)
    first: Integers  # (N + 1,) first child of each node
    words_at: Integers  # words that are complete at the nodes, node by node
    words_first: Integers  # (N + 1,) index of the first of them for each node
    tree: tuple[Any, Any] | None = None  # cache of ``lexicon_stream.build_tree``: key and tree

    def __init__(self, spellings: Iterable[tuple[str, Sequence[int]]], *, separator: int | None = None) -> None:
        entries = list(spellings)
        indices: dict[str, int] = {}
        words = np.fromiter((indices.setdefault(word, len(indices)) for word, _ in entries), np.int64, len(entries))
        lengths = np.fromiter((len(spelling) for _, spelling in entries), np.int64, len(entries))
        flat = np.fromiter(chain.from_iterable(spelling for _, spelling in entries), np.int64, int(lengths.sum()))
        if not entries:
            raise ValueError("a lexicon needs at least one word")
        if not lengths.all():
            raise ValueError(f"the word {entries[int(lengths.argmin())][0]!r} has an empty spelling")
        invalid = np.flatnonzero((flat < 0) | (flat == (-1 if separator is None else separator)))
        if invalid.size:
            entry = int(np.searchsorted(np.cumsum(lengths), invalid[0], side="right"))
            raise ValueError(
                f"the spelling of {entries[entry][0]!r} contains {flat[invalid[0]]}, expected token ids of at least 0"
                + ("" if separator is None else f" without the separator {separator}")
            )
        self.separator = separator
        self.words = list(indices)  # in the order of their first spelling
        if separator is not None:
            flat = np.insert(flat, np.cumsum(lengths), separator)
            lengths = lengths + 1
        self._build(words, flat, lengths)

    def _build(self, words: npt.NDArray[np.int64], flat: npt.NDArray[np.int64], lengths: npt.NDArray[np.int64]) -> None:
        offsets, rows, nodes = np.cumsum(lengths) - lengths, np.arange(len(lengths)), np.zeros(len(lengths), np.int64)
        width = int(flat.max()) + 1
        tokens, parents, ends = [np.array([-1])], [np.array([-1])], np.zeros(len(lengths), np.int64)
        size, depth = 1, 0
        while rows.size:
            edges, inverse = np.unique(nodes * width + flat[offsets[rows] + depth], return_inverse=True)
            tokens.append(edges % width)
            parents.append(edges // width)
            nodes, depth = size + inverse, depth + 1
            size += len(edges)
            done = lengths[rows] == depth
            ends[rows[done]] = nodes[done]
            rows, nodes = rows[~done], nodes[~done]
        self.tokens = np.concatenate(tokens).astype(np.int32)
        self.parents = np.concatenate(parents).astype(np.int32)
        self.first = np.searchsorted(self.parents, np.arange(size + 1)).astype(np.int32)
        at = np.unique(ends * len(self.words) + words)  # duplicate entries count once
        self.words_at = (at % len(self.words)).astype(np.int32)
        self.words_first = np.searchsorted(at // len(self.words), np.arange(size + 1)).astype(np.int32)

    def __len__(self) -> int:
        """The number of words."""
        return len(self.words)

    @cached_property
    def leaves(self) -> tuple[Integers, npt.NDArray[np.int64]]:
        """The nodes at which words are complete, word by word, and the index of the first one of each word (W + 1,)."""
        nodes = np.repeat(np.arange(len(self.tokens), dtype=np.int32), np.diff(self.words_first))
        counts = np.bincount(self.words_at, minlength=len(self))
        return nodes[np.argsort(self.words_at, kind="stable")], np.concatenate([[0], np.cumsum(counts)])

    def check(self, *, vocab_size: int, blank: int) -> None:
        """Raise unless all spellings consist of tokens of the vocabulary other than the blank."""
        largest = int(self.tokens.max())
        if largest >= vocab_size:
            raise ValueError(
                f"a spelling of the lexicon contains token {largest}, expected token ids below {vocab_size}"
            )
        if (self.tokens == blank).any():
            raise ValueError(f"a spelling of the lexicon contains the blank ({blank})")

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
        np.save(folder / CHECKSUM, np.array(_checksum(folder)), allow_pickle=False)

    @classmethod
    def load(cls, folder: Path) -> Self:
        """The lexicon in a folder; its arrays are memory-mapped."""
        if np.load(folder / CHECKSUM, allow_pickle=False) != _checksum(folder):
            raise ValueError(f"{folder}: a damaged lexicon")
        # Mode "c" makes them writable, so that kernels are not compiled for another type.
        arrays = {name: np.asarray(np.lib.format.open_memmap(folder / f"{name}.npy", mode="c")) for name in ARRAYS}
        lexicon = cls.__new__(cls)
        for name in ARRAYS[:5]:
            setattr(lexicon, name, arrays[name])
        letters, first = arrays["letters"].tobytes(), arrays["letters_first"].tolist()
        lexicon.words = [letters[start:end].decode(errors="surrogatepass") for start, end in pairwise(first)]
        lexicon.separator = next(iter(arrays["separators"].tolist()), None)
        if not _is_consistent(lexicon):
            raise ValueError(f"{folder}: not a lexicon, or a damaged one")
        return lexicon

    @classmethod
    def cached(cls, spellings: Iterable[tuple[str, Sequence[int]]], *, separator: int | None = None) -> Self:
        """The lexicon, from the user's cache folder if it has been built before."""
        entries = list(spellings)
        content = hashlib.sha256(repr(("lexicon 3", separator)).encode())
        for word, spelling in entries:
            content.update(f"{word}\0{' '.join(map(str, spelling))}\n".encode(errors="surrogatepass"))
        cache = CacheFolder("lexica").open()
        if cache is None:
            return cls(entries, separator=separator)
        folder = cache / content.hexdigest()[:32]
        try:
            lexicon = cls.load(folder)
            os.utime(folder)
        except (OSError, ValueError, EOFError):
            lexicon = None
        if lexicon is None or lexicon.words != list(dict.fromkeys(word for word, _ in entries)):
            lexicon = cls(entries, separator=separator)
            _save_to_cache(lexicon, folder)
        return lexicon


def _checksum(folder: Path) -> str:
    """The SHA-256 of all arrays in a folder."""
    digest = hashlib.sha256()
    for name in ARRAYS:
        with (folder / f"{name}.npy").open("rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()


def _save_to_cache(lexicon: Lexicon, folder: Path) -> None:
    """Write to a temporary folder, then rename it; a cache that cannot be written only costs time."""
    try:
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix="new-") as temporary:
            lexicon.save(Path(temporary) / "lexicon")
            _remove(folder)  # a damaged one
            (Path(temporary) / "lexicon").rename(folder)
        cached = sorted(folder.parent.glob("?" * 32), key=lambda path: path.stat().st_mtime)
        for old in cached[:-MAX_CACHED]:
            _remove(old)
    except OSError:
        pass


def _is_consistent(lexicon: Lexicon) -> bool:
    """Whether all indices are valid: kernels do not check them."""
    size = len(lexicon.tokens)
    if {len(lexicon.parents), len(lexicon.first) - 1, len(lexicon.words_first) - 1} != {size} or not size:
        return False
    if lexicon.first[-1] != size or lexicon.words_first[-1] != len(lexicon.words_at) or lexicon.words_first[0] != 0:
        return False
    if lexicon.first[0] != 1 or (np.diff(lexicon.first) < 0).any() or (np.diff(lexicon.words_first) < 0).any():
        return False
    parents = lexicon.parents[1:]
    valid_parents = (parents >= 0) & (parents < np.arange(1, size))
    valid_words = (lexicon.words_at >= 0) & (lexicon.words_at < len(lexicon.words))
    return bool(valid_parents.all() and valid_words.all() and (lexicon.tokens[1:] >= 0).all())


def _remove(folder: Path) -> None:
    if folder.is_dir():
        for name in (*[f"{name}.npy" for name in ARRAYS], CHECKSUM):
            (folder / name).unlink(missing_ok=True)
        folder.rmdir()
