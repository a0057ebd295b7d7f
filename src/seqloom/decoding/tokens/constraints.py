"""Which symbols may follow, and the most probable of them; where equal, the lowest symbol comes first."""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from seqloom.decoding.tokens.prefix_tree import PrefixTree
from seqloom.decoding.tokens.search_record import Fate, Fates, Integers, Numbers

FEW = 16
"""Up to so many, the largest one of what remains is looked for again and again: NumPy's argmax is that fast."""
ROUNDING = 1e-3
"""A sum of probabilities may be this much above one."""

Banned = tuple[Integers, Integers]
"""Rows, and a symbol for each of them."""


class Rules(NamedTuple):
    """What holds at one step only."""

    nodes: Integers  # (R,), of the prefix tree; without one only their number counts
    short: bool = False  # it is too early for the end
    banned: Banned | None = None


class ConstrainedTopK:
    """The symbols that are possible at all."""

    def __init__(self, end: int, *, never: Iterable[int], tree: PrefixTree | None) -> None:
        self.end = end
        self.never = np.asarray(list(never), np.int64)
        self.tree = tree
        self._space: npt.NDArray[np.floating] = np.empty(0, np.float32)
        self._size = -1  # of the vocabulary for which all this was checked
        if tree is not None and tree.end != end:
            raise ValueError(f"the end symbol of the prefix tree is {tree.end}, that of the search {end}")

    def __call__(
        self,
        scores: Tensor,  # (R, V)
        rules: Rules,
    ) -> tuple[npt.NDArray[np.floating], Integers | None]:  # (R, W), (R, W)
        """Log-probabilities, -inf of what is not allowed, and their symbols where these are not the columns.

        They may be changed, and last until the next call.
        """
        self._check(scores, len(rules.nodes))
        values = self._copy(scores)
        for symbol in self.never.tolist():  # few
            values[:, symbol] = -np.inf
        if rules.short:
            values[:, self.end] = -np.inf
        if rules.banned is not None:
            values[rules.banned] = -np.inf
        if self.tree is None:
            return values, None
        symbols, filled = self.tree.children(rules.nodes)
        return np.where(filled, np.take_along_axis(values, symbols, axis=1), -np.inf), symbols

    def fates(
        self,
        scores: Tensor,  # (R, V)
        rules: Rules,
        *,
        default: Fate,
    ) -> tuple[Numbers, Fates]:  # (R, V), (R, V)
        """All log-probabilities, and what becomes of each because of the rules here."""
        values = plain(scores).astype(np.float64)
        fates = np.full(values.shape, default, np.uint8)
        if rules.banned is not None:
            fates[rules.banned] = Fate.REPEATED
        if rules.short:
            fates[:, self.end] = Fate.SHORT
        if self.tree is not None:
            symbols, filled = self.tree.children(rules.nodes)
            rows, places = np.nonzero(filled)
            inside = np.zeros(values.shape, np.bool_)
            inside[rows, symbols[rows, places]] = True
            fates[~inside] = Fate.TREE
        fates[:, self.never] = Fate.NEVER
        fates[values == -np.inf] = Fate.IMPOSSIBLE
        return values, fates

    def _copy(self, scores: Tensor) -> npt.NDArray[np.floating]:
        """A copy that lasts until the next one: fresh memory for each would cost more than the copy."""
        values = plain(scores)
        if self._space.size < values.size or self._space.dtype != values.dtype:
            self._space = np.empty(values.size, values.dtype)
        found = self._space[: values.size].reshape(values.shape)
        np.copyto(found, values)
        return found

    def _check(self, scores: Tensor, rows: int) -> None:
        if scores.dim() != 2 or len(scores) != rows:
            raise ValueError(f"the step gave the shape {tuple(scores.shape)}, wanted ({rows}, symbols)")
        size = scores.shape[1]
        if size == self._size:
            return
        largest = self.end if self.tree is None else self.tree.largest
        smallest = int(self.never.min(initial=self.end))
        if not 0 <= smallest <= max(largest, self.never.max(initial=0)) < size:
            given = f"the end symbol {self.end}, symbols that are never chosen {self.never.tolist()}"
            tree = "" if self.tree is None else f", a prefix tree with symbols up to {largest}"
            raise ValueError(f"{given}{tree}: wanted symbols from 0 to {size - 1}, as the step has")
        self._size = size


def plain(scores: Tensor) -> npt.NDArray[np.floating]:
    """As an array, which may be the tensor itself."""
    scores = scores if scores.dtype in (torch.float32, torch.float64) else scores.float()  # NumPy knows no bfloat16
    return scores.numpy(force=True)


def top(values: npt.NDArray[np.floating], count: int) -> tuple[Numbers, Integers]:  # (R, W) → (R, count), (R, count)
    """The largest values of each row in descending order, and their columns; uses up ``values``."""
    rows, width = values.shape
    count = min(count, width)
    if count > FEW:
        return _sorted(values, count)
    flat, first = values.reshape(-1), np.arange(rows) * width
    best, columns = np.empty((rows, count)), np.empty((rows, count), np.int64)
    for place in range(count):
        columns[:, place] = values.argmax(axis=1)  # the first one where equal; not a number is the largest
        where = first + columns[:, place]
        best[:, place] = flat[where]
        flat[where] = -np.inf
    return best, columns


def _sorted(values: npt.NDArray[np.floating], count: int) -> tuple[Numbers, Integers]:
    one_more = min(count + 1, values.shape[1])
    best, columns = (part.numpy() for part in torch.from_numpy(values).topk(one_more, dim=1))
    equal = ((best[:, 1:] == best[:, :-1]) & (best[:, 1:] > -np.inf)).any(axis=1) & ~np.isnan(best[:, 0])
    if equal.any():  # topk takes any of them
        columns[equal] = np.argsort(-values[equal], axis=1, kind="stable")[:, :one_more]
        best[equal] = np.take_along_axis(values[equal], columns[equal], axis=1)
    return best[:, :count].astype(np.float64), columns[:, :count]


def wrong(best: npt.NDArray[np.floating]) -> npt.NDArray[np.bool_] | None:  # (R,) → (R,)
    """The rows whose largest value is no log-probability, if there are any."""
    right = best <= ROUNDING
    return None if right.all() else ~right


def refuse(value: float, row: int, *, length: int) -> ValueError:
    """The error about a value that is no log-probability."""
    return ValueError(
        f"the step gave a log-probability of {value:g} for symbol {length + 1} of row {row}, wanted at most 0"
    )
