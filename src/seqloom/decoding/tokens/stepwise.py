"""Decoding one token per row and step: what greedy search and sampling share."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from seqloom import state as states
from seqloom.decoding.tokens.constraints import ConstrainedTopK, StepRules, invalid_log_probability, invalid_rows
from seqloom.decoding.tokens.search import Hypothesis, Step
from seqloom.decoding.tokens.search_record import Fate, Integers, SearchRecord

Choose = Callable[[npt.NDArray[np.floating], Integers, Integers], Integers]
"""Log-probabilities (R, W), the columns of the largest (R,), the rows of the batch (R,) → the chosen columns (R,)."""


def decode_stepwise(
    step: Step,
    state: Any,
    start: Tensor,  # (B,)
    *,
    constraints: ConstrainedTopK,
    choose: Choose,
    limits: Integers,  # (B,), maximum lengths
    record: SearchRecord | None,
    row_ids: Integers,  # (B,), rows as the record and error messages number them
    not_chosen: Fate,  # fate of the other tokens
) -> list[Hypothesis | None]:
    """The hypothesis of each row; None where no sequence is possible."""
    hypotheses: list[Hypothesis | None] = [None] * len(start)
    record_ids = np.zeros_like(row_ids) if record is None else record.start(row_ids)
    for row in np.flatnonzero(limits == 0):
        hypotheses[row] = Hypothesis([], 0.0, 0.0, [], ended=False) if constraints.tree is None else None
        if record is not None:
            record.decide(record_ids[row], Fate.TRUNCATED if hypotheses[row] is None else Fate.IN_NBEST)
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
        if (invalid := invalid_rows(options[index, largest])) is not None:
            row = invalid.argmax()
            raise invalid_log_probability(float(options[row, largest[row]]), row_ids[live[row]], length=length)
        columns = choose(options, largest, live)
        chosen = columns if labels is None else labels[index, columns]
        value = options[index, columns]
        impossible = value == -np.inf
        if record is not None:
            every, fates = constraints.fates(scores, StepRules(nodes), default=not_chosen)
            fates[index[~impossible], chosen[~impossible]] = Fate.EXTENDED
            added = record.add(record_ids, row_ids[live], length + 1, totals=totals[live], values=every, fates=fates)
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
                    record.decide(record_ids[position], Fate.TRUNCATED if hypotheses[row] is None else Fate.IN_NBEST)
        if constraints.tree is not None:
            nodes = constraints.tree.child(nodes, columns)
        last = torch.from_numpy(chosen).to(start.device)
    return hypotheses
