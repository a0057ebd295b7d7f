"""Greedy search: always the most probable symbol."""

from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from seqloom.decoding.allowed import Allowed
from seqloom.decoding.record import Fate, Record
from seqloom.decoding.search import Coverage, Hypothesis, Search, Step, limits
from seqloom.decoding.tree import PrefixTree
from seqloom.decoding.walk import walk


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
        record: Record | None = None,
    ) -> list[list[Hypothesis]]:
        """At most one hypothesis of each row."""
        found = walk(
            step,
            state,
            start,
            allowed=Allowed(end, never=never, tree=tree),
            choose=lambda _, largest, __: largest,
            limits=limits(lengths, start),
            record=record,
            names=np.arange(len(start)),
            lost=Fate.BEAM,
        )
        return [[] if hypothesis is None else [hypothesis] for hypothesis in found]
