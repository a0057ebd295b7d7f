"""One symbol after the other, each row for itself: what greedy search and sampling share."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from seqloom import state as states
from seqloom.decoding.tokens.constraints import ConstrainedTopK, Rules, refuse, wrong
from seqloom.decoding.tokens.search import Hypothesis, Step
from seqloom.decoding.tokens.search_record import Fate, Integers, SearchRecord

Choose = Callable[[npt.NDArray[np.floating], Integers, Integers], Integers]
"""Log-probabilities (R, W), the columns of the largest (R,), the rows of the batch (R,) → the columns chosen (R,)."""


def decode_stepwise(
    step: Step,
    state: Any,
    start: Tensor,  # (B,)
    *,
    allowed: ConstrainedTopK,
    choose: Choose,
    limits: Integers,  # (B,)
    record: SearchRecord | None,
    names: Integers,  # (B,), what the record and errors call the rows
    lost: Fate,  # of what was not chosen
) -> list[Hypothesis | None]:
    """Where each row leads to; None where it leads nowhere."""
    found: list[Hypothesis | None] = [None] * len(start)
    numbers = np.zeros_like(names) if record is None else record.begin(names)
    for row in np.flatnonzero(limits == 0):
        found[row] = Hypothesis([], 0.0, 0.0, [], ended=False) if allowed.tree is None else None
        if record is not None:
            record.decide(numbers[row], Fate.CUT if found[row] is None else Fate.BEST)
    symbols, values = np.empty((len(start), 16), np.int64), np.empty((len(start), 16))
    totals, nodes = np.zeros(len(start)), np.zeros(len(start), np.int64)
    last, alive, length = start, np.arange(len(start)), 0
    kept = np.flatnonzero(limits)
    while len(kept):
        if len(kept) < len(alive):
            rows = torch.from_numpy(kept).to(start.device)
            state, last = states.select(state, rows), last.index_select(0, rows)
            alive, nodes, numbers = alive[kept], nodes[kept], numbers[kept]
        scores, state = step(last, state)
        options, labels = allowed(scores, Rules(nodes))
        index, largest = np.arange(len(alive)), options.argmax(axis=1)
        if (bad := wrong(options[index, largest])) is not None:
            place = bad.argmax()
            raise refuse(float(options[place, largest[place]]), names[alive[place]], length=length)
        columns = choose(options, largest, alive)
        chosen = columns if labels is None else labels[index, columns]
        value = options[index, columns]
        stuck = value == -np.inf
        if record is not None:
            every, fates = allowed.fates(scores, Rules(nodes), default=lost)
            fates[index[~stuck], chosen[~stuck]] = Fate.EXTENDED
            added = record.add(numbers, names[alive], length + 1, totals=totals[alive], values=every, fates=fates)
            numbers = added[index, chosen]
        if length == symbols.shape[1]:
            symbols, values = (np.concatenate([array, np.empty_like(array)], axis=1) for array in (symbols, values))
        symbols[alive, length] = chosen
        values[alive, length] = value
        totals[alive] += value
        length += 1
        ended = chosen == allowed.end
        done = ended | stuck | (limits[alive] == length)
        kept = index
        if done.any():
            kept = np.flatnonzero(~done)
            for place in np.flatnonzero(done & ~stuck):
                row, complete = alive[place], bool(ended[place])
                if complete or allowed.tree is None:
                    total, each = float(totals[row]), values[row, :length].tolist()
                    tokens = symbols[row, : length - complete].tolist()
                    found[row] = Hypothesis(tokens, total, total, each, ended=complete)
                if record is not None:
                    record.decide(numbers[place], Fate.CUT if found[row] is None else Fate.BEST)
        if allowed.tree is not None:
            nodes = allowed.tree.follow(nodes, columns)
        last = torch.from_numpy(chosen).to(start.device)
    return found
