"""A decoder as the language model of a search over frames: its log-probabilities in a table that kernels read."""

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from seqloom import state as states
from seqloom.decoding.frames.language_models import NeuralLM

Integers = npt.NDArray[np.int32]
Doubles = npt.NDArray[np.float64]


class StepBatch(NamedTuple):
    """The states that one call of the step returned."""

    state: Any  # (R, …)
    length: int  # tokens that each row has read
    shapes: tuple[Any, ...]  # batches with equal shapes can be concatenated; empty: with no other


class NeuralLMTable:
    """A row of log-probabilities for each live hypothesis, and its state in the batch that computed it."""

    def __init__(self, lm: NeuralLM, *, size: int) -> None:
        self.lm = lm
        log_probs, state = self._step(np.array([lm.start]), lm.state)
        self.table: Doubles = np.zeros((2 * size, log_probs.shape[1]))
        self.table[0] = log_probs[0]
        self.states = [(_batch(state, 1), 0)] * (2 * size)  # of each row of the table: batch and index
        self.owners = np.full(2 * size, -1)  # node of each row of the table; -1: free
        self.owners[0] = 0

    def renumber(self, rows: Integers, live: Integers) -> None:
        """Set new node ids after the tree has been compacted; ``rows`` are the table rows of the live nodes."""
        self.owners[:] = -1
        self.owners[rows] = live

    def update(self, rows: Integers, live: Integers, *, parents: Integers, last_ids: Integers) -> None:
        """Give each live node a row of the table.

        ``rows`` (N,) are the rows of all nodes, -1 where there is none; ``last_ids`` are the ids of the last word, or
        token, of each live node.
        """
        missing = np.flatnonzero(rows[live] < 0)
        missing = missing[np.unique(live[missing], return_index=True)[1]]
        nodes = live[missing]
        batches = list(self._extend(rows[parents[nodes]], last_ids[missing]))
        unused = np.flatnonzero((self.owners >= 0) & ~np.isin(self.owners, live))
        rows[self.owners[unused]] = -1
        self.owners[unused] = -1
        free = iter(np.flatnonzero(self.owners < 0).tolist())
        for indices, log_probs, batch in batches:
            for at, index in enumerate(indices.tolist()):
                row, node = next(free), nodes[index]
                self.table[row], self.states[row], self.owners[row], rows[node] = log_probs[at], (batch, at), node, row

    def end_log_probs(self, rows: Integers, ids: Integers) -> Doubles:  # (R,), (R,) → (R,)
        """The log-probability of the end after one more word of each row."""
        ends = np.zeros(len(rows))
        for indices, log_probs, _ in self._extend(rows, ids):
            ends[indices] = log_probs[:, self.lm.end]
        return ends

    def _extend(self, rows: Integers, ids: Integers) -> Iterable[tuple[npt.NDArray[np.int64], Doubles, StepBatch]]:
        """One step from each row in as few calls as possible: indices, their log-probabilities and states."""
        groups: dict[Any, dict[int, list[int]]] = {}  # by length and shapes, then by batch
        for index, row in enumerate(rows.tolist()):
            batch = self.states[row][0]
            groups.setdefault((batch.length, batch.shapes or id(batch)), {}).setdefault(id(batch), []).append(index)
        for group in groups.values():
            indices = np.array([index for members in group.values() for index in members])
            parts, length = [], 0
            for members in group.values():
                batch = self.states[rows[members[0]]][0]
                length = batch.length
                parts.append(states.select(batch.state, torch.tensor([self.states[rows[at]][1] for at in members])))
            joined = parts[0] if len(parts) == 1 else states.apply(lambda *tensors: torch.cat(tensors), *parts)
            log_probs, state = self._step(ids[indices], joined)
            yield indices, log_probs, _batch(state, length + 1)

    @torch.no_grad()
    def _step(self, ids: npt.NDArray[Any], state: Any) -> tuple[Doubles, Any]:
        log_probs, next_state = self.lm.step(torch.from_numpy(ids.astype(np.int64)), state)
        return log_probs.to(torch.float64).cpu().numpy(), next_state


def _batch(state: Any, length: int) -> StepBatch:
    return StepBatch(state, length, tuple(_shapes(state)))


def _shapes(state: Any) -> list[Any]:
    """The shapes of all tensors without the batch; nothing if rows share a table, which cannot be concatenated."""
    shapes: list[Any] = []
    shared = False

    def visit(part: Any) -> None:
        nonlocal shared
        if isinstance(part, Tensor):
            shapes.append((tuple(part.shape[1:]), part.dtype))
        elif isinstance(part, states.Shared):
            shared = True
        else:
            for child in part:
                visit(child)

    visit(state)
    return [] if shared else shapes
