"""Greedy search: always the most probable symbol."""

from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from seqloom.decoding.tokens.constraints import ConstrainedTopK
from seqloom.decoding.tokens.prefix_tree import PrefixTree
from seqloom.decoding.tokens.search import Coverage, Hypothesis, Search, Step, limits
from seqloom.decoding.tokens.search_record import Fate, SearchRecord
from seqloom.decoding.tokens.stepwise import decode_stepwise


class Greedy(Search):
    """Takes the most probable symbol, again and again."""

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
        never: tuple[int, ...] = (),
        tree: PrefixTree | None = None,
        coverage: Coverage | None = None,  # noqa: ARG002  there is nothing to choose in the end
        record: SearchRecord | None = None,
    ) -> list[list[Hypothesis]]:
        """At most one hypothesis of each row."""
        found = decode_stepwise(
            step,
            state,
            start,
            allowed=ConstrainedTopK(end, never=never, tree=tree),
            choose=lambda _, largest, __: largest,
            limits=limits(lengths, start),
            record=record,
            names=np.arange(len(start)),
            lost=Fate.BEAM,
        )
        return [[] if hypothesis is None else [hypothesis] for hypothesis in found]
