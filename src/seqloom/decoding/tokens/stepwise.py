"""Decoding one token per row and step: what greedy search and sampling share."""

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from seqloom import state as states
from seqloom.decoding.tokens.constraints import (
    ROUNDING,
    ConstrainedTopK,
    StepRules,
    invalid_log_probability,
    invalid_rows,
)
from seqloom.decoding.tokens.prefix_tree import PrefixTree
from seqloom.decoding.tokens.search import (
    ChoosingStep,
    Coverage,
    Hypothesis,
    MaxGain,
    Search,
    Step,
    max_lengths,
    no_gain,
    unrestricted,
)
from seqloom.decoding.tokens.search_record import Integers, NodeStatus, SearchRecord

Choose = Callable[[npt.NDArray[np.floating], Integers, Integers], Integers]
"""Log-probabilities (R, W), the columns of the largest (R,), the rows of the batch (R,) → the chosen columns (R,)."""

Run = Callable[[Tensor, Any, int], tuple[Tensor, Tensor, Any] | None]
"""The last tokens (R,), a state and a number of steps → the most probable tokens of at most that many steps (T, R),
their log-probabilities (T, R) and the next state; None if they have to be chosen one by one."""


class StepwiseSearch(Search):
    """Chooses one token per row and step, without looking back."""

    not_chosen: ClassVar[NodeStatus]  # status of the other tokens

    @abstractmethod
    def chooser(self) -> Choose:
        """The rule by which the tokens of one search are chosen."""

    @property
    def takes_largest(self) -> bool:
        """Whether each token is the most probable one."""
        return False

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
        plain = self.takes_largest and tree is None and record is None
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
            run=_run(step, end, suppress) if plain and isinstance(step, ChoosingStep) else None,
        )
        rows = [filter(None, hypotheses[row : row + count]) for row in range(0, len(hypotheses), count)]
        return [sorted(row, key=lambda hypothesis: (-hypothesis.ended, -hypothesis.score)) for row in rows]


def _run(step: ChoosingStep, end: int, suppress: tuple[int, ...]) -> Run:
    suppressed = torch.tensor(suppress, dtype=torch.int64)

    def run(tokens: Tensor, state: Any, steps: int) -> tuple[Tensor, Tensor, Any] | None:
        return step.choose(tokens, state, end=end, suppressed=suppressed, highest=ROUNDING, steps=steps)

    return run


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
    run: Run | None = None,  # several steps at once, without a tree, a record or another choice than the largest
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
        index = np.arange(len(live))
        taken = None if run is None else run(last, state, int(limits[live].min()) - length)
        if taken is not None:
            # Several steps of the model; only the last one can finish a row, or be invalid.
            tokens_taken, log_probs, state = taken
            chosen, value = tokens_taken.numpy(), log_probs.numpy()
            _check(value[-1], row_ids[live], max_gain, length=length + len(value) - 1)
        else:
            # One step of the model, and one token for each row.
            run = None
            free = unrestricted(step, last, state) if record is not None else None
            scores, state = step(last, state)
            options, labels = constraints(scores, StepRules(nodes))
            largest = options.argmax(axis=1)
            _check(options[index, largest], row_ids[live], max_gain, length=length)
            columns = choose(options, largest, live)
            chosen = (columns if labels is None else labels[index, columns])[None]
            value = options[index, columns][None]
        steps = len(chosen)
        impossible = value[-1] == -np.inf
        if record is not None:
            rules = StepRules(nodes)
            every, statuses = constraints.statuses(scores, rules, default=not_chosen, unrestricted=free)
            statuses[index[~impossible], chosen[0, ~impossible]] = NodeStatus.EXTENDED
            added = record.add(
                record_ids, row_ids[live], length + 1, totals=totals[live], values=every, statuses=statuses
            )
            record_ids = added[index, chosen[0]]
        # Append the tokens; the arrays double when they are full.
        while length + steps > tokens.shape[1]:
            tokens, values = (np.concatenate([array, np.empty_like(array)], axis=1) for array in (tokens, values))
        tokens[live, length : length + steps] = chosen.T
        values[live, length : length + steps] = value.T
        totals[live] = np.add.accumulate([totals[live], *value.astype(np.float64)])[-1]
        length += steps
        # Collect the rows that are finished.
        ended = chosen[-1] == constraints.end
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
        last = torch.from_numpy(chosen[-1]).to(start.device)
    return hypotheses


def _check(largest: npt.NDArray[np.floating], rows: Integers, max_gain: MaxGain, *, length: int) -> None:
    """Raise an error if the largest value of a row is no log-probability."""
    invalid = invalid_rows(largest, max_gain)
    if invalid is not None:
        row = invalid.argmax()
        raise invalid_log_probability(float(largest[row]), rows[row], length=length)
