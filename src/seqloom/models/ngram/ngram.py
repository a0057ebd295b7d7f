"""An n-gram language model on integer symbols: sorted tables, looked up for whole batches at once, with back-off."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]
Stored = NDArray[np.float32]

NOTHING = -1
"""Stands in a context before the first symbol of a text."""


@dataclass(frozen=True, eq=False)
class NGram:
    """log p(word | context): that of the longest known n-gram, plus the back-offs of the longer contexts known.

    An n-gram of order k > 1 is the key ``p V + word``: ``p`` is the row of its first k - 1 words in the table of order
    k - 1, V the size of the vocabulary; the row of a single word is the word. Keys are sorted, so the n-grams of one
    context stand together. Logarithms are natural.

    A context, or state, is a row of the last ``order - 1`` words, the latest at the end, -1 before the first of them:
    int64 (B, order - 1).
    """

    vocabulary: int  # V, ``start`` and ``end`` included
    start: int  # stands before each text and is never predicted
    end: int  # stands after each text
    keys: tuple[Integers, ...]  # of orders 2, 3, …
    log_probabilities: tuple[Stored, ...]  # of orders 1, 2, …
    log_backoffs: tuple[Stored, ...]  # of orders 1, 2, … but the highest
    fallbacks: tuple[int, ...] = ()  # orders whose discounts could not be estimated and were assumed

    def __post_init__(self) -> None:
        if not 0 <= self.start < self.vocabulary or not 0 <= self.end < self.vocabulary or self.start == self.end:
            raise ValueError(
                f"start is {self.start} and end is {self.end}, wanted two different symbols below {self.vocabulary}"
            )
        if not len(self.keys) == len(self.log_backoffs) == len(self.log_probabilities) - 1:
            raise ValueError(
                f"found {len(self.log_probabilities)} tables of probabilities, {len(self.keys)} of keys and "
                f"{len(self.log_backoffs)} of back-offs, wanted one fewer of the latter two"
            )
        size = self.vocabulary
        for order, values in enumerate(self.log_probabilities, start=1):
            if order > 1:
                keys = self.keys[order - 2]
                if keys.size and (keys[0] < 0 or keys[-1] // self.vocabulary >= size or (keys[1:] <= keys[:-1]).any()):
                    raise ValueError(f"keys of order {order} are not sorted or name rows that order {order - 1} lacks")
                size = keys.size
            if values.shape != (size,) or (order < self.order and self.log_backoffs[order - 1].shape != (size,)):
                raise ValueError(f"order {order} has not one value for each of its {size} n-grams")
            if not (values <= 0).all():
                raise ValueError(f"order {order} holds a log-probability that is positive or not a number")
        if not all(np.isfinite(values).all() for values in self.log_backoffs):
            raise ValueError("a log back-off is not finite")

    @property
    def order(self) -> int:
        return len(self.log_probabilities)

    def score(self, texts: Iterable[Sequence[int]]) -> list[Floats]:  # one (T + 1,) for each text of T symbols
        """The log-probability of each symbol of each text, and of its end."""
        text, depth = flatten(texts, start=self.start, end=self.end, vocabulary=self.vocabulary)
        at = np.flatnonzero(depth)
        contexts = np.full((at.size, self.order - 1), NOTHING, dtype=np.int64)
        for back in range(1, self.order):
            known = depth[at] >= back
            contexts[known, -back] = text[at[known] - back]
        values = self.log_probability(text[at], contexts)
        return np.split(values, np.flatnonzero(text[at] == self.end) + 1)[:-1]

    def log_probability(
        self,
        words: Integers,  # (B,)
        contexts: Integers,  # (B, order - 1)
    ) -> Floats:  # (B,)
        """log p(word | context) of each row."""
        self._check(contexts)
        if words.shape != contexts.shape[:1] or ((words < 0) | (words >= self.vocabulary)).any():
            raise ValueError(f"words are not {len(contexts)} symbols from 0 to {self.vocabulary - 1}")
        found = self.log_probabilities[0][words].astype(np.float64)
        for order, rows in enumerate(self._rows(contexts), start=2):
            known = rows != NOTHING
            found[known] += self.log_backoffs[order - 2][rows[known]]
            longer = self._look_up(order, rows, words=words)
            known = longer != NOTHING
            found[known] = self.log_probabilities[order - 1][longer[known]]
        return found

    def start_state(self, batch: int = 1) -> Integers:  # (B, order - 1)
        """The contexts of the first symbols of texts."""
        state = np.full((batch, self.order - 1), NOTHING, dtype=np.int64)
        state[:, -1:] = self.start
        return state

    def next(self, state: Integers) -> Floats:  # (B, order - 1) → (B, V)
        """log p(word | context) of every word of the vocabulary."""
        self._check(state)
        found = np.tile(self.log_probabilities[0].astype(np.float64), (len(state), 1))
        for order, rows in enumerate(self._rows(state), start=2):
            known = np.flatnonzero(rows != NOTHING)
            found[known] += self.log_backoffs[order - 2][rows[known], None]
            keys = self.keys[order - 2]
            first = np.searchsorted(keys, rows[known] * self.vocabulary)
            count = np.searchsorted(keys, (rows[known] + 1) * self.vocabulary) - first
            longer = np.repeat(first - np.cumsum(count) + count, count) + np.arange(count.sum())
            words = keys[longer] % self.vocabulary
            found[np.repeat(known, count), words] = self.log_probabilities[order - 1][longer]
        return found

    def advance(self, state: Integers, words: Integers) -> Integers:  # (B, order - 1), (B,) → (B, order - 1)
        """The contexts after one more word each; after the end comes a new start."""
        following = np.concatenate([state, words[:, None]], axis=1)[:, 1:]
        ended = words == self.end
        following[ended] = self.start_state(int(ended.sum()))
        return following

    def renumber(
        self,
        numbers: Integers,  # (V,), the new number of each word
        *,
        vocabulary: int,  # the new V; a number that no word has gets probability zero
    ) -> Self:
        """The same model of words that are numbered differently."""
        if numbers.shape != (self.vocabulary,) or np.unique(numbers).size < numbers.size:
            raise ValueError(f"numbers are not {self.vocabulary} different ones, one for each word")
        if numbers.min() < 0 or numbers.max() >= vocabulary:
            raise ValueError(f"numbers are not all from 0 to {vocabulary - 1}")
        rows, size = numbers, vocabulary  # where the n-grams of one order go, and how many there will be
        keys, probabilities, backoffs = [], [], []
        for order, values in enumerate(self.log_probabilities, start=1):
            if order > 1:
                prefixes, words = np.divmod(self.keys[order - 2], self.vocabulary)
                longer = rows[prefixes] * vocabulary + numbers[words]
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
            start=int(numbers[self.start]),
            end=int(numbers[self.end]),
            keys=tuple(keys),
            log_probabilities=tuple(probabilities),
            log_backoffs=tuple(backoffs),
        )

    def tensors(self) -> dict[str, Tensor]:
        """The model as tensors by name."""
        found = {"symbols": torch.tensor([self.vocabulary, self.start, self.end])}
        found["fallbacks"] = torch.tensor(self.fallbacks, dtype=torch.int64)
        for kind, first, arrays in (
            ("keys", 2, self.keys),
            ("log_probabilities", 1, self.log_probabilities),
            ("log_backoffs", 1, self.log_backoffs),
        ):
            found |= {f"{kind}.{order}": torch.from_numpy(array) for order, array in enumerate(arrays, start=first)}
        return found

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, Tensor]) -> Self:
        """The model that ``tensors`` described."""
        order = sum(name.startswith("log_probabilities.") for name in tensors)
        kinds = {"symbols": torch.int64, "fallbacks": torch.int64}
        kinds |= {f"keys.{each}": torch.int64 for each in range(2, order + 1)}
        kinds |= {f"log_probabilities.{each}": torch.float32 for each in range(1, order + 1)}
        kinds |= {f"log_backoffs.{each}": torch.float32 for each in range(1, order)}
        found = {name: tensor.dtype for name, tensor in tensors.items()}
        if not order or found != kinds or any(tensor.ndim != 1 for tensor in tensors.values()):
            wanted = ", ".join(f"{name} ({kind})" for name, kind in kinds.items())
            raise ValueError(f"found the tensors {', '.join(found) or 'none'}; wanted, of one dimension: {wanted}")
        if len(tensors["symbols"]) != 3:
            raise ValueError(f"symbols holds {len(tensors['symbols'])} numbers, wanted vocabulary, start, end")
        arrays = {name: tensor.contiguous().numpy() for name, tensor in tensors.items()}
        vocabulary, start, end = arrays["symbols"].tolist()
        return cls(
            vocabulary,
            start,
            end,
            keys=tuple(arrays[f"keys.{each}"] for each in range(2, order + 1)),
            log_probabilities=tuple(arrays[f"log_probabilities.{each}"] for each in range(1, order + 1)),
            log_backoffs=tuple(arrays[f"log_backoffs.{each}"] for each in range(1, order)),
            fallbacks=tuple(arrays["fallbacks"].tolist()),
        )

    def _check(self, contexts: Integers) -> None:
        if contexts.ndim != 2 or contexts.shape[1] != self.order - 1:
            raise ValueError(f"contexts have shape {contexts.shape}, wanted (B, {self.order - 1})")
        if ((contexts < NOTHING) | (contexts >= self.vocabulary)).any():
            raise ValueError(f"contexts hold symbols outside of -1 to {self.vocabulary - 1}")

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
    rows = np.full(prefixes.shape, NOTHING, dtype=np.int64)
    (asked,) = np.nonzero((prefixes != NOTHING) & (words != NOTHING))
    if keys.size and asked.size:
        wanted = prefixes[asked] * vocabulary + words[asked]
        at = np.searchsorted(keys, wanted)
        at[at == keys.size] = 0
        known = keys[at] == wanted
        rows[asked[known]] = at[known]
    return rows


def flatten(
    texts: Iterable[Sequence[int]], *, start: int, end: int, vocabulary: int
) -> tuple[Integers, Integers]:  # (T,), (T,)
    """All texts in a row, each between ``start`` and ``end``; and how many symbols of its text stand before each."""
    bodies = [np.asarray(text, dtype=np.int64) for text in texts]
    body = np.concatenate([np.empty(0, dtype=np.int64), *bodies])
    lengths = np.array([len(each) + 2 for each in bodies], dtype=np.int64)
    wrong = np.flatnonzero((body < 0) | (body >= vocabulary) | (body == start) | (body == end))
    if wrong.size:
        number = int(np.searchsorted(np.cumsum(lengths - 2), wrong[0], side="right"))
        raise ValueError(
            f"text {number} holds the symbol {body[wrong[0]]}, wanted symbols from 0 to {vocabulary - 1} "
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
