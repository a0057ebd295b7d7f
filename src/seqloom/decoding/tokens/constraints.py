"""Which tokens may come next, and the most probable of them; ties go to the lowest token id."""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from seqloom.decoding.tokens.prefix_tree import PrefixTree
from seqloom.decoding.tokens.search import MaxGain
from seqloom.decoding.tokens.search_record import Doubles, Integers, NodeStatus, Statuses

MAX_ARGMAX = 16
"""Up to this count, ``top`` calls NumPy's fast argmax repeatedly instead of sorting."""
ONE_TOKEN = np.array(1)
ROUNDING = 1e-3
"""A log-probability may exceed 0 by this much through rounding."""

Banned = tuple[Integers, Integers]
"""Rows, and a token for each of them."""


class StepRules(NamedTuple):
    """Constraints that hold at one step only."""

    nodes: Integers  # (R,), nodes of the prefix tree; without a tree, only their number matters
    suppress_end: bool = False  # the minimum length has not been reached
    banned: Banned | None = None


class ConstrainedTopK:
    """Applies the constraints of a search to the log-probabilities of each step."""

    def __init__(self, end: int, *, suppress: Iterable[int], tree: PrefixTree | None) -> None:
        self.end = end
        self.suppress = np.asarray(list(suppress), np.int64)
        self.tree = tree
        self._buffer: npt.NDArray[np.floating] = np.empty(0, np.float32)
        self._checked_size = -1  # vocabulary size for which the tokens have been checked
        if tree is not None and tree.end != end:
            raise ValueError(f"the prefix tree has the end token {tree.end}, but the search has {end}")

    def __call__(
        self,
        scores: Tensor,  # (R, V)
        rules: StepRules,
    ) -> tuple[npt.NDArray[np.floating], Integers | None]:  # (R, W), (R, W)
        """Log-probabilities, -inf where not allowed, and the tokens of the columns (None: the columns are the tokens).

        The arrays may be modified; they are valid until the next call.
        """
        self._check(scores, len(rules.nodes))
        values = self._copy(scores)
        for token in self.suppress.tolist():  # few
            values[:, token] = -np.inf
        if rules.suppress_end:
            values[:, self.end] = -np.inf
        if rules.banned is not None:
            values[rules.banned] = -np.inf
        if self.tree is None:
            return values, None
        tokens, mask = self.tree.children(rules.nodes)
        return np.where(mask, np.take_along_axis(values, tokens, axis=1), -np.inf), tokens

    def statuses(
        self,
        scores: Tensor,  # (R, V)
        rules: StepRules,
        *,
        default: NodeStatus,
        unrestricted: Tensor | None,  # (R, V), the scores if a lexicon excluded no token; None: there is no lexicon
    ) -> tuple[Doubles, Statuses]:  # (R, V), (R, V)
        """All log-probabilities, and the status of each token under the constraints."""
        values = to_numpy(scores).astype(np.float64)
        excluded = np.zeros(values.shape, np.bool_)
        if unrestricted is not None:
            free = to_numpy(unrestricted).astype(np.float64)
            excluded = (values == -np.inf) & (free > -np.inf)
            values[excluded] = free[excluded]
        statuses = np.full(values.shape, default, np.uint8)
        if rules.banned is not None:
            statuses[rules.banned] = NodeStatus.REPEATED
        if rules.suppress_end:
            statuses[:, self.end] = NodeStatus.TOO_SHORT
        if self.tree is not None:
            tokens, mask = self.tree.children(rules.nodes)
            rows, columns = np.nonzero(mask)
            allowed = np.zeros(values.shape, np.bool_)
            allowed[rows, tokens[rows, columns]] = True
            statuses[~allowed] = NodeStatus.NOT_ALLOWED
        statuses[excluded] = NodeStatus.NOT_IN_LEXICON
        statuses[:, self.suppress] = NodeStatus.SUPPRESSED
        statuses[values == -np.inf] = NodeStatus.IMPOSSIBLE
        return values, statuses

    def _copy(self, scores: Tensor) -> npt.NDArray[np.floating]:
        """A copy in a buffer that is reused: allocating memory at each step costs more than copying."""
        values = to_numpy(scores)
        if self._buffer.size < values.size or self._buffer.dtype != values.dtype:
            self._buffer = np.empty(values.size, values.dtype)
        copy = self._buffer[: values.size].reshape(values.shape)
        np.copyto(copy, values)
        return copy

    def _check(self, scores: Tensor, rows: int) -> None:
        if scores.dim() != 2 or scores.shape[0] != rows:
            raise ValueError(f"the step returned shape {tuple(scores.shape)}, expected ({rows}, vocabulary size)")
        size = scores.shape[1]
        if size == self._checked_size:
            return
        largest = self.end if self.tree is None else self.tree.largest
        smallest = int(self.suppress.min(initial=self.end))
        if not 0 <= smallest <= max(largest, self.suppress.max(initial=0)) < size:
            tree = "" if self.tree is None else f", a prefix tree with tokens up to {largest}"
            raise ValueError(
                f"expected token ids from 0 to {size - 1}, as the step returns them; found end token {self.end}, "
                f"suppressed tokens {self.suppress.tolist()}{tree}"
            )
        self._checked_size = size


def to_numpy(scores: Tensor) -> npt.NDArray[np.floating]:
    """The tensor as an array, which may share its memory."""
    scores = scores if scores.dtype in (torch.float32, torch.float64) else scores.float()  # NumPy has no bfloat16
    return scores.numpy(force=True)


def top(values: npt.NDArray[np.floating], count: int) -> tuple[Doubles, Integers]:  # (R, W) → (R, count), (R, count)
    """The largest values of each row in descending order, and their columns; overwrites ``values``."""
    rows, width = values.shape
    count = min(count, width)
    if count > MAX_ARGMAX:
        return _top_sorted(values, count)
    flat, first = values.reshape(-1), np.arange(rows) * width
    best, columns = np.empty((rows, count)), np.empty((rows, count), np.int64)
    for rank in range(count):
        columns[:, rank] = values.argmax(axis=1)  # the first one of ties; NaN counts as the largest
        index = first + columns[:, rank]
        best[:, rank] = flat[index]
        flat[index] = -np.inf
    return best, columns


def _top_sorted(values: npt.NDArray[np.floating], count: int) -> tuple[Doubles, Integers]:
    one_more = min(count + 1, values.shape[1])
    best, columns = (part.numpy() for part in torch.from_numpy(values).topk(one_more, dim=1))
    ties = ((best[:, 1:] == best[:, :-1]) & (best[:, 1:] > -np.inf)).any(axis=1) & ~np.isnan(best[:, 0])
    if ties.any():  # topk returns any of them
        columns[ties] = np.argsort(-values[ties], axis=1, kind="stable")[:, :one_more]
        best[ties] = np.take_along_axis(values[ties], columns[ties], axis=1)
    return best[:, :count].astype(np.float64), columns[:, :count]


def invalid_rows(best: npt.NDArray[np.floating], max_gain: MaxGain) -> npt.NDArray[np.bool_] | None:  # (R,) → (R,)
    """A mask of the rows whose largest value is not the score of one token; None if there are none."""
    valid = best <= ROUNDING + max_gain(ONE_TOKEN)
    return None if valid.all() else ~valid


def invalid_log_probability(value: float, row: int, *, length: int) -> ValueError:
    """The error for a value that is not a log-probability."""
    return ValueError(
        f"the step returned a log-probability of {value:g} for token {length + 1} of row {row}, expected at most 0"
    )
