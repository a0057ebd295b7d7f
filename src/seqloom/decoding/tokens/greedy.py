"""Greedy search: the most probable token at each step."""

from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from seqloom.decoding.tokens.constraints import ConstrainedTopK
from seqloom.decoding.tokens.prefix_tree import PrefixTree
from seqloom.decoding.tokens.search import Coverage, Hypothesis, Search, Step, max_lengths
from seqloom.decoding.tokens.search_record import Fate, SearchRecord
from seqloom.decoding.tokens.stepwise import decode_stepwise


class Greedy(Search):
    """Chooses the most probable token at each step."""

    name: Literal["greedy"] = "greedy"

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
        record: SearchRecord | None = None,
    ) -> list[list[Hypothesis]]:
        """At most one hypothesis per row."""
        hypotheses = decode_stepwise(
            step,
            state,
            start,
            constraints=ConstrainedTopK(end, suppress=suppress, tree=tree),
            choose=lambda _, largest, __: largest,
            limits=max_lengths(lengths, start),
            record=record,
            row_ids=np.arange(len(start)),
            not_chosen=Fate.OUTSIDE_BEAM,
        )
        return [[] if hypothesis is None else [hypothesis] for hypothesis in hypotheses]
