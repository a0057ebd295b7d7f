"""Decoding one token per row and step: what greedy search and sampling share."""

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from seqloom import state as states
from seqloom.decoding.tokens.constraints import ConstrainedTopK, StepRules, invalid_log_probability, invalid_rows
from seqloom.decoding.tokens.prefix_tree import PrefixTree
from seqloom.decoding.tokens.search import Coverage, Hypothesis, MaxGain, Search, Step, max_lengths, no_gain
from seqloom.decoding.tokens.search_record import Integers, NodeStatus, SearchRecord

Choose = Callable[[npt.NDArray[np.floating], Integers, Integers], Integers]
"""Log-probabilities (R, W), the columns of the largest (R,), the rows of the batch (R,) → the chosen columns (R,)."""


class StepwiseSearch(Search):
    """Chooses one token per row and step, without looking back."""

    not_chosen: ClassVar[NodeStatus]  # status of the other tokens

    @abstractmethod
    def chooser(self) -> Choose:
        """The rule by which the tokens of one search are chosen."""

    def sequences_per_row(self) -> int:
        return 1

    @torch.no_grad()
    def __call__(
        self,
        step: Step,
        state: Any,
        start: Tensor,  # (B,)
        end: int,
        *,
        lengths: Tensor | int,
        suppress: tuple[int, ...] = (),
        tree: PrefixTree | None = None,
        coverage: Coverage | None = None,  # noqa: ARG002  there are no finished hypotheses to rank
        max_gain: MaxGain = no_gain,
        record: SearchRecord | None = None,
    ) -> list[list[Hypothesis]]:
        """The sequences of each row, the most probable first."""
        count = self.sequences_per_row()
        hypotheses = decode_stepwise(
            step,
            states.repeat(state, count) if count > 1 else state,
            start.repeat_interleave(count),
            constraints=ConstrainedTopK(end, suppress=suppress, tree=tree),
            choose=self.chooser(),
            limits=max_lengths(lengths, start).repeat(count),
            max_gain=max_gain,
            record=record,
            row_ids=np.arange(len(start)).repeat(count),
            not_chosen=self.not_chosen,
        )
        rows = [filter(None, hypotheses[row : row + count]) for row in range(0, len(hypotheses), count)]
        return [sorted(row, key=lambda hypothesis: (-hypothesis.ended, -hypothesis.score)) for row in rows]


def decode_stepwise(
    step: Step,
    state: Any,
    start: Tensor,  # (B,)
    *,
    constraints: ConstrainedTopK,
    choose: Choose,
    limits: Integers,  # (B,), maximum lengths
    max_gain: MaxGain,
    record: SearchRecord | None,
    row_ids: Integers,  # (B,), rows as the record and error messages number them
    not_chosen: NodeStatus,  # status of the other tokens
) -> list[Hypothesis | None]:
    """The hypothesis of each row; None where no sequence is possible."""
    hypotheses: list[Hypothesis | None] = [None] * len(start)
    record_ids = np.zeros_like(row_ids) if record is None else record.start(row_ids)
    for row in np.flatnonzero(limits == 0):
        hypotheses[row] = Hypothesis([], 0.0, 0.0, [], ended=False) if constraints.tree is None else None
        if record is not None:
            record.decide(record_ids[row], NodeStatus.TRUNCATED if hypotheses[row] is None else NodeStatus.IN_NBEST)
    tokens, values = np.empty((len(start), 16), np.int64), np.empty((len(start), 16))
    totals, nodes = np.zeros(len(start)), np.zeros(len(start), np.int64)
    last, live, length = start, np.arange(len(start)), 0
    kept = np.flatnonzero(limits)
    while len(kept):
        # Finished rows leave the batch.
        if len(kept) < len(live):
            rows = torch.from_numpy(kept).to(start.device)
            state, last = states.select(state, rows), last.index_select(0, rows)
            live, nodes, record_ids = live[kept], nodes[kept], record_ids[kept]
        # One step of the model, and one token for each row.
        scores, state = step(last, state)
        options, labels = constraints(scores, StepRules(nodes))
        index, largest = np.arange(len(live)), options.argmax(axis=1)
        if (invalid := invalid_rows(options[index, largest], max_gain)) is not None:
            row = invalid.argmax()
            raise invalid_log_probability(float(options[row, largest[row]]), row_ids[live[row]], length=length)
        columns = choose(options, largest, live)
        chosen = columns if labels is None else labels[index, columns]
        value = options[index, columns]
        impossible = value == -np.inf
        if record is not None:
            every, statuses = constraints.statuses(scores, StepRules(nodes), default=not_chosen)
            statuses[index[~impossible], chosen[~impossible]] = NodeStatus.EXTENDED
            added = record.add(
                record_ids, row_ids[live], length + 1, totals=totals[live], values=every, statuses=statuses
            )
            record_ids = added[index, chosen]
        # Append the tokens; the arrays double when they are full.
        if length == tokens.shape[1]:
            tokens, values = (np.concatenate([array, np.empty_like(array)], axis=1) for array in (tokens, values))
        tokens[live, length] = chosen
        values[live, length] = value
        totals[live] += value
        length += 1
        # Collect the rows that are finished.
        ended = chosen == constraints.end
        done = ended | impossible | (limits[live] == length)
        kept = index
        if done.any():
            kept = np.flatnonzero(~done)
            for position in np.flatnonzero(done & ~impossible):
                row, complete = live[position], bool(ended[position])
                if complete or constraints.tree is None:
                    total = float(totals[row])
                    hypotheses[row] = Hypothesis(
                        tokens[row, : length - complete].tolist(),
                        score=total,
                        log_probability=total,
                        log_probabilities=values[row, :length].tolist(),
                        ended=complete,
                    )
                if record is not None:
                    record.decide(
                        record_ids[position], NodeStatus.TRUNCATED if hypotheses[row] is None else NodeStatus.IN_NBEST
                    )
        if constraints.tree is not None:
            nodes = constraints.tree.child(nodes, columns)
        last = torch.from_numpy(chosen).to(start.device)
    return hypotheses
