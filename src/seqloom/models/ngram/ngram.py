"""Back-off n-gram language models over token ids: sorted tables, looked up for whole batches at once."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Integers = NDArray[np.int64]
Doubles = NDArray[np.float64]
Floats = NDArray[np.float32]

MISSING = -1
"""Marks positions of a context before the first token of a text, and missing rows."""


@dataclass(frozen=True, eq=False)
class NGram:
    """log p(word | context): that of the longest known n-gram, plus the back-offs of the known longer contexts.

    An n-gram of order k > 1 is the key ``p V + word``: ``p`` is the row of its first k - 1 words in the table of order
    k - 1, V the size of the vocabulary; the row of a single word is the word. Keys are sorted, so the n-grams of one
    context are adjacent. Logarithms are natural.

    A context, or state, is a row of the last ``order - 1`` words, the latest one last, -1 before the first word:
    int64 (B, order - 1).
    """

    vocabulary: int  # V, ``start`` and ``end`` included
    start: int  # precedes each text and is never predicted
    end: int  # follows each text
    keys: tuple[Integers, ...]  # of orders 2, 3, …
    log_probabilities: tuple[Floats, ...]  # of orders 1, 2, …
    log_backoffs: tuple[Floats, ...]  # of orders 1, 2, … except the highest
    fallbacks: tuple[int, ...] = ()  # orders with default discounts, since theirs could not be estimated

    def __post_init__(self) -> None:
        if not 0 <= self.start < self.vocabulary or not 0 <= self.end < self.vocabulary or self.start == self.end:
            raise ValueError(
                f"start is {self.start} and end is {self.end}, expected two different token ids below {self.vocabulary}"
            )
        if not len(self.keys) == len(self.log_backoffs) == len(self.log_probabilities) - 1:
            raise ValueError(
                f"expected one table of keys and of back-offs fewer than of probabilities, found "
                f"{len(self.log_probabilities)} of probabilities, {len(self.keys)} of keys and "
                f"{len(self.log_backoffs)} of back-offs"
            )
        size = self.vocabulary
        for order, values in enumerate(self.log_probabilities, start=1):
            if order > 1:
                keys = self.keys[order - 2]
                if keys.size and (keys[0] < 0 or keys[-1] // self.vocabulary >= size or (keys[1:] <= keys[:-1]).any()):
                    raise ValueError(
                        f"order {order}: keys are not sorted, or refer to missing rows of order {order - 1}"
                    )
                size = keys.size
            if values.shape != (size,) or (order < self.order and self.log_backoffs[order - 1].shape != (size,)):
                raise ValueError(f"order {order}: expected one value for each of {size} n-grams")
            if not (values <= 0).all():
                raise ValueError(f"order {order} contains a log-probability that is positive or NaN")
        if not all(np.isfinite(values).all() for values in self.log_backoffs):
            raise ValueError("a log back-off is not finite")

    @property
    def order(self) -> int:
        return len(self.log_probabilities)

    def score(self, texts: Iterable[Sequence[int]]) -> list[Doubles]:  # one (T + 1,) for each text of T tokens
        """The log-probability of each token of each text, and of its end."""
        text, depth = flatten(texts, start=self.start, end=self.end, vocabulary=self.vocabulary)
        at = np.flatnonzero(depth)
        contexts = np.full((at.size, self.order - 1), MISSING, dtype=np.int64)
        for back in range(1, self.order):
            known = depth[at] >= back
            contexts[known, -back] = text[at[known] - back]
        values = self.log_probability(text[at], contexts)
        return np.split(values, np.flatnonzero(text[at] == self.end) + 1)[:-1]

    def log_probability(
        self,
        words: Integers,  # (B,)
        contexts: Integers,  # (B, order - 1)
    ) -> Doubles:  # (B,)
        """log p(word | context) of each row."""
        self._check(contexts)
        if words.shape != contexts.shape[:1] or ((words < 0) | (words >= self.vocabulary)).any():
            raise ValueError(f"expected {len(contexts)} words with ids from 0 to {self.vocabulary - 1}")
        log_probs = self.log_probabilities[0][words].astype(np.float64)
        for order, rows in enumerate(self._rows(contexts), start=2):
            known = rows != MISSING
            log_probs[known] += self.log_backoffs[order - 2][rows[known]]
            longer = self._look_up(order, rows, words=words)
            known = longer != MISSING
            log_probs[known] = self.log_probabilities[order - 1][longer[known]]
        return log_probs

    def start_state(self, batch: int = 1) -> Integers:  # (B, order - 1)
        """The contexts at the start of texts."""
        state = np.full((batch, self.order - 1), MISSING, dtype=np.int64)
        state[:, -1:] = self.start
        return state

    def next(self, state: Integers) -> Doubles:  # (B, order - 1) → (B, V)
        """log p(word | context) of every word of the vocabulary."""
        self._check(state)
        log_probs = np.tile(self.log_probabilities[0].astype(np.float64), (len(state), 1))
        for order, rows in enumerate(self._rows(state), start=2):
            known = np.flatnonzero(rows != MISSING)
            log_probs[known] += self.log_backoffs[order - 2][rows[known], None]
            keys = self.keys[order - 2]
            first = np.searchsorted(keys, rows[known] * self.vocabulary)
            count = np.searchsorted(keys, (rows[known] + 1) * self.vocabulary) - first
            longer = np.repeat(first - np.cumsum(count) + count, count) + np.arange(count.sum())
            words = keys[longer] % self.vocabulary
            log_probs[np.repeat(known, count), words] = self.log_probabilities[order - 1][longer]
        return log_probs

    def advance(self, state: Integers, words: Integers) -> Integers:  # (B, order - 1), (B,) → (B, order - 1)
        """The contexts after one more word each; the end is followed by a new start."""
        following = np.concatenate([state, words[:, None]], axis=1)[:, 1:]
        ended = words == self.end
        following[ended] = self.start_state(int(ended.sum()))
        return following

    def renumber(
        self,
        ids: Integers,  # (V,), the new id of each word
        *,
        vocabulary: int,  # the new V; unused ids get probability zero
    ) -> Self:
        """The same model with new word ids."""
        if ids.shape != (self.vocabulary,) or np.unique(ids).size < ids.size:
            raise ValueError(f"expected {self.vocabulary} different ids, one for each word")
        if ids.min() < 0 or ids.max() >= vocabulary:
            raise ValueError(f"expected ids from 0 to {vocabulary - 1}")
        rows, size = ids, vocabulary  # new rows of the n-grams of one order, and their number
        keys, probabilities, backoffs = [], [], []
        for order, values in enumerate(self.log_probabilities, start=1):
            if order > 1:
                prefixes, words = np.divmod(self.keys[order - 2], self.vocabulary)
                longer = rows[prefixes] * vocabulary + ids[words]
                position = np.argsort(longer)
                keys.append(longer[position])
                size = longer.size
                rows = np.empty_like(position)
                rows[position] = np.arange(size)
            probabilities.append(np.full(size, -np.inf, dtype=np.float32))
            probabilities[-1][rows] = values
            if order < self.order:
                backoffs.append(np.zeros(size, dtype=np.float32))
                backoffs[-1][rows] = self.log_backoffs[order - 1]
        return replace(
            self,
            vocabulary=vocabulary,
            start=int(ids[self.start]),
            end=int(ids[self.end]),
            keys=tuple(keys),
            log_probabilities=tuple(probabilities),
            log_backoffs=tuple(backoffs),
        )

    def tensors(self) -> dict[str, Tensor]:
        """The model as tensors by name."""
        tensors = {"symbols": torch.tensor([self.vocabulary, self.start, self.end])}
        tensors["fallbacks"] = torch.tensor(self.fallbacks, dtype=torch.int64)
        for kind, first, arrays in (
            ("keys", 2, self.keys),
            ("log_probabilities", 1, self.log_probabilities),
            ("log_backoffs", 1, self.log_backoffs),
        ):
            tensors |= {f"{kind}.{order}": torch.from_numpy(array) for order, array in enumerate(arrays, start=first)}
        return tensors

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, Tensor]) -> Self:
        """The model from its ``tensors``."""
        order = sum(name.startswith("log_probabilities.") for name in tensors)
        kinds = {"symbols": torch.int64, "fallbacks": torch.int64}
        kinds |= {f"keys.{n}": torch.int64 for n in range(2, order + 1)}
        kinds |= {f"log_probabilities.{n}": torch.float32 for n in range(1, order + 1)}
        kinds |= {f"log_backoffs.{n}": torch.float32 for n in range(1, order)}
        actual = {name: tensor.dtype for name, tensor in tensors.items()}
        if not order or actual != kinds or any(tensor.ndim != 1 for tensor in tensors.values()):
            expected = ", ".join(f"{name} ({kind})" for name, kind in kinds.items())
            raise ValueError(f"expected one-dimensional tensors {expected}; found {', '.join(actual) or 'none'}")
        if len(tensors["symbols"]) != 3:
            raise ValueError(f"symbols: expected 3 integers (vocabulary, start, end), found {len(tensors['symbols'])}")
        arrays = {name: tensor.contiguous().numpy() for name, tensor in tensors.items()}
        vocabulary, start, end = arrays["symbols"].tolist()
        return cls(
            vocabulary,
            start,
            end,
            keys=tuple(arrays[f"keys.{n}"] for n in range(2, order + 1)),
            log_probabilities=tuple(arrays[f"log_probabilities.{n}"] for n in range(1, order + 1)),
            log_backoffs=tuple(arrays[f"log_backoffs.{n}"] for n in range(1, order)),
            fallbacks=tuple(arrays["fallbacks"].tolist()),
        )

    def _check(self, contexts: Integers) -> None:
        if contexts.ndim != 2 or contexts.shape[1] != self.order - 1:
            raise ValueError(f"contexts have shape {contexts.shape}, expected (B, {self.order - 1})")
        if ((contexts < MISSING) | (contexts >= self.vocabulary)).any():
            raise ValueError(f"contexts contain ids outside of -1 to {self.vocabulary - 1}")

    def _rows(self, contexts: Integers) -> Iterator[Integers]:  # (B, order - 1) → order - 1 times (B,)
        """The rows of the last 1, 2, … words in the tables of orders 1, 2, …; -1 where there is none."""
        for length in range(1, self.order):
            first, *others = contexts.T[-length:]
            for order, words in enumerate(others, start=2):
                first = self._look_up(order, first, words=words)
            yield first

    def _look_up(
        self,
        order: int,
        prefixes: Integers,  # (B,), rows of order - 1, or -1
        *,
        words: Integers,  # (B,)
    ) -> Integers:  # (B,), rows of order, or -1
        return look_up(self.keys[order - 2], prefixes, words=words, vocabulary=self.vocabulary)


def look_up(keys: Integers, prefixes: Integers, *, words: Integers, vocabulary: int) -> Integers:
    """The rows of the keys ``prefix V + word``; -1 where there is none."""
    rows = np.full(prefixes.shape, MISSING, dtype=np.int64)
    (queries,) = np.nonzero((prefixes != MISSING) & (words != MISSING))
    if keys.size and queries.size:
        targets = prefixes[queries] * vocabulary + words[queries]
        at = np.searchsorted(keys, targets)
        at[at == keys.size] = 0
        known = keys[at] == targets
        rows[queries[known]] = at[known]
    return rows


def flatten(
    texts: Iterable[Sequence[int]], *, start: int, end: int, vocabulary: int
) -> tuple[Integers, Integers]:  # (T,), (T,)
    """All texts concatenated, each between ``start`` and ``end``, and the position of each token in its text."""
    bodies = [np.asarray(text, dtype=np.int64) for text in texts]
    body = np.concatenate([np.empty(0, dtype=np.int64), *bodies])
    lengths = np.array([len(text) + 2 for text in bodies], dtype=np.int64)
    invalid = np.flatnonzero((body < 0) | (body >= vocabulary) | (body == start) | (body == end))
    if invalid.size:
        index = int(np.searchsorted(np.cumsum(lengths - 2), invalid[0], side="right"))
        raise ValueError(
            f"text {index} contains token {body[invalid[0]]}, expected token ids from 0 to {vocabulary - 1} "
            f"other than {start} (start) and {end} (end)"
        )
    last = np.cumsum(lengths) - 1
    depth = np.arange(lengths.sum()) - np.repeat(last + 1 - lengths, lengths)
    text = np.full(depth.shape, start, dtype=np.int64)
    text[last] = end
    inner = depth > 0
    inner[last] = False
    text[inner] = body
    return text, depth
