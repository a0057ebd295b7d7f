"""A record of every candidate of a search and why it was kept or pruned: enough to draw the search as a tree."""

from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Integers = npt.NDArray[np.int64]
Doubles = npt.NDArray[np.float64]
Statuses = npt.NDArray[np.uint8]


class NodeStatus(IntEnum):
    """Whether a candidate was kept, and why not. From ``EXTENDED`` on, it was kept."""

    IMPOSSIBLE = 0  # probability zero: not a candidate, and not recorded
    SUPPRESSED = 1  # a suppressed token
    NOT_ALLOWED = 2  # outside the prefix tree of allowed outputs
    NOT_IN_LEXICON = 3  # neither continues nor completes a word of the lexicon
    TOO_SHORT = 4  # an end token before the minimum length
    REPEATED = 5  # would repeat an n-gram
    PER_NODE = 6  # its parent already has enough more probable children
    OUTSIDE_BEAM = 7  # enough other candidates have a higher score
    OTHER_GROUP = 8  # would be in the beam, had another group not chosen the same token
    BELOW_THRESHOLD = 9  # too far below the best candidate
    NOT_SAMPLED = 10  # another token was sampled
    EXTENDED = 11  # kept, and the parent of other candidates
    CANNOT_WIN = 12  # live when the search stopped, since it could not reach the n-best
    NOT_IN_NBEST = 13  # finished, but not in the n-best
    DUPLICATE = 14  # finished, and already found by another group
    TRUNCATED = 15  # reached the maximum length without an end token
    IN_NBEST = 16  # one of the returned hypotheses


class SearchNode(NamedTuple):
    """A candidate: its parent, extended by a token."""

    id: int
    parent: int  # id of the parent; -1: this is the root of a row
    row: int  # of the batch
    token: int  # -1 for the root
    length: int  # tokens so far
    log_probability: float  # of the token
    score: float  # sum of log-probabilities; with penalties once it is finished
    status: NodeStatus


@dataclass
class SearchRecord:
    """Pass one to a search as ``record``, then read its ``nodes``."""

    children: int = 0  # recorded per node: the most probable, those excluded by a lexicon, and all kept (0: all)
    _steps: list[tuple[npt.NDArray[np.generic], ...]] = field(default_factory=list, repr=False)
    _statuses: dict[int, NodeStatus] = field(default_factory=dict, repr=False)  # decided after a node was added
    _scores: dict[int, float] = field(default_factory=dict, repr=False)
    _next_id: int = 0

    def start(self, rows: Integers) -> Integers:  # (R,) → (R,)
        """Clear the record and add a root for each row of the batch; returns the ids of the roots."""
        self._steps, self._statuses, self._scores, self._next_id = [], {}, {}, 0
        return self._append(np.full_like(rows, -1), rows, np.full_like(rows, -1), 0, np.zeros((2, len(rows))), None)

    def add(
        self,
        parents: Integers,  # (R,), node ids
        rows: Integers,  # (R,), of the batch
        length: int,
        *,
        totals: Doubles,  # (R,), log-probabilities of the parents; -inf marks an empty slot
        values: Doubles,  # (R, V)
        statuses: Statuses,  # (R, V)
    ) -> Integers:  # (R, V), the id of each candidate; -1 where it is not recorded
        """Add the candidates of one step."""
        recorded = (statuses != NodeStatus.IMPOSSIBLE) & (totals > -np.inf)[:, None]
        if 0 < self.children < values.shape[1]:
            # What a lexicon excludes has the score of the model only, the others also that of the lexicon.
            excluded = statuses == NodeStatus.NOT_IN_LEXICON
            probable = _best(values, ~excluded, self.children) | _best(values, excluded, self.children)
            recorded &= probable | (statuses >= NodeStatus.EXTENDED)
        index, tokens = np.nonzero(recorded)
        scores = np.stack([values[recorded], totals[index] + values[recorded]])
        ids = np.full(values.shape, -1)
        ids[recorded] = self._append(parents[index], rows[index], tokens, length, scores, statuses[recorded])
        return ids

    def _append(
        self,
        parents: Integers,
        rows: Integers,
        tokens: Integers,
        length: int,
        scores: Doubles,
        statuses: Statuses | None,
    ) -> Integers:
        ids = np.arange(self._next_id, self._next_id + len(rows))
        self._next_id += len(rows)
        statuses = np.full(len(rows), NodeStatus.EXTENDED, np.uint8) if statuses is None else statuses
        self._steps.append((ids, parents, rows, tokens, np.full_like(rows, length), *scores, statuses))
        return ids

    def decide(self, node: int, status: NodeStatus, score: float | None = None) -> None:
        """Set the final status, and the final score, of a node."""
        self._statuses[int(node)] = status
        if score is not None:
            self._scores[int(node)] = score

    def nodes(self, row: int) -> list[SearchNode]:
        """All candidates of a row of the batch, parents before their children."""
        nodes = []
        for step in self._steps:
            selected = step[2] == row
            for node, *fields, score, status in zip(*(array[selected].tolist() for array in step), strict=True):
                final = self._scores.get(node, score), self._statuses.get(node, NodeStatus(status))
                nodes.append(SearchNode._make((node, *fields, *final)))
        return nodes


def _best(values: Doubles, among: npt.NDArray[np.bool_], count: int) -> npt.NDArray[np.bool_]:
    """The ``count`` highest values of each row among some of them."""
    chosen = np.where(among, values, -np.inf)
    lowest = -np.partition(-chosen, count - 1, axis=1)[:, count - 1, None]
    return among & (chosen >= lowest)
